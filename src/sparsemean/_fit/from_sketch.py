"""One sample from counts that were made elsewhere, with the rows again where they are at hand."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparsemean._data import as_table
from sparsemean._data.source import Block, ColumnCache, Source, as_dense
from sparsemean._data.table import Names, Table
from sparsemean._evidence.counting.merging import close_blocks
from sparsemean._evidence.counting.sketch import Sketch, check_names, no_means
from sparsemean._evidence.signs import evidence_of
from sparsemean._fit import messages, one_sample
from sparsemean._fit.data import FitData
from sparsemean._fit.one_sample import Centres, infer
from sparsemean._fit.pipeline import build_estimate
from sparsemean._fit.refinement import Refinement
from sparsemean._stats.decision import Decision, decide_planned
from sparsemean._stats.effects import UNKNOWN
from sparsemean._stats.planning import of_question
from sparsemean._stats.row_scores import screening_columns
from sparsemean._util.plans import Plan
from sparsemean._util.records import BLOCK, Counts, FloatArray, IntArray, Ranges
from sparsemean.errors import InputError
from sparsemean.result import Estimate

ARRAY_LIKE = ("shape", "columns", "__array__", "__array_interface__", "__arrow_c_stream__", "__dlpack__")
"""What an object has that is a table itself."""


PRECISIONS = (2.0**-52, 2.0**-23, 2.0**-10, 2.0**-7)
"""Of the types that rows may have had when they were counted."""
ENOUGH = 16
"""Columns that tell which it was."""
CLOSE, NOISE = 1e-3, 1e-9
"""How far a mean may be off that was counted elsewhere: as a share of itself, and of the largest of its column."""


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

    @property
    def precision(self) -> float:
        """That of the part that has least of it."""
        return max(part.precision for part in self.parts)

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


def read_rows(X: Any, sketch: Sketch) -> Table:
    """Return all rows as a table, as they lie."""
    in_pieces = isinstance(X, (list, tuple)) and X and len(getattr(X[0], "shape", ())) == 2
    pieces = list(_tables(X if in_pieces else [X], sketch))
    _check_rows(sum(table.shape[0] for table in pieces), sketch)
    if len(pieces) == 1:
        return replace(pieces[0], feature_names=sketch.feature_names)
    return Table(StackedRows([table.source for table in pieces]), sketch.feature_names, row_names=_row_names(pieces))


def _check_rows(n: int, sketch: Sketch) -> None:
    if n != sketch.n_rows:
        raise InputError("X", f"have the {sketch.n_rows:,} rows of the sketch, in order", f"{n:,} rows")


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


def _take_once(chunks: Iterator[Any], sketch: Sketch, columns: IntArray) -> FloatArray:
    """Take ``columns`` of chunks that come by only once."""
    values = np.empty((sketch.n_rows, columns.size), order="F")
    seen = 0
    for table in _tables(chunks, sketch):
        rows = slice(seen, seen + table.shape[0])
        seen = rows.stop
        if seen <= sketch.n_rows:
            values[rows] = table.source.take(columns)
    _check_rows(seen, sketch)
    return values


def _tables(pieces: Iterable[Any], sketch: Sketch) -> Iterator[Table]:
    """Yield pieces as tables, unless their features are not those of the sketch."""
    for piece in pieces:
        table = piece if isinstance(piece, Table) else as_table(piece)
        if table.shape[1] != sketch.n_features:
            features = f"{table.shape[1]:,} features"
            raise InputError("X", f"have the {sketch.n_features:,} features of the sketch", features)
        if table.feature_names is not None and sketch.feature_names is not None:
            check_names(table.feature_names, sketch.feature_names, "the sketch")
        yield table


def _row_names(pieces: Sequence[Table]) -> Names | None:
    names = [table.row_names for table in pieces if table.row_names is not None]
    return np.concatenate(names) if len(names) == len(pieces) else None


# From counts to an estimate: without the rows what the counts decide, with the rows again the values as well.

NEEDS_ROWS = (
    "estimates, intervals and suspect rows need the rows again, though only a few of their columns: "
    "estimate(X), complete(X) or sparsemean merge --rows"
)
NOBODY_LOOKS = (
    "without its rows a sketch cannot tell how many of them look suspicious: name contamination= (--contamination), 0 "
    "if none is to be assumed wrong, or give the rows: estimate(X), complete(X) or merge --rows"
)
FIXED = ("null", "missing", "random_state")
DEALT = ("groups", "n_buckets")


def estimate_from_sketch(sketch: Sketch, X: Any = None, *, n_jobs: int | None = None, **options: Any) -> Estimate:
    """Make an estimate of a sketch, and of all rows where they are given; see `Sketch.estimate`."""
    began = time.perf_counter()
    plan, method, counts, closed = _asked(sketch, options)
    table = Table(AbsentRows(sketch.n_rows, sketch.n_features), sketch.feature_names)
    if X is None:
        _check_ranks(plan, "without the rows")
        if plan.auto:
            raise InputError("contamination", "be named where counts alone decide", "'auto'", NOBODY_LOOKS)
        decision = decide_planned(evidence_of(plan, counts), plan)
        return _without_rows(table, counts, decision, plan=plan, closed=closed, began=began)
    comes_once = _comes_in_chunks(X)
    if comes_once:
        _check_ranks(plan, "where rows come by only once")
    table = table if comes_once else read_rows(X, sketch)
    data = FitData.of(table, plan, seed=sketch.seed, n_jobs=n_jobs)
    data = replace(data, buckets=replace(data.buckets, skip_missing=counts.missing is not None))
    if plan.question.null is not None and not comes_once:
        data = as_counted(data, counts, np.arange(min(sketch.n_features, ENOUGH)))
    decision, _ = infer(data, counts)
    columns = np.union1d(screening_columns(table.shape, screen_rows=plan.question.screen_rows), decision.support)
    if not table.source.in_memory:
        values = _take_once(iter(X), sketch, columns) if comes_once else table.source.take(columns)
        data = replace(data, source=ColumnCache(table.source, columns, values))
    data = as_counted(data, counts, columns)
    ranges, notes = plan.walk.ranges, tuple[str, ...]()
    if ranges not in ((), ((0, plan.n_rows),)):
        notes = (f"rows are counted from 0 in the order of their numbers: the first is row {ranges[0][0]}",)
    found = Centres(data=data, counts=counts, decision=decision, method=method, notes=notes)
    estimate = found.to_host().judged().estimate(began=began)
    return replace(estimate, source=None) if comes_once else estimate


def _check_ranks(plan: Plan, why: str) -> None:
    """Refuse what is not a matter of counts where columns cannot be read after them."""
    if (test := plan.question.test) not in ("buckets", "sums"):
        raise InputError(
            "test", f"be 'buckets' {why}", repr(test), "estimate(X), complete(X) or merge --rows read them"
        )


def _without_rows(
    table: Table, counts: Counts, decision: Decision, *, plan: Plan, closed: Sketch, began: float
) -> Estimate:
    """Make an estimate of counts alone: what needs the rows is NaN, −1 or None."""
    plan = of_question(plan, screen_rows=False, refine="")
    d = plan.n_features
    decision = decision.without(np.intersect1d(decision.support, closed.constant.features))
    null = plan.question.null
    mean = np.zeros(d) if null is None else null.copy()
    mean[decision.support] = np.nan
    notes = (*messages.of_fit(plan, counts, decision, decision.skipped, table), NEEDS_ROWS)
    values = mean, np.full((d, 2), np.nan), np.full(d, UNKNOWN)
    estimate = build_estimate(
        plan, decision, table=table, began=began, notes=notes, values=values, counts=counts, strength=None,
        seed=closed.seed,
    )  # fmt: skip
    return replace(estimate, source=None)


def _asked(sketch: Sketch, options: dict[str, Any]) -> tuple[Plan, Refinement, Counts, Sketch]:
    """Return the plan of what is asked, the refinement, the counts of the sizes it needs, and all blocks closed."""
    for name in (*FIXED, *DEALT):
        if name in options:
            fixed = f"{name} is fixed when rows are sketched"
            why = fixed if name in FIXED else "sketched rows are dealt one by one, in blocks of 64"
            raise InputError(name, "be left out here", repr(options[name]), why)
    if (rule := options.get("selection")) in ("paper", "maxt"):
        why = "the paper's dealing" if rule == "paper" else "flipping rows"
        raise InputError("selection", "be 'fwer', 'fdr' or 'fdr_by'", repr(rule), f"{why} needs all rows at once")
    if options.get("min_effect"):
        advice = "sketch the rows with null= at the end that matters, and test one side"
        raise InputError("min_effect", "be 0 for sketches", options["min_effect"], advice)
    if options.get("test", "auto") == "auto":
        options["test"] = "buckets"
    if options.get("target") == "mean":
        raise no_means()
    sizes = options.pop("bucket_sizes", "auto")
    if isinstance(sizes, str) and sizes == "auto":
        sizes = sketch.bucket_sizes
    plan, method = one_sample.plan_of(
        sketch.n_rows, sketch.n_features, null=sketch.null, missing=sketch.missing, bucket_sizes=sizes, **options
    )
    closed = close_blocks(sketch)
    ranges, sealed = _dealt(closed)
    plan = replace(plan, walk=replace(plan.walk, ranges=ranges, sealed=sealed))
    return plan, method, _of_sizes(closed, plan), closed


def _of_sizes(closed: Sketch, plan: Plan) -> Counts:
    """Return the counts of the sizes that are needed, unless one was not counted."""
    needed = plan.walk.bucket_sizes
    if lacking := [size for size in needed if size not in closed.bucket_sizes]:
        named = ", ".join(map(str, lacking))
        advice = f"sketch the rows with bucket_sizes={tuple(sorted({*closed.bucket_sizes, *needed}))}"
        raise InputError(
            "bucket_sizes", f"need no sizes but those counted, {closed.bucket_sizes}", f"{named} as well", advice
        )
    counts = closed.counts
    if needed == closed.bucket_sizes:
        return counts
    return counts.of_sizes(tuple(closed.bucket_sizes.index(size) for size in needed))


def _dealt(closed: Sketch) -> tuple[Ranges, Ranges]:
    """Return the numbers of the rows and what was dealt apart; nothing where one fit deals the same way."""
    sealed = tuple((a, b) for a, b in closed.sealed if not _alone(a, b, closed.ranges))
    if not sealed and closed.ranges == ((0, closed.n_rows),):
        return (), ()
    return closed.ranges, sealed


def _alone(first: int, last: int, ranges: Ranges) -> bool:
    """Whether a part of a block has all rows that were seen of the block."""
    start = first // BLOCK * BLOCK
    seen = sum(max(0, min(b, start + BLOCK) - max(a, start)) for a, b in ranges)
    return seen == last - first


def as_counted(
    data: FitData, counts: Counts, columns: IntArray, rule: str = "be the rows of the sketch, in the same order"
) -> FitData:
    """Return rows as precise as they were when they were counted: their signs must be those, in all columns read.

    Rows that come in another type than they had then have the same signs but for what rounding may have made of zero.
    """
    if not columns.size:
        return data
    others = () if data.buckets.null is None else PRECISIONS
    for precision in dict.fromkeys((data.buckets.precision, *others)):
        told = replace(data, buckets=replace(data.buckets, precision=precision))
        other = _unlike(told, counts, columns)
        if not other.size:
            return told
        unlike = other
    where = data.table.label(int(columns[unlike[0]]))
    raise InputError("X", rule, f"other values in {where}")


def _unlike(data: FitData, counts: Counts, columns: IntArray) -> IntArray:
    """Return which of the columns have other signs than were counted, or another mean nearest to zero, where known."""
    wanted = data.buckets.partition.wanted

    def look(levels: list[FloatArray], _: IntArray) -> FloatArray:
        size = np.abs(levels[wanted[-1]])
        signs = [np.sum(side, axis=0) for h in wanted for side in (levels[h] > 0, levels[h] < 0)]
        return np.vstack((*signs, np.where(size > 0, size, np.inf).min(axis=0), np.fmax.reduce(size)))

    expected = np.stack([side[k, columns] for k in range(len(wanted)) for side in (counts.positive, counts.negative)])
    known = counts.nearest[columns]
    with np.errstate(invalid="ignore"):
        *signs, nearest, largest = data.means(columns, look, data.buckets.partition.depth)
        far = np.isfinite(known) & ~(np.abs(nearest - known) <= CLOSE * known + NOISE * largest) | np.isinf(largest)
    return np.flatnonzero((np.stack(signs) != expected).any(axis=0) | far)
