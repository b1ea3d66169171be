"""Sketches add up: whole blocks of 64 rows, rows of cut blocks, constant columns; in memory and from files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import Dense
from sparsemean._data.table import Table
from sparsemean._evidence.counting import sketch_file
from sparsemean._evidence.counting.engines import ahead
from sparsemean._evidence.counting.sketch import (
    ConstantColumns,
    PendingRows,
    Sketch,
    check_names,
    constant_columns,
    count_rows,
    sketch_rows,
)
from sparsemean._evidence.counting.sketch_file import MOST_ROWS
from sparsemean._kernels.memory_layout import precision_of
from sparsemean._kernels.rounding import centred
from sparsemean._stats.buckets import assign_places, block_positions
from sparsemean._util.records import BLOCK, CountArray, FloatArray, IntArray, Ranges
from sparsemean.errors import InputError

BY_CHANCE = 1e-9
"""Pieces of which all features have the same signs are refused where other rows would have them this seldom."""
LOOKED_AT = 1000
"""Features, the first, whose signs are compared: enough to tell."""
AHEAD = 2
"""Files that are read while one is added."""
ALIKE = {
    "n_features": "number of features",
    "names": "feature names",
    "seed": "seed",
    "sizes": "bucket sizes",
    "missing": "way with missing values",
    "shift": "null value",
}
"""Entries of a header that must be the same, in words."""


Piece = Sketch | str | Path
"""A sketch, or the file of one."""


def merge(sketches: Iterable[Piece]) -> Sketch:
    """Return the sketch of the rows of several sketches, or files of them, in whatever order they come.

    They must agree in features, seed, bucket sizes, null value and missing values, and have no row in common. Rows that
    two have by number are refused, and so are two pieces of the same rows under different numbers, where the signs of
    their features are too many to agree by chance; rows that are a part of two pieces only cannot be noticed. Files are
    read one after the other: no more than a few are in memory at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemean import merge, sketch
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> merge([sketch(X[100:], first_row=100), sketch(X[:100])]).ranges
    ((0, 300),)
    """
    pieces = _listed(sketches)
    headers = [_header(piece) for piece in pieces]
    labels = [f"sketch {k + 1} of the list" if isinstance(p, Sketch) else str(p) for k, p in enumerate(pieces)]
    for k in range(1, len(pieces)):
        _check_alike((pieces[0], pieces[k]), (headers[0], headers[k]), (labels[0], labels[k]))
    _check_disjoint((*pair, label) for header, label in zip(headers, labels, strict=True) for pair in header.ranges)
    others = (sketch for _, sketch in ahead(_counted, pieces[1:], AHEAD))  # comparing checksums is most of the work
    return add_sketches(_check_repeats(labels, chain((_whole(pieces[0]),), others)))


def _listed(sketches: object) -> list[Piece]:
    rule = "be a list of sketches or of files with them"
    if isinstance(sketches, (str, Path, Sketch)) or not isinstance(sketches, Iterable):
        raise InputError("sketches", rule, type(sketches).__name__, "put it into a list")
    if not (listed := list(sketches)):
        raise InputError("sketches", rule, "none")
    return listed


def _header(piece: object) -> sketch_file.Header:
    if isinstance(piece, Sketch):
        return sketch_file.header_of(piece)
    if isinstance(piece, (str, Path)):
        return sketch_file.read_header(piece)
    raise InputError("sketches", "be sketches or files with them", type(piece).__name__)


def _whole(piece: Piece) -> Sketch:
    return piece if isinstance(piece, Sketch) else sketch_file.load_sketch(piece)


def _counted(piece: Piece) -> Sketch:
    return piece if isinstance(piece, Sketch) else sketch_file.read_counts(piece)


# What does not add up is refused: other settings, rows in common, the same rows under other numbers.


def _check_alike(pieces: Sequence[Piece], headers: Sequence[sketch_file.Header], labels: Sequence[str]) -> None:
    """Refuse two sketches that do not add up, with both files and both values."""
    for name, words in ALIKE.items():
        first, other = (getattr(header, name) for header in headers)
        if first != other:
            if name == "missing":
                first, other = (("raise", "omit")[omit] for omit in (first, other))
            elif name == "names":
                first, other = _first_difference([_whole(piece).feature_names for piece in pieces])
            elif name == "shift":
                first, other = _first_difference([_full_null(_whole(piece)) for piece in pieces])
            values = f"{first} in {labels[0]} and {other} in {labels[1]}"
            raise InputError("sketches", f"have the same {words}", values)


def _full_null(sketch: Sketch) -> FloatArray:
    return np.broadcast_to(sketch.null, sketch.n_features)


def _first_difference(arrays: Sequence[npt.NDArray[np.generic] | None]) -> tuple[str, str]:
    """Return two values in words: the first that differ."""
    first, other = arrays
    if first is None or other is None:
        one, two = ("no names" if names is None else f"{names[0]!r}, …" for names in arrays)
        return one, two
    at = int(np.flatnonzero(first != other)[0])
    return f"{first[at : at + 1].tolist()[0]!r} (column {at})", repr(other[at : at + 1].tolist()[0])


def _check_disjoint(ranges: Iterable[tuple[int, int, str]]) -> None:
    """Refuse rows that two sketches have seen, with their numbers and labels, and more rows than can be counted."""
    ranges = sorted(ranges)
    for (a, b, first), (c, d, other) in pairwise(ranges):
        if c < b:
            where = f"in {first} and {other}" if first != other else f"in {first}, given twice"
            where = where if first else f"twice ({a}–{b - 1} and {c}–{d - 1})"
            raise InputError("sketches", "have no rows in common", f"rows {c} to {min(b, d) - 1} {where}")
    if (rows := sum(last - first for first, last, _ in ranges)) > MOST_ROWS:
        raise InputError("sketches", f"have at most {MOST_ROWS:,} rows together", rows)


def _check_repeats(labels: Sequence[str], sketches: Iterable[Sketch]) -> Iterator[Sketch]:
    """Yield one sketch after the other, unless all of its features have the signs of one before."""
    known: dict[bytes, str] = {}
    for label, sketch in zip(labels, sketches, strict=True):
        signs = _sign_counts(sketch)
        if signs is not None and _agree_by_chance(signs, sketch.n_rows) <= BY_CHANCE:
            other = known.setdefault(hashlib.sha256(signs.tobytes()).digest(), label)
            if other != label:
                both = f"{other} and {label}, in which every feature has the same signs"
                advice = "they seem to be the same rows under another first row: leave one out"
                raise InputError("sketches", "have no rows in common", both, advice)
        yield sketch


def _sign_counts(sketch: Sketch) -> CountArray | None:
    """Return how many rows lie above and below the null value in the first features, whatever their numbers.

    Pending rows count too, so that the same rows have the same signs under any first row. None where single rows are
    not counted.
    """
    if 1 not in sketch.bucket_sizes:
        return None
    at, null = sketch.bucket_sizes.index(1), _full_null(sketch)[:LOOKED_AT]
    signs = np.stack((sketch.counts.positive[at, :LOOKED_AT], sketch.counts.negative[at, :LOOKED_AT])).astype(np.int32)
    for rows in sketch.pending:
        values: FloatArray = np.asarray(rows.values[:, :LOOKED_AT], dtype=np.float64)
        away = centred(values, null, precision_of(rows.values.dtype))
        signs += np.stack([np.sum(side, axis=0, dtype=np.int32) for side in (away > 0, away < 0)])
    return signs


def _agree_by_chance(signs: CountArray, n: int) -> float:
    """Return about how likely n other rows have the same number above the null value, or below, in every feature.

    That of a binomial with its own variance v is repeated with probability 1/√(4πv). Features with the same numbers may
    be one and the same, and count once.
    """
    distinct = np.unique(signs.astype(np.float64), axis=1)
    variance = (distinct * (n - distinct) / n).max(axis=0)
    return float(np.exp(-0.5 * np.sum(np.log(np.maximum(4 * np.pi * variance, 1.0)))))


# Adding, of sketches that are known to have the same settings.


def append_rows(sketch: Sketch, table: Table, *, n_jobs: int | None = None) -> Sketch:
    """Return a sketch of the rows seen and of those of a table, which come next."""
    if table.shape[1] != sketch.n_features:
        raise InputError("X", f"have the {sketch.n_features} features of the rows before", table.shape[1])
    if table.feature_names is not None:
        if sketch.feature_names is None:
            rule = "have the feature names of the rows before"
            raise InputError("X", rule, "names where there were none before")
        check_names(table.feature_names, sketch.feature_names, "the rows before")
    new = sketch_rows(
        table, sketch.ranges[-1][1], seed=sketch.seed, bucket_sizes=sketch.bucket_sizes, null=sketch.null,
        missing=sketch.missing, n_jobs=n_jobs,
    )  # fmt: skip
    return add_sketches((sketch, new))


def add_sketches(sketches: Iterable[Sketch]) -> Sketch:
    """Return the sketch of all their rows; none may have seen a row of another.

    They are taken one after the other, so that an iterator need never have two. Settings and names are those of the
    first: whoever has sketches from elsewhere compares them before.
    """
    remaining = iter(sketches)
    first = total = next(remaining)
    for other in remaining:
        total = _add(total, other, in_place=total.counts is not first.counts)
    return total


def close_blocks(sketch: Sketch) -> Sketch:
    """Close all blocks with the rows they have: nothing more will come."""
    return _count_blocks(sketch, least=1)


def _add(total: Sketch, other: Sketch, *, in_place: bool) -> Sketch:
    """Add one more, in the arrays of ``total`` where nobody else has them."""
    ranges = sorted((*total.ranges, *other.ranges))
    _check_disjoint((*pair, "") for pair in ranges)
    if other.counts.n_buckets[0]:
        total = _add_counts(total, other, in_place=in_place)
    total = replace(
        total,
        ranges=_joined(ranges),
        pending=tuple(sorted((*total.pending, *other.pending), key=lambda rows: rows.first_row)),
        sealed=tuple(sorted((*total.sealed, *other.sealed))),
    )
    return _count_blocks(total)


def _count_blocks(sketch: Sketch, least: int = BLOCK) -> Sketch:
    """Count the blocks of which so many rows are pending, the others stay."""
    pending, total = list[PendingRows](), sketch
    for _, group in groupby(sketch.pending, key=lambda rows: rows.first_row // BLOCK):
        block = list(group)
        if sum(rows.values.shape[0] for rows in block) < least:
            pending += block
            continue
        positions = np.concatenate([block_positions(r.first_row, r.values.shape[0], sketch.seed) for r in block])
        source = Dense(np.concatenate([rows.values for rows in block]))
        counts = count_rows(sketch, Table(source), assign_places(positions, sketch.bucket_sizes))
        total = _add_counts(total, replace(sketch, counts=counts, constant=constant_columns(source, counts)))
    return replace(total, pending=tuple(pending))


def _add_counts(total: Sketch, other: Sketch, *, in_place: bool = False) -> Sketch:
    """Add the counts alone."""
    constant = _constant_in_both(total, other)  # before the arrays that say so are written to
    return replace(total, counts=total.counts.plus(other.counts, in_place=in_place), constant=constant)


def _constant_in_both(first: Sketch, second: Sketch) -> ConstantColumns:
    """Return the features that hold one value in both, or in one where the other has no value at all.

    Examples
    --------
    >>> from sparsemean._util.records import Counts
    >>> counts = Counts(*np.ones((2, 1, 9), dtype=np.int32), np.ones(9), (2,))
    >>> features = np.array([1, 4])
    >>> five, six = (ConstantColumns(features, np.array([5.0, value])) for value in (5.0, 6.0))
    >>> _constant_in_both(Sketch(counts=counts, constant=five), Sketch(counts=counts, constant=six)).features
    array([1])
    """
    features = np.union1d(first.constant.features, second.constant.features)
    if not features.size:
        return ConstantColumns()
    (a, a_fits), (b, b_fits) = (_constant_values(sketch, features) for sketch in (first, second))
    fits = a_fits & b_fits & ((a == b) | np.isnan(a) | np.isnan(b))
    return ConstantColumns(features[fits], np.where(np.isnan(a), b, a)[fits])


def _constant_values(sketch: Sketch, features: IntArray) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the value of ``features``, NaN where there is no one value, and whether it is one or there is none yet."""
    values = np.full(features.size, np.nan)
    values[np.searchsorted(features, sketch.constant.features)] = sketch.constant.values
    return values, ~np.isnan(values) | (np.broadcast_to(sketch.counts.buckets(0, features), features.shape) == 0)


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return neighbouring ranges as one.

    Examples
    --------
    >>> _joined([(0, 64), (64, 100), (128, 130)])
    ((0, 100), (128, 130))
    """
    out: list[tuple[int, int]] = []
    for first, last in ranges:
        if out and out[-1][1] == first:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return tuple(out)
