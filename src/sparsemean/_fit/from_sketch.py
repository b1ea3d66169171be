"""One sample from counts that were made elsewhere, with the rows again where they are at hand."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._counts import partial_counts
from sparsemean._counts.sketch import SKEWED_SIZES, Sketch, same_names
from sparsemean._data import as_table
from sparsemean._data.source import ColumnCache, Source, as_dense
from sparsemean._data.table import Names, Table
from sparsemean._fit import inference, one_sample, screening
from sparsemean._fit.data import FitData
from sparsemean._stats.buckets import assign_buckets, cut_blocks
from sparsemean._stats.planning import AUTO_SIZES
from sparsemean._util.records import BLOCK, Counts, FloatArray, IntArray, Plan, Ranges, SketchState
from sparsemean.errors import InputError
from sparsemean.result import Estimate

if TYPE_CHECKING:
    from sparsemean._data.source import Block

ARRAY_LIKE = ("shape", "columns", "__array__", "__array_interface__", "__arrow_c_stream__", "__dlpack__")
"""What an object has that is a table itself."""


class AbsentRows(Source):
    """Rows that are not at hand."""

    def __init__(self, n: int, d: int) -> None:
        self.shape, self.dtype = (n, d), np.dtype(np.float64)

    def block(self, rows: slice, columns: slice) -> Block:  # noqa: ARG002
        """Refuse: there is nothing to read."""
        raise InputError("X", "be given, as a sketch does not keep its rows", None, "pass all rows in order")


class StackedRows(Source):
    """Several sources, the rows of one below those of the other."""

    def __init__(self, parts: Sequence[Source]) -> None:
        self.parts = parts
        self.ends = np.cumsum([part.shape[0] for part in parts]).tolist()
        self.shape, self.dtype = (self.ends[-1], parts[0].shape[1]), np.result_type(*(part.dtype for part in parts))
        self.along = "rows" if any(part.along == "rows" for part in parts) else "columns"
        self.in_memory = all(part.in_memory for part in parts)

    def block(self, rows: slice, columns: slice) -> Block:
        """Return some rows, put together from all parts that have some of them."""
        pieces = []
        for part, end in zip(self.parts, self.ends, strict=True):
            start = end - part.shape[0]
            first, last = max(rows.start, start) - start, min(rows.stop, end) - start
            if first < last:
                pieces.append(as_dense(part.block(slice(first, last), columns)))
        return np.concatenate(pieces)

    def _take(self, columns: IntArray) -> FloatArray:
        """Return all rows of ``columns``, from one part after the other."""
        out = np.empty((self.shape[0], columns.size), order="F")
        for part, end in zip(self.parts, self.ends, strict=True):
            out[end - part.shape[0] : end] = part.take(columns)
        return out


def rows_again(X: Any, sketch: Sketch, columns: IntArray) -> Table:
    """Return all rows as a table: as they lie, or ``columns`` of them where they come by only once."""
    if _comes_in_chunks(X):
        return _taken(iter(X), sketch, columns)
    in_pieces = isinstance(X, (list, tuple)) and X and len(getattr(X[0], "shape", ())) == 2
    pieces = list(_tables(X if in_pieces else [X], sketch))
    rows = sum(table.shape[0] for table in pieces)
    if rows != sketch.n_rows:
        raise InputError("X", f"have the {sketch.n_rows:,} rows of the sketch, in order", f"{rows:,} rows")
    if len(pieces) == 1:
        return replace(pieces[0], feature_names=sketch.feature_names)
    return Table(StackedRows([table.source for table in pieces]), sketch.feature_names, row_names=_row_names(pieces))


def holding(table: Table, columns: IntArray) -> Table:
    """Return a table that has read ``columns`` and reads them no more, unless they lie in memory anyway."""
    source = table.source
    if source.in_memory or isinstance(source, ColumnCache):
        return table
    return replace(table, source=ColumnCache(source, columns, source.take(columns)))


def _comes_in_chunks(X: Any) -> bool:
    """Whether chunks come out of X one after the other: it is no array, table or list, but can be gone through."""
    if isinstance(X, Mapping):
        advice = "pass its values() if they are chunks, in order"
        raise InputError("X", "be rows or chunks of them", type(X).__name__, advice)
    if isinstance(X, Iterator):
        return True
    if isinstance(X, (list, tuple, str, bytes, Table)) or not isinstance(X, Iterable):
        return False
    return not any(hasattr(X, name) for name in ARRAY_LIKE)


def _taken(chunks: Iterator[Any], sketch: Sketch, columns: IntArray) -> Table:
    """Take ``columns`` of chunks as they come by."""
    values = np.empty((sketch.n_rows, columns.size), order="F")
    seen = 0
    for table in _tables(chunks, sketch):
        rows = slice(seen, seen + table.shape[0])
        seen = rows.stop
        if seen <= sketch.n_rows:
            values[rows] = table.source.take(columns)
    if seen != sketch.n_rows:
        raise InputError("X", f"have the {sketch.n_rows:,} rows of the sketch, in order", f"{seen:,} rows")
    return Table(ColumnCache(AbsentRows(sketch.n_rows, sketch.n_features), columns, values), sketch.feature_names)


def _tables(pieces: Iterable[Any], sketch: Sketch) -> Iterator[Table]:
    """Yield pieces as tables, unless their features are not those of the sketch."""
    for piece in pieces:
        table = piece if isinstance(piece, Table) else as_table(piece)
        if table.shape[1] != sketch.n_features:
            features = f"{table.shape[1]:,} features"
            raise InputError("X", f"have the {sketch.n_features:,} features of the sketch", features)
        _check_names(table.feature_names, sketch.feature_names)
        yield table


def _check_names(found: Names | None, expected: Names | None) -> None:
    if found is None or expected is None or same_names(found, expected):
        return
    at = int(np.flatnonzero(found != expected)[0])
    named = f"{found[at]!r} in place of {expected[at]!r} in column {at}"
    raise InputError("X", "have the feature names of the sketch", named)


def _row_names(pieces: Sequence[Table]) -> Names | None:
    names = [table.row_names for table in pieces if table.row_names is not None]
    return np.concatenate(names) if len(names) == len(pieces) else None


# From counts to an estimate: without the rows what the counts decide, with the rows again the values as well.

NEEDS_ROWS = (
    "estimates, intervals and suspect rows need the rows again, though only a few of their columns: "
    "estimate(X), complete(X) or sparsemean merge --rows"
)
NOT_LOOKED_FOR = "features that show only without the rejected rows were not looked for, which needs a fit of all rows"
FIXED = ("null", "missing", "random_state")
DEALT = ("groups", "n_buckets")


def estimate_from_sketch(sketch: Sketch, X: Any = None, *, n_jobs: int | None = None, **options: Any) -> Estimate:
    """Make an estimate of a sketch, and of all rows where they are given; see `Sketch.estimate`."""
    began = time.perf_counter()
    asked, counts, told = _asked(sketch, options)
    if X is None and asked.plan.noise == "skewed":
        advice = "counts do not show discrete columns: estimate(X), complete(X) or sparsemean merge --rows"
        raise InputError("noise", "be 'symmetric' without the rows", "'skewed'", advice)
    names = Table(AbsentRows(sketch.n_rows, sketch.n_features), sketch.feature_names)
    if X is None:
        return one_sample.without_rows(
            names, counts, asked, sketch.seed, constant=told.same.features, began=began, notes=(NEEDS_ROWS,)
        )
    data = FitData(
        names,
        assign_buckets(asked.plan, sketch.seed),
        asked.plan,
        asked.shift,
        None,
        n_jobs,
        counts.missing is not None,
    )
    _, chosen = inference.infer(asked.plan, counts)
    columns = np.union1d(screening.columns_judged_by(data, sketch.seed), chosen.support)
    table = rows_again(X, sketch, columns)
    data = replace(data, table=holding(table, columns))
    _check_counts(data, counts, columns)
    made = one_sample.estimate_from_counts(data, counts, asked, sketch.seed, began=began, look_again=False)
    rejected = made.rows is not None and made.rows.suspects.size
    notes = (*made.status.messages, *_numbering(asked.plan), *((NOT_LOOKED_FOR,) if rejected else ()))
    status = replace(made.status, messages=notes, seconds=time.perf_counter() - began)
    return replace(made, status=status, source=None if isinstance(table.source, ColumnCache) else table)


def _numbering(plan: Plan) -> tuple[str, ...]:
    """Say how rows are counted where their numbers are not 0, 1, … themselves."""
    if plan.ranges in ((), ((0, plan.n_rows),)):
        return ()
    return (f"rows are counted from 0 in the order of their numbers: the first is row {plan.ranges[0][0]}",)


def _asked(sketch: Sketch, options: dict[str, Any]) -> tuple[one_sample.FitRequest, Counts, SketchState]:
    """Check what is asked for; return it, the counts of the sizes it needs, and the sketch with all blocks closed."""
    for name in (*FIXED, *DEALT):
        if name in options:
            fixed = f"{name} is fixed when rows are sketched"
            why = fixed if name in FIXED else "sketched rows are dealt one by one, in blocks of 64"
            raise InputError(name, "be left out here", repr(options[name]), why)
    if options.get("selection") == "paper":
        raise InputError(
            "selection", "be 'fwer', 'fdr' or 'fdr_by'", "'paper'", "the paper's dealing needs all rows at once"
        )
    skewed = options.get("noise") == "skewed"
    sizes = options.pop("bucket_sizes", "auto")
    if isinstance(sizes, str) and sizes == "auto" and not skewed:
        sizes = AUTO_SIZES if sketch.bucket_sizes == SKEWED_SIZES else sketch.bucket_sizes
    asked = one_sample.validate_request(
        sketch.n_rows, sketch.n_features, null=sketch.null, missing=sketch.missing, bucket_sizes=sizes, **options
    )
    told = partial_counts.closed(sketch.told)
    ranges, sealed = _dealt(told)
    if skewed:
        _check_cuts(ranges, sealed)
    counts = _of_sizes(told, asked.plan)
    return replace(asked, plan=replace(asked.plan, ranges=ranges, sealed=sealed)), counts, told


def _of_sizes(told: SketchState, plan: Plan) -> Counts:
    """Return the counts of the sizes that are needed, unless one was not counted."""
    needed = plan.bucket_sizes
    if lacking := [size for size in needed if size not in told.sizes]:
        named = ", ".join(map(str, lacking))
        advice = f"sketch the rows with bucket_sizes={tuple(sorted({*told.sizes, *needed}))}"
        what = "noise" if plan.noise == "skewed" else "bucket_sizes"
        raise InputError(what, f"need no sizes but those counted, {told.sizes}", f"{named} as well", advice)
    counts = told.counts
    if needed == told.sizes:
        return counts
    return counts.of_sizes(tuple(told.sizes.index(size) for size in needed))


def _dealt(told: SketchState) -> tuple[Ranges, Ranges]:
    """Return the numbers of the rows and what was dealt apart; nothing where one fit deals the same way."""
    sealed = tuple((a, b) for a, b in told.sealed if not _alone(a, b, told.ranges))
    if not sealed and told.ranges == ((0, told.n_rows),):
        return (), ()
    return told.ranges, sealed


def _alone(first: int, last: int, ranges: Ranges) -> bool:
    """Whether a part of a block has all rows that were seen of the block."""
    start = first // BLOCK * BLOCK
    seen = sum(max(0, min(b, start + BLOCK) - max(a, start)) for a, b in ranges)
    return seen == last - first


def _check_cuts(ranges: Ranges, sealed: Ranges) -> None:
    """Refuse skewed noise where more blocks are cut than the one that a fit may have: skewness cancels in full ones."""
    if (cut := cut_blocks(ranges, sealed)) > 1:
        rule = f"be 'symmetric' where pieces were sealed, or rows lack, inside blocks of {BLOCK}"
        raise InputError("noise", rule, f"'skewed' and {cut:,} blocks that are cut", "cut pieces at multiples of 64")


def _check_counts(data: FitData, counts: Counts, columns: IntArray) -> None:
    """Refuse rows that are not those of the sketch: all columns that are read must have the signs that were counted."""
    if not columns.size:
        return
    wanted = data.partition.wanted

    def signs(levels: list[FloatArray], _: IntArray) -> FloatArray:
        return np.vstack([np.sum(side, axis=0) for h in wanted for side in (levels[h] > 0, levels[h] < 0)])

    with np.errstate(invalid="ignore"):
        found = data.means(columns, signs, data.partition.depth)
    expected = np.stack([side[k, columns] for k in range(len(wanted)) for side in (counts.positive, counts.negative)])
    other = np.flatnonzero((found != expected).any(axis=0))
    if other.size:
        where = data.table.label(int(columns[other[0]]))
        raise InputError("X", "be the rows of the sketch, in the same order", f"other signs in {where}")
