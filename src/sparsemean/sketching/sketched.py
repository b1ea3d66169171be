"""What is known of some rows, as an object that can be saved, merged with others and concluded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean import records
from sparsemean.records import FloatArray, Ranges
from sparsemean.sources.table import Names

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """What is known of some rows: a few counts for each feature that add up over rows; `sparsemean.sketch` makes it.

    Attributes
    ----------
    told : records.Told
        The counts, and how rows were dealt.
    feature_names : array of str or None
        Names of the features, where they have any.
    """

    told: records.Told
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
        from sparsemean.sketching.file import save

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
        from sparsemean.kernels.threads import count_threads
        from sparsemean.sketching.concluding import conclude

        count_threads(options.get("n_jobs"))
        return conclude(self, X, **options)


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
