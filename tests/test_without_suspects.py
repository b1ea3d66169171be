"""`without_suspects`: a fit of the rows that are left, whatever was fitted; it says that it promises nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sparsemean import Comparison, InputError, SparseMean, SparseMeanDifference, load, sketch, sparse_mean
from sparsemean._util.records import RowScores
from sparsemean.result._report.guarantees import guarantees_of
from sparsemean.result._report.wording import wording_of

SAME = ("support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination", "mean", "intervals")
NAMES = [f"row {k}" for k in range(120)]
SUBJECTS = np.repeat(np.arange(60), 2)
SITES = np.repeat(np.arange(3), 40)
ARMS = np.arange(120) // 10 % 2
THREE = np.arange(120) % 3


def rows(bad: int = 6, seed: int = 0) -> np.ndarray:
    """Three columns of forty have a mean, six rows lie off together."""
    X = np.random.default_rng(seed).standard_t(4, (120, 40)).round(4)
    X[:, :3] += (1.5, -1.0, 0.6)
    X[:bad] += 4.0
    return X


def labelled(codes: np.ndarray, swapped: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Half of thirty columns differ by label; some rows have the label of the next class."""
    X = np.random.default_rng(1).standard_normal((codes.size, 30)).round(4)
    X[:, :15] += 2.5 * codes[:, np.newaxis]
    told = codes.copy()
    told[list(swapped)] = (told[list(swapped)] + 1) % (int(codes.max()) + 1)
    return X, told


def same(one: Any, other: Any) -> None:
    for name in SAME:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


class Case(NamedTuple):
    """A fit, and a fit of chosen rows as if none of them were bad."""

    fit: Callable[[], Any]
    again: Callable[[np.ndarray], Any]


X = rows()
GAPS = np.where(np.random.default_rng(2).random(X.shape) < 0.02, np.nan, X)
COUNTS = sparse.csr_array(np.where(np.abs(X) < 0.7, 0.0, X))
TWO, TOLD = labelled(ARMS, (3, 7, 58))
BEFORE = TWO + np.random.default_rng(3).standard_normal(TWO.shape)


def one(data: Any, **options: Any) -> Case:
    return Case(lambda: sparse_mean(data, **options), lambda kept: sparse_mean(data[kept], contamination=0, **options))


def two(data: Any, told: np.ndarray, **options: Any) -> Case:
    """Compare groups; what there is a value a row of in ``by_row`` is for the rows that are left."""
    by_row = {name: options.pop(name) for name in ("strata", "groups") if name in options}

    def fit(kept: Any, contamination: Any) -> Any:
        given = {name: value[kept] for name, value in by_row.items()}
        return SparseMeanDifference(contamination, **options).fit(data[kept], told[kept], **given).result_

    return Case(lambda: fit(slice(None), "auto"), lambda kept: fit(kept, 0.0))


CASES = {
    "ranks": one(X),
    "buckets": one(X, test="buckets"),
    "fdr, one side": one(X, selection="fdr", alternative="greater", min_effect=0.1),
    "null values": one(X, null=0.25, refine=None),
    "paper": one(X, selection="paper", n_buckets=48),
    "mean": one(X, target="mean", scale=4.0),
    "mean, scale from rows": one(np.vstack((X, *(rows(0, seed) for seed in range(1, 9)))), target="mean"),
    "gaps": one(GAPS, missing="omit"),
    "sparse": one(COUNTS),
    "by columns": one(np.asfortranarray(X.astype(np.float32))),
    "two groups": two(TWO, TOLD),
    "two groups, by name": two(TWO, np.array(["no", "yes"])[TOLD], reference="yes", selection="fdr_by"),
    "two groups, sparse": two(sparse.csc_array(np.where(np.abs(TWO) < 0.5, 0, TWO)), TOLD),
    "strata": two(TWO, TOLD, strata=SITES),
    "means of groups": two(TWO, TOLD, target="mean", scale=3.0),
}


@pytest.mark.parametrize("kind", CASES)
def test_it_is_a_fit_of_the_rows_that_are_left(kind: str) -> None:
    fitted = CASES[kind].fit()
    assert fitted.rows.suspects.size >= 3
    kept = np.delete(np.arange(fitted.plan.n_rows), fitted.rows.suspects)
    again = fitted.without_suspects()
    same(again, CASES[kind].again(kept))
    assert not again.plan.auto
    assert again.plan.bad_rows == 0
    assert again.plan.n_rows == kept.size
    assert again.row_names(range(kept.size)) == [str(row) for row in kept]
    features = again.support[:2]
    assert np.isfinite(again.interval(features)).any() or not features.size


