"""What the paper proves: the conditions and bounds of its theorems at given n, d and ε, and the settings they ask for.

Constants are those of the paper's precise statements: Theorem 1 as restated before its proof, and the appendix on
medians of means. Nothing here is asked of data by any other part of this package.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sparsemean._stats.planning import (
    LEAST_ALPHA,
    LEAST_ETA,
    PAPER_ALPHA,
    PAPER_ETA,
    PAPER_ITERATIONS,
    check_share,
    positive,
    theory_buckets,
)
from sparsemean._util.checks import fraction_of_rows, integer
from sparsemean.errors import InputError

CONVERGENCE = "Theorem 1, convergence of SubGM"
FULL = "Theorem 2, the full algorithm"
LOWER_BOUND = "Theorem 3, lower bound"
MEDIAN_OF_MEANS = "Appendix, median of means"

THIRD_MOMENT = 0.005
"""Theorem 1 asks for E|X − μ|³ ≤ 0.005σ³/√ε."""
MOST_CONTAMINATION = THIRD_MOMENT**2
"""No law of variance σ² has E|X − μ|³ below σ³ (Lyapunov), so √ε ≤ 0.005. A σ² above the variance does not help: the
Berry–Esseen bound in the proof is that of the variance itself."""
BUCKETS_PER_BAD_ROW = 100
"""J = 100⌈εn⌉, so that a bad row reaches one bucket in a hundred at most."""
COORDINATE = 30
"""A mean errs by at most 30σ√ε."""
DETECTABLE = 31
"""A mean of 31σ√ε is then estimated by σ√ε or more, beyond α: the paper's ε ≤ μ²/(961σ²)."""


def rows_asked(d: int, contamination: float, delta: float) -> float:
    """Return n from which Theorem 1 holds with probability 1 − δ, 20000·ln(2d/δ)/ε."""
    return 20_000 * math.log(2 * d / delta) / contamination


def window(alpha: float, eta: float) -> tuple[float, float]:
    """Return the numbers of steps between which Theorem 1 reads the walk, 2·ln(1/α)/η and 6·ln(1/α)/η."""
    unit = math.log(1 / alpha) / eta
    return 2 * unit, 6 * unit


def theorem_rows(
    n: int, d: int, *, contamination: float, k: int, sigma: float, delta: float, effect: float | None = None
) -> tuple[tuple[str, str, float], ...]:
    """Return rows (theorem, quantity, value); a condition ends in "(holds)" or "(does not hold)".

    Theorems 1 to 3 ask for ε > 0 and are left out at ε = 0. The settings are those of the paper's experiments.
    ``effect`` is the smallest mean that is not zero, in standard deviations.
    """
    k = integer(k, argument="k", least=1, rule="be a positive integer")
    delta, sigma = check_share("delta", delta), positive("sigma", sigma)
    bad = math.ceil(contamination * n)
    buckets = 4 * bad + 32 * math.log(1 / delta)
    error = sigma * (
        4 * math.sqrt(2) * (math.sqrt(contamination) + math.sqrt(1 / n)) + 16 * math.sqrt(math.log(1 / delta) / n)
    )
    rows = [
        (MEDIAN_OF_MEANS, _said("J = 4⌈εn⌉ + 32 ln(1/δ) buckets, at most n", buckets <= n), buckets),
        (MEDIAN_OF_MEANS, "error of one mean, σ(4√2(√ε + √(1/n)) + 16√(ln(1/δ)/n))", error),
    ]
    if contamination == 0:
        return tuple(rows)
    root = sigma * math.sqrt(contamination)
    convergence = _convergence(n, d, contamination, root, k=k, delta=delta, effect=effect)
    first = rows_asked(d, contamination, delta / 2)
    return (
        *((CONVERGENCE, quantity, value) for quantity, value in convergence),
        (FULL, _said("rows of its first stage, n ≥ 20000·ln(4d/δ)/ε", n >= first), first),
        (FULL, f"rows of order (k + ln(d/δ))/ε at k = {k}, by a constant that is not stated",
         (k + math.log(d / delta)) / contamination),
        *rows,
        (LOWER_BOUND, "no estimator is better than order σ√ε", root),
    )  # fmt: skip


def _said(condition: str, holds: bool) -> str:
    return f"{condition} ({'holds' if holds else 'does not hold'})"


