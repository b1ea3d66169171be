"""Values on the support from the rows that were kept: by name, by a function, or the best of several centres."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sparsemean import baselines
from sparsemean._stats.arrays import GAUSSIAN, near, on_device, on_host, scales, some_rows
from sparsemean._stats.descent import RoughEigenpair, descend, follow, largest_weight
from sparsemean._util.records import FloatArray, IntArray, LocationEstimate
from sparsemean.errors import InputError

Refinement: TypeAlias = str | Callable[[FloatArray, float], Any] | None
PUBLISHED = {"gd": "dense_gd", "filter": "sparse_filter"}
"""Names that the paper's full algorithms go by."""


def check(refine: Any) -> tuple[Refinement, str]:
    """Return ``refine`` if it is None, "auto", the name of a compared method, or a callable; and what a plan calls it.

    A compared method given as such, ``baselines.median``, is taken by its name. None is called nothing.
    """
    if hasattr(refine, "facts"):
        return str(refine.facts.name), str(refine.facts.name)
    if callable(refine):
        return refine, name_of(refine)
    if refine is None or (isinstance(refine, str) and refine in ("auto", *PUBLISHED)):
        return refine, refine or ""
    otherwise = f"'auto', {', '.join(map(repr, PUBLISHED))}, None or a function of X and contamination"
    baselines.get(refine, argument="refine", otherwise=otherwise)
    return str(refine), str(refine)


def name_of(function: Callable[[FloatArray, float], Any]) -> str:
    """Return the name of a function, or of the class of what is called like one."""
    return str(getattr(function, "__name__", type(function).__name__))


def refined(
    refine: Refinement,
    X: Any,
    *,
    contamination: float,
    random_state: Any,
    progress: Callable[[float], None] | None = None,
    centre: FloatArray | None = None,
    n_jobs: int | None = None,
) -> LocationEstimate:
    """Estimate the mean of ``X``, rows by features of the support, of which a share may be wrong.

    For "auto" they may lie on a device.

    "auto" leaves out what is missing (NaN); ``centre`` stands in for a feature of which nothing is left.
    """
    if refine == "auto":
        return auto(X, contamination, centre, n_jobs)
    if callable(refine):
        return _called(refine, X, contamination)
    assert isinstance(refine, str)
    name = PUBLISHED.get(refine, refine)
    try:
        located = baselines.get(name).detailed(
            X, contamination=contamination, k=X.shape[1], random_state=random_state, progress=progress
        )
    except InputError as error:
        rule = f"name a method that takes the {X.shape[1]} selected features"
        raise InputError("refine", rule, repr(refine), f"{error}; refine='auto' takes any number") from error
    if not np.isfinite(located.mean).all():
        raise InputError("refine", "name a method that works on these rows", repr(refine), "its mean is not finite")
    return located.said(name)


