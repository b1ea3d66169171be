"""Which rows contradict the rest: found where they do, hardly any where none does; more in validity/test_suspects.py.

Every seed is fixed, so a test that passes once passes again; the rates below say how the seeds were to be expected. On
clean data some row is rejected in at most 2 % of the tables of 200 rows and more with independent or strongly
correlated symmetric columns, in at most 15 % of those with a few skewed ones, and in at most 10 % of those of 20 rows,
where robust deviations are themselves poorly known (half of those in which one strong factor moves all columns of a row
together, and 2 % of those with four columns); the numbers allowed are the 99.9 % points of these, or beyond. A table of
20 rows loses four at most, and with such a factor fewer than half of them, less than one in the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from sparsemean._kernels import columns as column_loops
from sparsemean._kernels import compiling
from sparsemean._stats import row_scores as rows_room
from sparsemean._stats import standardized
from sparsemean._stats.directions import apart
from sparsemean._stats.planning import MOST_ALLOWED
from sparsemean._stats.row_scores import (
    FEW,
    KINDS,
    LARGE,
    TOGETHER,
    copies,
    far_values,
    leaning,
    no_coincidence,
    row_scores,
    score_rows,
)
from sparsemean._stats.standardized import INNER, Entries, StandardizedRows
from sparsemean._util.records import FloatArray, RowScores

from conftest import Claims

Draw = Callable[[np.random.Generator, int, int], FloatArray]


def factors(k: int) -> Draw:
    """Columns that share k normal factors of twice the size of their own noise."""
    return lambda rng, n, p: 2 * rng.standard_normal((n, k)) @ rng.standard_normal((k, p)) + rng.standard_normal((n, p))


SYMMETRIC: dict[str, Draw] = {
    "normal": lambda rng, n, p: rng.standard_normal((n, p)),
    "t 1.3": lambda rng, n, p: rng.standard_t(1.3, (n, p)),
    "Pareto 1.3": lambda rng, n, p: rng.choice([-1.0, 1.0], (n, p)) * (1 + rng.pareto(1.3, (n, p))),
    "two factors": factors(2),
    "three factors": factors(3),
    "counts": lambda rng, n, p: rng.poisson(0.6, (n, p)) - rng.poisson(0.6, (n, p)).astype(float),
    "rare counts": lambda rng, n, p: rng.poisson(0.05, (n, p)) - rng.poisson(0.05, (n, p)).astype(float),
}
SKEWED: dict[str, Draw] = {
    "lognormal": lambda rng, n, p: rng.lognormal(0, 0.954, (n, p)) - np.exp(0.954**2 / 2),
    "one factor": factors(1),
}


def screened(X: FloatArray, most: int) -> RowScores:
    return score_rows(X, most=most)


def rejected(draw: Draw, n: int, p: int, seeds: int) -> list[int]:
    tables = (draw(np.random.default_rng(seed), n, p) for seed in range(seeds))
    return [screened(X, n // 10).suspects.size for X in tables]


@pytest.mark.parametrize("name", [*SYMMETRIC, *SKEWED])
def test_clean_tables_of_20_rows_lose_a_row_at_the_stated_rate(name: str, long_version: bool, claims: Claims) -> None:
    draw, times = {**SYMMETRIC, **SKEWED}[name], 8 if long_version else 1
    few = rejected(draw, 20, 4, 50 * times)
    lost = [k for p, tables in ((30, 60), (300, 30), (2000, 4)) for k in rejected(draw, 20, p, tables * times)]
    rate = 0.5 if name == "one factor" else 0.1
    claims.add(
        f"clean tables of 20 rows, 30–2000 columns, that lose a row, {name}",
        f"{np.count_nonzero(lost)} of {len(lost)}", f"≤ {rate:g}", f"0–{60 * times - 1}",
    )  # fmt: skip
    assert np.mean(lost) <= (1.0 if name == "one factor" else 0.2)
    assert max(lost) <= (9 if name == "one factor" else 4)
    assert np.count_nonzero(lost) <= stats.binom.ppf(0.999, len(lost), rate) < len(lost)
    assert np.count_nonzero(few) <= stats.binom.ppf(0.999, len(few), 0.02)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_clean_tables_lose_hardly_a_row(name: str) -> None:
    lost = [*rejected(SYMMETRIC[name], 200, 4, 20), *rejected(SYMMETRIC[name], 200, 30, 20)]
    lost += rejected(SYMMETRIC[name], 300, 2000, 1) + rejected(SYMMETRIC[name], 5000, 30, 2)
    assert np.count_nonzero(lost) <= 5
    assert max(lost) <= 3


@pytest.mark.parametrize("name", SKEWED)
def test_clean_skewed_tables_lose_few_rows(name: str) -> None:
    lost = [*rejected(SKEWED[name], 200, 4, 20), *rejected(SKEWED[name], 200, 30, 20)]
    lost += rejected(SKEWED[name], 5000, 30, 2)
    assert np.count_nonzero(lost) <= 14
    assert max(lost) <= 6


def test_one_strong_factor_does_not_make_every_large_row_a_suspect() -> None:
    lost = [screened(factors(1)(np.random.default_rng(seed), 1000, 100), 100).suspects.size for seed in range(5)]
    assert max(lost) <= 3


def shifted(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    return X - 2.0


def far(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    return np.full_like(X, 50.0)


def cauchy(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    return 3 * rng.standard_cauchy(X.shape)


def far_in_a_third(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    return X + np.where(np.arange(X.shape[1]) % 3 == 0, 30.0, 0.0)


@pytest.mark.parametrize("attack", [shifted, far, cauchy, far_in_a_third])
@pytest.mark.parametrize("noise", ["normal", "t 3", "Pareto 3"])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.2])
def test_bad_rows_are_found(
    attack: Callable[[FloatArray, np.random.Generator], FloatArray], noise: str, share: float
) -> None:
    n, p, m = 400, 150, round(400 * share)
    found = wrong = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        match noise:
            case "normal":
                X = rng.standard_normal((n, p))
            case "t 3":
                X = rng.standard_t(3, (n, p))
            case _:
                X = rng.choice([-1.0, 1.0], (n, p)) * (1 + rng.pareto(3, (n, p)))
        bad = rng.choice(n, m, replace=False)
        X[bad] = attack(X[bad], rng)
        suspects = screened(X, m).suspects
        assert suspects.size <= m
        found += np.isin(suspects, bad).sum()
        wrong += (~np.isin(suspects, bad)).sum()
    assert found >= 0.9 * 3 * m
    assert wrong <= 3


def test_far_in_a_few_columns_together_is_found_and_far_in_one_is_not() -> None:
    X = np.random.default_rng(0).standard_normal((300, 30))
    X[:15, :8] += 40.0
    X[20:25, 7] += 1e9  # one wild entry is what heavy tails do
    suspects = screened(X, 30).suspects
    assert set(range(15)) <= set(suspects.tolist())
    assert not set(range(20, 25)) & set(suspects.tolist())


def sizes_in_deviations(X: FloatArray) -> FloatArray:
    """How large each row is as a whole, by a direct computation: cube roots of sums of squares, in robust deviations.

    Of an odd number of rows, up to 999 of them, so that the median of each column is one of its values, from all rows.
    """
    scaled = np.clip(X / np.median(np.abs(X), axis=0), -3, 3)
    size = np.cbrt(np.sum((scaled - scaled.mean(axis=0)) ** 2, axis=1))
    return (size - np.median(size)) / (1.4826022185056018 * np.median(np.abs(size - np.median(size))))


def large_throughout(n: int, p: int, seed: int) -> FloatArray:
    """Three rows of which every entry is large, each in a direction of its own: no direction has them together."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:3] = 1.75 * rng.choice([-1.0, 1.0], (3, p))
    return X


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_large_throughout_are_found_from_30_columns_on(seed: int) -> None:
    found = screened(large_throughout(801, 30, seed), 20)
    assert set(found.suspects.tolist()) == {0, 1, 2}
    assert found.aligned == 0
    assert screened(large_throughout(801, 29, seed), 20).suspects.size == 0


