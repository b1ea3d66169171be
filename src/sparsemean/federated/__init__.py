"""For federated learning: one update out of those of many clients, some of which send whatever they like.

`aggregate` takes a row of numbers from each client. `Aggregator` has the call that byzfl's aggregators have, and
`SparseMeanStrategy` is a strategy of Flower's server.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sparsemean._kernels.memory_layout import count_threads, each, one_blas_thread
from sparsemean._stats.covariance import GAUSSIAN
from sparsemean._stats.location import FAR
from sparsemean._stats.planning import MIN_ROWS, MOST_ALLOWED
from sparsemean._stats.row_scores import limit
from sparsemean._util.checks import count_of, draw_seed, integer, is_auto, list_names, pluralize
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.baselines.filters import Near, Start, filtered
from sparsemean.errors import InputError
from sparsemean.result import Estimate

if TYPE_CHECKING:
    from sparsemean.federated._flower import SparseMeanStrategy

__all__ = ["Aggregate", "Aggregator", "SparseMeanStrategy", "aggregate"]

Rows: TypeAlias = npt.NDArray[np.floating[Any]]
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
TRIMMED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.45)
"""Shares of values trimmed at each end that are tried."""
SPLITS, SEEN = 8, 4096
"""Ways to halve the clients, and coordinates looked at, by which one of these shares is chosen."""
FEWEST = 8
"""Clients below which halves tell nothing: a third is trimmed at each end."""
TINY = 1e-300
"""What a scale of nothing is divided by."""
BLOCK_VALUES = 1 << 20
"""Values of a block of coordinates, so that what is made of it stays near."""


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """One update out of those of many clients.

    Attributes
    ----------
    update : ndarray of shape (d,)
        The update, in the precision of what was sent.
    suspects : ndarray of int
        Clients that were left out, the worst first.
    scores : ndarray of shape (n,)
        From 0 to 1, the share of its weight that a client lost; beyond a half it is a suspect.
    trimmed : float
        Share of the values of trusted clients that was trimmed at each end of every coordinate.
    estimate : Estimate or None
        With ``sparse=True`` the fit: support, p-values, intervals. What is not zero in ``update`` is then certified.
    """

    update: Rows
    suspects: IntArray
    scores: FloatArray
    trimmed: float = 0.0
    estimate: Estimate | None = None

    @property
    def trusted(self) -> IntArray:
        """Clients that were not left out."""
        return np.flatnonzero(self.scores <= HALF)

    @property
    def status(self) -> str:
        """What was done and what stands behind it, in a sentence or two."""
        n = self.scores.size
        names = f": {list_names(self.suspects, 10)}" if self.suspects.size else ""
        left_out = f"{count_of(self.suspects.size, n, 'client')} left out{names}"
        if self.estimate is not None:
            plan, found = self.estimate.plan, count_of(self.estimate.support.size, self.update.size, "coordinate")
            holds = f"if no more than {pluralize(plan.bad_rows, 'client')} may send anything"
            return f"{left_out}. Certified at level {plan.question.level:g}, {holds}: {found} with a mean other than 0"
        how = f"trimmed by {self.trimmed:.0%} at each end" if self.trimmed else "far values cut"
        return f"{left_out}. Mean of the others, {how}. Robust, not certified"

    def __str__(self) -> str:
        return self.status


def aggregate(
    updates: Any, f: int | str = "auto", *, sparse: bool = False, random_state: Any = 0, n_jobs: int | None = None
) -> Aggregate:
    """Make one update out of those of n clients, of which some may send anything.

    *Dense updates*, in which every coordinate may have a mean. Nothing of this is certified.

    1. Coordinates are taken from their medians, in units of their median deviations, and cut at three of these. While
       the variance of clients along some direction is far above what the middle half of them shows, they lose weight by
       how far out they lie (`baselines.dense_filter`). Whoever loses more than half of it, and is still far from the
       rest once its own noise has no part in that direction, is left out.
    2. Every coordinate gets the trimmed mean of the others, the same share for all, chosen by halves of the clients:
       their difference tells the variance, and what both differ from their plain means by is bias.

    *Sparse updates*, in which few coordinates have a mean: `SparseMean` selects them with p-values that hold against
    any ``f`` clients, and all others are zero.

    Clients count once each: how many examples one has is its own claim.

    Parameters
    ----------
    updates : array of shape (n, d), or list of n arrays of length d
        One row a client. Clients that send NaN, infinity or values whose sum over clients could overflow are left out.
    f : "auto" or int, default="auto"
        How many clients may be bad, fewer than half. "auto" leaves out those that stand apart, up to half of them;
        a number is the most that are left out. With ``sparse=True``, it is what p-values allow for.
    sparse : bool, default=False
        Whether only few coordinates have a mean.
    random_state, n_jobs
        As in `SparseMean`; the first draws the halves.

    Returns
    -------
    Aggregate
        ``update``, ``suspects``, ``status`` and more.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemean import federated
    >>> rng = np.random.default_rng(0)
    >>> updates = 0.5 + rng.standard_normal((30, 200))
    >>> updates[:6] = -0.5  # six of them send the opposite of the mean
    >>> result = federated.aggregate(updates)
    >>> print(result)
    6 of 30 clients left out: 0, 1, 2, 3, 4, 5. Mean of the others, far values cut. Robust, not certified
    >>> bool(abs(result.update.mean() - 0.5) < 0.05)
    True
    """
    rows = _rows(updates)
    n = rows.shape[0]
    rule = f"be 'auto' or fewer than half of {pluralize(n, 'client')}"
    allowed = None if is_auto(f) else integer(f, argument="f", least=0, most=(n - 1) // 2, rule=rule)
    largest = np.finfo(rows.dtype).max / (2 * n)  # differences of such values, and sums of these, do not overflow
    finite = np.asarray((np.abs(rows) <= largest).all(axis=1))
    if not finite.any():
        raise InputError("updates", f"have at least one client with finite values below {largest:.2g}", "none")
    present = rows if finite.all() else rows[finite]
    if allowed is not None:
        allowed = max(0, allowed - int(np.sum(~finite)))
    if sparse:
        return _certified(present, finite, allowed, random_state=random_state, n_jobs=n_jobs)
    scores, threads = np.ones(n), count_threads(n_jobs)
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scores[finite] = _screen(present, allowed, threads)
        kept = scores <= HALF
        trusted = present if kept.all() else rows[kept]
        share = _share(trusted, np.random.default_rng(draw_seed(random_state)))
        update = _trimmed(trusted, share, threads)
    suspects = np.flatnonzero(~kept)
    order = np.argsort(-scores[suspects].round(3), kind="stable")  # copies differ in their last digits
    return Aggregate(update, suspects[order], scores, trimmed=share)


def _rows(updates: Any) -> Rows:
    """Return what clients sent as floating-point rows."""
    try:
        rows = np.asarray(updates)
        received = f"{rows.dtype} of shape {rows.shape}"
    except ValueError:
        rows, received = np.empty(0), "rows of unequal length"
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "fiub":
        advice = "put every client's arrays into one row: np.concatenate([a.ravel() for a in arrays])"
        raise InputError("updates", "be a table of numbers, one row a client", received, advice)
    return rows.astype(np.result_type(rows.dtype, np.float32), copy=False)


# Which clients stand apart.


def _screen(rows: Rows, allowed: int | None, threads: int) -> FloatArray:
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
        away, unit = _about_median(rows[:, at])
        varied = unit > 0
        away = away[:, varied] / (GAUSSIAN * unit[varied])
        cut = np.clip(away, -CLIP, CLIP).astype(np.float32, copy=False)
        beyond = np.count_nonzero(np.abs(away) > CLIP, axis=1)
        return np.asarray(cut @ cut.T, dtype=np.float64), beyond, int(varied.sum())

    gram, beyond, number = np.zeros((n, n)), np.zeros(n), 0
    for products, far, varied in each(part, _blocks(n, d), threads):
        gram, beyond, number = gram + products, beyond + far, number + varied
    return gram, beyond / max(1, number)


def _about_median(block: Rows) -> tuple[Rows, Rows]:
    """Return values from the median of each column, and the median size of what is then there."""
    away = block - _middle(np.sort(block, axis=0))
    return away, _middle(np.sort(np.abs(away), axis=0))


def _middle(ordered: Rows) -> Any:
    n = ordered.shape[0]
    return ordered[(n - 1) // 2] / 2 + ordered[n // 2] / 2


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


def _share(rows: Rows, rng: np.random.Generator) -> float:
    """Return the share that trimming at each end makes the error smallest, over all coordinates in their own units.

    Means T of two halves of the clients estimate the same: |T₁ − T₂|²/4 is the variance of T from all of them, and with
    the plain means M the product (T₁ − M₁)·(T₂ − M₂) is the square of the bias, as noise of halves is independent.
    """
    n, d = rows.shape
    if n < FEWEST:
        return max(1, (n - 1) // 3) / n if n > 2 else 0.0
    seen = rows[:, :: -(-d // SEEN)]
    away, unit = _about_median(seen)
    varied = unit > 0
    if not varied.any():
        return 0.0
    cut = np.clip(away[:, varied] / (GAUSSIAN * unit[varied]), -REACH, REACH).astype(np.float64)
    errors, half = np.zeros(len(TRIMMED)), n // 2
    for _ in range(SPLITS):
        order = rng.permutation(n)
        first, second = (
            np.array([_mean(ordered, share) for share in TRIMMED])
            for ordered in (np.sort(cut[order[:half]], axis=0), np.sort(cut[order[half : 2 * half]], axis=0))
        )
        bias = np.sum((first - first[0]) * (second - second[0]), axis=1)
        errors += np.sum((first - second) ** 2, axis=1) / 4 + np.maximum(bias, 0.0)
    return TRIMMED[int(np.argmin(errors))]


def _mean(ordered: Rows, share: float) -> Any:
    """Return the mean of each column without a share of its values at each end, one value at least."""
    n = ordered.shape[0]
    cut = min(math.ceil(share * n - 1e-9), (n - 1) // 2)
    return ordered[cut : n - cut].mean(axis=0)


def _trimmed(rows: Rows, share: float, threads: int) -> Rows:
    """Return the trimmed mean of every coordinate, far values cut.

    Where half of the clients agree to the last bit, nothing tells how far is far: there as many are trimmed as "auto"
    allows to be bad.
    """
    n, d = rows.shape
    update = np.empty(d, dtype=rows.dtype)

    def part(at: slice) -> None:
        ordered = np.sort(rows[:, at], axis=0)
        centre = _middle(ordered)
        reach = GAUSSIAN * REACH * _middle(np.sort(np.abs(ordered - centre), axis=0))
        update[at] = _mean(np.clip(ordered, centre - reach, centre + reach), share)
        equal = reach == 0
        if equal.any() and n > 2:
            update[at][equal] = _mean(ordered[:, equal], max(share, MOST_ALLOWED))

    for _ in each(part, _blocks(n, d), threads):
        pass
    return update


# Few coordinates with a mean.


def _certified(rows: Rows, finite: Flags, allowed: int | None, **options: Any) -> Aggregate:
    """Select the coordinates that have a mean, and leave all others at zero."""
    from sparsemean._fit.one_sample import sparse_mean

    n = rows.shape[0]
    if n < MIN_ROWS:
        raise InputError("updates", f"have {MIN_ROWS} clients at least where sparse=True", n)
    contamination = "auto" if allowed is None else allowed / n
    estimate = sparse_mean(rows, contamination=contamination, **options)
    seen = estimate.rows
    suspects, scores = np.flatnonzero(~finite), (~finite).astype(np.float64)
    if seen is not None:
        listed = np.flatnonzero(finite)[seen.suspects]
        scores[listed], suspects = 1.0, np.concatenate([suspects, listed])
    return Aggregate(estimate.mean.astype(rows.dtype), suspects, scores, estimate=estimate)


# The call that byzfl's pipelines make.


class Aggregator:
    """An aggregator as byzfl has them: called with the vectors of all clients, it returns one of the same kind.

    It may follow any of byzfl's pre-aggregators. byzfl is not needed.

    Parameters
    ----------
    f, sparse
        As in `aggregate`.

    Attributes
    ----------
    latest : Aggregate or None
        What the last call found: suspects, status.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemean import federated
    >>> combine = federated.Aggregator(f=1)
    >>> combine([np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0]), np.array([1e9, -1e9])]).round(3)
    array([3., 4.])
    """

    def __init__(self, f: int | str = "auto", *, sparse: bool = False) -> None:
        self.f, self.sparse = f, sparse
        self.latest: Aggregate | None = None

    def __call__(self, vectors: Any) -> Any:
        """Return the aggregate of the rows of a matrix, or of a list of vectors, NumPy's or torch's."""
        first = vectors[0] if isinstance(vectors, Sequence) else vectors
        if not hasattr(first, "detach"):
            self.latest = aggregate(vectors, self.f, sparse=self.sparse)
            return self.latest.update
        rows = np.stack([vector.detach().cpu().numpy() for vector in vectors])
        self.latest = aggregate(rows, self.f, sparse=self.sparse)
        return first.new_tensor(self.latest.update)


def __getattr__(name: str) -> Any:
    if name == "SparseMeanStrategy":
        return importlib.import_module("sparsemean.federated._flower").SparseMeanStrategy
    raise AttributeError(f"module 'sparsemean.federated' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
