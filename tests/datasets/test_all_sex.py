from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest

from sparsemean._util.checks import Bunch
from sparsemean.datasets import load_all_sex

Y_LINKED = ["37583_at", "38355_at", "41214_at", "34477_at", "35885_at"]
CONTRADICTED = ["04016", "22010", "26003", "28024", "36002", "19008"]


@pytest.fixture(scope="module")
def data() -> Bunch:
    return load_all_sex()


def column(data: Bunch, probe: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    (index,) = np.flatnonzero(data.features == probe)
    return np.asarray(data.X[:, index])


def test_shapes_and_types(data: Bunch) -> None:
    assert list(data) == ["X", "y", "features", "samples", "DESCR"]
    assert data.X.shape == (125, 12625)
    assert data.X.dtype == np.float64
    assert data.y.shape == data.samples.shape == (125,)
    assert data.features.shape == (12625,)
    assert all(names.dtype.kind == "U" for names in (data.y, data.features, data.samples))
    assert np.unique(data.samples).size == 125
    assert np.unique(data.features).size == 12625


def test_values_are_the_stored_ones(data: Bunch) -> None:
    milli = np.rint(data.X * 1000).astype(np.int64)
    np.testing.assert_array_equal(data.X, milli / 1000)
    assert milli.sum() == 8_876_571_707
    assert (milli.min(), milli.max()) == (1985, 14127)
    np.testing.assert_array_equal(milli[0, :3], [7597, 5046, 3900])
    assert (data.samples[0], data.y[0], data.features[0]) == ("01005", "M", "1000_at")


def test_sexes_are_42_women_and_83_men(data: Bunch) -> None:
    assert dict(zip(*np.unique(data.y, return_counts=True), strict=True)) == {"F": 42, "M": 83}


def test_xist_is_higher_in_women(data: Bunch) -> None:
    xist = column(data, "38446_at")
    women, men = xist[data.y == "F"], xist[data.y == "M"]
    assert np.median(women) - np.median(men) == pytest.approx(5.8565 - 3.279)
    assert np.mean(women[:, None] > men) > 0.9


@pytest.mark.parametrize("probe", Y_LINKED)
def test_y_linked_probes_are_higher_in_men(data: Bunch, probe: str) -> None:
    values = column(data, probe)
    assert np.mean(values[data.y == "M"][:, None] > values[data.y == "F"]) > 0.9


def test_the_listed_patients_contradict_their_labels(data: Bunch) -> None:
    """Between its recorded sex's and the other's median, each is on the wrong side for a Y-linked probe."""
    values = column(data, "41214_at")
    men, women = (np.median(values[data.y == sex]) for sex in "MF")
    looks = np.where(values > (men + women) / 2, "M", "F")
    wrong = data.samples[looks != data.y]
    assert set(wrong) <= set(CONTRADICTED)
    assert len(wrong) >= 5


def test_description_and_licence_name_source_and_labels(data: Bunch) -> None:
    licence = files("sparsemean.datasets").joinpath("ALL_SEX_LICENSE.md").read_text(encoding="utf-8")
    for text in (data.DESCR, licence):
        assert "Bioconductor" in text
        assert "Artistic" in text
        assert "Chiaretti" in text
    assert all(sample in data.DESCR for sample in CONTRADICTED)


def test_each_call_gives_its_own_arrays(data: Bunch) -> None:
    other = load_all_sex()
    assert not np.shares_memory(other.X, data.X)
