"""What is beyond reach at n, d and ε, whatever the data are."""

from __future__ import annotations

import math

import numpy as np

from sparsemean.errors import InputError
from sparsemean.nulls import mann_whitney, sign_test
from sparsemean.records import Plan


def critical(n_buckets: int, tests: int, level: float) -> int:
    """Return the smallest majority k among J buckets with p ≤ level/tests; J + 1 if there is none."""
    k = np.arange(n_buckets + 2)
    return int(np.argmax(sign_test(k, np.full(k.size, n_buckets)) <= level / tests))


def majority(plan: Plan, size: int) -> tuple[int, int]:
    """Return the number of buckets and the majority of one sign that selects a feature, slack included."""
    J = -(-plan.n_rows // size)
    return J, critical(J, plan.n_features * len(plan.bucket_sizes), plan.level) + plan.bad_rows


def survivable_rows(plan: Plan) -> int:
    """Return the largest number of bad rows at which some size can still select a feature; negative if none can."""
    return max(J - (k - plan.bad_rows) for J, k in (majority(plan, size) for size in plan.bucket_sizes))


def rows_for_any(plan: Plan) -> int:
    """Return the number of rows from which a unanimous feature can be selected without bad rows."""
    return math.ceil(1 + math.log2(plan.n_features * len(plan.bucket_sizes) / plan.level))


def nothing_possible(plan: Plan) -> list[str]:
    """Say so where no feature could be selected, however clear, and what would help."""
    limit = survivable_rows(plan)
    if limit >= plan.bad_rows:
        return []
    if limit < 0:
        return [
            f"nothing can be certified: {plan.n_rows} rows are too few for {plan.n_features} features at level "
            f"{plan.level:g}, at least {rows_for_any(plan)} are needed"
        ]
    return [
        f"nothing can be certified: with {plan.bad_rows} bad rows among {plan.n_rows} even a feature on which all "
        f"others agree could be false; at most {limit} bad rows (contamination {limit / plan.n_rows:.4g}) can be "
        "survived, more rows or fewer features would help"
    ]


def pairs_possible(plan: Plan, sizes: tuple[int, ...]) -> list[str]:
    """Refuse groups too small for any test, and say so where nothing could be certified at this contamination."""
    fewest, n0, n1 = min(sizes), *sizes
    arrangements = math.comb(n0 + n1, n0)
    if 2 / arrangements > plan.level:
        needed = next(k for k in range(1, 10**6) if 2 / math.comb(max(sizes) + k, k) <= plan.level)
        raise InputError(
            "y",
            f"have at least {needed} rows in its smaller class for a test at level {plan.level:g}",
            f"{fewest} and {max(sizes)} rows",
        )
    threshold = plan.level / plan.n_features
    critical_u = mann_whitney(n0, n1).critical(threshold)
    if critical_u > n0 * n1:
        smallest = f"{2 / arrangements:.2g} against {threshold:.2g}"
        return [
            f"nothing can be certified: the smallest possible p-value is above level/d ({smallest}); more rows help"
        ]
    limit = (n0 * n1 - critical_u) // max(n0, n1)
    if limit >= plan.bad_rows:
        return []
    return [
        f"nothing can be certified: with {plan.bad_rows} bad rows among {plan.n_rows} even groups that do not overlap "
        f"could be false; at most {limit} bad rows (contamination {limit / plan.n_rows:.4g}) can be survived"
    ]
