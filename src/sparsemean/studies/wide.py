"""Very wide data in single precision: the paper's default problem with as many features as memory holds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sparsemean.bunch import Bunch
from sparsemean.kernels.threads import count_threads, each
from sparsemean.studies.settings import Setting

Single = npt.NDArray[np.float32]
BIAS = -2.0
"""Of the paper's attack, added to every entry of a corrupted row."""
AT_ONCE = 1_000_000


def draw(setting: Setting, seed: int) -> Bunch:
    """Return Student t rows about the mean, the last of them moved by −2 in every feature, as float32.

    The same law as `simulate.make_contaminated`, which works in double precision and would need three times the memory.
    """
    n, d = setting.n, setting.d
    X = np.empty((n, d), dtype=np.float32)
    blocks = np.array_split(X, min(n, -(-n * d // AT_ONCE)))
    seeds = np.random.SeedSequence(seed).spawn(len(blocks))

    def fill(task: tuple[Single, np.random.SeedSequence]) -> None:
        block, rng = task[0], np.random.default_rng(task[1])
        rng.standard_normal(dtype=np.float32, out=block)
        chi2 = rng.standard_gamma(setting.shape / 2, size=block.shape, dtype=np.float32)
        block /= np.sqrt(chi2 * np.float32(2 / setting.shape))

    for _ in each(fill, list(zip(blocks, seeds, strict=True)), count_threads(None)):
        pass
    X[:, : len(setting.mean)] += np.array(setting.mean, dtype=np.float32)
    corrupted = np.arange(n - round(n * setting.contamination), n)
    X[corrupted] += np.float32(BIAS)
    truth = np.zeros(d)
    truth[: len(setting.mean)] = setting.mean
    return Bunch(X=X, mean=truth, support=np.arange(len(setting.mean)), corrupted=corrupted)
