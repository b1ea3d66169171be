"""Values that many rows of a column share, and what bad rows could have made of them: which null, in two groups.

Zeros are a block where they are many. In columns without many zeros the most frequent value is one if a third of the
rows have it, and a column of hardly more than two values is tested by Fisher's test. Labels decide none of this; bad
rows move every number by one each, so every value within their reach is looked at. See docs/guarantees.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._data.table import Table
from sparsemean._evidence.worst_case import REPEAT_SHARE, Counted, WorstCase
from sparsemean._kernels.rounding import snapped
from sparsemean._util.records import FloatArray, IntArray

MODE_SHARE = 3
"""A third of the rows: the most frequent value is the block where it has as many, and zeros are few."""
OFF_SHARE = 10
"""Fewer than a tenth of the values are neither of the two most frequent ones: these two are all that is compared."""
KEPT_SHARE = 16
"""Values that fewer than a sixteenth of them are are not kept: if bad rows could have made one the block, p is 1."""
READ_SHARE = 40
"""Columns with fewer repeats among values other than zero need not be read: a bound will do."""
Flags = npt.NDArray[np.bool_]


class Reach(NamedTuple):
    """What bad rows could have led to: counts with zeros, or a frequent value, as the block, and their nulls."""

    counts: Counted
    repeats: Counted
    owner: IntArray
    """The feature of each of these."""
    block: Flags
    raw: Flags
    fisher: Flags
    unknown: Flags
    """Of every feature, whether bad rows could have hidden a value that is not kept."""


@dataclass(frozen=True, slots=True, eq=False)
class CommonValues:
    """Columns whose values were counted, and counts of them with each frequent value in place of zero."""

    features: IntArray
    """The columns that were read, rising."""
    often: IntArray
    """(those, 4): rows with the most frequent value, with the next one, with the most frequent one that is not 0, and
    with the most frequent one of those that are not kept."""
    owner: IntArray
    """The column of each value that is kept, rising, and how many rows have it."""
    size: IntArray
    counts: Counted
    repeats: Counted

    @classmethod
    def of(cls, columns: Iterator[tuple[int, FloatArray, Counted]], n_strata: int) -> CommonValues:
        """Take columns: number, values, rising, and how many rows of either group have each: (strata, 2, values)."""
        features, often, owner, size = list[int](), list[list[int]](), list[int](), list[int]()
        counts, repeats = [np.empty((0, n_strata, 10), dtype=np.int64)], [np.empty((0, 2), dtype=np.int64)]
        for feature, values, table in columns:
            times = table.sum(axis=(0, 1))
            kept = (values != 0) & (KEPT_SHARE * times >= times.sum())
            groups = times, times[values != 0], times[(values != 0) & ~kept]
            ranked = sorted(times.tolist(), reverse=True)
            features.append(feature)
            often.append([*(*ranked, 0, 0)[:2], *(int(part.max(initial=0)) for part in groups[1:])])
            for at in np.flatnonzero(kept).tolist():
                owner.append(feature)
                size.append(int(times[at]))
                counts.append(_counts_about(at, table)[np.newaxis])
                alike = np.maximum(table.sum(axis=1) - 1, 0).sum(axis=0)  # within strata
                repeats.append(np.array([[alike[at + 1 :].sum(), alike[:at].sum()]]))
        found, sizes = np.array(features, dtype=np.intp), np.array(size, dtype=np.int64)
        table = np.array(often, dtype=np.int64).reshape(-1, 4)
        return cls(found, table, np.array(owner, np.intp), sizes, np.concatenate(counts), np.concatenate(repeats))

    def reach(self, features: IntArray, counts: Counted, repeats: Counted, rows: int, case: WorstCase) -> Reach:
        """Return what bad rows could have led to, given the counts of some features, which rise.

        Of columns that were not read repeats give bounds of how often values are there: so they do of those that would
        not be read, or values that would not be kept, had more rows been replaced.
        """
        m, more = (np.broadcast_to(part, features.size) for part in (case.max_replaced, case.more))
        values, alike = counts[..., :2].sum(axis=(1, 2)), repeats.sum(axis=1)
        zeros = values - counts[..., 2:6].sum(axis=(1, 2))
        begin, end = (np.searchsorted(features, self.owner, side) for side in ("left", "right"))
        kept = np.repeat(np.arange(self.owner.size), end - begin)
        place = begin[kept] + np.arange(kept.size) - np.searchsorted(kept, kept)
        # Rows with the most frequent value, and the one other than 0, at least; those with one that is not kept, at
        # most; those that have neither of the two most frequent ones, at least and at most.
        first, most, lost = np.maximum(zeros, 1), np.zeros(values.size, dtype=np.int64), alike + counts.shape[1]
        off = [values - first - lost, values - first - 1]
        read = np.flatnonzero(np.isin(features, self.features) & (READ_SHARE * (alike - more) >= values + more))
        if read.size:
            first[read], second, most[read], lost[read] = self.often[np.searchsorted(self.features, features[read])].T
            for bound in off:
                bound[read] = values[read] - first[read] - second
        rare = KEPT_SHARE * (self.size[kept] - more[place]) < values[place] + more[place]
        np.maximum.at(lost, place[rare], self.size[kept[rare]])
        hidden = case.missing * m
        two, others = OFF_SHARE * (off[0] - m) < values + hidden, OFF_SHARE * (off[1] + m) >= values - hidden
        if counts.shape[1] > 1:  # strata do not add up to a table of two values
            two, others = np.zeros_like(two), np.ones_like(others)
        few_zeros = others & (REPEAT_SHARE * (zeros - m) < rows)

        def may_be_first(size: IntArray, of: IntArray | slice = slice(None)) -> Flags:
            enough = 2 * OFF_SHARE * (size + m[of]) > (OFF_SHARE - 1) * (values[of] - hidden[of])
            return np.asarray(two[of] & enough & (size >= first[of] - 2 * m[of]))

        def may_be_block(size: IntArray, of: IntArray | slice = slice(None)) -> Flags:
            return np.asarray(few_zeros[of] & (MODE_SHARE * (size + m[of]) >= rows) & (size >= most[of] - 2 * m[of]))

        blocks, firsts = (may(self.size[kept], place) for may in (may_be_block, may_be_first))
        some = blocks | firsts
        place, kept, blocks, firsts = place[some], kept[some], blocks[some], firsts[some]
        return Reach(
            np.concatenate([counts, self.counts[kept].reshape(-1, *counts.shape[1:])]),
            np.concatenate([repeats, self.repeats[kept]]),
            np.append(np.arange(values.size), place),
            np.append(others & (REPEAT_SHARE * (zeros + m) >= rows), blocks),
            np.append(few_zeros & (MODE_SHARE * (most - m) < rows), np.zeros_like(blocks)),
            np.append(may_be_first(zeros), firsts),
            may_be_block(lost) | may_be_first(lost),
        )


def _counts_about(at: int, table: Counted) -> Counted:
    """Return what `RankTest.counts` has of a column whose value ``at`` is the block, given the rows with each value."""
    out = np.zeros((table.shape[0], 10), dtype=np.int64)
    out[:, :2] = table.sum(axis=2)
    for first, part in ((2, table[:, :, at + 1 :]), (4, table[:, :, :at])):
        label, reference = part[:, 0], part[:, 1]
        out[:, first : first + 2] = part.sum(axis=2)
        out[:, first + 4] = np.sum(label * (np.cumsum(reference, axis=1) - reference), axis=1)
        out[:, first + 5] = np.sum(label * reference, axis=1)
    return out


def read(
    table: Table, features: IntArray, groups: list[tuple[IntArray, IntArray]]
) -> Iterator[tuple[int, FloatArray, Counted]]:
    """Yield features with their values, rising, and how many rows of the label and the reference have each."""
    for columns, taken in table.source.takes_of(features):
        for feature, column in zip(columns.tolist(), snapped(taken, table.source.grid).T, strict=True):
            values, which = np.unique(column, return_inverse=True)
            times = [[np.bincount(which[rows], minlength=values.size) for rows in pair] for pair in groups]
            counted = np.array(times, dtype=np.int64)
            there = (counted.sum(axis=(0, 1)) > 0) & ~np.isnan(values)
            yield feature, values[there], counted[:, :, there]


NOTHING_READ = CommonValues.of(iter(()), 1)
