"""What is asked, and what is planned about it, before any value of the data is looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sparsemean._util.records import FloatArray, Inside, Ranges

T = TypeVar("T")
EACH_NAME = "each"
"""What the reference is called where a label is compared with every single other one."""


class Side(StrEnum):
    """Which side counts: means off the null value, above it or below it; the label's values against the reference's."""

    signs: tuple[int, ...]
    """1 for the upper side and −1 for the lower one, those that count."""
    number: int
    """How many sides share the error."""

    BOTH = "two-sided", 1, -1
    UP = "greater", 1
    DOWN = "less", -1

    def __new__(cls, value: str, *signs: int) -> Side:
        """Make a side of its name and the signs that count."""
        side = str.__new__(cls, value)
        side._value_, side.signs, side.number = value, signs, len(signs)
        return side

    def pick(self, both: T, up: T, down: T) -> T:
        """Return what belongs to this side."""
        return both if self is Side.BOTH else up if self is Side.UP else down

    def interval(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends of intervals, open where no end was looked for: above for `UP`, below for `DOWN`."""
        return (
            low if self is not Side.DOWN else np.full_like(low, -np.inf),
            high if self is not Side.UP else np.full_like(high, np.inf),
        )


class Shares(NamedTuple):
    """A share of the rows of the reference, and one of those of the label."""

    reference: float
    label: float


class GroupSizes(NamedTuple):
    """Rows (subjects) of the reference and of the label: of one sample, all are of its label."""

    reference: int
    label: int


