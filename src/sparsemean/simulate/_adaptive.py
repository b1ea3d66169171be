"""The attack that knows the method and its seed."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from sparsemean._stats.buckets import assign_block_buckets
from sparsemean._stats.decision import Holm, decide
from sparsemean._stats.sign_evidence import SlackEvidence, of_signs
from sparsemean._util.checks import integer
from sparsemean._util.plans import BadRows
from sparsemean._util.records import Counts, Partition
from sparsemean.errors import InputError
from sparsemean.simulate._protocols import FloatArray, IntArray, Replacement

__all__ = ["adaptive"]

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
    return Votes(partition, SIZES, counts, of_signs(counts, partition.n_rows), budget)


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
        inside = outside = np.array([_column(feature, mean.size)])
    if inside.size and (aim == "hide" or not outside.size):
        turn = against(X, votes, weakest(votes, inside))
    else:
        turn = towards(X, votes, *nearest(votes, outside))
    rows = X[turn.rows]
    rows[:, turn.feature] = turn.values if distance is None else turn.side * distance
    return Replacement(rows, turn.rows)


def _column(feature: object, d: int) -> int:
    rule = f"be the number of a column, 0 … {d - 1}"
    column = integer(feature, argument="feature", least=0, rule=rule)
    if column >= d:
        raise InputError("feature", rule, column)
    return column
