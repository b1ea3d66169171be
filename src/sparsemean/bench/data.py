"""Heavy-tailed noise around a mean that is zero but for twenty features, drawn faster than it is used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sparsemean.kernels.threads import each

FloatMatrix = npt.NDArray[np.floating]
N_SIGNALS = 20
SIGNAL = 2.0
AT_ONCE = 65_536
"""Values drawn at a time; what is held beside the matrix stays far below the memory that is measured."""

_latest: dict[tuple[int, int, str], FloatMatrix] = {}


def draw(n: int, d: int, dtype: str) -> FloatMatrix:
    """Return an (n, d) matrix, the same one for the same arguments; only the latest is kept in memory."""
    key = (n, d, dtype)
    if key not in _latest:
        _latest.clear()
        _latest[key] = _draw(n, d, np.dtype(dtype))
    return _latest[key]


def forget() -> None:
    """Free the latest matrix."""
    _latest.clear()


def _draw(n: int, d: int, dtype: np.dtype[np.floating]) -> FloatMatrix:
    X = np.empty((n, d), dtype=dtype)
    blocks = np.array_split(X, -(-n // max(1, AT_ONCE // d)))
    seeds = np.random.SeedSequence(0).spawn(len(blocks))
    signals = np.linspace(0, d - 1, min(d, N_SIGNALS)).astype(np.intp)
    means = np.where(np.arange(signals.size) % 2, -SIGNAL, SIGNAL).astype(dtype)

    def fill(task: tuple[FloatMatrix, np.random.SeedSequence]) -> None:
        _student_2(task[0], np.random.default_rng(task[1]))
        task[0][:, signals] += means

    for _ in each(fill, list(zip(blocks, seeds, strict=True)), 2):
        pass
    return X


def _student_2(block: FloatMatrix, rng: np.random.Generator) -> None:
    """Fill ``block`` with Student t, 2 degrees of freedom, whose quantiles have the closed form w√(2/(1 − w²)).

    Half a step of the generator's grid is added so that w = 2·uniform − 1 is never 0 or ±1; this is exact in both
    precisions.
    """
    rng.random(dtype=block.dtype, out=block)
    block *= 2
    block -= 1
    block += block.dtype.type(np.finfo(block.dtype).epsneg)
    block *= np.sqrt(2 / (1 - block * block))
