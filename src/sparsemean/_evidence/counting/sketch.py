"""A sketch: the counts of some rows, made where the rows are, that add up to those of all rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsemean._data import as_table, on_the_host
from sparsemean._data.source import AT_ONCE, Source, as_dense, find_non_finite, runs
from sparsemean._data.table import Names, Table
from sparsemean._evidence.counting.engines import Progress, engine_of
from sparsemean._stats.arrays import on_host
from sparsemean._stats.buckets import assign_block_buckets
from sparsemean._stats.planning import AUTO_SIZES, MIN_ROWS, plan_fit
from sparsemean._util.checks import draw_seed, integer, one_number_each
from sparsemean._util.records import BLOCK, BucketSpec, Counts, FloatArray, IntArray, Partition, Ranges
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean.result import Estimate


@dataclass(frozen=True, slots=True, eq=False)
class PendingRows:
    """Rows, as they are, of a block of 64 whose other rows have not been seen."""

    first_row: int
    values: npt.NDArray[np.generic]

    @property
    def range(self) -> tuple[int, int]:
        """First row and the one behind the last."""
        return self.first_row, self.first_row + self.values.shape[0]


@dataclass(frozen=True, slots=True, eq=False)
class ConstantColumns:
    """Features, rising, all of whose values are one and the same, other than the null value; and that value."""

    features: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    values: FloatArray = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Sketch:
    """What is known of some rows: a few counts for each feature that add up over rows; `sparsemean.sketch` makes it.

    Attributes
    ----------
    counts : Counts
        Those of blocks of 64 rows that are complete, or were closed with the rows they had.
    ranges : tuple of (int, int)
        First row and the one behind the last of every stretch that was seen, rising and apart.
    seed : int
        What assigns rows to buckets, by their number among all rows.
    bucket_sizes : tuple of int
        Sizes of buckets that are counted.
    null : float or array of d numbers
        The means that are tested against.
    missing : str
        What was done about NaN: ``"raise"`` or ``"omit"``.
    feature_names : array of str or None
        Names of the features, where they have any.
    pending : tuple of PendingRows
        Rows whose block is not complete yet, by rising number.
    sealed : tuple of (int, int)
        Parts of blocks that were closed before the block was complete, and assigned apart from its other rows.
    constant : ConstantColumns
        Features that hold one value only, in the rows that are counted.
    """

    counts: Counts
    ranges: Ranges = ()
    seed: int = 0
    bucket_sizes: tuple[int, ...] = AUTO_SIZES
    null: FloatArray | float = 0.0
    missing: str = "raise"
    feature_names: Names | None = None
    pending: tuple[PendingRows, ...] = field(default_factory=tuple)
    sealed: Ranges = field(default_factory=tuple)
    constant: ConstantColumns = field(default_factory=ConstantColumns)

    def __repr__(self) -> str:
        return f"<Sketch: {self.n_rows:,} rows ({spans(self.ranges)}), {self.n_features:,} features, seed {self.seed}>"

    @property
    def n_rows(self) -> int:
        """Number of rows seen."""
        return sum(last - first for first, last in self.ranges)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.counts.nearest.size)

    @property
    def gaps(self) -> Ranges:
        """Stretches of numbers, from 0 on, that no row was seen of, up to the last one seen."""
        ends = ((0, 0), *self.ranges)
        return tuple((a, b) for (_, a), (b, _) in zip(ends, self.ranges, strict=False) if a < b)

    @property
    def rows_kept(self) -> int:
        """Rows that are kept as they are, as their block of 64 is not complete: none once it is sealed."""
        return sum(rows.values.shape[0] for rows in self.pending)

    def save(self, path: str | Path) -> None:
        """Write the sketch to one file; `sparsemean.load_sketch` reads it and `sparsemean.merge` adds it up."""
        from sparsemean._evidence.counting.sketch_file import save_sketch

        save_sketch(self, path)

    def estimate(self, X: object = None, **options: Any) -> Estimate:
        """Infer which features have a mean, and how sure that is.

        Support, p-values, adjusted ones, q-values, radius, max_contamination, beta, bucket_size and entry_time are
        those of one fit of all rows with ``test="buckets"``, the default here; ``test="ranks"`` needs the rows and
        gives those of a fit by ranks. Estimates, intervals and suspect rows need the rows: without them they are NaN
        and None, and ``status`` says so. ``contamination="auto"`` needs them too: without them a share must be named,
        0 if no row is to be assumed bad. Means whatever the skew, ``target="mean"``, are refused.

        Parameters
        ----------
        X : array, data frame, … or iterable of chunks, optional
            All rows again, in the order of their numbers. Only the selected columns are read, and those by which rows
            are judged; rows whose names or signs there, or means nearest to zero, are others are refused.
        **options
            Those of `SparseMean` that say how to decide and estimate: ``contamination``, ``selection``, ``level``,
            ``bucket_sizes`` (some of those counted, all by default), ``refine``, ``refine_on``, ``screen_rows``,
            ``step_size``, ``init_scale``, ``n_iter``, ``n_jobs``.
        """
        from sparsemean._fit.from_sketch import estimate_from_sketch
        from sparsemean._kernels.memory_layout import count_threads

        count_threads(options.get("n_jobs"))
        return estimate_from_sketch(self, X, **options)


def spans(ranges: Ranges, most: int = 4) -> str:
    """Return ranges of rows in words.

    Examples
    --------
    >>> spans(((0, 100), (128, 129)))
    '0–99, 128'
    """
    shown = [str(a) if b - a == 1 else f"{a}–{b - 1}" for a, b in ranges[:most]]
    return ", ".join((*shown, *(["…"] if len(ranges) > most else [])))


def check_names(names: Names, expected: Names, whose: str) -> None:
    """Refuse names of features that are not the expected ones."""
    if names is not expected and not np.array_equal(names, expected):
        at = int(np.flatnonzero(names != expected)[0])
        differing = f"{names[at]!r} in place of {expected[at]!r} in column {at}"
        raise InputError("X", f"have the feature names of {whose}", differing)


# Count some rows: the part that runs where the rows are.

MOST_NUMBER = 2**60


def sketch(
    X: object,
    *,
    first_row: int = 0,
    random_state: object = 0,
    bucket_sizes: object = "auto",
    null: object = 0.0,
    missing: str = "raise",
    sealed: bool = False,
    feature_names: object = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Sketch:
    """Count some rows so that the counts add up to those of one fit of all rows.

    A row's bucket depends on the seed and the row's number alone, in blocks of 64 rows. Of a block that begins or ends
    in other hands the rows are kept in the sketch as they are, 126 at most, until the others are merged.

    Parameters
    ----------
    X : array, data frame, …
        Rows, at least one, of anything that `SparseMean.fit` takes.
    first_row : int, default=0
        Number of the first row among all rows.
    random_state : int, Generator, RandomState or None, default=0
        Assigns rows to buckets. Sketches add up only if they have one seed, so that it is 0 by default; it need not be
        secret.
    bucket_sizes : "auto" or tuple of int, default="auto"
        Sizes to count, rising powers of two up to 64; "auto" is (1, 2, 4).
    null : float or array of d numbers, default=0.0
        The means that are tested against.
    missing : {"raise", "omit"}, default="raise"
        What to do about NaN.
    sealed : bool, default=False
        Close the blocks at both ends with the rows they have, and keep no row: counts only, of 64 rows at least. They
        are not anonymous: two sealed sketches of rows that differ in one give away the signs of that one. The
        answer is that of one fit if ``first_row`` is a multiple of 64 and nothing comes after the last row. If not, the
        guarantees stay. With
        ``missing="omit"`` a column of one value, of which a piece has fewer than 64, may stay on the support.
    feature_names : sequence of d names, optional
        Defaults to the names of the input's columns.
    n_jobs : int, optional
        Threads; None takes every core this process may use.
    progress : callable, optional
        Is told the share of all values that has been read.

    Examples
    --------
    >>> from sparsemean import merge, simulate, sketch
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
    >>> merge([sketch(data.X[:250]), sketch(data.X[250:], first_row=250)]).estimate(contamination=0.1).support
    array([0, 1, 2, 3])
    """
    table = as_table(X, feature_names)
    if not isinstance(sealed, (bool, np.bool_)):
        raise InputError("sealed", "be True or False", repr(sealed))
    if sealed and table.shape[0] < BLOCK:
        rule = f"be left out for fewer than {BLOCK} rows, whose counts would give them away"
        raise InputError("sealed", rule, f"{table.shape[0]} rows")
    means = one_number_each(on_the_host(null, table, argument="null"), table.shape[1], argument="null")
    sizes, seed = sizes_for(bucket_sizes, missing), draw_seed(random_state)
    rule = f"be an integer from 0 to {MOST_NUMBER:,}, the number of the first row among all rows"
    first = integer(first_row, argument="first_row", least=0, rule=rule, most=MOST_NUMBER)
    return sketch_rows(
        table, first, seed=seed, bucket_sizes=sizes, null=0.0 if means is None else means, missing=missing,
        sealed=bool(sealed), n_jobs=n_jobs, progress=progress,
    )  # fmt: skip


def sizes_for(bucket_sizes: object, missing: object) -> tuple[int, ...]:
    """Return the sizes to count, both arguments checked."""
    return plan_fit(MIN_ROWS, 1, missing=missing, bucket_sizes=bucket_sizes).bucket_sizes


def no_means() -> InputError:
    """Say that counts of signs do not tell a mean."""
    return InputError("target", "be left out of sketches and streams", "'mean'", "means need a fit of the rows")


def check_unchanged(
    sketch: Sketch, *, random_state: object, bucket_sizes: object, null: object, missing: object
) -> None:
    """Refuse arguments that would assign or count rows to come in another way than those of a sketch."""
    means = one_number_each(null, sketch.n_features, argument="null")
    known = np.broadcast_to(sketch.null, sketch.n_features)
    sizes = sizes_for(bucket_sizes, missing)
    drawn = isinstance(random_state, (int, np.integer))
    changed = {
        "random_state": (random_state, drawn and draw_seed(random_state) != sketch.seed),
        "bucket_sizes": (sizes, sizes != sketch.bucket_sizes),
        "missing": (missing, missing != sketch.missing),
        "null": (null, not np.array_equal(np.zeros(sketch.n_features) if means is None else means, known)),
    }
    for name, (value, differs) in changed.items():
        if differs:
            raise InputError(name, "stay as it was when the first rows were counted", repr(value), "fit starts afresh")


# Count rows whose arguments are checked: what streams, files and the tasks of a cluster share.


def sketch_rows(
    table: Table,
    first_row: int = 0,
    *,
    seed: int,
    bucket_sizes: tuple[int, ...],
    null: FloatArray | float = 0.0,
    missing: str = "raise",
    sealed: bool = False,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Sketch:
    """Count the rows of a table, the first of which is row ``first_row`` of all.

    ``sealed`` closes the blocks at both ends with the rows they have: none is kept, no other piece completes them, and
    nothing is stored that may be a single value.
    """
    last = first_row + table.shape[0]
    start = min(-(-first_row // BLOCK) * BLOCK, last)
    stop = last if sealed else max(last // BLOCK * BLOCK, start)
    sketch = Sketch(
        counts=_no_counts(table.shape[1], bucket_sizes), ranges=((first_row, last),), seed=seed,
        bucket_sizes=bucket_sizes, null=null, missing=missing, feature_names=table.feature_names,
        sealed=_cut_ends(first_row, last) if sealed else (),
    )  # fmt: skip
    counts, pending = sketch.counts, list[PendingRows]()
    for a, b, whole in ((first_row, start, sealed), (start, stop, True), (stop, last, False)):
        if a < b and whole:
            partition = assign_block_buckets(b - a, bucket_sizes, seed, first_row=a)
            if a > first_row:
                partition = partition.of_rows(np.arange(a - first_row, b - first_row))
            new = count_rows(sketch, table, partition, n_jobs, progress if a == start else None)
            counts = counts.plus(new) if counts.n_buckets[0] else new
        elif a < b:
            pending.append(_pending_rows(table, slice(a - first_row, b - first_row), a, omit=missing == "omit"))
    constant = constant_columns(table.source, counts) if counts.n_buckets[0] else ConstantColumns()
    sketch = replace(sketch, counts=counts, pending=tuple(pending), constant=constant)
    return _without_single_values(sketch) if sealed else sketch


def count_rows(
    sketch: Sketch, table: Table, partition: Partition, n_jobs: int | None = None, progress: Progress | None = None
) -> Counts:
    """Count the signs of rows in the buckets of a partition, with the null and the missing values of a sketch."""
    null = None if isinstance(sketch.null, float) else sketch.null
    spec = BucketSpec(partition, null, sketch.missing == "omit")
    counts, _ = engine_of(table.source, n_jobs, progress).count(table, spec)
    return on_host(counts)


def constant_columns(source: Source, counts: Counts) -> ConstantColumns:
    """Return the features that hold one value, not the null value, in all rows of a source that ``counts`` are of."""
    buckets = counts.buckets(0)
    one_sided = (counts.positive[0] == buckets) | (counts.negative[0] == buckets)
    candidates = np.flatnonzero(one_sided & (np.asarray(buckets) > 0))
    if candidates.size:
        candidates = _constant_at_first(source, candidates)
    features, values = [np.empty(0, dtype=np.intp)], [np.empty(0)]
    for columns, rows in source.takes_of(candidates) if candidates.size else ():
        low = np.fmin.reduce(rows)
        constant = low == np.fmax.reduce(rows)
        features.append(columns[constant])
        values.append(low[constant])
    return ConstantColumns(np.concatenate(features), np.concatenate(values))


def _constant_at_first(source: Source, columns: IntArray) -> IntArray:
    """Return which of ``columns`` hold one value, or none, in the first rows: few others need be read whole."""
    n, d = source.shape
    rows = slice(0, min(BLOCK, n))
    width = max(1, int(AT_ONCE / (rows.stop * source.bytes_a_value)))
    kept = []
    for read, at, wanted in runs(columns, BLOCK if source.along == "columns" else d, width):
        values = as_dense(source.block(rows, read))[:, wanted]
        low, high = np.fmin.reduce(values), np.fmax.reduce(values)
        kept.append(columns[at][(low == high) | (low != low)])
    return np.concatenate(kept)


def _without_single_values(sketch: Sketch) -> Sketch:
    """Leave out what may be a value of one row: the nearest mean, and a feature's one value of fewer than 64 rows."""
    counts, constant = sketch.counts, sketch.constant
    missing = 0 if counts.missing is None else counts.missing[constant.features]
    many = np.broadcast_to(sketch.n_rows - missing >= BLOCK, constant.features.shape)
    return replace(
        sketch,
        counts=replace(counts, nearest=np.full(sketch.n_features, np.nan)),
        constant=ConstantColumns(constant.features[many], constant.values[many]),
    )


