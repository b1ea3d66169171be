"""Common flips and permutations against plain code with t itself, over all that there are, and what follows."""

from __future__ import annotations

import itertools
import math
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import ndimage, sparse, stats

from sparsemean import SparseMean, SparseMeanDifference, certify, load, sketch, sparse_mean
from sparsemean._data import source
from sparsemean._stats import maxt
from sparsemean._stats.decision import Holm, MaxT, decide
from sparsemean._stats.maxt import Randomization, draws_for
from sparsemean._stats.maxt import step_down as of_columns
from sparsemean._util.plans import BadRows, Side
from sparsemean.errors import InputError
from sparsemean.result._report.guarantees import TOGETHER, guarantees_of
from sparsemean.result._report.wording import wording_of


def step_down(X: np.ndarray, how: Randomization, **options: Any) -> np.ndarray:
    """Return adjusted p-values of the columns of an array."""
    return of_columns(lambda columns: (X[:, columns].astype(float), np.zeros(columns.size)), X.shape[1], how, **options)


def smooth(n: int, seed: int) -> np.ndarray:
    """Return noise that is alike in neighbours, a row each."""
    return ndimage.gaussian_filter1d(np.random.default_rng(seed).standard_normal((n, 1100)), 2, axis=1)


def drawn(how: Randomization) -> np.ndarray:
    """Return all signs that are compared, those of the data first where they are not among them."""
    parts = [how.drawn(slice(a, min(a + 256, how.number))) for a in range(0, how.number, 256)]
    return np.concatenate([*([] if how.exact else [how.signs[:, np.newaxis]]), *parts], axis=1)


def t_of(X: np.ndarray, signs: np.ndarray, groups: bool) -> np.ndarray:
    """Return textbook t of every column for every column of signs."""
    if not groups:
        flipped = X[:, :, np.newaxis] * signs[:, np.newaxis]
        return flipped.mean(axis=0) / (flipped.std(axis=0, ddof=1) / np.sqrt(X.shape[0]))
    return np.stack([stats.ttest_ind(X[own > 0], X[own < 0]).statistic for own in signs.T], axis=1)


def plainly(t: np.ndarray, observed: np.ndarray, side: Side) -> np.ndarray:
    """Return step-down adjusted p-values, step by step, of statistics that are compared with one column of them."""
    t, observed = (side.pick(np.abs(x), x, -x) for x in (t, observed))
    out, most = np.empty(observed.size), 0.0
    for feature in np.argsort(-observed):
        left = observed <= observed[feature]
        most = max(most, float(np.mean(t[left].max(axis=0) >= observed[feature] - 1e-9)))
        out[feature] = most
    return out


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("draws", [50, 10_000])
def test_flips_are_those_of_plain_code_with_t(side: Side, draws: int) -> None:
    X = np.random.default_rng(0).standard_normal((9, 12)) + np.linspace(-1.2, 1.2, 12)
    how = Randomization.of(np.ones(9), None, side=side, draws=draws)
    assert how.exact == (draws > 2**9)
    assert how.number == (2 ** (8 if side is Side.BOTH else 9) if how.exact else draws - 1)
    found = step_down(X, how)
    np.testing.assert_allclose(found, plainly(t_of(X, drawn(how), False), t_of(X, np.ones((9, 1)), False)[:, 0], side))


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("draws", [50, 10_000])
def test_permutations_are_those_of_plain_code_with_t(side: Side, draws: int) -> None:
    X = np.random.default_rng(1).standard_normal((10, 12)) + 100
    labels = np.repeat([1.0, -1.0], (4, 6))
    X[:4] += np.linspace(-2, 2, 12)
    how = Randomization.of(labels, np.zeros(10, int), side=side, draws=draws)
    assert how.exact == (draws > math.comb(10, 4))
    found = step_down(X, how)
    observed = t_of(X, labels[:, np.newaxis], True)[:, 0]
    np.testing.assert_allclose(found, plainly(t_of(X, drawn(how), True), observed, side))


