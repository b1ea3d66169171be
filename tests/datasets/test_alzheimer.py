from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest

from sparsemean import SparseMeanDifference
from sparsemean._util.checks import Bunch
from sparsemean.datasets import load_alzheimer


@pytest.fixture(scope="module")
def data() -> Bunch:
    return load_alzheimer()


def test_shapes_types_and_groups(data: Bunch) -> None:
    assert list(data) == ["X", "y", "features", "DESCR"]
    assert (data.X.shape, data.X.dtype) == ((333, 127), np.float64)
    assert np.isfinite(data.X).all()
    assert np.unique(data.features).size == 127
    assert dict(zip(*np.unique(data.y, return_counts=True), strict=True)) == {"Control": 242, "Impaired": 91}


def test_values_are_those_of_the_package(data: Bunch) -> None:
    """First person, first and last assay, and a sum over all, as R prints them."""
    assert (data.features[0], data.features[-1]) == ("ACE_CD143_Angiotensin_Converti", "Ab_42")
    np.testing.assert_allclose(data.X[0, [0, -1]], [2.0031003, 12.0196782], atol=1e-6)
    assert data.X.sum() == pytest.approx(112420.435587, abs=1e-5)


def test_the_known_markers_are_the_strongest(data: Bunch) -> None:
    est = SparseMeanDifference().fit(data.X, data.y)
    found = est.result_.table()
    strongest = list(data.features[found["feature"][:4]])  # MMP10 is third by Mann and Whitney's test, too
    assert strongest == ["tau", "Ab_42", "MMP10", "p_tau"]
    assert list(np.sign(found["estimate"][:4])) == [1, -1, 1, 1]
    assert len(found) >= 15  # with contamination named as 0.05 there were 2


def test_description_and_licence_name_source_and_study(data: Bunch) -> None:
    licence = files("sparsemean.datasets").joinpath("ALZHEIMER_LICENSE.md").read_text(encoding="utf-8")
    for text in (data.DESCR, licence):
        assert all(word in text for word in ("modeldata", "MIT", "Craig-Schapiro"))
    assert "Permission is hereby granted" in licence
