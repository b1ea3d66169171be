"""The frozen things that pass between rooms; this file imports nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Generic, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

BLOCK = 64
"""Consecutive rows that share buckets only with each other: counts of pieces that end at its multiples add up."""
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
CountArray = npt.NDArray[np.int32]
T = TypeVar("T")
Ranges = tuple[tuple[int, int], ...]
"""First number and the one behind the last of every stretch, rising and apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Rows dealt into buckets, nested buckets above them.

    ``order`` lists the rows bucket by bucket. ``levels[0]`` are the offsets of the finest buckets in ``order``;
    ``levels[h]`` are the offsets of the buckets of level h among those of level h−1. ``sizes[h]`` is the nominal
    size at level h and ``wanted`` the levels that are counted.
    """

    order: IntArray
    levels: tuple[IntArray, ...]
    sizes: tuple[int, ...]
    wanted: tuple[int, ...]
    bucket_of_row: IntArray
    places: IntArray | None = None
    """For blocks of 64: the row at every place of every block, −1 at a place that is empty."""
    seed: int | None = None
    """What deals rows in blocks of 64, each by its number among those dealt; None where it takes more to deal them."""

    @property
    def depth(self) -> int:
        """Number of levels up to the largest one that is counted."""
        return self.wanted[-1] + 1

    def n_buckets(self, level: int) -> int:
        """Return the number of buckets at ``level`` that hold at least one row."""
        return int(self.levels[level].size) - 1

    def rows_per_bucket(self, level: int) -> IntArray:
        """Return how many rows the buckets of a level have."""
        offsets = self.levels[0]
        for above in self.levels[1 : level + 1]:
            offsets = offsets[above]
        return np.diff(offsets)

    def of_rows(self, rows: IntArray) -> Partition:
        """Return the same buckets with row ``rows[i]`` in the place of row i."""
        places = None if self.places is None else np.where(self.places < 0, -1, rows[self.places])
        rising = bool((rows[1:] > rows[:-1]).all())
        return replace(self, order=rows[self.order], places=places, seed=self.seed if rising else None)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What is known of rows and features beside their values; see `Estimate` for each."""

    feature_names: npt.NDArray[np.object_] | None = None
    units: IntArray | None = None
    """The subject of each row, where several rows are of one."""
    bucket_of_row: IntArray | None = None
    labels: IntArray | None = None
    class_names: npt.NDArray[np.str_] | None = None
    strata: IntArray | None = None
    theta: FloatArray | None = None
    y: FloatArray | None = None
    y_name: str = ""
    """The number of each row that a trend is about, and what it is called."""
    unit: str = ""
    feature: str = ""
    """What a row, or subject, and a feature are called in words; empty: as is usual for so many rows."""