class BadRows(NamedTuple):
    """Rows (subjects) of the reference and of the label that may be bad; see `GroupSizes`."""

    reference: int
    label: int

    @property
    def total(self) -> int:
        """Bad rows of both."""
        return self.reference + self.label

    def shares(self, sizes: GroupSizes) -> Shares:
        """Return which share of the rows of either group that is."""
        return Shares(self.reference / sizes.reference, self.label / sizes.label)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of data, before any value is looked at.

    Attributes
    ----------
    selection, level
        The rule that makes the support, and its error rate.
    side, min_effect
        Which side counts, and the smallest mean, or difference of groups, that matters.
    target, test
        What is tested, ``"centre"`` or ``"mean"``, and by what: ``"ranks"``, ``"buckets"`` or, of means, ``"sums"``.
    missing
        ``"raise"``: NaN is refused; ``"omit"``: it is a value that is not there.
    shares
        Shares of the reference and of the label that may be bad, twice the same of one sample; None: what looks bad.
    looked
        Whether `Estimate.at` has them from someone who saw an estimate.
    screen_rows, refine, refine_on
        Whether rows that contradict the rest are left out of the estimates; the method that makes the values on the
        support (empty: the walk's limit); whether it works on rows or on bucket means.
    null, scale
        The null values, None for zero; bounds of standard deviations, or data to take them from.
    """

    selection: str = "fwer"
    level: float = 0.05
    side: Side = Side.BOTH
    min_effect: float = 0.0
    target: str = "centre"
    test: str = "ranks"
    missing: str = "raise"
    shares: Shares | None = None
    looked: bool = False
    screen_rows: bool = False
    refine: str = ""
    refine_on: str = "rows"
    null: FloatArray | None = field(default=None, compare=False, repr=False)
    scale: Any = field(default=None, compare=False, repr=False)

    @property
    def at_first(self) -> Shares:
        """The shares that are decided with before rows were looked at: none where what looks bad may be bad."""
        return self.shares or Shares(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Walk:
    """How rows are dealt into buckets and how the subgradient method walks: all that the paper's way needs besides.

    Attributes
    ----------
    dealing
        ``"paper"``: one permutation of all rows; ``"blocks"``: blocks of 64 rows, so that counts add up; ``"pairs"``:
        two groups, no buckets.
    n_buckets, bucket_sizes
        Number J of buckets for ``"paper"``, else None; rows in a bucket of each nested size, the paper's rounded down.
    alpha, eta
        Initial scale and step size of the subgradient method.
    select_at, estimate_at
        Iterations at which the paper's rule reads the support and the values; None: the walk's limit.
    min_selected
        The paper's rule fills the support up to this many features with those that have moved farthest.
    ranges, sealed
        Numbers of the rows, and parts of blocks of 64 that were assigned apart, as in `Sketch`; empty where rows
        have the numbers 0, 1, … and all blocks were assigned whole.
    """

    dealing: str
    n_buckets: int | None
    bucket_sizes: tuple[int, ...]
    alpha: float
    eta: float
    select_at: int
    estimate_at: int | None
    min_selected: int
    ranges: Ranges = ()
    sealed: Ranges = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done about a question with so many rows, fixed before any value of the data is looked at.

    Attributes
    ----------
    question, walk
        What is asked, and how rows are dealt into buckets.
    n_rows, n_features
        Shape of the data.
    n_units
        Number of subjects where rows come in groups, else of rows: what contamination is a share of.
    contamination, bad_rows
        Share ε of rows that may be arbitrary; the number of rows (subjects, where rows come in groups) it stands for.
    sizes, bad_by_group
        Rows (subjects) of the reference and of the label that are compared, and how many of each may be bad; None of
        one sample.
    n_tests, n_strata, rest
        Tests of groups that share out the error, strata within which groups are compared, and whether the reference is
        all other labels.
    scale_rows
        Rows that bounds of the standard deviations were taken from, with ``target="mean"``; 0 where they were given.
    outlook
        What can be expected of this plan, where `sparsemean.plan` made it.
    """

    question: Question
    walk: Walk
    n_rows: int
    n_features: int
    n_units: int
    contamination: float
    bad_rows: int
    sizes: GroupSizes | None = None
    bad_by_group: BadRows | None = None
    n_tests: int = 1
    n_strata: int = 1
    rest: bool = False
    scale_rows: int = 0
    outlook: PowerAnalysis | None = None

    @property
    def auto(self) -> bool:
        """Whether as many rows may be bad as look bad."""
        return self.question.shares is None

    @property
    def n_hypotheses(self) -> int:
        """Number of hypotheses that share out the error: every feature in every test."""
        return self.n_features * self.n_tests

    @property
    def bad(self) -> BadRows:
        """Rows that may be bad, of groups or of one sample."""
        return self.bad_by_group or BadRows(0, self.bad_rows)

    @property
    def bad_shares(self) -> Shares:
        """Share of the rows of either group that may be bad; of one sample both are that of its rows."""
        if self.sizes is None:
            return Shares(self.bad_rows / self.n_units, self.bad_rows / self.n_units)
        return self.bad.shares(self.sizes)

    # What is asked, by the names of the parameters.

    selection = Inside[str]("question")
    """The rule that makes the support."""
    level = Inside[float]("question")
    """Its error rate."""
    min_effect = Inside[float]("question")
    """The smallest effect that matters."""
    target = Inside[str]("question")
    """What is tested."""
    test = Inside[str]("question")
    """What it is tested by."""
    bucket_sizes = Inside[tuple[int, ...]]("walk")
    """Rows in a bucket of each size."""

    @property
    def alternative(self) -> str:
        """Which side counts."""
        return str(self.question.side)

    @property
    def detectable_effect(self) -> float | None:
        """Smallest mean, in standard deviations of Gaussian noise, that is found with the wanted power."""
        return None if self.outlook is None else self.outlook.detectable_effect

    def summary(self) -> str:
        """Say in words what the plan can do."""
        return "" if self.outlook is None else self.outlook.text


@dataclass(frozen=True, slots=True)
class PowerAnalysis:
    """What can be expected before any data are seen: a row of ``table`` a size, one of ``theorems`` a result."""

    detectable_effect: float
    survivable_contamination: float
    rows_needed: int | None
    effect: float | None
    power: float
    table: tuple[dict[str, float], ...] = field(hash=False)
    theorems: tuple[tuple[str, str, float], ...]
    text: str
