"""What comes closest where nothing is selected, and what it would take to select it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from sparsemean._fit.power import at_rows, rows_needed
from sparsemean._stats.planning import of_question
from sparsemean._stats.power import POWERS, power_of
from sparsemean._util.checks import pluralize
from sparsemean._util.plans import Plan
from sparsemean._util.records import IntArray
from sparsemean.result import Estimate
from sparsemean.result._report.wording import Wording, percent

POWER = 0.8
"""The chance at which an effect is said to be found."""


def without_bad_rows(wording: Wording) -> Estimate:
    """Return what the evidence says if no row is bad; the estimate itself where it has none left."""
    estimate = wording.estimate
    if not wording.plan.bad_rows or wording.rule.paper or estimate.decision.evidence is None:
        return estimate
    return estimate.at(0.0)


def closest_first(estimate: Estimate, clean: Estimate) -> IntArray:
    """Return features in the order in which they would be selected, were fewer rows bad, then by p without bad rows."""
    features = np.setdiff1d(np.arange(estimate.plan.n_features), estimate.decision.skipped)
    last = np.nan_to_num(estimate.max_contamination[features], nan=-1.0)
    p, adjusted = clean.p_values[features], clean.p_adjusted[features]
    return features[np.lexsort((-np.abs(clean.beta[features]), p, adjusted, -last))]


def nearest(tests: Sequence[Wording]) -> int:
    """Return which of some tests that select nothing comes nearest to it."""
    last = [np.nan_to_num(test.estimate.max_contamination, nan=-1.0).max(initial=-1.0) for test in tests]
    p = np.transpose([(test.estimate.p_values.min(initial=1.0), test.adjusted.min(initial=1.0)) for test in tests])
    return int(np.lexsort((*p, np.negative(last)))[0])


def nearest_feature(wording: Wording, *, named: bool) -> str:
    """Name the feature that comes nearest to being selected; nothing where there is none."""
    estimate = wording.estimate
    if not (features := closest_first(estimate, estimate)[:1]).size:
        return ""
    (name,), (value,) = estimate.names(features), wording.adjusted[features]
    called = f"{wording.feature} {name}" if estimate.feature_names is None else name
    where = f" in {wording.contrast}" if named else ""
    if value >= 1:  # the first of ties is not the strongest
        return f"; every {wording.rule.compared.name} is 1"
    return f"; strongest: {called}{where}, {wording.rule.compared.name} {value:.2g}"


def needed(wording: Wording) -> str:
    """Say which effect could have been found, and how many rows half of it takes; empty where that is not known."""
    plan = wording.plan
    if wording.rule.paper or wording.rule.drawn or plan.walk.n_buckets is not None or plan.n_strata > 1:
        return ""
    if (wording.names and wording.test.means) or plan.question.test not in POWERS:
        return ""
    asked, unit = of_question(plan, min_effect=0.0, selection="fwer"), wording.unit
    effect, rows = (float(f"{value:.2g}") for value in _effect_and_rows(asked, plan.n_units - plan.scale_rows))
    if not math.isfinite(effect):
        return ""
    these, size = f"{pluralize(plan.n_units - plan.scale_rows, unit)}", f"a mean of about {effect:g}"
    if wording.names:
        n_label, n_reference = wording.sizes
        these, size = f"{n_label:,} against {n_reference:,} {unit}s", f"a shift of about {effect:g}"
    units = "times the scale" if wording.test.means else f"standard deviation{'s' * (effect != 1)}"
    beyond = f" beyond {plan.question.min_effect:g}" if plan.question.min_effect else ""
    wanted = f"takes about {rows:,.0f} {unit}s{' in all' if wording.names else ''}"
    half = f"half of it {wanted}" if rows else "half of it is out of reach with that many wrong ones"
    found = f"{size} {units}{beyond} is found with {percent(POWER)} probability"
    return f"With {these} {found} (normal noise); {half}."


@lru_cache(maxsize=16)  # a second or two of many rows, for print, summary and page
def _effect_and_rows(plan: Plan, n: int) -> tuple[float, int]:
    """Return the effect that n rows find, infinity if none, and the rows that half of it takes, 0 if none do."""
    effect = power_of(at_rows(plan, n)).smallest(POWER)
    return effect, rows_needed(plan, effect / 2, POWER) if math.isfinite(effect) else 0