def test_within_strata_a_sum_has_the_variance_that_all_permutations_give_it() -> None:
    rng, strata = np.random.default_rng(2), np.repeat([0, 1, 2], (6, 4, 5))
    labels = np.array([1, 1, -1, -1, -1, -1, 1, -1, -1, -1, 1, 1, 1, -1, -1.0])
    X = rng.standard_normal((15, 6)) * (1 + strata[:, None]) + 10 * strata[:, None]
    X[labels > 0, :2] += 2.5
    whole = Randomization.of(labels, strata, side=Side.BOTH, draws=10**6)
    every = drawn(whole)
    assert (whole.exact, whole.number, np.unique(every, axis=1).shape[1]) == (True, 600, 600)
    away = X - np.stack([X[strata == h].mean(axis=0) for h in strata])
    unit = (away.T @ every).std(axis=1)[:, np.newaxis]
    for draws in (200, 600):
        how = Randomization.of(labels, strata, side=Side.BOTH, draws=draws)
        signs = drawn(how)
        for stratum in range(3):
            assert (signs[strata == stratum].sum(axis=0) == labels[strata == stratum].sum()).all()
        expected = plainly(away.T @ signs / unit, (away.T @ labels) / unit[:, 0], Side.BOTH)
        np.testing.assert_allclose(step_down(X, how), expected)


def test_missing_values_stay_where_they_are() -> None:
    """Sums of the values that are there over the root of their sum of squares; of groups, of their variance."""
    rng = np.random.default_rng(3)
    X = np.where(rng.random((10, 8)) < 0.3, np.nan, rng.standard_normal((10, 8)))
    X[:, :2] += 2
    how = Randomization.of(np.ones(10), None, side=Side.BOTH, draws=300)
    r = np.nansum(X[:, :, None] * drawn(how)[:, None], axis=0) / np.sqrt(np.nansum(X**2, axis=0))[:, None]
    expected = plainly(r, np.nansum(X, axis=0) / np.sqrt(np.nansum(X**2, axis=0)), Side.BOTH)
    np.testing.assert_allclose(step_down(X, how), expected)

    labels = np.repeat([1.0, -1.0], (4, 6))
    how = Randomization.of(labels, np.zeros(10, int), side=Side.BOTH, draws=300)

    def difference(own: np.ndarray) -> np.ndarray:
        there = ~np.isnan(X)
        first, n = there[own > 0].sum(axis=0), there.sum(axis=0)
        away = X - np.nanmean(X, axis=0)
        variance = first * (n - first) * np.nanvar(X, axis=0, ddof=1) / n
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(variance > 0, np.nansum(away[own > 0], axis=0) / np.sqrt(variance), 0.0)

    expected = plainly(np.stack([difference(own) for own in drawn(how).T], axis=1), difference(labels), Side.BOTH)
    np.testing.assert_allclose(step_down(X, how), expected)


def orbit(X: np.ndarray, how: Randomization, null: np.ndarray) -> list[np.ndarray]:
    """Return all data as likely as X where nothing differs in the columns ``null``: others stay as they are."""
    out = []
    if how.strata is None:
        flips = itertools.product((1.0, -1.0), repeat=X.shape[0])
        return [np.where(null, X * np.array(signs)[:, None], X) for signs in flips]
    per = [list(itertools.permutations(rows)) for rows in how.strata]
    for orders in itertools.product(*per):
        place = np.empty(X.shape[0], int)
        for rows, order in zip(how.strata, orders, strict=True):
            place[rows] = order
        out.append(np.where(null, X[place], X))
    return out


SMALL: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "continuous": lambda rng, shape: rng.standard_normal(shape) @ np.triu(np.ones(shape[1:] * 2)),
    "ties": lambda rng, shape: rng.integers(-2, 3, shape).astype(float),
    "gaps": lambda rng, shape: np.where(rng.random(shape) < 0.25, np.nan, rng.integers(-3, 4, shape)),
    "one size": lambda rng, shape: rng.choice([-0.1, 0.1], shape),
}


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("groups", [False, True])
def test_no_level_is_exceeded_over_all_flips_and_permutations(
    kind: str, side: Side, groups: bool, long_version: bool
) -> None:
    """Of all data that were as likely, at most a share α has a p-value of a false feature of α or less: for every α."""
    for seed in range(5 if long_version else 1):
        rng, n, null = np.random.default_rng(seed), 6 if groups else 8, np.array([True, True, True, False])
        X = SMALL[kind](rng, (n, 4))
        X[:, 3] += 2 if not groups else np.repeat([0, 3], 3)
        if groups:
            labels = np.array([-1, -1, 1, 1, 1, -1.0])
            strata = np.array([0, 1, 0, 1, 1, 1]) if seed % 2 else np.zeros(6, int)
            how = Randomization.of(labels, strata, side=side, draws=10_000)
        else:
            how = Randomization.of(np.ones(n), None, side=side, draws=10_000)
        assert how.exact
        smallest = np.sort([
            step_down(data, how)[:3].min() for data in orbit(X, how, null)
        ])  # fmt: skip
        assert (
            smallest
            >= np.arange(1, smallest.size + 1)[np.searchsorted(smallest, smallest, "right") - 1] / smallest.size - 1e-12
        ).all()
        assert smallest[0] >= how.smallest - 1e-12


