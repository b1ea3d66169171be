"""The step-down maximum of studentised sums under common sign flips or permutations (Westfall and Young 1993).

A flip turns the signs of whole rows, a permutation deals their labels again: what was as likely as the data, where
nothing differs. r = S/√V, the sum of a feature over the root of its variance under all of these, is compared with the
largest r of the features that are no stronger. t is an increasing function of r, as sums of squares stay as they are;
where values are missing, r of few values stays small and t does not. docs/guarantees.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.memory_layout import count_threads, cut, each, one_blas_thread
from sparsemean._kernels.rounding import DOUBLES
from sparsemean._stats.arrays import group_indices
from sparsemean._util.plans import Side
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

USUAL = 10_000
"""Draws, with the data themselves."""
ENOUGH = 40
"""Times the level that draws are at least: a threshold that rests on so many of them is off by a sixth."""
MOST = 1_000_000
"""Draws at most, which a level below its inverse is too small for."""
WORK = 5e11
"""Products up to which draws are more than enough, half a minute on two cores."""
HELD, AT_ONCE = 32_000_000, 4_000_000
"""Values that are held at once, 256 MB, and signs that a thread holds."""
FEATURES, DRAWS = 512, 256
"""Sums that a thread holds at once: they stay near."""


@dataclass(frozen=True, eq=False)
class Randomization:
    """Signs of rows that were as likely as those that they have, if nothing differs.

    Of one sample all are 1, and any of them may turn. Of groups those of the label have 1 and the others −1, and signs
    are dealt again within ``strata``.
    """

    signs: FloatArray
    strata: tuple[IntArray, ...] | None
    """The rows of each stratum of groups; None for one sample."""
    side: Side
    number: int
    exact: bool
    """Whether these are all that there are, those of the data among them."""
    seed: tuple[int, ...] = (0,)

    @classmethod
    def of(
        cls, signs: FloatArray, strata: IntArray | None, *, side: Side, draws: int, seed: tuple[int, ...] = (0,)
    ) -> Self:
        """Take all that there are, if they are no more than ``draws``, else so many with the data themselves."""
        if strata is None:
            rows, total = None, 2 ** (signs.size - (side is Side.BOTH))  # turning all rows changes no size
        else:
            rows = tuple(at for _, at in group_indices(strata))
            total = math.prod(math.comb(at.size, int(np.sum(signs[at] > 0))) for at in rows)
        exact = total <= draws
        return cls(signs, rows, side, total if exact else draws - 1, exact, seed)

    @property
    def smallest(self) -> float:
        """The smallest p-value that there can be."""
        halves = [2 * np.sum(self.signs[rows] > 0) == rows.size for rows in self.strata or ()]
        twice = self.exact and self.side is Side.BOTH and all(halves) and bool(halves)  # swapping all labels
        return (1 + twice) / (self.number + (not self.exact))

    @cached_property
    def _every(self) -> npt.NDArray[np.int8]:
        """All that there are, a column each."""
        if self.strata is None:
            bits = np.arange(self.number) >> np.arange(self.signs.size)[:, np.newaxis]
            return (1 - 2 * (bits & 1)).astype(np.int8)
        out = np.empty((self.signs.size, 1), dtype=np.int8)
        for rows in self.strata:
            labelled = np.array(list(combinations(range(rows.size), int(np.sum(self.signs[rows] > 0)))), dtype=np.intp)
            own = np.full((rows.size, len(labelled)), -1, dtype=np.int8)
            own[labelled.T, np.arange(len(labelled))] = 1
            before = out.shape[1]
            out = np.repeat(out, len(labelled), axis=1)
            out[rows] = np.tile(own, before)
        return out

    def drawn(self, part: slice) -> FloatArray:
        """Return some of them, a column each: the same whenever they are asked for."""
        if self.exact:
            return self._every[:, part].astype(np.float64)
        rng, shape = np.random.default_rng((*self.seed, part.start)), (self.signs.size, part.stop - part.start)
        if self.strata is None:
            return np.asarray(2.0 * rng.integers(0, 2, shape, dtype=np.int8) - 1.0, dtype=np.float64)
        out = np.empty(shape)
        for rows in self.strata:
            out[rows] = rng.permuted(np.tile(self.signs[rows], (shape[1], 1)), axis=1).T
        return out


def draws_for(error: float, n: int, d: int) -> int:
    """Return how many draws, the data among them, tell p-values near ``error`` for a table of n rows and d columns.

    Examples
    --------
    >>> draws_for(0.05, 50, 8800), draws_for(0.05, 50, 10**8), draws_for(0.001, 50, 8800)
    (10000, 800, 40000)
    """
    if error * MOST < 1:
        raise InputError("level", f"be at least {1 / MOST:g} for each test with selection='maxt'", f"{error:.2g}")
    least = math.ceil(ENOUGH / error)
    return min(MOST, max(least, min(USUAL, int(WORK / (n * d)))))


class _Scores(NamedTuple):
    """What rows add to r of some features, and what of it is rounding."""

    scores: FloatArray
    """(features, rows), times signs and added up: r, or what is to be divided by the root of a variance."""
    error: FloatArray
    """How far their sums may be off."""
    there: FloatArray | None = None
    """1 where a value is there, where some are missing and groups are compared: then variances depend on the signs."""
    units: FloatArray | None = None
    """(strata, features): sums of squares, by values times others, of scores."""


def _scores(values: FloatArray, off: FloatArray, how: Randomization) -> _Scores:
    """Return them of some columns of values, whose sums may be ``off``."""
    there, strata = ~np.isnan(values.T), how.strata or ()
    x = np.where(there, values.T, 0.0)
    largest = np.abs(x).max(axis=1, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    x /= unit[:, np.newaxis]
    units = np.zeros((len(strata), unit.size))
    variance = np.zeros(unit.size) if strata else np.einsum("ij,ij->i", x, x)
    for stratum, rows in enumerate(strata):
        own, known = x[:, rows], there[:, rows]
        number, first = known.sum(axis=1), np.sum(how.signs[rows] > 0)
        own -= np.where(known, own, np.inf).min(axis=1, initial=1.0)[:, np.newaxis]  # one value is exactly none
        own = np.where(known, own, 0.0)
        x[:, rows] = own = own - known * (own.sum(axis=1) / np.maximum(number, 1))[:, np.newaxis]
        units[stratum] = np.einsum("ij,ij->i", own, own) * _inverse(number * (number - 1.0))
        variance += 4 * units[stratum] * (first * (rows.size - first))
    scale = _inverse(np.sqrt(variance))
    error = (4 * how.signs.size * DOUBLES * np.abs(x).sum(axis=1) + off / unit) * scale
    found = _Scores(x * scale[:, np.newaxis], error)
    return found if there.all() or not strata else found._replace(there=there * 1.0, units=4 * units * scale**2)


def _inverse(x: FloatArray) -> FloatArray:
    """Return 1/x, and 0 of 0."""
    return np.divide(1.0, x, out=np.zeros(x.shape), where=x > 0)


def _statistics(of: _Scores, signs: FloatArray, how: Randomization, *, error: float) -> FloatArray:
    """Return r of features for some signs, a column each, so many times its rounding error larger."""
    sums = of.scores @ signs
    if how.side is Side.BOTH:
        np.abs(sums, out=sums)
    elif how.side is Side.DOWN:
        np.negative(sums, out=sums)
    sums += error * of.error[:, np.newaxis]
    if of.there is None or of.units is None or how.strata is None:
        return sums
    variance, labelled = np.zeros(sums.shape), (signs > 0).astype(np.float64)
    for rows, unit in zip(how.strata, of.units, strict=True):
        first = of.there[:, rows] @ labelled[rows]
        variance += unit[:, np.newaxis] * first * (of.there[:, rows].sum(axis=1)[:, np.newaxis] - first)
    return np.divide(sums, np.sqrt(variance), out=np.zeros(sums.shape), where=variance > 0)


def _reached(of: _Scores, how: Randomization, least: FloatArray, highest: FloatArray, part: slice) -> IntArray:
    """Count the draws whose largest r, over features up to each, is what the feature has; ``highest`` goes on."""
    found = _statistics(of, how.drawn(part), how, error=1.0)
    np.maximum(found[0], highest[part], out=found[0])
    np.maximum.accumulate(found, axis=0, out=found)
    highest[part] = found[-1]
    return np.asarray(np.sum(found >= least[:, np.newaxis], axis=1))


def step_down(
    read: Callable[[IntArray], tuple[FloatArray, FloatArray]],
    d: int,
    how: Randomization,
    *,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    width: int = FEATURES,
) -> FloatArray:
    """Return the adjusted p-values of d features; ``read`` returns values of some, and how far sums of each may be off.

    Features are read some at a time, `HELD` values at most, twice: as they come, and from the weakest on, for of these
    the largest r of every draw is all that is kept. ``width`` of them at most are added up at once. Rounding only makes
    p-values larger.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((12, 5)) + [3, 0, 0, 0, 0]
    >>> how = Randomization.of(np.ones(12), None, side=Side.BOTH, draws=10_000)
    >>> float(step_down(lambda columns: (X[:, columns], np.zeros(columns.size)), 5, how)[0] * 2**11)
    1.0
    """
    n = how.signs.size
    held, draws = cut(d, max(1, HELD // n)), cut(how.number, min(DRAWS, max(1, AT_ONCE // n)))
    least, counts, highest = np.empty(d), np.empty(d, dtype=np.intp), np.full(how.number, -np.inf)

    def scored(columns: IntArray) -> Iterator[tuple[IntArray, _Scores]]:
        rising, back = np.unique(columns, return_inverse=True)
        values, off = read(rising)
        for part in cut(columns.size, width):
            at = back[part]
            yield columns[part], _scores(values[:, at], off[at], how)

    for block in held:
        for at, found in scored(np.arange(block.start, block.stop)):
            least[at] = _statistics(found, how.signs[:, np.newaxis], how, error=-1.0)[:, 0]
    order, done = np.argsort(least, kind="stable"), 0
    with one_blas_thread():
        for block in held:
            for at, found in scored(order[block]):
                work = partial(_reached, found, how, least[at], highest)
                counts[at] = sum(each(work, draws, count_threads(n_jobs)))
                done += at.size
                if progress is not None:
                    progress(done / d)
    strongest = order[::-1]
    p = (counts + (not how.exact)) / (how.number + (not how.exact))
    p[strongest] = np.maximum.accumulate(p[strongest])
    return p
