"""Trends: Kendall's S against plain code and scipy, its size over all small cases, slopes, and all that users meet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sparsemean as sm
from sparsemean import InputError, SparseMeanDifference, SparseTrend
from sparsemean._evidence.trend import Against, TrendEvidence, null_sizes, slope
from sparsemean._stats.effects import CENTRE, PAIRS
from sparsemean._util.plans import Side

from command import run

ROUNDED = 1 + 1e-9


def against(y: list[float] | np.ndarray, strata: list[int] | np.ndarray | None = None) -> Against:
    y = np.asarray(y, dtype=float)
    return Against(y, np.zeros(y.size, dtype=np.intp) if strata is None else np.asarray(strata))


def evidence(X: np.ndarray, about: Against, side: Side = Side.BOTH) -> TrendEvidence:
    return TrendEvidence.of(iter([(np.arange(X.shape[1]), X)]), X.shape[1], about, side)


def log_p(X: np.ndarray, about: Against, bad: int = 0, side: Side = Side.BOTH) -> np.ndarray:
    return evidence(X, about, side).log_p(bad, np.arange(X.shape[1]))


def plain_pairs(x: np.ndarray, about: Against) -> tuple[int, int]:
    signs = np.sign(x[:, None] - x) * np.sign(about.y[:, None] - about.y) * (about.strata[:, None] == about.strata)
    signs = np.nan_to_num(np.triu(signs))
    return int(np.sum(signs > 0)), int(np.sum(signs < 0))


# Counting, and the null.


def tables() -> Iterator[tuple[np.ndarray, Against]]:
    rng = np.random.default_rng(0)
    for n, levels, n_strata in product((4, 13, 40, 200), (2, 4, 1000), (1, 3)):
        X = rng.integers(0, 30, (n, 5)).astype(float)
        X[:, 1] = rng.standard_normal(n)
        X[rng.random(n) < 0.2, 2] = np.nan
        X[:, 3] = 1.0
        X[:, 4] = np.nan
        yield X, against(rng.integers(0, levels, n), rng.integers(0, n_strata, n))


def test_pairs_are_those_of_plain_code() -> None:
    for X, about in tables():
        won, lost, repeats, there = about.count(X)
        for k, x in enumerate(X.T):
            assert (won[k], lost[k]) == plain_pairs(x, about)
            parts = [x[(about.strata == h) & ~np.isnan(x)] for h in np.unique(about.strata)]
            assert repeats[k] == sum(part.size - np.unique(part).size for part in parts)
            assert there[k] == sum(part.size for part in parts)


@pytest.mark.parametrize("classes", ["0123456", "0012234", "000111", "0011222", "01"])
def test_the_null_is_that_of_all_orders(classes: str) -> None:
    about = against([float(k) for k in classes])
    orders = np.array(list(permutations(range(len(classes))))).T
    won, lost, *_ = about.count(orders.astype(float))
    sizes = null_sizes(about.classes, about.strata)
    for s in range(1, sizes.pairs + 1):
        tail = np.mean(won - lost >= s)
        found = np.exp(sizes.log_tails(np.array([float(s)]))[0])
        assert tail <= found * ROUNDED
        assert found <= tail * ROUNDED


@pytest.mark.parametrize("n", [5, 8, 20, 60, 170])
def test_p_is_that_of_kendalls_exact_test(n: int) -> None:
    rng = np.random.default_rng(n)
    y, X = rng.standard_normal(n), rng.standard_normal((n, 40))
    X += np.linspace(0, 2, 40) * y[:, None]
    ours = np.exp(log_p(X, against(y)))
    exact = np.array([stats.kendalltau(x, y, method="exact").pvalue for x in X.T])
    np.testing.assert_allclose(ours, np.minimum(exact, 1), rtol=1e-9)


# Size: over all orders, patterns of ties, gaps, strata, and everything that one bad row can be.


def never_too_small(log_p: np.ndarray) -> None:
    """Of equally likely cases no more than a share p may have a p-value of p or less."""
    p = np.sort(np.exp(log_p))
    assert (np.searchsorted(p, p, side="right") / p.size <= p * ROUNDED).all()


PATTERNS = ("012345", "001234", "001123", "000123", "001122", "000112", "000011", "000111", "0123456", "0011223")


@pytest.mark.parametrize("side", [Side.BOTH, Side.UP])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_size_with_ties_in_values_and_in_y(pattern: str, side: Side) -> None:
    x = np.array([float(k) for k in pattern])
    orders = np.array([x[list(order)] for order in permutations(range(x.size))]).T
    for classes in PATTERNS:
        if len(classes) == x.size and (x.size < 7 or classes != PATTERNS[-1]):
            never_too_small(log_p(orders, against([float(k) for k in classes]), side=side))


def test_size_within_strata_and_with_gaps() -> None:
    parts = [np.array(list(permutations((0.0, 1.0, 1.0, 2.0)))), np.array(list(permutations((0.0, 1.0, 2.0))))]
    both = np.array([np.concatenate(pair) for pair in product(*parts)]).T
    never_too_small(log_p(both, against([0, 1, 2, 2, 0, 1, 2], [0, 0, 0, 0, 1, 1, 1])))
    gaps = np.array(list(permutations((0.0, 1.0, 2.0, 2.0, np.nan, np.nan)))).T
    for classes in ((0, 1, 2, 3, 4, 5), (0, 0, 1, 1, 2, 2)):
        never_too_small(log_p(gaps, against(classes)))


@pytest.mark.parametrize("classes", [(0, 1, 2, 3, 4), (0, 0, 1, 1, 2), (0, 0, 0, 1, 2)])
@pytest.mark.parametrize("pattern", [(0, 1, 2, 3, 4), (0, 0, 1, 1, 2), (0, 0, 0, 0, 1)])
def test_no_bad_row_makes_p_too_small(classes: tuple[int, ...], pattern: tuple[int, ...]) -> None:
    """Whichever row has any value, or none, and any y in place of its own: the worst of all that is valid."""
    orders = np.array(list(permutations(np.array(pattern, dtype=float)))).T
    slots = [*np.arange(-0.5, max(pattern) + 1, 0.5), np.nan]
    worst = np.zeros(orders.shape[1])
    for row, y in product(range(5), np.arange(-0.5, max(classes) + 1, 0.5)):
        moved = np.array(classes, dtype=float)
        moved[row] = y
        if np.unique(moved).size < 2:
            continue
        replaced = np.repeat(orders[:, :, None], len(slots), axis=2)
        replaced[row] = slots
        found = log_p(replaced.reshape(5, -1), against(moved), bad=1)
        worst = np.minimum(worst, found.reshape(-1, len(slots)).min(axis=1))
    never_too_small(worst)


@pytest.mark.parametrize("bad", [0, 1])
def test_the_radius_holds_for_every_replacement(bad: int) -> None:
    rng = np.random.default_rng(1)
    for ties in (False, True):
        n = 9
        y = np.repeat([0.0, 1, 2], 3) if ties else np.arange(n) + 0.0
        X = np.arange(n)[:, None] + rng.normal(0, 0.6, (n, 20))
        X = np.round(X / 2) if ties else X
        here = evidence(X, against(y))
        bound = here.beyond(here.at_share(sm._util.plans.Shares(0, bad / n))).log_p(1, np.arange(20))
        for row in range(n):
            for value, dose in product((-99.0, 99.0, 3.2, 1.0, np.nan), (-1.0, 0.0, 1.0, 1.5, 99.0)):
                changed, moved = X.copy(), y.copy()
                changed[row], moved[row] = value, dose
                assert (log_p(changed, against(moved), bad) <= bound + 1e-9).all()


def test_p_rises_with_bad_rows_and_last_is_its_inverse() -> None:
    rng = np.random.default_rng(2)
    for y in (rng.standard_normal(40), rng.integers(0, 4, 40)):
        X = np.round(rng.standard_normal((40, 60)) + np.linspace(0, 3, 60) * y[:, None], 1)
        here, at = evidence(X, against(y)), np.arange(60)
        for some in (here, here.beyond(here.at_share(sm._util.plans.Shares(0, 0.05)))):
            p = np.array([some.along(np.full(60, step), at) for step in range(19)])
            assert (np.diff(p, axis=0) >= 0).all()
            for error in (0.05, 1e-4):
                np.testing.assert_array_equal(some.last(error, at), np.sum(p <= error, axis=0) - 1)


# Power and slopes.


def test_power_is_that_of_spearmans_t() -> None:
    """The effect that 80 % of 3000 tables show at p ≤ 2.5e-5, n = 60: at most 1.02 of what Spearman's t needs."""
    rng, n, runs, error = np.random.default_rng(10_000), 60, 3000, 2.5e-5
    y = rng.standard_normal(n)
    noise = rng.standard_normal((n, runs))
    effects = np.linspace(0.7, 0.8, 5)
    ours, theirs = [], []
    ranks = stats.rankdata(y)
    for effect in effects:
        X = noise + effect * y[:, None]
        ours.append(np.mean(log_p(X, against(y)) <= np.log(error)))
        r = np.corrcoef(ranks, stats.rankdata(X, axis=0), rowvar=False)[0, 1:]
        theirs.append(np.mean(2 * stats.t.sf(np.abs(r) * np.sqrt((n - 2) / (1 - r**2)), n - 2) <= error))
    needed = [np.interp(0.8, power, effects) for power in (ours, theirs)]
    assert needed[0] / needed[1] <= 1.02