def test_numbers_are_the_same_whatever_reads_them() -> None:
    X = smooth(16, 0).astype(np.float32)
    X[:, 1], X[:, 2], X[5, 3] = 0.0, 7.0, 0.0
    how = Randomization.of(np.ones(16), None, side=Side.BOTH, draws=700)
    whole = step_down(X, how)
    for width, n_jobs in ((1, 1), (37, 1), (400, 2)):
        assert np.array_equal(step_down(X, how, width=width, n_jobs=n_jobs), whole)
    assert whole[1] == 1
    options: dict[str, Any] = {"selection": "maxt", "refine": None, "screen_rows": False}
    one = sparse_mean(X, **options)
    for data in (pd.DataFrame(X), sparse.csr_array(X), sparse.csc_array(X), X.astype(float), np.asfortranarray(X)):
        for n_jobs in (1, 2):
            other = sparse_mean(data, n_jobs=n_jobs, **options)
            assert np.array_equal(one.p_adjusted, other.p_adjusted)
            assert np.array_equal(one.support, other.support)
    y = np.repeat(["a", "b", "c"], (6, 5, 5))
    groups = [
        SparseMeanDifference(selection="maxt").fit(data, y).result_
        for data in (X, pd.DataFrame(X), sparse.csr_array(X))
    ]
    for key, found in groups[0].results.items():
        assert all(np.array_equal(found.p_adjusted, other.results[key].p_adjusted) for other in groups)