@dataclass(frozen=True, slots=True, eq=False)
class BucketSpec:
    """What turns values into bucket means: buckets, null values (None: zero), and whether NaN is to be left out."""

    partition: Partition
    null: FloatArray | None = None
    skip_missing: bool = False
    precision: float = 0.0
    """How precise values are; 0: as their type tells. See `rounding`."""


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """What one pass learns of every feature; ``positive`` and ``negative`` have a row for each wanted size."""

    positive: CountArray
    negative: CountArray
    nearest: FloatArray
    """Smallest nonzero |bucket mean| of the largest size; infinity where there is none, NaN where it is not told."""
    n_buckets: tuple[int, ...]
    present: CountArray | None = None
    """Buckets that hold a value, a row for each wanted size; None where no value is missing."""
    missing: CountArray | None = None
    """Values of each feature that are missing; None where none is."""

    @classmethod
    def blank(cls, partition: Partition, d: int, *, missing: bool = False, xp: ModuleType = np) -> Counts:
        """Return the counts of ``d`` features before any bucket was seen, in arrays that pieces are added to."""
        signs = xp.zeros((2, len(partition.wanted), d), dtype=np.int32)
        n_buckets = tuple(partition.n_buckets(level) for level in partition.wanted)
        gaps = (xp.zeros_like(signs[0]), xp.zeros(d, dtype=np.int32)) if missing else (None, None)
        return cls(signs[0], signs[1], xp.full(d, np.inf), n_buckets, *gaps)

    def buckets(self, size: int, features: IntArray | slice = slice(None)) -> int | CountArray:
        """Return the number J of buckets that count: one for all features, or one for each where values are missing."""
        return self.n_buckets[size] if self.present is None else self.present[size, features]

    def add_columns(self, columns: slice, other: Counts) -> None:
        """Add the counts of one piece of a pass to these of all columns, in place."""
        self.positive[:, columns] += other.positive
        self.negative[:, columns] += other.negative
        np.minimum(self.nearest[columns], other.nearest, out=self.nearest[columns])
        if self.present is not None and self.missing is not None:
            self.present[:, columns] += other.everywhere()
            self.missing[columns] += other.gaps()

    def plus(self, other: Counts, *, in_place: bool = False) -> Counts:
        """Return the counts of both: of other rows, dealt into other buckets, of the same features and sizes.

        ``in_place`` writes them to the arrays of these counts, which are no longer of use: for very many of them.
        """
        gaps, there = self.missing is not None or other.missing is not None, self.present is not None

        def added(one: CountArray, two: CountArray, *, into: bool) -> CountArray:
            return np.add(one, two, out=one if into else None, dtype=np.int32)

        return Counts(
            positive=added(self.positive, other.positive, into=in_place),
            negative=added(self.negative, other.negative, into=in_place),
            nearest=np.minimum(self.nearest, other.nearest, out=self.nearest if in_place else None),
            n_buckets=tuple(a + b for a, b in zip(self.n_buckets, other.n_buckets, strict=True)),
            present=added(self.everywhere(), other.everywhere(), into=in_place and there) if gaps else None,
            missing=added(self.gaps(), other.gaps(), into=in_place and there) if gaps else None,
        )

    def of_sizes(self, indices: tuple[int, ...]) -> Counts:
        """Return the counts of some of the sizes; ``nearest``, which is that of the largest, is NaN without it."""
        at = list(indices)
        last = at[-1] == len(self.n_buckets) - 1
        return replace(
            self,
            positive=self.positive[at],
            negative=self.negative[at],
            nearest=self.nearest if last else np.full(self.nearest.size, np.nan),
            n_buckets=tuple(self.n_buckets[k] for k in at),
            present=None if self.present is None else self.present[at],
        )

    def gaps(self) -> CountArray:
        """Return the number of values that are missing, for every feature."""
        return np.zeros(self.nearest.size, dtype=np.int32) if self.missing is None else self.missing

    def everywhere(self) -> CountArray:
        """Return the number of buckets that count, for every size and feature."""
        if self.present is not None:
            return self.present
        return np.broadcast_to(np.array(self.n_buckets, dtype=np.int32)[:, np.newaxis], self.positive.shape)

    def settled(self) -> Counts:
        """Return the same without ``present`` and ``missing`` where nothing was missing after all."""
        complete = self.missing is not None and not self.missing.any()
        return replace(self, present=None, missing=None) if complete else self


NO_END = 2**30
"""More bad rows than there can be."""


@dataclass(frozen=True, slots=True, eq=False)
class MeanTest:
    """How means are tested, fixed before the rows that are tested are looked at."""

    kappa: float
    """κ of the influence."""
    bias: float
    """What sums may reach by themselves: nκa²σ², and what rounding adds."""
    factor: float
    """p = factor·exp(−…): the number of sides, over what a scale from data leaves of the level."""
    n_units: int
    """Rows (subjects) that are added up."""
    unit: FloatArray
    """1/a of every feature: values are measured in it. Infinite where a feature is not tested."""
    rows: IntArray | None = None
    """The rows (subjects) that are added up; None for all."""


