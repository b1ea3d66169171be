"""Tails of U given all ties are those of counting all groups there are, wherever that can be done."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from sparsemean._kernels.tied_tails import log_tied_tail

import exact_tails as exact


def log_tails(sizes: Sequence[Sequence[int]], drawn: Sequence[int], doubled: np.ndarray) -> np.ndarray:
    """The kernel's, of 2U summed over strata whose levels have such sizes, at several places."""
    times = [np.array(each) for each in sizes]
    scores = [2 * np.cumsum(each) - each + 1 for each in times]
    ends = np.cumsum([0, *(each.size for each in times)])
    flat = (np.concatenate(each).astype(np.float64) for each in (scores, times))
    arguments = (*flat, ends, np.array(drawn, dtype=np.float64))
    places = doubled + sum(n * (n + 1) for n in drawn)
    return np.array([log_tied_tail(*arguments, float(place)) for place in places])


KINDS = {
    "two values": lambda rng, N: rng.multinomial(N - 2, (0.8, 0.2)) + 1,
    "ratings": lambda rng, N: rng.multinomial(N, (0.1, 0.2, 0.4, 0.2, 0.1)),
    "counts": lambda rng, N: np.bincount(rng.poisson(0.5, N)),
    "payers": lambda _, N: np.array([N // 2, *np.ones(N - N // 2, dtype=int)]),
    "rounded": lambda rng, N: np.unique(rng.normal(size=N).round(1), return_counts=True)[1],
    "a block in the middle": lambda _, N: np.array([*np.ones(N // 3), N // 3, *np.ones(N // 3)], dtype=int),
    "no ties": lambda _, N: np.ones(N, dtype=int),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("N", "n1"), [(5, 2), (9, 1), (16, 8), (30, 26), (60, 20)])
def test_every_tail_is_that_of_counting(kind: str, N: int, n1: int) -> None:
    times = KINDS[kind](np.random.default_rng(N), N)
    times = times[times > 0]
    n2 = int(times.sum()) - n1
    law = exact.tied_groups(times.tolist(), n1, zeros=False, halves=True)
    places = law[0][law[0] > n1 * n2]
    places = places[:: max(1, places.size // 60)]
    found, truth = log_tails([times], [n1], places), np.log(exact.tails_of(law, places))
    assert (found >= truth - 1e-9).all()
    assert (found <= truth + (1e-5 if N < 60 else 3e-3))[truth < math.log(0.4)].all()


def test_strata_add_up() -> None:
    one, other = [3, 1, 1, 5, 2], [1, 1, 1, 1, 4, 1]
    laws = [exact.tied_groups(sizes, n1, zeros=False, halves=True) for sizes, n1 in ((one, 5), (other, 4))]
    middle, most = 5 * 7 + 4 * 5, int(laws[0][0][-1] + laws[1][0][-1])
    places = np.arange(middle + 1, most + 1)
    truth = np.log(exact.tails_of_sum(*laws, places))
    found = log_tails([one, other], [5, 4], places)
    assert (found >= truth - 1e-9).all()
    assert (found <= truth + 1e-5)[truth < math.log(0.4)].all()


@pytest.mark.parametrize(("N", "ones", "n1"), [(1000, 100, 500), (40_000, 4000, 20_000), (400_000, 1000, 100_000)])
def test_two_values_are_hypergeometric(N: int, ones: int, n1: int) -> None:
    mean, sd = ones * n1 / N, math.sqrt(ones * n1 / N * (1 - n1 / N) * (N - ones) / (N - 1))
    a = np.unique(np.rint(mean + sd * np.array([1.0, 2, 3, 4, 5, 6, 8])).astype(int))
    doubled = 2 * a * (N - n1 - ones + a) + a * (ones - a) + (n1 - a) * (N - n1 - ones + a)
    found, truth = log_tails([[N - ones, ones]], [n1], doubled), stats.hypergeom.logsf(a - 1, N, ones, n1)
    assert (found >= truth - 1e-6).all()  # SciPy's own digits
    assert (found <= truth + 3e-3).all()


def test_transforms_that_come_back_all_over_the_circle_cost_nothing() -> None:
    """Few levels of thousands of rows: by the binomial law of each level, one after the other."""
    times, n1 = [1500, 400, 100], 1000
    N, sd = sum(times), math.sqrt(1000 * 1000 / 12 / 2000 / 1999 * (2000**3 - sum(t**3 for t in times)))
    for z in (2.0, 4.0, 6.0):
        place = int(1000 * 1000 + 2 * z * sd)
        truth = 0.0
        for top in range(times[2] + 1):
            left = n1 - top
            # 2U = Σ a (2·below + size) − a² … is linear in how many are drawn of each level, as scores are
            scores = np.array([1501, 3401, 3901])
            least = place + n1 * (n1 + 1) - top * scores[2]
            # a of the middle level, the rest of the lowest one
            a = max(0, math.ceil((least - left * scores[0]) / (scores[1] - scores[0])))
            here = stats.hypergeom.pmf(top, N, times[2], n1)
            truth += here * stats.hypergeom.sf(a - 1, times[0] + times[1], times[1], left)
        (found,) = log_tails([times], [n1], np.array([place]))
        assert math.log(truth) - 1e-7 <= found <= math.log(truth) + 3e-3


def test_a_place_that_one_group_alone_reaches() -> None:
    for times, n1 in (([1] * 12, 4), ([5, 3, 4], 4), ([1] * 60, 20), ([20, 1, 1, 1], 3)):
        law = exact.tied_groups(times, n1, zeros=False, halves=True)
        found = log_tails([times], [n1], law[0][-1:])
        assert float(found[0]) == pytest.approx(math.log(law[1][-1]), abs=1e-5)


FAR = {
    "ratings": ([10, 20, 40, 20, 10], (3, 40, 97)),
    "zeros and others": ([70, *[1] * 40, 3, 2, 5], (4, 60, 100)),
    "a block at the top": ([*[1] * 50, 2, 2, 60], (2, 55, 80)),
    "no ties": ([1] * 90, (2, 9, 45, 87)),
    "two blocks, one value between": ([80, 1, 80], (2, 81, 150)),
}


@pytest.mark.parametrize("kind", FAR)
def test_far_tails_and_ends_are_those_of_counting(kind: str) -> None:
    times, sizes = FAR[kind]
    below = np.cumsum(times) - times
    scores = 2 * below + times
    scores = (scores - scores[0]) // np.gcd.reduce(np.diff(scores))
    N, rows = sum(times), np.repeat(scores, times)
    for drawn in sizes:
        mean, sd = drawn * rows.mean(), math.sqrt(drawn * (N - drawn) / (N - 1) * rows.var())
        end = int(rows[N - drawn :].sum())
        far = [mean + z * sd for z in (0.5, 1, 2, 3, 5, 7, 9, 11)]
        near_end = [end - x for x in (0, 1, 2, 3, 7, 20, *np.unique(np.diff(scores)).tolist())]
        places = sorted({math.ceil(x) for x in far + near_end if mean < x <= end})
        truth = exact.counted_log_tails([(scores.tolist(), times, drawn)], places)
        arguments = scores * 1.0, np.array(times) * 1.0, np.array([0, len(times)]), np.array([float(drawn)])
        found = np.array([log_tied_tail(*arguments, float(place)) for place in places])
        assert (found >= truth - 1e-12).all()
        assert (found <= truth + 5e-3)[truth < math.log(0.4)].all()


@pytest.mark.parametrize("drawn", [(1, 3, 2), (10, 20, 4), (38, 2, 5), (20, 30, 6)])
def test_far_tails_of_strata_are_those_of_counting(drawn: tuple[int, ...]) -> None:
    sizes = [20, *[1] * 20], [3, 4, 5, 20, 3], [5, 2]
    scores = [(2 * np.cumsum(each) - each) - each[0] for each in sizes]
    rows = [np.repeat(score, each) for score, each in zip(scores, sizes, strict=True)]
    mean = sum(n * each.mean() for n, each in zip(drawn, rows, strict=True))
    end = sum(int(each[each.size - n :].sum()) for n, each in zip(drawn, rows, strict=True))
    places = sorted({math.ceil(mean + share * (end - mean)) for share in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97, 0.99, 1)})
    strata = [(score.tolist(), each, n) for score, each, n in zip(scores, sizes, drawn, strict=True)]
    truth = exact.counted_log_tails(strata, places)
    flat = np.concatenate(scores) * 1.0, np.concatenate([np.array(each) for each in sizes]) * 1.0
    ends = np.cumsum([0, *(len(each) for each in sizes)])
    found = np.array([log_tied_tail(*flat, ends, np.array(drawn) * 1.0, float(place)) for place in places])
    assert (found >= truth - 1e-12).all()
    assert (found <= truth + 5e-3)[truth < math.log(0.4)].all()


@pytest.mark.parametrize("drawn", [3, 5, 12])
def test_few_against_hundreds_of_many_values_have_their_tail(drawn: int) -> None:
    """Where it would take very many factors it may be a few per cent too large."""
    times = [150, *np.random.default_rng(drawn).integers(1, 3, 100).tolist()]
    scores = 2 * np.cumsum(times) - times
    scores -= scores[0]
    rows = np.repeat(scores, times)
    mean, end = drawn * rows.mean(), int(rows[rows.size - drawn :].sum())
    places = [math.ceil(mean + share * (end - mean)) for share in (0.3, 0.6, 0.9, 0.99, 1.0)]
    truth = exact.counted_log_tails([(scores.tolist(), times, drawn)], places)
    arguments = scores * 1.0, np.array(times) * 1.0, np.array([0, len(times)]), np.array([float(drawn)])
    found = np.array([log_tied_tail(*arguments, float(place)) for place in places])
    assert (found >= truth - 1e-12).all()
    assert (found <= truth + 0.02).all()