@pytest.mark.parametrize("at_once", [None, 14 * 50])
def test_columns_in_files_are_read_in_the_order_of_their_strength(
    at_once: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    h5py = pytest.importorskip("h5py")
    X = smooth(14, 3)[:, ::5]
    if at_once:  # and not all of them in memory
        monkeypatch.setattr(source, "TAKEN_AT_ONCE", at_once)
        monkeypatch.setattr(maxt, "HELD", at_once)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X
    with h5py.File(tmp_path / "x.h5") as file:
        found = sparse_mean(file["X"], selection="maxt")
        again = SparseMeanDifference(selection="maxt").fit(file["X"], np.arange(14) % 2).result_
    assert np.array_equal(found.p_adjusted, sparse_mean(X, selection="maxt").p_adjusted)
    expected = SparseMeanDifference(selection="maxt").fit(X, np.arange(14) % 2).result_
    assert np.array_equal(again.p_adjusted, expected.p_adjusted)


def test_memory_does_not_grow_with_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    n, peaks, sizes = 500, [], []
    monkeypatch.setattr(maxt, "HELD", 64 * n)

    def read(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sizes.append(columns.size)
        values = [np.random.default_rng(column).standard_normal(n) + column % 200 / 400 for column in columns.tolist()]
        return np.stack(values, axis=1), np.zeros(columns.size)

    for d in (200, 200, 1600):
        how = Randomization.of(np.ones(n), None, side=Side.BOTH, draws=100)
        tracemalloc.start()
        assert (of_columns(read, d, how, n_jobs=1)[150::200] < 0.05).all()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(sizes) == 64
    assert sum(sizes) == 2 * (200 + 200 + 1600)
    assert peaks[2] - peaks[1] < 150 * 1400  # a value of every column takes 8 · 500 bytes


def test_rounding_about_a_null_value_only_makes_p_larger() -> None:
    """Values of one size about .3: eight above it, two below. In decimals every flip with eight above is a tie."""
    sizes = np.random.default_rng(0).choice([0.1, 0.2], 10)
    away = np.where(np.arange(10) < 8, sizes, -sizes)
    exact = sparse_mean(np.round(10 * away)[:, None] * np.ones(4), selection="maxt", contamination=0)
    for kind in (np.float32, np.float64):
        X = (0.3 + away).astype(kind)[:, None] * np.ones(4, dtype=kind)
        assert (sparse_mean(X, selection="maxt", contamination=0, null=0.3).p_adjusted >= exact.p_adjusted).all()
    far = np.ones((12, 3)) * 0.1
    assert (certify(far + 1e9, np.arange(12) % 2, selection="maxt", contamination=0).p_adjusted == 1).all()


# What becomes of it: no bad row, bad rows, and what estimates say.


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    X = np.random.default_rng(4).standard_normal((40, 30))
    X[:, :8] += np.linspace(0.5, 2.5, 8)
    return X


def test_bad_rows_leave_what_holm_and_flips_select(table: np.ndarray) -> None:
    clean = sparse_mean(table, selection="maxt", contamination=0)
    how = Randomization.of(np.ones(40), None, side=Side.BOTH, draws=10_000)
    first = step_down(table, how)
    assert np.array_equal(clean.p_adjusted, first)
    assert np.array_equal(clean.support, np.flatnonzero(first <= 0.05))
    before = clean.support
    for bad in (1, 2, 5, 8):
        found, holm = (sparse_mean(table, selection=rule, contamination=bad / 40) for rule in ("maxt", "fwer"))
        assert np.array_equal(found.p_adjusted, np.maximum(first, holm.p_adjusted))
        assert np.array_equal(found.support, np.flatnonzero(found.p_adjusted <= 0.05))
        assert np.array_equal(found.q_values, holm.q_values)
        assert set(found.support) <= set(before)
        again = clean.at(bad / 40)
        assert np.array_equal(again.support, found.support)
        assert np.array_equal(again.p_adjusted, found.p_adjusted)
        assert np.array_equal(found.at(0.0).p_adjusted, first)
        assert (
            np.isin(np.arange(30), found.support) == (np.nan_to_num(clean.max_contamination, nan=-1) >= bad / 40)
        ).all()
        before = found.support
    assert np.array_equal(~np.isnan(clean.max_contamination), first <= 0.05)
    assert (clean.radius == 1).all()
    assert clean.curve()["selected"].iloc[0] == clean.support.size
    made = certify(table, selection="maxt", contamination=0)
    assert np.array_equal(made.p_adjusted, first)
    assert (made.radius == 1).all()


def test_what_flips_do_not_select_no_number_of_bad_rows_does() -> None:
    """Features that Holm selects, and flips do not, and the other way round."""
    X = np.random.default_rng(0).standard_cauchy((60, 3)) + np.array([3, 3, 0])
    X[0, 0] = -1e9
    holm, found = (sparse_mean(X, selection=rule, contamination=0) for rule in ("fwer", "maxt"))
    assert 0 in holm.support
    assert 0 not in found.support
    assert np.isnan(found.max_contamination[0])
    evidence = holm.decision.evidence
    assert evidence is not None
    rule = MaxT(0.05, first=np.array([1.0, 0.01, 0.01]))
    for bad in range(8):
        one, other = (decide(evidence, each, (BadRows(0, bad),)) for each in (rule, Holm(0.05)))
        expected = [1, 2] if not bad else sorted(set(other.support.tolist()) & {1, 2})
        assert one.support.tolist() == expected


def test_rows_that_look_bad_do_not_follow_from_the_rule() -> None:
    X = np.random.default_rng(5).standard_normal((60, 40))
    X[:, :6] += 1.2
    X[:4] -= 5
    holm, found = (sparse_mean(X, selection=rule) for rule in ("fwer", "maxt"))
    assert holm.plan.bad_rows == found.plan.bad_rows > 0
    assert np.array_equal(holm.rows.suspects, found.rows.suspects)
    assert np.array_equal(found.p_adjusted, np.maximum(found.at(0).p_adjusted, holm.p_adjusted))
    alike = smooth(20, 0)
    alike /= alike.std()
    alike[:, :200] += 0.9
    one, other = (sparse_mean(alike, selection=rule) for rule in ("fwer", "maxt"))
    assert one.support.size < other.support.size
    assert np.array_equal(one.rows.scores, other.rows.scores)
    y = np.repeat(["a", "b"], 30)
    X[y == "b", :6] += 2
    X[[0, 59]] = X[[59, 0]]
    holm, found = (SparseMeanDifference(selection=rule).fit(X, y).result_ for rule in ("fwer", "maxt"))
    assert holm.plan.bad_by_group == found.plan.bad_by_group
    assert holm.plan.bad_rows > 0
    assert np.array_equal(holm.rows.suspects, found.rows.suspects)
    assert np.array_equal(found.p_adjusted, np.maximum(found.at(0).p_adjusted, holm.p_adjusted))


def test_tests_share_the_level_and_permute_the_labels_that_they_compare() -> None:
    rng, y = np.random.default_rng(6), np.repeat(["a", "b", "c"], (14, 15, 16))
    X = rng.standard_normal((45, 10))
    X[y == "b", :2] += 3
    X[y == "c"] *= 0.1
    strata = np.arange(45) % 2
    found = SparseMeanDifference(selection="maxt", reference="pairs", contamination=0, random_state=3).fit(
        X, y, strata=strata
    )
    pairs = [("b", "a"), ("c", "a"), ("c", "b")]
    for test, (label, reference) in enumerate(pairs):
        rows = np.flatnonzero((y == label) | (y == reference))
        signs, draws = np.where(y[rows] == label, 1.0, -1.0), draws_for(0.05 / 3, rows.size, 10)
        how = Randomization.of(signs, strata[rows], side=Side.BOTH, draws=draws, seed=(3, test))
        expected = np.minimum(1, 3 * step_down(X[rows], how))
        np.testing.assert_array_equal(found.results_[label, reference].p_adjusted, expected)
    assert set(found.results_["b", "a"].support) == {0, 1}
    said = found.result_.summary()
    assert "random permutations of labels of whole rows in each test, seed 3" in said


def test_subjects_pairs_and_one_side() -> None:
    rng = np.random.default_rng(7)
    X, subject = rng.standard_normal((24, 6)), np.repeat(np.arange(12), 2)
    X[:, 0] += 1.5
    X[1::2, 1] += 2
    X[::2, 1] -= 2
    means = X.reshape(12, 2, 6).mean(axis=1)
    one = SparseMean(selection="maxt", contamination=0).fit(X, groups=subject).result_
    np.testing.assert_array_equal(one.p_adjusted, sparse_mean(means, selection="maxt", contamination=0).p_adjusted)
    y = np.tile(["before", "after"], 12)
    pairs = SparseMeanDifference(selection="maxt", contamination=0, reference="before").fit(X, y, pairs=subject).result_
    np.testing.assert_array_equal(
        pairs.p_adjusted, sparse_mean(X[1::2] - X[::2], selection="maxt", contamination=0).p_adjusted
    )
    up, down = (sparse_mean(means, selection="maxt", contamination=0, alternative=side) for side in ("greater", "less"))
    assert up.support.tolist() == [0]
    assert not down.support.size


def test_words_say_what_is_assumed(table: np.ndarray) -> None:
    found = sparse_mean(table, selection="maxt", contamination=0)
    said = guarantees_of(wording_of(found))
    assert "as long as whole rows of false features are symmetric" in said.guaranteed[0]
    assert TOGETHER.format(unit="sample") in said.assumed
    assert not any("Radius" in sentence for sentence in said.guaranteed)
    assert any("a single one can undo a t" in sentence for sentence in said.not_guaranteed)
    assert "adjusted p-values are from 9,999 random sign flips of whole rows, seed 0: near 0.05" in found.summary()
    assert "their standard error is 0.0022" in found.summary()
    assert "by signed ranks, and t under common sign flips, from 40 samples" in found.summary()
    small = sparse_mean(table[:12], selection="maxt")
    exact = "adjusted p-values are exact, from all 2,048 sign flips of whole rows; they are of t"
    assert any(message.startswith(exact) for message in small.status.messages)
    few = sparse_mean(table[:5], selection="maxt")
    assert not few.support.size
    assert few.status.messages[0].startswith("no feature can be selected: there are so few sign flips")
    assert "0.062" in few.status.messages[0]
    groups = SparseMeanDifference(selection="maxt", contamination=0).fit(table, np.arange(40) % 2).result_
    assert TOGETHER.format(unit="sample") in guarantees_of(wording_of(groups)).assumed
    four = SparseMeanDifference(selection="maxt", contamination=0, level=0.2).fit(table[:6], np.arange(6) % 2).result_
    assert "exact, from all 20 permutations" in " ".join(four.status.messages)


def test_columns_of_one_value_are_not_selected() -> None:
    X = np.random.default_rng(8).standard_normal((20, 5))
    X[:, 0] += 2
    X[:, 1], X[:, 2] = 4.0, 0.0
    found = sparse_mean(X, selection="maxt", contamination=0)
    assert found.support.tolist() == [0]
    assert found.p_adjusted[2] == 1
    groups = certify(X, np.arange(20) % 2, selection="maxt", contamination=0)
    assert (groups.p_adjusted[1:3] == 1).all()


def test_files_pickles_and_pages_keep_it(table: np.ndarray, tmp_path: Path) -> None:
    found = sparse_mean(table, selection="maxt")
    found.save(tmp_path / "x.npz")
    found.report(tmp_path / "x.html")
    assert "Westfall–Young" in (tmp_path / "x.html").read_text(encoding="utf-8")
    for again in (load(tmp_path / "x.npz"), pickle.loads(pickle.dumps(found))):
        assert np.array_equal(again.p_adjusted, found.p_adjusted)
        assert np.array_equal(again.radius, found.radius)
        assert again.summary() == found.summary()
    found.plot_volcano()
    found.plot_robustness()
    assert found.table()["p_adjusted"].is_monotonic_increasing


def test_progress_is_told_of_both_parts(table: np.ndarray) -> None:
    from sparsemean._data import as_table
    from sparsemean._fit import one_sample, two_sample

    labels = np.arange(40) % 2
    shifted = table + 3 * labels[:, np.newaxis]
    for fit in (
        lambda told: one_sample.fit(as_table(table), selection="maxt", progress=told),
        lambda told: two_sample.compare(as_table(shifted), labels, selection="maxt", progress=told),
    ):
        shares: list[float] = []
        fit(shares.append)
        assert shares == sorted(shares)
        assert any(0.2 < share < 0.9 for share in shares)
        assert 0.49 < shares[-1] <= 1 + 1e-9  # what there is nothing to do in is not told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "mean", "scale": 3.0}, "selection must be another than 'maxt' with target='mean': got 'maxt'"),
        ({"min_effect": 0.2}, "selection must be another than 'maxt' with min_effect=0.2: got 'maxt'"),
        ({"level": 1e-8}, "level must be at least 1e-06 for each test with selection='maxt': got 1e-08"),
    ],
)
def test_what_there_is_no_proof_of_is_refused(table: np.ndarray, options: dict[str, Any], message: str) -> None:
    for fit in (
        lambda: sparse_mean(table, selection="maxt", **options),
        lambda: SparseMeanDifference(selection="maxt", **options).fit(table, np.arange(40) % 2),
        lambda: certify(table, selection="maxt", **options),
    ):
        with pytest.raises(InputError, match=message.replace("(", r"\(")):
            fit()


