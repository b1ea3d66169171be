"""What is beyond reach at n, d and ε, whatever the data are."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sparsemean.errors import InputError
from sparsemean.evidence import CONTRAST_VARIANCE, SKEW_BIAS, contrast_bases
from sparsemean.nulls import mann_whitney, two_sided
from sparsemean.records import Plan


def n_tests(plan: Plan) -> float:
    """Return by how much the level is divided for the most significant feature, were all features alike."""
    sizes = len(plan.bucket_sizes) if plan.noise != "skewed" else len(contrast_bases(plan.bad_rows))
    if plan.selection == "fdr":
        return sizes
    if plan.selection == "fdr_by":
        return sizes * float(np.sum(1.0 / np.arange(1, plan.n_features + 1)))
    return sizes * plan.n_features


@lru_cache(maxsize=4096)
def critical(n_buckets: int, tests: float, level: float) -> int:
    """Return the smallest majority k among J buckets with p ≤ level/tests, by halving; J + 1 if there is none."""
    low, high = 0, n_buckets + 1
    while low < high:
        middle = (low + high) // 2
        passes = two_sided(np.array([middle]), np.array([n_buckets]))[0] <= level / tests
        low, high = (low, middle) if passes else (middle + 1, high)
    return low


def majority(plan: Plan, size: int) -> tuple[int, int]:
    """Return the number of buckets and the majority of one sign that selects a feature, slack included."""
    J = plan.n_buckets or -(-plan.n_units // size)
    return J, critical(J, n_tests(plan), plan.level) + plan.bad_rows


def survivable_rows(plan: Plan) -> int:
    """Return the largest number of bad rows at which some size can still select a feature; negative if none can."""
    if plan.noise == "skewed":
        return max(_survivable_contrast(plan, base) for base in contrast_bases(plan.bad_rows))
    return max(J - (k - plan.bad_rows) for J, k in (majority(plan, size) for size in plan.bucket_sizes))


def _survivable_contrast(plan: Plan, base: int) -> int:
    """Return m such that G groups with D = ½, all signs alike, are still significant."""
    from scipy.special import ndtri

    groups = -(-plan.n_units // (4 * base))
    z = -float(ndtri(plan.level / n_tests(plan) / 2))
    spare = groups * (0.5 - SKEW_BIAS[base]) - z * math.sqrt(CONTRAST_VARIANCE * groups)
    return math.floor(spare / 2)


def rows_for_any(plan: Plan) -> int:
    """Return the number of rows from which a unanimous feature can be selected without bad rows."""
    return math.ceil(1 + math.log2(n_tests(plan) / plan.level)) * min(plan.bucket_sizes)


def nothing_possible(plan: Plan) -> list[str]:
    """Say so where no feature could be selected, however clear, and what would help."""
    limit = survivable_rows(plan)
    if limit >= plan.bad_rows:
        return []
    if limit < 0:
        needed = "" if plan.noise == "skewed" else f"; at least {rows_for_any(plan)} are needed"
        return [
            f"nothing can be certified: {plan.n_units} rows are too few for {plan.n_features} features at level "
            f"{plan.level:g}{needed}"
        ]
    return [
        f"nothing can be certified: with {plan.bad_rows} bad rows among {plan.n_units} even a feature on which all "
        f"others agree could be false; at most {limit} bad rows (contamination {limit / plan.n_units:.4g}) can be "
        "survived, more rows or fewer features would help"
    ]


def pairs_possible(plan: Plan, sizes: tuple[int, ...]) -> list[str]:
    """Refuse groups too small for any test, and say so where nothing could be certified at this contamination."""
    n0, n1 = sizes
    smallest = _smallest_p(n0, n1)
    if smallest > plan.level:
        needed = next(k for k in range(1, n0 + n1 + 99) if _smallest_p(max(sizes), k) <= plan.level)
        raise InputError(
            "y",
            f"have at least {needed} rows in its smaller class for a test at level {plan.level:g}",
            f"{min(sizes)} and {max(sizes)} rows",
        )
    threshold = plan.level / n_tests(plan)
    critical_u = mann_whitney(n0, n1).critical(threshold)
    if critical_u > n0 * n1:
        numbers = f"{smallest:.2g}, is above what is needed, {threshold:.2g}"
        return [f"nothing can be certified: the smallest possible p-value, {numbers}; more rows would help"]
    limit = (n0 * n1 - critical_u) // max(n0, n1)
    if limit >= plan.bad_rows:
        return []
    return [
        f"nothing can be certified: with {plan.bad_rows} bad rows among {plan.n_rows} even groups that do not overlap "
        f"could be false; at most {limit} bad rows (contamination {limit / plan.n_rows:.4g}) can be survived"
    ]


def _smallest_p(n0: int, n1: int) -> float:
    """Return 2/C(n₀ + n₁, n₀), the p-value of groups that do not overlap."""
    return 2 * math.exp(math.lgamma(n0 + 1) + math.lgamma(n1 + 1) - math.lgamma(n0 + n1 + 1))
