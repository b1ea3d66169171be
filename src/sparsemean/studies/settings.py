"""What is run: a sweep is settings, estimators and trials; a setting is everything that data are simulated from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sparsemean.errors import InputError

DEFAULT_MEAN = (10.0, -5.0, -4.0, 2.0)
"""The paper's default; its other figures use k twos."""
Noise = tuple[str, float]


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything that one data set is simulated from but its seed.

    Attributes
    ----------
    distribution : str
        Name of the noise.
    shape : float
        Its tail index, degrees of freedom or log-scale.
    attack : str
        Name of the attack.
    n : int
        Rows.
    d : int
        Features.
    mean : tuple of float
        The mean of the first features; it is zero on the rest.
    contamination : float
        Share of rows that are corrupted.
    told_k : int
        The sparsity that estimators are given, right or wrong.
    """

    distribution: str
    shape: float
    attack: str
    n: int
    d: int
    mean: tuple[float, ...]
    contamination: float
    told_k: int

    def seed(self, study_seed: int, trial: int) -> int:
        """Return the seed of one trial: the same whatever else is run, and by however many workers."""
        text = json.dumps([study_seed, trial, asdict(self)], sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class Sweep:
    """Distributions × attacks × estimators over a grid of one quantity.

    Attributes
    ----------
    over : {"shape", "contamination", "k", "told_k", "n", "d"}
        What varies; "k" is that many means of 2.
    grid : tuple of float
        The values that it takes.
    distributions : tuple of pairs
        Names of distributions, each with a shape.
    estimators : tuple of str
        Names of ``studies.methods()``.
    attacks : tuple of str, default=("constant_bias",)
        Names of ``simulate.attacks.available()``.
    n : int, default=600
        Rows.
    d : int, default=100
        Features.
    mean : tuple of float, default=(10, -5, -4, 2)
        The mean of the first features; it is zero on the rest.
    contamination : float, default=0.1
        Share of rows that are corrupted.
    rows_per_k : int, optional
        With ``over="k"``: n is this many times k at every point, in place of ``n``.
    trials : int, default=10
        Data sets drawn for every point.
    seed : int, default=0
        What the seeds of all trials follow from.
    """

    over: str
    grid: tuple[float, ...]
    distributions: tuple[Noise, ...]
    estimators: tuple[str, ...]
    attacks: tuple[str, ...] = ("constant_bias",)
    n: int = 600
    d: int = 100
    mean: tuple[float, ...] = DEFAULT_MEAN
    contamination: float = 0.1
    rows_per_k: int | None = None
    trials: int = 10
    seed: int = 0

    def points(self) -> Iterator[tuple[float, Setting]]:
        """Yield every value of the grid with each of its settings."""
        for distribution, shape in self.distributions:
            for attack in self.attacks:
                base = Setting(
                    distribution, float(shape), attack, self.n, self.d, tuple(map(float, self.mean)),
                    float(self.contamination), max(1, int(np.count_nonzero(self.mean))),
                )  # fmt: skip
                for x in self.grid:
                    yield float(x), self._sized(_at(base, self.over, float(x)))

    def _sized(self, setting: Setting) -> Setting:
        """Return the setting with as many rows as its sparsity asks for."""
        if self.rows_per_k is None:
            return setting
        if self.over != "k":
            raise InputError("rows_per_k", 'be given with over="k" only', repr(self.over))
        return replace(setting, n=self.rows_per_k * setting.told_k)

    def describe(self) -> dict[str, Any]:
        """Return the configuration as plain data."""
        return asdict(self)


def _at(base: Setting, over: str, x: float) -> Setting:
    """Return the setting in which the varied quantity is ``x``."""
    match over:
        case "shape":
            return replace(base, shape=x)
        case "contamination":
            return replace(base, contamination=x)
        case "k":
            return replace(base, mean=(2.0,) * int(x), told_k=int(x))
        case "told_k":
            return replace(base, told_k=int(x))
        case "n":
            return replace(base, n=int(x))
        case "d":
            return replace(base, d=int(x))
    raise InputError("over", "be one of shape, contamination, k, told_k, n, d", repr(over))