def test_sketches_and_dask_are_refused_before_anything_is_read(table: np.ndarray) -> None:
    with pytest.raises(
        InputError, match="selection must be 'fwer', 'fdr' or 'fdr_by': got 'maxt'; flipping rows needs"
    ):
        sketch(table).estimate(selection="maxt")
    with pytest.raises(InputError, match="got 'maxt'"):
        SparseMean(selection="maxt").partial_fit(table).complete(table)
    dask = pytest.importorskip("dask.array")
    array = dask.from_array(table, chunks=(20, 30))
    for fit in (
        lambda: sparse_mean(array, selection="maxt"), lambda: certify(array, np.arange(40) % 2, selection="maxt"),
    ):  # fmt: skip
        with pytest.raises(InputError, match="selection must be 'fwer', 'fdr' or 'fdr_by' for Dask data: got 'maxt'"):
            fit()


def test_cells_and_the_command_line(tmp_path: Path) -> None:
    from sparsemean._cli import main

    rng, n = np.random.default_rng(9), 40
    X = rng.standard_normal((n, 12))
    X[: n // 2, :2] += 2.5
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(12)]).assign(arm=np.repeat(["new", "old"], n // 2))
    frame.to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(SystemExit) as done:
        main(
            [
                "fit",
                str(tmp_path / "x.csv"),
                "--group",
                "arm",
                "--selection",
                "maxt",
                "--out",
                str(tmp_path / "out.csv"),
                "-q",
            ]
        )
    assert done.value.code in (0, None)
    assert set(pd.read_csv(tmp_path / "out.csv")["feature"]) == {"g0", "g1"}
    anndata = pytest.importorskip("anndata")
    from sparsemean import tl

    cells = anndata.AnnData(
        np.abs(X), obs=pd.DataFrame({"kind": frame["arm"].to_numpy()}, index=[f"c{i}" for i in range(n)])
    )
    found = tl.rank_genes_groups(cells, "kind", selection="maxt", contamination=0)
    told = cells.uns["rank_genes_groups"]
    assert told["params"]["corr_method"] == "westfall-young"
    assert np.array_equal(np.sort(told["pvals_adj"]["new"]), np.sort(found.p_adjusted))


def test_draws_are_bounded_by_the_work_and_by_what_the_level_needs() -> None:
    assert draws_for(0.05, 20, 100) == 10_000
    assert draws_for(0.05, 1000, 10**7) == 800
    assert draws_for(0.05 / 45, 20, 100) == 36_000
    assert draws_for(1e-6, 20, 100) == 1_000_000