@pytest.mark.parametrize("n", [501, 801])
def test_the_limit_of_size_is_one_deviation_beyond_the_farthest_of_n_normal_values(n: int) -> None:
    """Rows that grow from one to the next: those beyond √(2 ln n) + 1 deviations are rejected, and no other."""
    p, limit = 40, np.sqrt(2 * np.log(n)) + 1
    rng = np.random.default_rng(11)
    X = rng.standard_normal((n, p))
    X[:12] = rng.choice([-1.0, 1.0], (12, p)) * np.linspace(1.3, 1.75, 12)[:, np.newaxis]
    expected = sizes_in_deviations(X)
    beyond = np.flatnonzero(expected > limit)
    assert 3 <= beyond.size <= 9
    assert np.abs(expected - limit).min() < 0.2  # a limit that is off by half a deviation has others
    found = screened(X, 30)
    assert set(found.suspects.tolist()) == set(beyond.tolist())
    np.testing.assert_allclose(found.scores[beyond], expected[beyond], rtol=1e-4)


@pytest.mark.parametrize("most", [0, 1, 7, 50])
def test_never_more_off_together_than_may_be_and_the_worst_first(most: int) -> None:
    X = np.random.default_rng(1).standard_normal((200, 60))
    X[:30] += np.linspace(3, 5, 30)[:, np.newaxis]
    result = screened(X, most)
    assert result.aligned == result.kinds.count(TOGETHER) == min(most, 30)
    assert set(result.suspects.tolist()) == set(range(30))  # the others are large, at least
    for kind in (TOGETHER, LARGE):
        assert (np.diff(result.scores[result.suspects[np.equal(result.kinds, kind)]]) <= 0).all()
    assert list(result.kinds) == sorted(result.kinds, key=KINDS.index)
    np.testing.assert_array_equal(np.flatnonzero(result.weights == 0), np.sort(result.suspects))
    assert set(np.unique(result.weights)) <= {0.0, 1.0}
    assert set(np.argsort(-result.scores)[:30]) == set(range(30))
    assert (result.scores >= 0).all()
    assert np.isfinite(result.scores).all()