def test_rows_keep_their_names_and_features_theirs() -> None:
    frame = pd.DataFrame(X, index=NAMES, columns=[f"f{k}" for k in range(40)])
    again = SparseMean().fit(frame).result_.without_suspects()
    assert again.row_names([0, 1]) == ["row 6", "row 7"]
    assert again.table()["feature"].tolist()[0] == "f0"


def test_subjects_go_as_a_whole() -> None:
    found = sparse_mean(X, groups=SUBJECTS)
    assert sorted(found.rows.suspects) == list(range(6))
    again = found.without_suspects()
    same(again, sparse_mean(X[6:], groups=SUBJECTS[6:], contamination=0))
    assert "3 suspected subjects were taken out" in "".join(again.status.messages)


def test_subjects_of_groups_are_the_means_that_were_compared() -> None:
    codes = np.arange(40) % 2
    X, told = labelled(np.repeat(codes, 3), (0, 1, 2, 15, 16, 17))
    found = SparseMeanDifference().fit(X, told, groups=np.repeat(np.arange(40), 3)).result_
    assert found.rows.suspects.size
    assert set(found.rows.suspects) <= {0, 5}
    kept = np.delete(np.arange(40), found.rows.suspects)
    means = X.reshape(40, 3, -1).mean(axis=1)
    again = found.without_suspects()
    np.testing.assert_array_equal(again.support, SparseMeanDifference(0.0).fit(means[kept], told[::3][kept]).support_)
    assert "subjects of 1" in again.summary()


def test_pairs_are_taken_out_as_pairs() -> None:
    both = np.concatenate((np.random.default_rng(1).standard_normal(X.shape), X))
    both[120:] += both[:120]
    y, pairs = np.repeat((0, 1), 120), np.tile(np.arange(120), 2)
    found = SparseMeanDifference().fit(both, y, pairs=pairs).result_
    assert sorted(found.rows.suspects) == list(range(6))
    kept = np.delete(np.arange(240), [*range(6), *range(120, 126)])
    again = found.without_suspects()
    same(again, SparseMeanDifference(0.0).fit(both[kept], y[kept], pairs=pairs[kept]).result_)
    assert again.paired
    assert "6 suspected pairs were taken out" in "".join(again.status.messages)


def test_adjusted_values_stay_adjusted() -> None:
    found = SparseMeanDifference().fit(TWO, TOLD, covariate=BEFORE).result_
    again = found.without_suspects()
    np.testing.assert_array_equal(again.theta, found.theta)
    given = pickle.loads(pickle.dumps(found)).without_suspects(TWO, covariate=BEFORE)
    same(again, given)


@pytest.mark.parametrize("reference", [None, "pairs", "b"])
def test_several_tests_lose_the_suspects_of_all(reference: str | None) -> None:
    X, told = labelled(THREE, (4, 50))
    names = np.array(["a", "b", "c"])
    found = SparseMeanDifference(reference=reference).fit(X, names[told]).result_
    assert isinstance(found, Comparison)
    kept = np.delete(np.arange(120), found.rows.suspects)
    assert kept.size <= 118
    told_again = SparseMeanDifference(0.0, reference=reference).fit(X[kept], names[told][kept]).result_
    again = found.without_suspects()
    assert isinstance(again, Comparison)
    assert list(again.results) == list(told_again.results)
    for key, estimate in told_again.results.items():
        same(again.results[key], estimate)
    with pytest.raises(InputError, match="be that of all tests, which share the error"):
        next(iter(found.results.values())).without_suspects()
    assert again.summary().startswith("NOT GUARANTEED: ")