def _convergence(
    n: int, d: int, contamination: float, root: float, *, k: int, delta: float, effect: float | None
) -> list[tuple[str, float]]:
    """Return what Theorem 1 asks of ε, n and d, and of the settings of the paper's experiments, and what it promises.

    Where J is capped at n, more buckets are bad than its proof allows.
    """
    bad = math.ceil(contamination * n)
    J, asked = BUCKETS_PER_BAD_ROW * bad, rows_asked(d, contamination, delta)
    share = bad / theory_buckets(n, contamination)
    of_data = [
        ("ε ≤ 2.5e-05, which E|X − μ|³ ≤ 0.005σ³/√ε comes to for variance σ²", contamination <= MOST_CONTAMINATION,
         MOST_CONTAMINATION),
        ("rows n ≥ 20000·ln(2d/δ)/ε", n >= asked, asked),
        ("J = 100⌈εn⌉ buckets, at most n", n >= J, float(J)),
        ("share of bad buckets, at most 0.01 in the proof, with J capped at n", n >= J, share),
    ]  # fmt: skip
    scale, (least, most) = 0.001 * root / math.sqrt(d), window(PAPER_ALPHA, PAPER_ETA)
    at = f"α = {PAPER_ALPHA:g}, η = {PAPER_ETA:g}"
    support, values = PAPER_ITERATIONS
    of_settings = [
        (f"α ≤ 0.001σ√(ε/d), published {PAPER_ALPHA:g}", scale >= PAPER_ALPHA, scale),
        (f"T ≥ 2·ln(1/α)/η at {at}, published {support} for the support", support >= least, least),
        (f"T ≤ 6·ln(1/α)/η at {at}, published {values} for the values", values <= most, most),
    ]
    so = f"{'' if all(holds for _, holds, _ in of_data) else 'not '}proved at these ε, n and d"
    smallest = "smallest mean that is surely found, 31σ√ε, as ε ≤ μ_min²/(961σ²)"
    if effect is not None:
        smallest = _said(f"{smallest}, at μ_min = {effect:g}σ", effect >= DETECTABLE * math.sqrt(contamination))
    return [
        *((_said(condition, holds), value) for condition, holds, value in (*of_data, *of_settings)),
        (f"largest mean, from η ≤ σ√ε/μ_max and α ≤ μ_max⁻⁵ at {at}", min(root / PAPER_ETA, PAPER_ALPHA**-0.2)),
        (smallest, DETECTABLE * root),
        (f"error of one mean ≤ 30σ√ε, {so}", COORDINATE * root),
        (f"error of all means ≤ 31σ√(kε) at k = {k}, {so}", DETECTABLE * root * math.sqrt(k)),
    ]


def theory_settings(contamination: object, theory: Mapping[str, object]) -> dict[str, float]:
    """Return J, α, η and T as Theorem 1 asks, α and η being the published ones where these are small enough.

    ``theory`` has the rows ``n``, the features ``d``, the bound ``sigma`` of the standard deviation, and the largest
    mean ``mu_max``, in the units of the data. Algorithm 1 does not fill its support up, so nothing is added to it.

    Examples
    --------
    >>> theory_settings(0.001, {"n": 2000, "d": 100, "sigma": 1.0, "mu_max": 1.0})["n_buckets"]
    200
    """
    epsilon = fraction_of_rows(contamination)
    if not isinstance(theory, Mapping) or set(theory) != {"n", "d", "sigma", "mu_max"}:
        raise InputError("theory", "be a dict with n, d, sigma and mu_max", repr(theory))
    n, d = (integer(theory[name], argument=name, least=1, rule="be a positive integer") for name in ("n", "d"))
    sigma, mu_max = (positive(name, theory[name]) for name in ("sigma", "mu_max"))
    if epsilon == 0:
        advice = "with no bad row any small share will do"
        raise InputError("contamination", "be above 0 for Theorem 1, which divides by it", epsilon, advice)
    J = BUCKETS_PER_BAD_ROW * math.ceil(epsilon * n)
    if n < J:
        rule = f"leave {n:,} rows enough for the J = 100⌈εn⌉ buckets of Theorem 1"
        advice = "it takes 100 rows for each bad one; n_buckets='theory' takes n buckets, for which nothing is proved"
        raise InputError("contamination", rule, f"{epsilon:g}, J = {J:,}", advice)
    root = sigma * math.sqrt(epsilon)
    alpha = min(PAPER_ALPHA, 0.001 * root / math.sqrt(d), max(mu_max, 1.0) ** -5)  # one is above α in any case
    eta = min(PAPER_ETA, root / mu_max)
    return {
        "n_buckets": J,
        "init_scale": check_share("init_scale", alpha, least=LEAST_ALPHA),
        "step_size": check_share("step_size", eta, least=LEAST_ETA),
        "n_iter": math.ceil(window(alpha, eta)[0]),
        "min_selected": 0,
    }