def test_far_in_the_same_few_columns_is_told_by_columns() -> None:
    """One row far in two columns of its own, and ten in the same three, of columns of which some are mostly zero."""
    rng = np.random.default_rng(4)
    X = rng.standard_t(3, (500, 20))
    X[:, 12:] = np.where(rng.random((500, 8)) < 0.2, rng.lognormal(0, 1, (500, 8)), 0.0)
    X[0, [2, 6]] = 1e4, 3e4
    X[10:20, [1, 5, 13]] = 1e3 * rng.uniform(1, 2, (10, 3))
    X[30, 7] = 1e6
    result = screened(X, 100)
    assert dict(zip(result.suspects.tolist(), result.kinds, strict=True)) == {
        0: FEW, **dict.fromkeys(range(10, 20), TOGETHER)
    }  # fmt: skip
    why = dict(zip(result.suspects.tolist(), result.reasons, strict=True))
    assert set(why[0]) == {2, 6}
    assert all(set(why[row]) == {1, 5, 13} for row in range(10, 20))


@pytest.mark.parametrize("n", [20, 30, 50])
@pytest.mark.parametrize("value", [10.0, 1e6])
def test_three_large_copies_are_off_together_however_few_the_rows(n: int, value: float) -> None:
    X = np.random.default_rng(0).standard_normal((n, 40))
    X[:3] = value
    found = score_rows(X)
    assert found.aligned == 3
    assert found.suspects.tolist() == [0, 1, 2]
    X[:3] *= [[1.0], [1.1], [1.21]]  # alike, but graded as heavy users are
    assert not copies(X[:3].astype(np.float32)).any()


def test_copies_are_three_at_least() -> None:
    x = np.random.default_rng(0).standard_normal((7, 30)).astype(np.float32)
    x[[1, 4, 5]] = x[1]
    x[[2, 3]] = x[2]
    x[5] *= 1.0001
    np.testing.assert_array_equal(np.flatnonzero(copies(x)), [1, 4, 5])
    assert not copies(x[:2]).any()
    assert copies(x[:0]).size == 0


@pytest.mark.parametrize(("n", "least"), [(100, 4), (200, 5), (600, 5)])
def test_rows_of_columns_mostly_zero_are_judged_by_the_tails_of_all(n: int, least: int) -> None:
    """Twenty values in a column tell little of its tail, but those of forty columns do; ten are missed 1 time in 40."""
    hits = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = np.where(rng.random((n, 40)) < 0.1, rng.lognormal(0, 1, (n, 40)), 0.0)
        assert score_rows(X).suspects.size == 0
        X[:4, :30] = 100.0
        suspects = set(score_rows(X).suspects.tolist())
        assert suspects <= set(range(4))
        hits += len(suspects) == 4
    assert hits >= least


