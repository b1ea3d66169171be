"""Errors of the default estimator beside those of the published methods, on the same data.

n = 600, d = 100, ε = 0.1, means 10, −5, −4, 2, as in the experiments of Ma, Chen, He, Fattahi and Hu. Their full_GD is
dense_gd on the rows of Stage 1's support, full_filter sparse_filter there; sparse_GD and sparse_filter (on bucket
means) see all columns and are told k.

On t noise of shape 3.1 the bar of 0.10 is the best that can be done: maximum likelihood told the noise and which 540
rows are clean has an expected error of 0.099, and on a given set of seeds it may be above the bar. So there the default
is asked to meet the bar or to be as good as that.

The short version takes 2 runs of one noise for each attack and only asks for what holds with a wide margin: the
geometric mean over a row of cells varies by about 5 % between seeds. The long version takes 50 runs of all five, and
the bars themselves.
"""

from __future__ import annotations

import math
import warnings
from functools import cache, partial

import numpy as np
import pytest
from specification import student_t

from sparsemean import SparseMean, baselines, simulate, sparse_mean
from sparsemean._kernels.columns import bucket_means
from sparsemean._stats.buckets import assign_paper_buckets
from sparsemean._stats.planning import PRESET, paper_buckets
from sparsemean._util.checks import Bunch

from conftest import Claims

MEANS = [10, -5, -4, 2]
NOISES = [("t", 3.1), ("t", 1.3), ("fisk", 2.0), ("pareto", 3.1), ("pareto", 1.3)]
DEFAULT_BARS = {
    ("fisk", 3.1): 0.14, ("pareto", 3.1): 0.17, ("t", 3.1): 0.10,
    ("fisk", 2.0): 0.16, ("pareto", 2.0): 0.21, ("t", 2.0): 0.13,
    ("fisk", 1.3): 0.20, ("pareto", 1.3): 0.30, ("t", 1.3): 0.14,
}  # fmt: skip
MISSED = ("pareto", 2.0)
"""Where the mean of 2 is lost: by the paper's rule, at ε = 0.3, in half of the runs, as by both that are compared; by
the certified one, at ε = 0.2, in one run of eight."""
PUBLISHED = ("stage_1", "full_GD", "full_filter", "sparse_GD", "sparse_filter")


def published(X: np.ndarray, seed: int, epsilon: float) -> dict[str, np.ndarray]:
    """Estimates of the paper's methods; the last two are told that four means are not zero."""
    made = {
        name: SparseMean.paper(epsilon, refine=refine, random_state=seed).fit(X).mean_
        for name, refine in (("stage_1", None), ("full_GD", "gd"), ("full_filter", "filter"))
    }
    made["sparse_GD"] = baselines.sparse_gd(X, contamination=epsilon, k=len(MEANS))
    n, J = X.shape[0], paper_buckets(X.shape[0], epsilon)
    buckets = bucket_means(X, assign_paper_buckets(n, J, seed))
    made["sparse_filter"] = baselines.sparse_filter(buckets, contamination=math.ceil(epsilon * n) / J, k=len(MEANS))
    return made