def _cut_ends(first: int, last: int) -> Ranges:
    """Return the parts of blocks at both ends of a stretch of rows.

    Examples
    --------
    >>> _cut_ends(10, 200), _cut_ends(64, 128), _cut_ends(70, 80)
    (((10, 64), (192, 200)), (), ((70, 80),))
    """
    if first // BLOCK == (last - 1) // BLOCK:
        return ((first, last),) if last - first < BLOCK else ()
    ends = ((first, -(-first // BLOCK) * BLOCK), (last // BLOCK * BLOCK, last))
    return tuple((a, b) for a, b in ends if a < b)


def _pending_rows(table: Table, rows: slice, first_row: int, *, omit: bool) -> PendingRows:
    """Copy some rows, unless a value is not finite."""
    block = as_dense(table.source.block(rows, slice(0, table.shape[1]))).copy()
    if place := find_non_finite(block, at=(rows.start, 0), skip_missing=omit):
        raise table.non_finite_error(place, skip_missing=omit)
    return PendingRows(first_row, block)


def _no_counts(d: int, sizes: tuple[int, ...]) -> Counts:
    """Return the counts of no row, which take no memory."""
    zeros = np.broadcast_to(np.zeros((), dtype=np.int32), (len(sizes), d))
    return Counts(zeros, zeros, np.broadcast_to(np.full((), np.inf), d), (0,) * len(sizes))