def test_spiky_cells_make_no_suspects() -> None:
    """Each cell is 21 times as large with probability 2 %: far values, but scattered. 1 in 200 tables was measured."""
    rng = np.random.default_rng(0)
    tables = (rng.standard_normal((n, 40)) * np.where(rng.random((n, 40)) < 0.02, 21, 1) for n in [50, 200] * 10)
    assert sum(np.isin(score_rows(X).kinds, (TOGETHER, FEW)).any() for X in tables) <= 1


DATA = np.random.default_rng(2).standard_t(2.5, (250, 40))
DATA[:20] += 2.5


def test_powers_of_ten_on_the_columns_change_nothing() -> None:
    plain = screened(DATA, 25)
    scaled = screened(DATA * 10.0 ** np.linspace(-150, 150, 40).round(), 25)
    np.testing.assert_array_equal(scaled.suspects, plain.suspects)
    np.testing.assert_allclose(scaled.scores, plain.scores, rtol=1e-3, atol=1e-3)
    exactly = screened(DATA * 2.0 ** np.arange(-20, 20), 25)
    np.testing.assert_array_equal(exactly.scores, plain.scores)


def test_rows_in_another_order_get_the_same_scores() -> None:
    order = np.random.default_rng(0).permutation(250)
    plain, other = screened(DATA, 25), screened(DATA[order], 25)
    assert set(order[other.suspects]) == set(plain.suspects)
    np.testing.assert_allclose(other.scores, plain.scores[order], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("n", [1500, 3000])
@pytest.mark.parametrize("p", [10, 100])
@pytest.mark.parametrize("noise", ["t 3", "gaps", "mostly zero"])
def test_rows_of_long_tables_in_another_order_are_the_same_suspects(n: int, p: int, noise: str) -> None:
    """Where all rows tell the scales and tails of columns, not a score depends on their order."""
    for seed in range(2):
        rng = np.random.default_rng((seed, n, p))
        X = rng.standard_t(3, (n, p))
        if noise == "mostly zero":
            X = np.where(rng.random((n, p)) < 0.2, rng.lognormal(0, 1, (n, p)), 0.0)
        few, by = (50, 2.0) if p == 100 else (4, 60.0)
        X[:40, :few] += 300.0 if noise == "mostly zero" else by
        if noise == "gaps":
            X[rng.random((n, p)) < 0.1] = np.nan
        order = rng.permutation(n)
        plain, other = score_rows(X), score_rows(X[order])
        assert plain.suspects.size >= 30
        kinds = dict(zip(plain.suspects.tolist(), plain.kinds, strict=True))
        assert dict(zip(order[other.suspects].tolist(), other.kinds, strict=True)) == kinds
        np.testing.assert_allclose(other.scores, plain.scores[order], rtol=1e-3, atol=1e-3)


def test_signs_do_not_matter_and_the_input_is_not_touched() -> None:
    before = DATA.copy()
    np.testing.assert_allclose(screened(-DATA, 25).scores, screened(DATA, 25).scores, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(DATA, before)


def test_constant_and_zero_columns_say_nothing() -> None:
    wide = np.column_stack((DATA, np.zeros((250, 5)), np.full((250, 3), 7.0)))
    assert set(screened(wide, 25).suspects) == set(screened(DATA, 25).suspects)
    for nothing in (np.zeros((30, 6)), np.ones((30, 6)), np.zeros((30, 40)), np.empty((30, 0))):
        result = screened(nothing, 5)
        assert result.suspects.size == 0
        np.testing.assert_array_equal(result.scores, np.zeros(30))


@pytest.mark.parametrize("unit", [1e-310, 1e-300, 1e300, 1e307])
def test_units_far_from_one(unit: float) -> None:
    assert set(screened(DATA.clip(-10, 10) * unit, 25).suspects) == set(screened(DATA.clip(-10, 10), 25).suspects)


def test_entries_beyond_any_ratio() -> None:
    X = np.random.default_rng(0).standard_normal((100, 30))
    X[:, :15] *= 1e-300
    X[3] = -1e300
    np.testing.assert_array_equal(screened(X, 5).suspects, [3])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e18, 1e30, float(np.finfo(np.float32).max), 1e300])
