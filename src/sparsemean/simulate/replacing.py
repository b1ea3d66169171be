"""Ask an attack for its rows and hold it to the rules."""

from __future__ import annotations

import numpy as np

from sparsemean.errors import InputError
from sparsemean.simulate import checks
from sparsemean.simulate.protocols import Attack, FloatArray, IntArray, Replacement


def replacement(
    attack: Attack, X: FloatArray, mean: FloatArray, *, rng: np.random.Generator, corrupted: IntArray
) -> Replacement:
    """Return the rows that ``attack`` puts in, and where.

    The attack reads ``X`` and ``mean`` through views that it cannot write to; what it changes is only what it
    returns. Its rows may hold infinities and NaN: an adversary is not bound to be tidy.
    """
    answer = attack(_read_only(X), _read_only(mean), rng, corrupted.copy())
    if isinstance(answer, Replacement):
        corrupted = _chosen(answer.corrupted, n=len(X), allowed=corrupted.size)
        answer = answer.rows
    expected = (corrupted.size, X.shape[1])
    rule = f"return numbers in an array of shape {expected}"
    rows = checks.numbers(answer, argument="attack", rule=rule)
    if rows.shape != expected:
        raise InputError("attack", rule, f"shape {rows.shape}")
    return Replacement(rows, corrupted)


def _read_only(array: FloatArray) -> FloatArray:
    view = array.view()
    view.flags.writeable = False
    return view


def _chosen(indices: object, *, n: int, allowed: int) -> IntArray:
    rule = f"choose at most {allowed} distinct rows by their indices in 0 … {n - 1}"
    chosen = checks.numbers(indices, argument="attack", rule=rule)
    whole = chosen.ndim == 1 and bool(np.all((chosen >= 0) & (chosen < n) & (chosen == np.floor(chosen))))
    if not whole or chosen.size > allowed or np.unique(chosen).size != chosen.size:
        raise InputError("attack", rule, np.array2string(chosen, threshold=6))
    return chosen.astype(np.intp)