def test_strata_that_lose_a_label_are_left_out() -> None:
    told = ARMS.copy()
    told[4] = 1 - told[3]
    sites = np.where(np.isin(np.arange(120), [3, 4]), 9, SITES)
    fitted = SparseMeanDifference().fit(TWO, told, strata=sites).result_
    rows = RowScores(np.zeros(120), np.ones(120), np.array([3, 50]))  # row 4 is then alone in its stratum
    again = replace(fitted, rows=rows).without_suspects()
    kept = np.delete(np.arange(120), [3, 4, 50])
    same(again, SparseMeanDifference(0.0).fit(TWO[kept], told[kept], strata=sites[kept]).result_)
    with pytest.raises(InputError, match="leave 2 rows or more of each group without its suspects"):
        replace(fitted, rows=replace(rows, suspects=np.flatnonzero(told))).without_suspects()


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet", "dask", "dask in pieces"])
def test_files_and_chunks(kind: str, tmp_path: Path) -> None:
    from sparsemean._data import open_file
    from sparsemean._fit.one_sample import fit

    path, frame = tmp_path / f"x.{kind}", pd.DataFrame(X, columns=[f"f{k}" for k in range(40)])
    if kind.startswith("dask"):
        again = sparse_mean(da.from_array(X, chunks=(50, 17) if "pieces" in kind else X.shape)).without_suspects()
        same(again, sparse_mean(X[6:], contamination=0))
        return
    if kind == "npy":
        np.save(path, X)
    else:
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    same(fit(open_file(path)).without_suspects(), sparse_mean(X[6:], contamination=0))


def test_without_suspects_it_is_the_estimate_of_all_rows() -> None:
    clean = rows(0)
    found = sparse_mean(clean)
    again = found.without_suspects()
    same(again, sparse_mean(clean, contamination=0))
    assert "guaranteed" not in again.summary()


def test_it_says_what_it_is(tmp_path: Path) -> None:
    found = sparse_mean(X)
    again = found.without_suspects()
    assert again.status.messages[0].startswith("NOT GUARANTEED: 6 suspected rows were taken out")
    assert again.summary().startswith("NOT GUARANTEED: 6 suspected rows were taken out")
    assert str(again).startswith("NOT GUARANTEED")
    assert guarantees_of(wording_of(again)).guaranteed == [
        "Nothing: suspects were taken out by looking at the values, which makes chance look like signal."
    ]
    assert "With probability" not in again.summary()
    again.report(tmp_path / "page.html")
    assert "NOT GUARANTEED: 6 suspected rows" in (tmp_path / "page.html").read_text(encoding="utf-8")
    again.save(tmp_path / "again.npz")
    assert str(load(tmp_path / "again.npz")).startswith("NOT GUARANTEED")
    assert "guaranteed" not in found.at(0.0).summary().splitlines()[0]


def test_rows_that_are_gone_are_given_again(tmp_path: Path) -> None:
    found = sparse_mean(X)
    found.save(tmp_path / "found.npz")
    for gone in (load(tmp_path / "found.npz"), pickle.loads(pickle.dumps(found))):
        with pytest.raises(InputError, match="X must be given, as this estimate does not keep its data"):
            gone.without_suspects()
        with pytest.raises(InputError, match="be the data of the fit"):
            gone.without_suspects(X[::-1])
        same(gone.without_suspects(X), found.without_suspects())


def test_what_cannot_be_done_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="be of rows that were judged: got one of counts alone"):
        sketch(X).estimate(contamination=0).without_suspects()
    scaled = sparse_mean(X, target="mean", scale=4.0)
    scaled.save(tmp_path / "scaled.npz")
    with pytest.raises(InputError, match="still have its scale="):
        load(tmp_path / "scaled.npz").without_suspects(X)
    same(sketch(X).estimate(X).without_suspects(), sparse_mean(X[6:], test="buckets", contamination=0))


def test_one_swapped_pair_of_labels_and_all_three_numbers() -> None:
    """20 and 20 samples: what is certified, what there is if no label is wrong, what there is without the pair."""
    numbers = np.zeros(3)
    for seed in range(10_000, 10_010):
        rng, y = np.random.default_rng(seed), np.repeat((0, 1), 20)
        samples = rng.standard_normal((40, 1000))
        samples[20:, :30] += 2.0
        y[[3, 27]] = y[[27, 3]]
        found = SparseMeanDifference().fit(samples, y).result_
        assert found.plan.bad_by_group == (1, 1)
        assert set(found.rows.suspects) <= {3, 27}
        numbers += [each.support.size / 10 for each in (found, found.at(0.0), found.without_suspects())]
    certified, clean, without = numbers
    assert certified <= 2
    assert 18 <= clean <= 24
    assert without >= clean + 4