def test_squares_that_overflow_warn_nobody(value: float) -> None:
    X = np.random.default_rng(0).standard_normal((50, 40))
    X[:3] = value
    assert set(score_rows(X).suspects.tolist()) == {0, 1, 2}
    X[:3] = np.where(np.arange(40) < 4, value, 1.0)
    assert np.isfinite(score_rows(X).scores).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_handful_of_rows(n: int) -> None:
    result = screened(np.random.default_rng(0).standard_normal((n, 50)), 1)
    assert result.suspects.size <= 1
    assert result.scores.shape == result.weights.shape == (n,)


def test_rows_are_listed_by_kind_and_joined() -> None:
    kinds, reasons = {0: LARGE, 1: LARGE, 3: TOGETHER}, {0: (4,), 1: (2, 3), 3: (1,)}
    rows = row_scores(np.array([3.0, 9.0, 1.0, 5.0]), kinds, reasons)
    np.testing.assert_array_equal(rows.suspects, [3, 1, 0])
    np.testing.assert_array_equal(rows.weights, [0, 0, 1, 0])
    assert rows.aligned == 1
    assert rows.kinds == (TOGETHER, LARGE, LARGE)
    assert rows.reasons == ((1,), (2, 3), (4,))
    both = row_scores(np.array([0.0, 0.0, 2.0, 0.0]), {2: FEW}, {2: (0,)}, before=rows)
    np.testing.assert_array_equal(both.suspects, [3, 2, 1, 0])
    np.testing.assert_array_equal(both.scores, [3, 9, 2, 5])
    assert row_scores(np.zeros(3), {}, {}).suspects.size == 0


def falling(n: int, power: float) -> FloatArray:
    """Return the expected places of the n values of a tail that falls like a power."""
    return (np.arange(1, n + 1) / n) ** (-1 / power)


def test_a_gap_is_where_the_tail_does_not_explain_it() -> None:
    tail, all_rows = falling(400, 3.0), np.ones(400, dtype=bool)
    assert apart(tail, all_rows, 4.0).size == 0
    tail[:6] += 40.0 + np.linspace(5, 0, 6)
    np.testing.assert_array_equal(apart(tail, all_rows, 4.0), np.arange(6))
    tail[:6] = 30 * falling(6, 1.0)  # the same gap, but ever thinner beyond
    assert apart(tail, all_rows, 4.0).size == 0


def test_gaps_of_tails_have_the_stated_rate() -> None:
    """1000 tails of a power: by exact spacings at most `BY_CHANCE` have a gap, so no more than 130 here (99.9 %)."""
    rng = np.random.default_rng(0)
    tails = (1 - rng.random((1000, 300))) ** (-1 / rng.uniform(0.8, 5, (1000, 1)))
    assert sum(apart(tail, np.ones(300, dtype=bool), 1.5).size > 0 for tail in tails) <= 130
    columns = np.abs(rng.standard_t(rng.uniform(1, 4, 300), (400, 300)))
    ratios = (columns / np.median(columns, axis=0)).astype(np.float32)
    far = far_values(Entries(*np.nonzero(ratios > INNER), ratios[ratios > INNER]), ratios.shape)
    assert far.row.size <= 2


def test_coincidences_of_far_values() -> None:
    rng = np.random.default_rng(0)
    scattered = rng.poisson(0.5, 2000)
    assert no_coincidence(scattered) > scattered.max()
    assert no_coincidence(np.r_[scattered, np.full(20, 8)]) in range(5, 9)
    assert no_coincidence(np.r_[np.zeros(499, dtype=int), 1]) == 2
    assert no_coincidence(np.r_[np.zeros(499, dtype=int), 2]) == 2
    assert no_coincidence(np.zeros(9, dtype=int)) == 1


def test_leaning_is_to_one_side() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, 60)).astype(np.float32)
    assert not leaning(noise).any()
    assert leaning(noise + np.float32(0.7)).all()
    assert not leaning(noise + np.float32(0.7) * np.repeat([[1], [-1]], 20, axis=0).astype(np.float32)).any()


# What screening finds without sorting, against what sorting finds.


