"""Adversaries for the tests of validity: they replace rows of X in place and may know everything."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate import attacks

FAR = 1e6
KINDS = ("none", "constant bias", "far rows", "adaptive")


def attack(X: np.ndarray, kind: str, m: int, *, seed: int) -> None:
    """Replace ``m`` rows of ``X``."""
    if m == 0 or kind == "none":
        return
    if kind == "constant bias":
        X[-m:] -= 2.0
    elif kind == "far rows":
        X[-m:] = FAR
    else:
        adaptive(X, m, seed=seed)


def adaptive(X: np.ndarray, m: int, *, seed: int) -> None:
    """Spend all rows on the feature nearest to selection, whether or not it has a mean: every feature is fair game."""
    no_mean, rng = np.zeros(X.shape[1]), np.random.default_rng(seed)
    options = {"aim": "false_positive", "seed": seed, "distance": 1e12}
    rows, chosen = attacks.get("adaptive")(X, no_mean, rng, np.arange(m), **options)
    X[chosen] = rows
