"""Attacks by name: ``attacks.far_rows`` or ``get("far_rows")``; an option is bound with ``partial``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from sparsemean._evidence.signs import SlackEvidence, of_signs
from sparsemean._stats.buckets import assign_block_buckets
from sparsemean._stats.decision import Holm, decide
from sparsemean._util import checks
from sparsemean._util.checks import integer
from sparsemean._util.plans import BadRows
from sparsemean._util.records import Counts, FloatArray, IntArray, Partition
from sparsemean.errors import InputError
from sparsemean.simulate._protocols import Replacement, how_many, off_support

__all__ = [
    "adaptive",
    "available",
    "cauchy_rows",
    "constant_bias",
    "describe",
    "fake_support",
    "far_rows",
    "get",
    "linear_hiding",
    "mimic",
    "replaced_rows",
    "signed_support_shift",
    "support_shift",
    "tail_flipping",
]


def available() -> list[str]:
    """List the names that ``attack=`` accepts.

    Examples
    --------
    >>> "constant_bias" in available()
    True
    """
    return list(_ATTACKS)


def describe() -> dict[str, str]:
    """Say in one line what each attack does.

    Examples
    --------
    >>> print(describe()["mimic"])
    Take the mean away from the corrupted rows: x → x − mean, clean noise about zero.
    """
    return checks.summaries(_ATTACKS)


def get(name: str) -> Callable[..., FloatArray | Replacement]:
    """Return the attack called ``name``; its options are keywords.

    Examples
    --------
    >>> from functools import partial
    >>> from sparsemean.simulate import make_contaminated
    >>> attack = partial(get("replaced_rows"), location=40.0)
    >>> make_contaminated(20, 3, [5.0], attack=attack, random_state=0).corrupted
    array([18, 19])
    """
    otherwise = "None, or a function of X, mean, rng and corrupted"
    return checks.find(_ATTACKS, name, argument="attack", otherwise=otherwise)


# Dense heavy noise about zero in place of the corrupted rows.


def cauchy_rows(
    X: FloatArray,
    mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    scale: float = 10.0,
) -> FloatArray:
    """Replace the corrupted rows by scale·C, with C standard Cauchy, independent in every entry.

    Meant to defeat second moments and anything that trusts them, spectral filters among them: a few entries are
    arbitrarily large and no direction is preferred. The paper's `replaced_rows` is the same with a location, which
    makes its rows vote for a positive mean everywhere; these are centred at zero and vote for none.
    """
    return replaced_rows(X, mean, rng, corrupted, location=0.0, scale=scale)


# The attack of the paper's experiments: every corrupted row is moved by the same constant.


def constant_bias(
    X: FloatArray,
    _mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    bias: float = -2.0,
) -> FloatArray:
    """Add ``bias`` to every coordinate of the corrupted rows: x → x + bias·(1, …, 1).

    A corrupted row keeps its own noise, so it looks plausible in each coordinate; only the common shift of
    all coordinates tells. The paper uses −2 in every figure but the first.
    """
    return X[corrupted] + bias


# Features without a mean that the corrupted rows pretend to have one.


def fake_support(
    X: FloatArray,
    mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    n_features: int | None = None,
    shift: float = 10.0,
) -> FloatArray:
    """Add ``shift`` to a few coordinates outside the true support, the same ones in every corrupted row.

    Meant to get them selected, above all by methods that keep the k largest of something: with a fraction ε of the
    rows the ordinary mean of a fake feature is ε·shift. There are ``n_features`` of them, by default as many as true
    ones and at least one, drawn at random; fewer if there are not so many outside the support. Where every coordinate
    is in the support, they are drawn from it.
    """
    count = how_many(n_features, mean, argument="n_features")
    rows = X[corrupted]
    rows[:, off_support(mean, rng, count)] += shift
    return rows


# Gross outliers that agree with each other: every corrupted row is the same far point.


def far_rows(
    X: FloatArray,
    _mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    distance: float = 1e3,
) -> FloatArray:
    """Put all corrupted rows at one far point, ``distance`` away from zero in every coordinate, signs at random.

    Meant to defeat whatever averages, and estimators whose bounds grow with the diameter of the data. The point
    is √d·distance away in a dense direction, so the rows are easy to see for anyone who looks at rows. The
    textbook outlier; it has no source of its own.
    """
    point = np.where(rng.random(X.shape[1]) < 0.5, -distance, distance)
    return np.tile(point, (corrupted.size, 1))


# A false sparse mean in half of the corrupted rows, its variance hidden by the other half.

NORMAL_QUARTILE = 0.6744897501960817
"""The median of |Z| for a standard normal Z."""


def linear_hiding(
    X: FloatArray,
    mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    k: int | None = None,
    scale: float | None = None,
) -> FloatArray:
    """Draw half of the corrupted rows from scale·N(f, I) and half from scale·N(0, 2I − diag(f)).

    f is 1 on ``k`` coordinates outside the true support, by default as many as the support has and at least one. Meant
    to defeat filters that look for coordinates or directions of large variance: over both halves every coordinate has
    the second moment 3/2, on f and off it, so the coordinates with the false mean do not stand out. Neither half
    carries the true mean. An odd row goes to the first half.

    The source has Gaussian inliers of unit variance, ``scale=1.0``. Others may have no variance, so by default
    ``scale`` is measured as median |x − mean| / 0.6745 over all clean entries, which is 1 (up to sampling) for a
    standard normal. Where every coordinate is in the support, f is drawn from it.

    Source: experiments of Diakonikolas, Kane, Karmalkar, Price and Stewart, "Outlier-robust high-dimensional sparse
    estimation via iterative filtering", NeurIPS 2019.
    """
    f = np.zeros(mean.size)
    f[off_support(mean, rng, how_many(k, mean, argument="k"))] = 1.0
    unit = float(np.median(np.abs(X - mean))) / NORMAL_QUARTILE if scale is None else scale
    rows = rng.standard_normal((corrupted.size, mean.size))
    first = corrupted.size - corrupted.size // 2
    rows[:first] += f
    rows[first:] *= np.sqrt(2.0 - f)
    return unit * rows


# Rows of perfect noise that deny the mean.


def mimic(X: FloatArray, mean: FloatArray, _rng: np.random.Generator, corrupted: IntArray, /) -> FloatArray:
    """Take the mean away from the corrupted rows: x → x − mean, clean noise about zero.

    Meant to defeat every look at single rows: each coordinate has the law of the noise, off the support
    nothing is changed at all, and on it the rows say with one voice that there is no mean. Only a second cluster
    on the support tells. With an empty support the rows stay clean.
    """
    return X[corrupted] - mean


# The attack of the paper's first figure: gross outliers without a mean in place of the corrupted rows.


def replaced_rows(
    X: FloatArray,
    _mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    location: float = 20.0,
    scale: float = 50.0,
) -> FloatArray:
    """Replace the corrupted rows by location + scale·C, with C standard Cauchy, independent in every entry.

    The median of a replaced entry is ``location``, its quartiles are ``location ± scale``; it has no
    expectation. The paper's nonconvex run has location 20, its convex run 40, both scale 50.
    """
    return location + scale * rng.standard_cauchy((corrupted.size, X.shape[1]))


# A shift that draws every true mean towards zero, and shows on the support only.


def signed_support_shift(
    X: FloatArray,
    mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    shift: float = -2.0,
) -> FloatArray:
    """Add shift·sign(mean) to the corrupted rows: towards zero if ``shift`` is negative, away from it if positive.

    Meant to defeat the screening of rows off the support, as `support_shift`, and to bias all true means at once:
    a common shift makes the means of one sign look smaller and those of the other sign larger, this one
    shrinks (or stretches) them all. With an empty support the rows stay clean.
    """
    return X[corrupted] + shift * np.sign(mean)


# A shift that shows on the support only.


def support_shift(
    X: FloatArray,
    mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    shift: float = -2.0,
) -> FloatArray:
    """Add ``shift`` to the coordinates of the true support and leave the others as they are.

    Meant to defeat the screening of rows off the support: nothing shows there. It is the paper's constant bias, and
    its −2, where it hurts and nowhere else. With an empty support the rows stay clean.
    """
    return X[corrupted] + np.where(mean != 0, shift, 0.0)


# The tail of a sparse direction, turned over.


def tail_flipping(
    X: FloatArray, mean: FloatArray, rng: np.random.Generator, corrupted: IntArray, /, *, k: int | None = None
) -> Replacement:
    """Negate the rows that lie lowest along a random k-sparse direction v: x → −x where x·v is smallest.

    Meant to defeat filters by moving the mean along a sparse direction without a row that is further out than some
    clean row was. It chooses its own rows, as many as it is allowed. v has normal entries on ``k`` coordinates
    drawn from all, by default as many as the true support has and at least one. Whole rows are negated, about zero,
    so on the support the signal of those rows is negated too.

    Source: experiments of Diakonikolas, Kane, Karmalkar, Price and Stewart, "Outlier-robust high-dimensional sparse
    estimation via iterative filtering", NeurIPS 2019.
    """
    d = X.shape[1]
    columns = rng.choice(d, size=min(how_many(k, mean, argument="k"), d), replace=False)
    along = X[:, columns] @ rng.standard_normal(columns.size)
    lowest = np.argsort(along, kind="stable")[: corrupted.size]
    return Replacement(-X[lowest], lowest)


# The attack that knows the method and its seed.

SIZES = (1, 2, 4)
LEVEL = 0.05
Tree: TypeAlias = list[tuple[IntArray, FloatArray]]
"""For sizes 1, 2, 4, … the bucket of every row and the sum of every bucket."""


class Votes(NamedTuple):
    """All that the certified method sees of the clean rows, and the number of rows to be spent."""

    partition: Partition
    sizes: tuple[int, ...]
    counts: Counts
    evidence: SlackEvidence
    budget: int


class Turn(NamedTuple):
    """The rows to change, one entry in each: to ``values``, or to anything further on ``side``."""

    feature: int
    side: float
    rows: IntArray
    values: FloatArray


def poll(X: FloatArray, budget: int, *, seed: int) -> Votes:
    """Count the votes as a fit with this seed does that allows for ``budget`` bad rows."""
    partition = assign_block_buckets(X.shape[0], SIZES, seed)
    from sparsemean._kernels import cpu  # compiled: only this attack needs it

    counts = cpu.count_signs(X, partition)
    return Votes(partition, SIZES, counts, of_signs(counts, partition.order.size), budget)


def nearest(votes: Votes, features: IntArray) -> tuple[int, int]:
    """Return the one of ``features`` with the smallest p-value, and the index of the size that shows it."""
    p = votes.evidence.p_at(0, features)
    index, at = np.unravel_index(p.argmin(), p.shape)
    return int(features[at]), int(index)


def weakest(votes: Votes, features: IntArray) -> int:
    """Return the one of ``features`` that is selected with the fewest bad rows to spare.

    One that is not selected as it is needs no row; only where none is, the weakest of all is returned.
    """
    slack = decide(votes.evidence, Holm(LEVEL), (BadRows(0, votes.budget),)).last[features]
    found = slack >= votes.budget
    return int(features[np.argmin(np.where(found, slack, slack.max() + 1) if found.any() else slack)])


def majority(votes: Votes, feature: int, size: int) -> float:
    """Return the side, +1 or −1, that most buckets of a size vote for; +1 when they are even."""
    return 1.0 if votes.counts.positive[size, feature] >= votes.counts.negative[size, feature] else -1.0


def towards(X: FloatArray, votes: Votes, feature: int, size: int) -> Turn:
    """Turn the buckets of one size that vote most clearly against the majority, by the first row of each."""
    side = majority(votes, feature, size)
    tree = _tree(X, votes, feature)
    bucket, total = tree[votes.partition.wanted[size]]
    opposed = np.argsort(side * total / np.bincount(bucket), kind="stable")[: votes.budget]
    rows = np.unique(bucket, return_index=True)[1][opposed]
    return Turn(feature, side, rows, _turned(X[rows, feature], tree, side, rows))


def against(X: FloatArray, votes: Votes, feature: int) -> Turn:
    """Turn buckets that vote with the majority, those of the largest size first, until the votes of all sizes are even.

    A sum of one sign has a half of that sign, and that half again, down to a single row: this row turns a vote of
    every size. Going on when the votes are even would only make a majority for the other side, so then the rows
    are spent on the next size, inside larger buckets that are lost already. What needs the smallest change goes first.
    """
    side = majority(votes, feature, nearest(votes, np.array([feature]))[1])
    tree = _tree(X, votes, feature)
    rows = np.empty(0, dtype=np.intp)
    lost = np.ones(X.shape[0], dtype=bool)  # rows all of whose larger buckets vote against by now
    for level in reversed(range(len(tree))):
        bucket, total = tree[level]
        turned = np.isin(np.arange(total.size), bucket[rows])
        voting = (side * total > 0) & ~turned
        too_many = (int(np.sum(voting)) - int(np.sum(side * total < 0)) - int(np.sum(turned)) + 1) // 2
        best = _largest_half(tree[:level], bucket, side)
        ready = np.flatnonzero(voting & lost[best])
        ready = ready[np.argsort(side * total[ready], kind="stable")][: max(0, too_many)]
        rows = np.append(rows, best[ready])[: votes.budget]
        lost &= (side * total[bucket] < 0) | np.isin(bucket, bucket[rows])
    return Turn(feature, -side, rows, _turned(X[rows, feature], tree, -side, rows))


def _largest_half(below: Tree, bucket: IntArray, side: float) -> IntArray:
    """Return one row for each bucket: go into the half with the larger sum, and on, down to the row."""
    order = np.lexsort((*(-side * total[inner] for inner, total in below), bucket))
    return np.asarray(order[np.unique(bucket[order], return_index=True)[1]])


def _tree(X: FloatArray, votes: Votes, feature: int) -> Tree:
    """Return, for sizes 1, 2, 4, … up to the largest, the bucket of every row and the sum of every bucket."""
    buckets = [votes.partition.bucket_of_row // 2**level for level in range(votes.partition.depth)]
    return [(bucket, np.asarray(np.bincount(bucket, X[:, feature]), dtype=np.float64)) for bucket in buckets]


def _turned(entries: FloatArray, tree: Tree, side: float, rows: IntArray) -> FloatArray:
    """Move ``entries`` so far towards ``side`` that the most opposed bucket around each has its sum reflected."""
    opposed = np.max([-side * total[bucket[rows]] for bucket, total in tree], axis=0, initial=0.0)
    return np.asarray(entries + 2 * side * opposed)


# An adversary that knows the certified method, its seed included.

AIMS = ("hide", "false_positive")


def adaptive(
    X: FloatArray,
    mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    aim: str = "hide",
    feature: int | None = None,
    seed: int = 0,
    distance: float | None = None,
) -> Replacement:
    """Know the buckets and spend every row on the votes for one feature, to hide it or to have it selected.

    Meant to defeat `sparsemean.sparse_mean` and to show that its radius and its p-values hold against the worst there
    is: it knows the bucket sizes, the partition and the evidence, and puts each row where it turns votes. It chooses
    its own rows and changes one entry in each.

    Parameters
    ----------
    X, mean, _rng, corrupted
        As for every attack.
    aim : {"hide", "false_positive"}
        "hide" takes votes from the true feature that is found with the least to spare, with rows that turn a vote of
        every bucket size at once; when all sizes are even, the rest of the rows stays clean. "false_positive" gives
        votes to the feature outside the support that is nearest to selection, at the bucket size that shows it
        best. Where there is no feature of the one kind, the other aim is pursued.
    feature : int, optional
        The feature to hide or to have selected, instead of the one that the attack would choose.
    seed : int
        The ``random_state`` of the fit that is attacked.
    distance : float, optional
        How far from zero the changed entries are put. By default no further than is needed: a bucket's sum is
        reflected about zero, so that the rows look plausible.
    """
    if aim not in AIMS:
        raise InputError("aim", f"be one of {', '.join(AIMS)}", repr(aim))
    seed = integer(seed, argument="seed", least=0, rule="be the integer that seeds the fit")
    votes = poll(X, corrupted.size, seed=seed)
    inside = np.flatnonzero(mean)
    outside = np.flatnonzero(mean == 0)
    if feature is not None:
        last = mean.size - 1
        rule = f"be the number of a column, 0 … {last}"
        inside = outside = np.array([integer(feature, argument="feature", least=0, most=last, rule=rule)])
    if inside.size and (aim == "hide" or not outside.size):
        turn = against(X, votes, weakest(votes, inside))
    else:
        turn = towards(X, votes, *nearest(votes, outside))
    rows = X[turn.rows]
    rows[:, turn.feature] = turn.values if distance is None else turn.side * distance
    return Replacement(rows, turn.rows)


_ATTACKS: dict[str, Callable[..., FloatArray | Replacement]] = {
    name: globals()[name] for name in __all__ if name not in ("available", "describe", "get")
}
