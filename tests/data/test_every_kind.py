"""The same data gives the same answer as whatever it comes; whatever a file holds, the command line survives it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from sparsemean import SparseMean, SparseMeanDifference, simulate
from sparsemean._data import as_table, open_file
from sparsemean._fit.one_sample import fit
from sparsemean.errors import MOST_LINES
from sparsemean.result import Estimate

import kinds
from command import run
from conftest import Claims
from fuzzed import damaged

DATA = simulate.make_contaminated(330, 40, [6, -5, 0, 4], random_state=0)
ZEROS = np.where(np.random.default_rng(1).random(DATA.X.shape) < 0.6, 0.0, DATA.X)
EXACT = ("support", "p_values", "p_adjusted", "q_values", "radius", "bucket_size", "beta", "entry_time")
CLOSE = ("mean", "intervals")
INPUTS = {"dense": DATA.X, "zeros": ZEROS, "float32": DATA.X.astype(np.float32)}


def assert_same(found: Estimate, expected: Estimate) -> None:
    for name in EXACT:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    for name in CLOSE:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, err_msg=name)
    np.testing.assert_array_equal(found.rows.suspects, expected.rows.suspects)


@pytest.fixture(scope="module")
def expected() -> dict[str, Estimate]:
    return {name: fit(as_table(X), contamination=0.1, random_state=0) for name, X in INPUTS.items()}


@pytest.mark.parametrize("kind", kinds.FILES)
@pytest.mark.parametrize("values", ["dense", "zeros"])
def test_every_file_gives_the_answer_of_the_array(
    kind: str, values: str, tmp_path: Path, expected: dict[str, Estimate]
) -> None:
    path = kinds.written(kind, tmp_path, INPUTS[values])
    table = open_file(path)
    found = fit(table, contamination=0.1, random_state=0)
    assert_same(found, expected[values])
    for ask in ("interval", "trajectory"):  # features in any order, one of them twice
        asked = [getattr(result, ask)([7, 2, 30, 2]) for result in (found, expected[values])]
        np.testing.assert_allclose(*asked, rtol=1e-12)
    if path.name.endswith(kinds.NAMES_KEPT):
        assert table.feature_names.tolist() == kinds.names(40)


@pytest.mark.parametrize("kind", kinds.OBJECTS)
@pytest.mark.parametrize("values", ["dense", "zeros", "float32"])
def test_every_object_gives_the_answer_of_the_array(kind: str, values: str, expected: dict[str, Estimate]) -> None:
    X = kinds.OBJECTS[kind](INPUTS[values])
    est = SparseMean(contamination=0.1, random_state=0).fit(X)
    assert_same(est.result_, expected[values])
    if kind not in ("numpy by columns", "CSR", "CSC", "COO"):
        assert est.result_.table()["feature"].tolist()[0] in {"feature 0", "feature 1", "feature 3"}
        assert est.get_feature_names_out().tolist() == [f"feature {i}" for i in expected[values].support]
    assert est.n_features_in_ == 40
    kept = est.transform(X)
    kept = kept.toarray() if hasattr(kept, "toarray") else np.asarray(kept)
    np.testing.assert_array_equal(kept, INPUTS[values][:, est.support_])


@pytest.mark.parametrize("kind", kinds.OBJECTS)
def test_two_groups_of_every_object(kind: str) -> None:
    labels = np.arange(330) % 2
    X = ZEROS.copy()
    X[labels == 1, :3] += 2.0
    found = SparseMeanDifference(0.03).fit(kinds.OBJECTS[kind](X), labels)
    assert_same(found.result_, SparseMeanDifference(0.03).fit(X, labels).result_)
    assert found.support_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", kinds.FILES)
def test_fuzzed_files_end_in_an_answer_or_in_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], long_version: bool, claims: Claims
) -> None:
    whole = kinds.written(kind, tmp_path, ZEROS[:70, :6])
    rng = np.random.default_rng(list(kinds.FILES).index(kind))
    trials, refused = (130 if long_version else 10), 0
    for trial in range(trials):
        target = tmp_path / f"damaged{trial}{kinds.FILES[kind][0]}"
        _damage(whole, target, rng)
        status = run("fit", target, "--seed", "0", *(("--missing", "omit") if trial % 2 else ()))
        said = capsys.readouterr().err
        assert status in (0, 2), (trial, said)
        assert (1 <= said.count("\n") <= MOST_LINES) if status == 2 else not said, said
        assert "internal error" not in said
        refused += status == 2
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    claims.add(f"fuzzed files, {kind}", f"{trials} files, {refused} refused in one line", "exit 0 or 2, no crash", 0)


def _damage(whole: Path, target: Path, rng: np.random.Generator) -> None:
    """Write a damaged copy of a file, or of one file of a folder."""
    if not whole.is_dir():
        target.write_bytes(damaged(whole.read_bytes(), rng))
        return
    shutil.copytree(whole, target)
    parts = sorted(part for part in target.rglob("*") if part.is_file())
    part = parts[rng.integers(len(parts))]
    part.write_bytes(damaged(part.read_bytes(), rng))