@cache
def cell(distribution: str, shape: float, attack: str, epsilon: float, runs: int) -> dict[str, float]:
    """Mean errors of all methods over some runs, and the share of runs in which the default's support is exact."""
    errors: dict[str, list[float]] = {name: [] for name in ("default", *PUBLISHED, "exact")}
    for seed in range(runs):
        adversary = partial(simulate.attacks.get("adaptive"), seed=seed) if attack == "adaptive" else attack
        data = simulate.make_contaminated(
            600, 100, MEANS, distribution=distribution, shape=shape, contamination=epsilon, attack=adversary,
            random_state=seed,
        )  # fmt: skip
        ours = sparse_mean(data.X, contamination=epsilon, random_state=seed)
        errors["default"].append(float(np.linalg.norm(ours.mean - data.mean)))
        errors["exact"].append(float(np.array_equal(ours.support, data.support)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", baselines.BaselineWarning)  # filters that remove every row say so
            for name, estimate in published(data.X, seed, epsilon).items():
                errors[name].append(float(np.linalg.norm(estimate - data.mean)))
    return {name: float(np.mean(values)) for name, values in errors.items()}


def noises_for(attack: str, long_version: bool) -> list[tuple[str, float]]:
    """All noises, or one of them that goes round with the attacks."""
    first = simulate.attacks.available().index(attack)
    return NOISES if long_version else [NOISES[2 * first % len(NOISES)]]


def ratio(measured: dict[str, float]) -> float:
    return measured["default"] / min(measured[name] for name in PUBLISHED)


@pytest.mark.parametrize(("noise", "bar"), DEFAULT_BARS.items(), ids=str)
def test_default_error(noise: tuple[str, float], bar: float, long_version: bool, claims: Claims) -> None:
    runs, judged = (200, 50) if long_version else (4, 4)
    errors, likelihood = np.empty(runs), np.empty(runs)
    for seed in range(runs):
        data = simulate.make_contaminated(600, 100, MEANS, distribution=noise[0], shape=noise[1], random_state=seed)
        errors[seed] = np.linalg.norm(sparse_mean(data.X, contamination=0.1, random_state=seed).mean - data.mean)
        likelihood[seed] = told_everything(data, noise[1]) if noise[0] == "t" else 0.0
    if long_version:
        spread = errors.std(ddof=1) / math.sqrt(runs)
        measured = f"{errors[:judged].mean():.4f}; with {runs} runs {errors.mean():.4f} ± {spread:.4f}"
        if noise[0] == "t":
            told = f"{likelihood[:judged].mean():.4f} and {likelihood.mean():.4f}"
            measured += f"; maximum likelihood told noise and clean rows {told}"
        claims.add(f"default error, constant bias, {noise[0]} {noise[1]}", measured, f"≤ {bar:.2f}", f"0–{judged - 1}")
    slack = 0 if long_version else 3 * errors.std(ddof=1) / math.sqrt(runs)
    assert errors[:judged].mean() <= max(bar, likelihood[:judged].mean()) + slack


def told_everything(data: Bunch, dof: float) -> float:
    """Error of maximum likelihood that is told the support, the noise and which rows are clean."""
    clean = np.delete(data.X[:, data.support], data.corrupted, axis=0)
    truth = data.mean[data.support]
    found = [student_t(x, dof=dof, start=m, scale=1.0).value for x, m in zip(clean.T, truth, strict=True)]
    return float(np.linalg.norm(found - truth))


@pytest.mark.parametrize("attack", simulate.attacks.available())
def test_against_the_published_methods(attack: str, long_version: bool, claims: Claims) -> None:
    runs = 50 if long_version else 2
    cells = {noise: cell(*noise, attack, 0.1, runs) for noise in noises_for(attack, long_version)}
    ratios = {noise: ratio(measured) for noise, measured in cells.items()}
    exact = float(np.mean([measured["exact"] for measured in cells.values()]))
    if long_version:
        shown = ", ".join(f"{d} {s}: {value:.2f}" for (d, s), value in ratios.items())
        claims.add(f"error over the best of five published methods, {attack}", shown, "≤ 1.15 each", f"0–{runs - 1}")
        claims.add(f"support exact, {attack}", f"{exact:.1%}", "≥ 98 % over all attacks", f"0–{runs - 1}")
    assert max(ratios.values()) <= (1.15 if long_version else 1.6)
    assert exact >= 0.9


def test_geometric_mean_over_all_attacks(long_version: bool, claims: Claims) -> None:
    if not long_version:
        pytest.skip("each attack by itself, in the short version")
    attacks = simulate.attacks.available()
    cells = [cell(*noise, attack, 0.1, 50) for attack in attacks for noise in NOISES]
    geometric = float(np.exp(np.mean([math.log(ratio(measured)) for measured in cells])))
    exact = float(np.mean([measured["exact"] for measured in cells]))
    bar = f"≤ 0.50 over {len(cells)} cells"
    claims.add("error over the best of five published methods, geometric mean", f"{geometric:.2f}", bar, "0–49")
    claims.add("support exact over all attacks", f"{exact:.2%}", "≥ 98 %", "0–49")
    assert geometric <= 0.5
    assert exact >= 0.98


@pytest.mark.parametrize(
    "noise", [("fisk", 2.0), ("pareto", 2.0), ("t", 2.0), ("fisk", 3.1), ("pareto", 3.1), ("t", 3.1)]
)
def test_strong_contamination(noise: tuple[str, float], long_version: bool, claims: Claims) -> None:
    runs = 50 if long_version else 2
    measured = cell(*noise, "constant_bias", 0.2, runs)
    fifth = measured["default"] / measured["full_GD"]
    third, silent = _third(noise, runs)
    if long_version:
        name = f"default error over full_GD, constant bias, {noise[0]} {noise[1]}"
        missed = ": missed, as the weakest feature is left out in {}" if noise == MISSED else ""
        claims.add(f"{name}, ε = 0.2", f"{fifth:.2f}{missed.format('some runs')}", "≤ 0.5", f"0–{runs - 1}")
        half = missed.format("half of the runs")
        claims.add(f"{name}, ε = 0.3, selection='paper'", f"{third:.2f}{half}", "≤ 0.5", f"0–{runs - 1}")
        name = f"constant bias, {noise[0]} {noise[1]}, ε = 0.3: means neither certified nor listed apart"
        claims.add(name, f"in {silent} of {runs} fits", "≤ 1 in 4 but Pareto 2", f"0–{runs - 1}")
    assert fifth <= 0.5 or noise == MISSED
    assert third <= 0.5 or noise == MISSED
    assert silent <= runs / 4 or noise == MISSED


def _third(noise: tuple[str, float], runs: int) -> tuple[float, int]:
    """Error at ε = 0.3 with the paper's rule over that of full_GD; how often a mean is neither certified nor told.

    With three tenths of bad rows in this noise screening may see no gap between them and its tails.
    """
    ours, theirs, silent = [], [], 0
    for seed in range(runs):
        data = simulate.make_contaminated(
            600, 100, MEANS, distribution=noise[0], shape=noise[1], contamination=0.3, random_state=seed
        )
        fitted = sparse_mean(data.X, contamination=0.3, selection="paper", random_state=seed)
        ours.append(np.linalg.norm(fitted.mean - data.mean))
        full = sparse_mean(data.X, contamination=0.3, random_state=seed, **{**PRESET, "refine": "gd"})
        theirs.append(np.linalg.norm(full.mean - data.mean))
        certified = sparse_mean(data.X, contamination=0.3, random_state=seed)
        missing = set(data.support) - set(certified.support)
        told = set() if certified.uncertified is None else set(certified.uncertified.features)
        silent += not missing <= told
    return float(np.mean(ours) / np.mean(theirs)), silent
