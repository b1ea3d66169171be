"""A search for tails that are too small: log(exact/reported) of rank statistics is made as large as it will get.

``make tails MINUTES=60`` runs it; it fails where a reported tail lies below the exact one. Every kind of problem has
its own law of random ones; half of the tries are changes of the worst one that was met.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import numpy as np

from sparsemean._kernels import compiling
from sparsemean._kernels.rank_tails import log_hypergeometric_tail
from sparsemean._stats.group_ranks import log_u_tails as group_tails
from sparsemean._stats.signed_ranks import caps_of
from sparsemean._stats.signed_ranks import log_tails as signed_tails

import exact_tails as exact

Problem = tuple[int, ...]
Rng = np.random.Generator
LOG_2 = math.log(2.0)


def between(rng: Rng, low: float, high: float) -> int:
    """Return a whole number, its logarithm uniform."""
    return int(math.exp(rng.uniform(math.log(low), math.log(high))))


def beyond(rng: Rng, mean: float, sd: float, most: int) -> int:
    """Return a place above the mean: so many deviations off, or anywhere."""
    far = mean + rng.uniform(0, 8) * sd if rng.random() < 0.7 else rng.uniform(mean, most)
    return int(min(most, max(far, mean + 1)))


def signed(rng: Rng) -> Problem:
    n = between(rng, 20, 20_000) if rng.random() < 0.98 else between(rng, 20_000, 1_000_000)
    N, cap = int(rng.integers(max(2, n // 3), n + 1)), int(rng.choice(caps_of(n)))
    most = exact.largest_sum(N, cap)
    if rng.random() < 0.3:
        return N, cap, most - between(rng, 1, max(2, most // 2 if rng.random() < 0.5 else min(20 * cap, most // 2)))
    return N, cap, beyond(rng, most / 2, exact.deviation(N, cap) * (0.02 if rng.random() < 0.3 else 1), most)


def judge_signed(N: int, cap: int, least: int) -> float:
    most = exact.largest_sum(N, cap)
    if not (cap > 0 and N > 1 and 1 < 2 * least - most <= most):
        return -math.inf
    if most - least <= 2000:
        truth = exact.signed_log_tail_at_end(N, cap, most - least)
    else:
        truth = exact.signed_log_tail(N, cap, least)
    return truth - float(signed_tails(np.array([N]), cap, np.array([least]))[0])


def signed_ties(rng: Rng) -> Problem:
    sizes = rng.integers(1, 1 + rng.integers(1, 9), rng.integers(2, 16))
    n = int(sizes.sum())
    return (int(rng.choice(caps_of(n))), int(rng.integers(2)), int(rng.integers(1, 1000)), *sizes.tolist())


def judge_signed_ties(cap: int, doubled: int, share: int, *sizes: int) -> float:
    if min(sizes, default=0) < 1 or cap < 1 or not 0 < share <= 1000 or doubled not in (0, 1):
        return -math.inf
    law, N = exact.signed_law_of_ties(sizes, cap, doubled=bool(doubled)), sum(sizes)
    place = int(law[0][(law[0].size - 1) * share // 1000])
    found = signed_tails(np.array([N]), cap, np.array([-(-place // 2) if doubled else place]))[0]
    truth = math.log(exact.tails_of(law, place))
    return truth - float(min(0.0, found + LOG_2 * doubled))


def groups(rng: Rng, strata: int, *, zeros: bool, most: int, values: int) -> Problem:
    n1, n2 = ([between(rng, 1, most) for _ in range(strata)] for _ in range(2))
    if strata > 1 and rng.random() < 0.4:  # sizes with a common factor: lumps fall together
        unit, times = between(rng, 1, most), rng.integers(1, 8, strata)
        n1 = [max(1, int(unit * k * rng.choice([0.5, 0.3, 0.1, 0.01]))) for k in times]
        n2 = [max(1, unit * int(k) - one) for k, one in zip(times, n1, strict=True)]
    A = [min(one + two, between(rng, 1, values)) if zeros else one + two for one, two in zip(n1, n2, strict=True)]
    laws = [exact.stratum(*sizes) for sizes in zip(n1, n2, A, strict=True)]
    mean = sum(one * two for one, two in zip(n1, n2, strict=True))
    sd = math.sqrt(sum(float(p @ (w - p @ w) ** 2) for w, p in laws))
    return (beyond(rng, mean, sd, sum(int(w[-1]) for w, _ in laws)), *n1, *n2, *A)


def judge_groups(place: int, *sizes: int, fewer: int = 0, bound: bool = False) -> float:
    n1, n2, A = np.array(sizes).reshape(3, -1)
    if min(n1.min(), n2.min(), A.min()) < 1 or (n1 + n2 - A).min() < 0 or A.max() > 90 or fewer > A.min():
        return -math.inf
    laws = [exact.stratum(int(a), int(b), int(c) - fewer) for a, b, c in zip(n1, n2, A, strict=True)]
    truth = float((exact.tails_of(laws[0], [place]) if len(laws) == 1 else exact.tails_of_sum(*laws, place))[0])
    if place <= int(n1 @ n2) or truth < 1e-290:
        return -math.inf
    asked = (np.atleast_2d(each) for each in (n1, n2, A))
    return math.log(truth) - float(group_tails(*asked, np.array([place]), bound=bound, halves=False)[0])


def bounded(rng: Rng) -> Problem:
    problem = groups(rng, int(rng.integers(1, 3)), zeros=True, most=400, values=40)
    return (int(rng.integers(0, 5)), *problem)


def tied(rng: Rng) -> Problem:
    sizes = rng.integers(1, 1 + rng.integers(1, 7), rng.integers(2, 10))
    sizes[0] += rng.integers(0, 20)
    return (int(rng.integers(1, sizes.sum())), int(rng.integers(2)), int(rng.integers(2)), int(rng.integers(1, 1000)),
            *sizes.tolist())  # fmt: skip


def judge_tied(n1: int, zeros: int, halves: int, share: int, *sizes: int) -> float:
    N = sum(sizes)
    if min(sizes) < 1 or not 0 < n1 < N or N > 60 or not 0 < share <= 1000 or {zeros, halves} - {0, 1}:
        return -math.inf
    law = exact.tied_groups(sizes, n1, zeros=bool(zeros), halves=bool(halves))
    place, A = int(law[0][(law[0].size - 1) * share // 1000]), N - zeros * sizes[0]
    asked = (np.array([[number]]) for number in (n1, N - n1, A))
    if A < 1 or place <= n1 * (N - n1):
        return -math.inf
    found = group_tails(*asked, np.array([place]), bound=False, halves=bool(halves))[0]
    return math.log(exact.tails_of(law, [place])[0]) - float(min(0.0, found))


def two_values(rng: Rng) -> Problem:
    n1, n2 = between(rng, 1, 10_000), between(rng, 1, 10_000)
    A = between(rng, 1, n1 + n2)
    sd = math.sqrt(A * (n1 / (n1 + n2)) * (n2 / (n1 + n2)))
    return n1, n2, beyond(rng, A * n1 / (n1 + n2), sd, min(n1, A)), A


def judge_two_values(n1: int, n2: int, a: int, A: int) -> float:
    n = n1 + n2
    if min(n1, n2, A) < 1 or n < A or not max(A - n2, A * n1 / n) <= a <= min(n1, A):
        return -math.inf
    ways, term = 0, math.comb(A, a) * math.comb(n - A, n1 - a)
    for k in range(a, min(n1, A) + 1):
        ways += term
        term = term * (A - k) * (n1 - k) // ((k + 1) * (n - A - n1 + k + 1))
        if term << 80 < ways:
            break
    return math.log(ways) - math.log(math.comb(n, n1)) - float(log_hypergeometric_tail(n1, n2, a, A))


KINDS: dict[str, tuple[Callable[[Rng], Problem], Callable[..., float]]] = {
    "signed ranks": (signed, judge_signed),
    "signed ranks, ties": (signed_ties, judge_signed_ties),
    "groups": (lambda rng: groups(rng, 1, zeros=False, most=45, values=0), judge_groups),
    "groups, zeros": (lambda rng: groups(rng, 1, zeros=True, most=3000, values=60), judge_groups),
    "groups, ties": (tied, judge_tied),
    "groups, two values": (two_values, judge_two_values),
    "strata": (lambda rng: groups(rng, 2, zeros=False, most=25, values=0), judge_groups),
    "strata, zeros": (lambda rng: groups(rng, 2, zeros=True, most=3000, values=50), judge_groups),
    "bad rows, zeros, strata": (
        bounded, lambda fewer, *problem: judge_groups(*problem, fewer=fewer, bound=True),
    ),
}  # fmt: skip


MET: dict[str, list[Problem]] = {
    "strata, zeros": [
        *((2390054 + k, 902, 9, 2626, 22, 8, 31) for k in range(-6, 3)),
        *((9636056 + k, 29, 1025, 2901, 9236, 35, 2) for k in range(-6, 3)),
    ],
    "signed ranks": [(5042, 649, 3058760), *((5042, 504, 2412411 - k) for k in range(0, 400, 50))],
}
"""Of which a search found tails that were too small, once."""


def changed(problem: Problem, rng: Rng) -> Problem:
    """Return a problem with one or two of its numbers a little different."""
    out = list(problem)
    for at in rng.integers(0, len(out), rng.integers(1, 3)):
        out[at] = max(0, out[at] + int(rng.choice([-1, 1])) * between(rng, 1, max(2, abs(out[at]) // 20)))
    return tuple(out)


def search(kind: str, seconds: float, seed: int) -> tuple[float, Problem, int]:
    """Return the largest log(exact/reported) that was met, of which problem, and how many were looked at."""
    draw, judge = KINDS[kind]
    rng, until = np.random.default_rng([seed, len(kind)]), time.monotonic() + seconds
    best, worst, tries = -math.inf, (), 0
    while time.monotonic() < until:
        problem = changed(worst, rng) if worst and rng.random() < 0.5 else draw(rng)
        excess, tries = judge(*problem), tries + 1
        if excess > best or math.isnan(excess):
            best, worst = excess, problem
        if math.isnan(excess):
            return math.inf, problem, tries
    return best, worst, tries


def main(minutes: float, seed: int) -> int:
    compiling.end_plainness()
    found = 0.0
    for kind in KINDS:
        best, problem, tries = search(kind, 60 * minutes / len(KINDS), seed)
        sys.stdout.write(f"{kind:26}{tries:9} tries   largest log(exact/reported) {best:+.2e}   at {problem}\n")
        sys.stdout.flush()
        found = max(found, best)
    return 1 if found > 0 else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
