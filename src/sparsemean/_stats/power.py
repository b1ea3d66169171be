"""The search for what a test finds under normal noise: the smallest effect, the rows for it, the bad rows survived.

Bad rows either behave like the others, or all of them lie far on the other side. Effects are in standard deviations,
beyond the smallest one that matters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsemean._stats.nulls import critical_rank
from sparsemean._stats.planning import MIN_ROWS, bad_rows
from sparsemean._util.plans import GroupSizes, Plan

LARGEST_EFFECT = 12.0
"""Beyond it no normal value has the other sign, in floating point: what is not found there never is."""
LARGEST_SHIFT = 50.0
MOST_ROWS = 4_000_000
"""Where the search for the rows that an effect needs ends: beyond, it is said to be out of reach."""
HALVINGS = 60
"""A double has 53 bits: more change nothing."""


@dataclass(frozen=True)
class Power(ABC):
    """What one plan can do by its test, which looks at one statistic or at several."""

    plan: Plan

    @abstractmethod
    def chance(self, effect: float, *, opposed: bool, alone: int | None = None) -> float:
        """Return the probability with which an effect is found, by all statistics or by one ``alone``."""

    @abstractmethod
    def statistics(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield the place of each statistic that is looked at, and what it asks for."""

    def smallest(self, power: float, *, opposed: bool, alone: int | None = None) -> float:
        """Return the effect that is found with a probability of ``power``; infinite if none is."""
        return reached(lambda effect: self.chance(effect, opposed=opposed, alone=alone), power)

    def table(self, power: float) -> tuple[dict[str, float], ...]:
        """Return a row for each statistic: what it asks for, and what it finds alone."""
        return tuple(
            {
                **asked,
                "effect": self.smallest(power, opposed=False, alone=place),
                "effect_opposed": self.smallest(power, opposed=True, alone=place),
            }
            for place, asked in self.statistics()
        )


def fewest(suffices: Callable[[int], bool], *, exact: bool = False) -> int:
    """Return the smallest number of rows that suffices, to within 1 % unless ``exact``; 0 if none up to `MOST_ROWS`."""
    low, high = MIN_ROWS - 1, MIN_ROWS
    while not suffices(high):
        low, high = high, 2 * high
        if high > MOST_ROWS:
            return 0
    while high - low > (1 if exact else max(1, high // 100)):
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def halved(holds: Callable[[float], bool], low: float, high: float, *, share: float = 0.0) -> float:
    """Return from above where what holds at ``low`` ends, before ``high``; to within a share of it, if one is given."""
    for _ in range(HALVINGS):
        if high - low <= share * high:
            break
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


def reached(chance: Callable[[float], float], power: float) -> float:
    """Return the effect whose chance is ``power``; infinite where none has it."""
    from scipy.optimize import brentq
    from scipy.special import ndtri

    def beyond(effect: float) -> float:
        return float(ndtri(np.clip(chance(effect), 1e-9, 1 - 1e-9)) - ndtri(power))

    low, high = 0.0, 0.25
    while chance(high) < power:
        if high > LARGEST_EFFECT:
            return math.inf
        low, high = high, 2 * high
    return float(brentq(beyond, low, high, xtol=1e-6, rtol=1e-4)) if chance(low) < power else low


# Ranks of two groups.


def smallest_p(n0: int, n1: int, sides: int) -> float:
    """Return 2/C(n₀ + n₁, n₀), the p-value of groups that do not overlap; half of it for one side."""
    return sides * math.exp(math.lgamma(n0 + 1) + math.lgamma(n1 + 1) - math.lgamma(n0 + n1 + 1))


@dataclass(frozen=True)
class GroupPower(Power):
    """Pairs of rows of two groups in which the label's is above, by the normal law of their number."""

    @property
    def sizes(self) -> GroupSizes:
        """Rows of both groups."""
        assert self.plan.sizes is not None
        return self.plan.sizes

    @cached_property
    def critical(self) -> int:
        """What the number of pairs must reach where no row is bad."""
        error = self.plan.question.level / self.plan.n_hypotheses / self.plan.question.side.number
        return critical_rank((self.sizes.label,), (self.sizes.reference,), error)

    def survivable_share(self) -> float:
        """Return the largest share of bad rows of each group at which groups that do not overlap are selected."""
        n0, n1 = self.sizes.reference, self.sizes.label
        share = halved(lambda at: (n1 - bad_rows(n1, at)) * (n0 - bad_rows(n0, at)) >= self.critical, 0.0, 0.5)
        return max(int(share * n + 1e-6) / n for n in (n0, n1))

    def chance(self, effect: float, *, opposed: bool, alone: int | None = None) -> float:  # noqa: ARG002
        """Return the chance for normal values that are an ``effect`` apart."""
        from scipy.special import ndtr

        n0, n1, b0, b1 = self.sizes.reference, self.sizes.label, self.plan.bad.reference, self.plan.bad.label
        asked = self.critical + b1 * n0 + b0 * n1 - b0 * b1
        if opposed:
            n0, n1 = n0 - b0, n1 - b1
        auc, twice = above(effect)
        variance = n0 * n1 * (auc * (1 - auc) + (n0 + n1 - 2) * (twice - auc * auc))
        return float(ndtr((n0 * n1 * auc - asked) / math.sqrt(max(variance, 1e-24))))

    def smallest(self, power: float, *, opposed: bool, alone: int | None = None) -> float:  # noqa: ARG002
        """Return the shift in σ, to within a ten-thousandth."""

        def falls_short(shift: float) -> bool:
            return self.chance(shift, opposed=opposed) < power

        if falls_short(LARGEST_SHIFT):
            return math.inf
        return halved(falls_short, 0.0, LARGEST_SHIFT, share=1e-4) if falls_short(0.0) else 0.0

    def statistics(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield the sizes of the groups."""
        yield 0, {"reference": self.sizes.reference, "label": self.sizes.label}

    def table(self, power: float) -> tuple[dict[str, float], ...]:
        """Return one row, with the share of pairs above."""
        (row,) = super().table(power)
        return ({**row, "auc": above(row["effect"])[0]},)


def above(shift: float) -> tuple[float, float]:
    """Return P(X > Y) for normal X and Y a ``shift`` apart, and P(X > Y and X > Y')."""
    from scipy.special import ndtr, roots_hermitenorm

    nodes, weights = roots_hermitenorm(80)
    at = ndtr(nodes + shift)
    return float(weights @ at / weights.sum()), float(weights @ at**2 / weights.sum())
