"""An adversary that knows the certified method, its seed included."""

from __future__ import annotations

import numpy as np

from sparsemean.checks import integer
from sparsemean.errors import InputError
from sparsemean.simulate.protocols import FloatArray, IntArray, Replacement

__all__ = ["adaptive"]

AIMS = ("hide", "false_positive")


def adaptive(
    X: FloatArray,
    mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    aim: str = "hide",
    feature: int | None = None,
    seed: int = 0,
    noise: str = "symmetric",
    distance: float | None = None,
) -> Replacement:
    """Know the buckets and spend every row on the votes for one feature, to hide it or to have it selected.

    Meant to defeat `sparsemean.sparse_mean` and to show that its radius and its p-values hold against the worst there
    is: it knows the bucket sizes, the partition and the evidence, and puts each row where it turns votes. It chooses
    its own rows and changes one entry in each.

    Parameters
    ----------
    X, mean, _rng, corrupted
        As for every attack.
    aim : {"hide", "false_positive"}
        "hide" takes votes from the true feature that is found with the least to spare, with rows that turn a vote of
        every bucket size at once; when all sizes are even, the rest of the rows stays clean. "false_positive" gives
        votes to the feature outside the support that is nearest to selection, at the bucket size that shows it
        best. Where there is no feature of the one kind, the other aim is pursued.
    feature : int, optional
        The feature to hide or to have selected, instead of the one that the attack would choose.
    seed : int
        The ``random_state`` of the fit that is attacked.
    noise : {"symmetric", "skewed"}
        The ``noise`` of the fit that is attacked.
    distance : float, optional
        How far from zero the changed entries are put. By default no further than is needed: a bucket's sum is
        reflected about zero, so that the rows look plausible.
    """
    from sparsemean.simulate import turning

    if aim not in AIMS:
        raise InputError("aim", f"be one of {', '.join(AIMS)}", repr(aim))
    if noise not in ("symmetric", "skewed"):
        raise InputError("noise", "be 'symmetric' or 'skewed'", repr(noise))
    seed = integer(seed, argument="seed", least=0, rule="be the integer that seeds the fit")
    votes = turning.poll(X, corrupted.size, seed=seed, skewed=noise == "skewed")
    inside = np.flatnonzero(mean)
    outside = np.flatnonzero(mean == 0)
    if feature is not None:
        inside = outside = np.array([_column(feature, mean.size)])
    if inside.size and (aim == "hide" or not outside.size):
        turn = turning.against(X, votes, turning.weakest(votes, inside))
    else:
        turn = turning.towards(X, votes, *turning.nearest(votes, outside))
    rows = X[turn.rows]
    rows[:, turn.feature] = turn.values if distance is None else turn.side * distance
    return Replacement(rows, turn.rows)


def _column(feature: object, d: int) -> int:
    rule = f"be the number of a column, 0 … {d - 1}"
    column = integer(feature, argument="feature", least=0, rule=rule)
    if column >= d:
        raise InputError("feature", rule, column)
    return column
