"""Effects between two groups, against plain NumPy, and what data look like."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.stats.contingency import odds_ratio

from sparsemean._stats.effects import (
    COLUMNS,
    MOST_ODDS,
    GroupEffects,
    effect_columns,
    group_effects,
    joined,
    least_log_odds,
    log_scale,
    pair_ends,
    share_ends,
)
from sparsemean._util.plans import BadRows
from sparsemean._util.records import FloatArray

RNG = np.random.default_rng(0)
FIRST, SECOND = np.array([1, 4, 5, 8, 9]), np.array([0, 2, 3, 6])


def scaled_counts(n: int = 300, k: int = 60, mean: float = 1.0) -> FloatArray:
    """Return log1p of counts scaled to 10,000 a row."""
    counts = np.random.default_rng(1).poisson(mean * np.random.default_rng(2).gamma(0.5, size=k), (n, k))
    return np.log1p(1e4 * counts / np.maximum(1, counts.sum(axis=1, keepdims=True)))


def with_gaps() -> FloatArray:
    values = RNG.poisson(1.0, (10, 7)).astype(float)
    values[RNG.random(values.shape) < 0.2] = np.nan
    values[FIRST, 6] = np.nan
    return values


@pytest.mark.parametrize("block", [8, 1 << 21])
@pytest.mark.parametrize("gaps", [False, True])
def test_each_number_is_numpys(block: int, gaps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparsemean._stats.effects.BLOCK", block)
    values = with_gaps() if gaps else RNG.poisson(1.0, (10, 7)).astype(float)
    effects = group_effects(values, FIRST, SECOND)
    assert effects.scale == "counts"
    for j in range(7):
        one, zero = (part[~np.isnan(part)] for part in (values[FIRST, j], values[SECOND, j]))
        assert (effects.n_0[j], effects.n_1[j]) == (zero.size, one.size)
        if not one.size:
            assert np.isnan([effects.mean_1[j], effects.median_1[j], effects.share_nonzero_1[j], effects.lift[j]]).all()
            continue
        expected = {
            "mean_0": zero.mean(), "mean_1": one.mean(), "median_0": np.median(zero), "median_1": np.median(one),
            "share_nonzero_0": np.mean(zero != 0), "share_nonzero_1": np.mean(one != 0),
            "difference": one.mean() - zero.mean(),
            "lift": 100 * (one.mean() - zero.mean()) / zero.mean() if zero.mean() > 0 else np.nan,
            "log2_fold_change": np.log2((one.mean() + 1e-9) / (zero.mean() + 1e-9)),
        }  # fmt: skip
        for name, value in expected.items():
            assert getattr(effects, name)[j] == pytest.approx(value, rel=1e-12, nan_ok=True), name


def test_the_fold_change_of_logarithms_is_scanpys() -> None:
    """Its formula: (expm1(mean of the group) + 1e-9) over (expm1(mean of the rest) + 1e-9)."""
    values = scaled_counts()
    first, second = np.arange(100), np.arange(100, 300)
    effects = group_effects(values, first, second)
    assert effects.scale == "log1p"
    ratio = (np.expm1(values[first].mean(axis=0)) + 1e-9) / (np.expm1(values[second].mean(axis=0)) + 1e-9)
    np.testing.assert_allclose(effects.log2_fold_change, np.log2(ratio))


def test_neither_counts_nor_logarithms_have_a_fold_change() -> None:
    effects = group_effects(RNG.normal(5, 1, (10, 3)), FIRST, SECOND)
    assert effects.scale is None
    assert np.isnan(effects.log2_fold_change).all()
    assert np.isfinite(effects.lift).all()


def looks(name: str) -> FloatArray:
    rng = np.random.default_rng(0)
    logs = scaled_counts()
    tables = {
        "single precision": logs.astype(np.float32).astype(float),
        "per million": np.log1p(100 * np.expm1(logs)),
        "rare counts": scaled_counts(2000, 50, 0.1),
        "rates": (rng.random((100, 3)) < 0.1).astype(float),
        "with gaps": np.where(rng.random((100, 3)) < 0.1, np.nan, rng.poisson(2.0, (100, 3))),
        "base 2": logs / np.log(2),
        "scaled counts, no logarithm": np.expm1(logs) / 1000,
        "centred": logs - logs.mean(axis=0),
        "microarray": rng.normal(8, 2, (50, 100)).clip(2, 15),
        "payers": np.where(rng.random((500, 5)) < 0.9, 0.0, rng.lognormal(0, 1, (500, 5))).clip(0, 19),
        "shares": rng.integers(0, 20, (500, 8)) / 10_000,
        "prices": rng.integers(0, 40, (500, 8)) / 4,
        "zeros": np.zeros((20, 3)),
        "empty": np.empty((20, 0)),
        "one column": logs[:, :1],
        "negative whole numbers": rng.integers(-3, 4, (50, 4)).astype(float),
    }
    return tables[name]


@pytest.mark.parametrize("name", ["single precision", "per million", "rare counts"])
def test_logarithms_of_scaled_counts_are_told(name: str) -> None:
    assert log_scale(looks(name)) == "log1p"


@pytest.mark.parametrize("name", ["rates", "with gaps"])
def test_counts_are_told(name: str) -> None:
    assert log_scale(looks(name)) == "counts"


@pytest.mark.parametrize(
    "name",
    ["base 2", "scaled counts, no logarithm", "centred", "microarray", "payers", "shares", "prices", "zeros", "empty",
     "one column", "negative whole numbers"],
)  # fmt: skip
def test_what_is_neither_is_not_guessed(name: str) -> None:
    assert log_scale(looks(name)) is None


def test_blocks_of_columns_give_what_the_whole_gives() -> None:
    values = scaled_counts()
    first, second = np.arange(0, 300, 3), np.arange(1, 300, 3)
    whole, scale = group_effects(values, first, second), log_scale(values)
    parts = [group_effects(values[:, at], first, second, scale=scale) for at in (slice(0, 1), slice(1, 60))]
    by_blocks = joined(parts)
    assert by_blocks.scale == "log1p"
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(by_blocks, name), getattr(whole, name))


def test_huge_values_and_no_columns_go_through() -> None:
    huge = group_effects(np.full((10, 1), 1e308), FIRST, SECOND)
    assert huge.median_1.tolist() == [1e308]
    nothing = group_effects(np.empty((10, 0)), FIRST, SECOND)
    assert isinstance(nothing, GroupEffects)
    none = np.empty(0, dtype=np.intp)
    assert np.isnan(effect_columns(nothing, np.arange(3), none)["lift"]).all()
    assert np.isnan(effect_columns(None, np.arange(3), np.array([1]))["lift"]).all()


# Intervals of differences of shares; tests/validity/test_differences_of_shares.py has what they cover.

NONE_BAD = BadRows(0, 0)


@pytest.mark.parametrize("error", [0.1, 0.025, 1e-4])
@pytest.mark.parametrize("table", [(5, 1, 10, 12), (20, 9, 40, 35), (3, 0, 8, 30), (90, 60, 300, 200), (7, 7, 7, 9)])
def test_odds_are_those_of_the_conditional_interval(table: tuple[int, int, int, int], error: float) -> None:
    a1, a2, n1, n2 = table
    scipys = odds_ratio([[a1, a2], [n1 - a1, n2 - a2]], kind="conditional").confidence_interval(1 - 2 * error)
    ends = np.array([least_log_odds(n1, n2, a1, a2, error), -least_log_odds(n2, n1, a2, a1, error)])
    none = np.where(np.abs(ends) == MOST_ODDS, np.sign(ends) * np.inf, ends)
    np.testing.assert_allclose(np.exp(none), [scipys.low, scipys.high], rtol=1e-5)


def test_differences_of_shares_have_both_signs_and_both_ways_to_count() -> None:
    """Groups exchanged, or the other value counted, turn the ends round."""
    for n1, a1, n2, a2 in ((40, 20, 60, 10), (7, 7, 9, 0), (500, 5, 300, 30)):
        low, high = share_ends((n1, a1), (n2, a2), NONE_BAD, error=0.01, unsure=False)
        assert -1 <= low < a1 / n1 - a2 / n2 < high <= 1 or (a1, a2) == (n1, 0)
        for label, reference in (((n2, a2), (n1, a1)), ((n1, n1 - a1), (n2, n2 - a2))):
            turned = share_ends(label, reference, NONE_BAD, error=0.01, unsure=False)
            assert turned == pytest.approx((-high, -low), abs=1e-9)


@pytest.mark.parametrize("unsure", [False, True])
def test_bad_rows_make_no_difference_of_shares_shorter(unsure: bool) -> None:
    for label, reference in (((200, 90), (300, 60)), ((30, 2), (500, 0)), ((15, 15), (12, 3))):
        ends = [
            share_ends(label, reference, BadRows(m, k), error=0.005, unsure=unsure) for m, k in ((0, 0), (1, 0), (1, 2))
        ]
        assert (np.diff(ends, axis=0)[:, 0] <= 0).all()
        assert (np.diff(ends, axis=0)[:, 1] >= 0).all()
    most = share_ends((15, 15), (12, 3), BadRows(5, 7), error=0.005, unsure=unsure)
    assert most[0] < 0 < most[1]


@pytest.mark.parametrize(("n", "share"), [(1000, 0.5), (10_000, 0.1), (100_000, 0.02)])
def test_differences_of_shares_are_hardly_longer_than_normal_ones(n: int, share: float) -> None:
    """At the error of 20 selected of 1000; what is lost is the price of a share of both that is not known."""
    error, lift = 0.05 * 20 / 1000 / 2, 1.25
    a1, a2 = round(n * share * lift), round(n * share)
    deviation = np.sqrt((a1 * (n - a1) + a2 * (n - a2)) / n**3)
    low, high = share_ends((n, a1), (n, a2), NONE_BAD, error=error, unsure=False)
    assert (high - low) / (2 * stats.norm.isf(error) * deviation) < 1.2


def test_shares_of_pairs_by_the_plain_formula() -> None:
    """The end is the δ at which the capital, (1 + τ) to the wins and (1 − τ) to the losses, is K/error·(1 + τδ)ⁿ."""
    won, lost, n, error = 0.5, 0.2, 80, 0.01
    tau = np.tanh(np.sqrt(2 * (1 - np.log(error)) / n) * 2.0 ** np.arange(4))
    assert np.arctanh(tau[-1]) >= 2
    capital = (1 + tau) ** (n * won) * (1 - tau) ** (n * lost)
    expected = np.max(((capital * error / 4) ** (1 / n) - 1) / tau)
    assert pair_ends(won, lost, 0.0, step=1 / n, terms=n, error=error)[0] == pytest.approx(expected, rel=1e-12)
    touched = pair_ends(won, lost, 0.01, step=1 / n, terms=n, error=error)
    worse = pair_ends(won - 0.01, lost + 0.01, 0.0, step=1 / n, terms=n, error=error)
    assert touched[0] == pytest.approx(worse[0], rel=1e-12)


@pytest.mark.parametrize("error", [5e-4, 1e-6])
@pytest.mark.parametrize(
    ("one", "two"), [((0.3, 0.3, 0.4), (0.45, 0.3, 0.25)), ((0.9, 0.06, 0.04), (0.97, 0.02, 0.01))]
)
def test_shares_of_pairs_are_up_to_three_fifths_longer_than_normal_ones(
    one: tuple[float, ...], two: tuple[float, ...], error: float
) -> None:
    n, sign = 1000, np.sign(np.subtract.outer(np.arange(3), np.arange(3)))
    delta = one @ sign @ two
    variance = one @ (sign @ two) ** 2 + (one @ sign) ** 2 @ two - 2 * delta**2
    won, lost = one @ (sign > 0) @ two, one @ (sign < 0) @ two
    low, high = pair_ends(won, lost, 0.0, step=1 / n, terms=n, error=error)
    assert 1 < (high - low) / (2 * stats.norm.isf(error) * np.sqrt(variance / n)) < 1.6


def test_no_pair_says_nothing() -> None:
    assert pair_ends(1.0, 0.0, 0.0, step=2.0, terms=0, error=0.01) == (-1.0, 1.0)