def _called(refine: Callable[[FloatArray, float], Any], X: FloatArray, contamination: float) -> LocationEstimate:
    name = name_of(refine)
    rule = f"return {X.shape[1]} finite numbers, one for each column of X"
    try:
        mean = np.asarray(refine(X.copy(), contamination), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("refine", rule, f"{type(error).__name__} from {name}: {error}") from error
    if mean.shape != (X.shape[1],):
        raise InputError("refine", rule, f"shape {mean.shape} from {name}")
    if not np.isfinite(mean).all():
        raise InputError("refine", rule, f"NaN or infinity from {name}")
    return LocationEstimate(mean, how=f"the function {name}")


# Which rows agree with each other on the support: spectral descent on clipped columns, safe under heavy tails.

CLIP = 4.0
"""In median deviations: far enough to show a cluster in one column, near enough that tails do not lead the descent."""
FEW = 0.25
"""Times √n: no more wrong rows than this move a robust centre by less than half its standard error; all rows stay."""
MOST_COLUMNS = 256
"""Columns that the descent looks at, evenly spread over the support: its cost grows with their square."""
MOST_VALUES = 2**19
"""Values that the descent looks at: of more rows some lead it, and all follow."""
FEWEST_COLUMNS = 20
"""As many values as so many columns have are taken of a row at least: of 26,000 rows every direction is plain."""
BLOCK = 2**16
"""Values of rows that follow at a time, so that what is made of them stays in the processor's memory."""
MOVES = 100
PATIENCE = 4
STALLED = 3e-3
"""The descent ends where so many moves lowered the variance by less than this share: later ones change hardly a row."""


def agreeing(X: Any, centre: FloatArray, share: float) -> npt.NDArray[np.bool_]:
    """Return which rows keep their weight when up to a ``share`` of them may be left out.

    The descent of Cheng, Diakonikolas, Ge and Soltanolkotabi (2020) lowers the largest variance along any direction by
    moving weight between rows. On raw heavy-tailed columns it spends itself on tails; on columns in units of their
    median deviation, clipped, only rows that are off in several columns at once, or far off together in one, are worth
    its while. Rows that lose more than half of the largest weight are left out: as the weights add up to one, at most
    twice round(share·n) of them. What is missing (NaN) counts as lying at the centre.

    Of many rows some, `MOST_VALUES` in all, make the descent; the others get the weight that its moves give them.
    """
    n, k = X.shape
    allowed = round(share * n)
    if allowed <= FEW * math.sqrt(n):
        return np.ones(n, dtype=bool)
    seen, most = np.arange(k), min(MOST_COLUMNS, X.at_once) if with_workers(X) else MOST_COLUMNS
    if k > most:
        seen = np.unique(np.linspace(0, k - 1, most).round().astype(np.intp))
    if with_workers(X) and seen.size < k:
        return agreeing(X.only(seen).held(), centre[seen], share)
    rows = some_rows(n, max(seen.size, FEWEST_COLUMNS), values=MOST_VALUES)
    leading = X[rows if isinstance(rows, slice) else near(X, rows)][:, near(X, seen)]
    unit = scales(leading - near(X, centre[seen]), 1)
    varied = np.flatnonzero(unit > 0)
    if not varied.size:
        return np.ones(n, dtype=bool)
    leading = leading if varied.size == seen.size else leading[:, near(X, varied)]
    seen, unit = seen[varied], unit[varied]
    some = _clipped(leading, centre[seen], unit)
    cap = largest_weight(some.shape[0], share)
    objective = RoughEigenpair(some)
    descent = descend(objective, some.shape[0], cap, n_iter=MOVES, least_fall=STALLED, patience=PATIENCE)
    if isinstance(rows, slice):
        return np.asarray(descent.weights >= cap / 2)
    height = max(1, BLOCK // seen.size)
    columns = slice(None) if seen.size == k else near(X, seen)
    directions = objective.directions

    def weigh(block: Any) -> npt.NDArray[np.float32]:
        return follow(descent, directions, _clipped(block[:, columns], centre[seen], unit), cap=cap)

    parts = X.each(weigh, height) if with_workers(X) else [weigh(X[at : at + height]) for at in range(0, n, height)]
    weights = np.concatenate(parts)
    dropped = 2 * allowed
    return np.asarray(weights >= min(0.5, np.partition(weights, dropped)[dropped]))


def _clipped(X: Any, centre: FloatArray, unit: FloatArray) -> npt.NDArray[np.float32]:
    """Return values from the centre in units, clipped, on the host; at the centre where they are missing."""
    if on_device(X):
        from sparsemean._kernels import gpu_blocks

        return on_host(gpu_blocks.clipped(X, near(X, centre), near(X, unit), most=CLIP))
    away = X.T - centre[:, np.newaxis]
    with np.errstate(over="ignore"):  # what is too far to be divided is clipped all the same
        away /= unit[:, np.newaxis]
    clipped = np.empty(away.shape, dtype=np.float32)
    np.minimum(np.maximum(away, -CLIP, out=away), CLIP, out=clipped, casting="same_kind")
    clipped[np.isnan(clipped)] = 0
    return clipped.T


# The refinement that needs no choice: rows that agree, then for every feature the centre with the smallest error.

FAR = 10.0
"""Values farther than this many robust deviations are left out of the Hodges–Lehmann estimate, on both sides."""
DEGREES = (1.0, 3.0)
"""Degrees of freedom tried: close to the best for tails from Cauchy's to nearly Gaussian ones."""
NEAR = 0.3
"""A Student-t centre farther than this many robust deviations from the Hodges–Lehmann estimate is not used: where the
noise has two humps, as with a gap at its centre, likelihood has climbed one, and its error there looks small."""
FEWEST = 8
"""With fewer rows no standard error is worth comparing: the Hodges–Lehmann estimate is taken."""
NAMES = ("Hodges–Lehmann", *(f"Student t, {dof:g} d.f." for dof in DEGREES))
NOTHING = "nothing left but the start"
COMPARED = 5000
"""Rows that tell which kind of centre to take, where there are more."""
WORTH = 1.1
"""A feature goes its own way where its own best centre has an error smaller by this factor."""
MANY = 0.25
"""Share of wrong rows beyond which the start is the median: 1 − 1/√2 = 0.29 of them carry a pseudomedian anywhere."""


def auto(X: Any, contamination: float, centre: FloatArray | None = None, n_jobs: int | None = None) -> LocationEstimate:
    """Estimate the mean of a few features of which a share ``contamination`` of the rows may still be wrong.

    1. Rows that disagree on several features at once are left out, up to twice that share (`agreeing`).
    2. For every feature the Hodges–Lehmann estimate (values beyond ten robust deviations left out) and the Student-t
       centres of 1 and 3 degrees of freedom are computed on the rest, and the one with the smallest estimated
       standard error is taken (`choose`). All of them are robust: whichever is taken, a few rows cannot move it far.

    Values that are missing (NaN) speak neither for nor against a row and are in no centre. Where none is there, the
    feature keeps its ``centre``.
    """
    start = _starts(X, by_median=contamination > MANY, n_jobs=n_jobs)
    start = start if centre is None else np.where(np.isnan(start), centre, start)
    kept = agreeing(X, start, contamination)
    mean, names = _centres(X, start, kept, n_jobs=n_jobs)
    how = ", ".join(f"{name} for {count}" for name, count in Counter(names).most_common())
    dropped = X.shape[0] - int(kept.sum())
    left_out = f"{dropped} of {X.shape[0]} rows left out that disagree most; " if dropped else ""
    how = f"{left_out}centre with the smallest standard error: {how} feature(s)"
    return LocationEstimate(mean, weights=kept / kept.sum(), how=how)


def _starts(X: Any, *, by_median: bool, n_jobs: int | None) -> FloatArray:
    """Return the pseudomedian, or the median, of each column, wherever they lie."""
    from sparsemean._kernels import centres

    if on_device(X):
        from sparsemean._kernels import gpu_blocks

        return on_host(gpu_blocks.starts(gpu_blocks.sorted_columns(X), by_median=by_median))
    if with_workers(X):
        return np.concatenate(X.over_columns(partial(centres.starts, by_median=by_median, n_jobs=1)))
    return centres.starts(X, by_median=by_median, n_jobs=n_jobs)


def _centres(
    X: Any, start: FloatArray, kept: npt.NDArray[np.bool_], *, n_jobs: int | None
) -> tuple[FloatArray, list[str]]:
    """Return the centre of every feature and its name; of many rows some tell which kind to take, and all make it."""
    from sparsemean._kernels import centres

    rule = centres.Rule(degrees=DEGREES, gaussian=GAUSSIAN, far=FAR, near=NEAR, fewest=FEWEST)
    rows = slice(None) if kept.all() else np.flatnonzero(kept)
    step = -(-int(kept.sum()) // COMPARED)
    some = rows if step == 1 else np.flatnonzero(kept)[::step]

    def locate(rows: slice | IntArray, kinds: IntArray | None = None) -> centres.Centres:
        if on_device(X):
            from sparsemean._kernels import gpu_blocks

            columns = gpu_blocks.sorted_columns(X[rows if isinstance(rows, slice) else near(X, rows)])
            return centres.Centres(*gpu_blocks.locate(columns, near(X, start), **rule._asdict()))
        if with_workers(X) and kinds is not None:
            each = X.of_rows(kept).over_columns(
                lambda x, start, kinds: centres.locate(x, start, rule, kinds=kinds, n_jobs=1), start, kinds
            )
            return centres.Centres(*map(np.concatenate, zip(*each, strict=True)))
        if with_workers(X):
            return centres.locate(X[rows], start, rule, n_jobs=n_jobs)
        return centres.locate(X, start, rule, rows=rows, kinds=kinds, n_jobs=n_jobs)

    found = locate(some)
    kinds, features = choose(found.errors), np.arange(X.shape[1])
    if step > 1:
        found = locate(rows, kinds)
        kinds = np.where(found.errors[features, kinds] < np.inf, kinds, 0)
    named = np.where(found.compared > 0, kinds, 0)
    names = [NAMES[kind] if present >= 0 else NOTHING for kind, present in zip(named, found.compared, strict=True)]
    return found.values[features, kinds], names


def with_workers(X: Any) -> bool:
    """Whether columns stay with workers, see `by_workers.Columns`; what else there is are arrays."""
    return hasattr(X, "over_columns")


def choose(errors: FloatArray) -> IntArray:
    """Return for every feature the kind of centre that is best for all of them together, or clearly best for itself.

    Standard errors, a row for each feature, are estimates: where features have the same kind of noise, choosing for
    each apart would often take the second best.
    """
    least = errors.min(axis=1, keepdims=True)
    ratio = np.divide(errors, least, out=np.ones_like(errors), where=(least > 0) & (errors < np.inf))
    ratio[errors == np.inf] = np.inf
    # Ten stands for infinity: a kind that fails for one feature is bad there, but not out of the question for the rest.
    common = int(np.argmin(np.log(np.minimum(ratio, 10.0)).mean(axis=0)))
    return np.where(ratio[:, common] > WORTH, errors.argmin(axis=1), common)
