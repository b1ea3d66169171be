"""What a plan can find, before any data: thresholds, detectable effect, rows needed, contamination survived."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sparsemean.checks import integer, real
from sparsemean.errors import InputError
from sparsemean.planning import fits, limits, paper, theorems
from sparsemean.records import Outlook, Plan

MOST_ROWS = 4_000_000
NEVER = 0.001
"""Probabilities below it are not written out."""
MOST = 10**15
"""Rows and features beyond which probabilities of counts are no longer exact in floating point."""


def plan(
    n: int,
    d: int,
    *,
    contamination: float = 0.05,
    level: float = 0.05,
    bucket_sizes: Any = "auto",
    power: float = 0.8,
    effect: float | None = None,
    k: int = 1,
    sigma: float = 1.0,
    delta: float = 0.05,
) -> Plan:
    """Say before seeing any data what n rows of d features can show, at family-wise error ``level``.

    Parameters
    ----------
    n, d : int
        Rows and features.
    contamination : float in [0, 0.5)
        Share of rows that may be arbitrary.
    level : float
        Family-wise error rate.
    bucket_sizes : "auto" or tuple of int
        As in `SparseMean`.
    power : float
        Probability with which a single effect is to be found.
    effect : float, optional
        A mean, in standard deviations, for which the rows needed are wanted.
    k, sigma, delta
        Sparsity, standard deviation and failure probability in the paper's theorems.

    Returns
    -------
    Plan
        With ``detectable_effect``, ``outlook`` and ``summary()``. Effects are for Gaussian noise; the heavier the tails
        at the same scale of the centre, the better single rows do. ``detectable_effect`` and the rows needed are for
        bad rows that are allowed for but behave like the others; ``effect_opposed`` in the table of the outlook and
        the summary say what is found if all of them vote against it.

    Examples
    --------
    >>> import sparsemean as sm
    >>> sm.plan(2000, 20_000, contamination=0.01).detectable_effect  # doctest: +ELLIPSIS
    0.1...
    """
    for name, value, most in (("n", n, MOST), ("d", d, MOST), ("k", k, d)):
        integer(value, argument=name, least=1, rule="be a positive integer")
        integer(value, argument=name, least=1, most=most, rule=f"be at most {most:,}")
    n, d = int(n), int(d)
    power = paper.check_share("power", power)
    made = fits.plan_fit(n, d, contamination=contamination, level=level, bucket_sizes=bucket_sizes)
    if effect is not None and real(effect, argument="effect", rule="be a positive number") <= 0:
        raise InputError("effect", "be a positive number", effect)
    survivable = limits.survivable_rows(made)
    if made.bad_rows > survivable:
        raise _impossible(made, survivable)
    table = tuple(_row(made, size, power) for size in made.bucket_sizes)
    best, opposed = (min(row[kind] for row in table) for kind in ("effect", "effect_opposed"))
    needed = None if effect is None else _rows_needed(made, effect, power)
    outlook = Outlook(
        detectable_effect=best,
        survivable_contamination=survivable / n,
        rows_needed=needed,
        effect=effect,
        power=power,
        table=table,
        theorems=theorems.numbers(n, d, contamination=made.contamination, k=k, sigma=sigma, delta=delta),
        text=_text(made, (best, opposed), survivable, needed, effect, power),
    )
    return replace(made, outlook=outlook)


def smallest_effect(made: Plan, n: int, contamination: float, power: float) -> float:
    """Return the effect that the same plan would find among n rows with ``power``; infinity if none."""
    other = replace(made, n_rows=n, n_units=n, bad_rows=fits.bad_rows(n, contamination), contamination=contamination)
    return min(_row(other, size, power)["effect"] for size in made.bucket_sizes)


def _row(made: Plan, size: int, power: float) -> dict[str, float]:
    """Return what one size needs and finds, with bad rows that say nothing and with such as all vote against a mean."""
    J, k = limits.majority(made, size)
    found, opposed = (_effect(votes, k, size, power) for votes in (J, J - made.bad_rows))
    return {"size": size, "buckets": J, "majority": k, "effect": found, "effect_opposed": opposed}


def _effect(J: int, k: int, size: int, power: float) -> float:
    """Return the mean, in σ of Gaussian rows, whose buckets of ``size`` show k of J on its side with ``power``."""
    from scipy.special import betaincinv, ndtri

    if k > J:
        return math.inf
    share = float(betaincinv(k, J - k + 1, power))  # P(Bin(J, share) ≥ k) = power
    return float(ndtri(share)) / math.sqrt(size)


def _rows_needed(made: Plan, effect: float, power: float) -> int:
    """Return the smallest n, to within 1 %, at which ``effect`` is found with ``power`` at the same ε; 0 if none is."""

    def found(n: int) -> bool:
        return smallest_effect(made, n, made.contamination, power) <= effect

    low, high = fits.MIN_ROWS, fits.MIN_ROWS
    while not found(high):
        low, high = high, 2 * high
        if high > MOST_ROWS:
            return 0
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


def _impossible(made: Plan, survivable: int) -> InputError:
    """Say which inequality fails, with its numbers, and what is the nearest plan that exists."""
    n, size = made.n_rows, min(made.bucket_sizes)
    if survivable < 0:
        J = -(-n // size)
        return InputError(
            "n",
            f"be large enough that 2^(1−J) ≤ level/(d·sizes) = {made.level / limits.n_tests(made):.2g}, J = ⌈n/{size}⌉",
            f"n = {n}, 2^(1−J) = {2.0 ** (1 - J):.2g}",
            f"take at least {limits.rows_for_any(made)} rows",
        )
    return InputError(
        "contamination",
        f"leave enough buckets: at n = {n}, d = {made.n_features} a unanimous feature survives {survivable} bad rows",
        f"{made.contamination} ({made.bad_rows} rows)",
        f"the largest feasible contamination is {survivable / n:.4g}",
    )


def _text(
    made: Plan, found: tuple[float, float], survivable: int, needed: int | None, effect: float | None, power: float
) -> str:
    best, opposed = found
    sizes = ", ".join(map(str, made.bucket_sizes))
    sentences = [
        f"With {made.n_rows:,} rows of {made.n_features:,} features, {made.bad_rows} of which may be bad, buckets of "
        f"{sizes} rows find a mean of {best:.3g} standard deviations with probability {power:g} (Gaussian noise), at a "
        f"family-wise error of {made.level:g}.",
        *_if_opposed(made, best, opposed, power),
        f"A feature on which all rows agree survives {survivable} bad rows ({survivable / made.n_rows:.3g} of all).",
    ]
    if effect is not None and needed:
        silent = ", if no bad row votes against it" if made.bad_rows else ""
        sentences.append(f"A mean of {effect:g} standard deviations needs about {needed:,} rows{silent}.")
    elif effect is not None:
        sentences.append(f"A mean of {effect:g} standard deviations cannot be found at this contamination.")
    return " ".join(sentences)


def _if_opposed(made: Plan, best: float, opposed: float, power: float) -> list[str]:
    """Say that bad rows may do more than stay silent, and what is then found."""
    if not made.bad_rows:
        return []
    silent = "That holds if the bad rows behave like the others; if all of them vote against it"
    if math.isinf(opposed):
        return [f"{silent}, no mean is found with that probability."]
    left = max(_power(made, size, best) for size in made.bucket_sizes)
    chance = f"{left:.2g}" if left >= NEVER else f"below {NEVER:g}"
    return [f"{silent}, such a mean is found with probability {chance}, and {power:g} takes one of {opposed:.3g}."]


def _power(made: Plan, size: int, effect: float) -> float:
    """Return the chance that buckets of ``size`` find a mean against which every bad row votes in one of them."""
    from scipy.special import bdtrc, ndtr

    J, k = limits.majority(made, size)
    return float(bdtrc(k - 1, J - made.bad_rows, ndtr(effect * math.sqrt(size))))
