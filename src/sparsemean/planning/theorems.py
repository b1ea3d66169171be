"""The numbers of the paper's own theorems, each with the theorem it comes from."""

from __future__ import annotations

import math

from sparsemean.checks import integer, real
from sparsemean.errors import InputError
from sparsemean.planning.paper import PAPER_ALPHA, PAPER_ETA, check_share, theory_buckets

CONVERGENCE = "Theorem 1, convergence of SubGM"
MEDIAN_OF_MEANS = "Appendix, median of means"
LOWER_BOUND = "Theorem 3, lower bound"
MOST_CONTAMINATION = 2.5e-5
"""Theorem 1 asks for E|X − μ|³ ≤ 0.005σ³/√ε, and no law has less than σ³: √ε ≤ 0.005."""


def numbers(
    n: int, d: int, *, contamination: float, k: int, sigma: float, delta: float, mu_max: float = 1.0
) -> tuple[tuple[str, str, float], ...]:
    """Return rows (theorem, quantity, value); those that ask for ε > 0 are left out at ε = 0."""
    k = integer(k, argument="k", least=1, rule="be a positive integer")
    delta = check_share("delta", delta)
    rule = "be a positive number"
    if real(sigma, argument="sigma", rule=rule) <= 0:
        raise InputError("sigma", rule, sigma)
    bad = math.ceil(contamination * n)
    window = math.log(1 / PAPER_ALPHA) / PAPER_ETA
    xi = sigma * (
        4 * math.sqrt(2) * (math.sqrt(contamination) + math.sqrt(1 / n)) + 16 * math.sqrt(math.log(1 / delta) / n)
    )
    rows = [
        (CONVERGENCE, "J = 100⌈εn⌉ buckets, at most n", float(theory_buckets(n, contamination))),
        (CONVERGENCE, f"T from 2·ln(1/α)/η at α = {PAPER_ALPHA:g}, η = {PAPER_ETA:g}", 2 * window),
        (CONVERGENCE, f"T up to 6·ln(1/α)/η at α = {PAPER_ALPHA:g}, η = {PAPER_ETA:g}", 6 * window),
        (MEDIAN_OF_MEANS, "J = 4⌈εn⌉ + 32 ln(1/δ) buckets", 4 * bad + 32 * math.log(1 / delta)),
        (MEDIAN_OF_MEANS, "error of one mean, σ(4√2(√ε + √(1/n)) + 16√(ln(1/δ)/n))", xi),
    ]
    if contamination == 0:
        return tuple(rows)
    root = sigma * math.sqrt(contamination)
    rows += [
        (CONVERGENCE, "rows n ≥ 20000·ln(2d/δ)/ε", 20_000 * math.log(2 * d / delta) / contamination),
        (CONVERGENCE, f"step size η ≤ σ√ε/μ_max at μ_max = {mu_max:g}", root / mu_max),
        (CONVERGENCE, f"scale α ≤ 0.001σ√(ε/d) ∧ μ_max⁻⁵ at μ_max = {mu_max:g}",
         min(0.001 * root / math.sqrt(d), mu_max**-5)),
        (CONVERGENCE, f"error of all means ≤ 31σ√(kε) at k = {k}, {_holds(contamination)}", 31 * root * math.sqrt(k)),
        (LOWER_BOUND, "no estimator is better than order σ√ε", root),
    ]  # fmt: skip
    return tuple(rows)


def _holds(contamination: float) -> str:
    """Say whether the condition of Theorem 1 can be met by any noise."""
    asked = f"proved for ε ≤ {MOST_CONTAMINATION:g} only"
    return asked if contamination <= MOST_CONTAMINATION else f"{asked}, not at this ε"
