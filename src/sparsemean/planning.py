"""From n, d and ε to what will be done: number of buckets, step size, iterations."""

from __future__ import annotations

import math

from sparsemean.checks import fraction_of_rows, integer, real
from sparsemean.errors import InputError
from sparsemean.records import Plan

PAPER_ALPHA = 1e-5
PAPER_ETA = 0.05
PAPER_ITERATIONS = (200, 600)
PAPER_MIN_SELECTED = 2
MIN_ROWS = 4


def paper_buckets(n: int, contamination: float) -> int:
    """Return the number of buckets of the paper's experiments, min(⌊1.5⌈εn⌉ + 150⌋, ⌊n/2⌋)."""
    return min(int(1.5 * math.ceil(contamination * n) + 150), n // 2)


def theory_buckets(n: int, contamination: float) -> int:
    """Return J = 100⌈εn⌉ of Algorithm 1, at most n; ε = 0 counts as one bad row."""
    return min(100 * max(1, math.ceil(contamination * n)), n)


def _check_share(name: str, value: object) -> float:
    rule = "be a number between 0 and 1, both excluded"
    number = real(value, argument=name, rule=rule)
    if not 0 < number < 1:
        raise InputError(name, rule, value)
    return number


def _check_buckets(n_buckets: object, n: int, contamination: float) -> int:
    if n_buckets == "paper":
        return paper_buckets(n, contamination)
    if n_buckets == "theory":
        return theory_buckets(n, contamination)
    rule = f"be 'paper', 'theory' or an integer from 1 to the number of rows ({n})"
    count = integer(n_buckets, argument="n_buckets", least=1, rule=rule)
    if count > n:
        raise InputError("n_buckets", rule, count)
    return count


def _check_iterations(n_iter: object) -> tuple[int, int]:
    pair = tuple(n_iter) if isinstance(n_iter, (tuple, list)) else (n_iter, n_iter)
    rule = "be a positive integer or a pair (iterations for the support, iterations for the values)"
    if len(pair) != 2:
        raise InputError("n_iter", rule, repr(n_iter))
    select_at, estimate_at = (integer(t, argument="n_iter", least=1, rule=rule) for t in pair)
    return select_at, estimate_at


def paper_plan(
    n: int,
    d: int,
    *,
    contamination: object = 0.05,
    n_buckets: object = "paper",
    step_size: object = PAPER_ETA,
    init_scale: object = PAPER_ALPHA,
    n_iter: object = PAPER_ITERATIONS,
    min_selected: object = PAPER_MIN_SELECTED,
) -> Plan:
    """Plan Stage 1 of Algorithm 1 as published; every argument is checked here.

    Examples
    --------
    >>> plan = paper_plan(600, 100, contamination=0.1)
    >>> plan.n_buckets, plan.bucket_sizes, plan.bad_rows
    (240, (2,), 60)
    """
    epsilon = fraction_of_rows(contamination)
    if n < MIN_ROWS:
        raise InputError(
            "X",
            f"have at least {MIN_ROWS} rows",
            f"n_samples = {n}",
            "buckets of rows cannot be formed from fewer",
        )
    buckets = _check_buckets(n_buckets, n, epsilon)
    select_at, estimate_at = _check_iterations(n_iter)
    return Plan(
        n_rows=n,
        n_features=d,
        contamination=epsilon,
        bad_rows=math.ceil(epsilon * n),
        dealing="paper",
        n_buckets=buckets,
        bucket_sizes=(n // buckets,),
        alpha=_check_share("init_scale", init_scale),
        eta=_check_share("step_size", step_size),
        select_at=select_at,
        estimate_at=estimate_at,
        min_selected=min(
            d, integer(min_selected, argument="min_selected", least=0, rule="be an integer of at least 0")
        ),
    )
