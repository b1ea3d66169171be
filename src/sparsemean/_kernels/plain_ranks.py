"""Partners of ``signed_ranks`` and ``rank_tails``: all values at once in NumPy, or what was computed kept.

NumPy has exponentials of its own, which differ from those of the C library in the last bit: none are taken here.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from sparsemean._kernels.signed_ranks import log_tail
from sparsemean._util.records import FloatArray, IntArray

Arr = Any


def score_sums(ranks: IntArray, cap: int) -> IntArray:
    """Return Σ min(i, C) over i up to each rank."""
    return np.asarray(np.where(ranks <= cap, ranks * (ranks + 1) // 2, cap * (cap + 1) // 2 + cap * (ranks - cap)))


def add_scores(
    signs: Arr, all_sizes: Arr, gone: Arr, near: Arr, caps: Arr, repeats: Arr, low: Arr, doubled: Arr
) -> None:
    """Do what `signed_ranks.add_scores` does, all runs of values of one size at once."""
    features, n = signs.shape
    if not signs.size:
        return
    place = np.arange(n)
    ranked = place >= gone[:, np.newaxis]
    close = _close_to_last(all_sizes, gone, near) & (place > gone[:, np.newaxis])
    first = np.flatnonzero((ranked & ~close).reshape(-1))
    if not first.size:
        return
    feature, at = np.divmod(first, n)
    number = np.add.reduceat(ranked.reshape(-1).astype(np.int64), first)
    above = np.add.reduceat((signs & ranked).reshape(-1).astype(np.int64), first)
    rank = at - gone[feature] + 1
    signed_at = all_sizes.reshape(-1)[first] > 0
    single, tied = np.flatnonzero(signed_at & (number == 1)), np.flatnonzero(signed_at & (number > 1))
    runs = rank[tied], number[tied]
    for sign, k in np.ndindex(2, caps.size):
        mine = single[above[single] == 1 - sign]
        alone = np.bincount(feature[mine], np.minimum(rank[mine], caps[k]), features)
        signed = above[tied] if sign == 0 else number[tied] - above[tied]
        least, twice = (np.bincount(feature[tied], x, features) for x in _tied_scores(*runs, signed, cap=caps[k]))
        low[sign, k], doubled[sign, k] = alone + least, 2 * alone + twice
    repeats += np.bincount(feature, number - 1, features).astype(np.int64)  # sums are exact, far below 2⁵³


def _tied_scores(rank: IntArray, number: IntArray, signed: IntArray, *, cap: int) -> tuple[IntArray, IntArray]:
    """Return the lowest scores of the values of a sign in runs, and the doubled ones nearest to both ends."""
    half, end = signed // 2, rank + number - 1
    before = score_sums(rank - 1, cap)
    both = score_sums(rank + half - 1, cap) - before + score_sums(end, cap) - score_sums(end - half, cap)
    odd = np.where(signed % 2 == 1, np.minimum(rank + half, cap) + np.minimum(end - half, cap), 0)
    return score_sums(rank + signed - 1, cap) - before, 2 * both + odd


def _close_to_last(sizes: FloatArray, gone: IntArray, near: FloatArray) -> Any:
    """Say which sizes belong to the run of the one before: as close to it as rounding at the start of a run allows."""
    gaps = np.diff(sizes, axis=1, prepend=0.0)
    close = gaps <= near[:, :1]
    for row in np.flatnonzero(near[:, 1] > 0).tolist():
        size, (least, share), skipped = -math.inf, near[row].tolist(), int(gone[row])
        for at, value in enumerate(sizes[row, skipped:].tolist(), start=skipped):
            close[row, at] = gaps[row, at] <= least + share * size
            size = size if close[row, at] else value
    return close


_log_tail = lru_cache(maxsize=1 << 16)(log_tail)


def saddlepoint(values: Arr, cap: int, sums: Arr, out: Arr) -> None:
    """Do what `signed_ranks.saddlepoint` does; the same sums are asked for again and again."""
    out[:] = [_log_tail(number, cap, least) for number, least in zip(values.tolist(), sums.tolist(), strict=True)]


def sum_above(x: FloatArray, theta: float, cap: int) -> int:
    """Do what `signed_ranks.sum_above` does: the rank of a value above θ counts those below that are nearer."""
    above = int(np.searchsorted(x, theta, side="right"))
    nearer = np.searchsorted((theta - x[:above])[::-1], x[above:] - theta, side="left")
    return int(np.minimum(nearer + np.arange(1, nearer.size + 1), cap).sum())


def next_mean(x: FloatArray, above: float) -> float:
    """Do what `signed_ranks.next_mean` does."""
    values, best = x.tolist(), math.inf
    n = last = len(values)
    for i, value in enumerate(values):
        while last > i and value + 0.5 * (values[last - 1] - value) > above:
            last -= 1
        if last < n:
            best = min(best, value + 0.5 * (values[last] - value))
        if last <= i:
            break
    return best


@cache
def _lgamma() -> Callable[[float], float]:
    """Return log Γ of the C library, which numba calls; Python has its own."""
    function = ctypes.CDLL(None).lgamma
    function.restype, function.argtypes = ctypes.c_double, (ctypes.c_double,)
    return cache(function)


def log_choose(n: int, k: int) -> float:
    """Return the logarithm of a binomial coefficient."""
    lgamma = _lgamma()
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