def test_slopes_are_theil_and_sens() -> None:
    rng = np.random.default_rng(3)
    for y in (rng.standard_normal(30), rng.integers(0, 5, 31).astype(float)):
        x = 0.7 * y + rng.standard_normal(y.size)
        low, high = np.triu_indices(y.size, 1)
        keep = y[low] != y[high]
        every = np.sort(((x[high] - x[low])[keep]) / (y[high] - y[low])[keep])
        value, *ends, measure = slope(x, against(y), error=0.05, bad=0, side=Side.BOTH)
        assert (value, measure) == (pytest.approx(np.median(every), rel=1e-9), CENTRE)
        assert min(np.abs(every - ends[0])) < 1e-9
        for bad in (0, 1, 2):  # the interval holds what its test does not reject
            _, *ends, _ = slope(x, against(y), error=0.05, bad=bad, side=Side.BOTH)
            for end, inside in ((ends[0], 1), (ends[1], -1)):
                if np.isfinite(end):
                    X = np.column_stack([x - (end + inside * step) * y for step in (1e-6, -1e-6)])
                    p = np.exp(log_p(X, against(y), bad))
                    assert p[0] > 0.05
                    assert p[1] <= 0.05
    counts = np.array([0.0] * 20 + [1.0] * 6)
    assert slope(counts, against(np.arange(26)), error=0.05, bad=0, side=Side.BOTH)[0::3] == (
        pytest.approx(120 / 325),
        PAIRS,
    )


