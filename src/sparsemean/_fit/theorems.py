"""What the paper proves: the conditions and bounds of its theorems at given n, d and ε, and the settings they ask for.

Constants are those of the paper's precise statements: Theorem 1 as restated before its proof, and the appendix on
medians of means. Where it has orders alone that is said; what is "derived here" is proved in
docs/how-it-works.md. Nothing here is asked of data by any other part of this package.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

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
DIMENSIONS = "Appendix, median of means in d dimensions"
STABILITY = "Proposition 4.1, a second stage by stability"
SAMPLE_SIZE = "Section 4.2, the sample size of Lugosi and Mendelson"
THIRD_MOMENTS = "Section 4.2, bounded third moments"

THIRD_MOMENT = 0.005
"""Theorem 1 asks for E|X − μ|³ ≤ 0.005σ³/√ε."""
MOST_CONTAMINATION = THIRD_MOMENT**2
"""No law of variance σ² has E|X − μ|³ below σ³ (Lyapunov), so √ε ≤ 0.005. A σ² above the variance does not help: the
Berry–Esseen bound in the proof is that of the variance itself."""
BUCKETS_PER_BAD_ROW = 100
"""J = 100⌈εn⌉, so that a bad row reaches one bucket in a hundred at most."""
GAUSSIAN_THIRD = math.sqrt(8 / math.pi)
"""E|X|³/σ³ of normal values."""
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
    rows = list[tuple[str, str, float]]()
    for name, odds, of, said in (
        (MEDIAN_OF_MEANS, 1 / delta, "one mean", "1/δ"), (DIMENSIONS, d / delta, "each of d means", "d/δ"),
    ):  # fmt: skip
        buckets = 4 * bad + 32 * math.log(odds)
        error = 4 * math.sqrt(2) * (math.sqrt(contamination) + math.sqrt(1 / n)) + 16 * math.sqrt(math.log(odds) / n)
        rows += [
            (name, _said(f"J = 4⌈εn⌉ + 32 ln({said}) buckets, at most n", buckets <= n), buckets),
            (name, f"error of {of}, σ(4√2(√ε + √(1/n)) + 16√(ln({said})/n))", sigma * error),
        ]
    rows.append((DIMENSIONS, "error of all means in ℓ₂, √d times that", math.sqrt(d) * rows[-1][2]))
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
        *_beside(n, d, contamination, k=k, sigma=sigma, delta=delta),
        *rows,
        (LOWER_BOUND, "no estimator is better than order σ√ε", root),
    )  # fmt: skip


def _beside(
    n: int, d: int, contamination: float, *, k: int, sigma: float, delta: float
) -> Iterator[tuple[str, str, float]]:
    """Yield what the paper takes from others: its second stage, the rows of others, and what third moments would give.

    Two laws that the same observed one could come from share all but 2ε of their mass, so their means are at most
    2σ√(2ε/(1 − 2ε)) apart, which two of them are; 2σ(4ρε²)^⅓/(1 − 2ε) if E|X − μ|³ ≤ ρσ³.
    """
    unknown = "by a constant that is not stated"
    order = math.sqrt(contamination) + math.sqrt(k / n) + math.sqrt(math.log(1 / delta) / n)
    yield STABILITY, f"error of order σ(√ε + √(k/n) + √(ln(1/δ)/n)) at k = {k}, {unknown}", sigma * order
    shared = 1 - 2 * contamination
    most = 2 * sigma * math.sqrt(2 * contamination / shared)
    yield STABILITY, "error that bad rows alone can cause, n → ∞: at most 2σ√(2ε/(1 − 2ε)), derived here", most
    size = (k * math.log(d / k) + math.log(d / delta)) / contamination
    yield SAMPLE_SIZE, f"rows of order (k·ln(d/k) + ln(d/δ))/ε at k = {k}, {unknown}", size
    least = sigma * (GAUSSIAN_THIRD * contamination**2) ** (1 / 3)
    law = f"ρ = {GAUSSIAN_THIRD:.2g} as of normal values, n → ∞, derived here"
    yield THIRD_MOMENTS, f"error of order σε^⅔: at most 2σ(4ρε²)^⅓/(1 − 2ε), {law}", 2 * 4 ** (1 / 3) * least / shared
    yield THIRD_MOMENTS, f"no estimator is better than ½σ(ρε²)^⅓ for ε ≤ 1/ρ², {law}", least / 2


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
