"""A sketch: the counts of rows that cannot be brought together, made where the rows are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._counts import partial_counts
from sparsemean._data import as_table
from sparsemean._data.gpu import on_the_host
from sparsemean._data.table import Names, Table
from sparsemean._stats.nulls import contrast_bases, contrast_sizes
from sparsemean._stats.planning import MIN_ROWS, plan_fit
from sparsemean._util import records
from sparsemean._util.checks import draw_seed, integer, one_number_each
from sparsemean._util.records import BLOCK, FloatArray, Ranges
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean.result import Estimate


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """What is known of some rows: a few counts for each feature that add up over rows; `sparsemean.sketch` makes it.

    Attributes
    ----------
    told : SketchState
        The counts, and how rows were dealt.
    feature_names : array of str or None
        Names of the features, where they have any.
    """

    told: records.SketchState
    feature_names: Names | None = None

    def __repr__(self) -> str:
        return f"<Sketch: {self.n_rows:,} rows ({spans(self.ranges)}), {self.n_features:,} features, seed {self.seed}>"

    @property
    def n_rows(self) -> int:
        """Number of rows seen."""
        return self.told.n_rows

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.told.n_features

    @property
    def ranges(self) -> Ranges:
        """First row and the one behind the last of every stretch that was seen."""
        return self.told.ranges

    @property
    def gaps(self) -> Ranges:
        """Stretches of numbers, from 0 on, that no row was seen of, up to the last one seen."""
        ends = ((0, 0), *self.ranges)
        return tuple((a, b) for (_, a), (b, _) in zip(ends, self.ranges, strict=False) if a < b)

    @property
    def seed(self) -> int:
        """What deals rows into buckets."""
        return self.told.seed

    @property
    def bucket_sizes(self) -> tuple[int, ...]:
        """Sizes of buckets that are counted."""
        return self.told.sizes

    @property
    def null(self) -> FloatArray | float:
        """The means that are tested against."""
        return 0.0 if self.told.shift is None else self.told.shift

    @property
    def missing(self) -> str:
        """What was done about NaN: ``"raise"`` or ``"omit"``."""
        return "omit" if self.told.missing else "raise"

    @property
    def rows_kept(self) -> int:
        """Rows that are kept as they are, as their block of 64 is not complete: none once it is sealed."""
        return sum(part.values.shape[0] for part in self.told.loose)

    def save(self, path: str | Path) -> None:
        """Write the sketch to one file; `sparsemean.load_sketch` reads it and `sparsemean.merge` adds it up."""
        from sparsemean._counts.sketch_file import save

        save(self, path)

    def estimate(self, X: Any = None, **options: Any) -> Estimate:
        """Conclude: which features have a mean, and how sure that is.

        Support, p-values, adjusted ones, q-values, radius, max_contamination, beta, bucket_size and entry_time are
        those of one fit of all rows. Estimates, intervals and suspect rows need the rows, as does ``noise="skewed"``:
        without them they are NaN and None, and ``status`` says so.

        Parameters
        ----------
        X : array, data frame, … or iterable of chunks, optional
            All rows again, in the order of their numbers. Only the selected columns are read, and those by which rows
            are judged.
        **options
            Those of `SparseMean` that say how to decide and estimate: ``contamination``, ``selection``, ``level``,
            ``noise``, ``bucket_sizes`` (some of those counted; by default all, (1, 2, 4) of a sketch made for skewed
            noise), ``refine``, ``refine_on``, ``screen_rows``, ``step_size``, ``init_scale``, ``n_iter``, ``n_jobs``.
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


def same_names(first: Names | None, second: Names | None) -> bool:
    """Whether both are the same names, or none."""
    if first is None or second is None:
        return first is second
    return first is second or bool(np.array_equal(first, second))


# Count some rows: the part that runs where the rows are.

SKEWED_SIZES = tuple(sorted({*contrast_sizes(contrast_bases(0)), *contrast_sizes(contrast_bases(1))}))
"""What a conclusion under skewed noise may need, with bad rows or without."""
MOST_NUMBER = 2**60
WHY_NOT = {
    "groups": "rows of one subject may lie in different pieces, and share a bucket",
    "n_buckets": "the paper's dealing permutes all rows at once: use bucket_sizes",
    "contamination": "decisions are made later: Sketch.estimate(contamination=…)",
    "selection": "decisions are made later: Sketch.estimate(selection=…)",
    "level": "decisions are made later: Sketch.estimate(level=…)",
}


