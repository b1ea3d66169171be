"""Simulated data: heavy-tailed rows around a sparse mean, a fraction of them in an adversary's hands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sparsemean._util.checks import Bunch, draw_seed, fraction_of_rows, real
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError
from sparsemean.simulate import attacks, distributions
from sparsemean.simulate._protocols import Attack, Noise, Replacement, Size, numbers, positive_integer

__all__ = ["Replacement", "attacks", "distributions", "make_contaminated"]


def make_contaminated(
    n: int,
    d: int,
    mean: Sequence[float] | FloatArray,
    *,
    distribution: str | Noise = "t",
    shape: float = 3.1,
    contamination: float = 0.1,
    attack: str | Attack | None = "constant_bias",
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    """Draw n rows mean + noise and let an adversary corrupt a fraction of them.

    Parameters
    ----------
    n : int
        Rows.
    d : int
        Features.
    mean : sequence of at most d numbers
        The mean of the first coordinates; it is zero on the rest.
    distribution : str or callable
        One of ``simulate.distributions.available()``, or a function ``(rng, (n, d)) -> noise``.
    shape : float
        Tail index, degrees of freedom or log-scale of a named distribution, as its own page says.
    contamination : float in [0, 0.5)
        The fraction ε of rows that are corrupted: n − ⌊n(1−ε)⌋ of them. As in the paper these are the last
        rows, unless the attack chooses others; clean rows are exchangeable, so nothing hangs on it.
    attack : str, callable or None
        One of ``simulate.attacks.available()``, a function ``(X, mean, rng, corrupted) -> rows`` that sees
        all clean rows and the truth and returns what the corrupted ones become (or a `Replacement`), or None for
        clean data. Options are bound by ``functools.partial``.
    random_state : None, int or numpy Generator
        The same integer gives the same data, and the same clean rows whatever the attack. A Generator is
        advanced.

    Returns
    -------
    Bunch
        ``X`` (n, d) float64; ``mean`` (d,) the true mean; ``support`` the sorted indices of its nonzeros;
        ``corrupted`` the sorted indices of the corrupted rows.

    Raises
    ------
    InputError
        If an argument breaks its rule, or a callable returns something of the wrong shape.

    Examples
    --------
    >>> from sparsemean.simulate import make_contaminated
    >>> data = make_contaminated(600, 100, [10, -5, -4, 2], distribution="pareto", random_state=0)
    >>> data.X.shape, data.support, data.corrupted.size
    ((600, 100), array([0, 1, 2, 3]), 60)
    """
    n, d = positive_integer(n, argument="n"), positive_integer(d, argument="d")
    truth = _full_mean(mean, d)
    shape = real(shape, argument="shape", rule="be a positive finite number", least=math.ulp(0.0))
    # 1e-9 undoes the rounding of n(1 − ε): 7 % of 1000 rows are 70, where the plain floor makes 71.
    count = n - int(n * (1 - fraction_of_rows(contamination)) + 1e-9)
    adversary = attack if attack is None or callable(attack) else attacks.get(attack)
    # The noise never shares its stream, so that the clean rows of a seed are the same under every attack.
    noise_rng, attack_rng = map(np.random.default_rng, np.random.SeedSequence(draw_seed(random_state)).spawn(2))
    X = truth + _draws(distribution, shape, noise_rng, (n, d))
    corrupted = np.arange(n - count, n)
    if adversary is None or count == 0:
        corrupted = corrupted[:0]
    else:
        rows, corrupted = replacement(adversary, X, truth, rng=attack_rng, corrupted=corrupted)
        X[corrupted] = rows
    return Bunch(X=X, mean=truth, support=np.flatnonzero(truth), corrupted=np.sort(corrupted))


def _full_mean(values: object, d: int) -> FloatArray:
    """Put ``values`` on the first of ``d`` coordinates and zero on the rest."""
    rule = "be a sequence of numbers"
    first = numbers(values, argument="mean", rule=rule)
    if first.ndim != 1:
        raise InputError("mean", rule, f"an array of shape {first.shape}")
    if first.size > d:
        raise InputError("mean", f"have at most d = {d} entries", first.size, "raise d or shorten mean")
    if not np.isfinite(first).all():
        raise InputError("mean", "be finite", first[~np.isfinite(first)][0])
    return np.concatenate([first, np.zeros(d - first.size)])


def _draws(distribution: str | Noise, shape: float, rng: np.random.Generator, size: Size) -> FloatArray:
    if callable(distribution):
        rule = f"return finite numbers in an array of shape {size}"
        draws = numbers(distribution(rng, size), argument="distribution", rule=rule, shape=size)
        if not np.isfinite(draws).all():
            raise InputError("distribution", rule, draws[~np.isfinite(draws)][0])
        return draws
    with np.errstate(over="ignore", invalid="ignore"):
        draws = distributions.get(distribution)(rng, size, shape)
    if not np.isfinite(draws).all():
        raise InputError("shape", f"be one at which every {distribution} draw fits into float64", shape)
    return draws


def replacement(
    attack: Attack, X: FloatArray, mean: FloatArray, *, rng: np.random.Generator, corrupted: IntArray
) -> Replacement:
    """Return the rows that ``attack`` puts in, and where.

    The attack reads ``X`` and ``mean`` through views that it cannot write to; what it changes is only what it
    returns. Its rows may hold infinities and NaN: an adversary is not bound to be tidy.
    """
    seen, truth = (np.broadcast_to(array, array.shape) for array in (X, mean))
    answer = attack(seen, truth, rng, corrupted.copy())
    if isinstance(answer, Replacement):
        corrupted = _chosen(answer.corrupted, n=len(X), allowed=corrupted.size)
        answer = answer.rows
    shape = (corrupted.size, X.shape[1])
    rule = f"return numbers in an array of shape {shape}"
    return Replacement(numbers(answer, argument="attack", rule=rule, shape=shape), corrupted)


def _chosen(indices: object, *, n: int, allowed: int) -> IntArray:
    rule = f"choose at most {allowed} distinct rows by their indices in 0 … {n - 1}"
    chosen = numbers(indices, argument="attack", rule=rule)
    whole = chosen.ndim == 1 and bool(np.all((chosen >= 0) & (chosen < n) & (chosen == np.floor(chosen))))
    if not whole or chosen.size > allowed or np.unique(chosen).size != chosen.size:
        raise InputError("attack", rule, np.array2string(chosen, threshold=6))
    return chosen.astype(np.intp)
