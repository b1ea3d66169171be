"""Which clients stand apart, and one number for each coordinate from the others: arrays in, arrays out."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sparsemean._fit.refinement import FAR
from sparsemean._kernels.centres import median_distances
from sparsemean._kernels.memory_layout import each
from sparsemean._stats.arrays import GAUSSIAN, transposed
from sparsemean._stats.planning import MOST_ALLOWED
from sparsemean._stats.row_scores import limit
from sparsemean._util.records import FloatArray
from sparsemean.baselines.filters import Near, Start, filtered

Rows: TypeAlias = npt.NDArray[np.floating]
Flags: TypeAlias = npt.NDArray[np.bool_]

CLIP = 3.0
"""In robust deviations of a coordinate: beyond that a value says no more about its client."""
OWN_SIZE = 0.1
"""Robust deviation of log sizes from which on clients have sizes of their own, as with more or less data each."""
DIRECTIONS = 128
"""Leading directions that clients are judged along; of fewer clients all there are."""
HALF = 0.5
"""Share of the clients whose weight may be taken: a majority decides what the others are held against."""
REACH = FAR
"""In robust deviations of a coordinate: where values of clients that are trusted are cut. What few clients alone have
data for lies farther out than noise does: cut at four, digits were learnt to .87 in place of .92."""
UNLIKE, LONGEST = 0.25, 1.5
"""Robust deviation of log lengths from which on clients are very unlike, and then the largest in median lengths."""
TRIMMED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.45)
"""Shares of values trimmed at each end that are tried."""
SPLITS, SEEN = 8, 4096
"""Ways to halve the clients, and coordinates looked at, by which one of these shares is chosen."""
FEWEST = 8
"""Clients below which halves tell nothing: a third is trimmed at each end."""
TINY = 1e-300
"""What a scale of nothing is divided by."""
BLOCK_VALUES = 1 << 18
"""Values of a block of coordinates, so that what is made of it stays near."""


# Which clients stand apart.


def lost_weights(rows: Rows, allowed: int | None, threads: int) -> FloatArray:
    """Return the share of its weight that each client loses."""
    n = rows.shape[0]
    scores = np.zeros(n)
    if n < 3 or allowed == 0:
        return scores
    gram, beyond = _products(rows, threads)
    scores[beyond > HALF] = 1.0
    left = np.flatnonzero(beyond <= HALF)
    most = min(HALF * n, math.inf if allowed is None else 2 * allowed) - (n - left.size)
    if left.size > 2 and most > 0 and np.trace(gram) > 0:
        places = _places(_alike(gram[np.ix_(left, left)]))
        found = filtered(places, Start(Near(np.arange(left.size), places), most))
        if found.weights is not None:
            scores[left] = _confirmed(places, 1 - found.weights / found.weights.max())
    if allowed is not None:  # of more that look bad, the worst
        scores[np.argsort(-scores, kind="stable")[allowed:]] *= HALF
    return scores


def _products(rows: Rows, threads: int) -> tuple[FloatArray, FloatArray]:
    """Return the products of all clients, coordinates in their own units and cut, and the share of each that was."""
    n, d = rows.shape

    def part(at: slice) -> tuple[FloatArray, FloatArray, int]:
        away = _standardized(transposed(rows[:, at])).astype(np.float32, copy=False)
        cut = np.clip(away, -CLIP, CLIP)
        beyond = np.count_nonzero(cut != away, axis=0)
        return np.asarray(cut.T @ cut, dtype=np.float64), beyond, away.shape[0]

    gram, beyond, number = np.zeros((n, n)), np.zeros(n), 0
    for products, far, varied in each(part, _blocks(n, d), threads):
        gram, beyond, number = gram + products, beyond + far, number + varied
    return gram, beyond / max(1, number)


def _standardized(block: Rows) -> Rows:
    """Return values of coordinates, a row each, from their medians in robust deviations; of those alone that vary."""
    centre, unit = _centres(np.sort(block, axis=1))
    varied = np.flatnonzero(unit > 0)
    if varied.size < unit.size:
        block, centre, unit = block[varied], centre[varied], unit[varied]
    block = block - centre[:, np.newaxis]
    block /= (GAUSSIAN * unit)[:, np.newaxis]
    return block


def _centres(ordered: Rows) -> tuple[Rows, Rows]:
    """Return the median of each row of rising values, and the median of their distances from it."""
    n = ordered.shape[1]
    centre = ordered[:, (n - 1) // 2] / 2 + ordered[:, n // 2] / 2
    unit = np.empty_like(centre)
    median_distances(ordered, centre, unit)
    return centre, unit


def _blocks(n: int, d: int) -> list[slice]:
    width = max(1, BLOCK_VALUES // n)
    return [slice(at, min(at + width, d)) for at in range(0, d, width)]


def _alike(gram: FloatArray) -> FloatArray:
    """Return products of clients that are no larger than most, where their sizes are not about the same.

    A client with few data sends large updates because they are noisy: then only its direction speaks against it.
    """
    logs = 0.5 * np.log(np.maximum(np.diag(gram), np.finfo(np.float64).tiny))
    usual = np.median(logs)
    if GAUSSIAN * np.median(np.abs(logs - usual)) <= OWN_SIZE:
        return gram
    shrunk = np.exp(np.minimum(usual - logs, 0.0))
    return np.asarray(gram * shrunk * shrunk[:, np.newaxis])


def _places(gram: FloatArray) -> FloatArray:
    """Return clients by their places along leading directions: their products are those of ``gram``."""
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, np.newaxis] + gram.mean()
    values, vectors = np.linalg.eigh(centred)
    leading = slice(max(0, values.size - DIRECTIONS), None)
    return np.asarray(vectors[:, leading] * np.sqrt(np.maximum(values[leading], 0.0) / max(values[-1], TINY)))


def _confirmed(places: FloatArray, scores: FloatArray) -> FloatArray:
    """Return the scores, halved for suspects that lie neither where the other suspects do nor far from the rest.

    A filter takes good clients along with the bad ones. Each client is held against those that are trusted by its place
    along what sets the suspects apart from these, and by its distance; its own noise has no part in either.
    """
    scores = scores.copy()
    while (suspect := scores > HALF).any():
        trusted, others = (_without_own(places, which) for which in (~suspect, suspect))
        about, apart = places - trusted, others - trusted
        if suspect.sum() == 1:
            apart[suspect] = 0.0
        along = np.einsum("ij,ij->i", about, apart) / np.maximum(np.linalg.norm(apart, axis=1), TINY)
        away = np.maximum(_above(along, ~suspect), _above(np.cbrt(np.sum(about**2, axis=1)), ~suspect))
        back = suspect & (away <= limit(scores.size))
        if not back.any():
            break
        scores[back] *= HALF
    return scores


def _without_own(places: FloatArray, which: Flags) -> FloatArray:
    """Return for every client the mean of those in a group that are not itself."""
    inside = which[:, np.newaxis]
    return np.asarray((places[which].sum(axis=0) - inside * places) / np.maximum(which.sum() - inside, 1))


def _above(values: FloatArray, kept: Flags) -> FloatArray:
    """Return how many robust deviations values lie above the median of those kept."""
    middle = np.median(values[kept])
    return np.asarray((values - middle) / max(GAUSSIAN * float(np.median(np.abs(values[kept] - middle))), TINY))


# One number for each coordinate, from clients that are trusted.


def shrunk_mean(rows: Rows) -> Rows | None:
    """Return the mean of clients, none of them longer than most, where they are very unlike; else None.

    Then a value far from those of others is what few clients have data for: cut or trimmed, it is never learnt.
    """
    largest = float(max(rows.max(), -rows.min()))  # squares may overflow
    unit = max(largest, TINY) if largest > np.sqrt(np.finfo(rows.dtype).max / rows.shape[1]) else 1.0
    squares = np.einsum("ij,ij->i", *(rows if unit == 1.0 else rows / unit,) * 2).astype(np.float64)
    logs = 0.5 * np.log(np.maximum(squares, TINY)) + np.log(unit)
    usual = np.median(logs)
    if len(rows) < FEWEST or not GAUSSIAN * np.median(np.abs(logs - usual)) >= UNLIKE:
        return None
    weights = np.minimum(1.0, LONGEST * np.exp(usual - logs)) / len(rows)
    return np.asarray(weights.astype(rows.dtype) @ rows)


def best_share(rows: Rows, rng: np.random.Generator) -> float:
    """Return the share that trimming at each end makes the error smallest, over all coordinates in their own units.

    Means T of two halves of the clients estimate the same: |T₁ − T₂|²/4 is the variance of T from all of them, and with
    the plain means M the product (T₁ − M₁)·(T₂ − M₂) is the square of the bias, as noise of halves is independent.
    """
    n, d = rows.shape
    if n < FEWEST:
        return max(1, (n - 1) // 3) / n if n > 2 else 0.0
    seen = rows[:, :: -(-d // SEEN)]
    cut = np.clip(_standardized(transposed(seen)), -REACH, REACH).astype(np.float64)
    if not cut.size:
        return 0.0
    errors, half = np.zeros(len(TRIMMED)), n // 2
    for _ in range(SPLITS):
        order = rng.permutation(n)
        first, second = (
            np.array([_mean(ordered, share) for share in TRIMMED])
            for ordered in (np.sort(cut[:, order[:half]], axis=1), np.sort(cut[:, order[half : 2 * half]], axis=1))
        )
        bias = np.sum((first - first[0]) * (second - second[0]), axis=1)
        errors += np.sum((first - second) ** 2, axis=1) / 4 + np.maximum(bias, 0.0)
    return TRIMMED[int(np.argmin(errors))]


def _mean(ordered: Rows, share: float) -> Rows:
    """Return the mean of each row without a share of its values at each end, one value at least."""
    n = ordered.shape[1]
    cut = min(math.ceil(share * n - 1e-9), (n - 1) // 2)
    return np.asarray(ordered[:, cut : n - cut].mean(axis=1))


def trimmed_mean(rows: Rows, share: float, threads: int) -> Rows:
    """Return the trimmed mean of every coordinate, far values cut.

    Where half of the clients agree to the last bit, nothing tells how far is far: there as many are trimmed as "auto"
    allows to be bad.
    """
    n, d = rows.shape
    update = np.empty(d, dtype=rows.dtype)

    def part(at: slice) -> None:
        ordered = transposed(rows[:, at])
        ordered.sort(axis=1)
        centre, unit = _centres(ordered)
        reach = GAUSSIAN * REACH * unit
        equal = np.flatnonzero(reach == 0)
        trimmed = _mean(ordered[equal], max(share, MOST_ALLOWED)) if equal.size and n > 2 else None
        low, high = centre - reach, centre + reach
        if (ordered[:, 0] < low).any() or (ordered[:, -1] > high).any():
            np.clip(ordered, low[:, np.newaxis], high[:, np.newaxis], out=ordered)
        update[at] = _mean(ordered, share)
        if trimmed is not None:
            update[at][equal] = trimmed

    for _ in each(part, _blocks(n, d), threads):
        pass
    return update