@dataclass(frozen=True, slots=True, eq=False)
class MeanDifferenceTest:
    """How means of two groups are compared, fixed before the rows that are tested are looked at; the label is first."""

    kappa: float
    """κ of the influence."""
    weights: tuple[float, ...]
    """λ of either group, 1 at most: their sums count so much in the difference."""
    sizes: tuple[int, ...]
    """Rows (subjects) of either group that are added up."""
    factor: float
    """p = factor·exp(−…): the number of sides, over what a scale from data leaves of the level."""
    unit: FloatArray
    """(2, d): values of either group are measured in it. Infinite where a feature is not tested."""
    bias: FloatArray
    """(2, d): what either sum may reach by itself, nκa²σ², and what rounding adds."""
    rows: IntArray | None = None
    """The rows (subjects) that are added up; None for all."""


class CellCounts(NamedTuple):
    """What one pass over groups of rows learns of every feature; a cell is a class of rows within a stratum."""

    own: npt.NDArray[np.int64]
    """(3, cells, d): values present, positive ones and negative ones of each cell."""
    pairs: npt.NDArray[np.int64]
    """(sweeps, 6, cells, d): wins, ties and repeats among positive values, then among negative ones.

    wins counts the pairs in which the cell's value is the larger one, ties those of equal values; repeats is the number
    of values of the cell and what it is compared with, less the number of distinct ones. Zeros are left out.
    """


@dataclass(frozen=True, slots=True, eq=False)
class RowScores:
    """How far each row contradicts the rest: larger is worse; weights run from 1 (trusted) to 0 (rejected)."""

    scores: FloatArray
    weights: FloatArray
    suspects: IntArray
    aligned: int = 0
    """How many of the suspects lie off together, along one direction, rather than being large for themselves."""
    reasons: tuple[tuple[int, ...], ...] = ()
    kinds: tuple[str, ...] = ()
    """For each suspect the features that speak most against it, strongest first, and its kind (`row_scores.KINDS`)."""
    unnamed: int = 0
    """How many more rows seem to be bad, of which none can be named."""


@dataclass(frozen=True, slots=True, eq=False)
class LocationEstimate:
    """A mean estimated from some rows, and how that went."""

    mean: FloatArray
    iterations: int = 0
    converged: bool = True
    notes: tuple[str, ...] = ()
    """What went wrong or was done instead, a sentence each; empty when all went well."""
    weights: FloatArray | None = None
    """Weight of every row where the method gives one; they add up to one."""
    how: str = ""
    """Which method acted, in words."""

    def said(self, how: str) -> LocationEstimate:
        """Return the same with the name of the method."""
        return replace(self, how=how)

    def cut(self, k: int) -> LocationEstimate:
        """Return the same with all but the k largest |entries| zero."""
        mean = np.zeros_like(self.mean)
        kept = np.argsort(-np.abs(self.mean), kind="stable")[:k]
        mean[kept] = self.mean[kept]
        return replace(self, mean=mean)


@dataclass(frozen=True, slots=True, eq=False)
class Uncertified:
    """Features that only the rows left after screening show: worth a look, without any guarantee."""

    features: IntArray
    estimate: FloatArray
    p_adjusted: FloatArray
    """Computed from the rows left, as if they had not been chosen by looking at them."""


@dataclass(frozen=True, slots=True)
class Status:
    """Warnings as data: one sentence each, and what the run used."""

    messages: tuple[str, ...] = ()
    test: str = ""
    """What one sample was tested by, in words."""
    screening: str = ""
    """Which rows contradict the rest, by which features, and whether the values were made without them, in words."""
    refinement: str = ""
    """Which method made the values on the support and why, in words."""
    iterations: int = 0
    converged: bool = True
    """Iterations of the refinement, where it iterates, and whether it came to its end."""
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)


class Leaning(NamedTuple):
    """How far each feature leans to one side, and at which bucket size."""

    beta: FloatArray
    bucket_size: IntArray


class Inside(Generic[T]):
    """What an estimate has in one of its records, by the same name."""

    def __init__(self, part: str) -> None:
        self.part = part

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn the name."""
        self.name = name

    def __get__(self, estimate: object, owner: type) -> T:
        """Return it."""
        return cast("T", getattr(getattr(estimate, self.part), self.name) if estimate is not None else self)