def sorted_far_values(tails: Entries, shape: tuple[int, int]) -> set[tuple[int, int]]:
    """Return the entries beyond gaps, column by column, by the definition: x₁ ≥ x₂ ≥ … and every spacing is tried."""
    n, p = shape
    outer = np.abs(tails.value.astype(np.float64))
    counts = np.bincount(tails.row[outer > rows_room.FAR], minlength=n)
    usual = float(np.sort(counts)[n // 2] if n % 2 else np.sort(counts)[n // 2 - 1 : n // 2 + 1].mean())
    spoken = (counts <= usual + rows_room.SURELY * math.sqrt(usual + 1))[tails.row]
    censored = np.log(np.minimum(outer, rows_room.FAR) / INNER)
    common = (censored[spoken].sum() + rows_room.HEAVIEST) / (np.sum(outer[spoken] <= rows_room.FAR) + 1)
    found: set[tuple[int, int]] = set()
    for column in range(p):
        mine = np.flatnonzero(tails.column == column)
        within = int(np.sum(outer[mine] <= rows_room.FAR))
        far = mine[outer[mine] > rows_room.FAR]
        far = far[np.argsort(-outer[far], kind="stable")]
        x = np.append(outer[far], rows_room.FAR)
        cut = 0
        for rank in range(1, far.size + 1):
            spacing, m = math.log(x[rank - 1] / x[rank]), within + 1 + rows_room.SHARED
            exposure = max(censored[mine].sum() - rank * math.log(rows_room.FAR / INNER), 0.0)
            before, told = exposure + rows_room.HEAVIEST + rows_room.SHARED * common, min(m, rows_room.TELLING)
            evidence = told * math.log1p(rank * spacing * m / (before * told))
            wide = spacing >= math.log(rows_room.APART) and rank <= MOST_ALLOWED * n
            if wide and evidence > math.log(np.sum(outer > rows_room.FAR) / rows_room.BY_CHANCE):
                cut = rank
        found |= {(int(tails.row[i]), column) for i in far[:cut]}
    return found


@pytest.mark.parametrize("seed", range(60))
def test_far_values_are_those_beyond_gaps_of_sorted_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(3, 300)), int(rng.integers(2, 20))
    X = rng.standard_t(rng.choice([1.0, 1.5, 3.0]), (n, p))
    X[rng.integers(0, n, 3), rng.integers(0, p, 3)] *= rng.choice([10.0, 1e3, 1e15, 1e300])
    X[: n // 50] += rng.choice([5.0, 20.0, 100.0])
    table = StandardizedRows(np.round(X) if seed % 4 == 0 else X)
    found = rows_room.far_values(table.tail_entries, table.ratios.shape)
    assert set(zip(found.row.tolist(), found.column.tolist(), strict=True)) == sorted_far_values(
        table.tail_entries, table.ratios.shape
    )


@pytest.mark.parametrize("k", [1, 2, 3, 7, 128])
def test_medians_of_rows_by_bits_are_those_of_sorted_rows(k: int) -> None:
    X = np.random.default_rng(k).standard_t(1, (500, 2 * k)).astype(np.float32)
    X[::7] = 0.0
    X[::11] *= np.float32(1e15)
    X[::13, ::2] = np.float32(-1e18)
    out, columns = np.empty(500, dtype=np.float32), np.arange(k) * 2
    column_loops.row_medians(X.view(np.int32), columns, out.view(np.int32))
    np.testing.assert_array_equal(out, np.maximum(np.sort(np.abs(X[:, columns]), axis=1)[:, k // 2], 1))


def test_far_values_are_listed_alike_by_kernel_and_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_t(1, (300, 7)).astype(np.float32)
    X[5, 3], X[6, 3] = INNER, -np.nextafter(np.float32(INNER), np.float32(9))
    compiled = standardized.beyond(X, INNER)
    monkeypatch.setattr(compiling, "plainly", lambda _size: True)
    for a, b in zip(compiled, standardized.beyond(X, INNER), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (6, 3) in set(zip(compiled.row.tolist(), compiled.column.tolist(), strict=True))


@pytest.mark.parametrize("own", [0.0, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_rows_that_are_too_many_to_be_held_in_three_forms_have_the_same_scores(
    own: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((900, 40)) * rng.lognormal(0, own, (900, 1))
    X[:12] += 3.0
    X[20:23] = 9.0 * rng.standard_normal(40)
    X[rng.random(X.shape) < share] = np.nan
    expected = rows_room.score_rows(X)
    monkeypatch.setattr(standardized, "HELD", 1)
    monkeypatch.setattr(standardized, "BLOCK_VALUES", 5000)
    found = rows_room.score_rows(X)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-3, atol=1e-3)
    assert (found.suspects.tolist(), found.reasons) == (expected.suspects.tolist(), expected.reasons)
