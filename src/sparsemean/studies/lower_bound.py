"""The paper's lower bound as a simulation: two laws that an adversary makes look alike, with means σ√ε apart.

P₁ is the point mass at zero, P₂ = (1 − ε)P₁ + εQ with Q the point mass at σ/√ε on one coordinate. Rows of P₂ from which
the adversary took the jumps are rows of P₁; rows of P₁ into which it put jumps are rows of P₂. Whatever an estimator
answers, it errs by half the distance of the means in one of the two worlds. Common noise may be added to both.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparsemean.baselines import BaselineWarning
from sparsemean.bunch import Bunch
from sparsemean.records import FloatArray, IntArray
from sparsemean.studies.methods import find
from sparsemean.studies.settings import Setting

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Worlds:
    """The two laws; ``noise`` is the share of the variance that is Gaussian and common to both (0: the paper's)."""

    weight: float
    sigma: float = 1.0
    noise: float = 0.0

    @property
    def jump(self) -> float:
        """How far Q lies from zero."""
        return self.sigma * math.sqrt((1 - self.noise) / self.weight)

    @property
    def means(self) -> tuple[float, float]:
        """Means of the first coordinate under P₁ and P₂; those of all others are zero."""
        return 0.0, self.weight * self.jump

    @property
    def variances(self) -> tuple[float, float]:
        """Variances of the first coordinate; at most σ²."""
        common = self.noise * self.sigma**2
        return common, common + self.weight * (1 - self.weight) * self.jump**2

    @property
    def third_moment(self) -> float:
        """E|X − μ|³ of the first coordinate under P₂ without common noise; at most σ³/√ε."""
        w = self.weight
        return self.jump**3 * ((1 - w) * w**3 + w * (1 - w) ** 3)

    @property
    def total_variation(self) -> float:
        """Total variation between P₁ and P₂: the share of rows that an adversary must change."""
        spread = math.sqrt(self.noise) * self.sigma
        return self.weight * (math.erf(self.jump / (2 * math.sqrt(2) * spread)) if spread else 1.0)

    def draw(self, n: int, d: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return rows of P₁ and rows of P₂ that differ in as few rows as possible, and which these are."""
        first = math.sqrt(self.noise) * self.sigma * rng.standard_normal((n, d))
        jumped = np.flatnonzero(rng.random(n) < self.weight)
        second = first.copy()
        second[jumped, 0] += self.jump
        return first, second, jumped


def affordable_weight(n: int, contamination: float, share: float = 0.99) -> float:
    """Return the largest weight of Q at which the jumps of n rows are within the budget ⌈εn⌉ in this share of draws.

    At weight ε itself the number of jumps is Binomial(n, ε), above the budget in almost half of all draws.
    """
    from scipy.special import bdtri

    return float(bdtri(math.ceil(contamination * n - 1e-9), n, share))


def simulate(
    grid: tuple[float, ...], estimators: tuple[str, ...], *, n: int, d: int, trials: int, noise: float, seed: int
) -> pd.DataFrame:
    """Show every estimator both worlds as the adversary makes them look, and return its errors in each.

    Columns: contamination, weight, noise, trial, within_budget, looks_like, estimator, error_1 and error_2 (l2, in the
    world of P₁ and of P₂), worst, gap (distance of the means).
    """
    import pandas as pd

    rows = []
    for contamination in grid:
        worlds = Worlds(affordable_weight(n, contamination), noise=noise)
        setting = Setting("lower bound", 0.0, "lower bound", n, d, (worlds.means[1],), contamination, 1)
        for trial, state in enumerate(np.random.SeedSequence([seed, round(1e6 * contamination)]).spawn(trials)):
            seen = worlds.draw(n, d, np.random.default_rng(state))
            told = {
                "contamination": contamination, "weight": worlds.weight, "noise": noise, "trial": trial,
                "within_budget": seen[2].size <= math.ceil(contamination * n - 1e-9), "gap": worlds.means[1],
            }  # fmt: skip
            for view, X in zip(("P1", "P2"), seen[:2], strict=True):
                for name in estimators:
                    errors = _errors(name, X, setting, worlds, trial)
                    rows.append({**told, "looks_like": view, "estimator": name, **errors})
    return pd.DataFrame(rows)


def _errors(name: str, X: FloatArray, setting: Setting, worlds: Worlds, seed: int) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BaselineWarning)
        answer = find(name)(Bunch(X=X), setting, seed)
    off = float(answer[1:] @ answer[1:])
    first, second = (math.sqrt((answer[0] - mean) ** 2 + off) for mean in worlds.means)
    return {"error_1": first, "error_2": second, "worst": max(first, second)}


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return, for each contamination, noise and estimator, the larger of its median worst errors over both looks."""
    keys = ["noise", "contamination", "estimator"]
    medians = table.groupby([*keys, "looks_like"], sort=False)[["worst", "gap"]].median().reset_index()
    worst = medians.groupby(keys, sort=False)[["worst", "gap"]].max().reset_index()
    worst["worst_over_root"] = worst.worst / np.sqrt(worst.contamination)
    worst["bound_over_root"] = worst.gap / 2 / np.sqrt(worst.contamination)
    return worst
