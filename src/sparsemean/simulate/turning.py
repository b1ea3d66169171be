"""Where an adversary who knows buckets and seed puts its rows: which votes to turn, and how far.

A bucket votes with the sign of its sum. A row sits in one bucket of each size, and these are nested, so one row may
turn a vote at every size.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from sparsemean import selection
from sparsemean.evidence import contrast_bases, contrast_sizes, of_contrasts, of_signs
from sparsemean.kernels import cpu
from sparsemean.partition import deal_blocks
from sparsemean.records import Counts, Evidence, Partition
from sparsemean.simulate.protocols import FloatArray, IntArray

SIZES = (1, 2, 4)
LEVEL = 0.05
Tree: TypeAlias = list[tuple[IntArray, FloatArray]]
"""For sizes 1, 2, 4, … the bucket of every row and the sum of every bucket."""


class Votes(NamedTuple):
    """All that the certified method sees of the clean rows, and the number of rows to be spent."""

    partition: Partition
    sizes: tuple[int, ...]
    counts: Counts
    evidence: Evidence
    budget: int
    skewed: bool


class Turn(NamedTuple):
    """The rows to change, one entry in each: to ``values``, or to anything further on ``side``."""

    feature: int
    side: float
    rows: IntArray
    values: FloatArray


def poll(X: FloatArray, budget: int, *, seed: int, skewed: bool) -> Votes:
    """Count the votes as a fit with this seed does that allows for ``budget`` bad rows."""
    bases = contrast_bases(max(1, budget))  # their smallest size is one row, which the partition then names
    sizes = contrast_sizes(bases) if skewed else SIZES
    partition = deal_blocks(X.shape[0], sizes, seed)
    counts = cpu.count_signs(X, partition)
    evidence = of_contrasts(counts, sizes, bases) if skewed else of_signs(counts, sizes)
    return Votes(partition, sizes, counts, evidence, budget, skewed)


def nearest(votes: Votes, features: IntArray) -> tuple[int, int]:
    """Return the one of ``features`` with the smallest p-value, and the index of the size that shows it.

    Contrasts are moved most by their large buckets, so with them those are the size to look at.
    """
    p = selection.p_at(votes.evidence, np.array([0]), features)[..., 0]
    index, at = np.unravel_index(p.argmin(), p.shape)
    size = (4 if votes.skewed else 1) * votes.evidence.labels[int(index)]
    return int(features[at]), votes.sizes.index(size)


def weakest(votes: Votes, features: IntArray) -> int:
    """Return the one of ``features`` that is selected with the fewest bad rows to spare.

    One that is not selected as it is needs no row; only where none is, the weakest of all is returned.
    """
    chosen = selection.select(
        votes.evidence, selection="fwer", level=LEVEL, bad_rows=votes.budget, n_rows=votes.partition.n_rows
    )
    slack = chosen.last_slack[features]
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