def sketch(
    X: Any,
    *,
    first_row: int = 0,
    random_state: Any = 0,
    bucket_sizes: Any = "auto",
    noise: str = "symmetric",
    null: Any = 0.0,
    missing: str = "raise",
    sealed: bool = False,
    feature_names: Any = None,
    n_jobs: int | None = None,
    **others: Any,
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
        Deals rows into buckets. Sketches add up only if they have one seed, so that it is 0 by default; it need not be
        secret.
    bucket_sizes : "auto" or tuple of int, default="auto"
        Sizes to count, rising powers of two up to 64; "auto" is (1, 2, 4), under skewed noise (1, 2, 4, 8, 16, 32).
    noise : {"symmetric", "skewed"}, default="symmetric"
        What will be assumed: under skewed noise larger buckets are needed as well.
    null : float or array of d numbers, default=0.0
        The means that are tested against.
    missing : {"raise", "omit"}, default="raise"
        What to do about NaN.
    sealed : bool, default=False
        Close the blocks at both ends with the rows they have, and keep no row: counts only, of 64 rows at least. They
        are not anonymous: two sealed sketches of rows that differ in one give away the signs of that one. The
        answer is that of one fit if ``first_row`` is a multiple of 64 and nothing comes after the last row. If not, the
        guarantees under symmetric noise stay, and ``noise="skewed"`` is refused once more than one block is cut. With
        ``missing="omit"`` a column of one value, of which a piece has fewer than 64, may stay on the support.
    feature_names : sequence of d names, optional
        Defaults to the names of the input's columns.
    n_jobs : int, optional
        Threads; None takes every core this process may use.

    Examples
    --------
    >>> from sparsemean import merge, simulate, sketch
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
    >>> merge([sketch(data.X[:250]), sketch(data.X[250:], first_row=250)]).estimate(contamination=0.1).support
    array([0, 1, 2, 3])
    """
    if others:
        name = min(others)
        why = WHY_NOT.get(name, "")
        raise InputError(name, "be left out of a sketch", repr(others[name]), why)
    return sketch_table(
        as_table(X, feature_names), first_row=first_row, random_state=random_state, bucket_sizes=bucket_sizes,
        noise=noise, null=null, missing=missing, sealed=sealed, n_jobs=n_jobs,
    )  # fmt: skip


def sketch_table(
    table: Table,
    *,
    first_row: int = 0,
    random_state: Any = 0,
    bucket_sizes: Any = "auto",
    noise: str = "symmetric",
    null: Any = 0.0,
    missing: str = "raise",
    sealed: bool = False,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Sketch:
    """Count the rows of a table; see `sketch`."""
    if not isinstance(sealed, (bool, np.bool_)):
        raise InputError("sealed", "be True or False", repr(sealed))
    if sealed and table.shape[0] < BLOCK:
        rule = f"be left out for fewer than {BLOCK} rows, whose counts would give them away"
        raise InputError("sealed", rule, f"{table.shape[0]} rows")
    told = partial_counts.sketch(
        table,
        _first(first_row),
        seed=draw_seed(random_state),
        sizes=sizes_for(bucket_sizes, noise, missing),
        shift=one_number_each(on_the_host(null, table, argument="null"), table.shape[1], argument="null"),
        missing=missing == "omit",
        sealed=bool(sealed),
        n_jobs=n_jobs,
        progress=progress,
    )
    return Sketch(told, table.feature_names)


def sizes_for(bucket_sizes: Any, noise: Any, missing: Any) -> tuple[int, ...]:
    """Return the sizes to count, all three arguments checked."""
    automatic = isinstance(bucket_sizes, str) and bucket_sizes == "auto"
    plan_fit(MIN_ROWS, 1, noise=noise, missing=missing)
    if automatic and noise == "skewed":
        return SKEWED_SIZES
    return plan_fit(MIN_ROWS, 1, bucket_sizes=bucket_sizes).bucket_sizes


def followed_by(sketch: Sketch, table: Table, *, n_jobs: int | None = None) -> Sketch:
    """Return a sketch of the rows seen and of those of a table, which come next."""
    told = sketch.told
    if table.shape[1] != sketch.n_features:
        raise InputError("X", f"have the {sketch.n_features} features of the rows before", table.shape[1])
    if table.feature_names is not None and not same_names(sketch.feature_names, table.feature_names):
        raise InputError("X", "have the feature names of the rows before", _first_other(sketch, table))
    new = partial_counts.sketch(
        table, told.ranges[-1][1], seed=told.seed, sizes=told.sizes, shift=told.shift, missing=told.missing,
        n_jobs=n_jobs,
    )  # fmt: skip
    return replace(sketch, told=partial_counts.merged((told, new)))


def _first(first_row: Any) -> int:
    rule = "be an integer of at least 0, the number of the first row among all rows"
    first = integer(first_row, argument="first_row", least=0, rule=rule)
    if first > MOST_NUMBER:
        raise InputError("first_row", f"be at most {MOST_NUMBER:,}", first)
    return first


def _first_other(sketch: Sketch, table: Table) -> str:
    if sketch.feature_names is None or table.feature_names is None:
        return "names where there were none before"
    at = int(np.flatnonzero(sketch.feature_names != table.feature_names)[0])
    return f"{table.feature_names[at]!r} in place of {sketch.feature_names[at]!r} in column {at}"
