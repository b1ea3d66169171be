"""The paper presets against the paper's own numbers.

Means and standard deviations over trials as plotted by Ma, Chen, He, Fattahi and Hu, "Sparse Mean Estimation in
Adversarial Settings via Incremental Learning": stage 1 in the appendix figure on infinite variance (10 trials; n = 600,
d = 100, ε = 0.1, means 10, −5, −4, 2) and Fig 2a (50 trials; ten means of 2, success rate |I ∩ S|/|I ∪ S|).

z compares two means with their standard errors. A cell fails by chance with |z| > 4 less than once in 10⁴ under the
normal law, a few times that with the published 10 trials: about 0.5 % for the twelve cells together, at fixed seeds.

The full methods are held to |z| ≤ 3: full_GD is dense_gd in the figures on infinite variance and sensitivity (ten means
of ±2), sparse_gd in the one on ε (shape 2.1); full_filter is sparse_filter, on bucket means in Fig 2c (50 trials, Fisk
and Pareto: its t panel has other settings). From shape 2.4 up, with means far from zero, the published full_GD errs by
about 0.04 more than the descent as described: moves were judged about the mean before the move (`descent_as_run`), and
so run the published errors come out. With means of ±2 it makes no difference.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import pytest

from sparsemean import SparseMean, simulate, sparse_mean
from sparsemean._stats.planning import PRESET
from sparsemean.studies import published
from sparsemean.studies.methods import descent_as_run

from conftest import Claims
from published import z_score

Cell: TypeAlias = tuple[Any, str, tuple[float, ...], str, float, float, float, int]
"""Refinement, what it runs on, means, noise and its shape; published mean, standard deviation and trials."""
STAGE_1 = [
    ("fisk", 1.3, 0.432057, 0.087097),
    ("fisk", 2.0, 0.374021, 0.069838),
    ("fisk", 3.1, 0.377614, 0.055111),
    ("pareto", 1.3, 1.218448, 0.859243),
    ("pareto", 2.0, 0.352857, 0.093531),
    ("pareto", 3.1, 0.309652, 0.107748),
    ("t", 1.3, 0.317635, 0.097706),
    ("t", 2.0, 0.377643, 0.056428),
    ("t", 3.1, 0.341454, 0.093563),
]
DEFAULT, SENSITIVITY = (10.0, -5.0, -4.0, 2.0), (2.0,) * 5 + (-2.0,) * 5
FULL = [
    ("gd", "rows", DEFAULT, "pareto", 3.1, 0.264739, 0.066723, 10),
    ("gd", "rows", DEFAULT, "t", 3.1, 0.245157, 0.085658, 10),
    ("gd", "rows", DEFAULT, "fisk", 2.0, 0.322214, 0.056568, 10),
    ("gd", "rows", DEFAULT, "pareto", 2.0, 0.336280, 0.099167, 10),
    ("gd", "rows", DEFAULT, "t", 2.0, 0.307984, 0.048643, 10),
    ("gd", "rows", SENSITIVITY, "fisk", 3.1, 0.243340, 0.079150, 10),
    ("gd", "rows", SENSITIVITY, "pareto", 3.1, 0.275627, 0.027766, 10),
    ("gd", "rows", SENSITIVITY, "t", 3.1, 0.281774, 0.052696, 10),
    ("sparse_gd", "rows", DEFAULT, "fisk", 2.1, 0.343862, 0.052840, 10),
    ("sparse_gd", "rows", DEFAULT, "pareto", 2.1, 0.355783, 0.115834, 10),
    ("sparse_gd", "rows", DEFAULT, "t", 2.1, 0.322253, 0.104082, 10),
    ("filter", "rows", DEFAULT, "fisk", 3.1, 0.375166, 0.076430, 10),
    ("filter", "rows", DEFAULT, "pareto", 3.1, 0.313782, 0.042889, 10),
    ("filter", "rows", DEFAULT, "t", 3.1, 0.302299, 0.107625, 10),
    ("filter", "buckets", DEFAULT, "fisk", 2.0, 0.412657, 0.082401, 50),
    ("filter", "buckets", DEFAULT, "pareto", 2.0, 0.410746, 0.081066, 50),
]
SUCCESS = [("fisk", 0.4, 0.869921, 0.089959), ("pareto", 0.3, 0.968, 0.058693), ("t", 0.4, 0.814341, 0.119337)]


@pytest.mark.parametrize(("distribution", "shape", "mean", "std"), STAGE_1)
def test_stage_1_error(
    distribution: str, shape: float, mean: float, std: float, long_version: bool, claims: Claims
) -> None:
    trials = 500 if long_version else 40
    errors = np.empty(trials)
    for seed in range(trials):
        data = simulate.make_contaminated(
            600, 100, [10, -5, -4, 2], distribution=distribution, shape=shape, random_state=seed
        )
        errors[seed] = np.linalg.norm(
            sparse_mean(data.X, contamination=0.1, random_state=seed, **PRESET).mean - data.mean
        )
    z = z_score(errors, mean, std, 10)
    assert abs(z) <= 4
    if long_version:
        measured = f"{errors.mean():.3f} against {mean:.3f}, z = {z:+.1f}"
        claims.add(f"stage 1 error as published, {distribution} {shape}", measured, "\\|z\\| ≤ 4", f"0–{trials - 1}")


def full_z(cell: Cell, runs: int, first: int = 0) -> tuple[float, float]:
    """Mean error of a full method over ``runs`` seeds from the ``first``, and z against the published one."""
    refine, refine_on, means, distribution, shape, mean, std, trials = cell
    errors = np.empty(runs)
    for run, seed in enumerate(range(first, first + runs)):
        data = simulate.make_contaminated(600, 100, means, distribution=distribution, shape=shape, random_state=seed)
        estimator = SparseMean.paper(0.1, refine, refine_on, random_state=seed)
        errors[run] = np.linalg.norm(estimator.fit(data.X).mean_ - data.mean)
    return float(errors.mean()), z_score(errors, mean, std, trials)


@pytest.mark.parametrize("cell", FULL, ids=lambda cell: f"{cell[0]}-{cell[1]}-{len(cell[2])}-{cell[3]}-{cell[4]}")
def test_full_methods(cell: Cell, long_version: bool, claims: Claims) -> None:
    runs = 50 if long_version else 15
    error, z = full_z(cell, runs)
    if long_version:
        name = f"full method as published, {cell[0]} on {cell[1]}, k = {len(cell[2])}, {cell[3]} {cell[4]}"
        claims.add(name, f"{error:.3f} against {cell[5]:.3f}, z = {z:+.1f}", "\\|z\\| ≤ 3", f"0–{runs - 1}")
    assert abs(z) <= 3


@pytest.mark.parametrize(("distribution", "named"), [("fisk", "Fisk"), ("pareto", "Pareto"), ("t", "Student-t")])
def test_full_gd_as_it_was_run(distribution: str, named: str, long_version: bool, claims: Claims) -> None:
    """The sum of z over m shapes, each with seeds of its own, is judged over √m; the short version has shape 3.1 only.

    About standard normal where nothing differs: |z| > 3 in some 1 % of all cases for the three noises together.
    """
    runs = 50 if long_version else 15
    table = published.read("app_infinite_variance").query("estimator == 'full_GD' and distribution == @named")
    table = table[table["x"].ge(2.4) if long_version else table["x"].eq(3.1)]
    points = list(zip(table["x"], table["mean"], table["std"], strict=True))
    measured = []
    for how, refine in (("as described", "gd"), ("as run", descent_as_run))[0 if long_version else 1 :]:
        cells = [(refine, "rows", DEFAULT, distribution, *point, 10) for point in points]
        found = [full_z(cell, runs, runs * number) for number, cell in enumerate(cells)]
        z = sum(z for _, z in found) / math.sqrt(len(found))
        gap = np.mean([error for error, _ in found]) - table["mean"].mean()
        measured.append(f"{how} {gap:+.3f}, z = {z:+.1f}")
    if long_version:
        name = f"full_GD less the published error, {distribution} 2.4–3.4"
        claims.add(name, "; ".join(measured), "as run \\|z\\| ≤ 3", f"0–{runs * len(points) - 1}")
    assert abs(z) <= 3


@pytest.mark.parametrize(("distribution", "epsilon", "mean", "std"), SUCCESS)
def test_success_rate(
    distribution: str, epsilon: float, mean: float, std: float, long_version: bool, claims: Claims
) -> None:
    trials = 500 if long_version else 50
    rates = np.empty(trials)
    for seed in range(trials):
        data = simulate.make_contaminated(
            600, 100, [2.0] * 10, distribution=distribution, contamination=epsilon, random_state=seed
        )
        found = set(
            sparse_mean(data.X, contamination=epsilon, random_state=seed, **{**PRESET, "min_selected": 0}).support
        )
        rates[seed] = len(found & set(data.support)) / len(found | set(data.support))
    z = z_score(rates, mean, std, 50)
    assert abs(z) <= 4
    if long_version:
        measured = f"{rates.mean():.3f} against {mean:.3f}, z = {z:+.1f}"
        claims.add(
            f"success rate as published, {distribution}, ε = {epsilon}", measured, "\\|z\\| ≤ 4", f"0–{trials - 1}"
        )