def test_intervals_cover() -> None:
    rng, missed = np.random.default_rng(10_001), 0
    y = rng.integers(0, 4, 40).astype(float)
    for _ in range(400):
        x = 0.5 * y + rng.standard_t(2, 40)
        _, low, high, _ = slope(x, against(y), error=0.1, bad=0, side=Side.BOTH)
        missed += not low <= 0.5 <= high
    assert missed <= 40 + 3 * 6


# What users meet.


def doses(n: int = 60, d: int = 200, seed: int = 0, strata: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    dose, batch = np.resize([0.0, 1, 2, 4], n), rng.integers(0, strata, n)
    X = rng.standard_normal((n, d)) + 3 * batch[:, None]
    X[:, :5] += dose[:, None] * [1.0, -1.0, 0.9, -0.9, 1.2]
    return X, dose, batch


def test_a_dose_and_its_genes() -> None:
    X, dose, _ = doses()
    frame = pd.DataFrame(X, columns=[f"g{i}" for i in range(200)]).assign(dose=dose)
    fitted = SparseTrend().fit(frame, "dose")
    result = fitted.result_
    assert fitted.support_.tolist() == [0, 1, 2, 3, 4]
    assert np.sign(fitted.mean_[:5]).tolist() == [1, -1, 1, -1, 1]
    lines = result.summary(feature="gene").splitlines()
    assert lines[0] == "5 of 200 genes rise or fall with dose (3 rise, 2 fall)."
    assert "Kendall’s S" in result.status.test
    assert result.table()["measure"].tolist() == ["slope"] * 5
    ends = result.intervals[:5]
    assert ((ends[:, 0] <= [1, -1, 0.9, -0.9, 1.2]) & (ends[:, 1] >= [1, -1, 0.9, -0.9, 1.2])).all()
    up = SparseTrend(alternative="greater", contamination=0.02).fit(X, dose).result_
    assert up.support.tolist() == [0, 2, 4]
    assert up.summary().startswith(
        "3 of 200 features rise with y, even if any 2 of the 60 samples are wrong, as asked."
    )
    one = SparseTrend().fit(np.column_stack((X[:, 0], X[:, 10:])), dose).result_
    assert one.summary().startswith("1 of 191 features rises or falls with y (rises).")
    none = SparseTrend().fit(X[:, 10:], dose).result_
    assert "No feature clearly rises or falls with y (190 tested" in none.summary()
    dates = np.datetime64("2020-01-01") + dose.astype("m8[D]")
    np.testing.assert_array_equal(SparseTrend().fit(X, dates).mean_, fitted.mean_)
    np.testing.assert_array_equal(SparseTrend(contamination=0).fit(X, np.exp(dose)).result_.p_values, result.p_values)


def test_strata_take_batches_out() -> None:
    X, dose, batch = doses(strata=3)
    with_strata = SparseTrend().fit(X, dose, strata=batch).result_
    assert with_strata.support.tolist() == [0, 1, 2, 3, 4]
    assert "with y within 3 strata (" in with_strata.summary()
    assert with_strata.rows is not None
    assert with_strata.rows.suspects.size == 0


def test_bad_rows_are_seen_allowed_for_and_left_out() -> None:
    X, dose, _ = doses(n=120)
    X[[3, 40, 77]] -= 6.0
    result = SparseTrend().fit(X, dose).result_
    assert result.rows is not None
    assert sorted(result.rows.suspects.tolist()) == [3, 40, 77]
    assert result.plan.bad_rows == 3
    clean = result.without_suspects()
    assert clean.plan.n_rows == 117
    assert "NOT GUARANTEED" in clean.summary()
    assert set(result.support) <= set(clean.support)
    assert result.at(0).support.size >= result.support.size
    assert (np.diff(result.curve()["selected"]) <= 0).all()


def test_it_is_saved_and_read_and_drawn(tmp_path: Path) -> None:
    X, dose, batch = doses(strata=2)
    result = SparseTrend().fit(X, dose, strata=batch).result_
    result.save(tmp_path / "trend.npz")
    again = sm.load(tmp_path / "trend.npz")
    assert isinstance(again, sm.Estimate)
    assert again.summary().splitlines()[:2] == result.summary().splitlines()[:2]
    np.testing.assert_array_equal(again.interval([0, 9], X=X), result.interval([0, 9]))
    assert again.without_suspects(X).support.tolist() == result.without_suspects().support.tolist()
    result.report(tmp_path / "trend.html")
    assert "rise or fall with y" in (tmp_path / "trend.html").read_text(encoding="utf-8")
    for draw in (result.plot_volcano, result.plot_forest, result.plot_rows, result.plot_robustness):
        assert draw() is not None
    with pytest.raises(InputError, match="one of groups or of a trend"):
        result.plot_path()


def test_gaps_are_left_out() -> None:
    X, dose, _ = doses()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    with pytest.raises(InputError, match="missing"):
        SparseTrend().fit(X, dose)
    found = SparseTrend(missing="omit").fit(X, dose).result_
    assert found.support.tolist() == [0, 1, 2, 3, 4]
    assert any("are missing" in note for note in found.status.messages)


def test_what_cannot_be_is_one_line() -> None:
    X, dose, _ = doses(n=24, d=12)
    for y, match in (
        (np.array(["low", "high"] * 12), "y must be a number for each of the 24 rows"),
        (np.ones(24), "not all the same"),
        (np.r_[np.nan, dose[1:]], "no missing labels"),
        (dose[:5], "one label for each of the 24 rows"),
        (None, "requires y to be passed"),
    ):
        with pytest.raises(InputError, match=match):
            SparseTrend().fit(X, y)
    with pytest.raises(InputError, match="'fwer', 'fdr' or 'fdr_by' for a trend"):
        SparseTrend(selection="maxt").fit(X, dose)
    with pytest.raises(InputError, match="SparseTrend"):
        sm.sparse_mean(X, test="trend")
    with pytest.raises(InputError, match="rows of two classes or more in each stratum"):
        SparseTrend().fit(X, dose, strata=dose)
    few = SparseTrend().fit(X[:5], np.arange(5)).result_
    assert "5 samples cannot show a trend in any of 12 features, whatever the data." in few.summary()


def test_groups_of_numbers_name_trends() -> None:
    X, dose, _ = doses(d=10)
    said = SparseMeanDifference().fit(X, dose)
    assert any("SparseTrend" in note for note in said.results_[0.0].status.messages)
    two = SparseMeanDifference().fit(X, dose > 1).result_
    assert not any("SparseTrend" in note for note in two.status.messages)
    with pytest.raises(InputError, match="SparseTrend"):
        SparseMeanDifference().fit(X, np.random.default_rng(0).standard_normal(60))


def test_the_command_line_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, dose, batch = doses(strata=2)
    frame = pd.DataFrame(X.round(4), columns=[f"g{i}" for i in range(200)]).assign(dose=dose, batch=batch)
    frame.to_csv(tmp_path / "x.csv", index=False)
    path, out = tmp_path / "x.csv", tmp_path / "out.csv"
    assert run("fit", path, "--trend", "dose", "--strata", "batch", "--out", out) == 0
    assert "5 of 200 features rise or fall with dose within 2 strata" in " ".join(capsys.readouterr().out.split())
    assert pd.read_csv(out)["feature"].size == 5
    for arguments, said in (
        (["--trend", "dosis"], "--trend must"),
        (["--trend", "dose", "--group", "batch"], "--trend must be left out with --group"),
        (["--trend", "dose", "--null", "1"], "--null must be left out with --trend"),
        (["--trend", "dose", "--subject", "batch"], "--subject must be left out with --trend"),
        (["--trend", "dose", "--selection", "maxt"], "selection must be 'fwer'"),
    ):
        assert run("fit", path, *arguments) == 2
        assert said in " ".join(capsys.readouterr().err.split())
