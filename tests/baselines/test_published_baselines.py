"""The sparse descent and the filter against the paper's own numbers.

Means and standard deviations over 10 trials of sparse_GD and sparse_filter as plotted by Ma, Chen, He, Fattahi and Hu,
"Sparse Mean Estimation in Adversarial Settings via Incremental Learning", in the appendix figure on infinite variance:
n = 600, d = 100, ε = 0.1, means 10, −5, −4, 2, a bias of −2 added to corrupted rows. There sparse_GD runs on the rows
and sparse_filter on bucket means, with the share ⌈εn⌉/J of corrupted buckets.

z compares two means with their standard errors. A cell fails by chance with |z| > 3 in 0.3 % of all cases under the
normal law, in about 1 % with the published 10 trials: one of the fifteen in about 15 %, but seeds are fixed. The shapes
are those at which Stage 1 is compared. Over 20 shapes from 1.1 to 3.4 three of 60 cells of sparse_gd are past 3
(Pareto 1.5 and 1.8, t 3.3, with z of 3.3, 3.1 and 4.2) and none of sparse_filter. Student's t at 1.3 is left out for
the filter: all ten published trials lost every row, and one of our fifty did not.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from sparsemean import baselines, simulate
from sparsemean._stats.planning import paper_buckets
from sparsemean.baselines import BaselineWarning

from conftest import Claims
from published import z_score

MEAN = [10, -5, -4, 2]
SPARSE_GD = [
    ("fisk", 1.3, 2.184476, 1.164394),
    ("pareto", 1.3, 1.866466, 0.811823),
    ("t", 1.3, 1.645211, 1.796263),
    ("fisk", 2.0, 0.382655, 0.071343),
    ("fisk", 3.1, 0.227960, 0.057115),
    ("pareto", 2.0, 0.418850, 0.079454),
    ("pareto", 3.1, 0.203977, 0.063066),
    ("t", 2.0, 0.418356, 0.085812),
    ("t", 3.1, 0.263592, 0.075842),
]
SPARSE_FILTER = [
    ("fisk", 2.0, 0.517857, 0.194011),
    ("fisk", 3.1, 0.416684, 0.049228),
    ("pareto", 2.0, 0.573620, 0.207046),
    ("pareto", 3.1, 0.373332, 0.089136),
    ("t", 2.0, 0.560169, 0.202631),
    ("t", 3.1, 0.379312, 0.088792),
]
PLATEAU = [("fisk", 1.3), ("pareto", 1.3)]
"""Where every published trial lost every row: the error is that of the zero vector, √145 = 12.04."""


def rows_of(distribution: str, shape: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    data = simulate.make_contaminated(600, 100, MEAN, distribution=distribution, shape=shape, random_state=seed)
    return data.X, data.mean


def buckets_of(X: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Means of random buckets, and the share of them that 10 % of the rows can spoil."""
    n = X.shape[0]
    count = paper_buckets(n, 0.1)
    order = np.random.default_rng(seed).permutation(n)
    return np.array([X[rows].mean(axis=0) for rows in np.array_split(order, count)]), math.ceil(0.1 * n) / count


@pytest.mark.parametrize(("distribution", "shape", "mean", "std"), SPARSE_GD)
def test_sparse_gd(
    distribution: str, shape: float, mean: float, std: float, long_version: bool, claims: Claims
) -> None:
    trials = 500 if long_version else 50
    errors = np.empty(trials)
    for seed in range(trials):
        X, truth = rows_of(distribution, shape, seed)
        errors[seed] = np.linalg.norm(baselines.get("sparse_gd")(X, contamination=0.1, k=4) - truth)
    z = z_score(errors, mean, std)
    assert abs(z) <= 3
    if long_version:
        measured = f"{errors.mean():.3f} against {mean:.3f}, z = {z:+.1f}"
        claims.add(f"sparse_gd error as published, {distribution} {shape}", measured, "\\|z\\| ≤ 3", f"0–{trials - 1}")


@pytest.mark.filterwarnings(f"ignore::{BaselineWarning.__module__}.{BaselineWarning.__name__}")
@pytest.mark.parametrize(("distribution", "shape", "mean", "std"), SPARSE_FILTER)
def test_sparse_filter(
    distribution: str, shape: float, mean: float, std: float, long_version: bool, claims: Claims
) -> None:
    trials = 500 if long_version else 50
    errors = np.empty(trials)
    for seed in range(trials):
        X, truth = rows_of(distribution, shape, seed)
        means, share = buckets_of(X, 1000 + seed)
        errors[seed] = np.linalg.norm(baselines.get("sparse_filter")(means, contamination=share, k=4) - truth)
    z = z_score(errors, mean, std)
    assert abs(z) <= 3
    if long_version:
        measured = f"{errors.mean():.3f} against {mean:.3f}, z = {z:+.1f}"
        claims.add(
            f"sparse_filter error as published, {distribution} {shape}", measured, "\\|z\\| ≤ 3", f"0–{trials - 1}"
        )


@pytest.mark.parametrize(("distribution", "shape"), PLATEAU)
def test_sparse_filter_loses_every_row_of_infinite_variance(distribution: str, shape: float) -> None:
    for seed in range(10):
        X, truth = rows_of(distribution, shape, seed)
        means, share = buckets_of(X, 1000 + seed)
        with pytest.warns(BaselineWarning, match="were removed"):
            mean = baselines.get("sparse_filter")(means, contamination=share, k=4)
        assert np.linalg.norm(mean - truth) == pytest.approx(math.sqrt(145))
