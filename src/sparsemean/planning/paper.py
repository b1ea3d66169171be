"""The paper's settings: number of buckets, step size, iterations."""

from __future__ import annotations

import math
from typing import Any

from sparsemean.checks import integer, real
from sparsemean.errors import InputError

PAPER_ALPHA = 1e-5
PAPER_ETA = 0.05
PAPER_ITERATIONS = (200, 600)
DEFAULT_ITERATIONS = 400
"""Length of a path that is shown where the values are the walk's limit."""
STAGE_1: dict[str, Any] = {
    "selection": "paper",
    "n_buckets": "paper",
    "step_size": PAPER_ETA,
    "init_scale": PAPER_ALPHA,
    "n_iter": PAPER_ITERATIONS,
    "min_selected": 2,
}
"""What is planned for Algorithm 1, Stage 1, as published."""
PRESET: dict[str, Any] = {**STAGE_1, "refine": None, "screen_rows": False}
"""The options of a fit that is Stage 1 and nothing else."""


def paper_buckets(n: int, contamination: float) -> int:
    """Return the number of buckets of the paper's experiments, min(⌊1.5⌈εn⌉ + 150⌋, ⌊n/2⌋)."""
    return min(int(1.5 * math.ceil(contamination * n) + 150), n // 2)


def theory_buckets(n: int, contamination: float) -> int:
    """Return J = 100⌈εn⌉ of Algorithm 1, at most n; ε = 0 counts as one bad row."""
    return min(100 * max(1, math.ceil(contamination * n)), n)


def check_share(name: str, value: object, *, least: float = 0.0) -> float:
    """Return a number strictly between 0 and 1, and not below ``least``."""
    rule = f"be a number between {least:g} and 1" if least else "be a number between 0 and 1, both excluded"
    number = real(value, argument=name, rule=rule)
    if not 0 < number < 1 or number < least:
        raise InputError(name, rule, value)
    return number


def count_buckets(n_buckets: object, n: int, contamination: float) -> int:
    """Return J for 'paper', 'theory' or a number."""
    named = {"paper": paper_buckets, "theory": theory_buckets}
    if isinstance(n_buckets, str) and n_buckets in named:
        return named[n_buckets](n, contamination)
    rule = f"be 'paper', 'theory' or an integer from 1 to the number of rows ({n})"
    count = integer(n_buckets, argument="n_buckets", least=1, rule=rule)
    if count > n:
        raise InputError("n_buckets", rule, count)
    return count


def check_iterations(n_iter: object) -> tuple[int, int | None]:
    """Return the iterations at which the support and the values are read; None: 200, and the walk's limit."""
    if n_iter is None:
        return PAPER_ITERATIONS[0], None
    pair = tuple(n_iter) if isinstance(n_iter, (tuple, list)) else (n_iter, n_iter)
    rule = "be None, a positive integer or a pair (iterations for the support, iterations for the values)"
    if len(pair) != 2:
        raise InputError("n_iter", rule, repr(n_iter))
    select_at, estimate_at = (integer(t, argument="n_iter", least=1, rule=rule) for t in pair)
    return select_at, estimate_at
