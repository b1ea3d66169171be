"""Tails of rank statistics are never too small, wherever an adversary may lead: against other ways to compute them."""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
import pytest
from scipy import stats

from sparsemean import SparseMeanDifference, certify
from sparsemean._kernels.rank_transforms import majorant, spread
from sparsemean._stats import group_ranks
from sparsemean._stats.group_ranks import log_u_tails as group_tails
from sparsemean._stats.signed_ranks import FARTHEST, LARGE, caps_of, log_tails

import exact_tails as exact
import tail_search


def too_large(N: int) -> float:
    """By how much a logarithm may exceed that of the tail: of very many values it is a bound."""
    return 1e-6 if N <= LARGE else 0.15


NUMBERS = np.geomspace(129, 12_000, 40).astype(int).tolist()


@pytest.mark.parametrize("numbers", [NUMBERS[place::4] for place in range(4)] + [[10**5, 10**6]])
def test_next_to_the_mean_no_tail_is_too_small_or_rises(numbers: list[int]) -> None:
    """Every sum within a tenth of a deviation, for 40 numbers of values; of very many values the first thousand."""
    for N in numbers:
        for cap in caps_of(N):
            middle = exact.largest_sum(N, cap) // 2
            sums = np.arange(middle + 1, middle + 2 + min(int(exact.deviation(N, cap) / 10), 10**8 // N))
            found, truth = log_tails(np.full(sums.size, N), cap, sums), np.log(exact.signed_tails(N, cap, sums))
            assert np.isfinite(found).all()
            assert (np.diff(found) <= 0).all()
            assert (found >= truth - 1e-15).all()
            assert (found[1:] <= truth[1:] + too_large(N)).all()  # it is 1 next to the mean


@pytest.mark.parametrize("seed", range(4))
def test_random_sums_have_tails_that_are_not_too_small(seed: int) -> None:
    """25,000 sums for each seed: up to six deviations off, of up to a million values."""
    rng = np.random.default_rng(seed)
    for N in [*np.exp(rng.uniform(np.log(129), np.log(20_000), 49)).astype(int).tolist(), (10**5, 10**6)[seed % 2]]:
        cap = int(rng.choice(caps_of(N)))
        middle, sd = exact.largest_sum(N, cap) // 2, exact.deviation(N, cap)
        sums = np.sort(middle + 2 + (rng.uniform(0, 6, 500) * sd).astype(np.int64))
        found, truth = np.exp(log_tails(np.full(sums.size, N), cap, sums)), exact.signed_tails(N, cap, sums)
        assert (np.diff(found) <= 0).all()
        assert (found >= truth - 1e-14).all()
        assert (found <= truth * math.exp(too_large(N)) + 1e-14).all()


LUMPED = [(3612, 361), (5042, 504), (5042, 649), (6000, 600), (9000, 900), (14_990, 1499), (15_010, 1501)]


@pytest.mark.parametrize(("N", "cap"), [(400, 160), (1000, 400), *LUMPED, (9000, 9000)])
def test_far_sums_have_tails_that_are_not_too_small(N: int, cap: int) -> None:
    """Down to where half a dozen of the largest scores are lacking, and sums lie in lumps."""
    most = exact.largest_sum(N, cap)
    sums = most - np.unique(np.geomspace(2001, most // 2 - 2, 16).astype(np.int64))
    truth = np.array([exact.signed_log_tail(N, cap, int(least)) for least in sums])
    excess = log_tails(np.full(sums.size, N), cap, sums) - truth
    assert (excess > 0).all()
    assert (excess < np.where(truth > FARTHEST, too_large(N), -0.02 * truth)).all()


def forged(seed: int, N: int = 18_880, bad_rows: int = 189) -> tuple[np.ndarray, int]:
    """Noise, and a column of it where no more than so many signs were turned.

    The sum of ranks, less what so many rows could have moved, is where a formula once had 2.4e-4 in place of a half.
    """
    cap, target = 7552, 57_034_617
    X = np.random.default_rng(seed).normal(size=(N, 50))
    target += sum(min(N - k, cap) for k in range(bad_rows))
    for column in range(50):
        x = X[:, column]
        rank = np.argsort(np.argsort(np.abs(x))) + 1
        turned, missing = divmod(target - int(np.minimum(rank, cap)[x > 0].sum()), cap)
        own = np.flatnonzero((x < 0) & (rank == missing))
        if 0 <= turned < bad_rows - 1 and own.size:
            X[np.flatnonzero((x < 0) & (rank > cap))[:turned], column] *= -1
            X[own, column] *= -1
            return X, column
    raise AssertionError("no column is within reach")


def test_turning_signs_does_not_forge_a_feature(long_version: bool) -> None:
    for seed in range(10 if long_version else 2):
        X, column = forged(seed)
        certified = certify(X, contamination=0.01)
        assert certified.support.size == 0
        assert certified.p_values[column] > 0.5


def stratified(n1: list[int], n2: list[int], A: list[int], place: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A column of zeros and A different values, labels and strata, whose 2U of the first group is ``place``."""
    laws = [exact.stratum(*sizes) for sizes in zip(n1, n2, A, strict=True)]
    left = place - laws[1][0][:, np.newaxis]
    one = int(laws[0][0][np.isin(laws[0][0], left)].max())
    columns = [column_of(*sizes, w) for *sizes, w in zip(n1, n2, A, (one, place - one), strict=True)]
    label = [np.repeat([1, 0], sizes) for sizes in zip(n1, n2, strict=True)]
    return np.concatenate(columns), np.concatenate(label), np.repeat([0, 1], np.add(n1, n2))


def column_of(n1: int, n2: int, A: int, place: int) -> np.ndarray:
    """A column of the first group, then of the second, whose 2U is ``place``."""
    for a in range(max(0, A - n2), min(n1, A) + 1):
        lost, b = 2 * a * n2 + (n1 - a) * (n2 - A + a) - place, A - a
        if lost % 2 == 0 and 0 <= lost <= 2 * a * b:
            beaten = np.minimum(np.maximum(lost // 2 - b * np.arange(a), 0), b)  # by so many of the second group each
            second = np.arange(1.0, b + 1)
            return np.concatenate((b + 0.5 - beaten + 1e-3 * np.arange(a), np.zeros(n1 - a), second, np.zeros(n2 - b)))
    raise AssertionError("no column has this sum")


@pytest.mark.parametrize(
    ("n1", "n2", "A", "z"),
    [
        ([28, 47], [1956, 2426], [7, 3], 14.17),
        ([15_000, 20_000], [15_000, 20_000], [90, 90], 2.0),
        ([15_000, 20_000], [15_000, 20_000], [90, 90], 4.0),
        ([300, 400], [2700, 3600], [30, 20], 3.0),
    ],
)
def test_strata_with_zeros_have_exact_tails(n1: list[int], n2: list[int], A: list[int], z: float) -> None:
    """Lumps of both fall together far from angle 0, or are so few that a tilt is hard to find."""
    laws = [exact.stratum(*sizes) for sizes in zip(n1, n2, A, strict=True)]
    sd = math.sqrt(sum(float(p @ (w - p @ w) ** 2) for w, p in laws))
    goal = float(np.dot(n1, n2)) + z * sd
    attained = np.add.outer(laws[0][0], laws[1][0][:: max(1, laws[1][0].size // 50)])
    place = int(attained.ravel()[np.abs(attained - goal).argmin()])
    x, y, strata = stratified(n1, n2, A, place)
    result = SparseMeanDifference(contamination=0).fit(x[:, np.newaxis], y, strata=strata)
    tail = exact.tails_of_sum(*laws, place)[0]
    assert 1.0 <= result.result_.p_values[0] / (2 * tail) <= 1.1  # two sides


@pytest.mark.parametrize("rate", [0.01, 0.3, 2.0, 30.0])
def test_a_function_that_ends_lies_above_the_one_it_stands_for(rate: float) -> None:
    band = 4000
    u, v = np.array([majorant(j, band, rate) for j in range(band)]).T
    x = np.linspace(-6, 6, 481)
    angle = 2 * np.pi / band * np.outer(x, np.arange(band))
    above = (2 * (np.cos(angle) @ u - np.sin(angle) @ v) - u[0]) / band
    below = np.where(x >= 0, np.exp(-rate * np.maximum(x, 0)), 0.0)
    assert (above >= below - 1e-14).all()
    np.testing.assert_allclose(above[::40], below[::40], atol=1e-12)  # they meet at whole numbers


@pytest.mark.parametrize(
    ("n", "share"), [(300, 1.0), (20_000, 1.0), (250_000, 1.0), (2000, 0.3), (20_000, 0.3), (20_000, 0.01)]
)
def test_large_strata_have_tails_next_to_normal_ones(n: int, share: float) -> None:
    sizes, A = np.full((1, 2), n), np.full((1, 2), round(2 * n * share))
    mean, sd = 2 * n * n, math.sqrt(2 * spread(n, n, int(A[0, 0])))
    for z in (1.0, 2.0, 4.0):
        place = int(mean + z * sd)
        found = group_tails(sizes, sizes, A, np.array([place]), bound=False, halves=False)[0]
        assert -0.05 < found - stats.norm.logsf((place - 1 - mean) / sd) < 0.2


def test_donors_with_few_values_above_zero_have_their_tail() -> None:
    """Lumps far apart: p was 1 where it is 2e-9."""
    sizes, A = [(28, 1956, 7), (47, 2426, 3)], np.array([[7, 3]])
    n1, n2 = np.array([[28, 47]]), np.array([[1956, 2426]])
    for place in (170_000, 178_000, 180_850, 181_500):
        found = group_tails(n1, n2, A, np.array([place]), bound=False, halves=False)[0]
        truth = math.log(exact.tails_of_sum(*(exact.stratum(*stratum) for stratum in sizes), place)[0])
        assert truth <= found <= truth + 1e-5


@pytest.mark.parametrize(("first", "second"), [
    ((1,), (300,)), ((3,), (150,)), ((15,), (80,)), ((60,), (60,)), ((150,), (160,)), ((8, 16), (30, 60)),
    ((15, 7, 30), (15, 40, 40)),
])  # fmt: skip
def test_tails_of_distinct_values_are_exact(
    first: tuple[int, ...], second: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every sum above the mean against whole numbers; a larger function for few angles is not too small either."""
    ways = [1]
    for small, large in (sorted(sizes) for sizes in zip(first, second, strict=True)):
        ways += [0] * (small * large)
        for i in range(1, small + 1):
            for v in range(len(ways) - 1, large + i - 1, -1):
                ways[v] -= ways[v - large - i]
            for v in range(i, len(ways)):
                ways[v] += ways[v - i]
    total, missed = sum(ways), np.unique(np.linspace(0, (len(ways) - 2) // 2, 2000).astype(int))
    through = list(accumulate(ways))
    truth = np.array([math.log(through[v]) - math.log(total) for v in missed])
    for angles, most in ((group_ranks.MOST_ANGLES, 1e-8), (2048, np.inf)):
        monkeypatch.setattr(group_ranks, "MOST_ANGLES", angles)
        found = group_ranks.DistinctRanks(first, second).log_tails(len(ways) - 1 - missed)
        assert (found >= truth - 1e-15).all()
        assert (found <= truth + most).all()


@pytest.mark.parametrize("kind", tail_search.MET)
def test_what_a_search_has_met_is_mended(kind: str) -> None:
    for problem in tail_search.MET[kind]:
        assert -0.15 < tail_search.KINDS[kind][1](*problem) <= 0


@pytest.mark.parametrize("kind", tail_search.KINDS)
def test_a_short_search_finds_no_tail_that_is_too_small(kind: str) -> None:
    excess, problem, tries = tail_search.search(kind, 0.5, 1)
    assert excess <= 0, problem
    assert tries > 3
