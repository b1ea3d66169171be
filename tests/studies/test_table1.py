"""The lower bound is the paper's, rates are read off trials as stated, and the table names what it lacks."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sparsemean import studies
from sparsemean.studies.figures import Options, lower_bound, table1
from sparsemean.studies.figures.lower_bound import Worlds, affordable_weight
from sparsemean.studies.methods import find_attack


def third_moment(worlds: Worlds) -> float:
    """Return E|X − μ|³ of the first coordinate under P₂ without common noise; at most σ³/√ε."""
    w = worlds.weight
    return worlds.jump**3 * ((1 - w) * w**3 + w * (1 - w) ** 3)


def total_variation(worlds: Worlds) -> float:
    """Return the total variation between P₁ and P₂: the share of rows that an adversary must change."""
    spread = math.sqrt(worlds.noise) * worlds.sigma
    return worlds.weight * (math.erf(worlds.jump / (2 * math.sqrt(2) * spread)) if spread else 1.0)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_the_two_laws_have_the_stated_moments(epsilon: float, sigma: float) -> None:
    worlds = Worlds(epsilon, sigma)
    points, masses = np.array([0.0, worlds.jump]), np.array([1 - epsilon, epsilon])
    mean = masses @ points
    assert worlds.means == pytest.approx((0.0, mean))
    assert mean == pytest.approx(sigma * math.sqrt(epsilon))
    assert worlds.variances == pytest.approx((0.0, masses @ (points - mean) ** 2))
    assert max(worlds.variances) <= sigma**2
    assert third_moment(worlds) == pytest.approx(masses @ np.abs(points - mean) ** 3)
    assert third_moment(worlds) <= sigma**3 / math.sqrt(epsilon)
    assert total_variation(worlds) == pytest.approx(epsilon)


def test_common_noise_keeps_means_variance_and_budget() -> None:
    from scipy.integrate import quad
    from scipy.stats import norm

    worlds = Worlds(0.1, 2.0, noise=0.5)
    first, second, jumped = worlds.draw(200_000, 2, np.random.default_rng(0))
    for X, mean, variance in zip((first, second), worlds.means, worlds.variances, strict=True):
        assert X[:, 0].mean() == pytest.approx(mean, abs=0.02)
        assert X[:, 0].var() == pytest.approx(variance, rel=0.02)
        assert X[:, 1].mean() == pytest.approx(0, abs=0.02)
    np.testing.assert_array_equal(np.flatnonzero((first != second).any(axis=1)), jumped)
    scale = math.sqrt(worlds.variances[0])
    half = quad(lambda x: abs(norm.pdf(x, 0, scale) - norm.pdf(x, worlds.jump, scale)), -20, 30, limit=200)[0] / 2
    assert total_variation(worlds) == pytest.approx(worlds.weight * half, rel=1e-6)
    assert total_variation(worlds) <= worlds.weight


def test_the_adversary_can_afford_the_jumps() -> None:
    from scipy.stats import binom

    for n, epsilon in ((200, 0.1), (20_000, 0.01)):
        weight = affordable_weight(n, epsilon)
        assert binom.cdf(math.ceil(epsilon * n), n, weight) == pytest.approx(0.99)
        assert weight < epsilon
        assert 0.4 < binom.sf(math.ceil(epsilon * n), n, epsilon) < 0.5


def test_every_estimator_errs_in_one_of_the_worlds() -> None:
    names = ("default", "stage_1", "full_GD", "full_filter", "sparse_GD", "sparse_filter", "median_of_means", "mean")
    for noise in (0.0, 0.5):
        table = lower_bound.simulate((0.05, 0.2), names, n=600, d=8, trials=3, noise=noise, seed=1)
        assert len(table) == 2 * 3 * 2 * len(names)
        assert (table.worst >= table.gap / 2 * (1 - 1e-12)).all()
        assert (table.worst == table[["error_1", "error_2"]].max(axis=1)).all()
        assert table.within_budget.mean() >= 0.8
    summary = lower_bound.summary(table)
    assert (summary.worst_over_root >= summary.bound_over_root).all()


def test_shifts_grow_as_the_contamination_falls() -> None:
    X, mean, rng = np.zeros((400, 5)), np.array([2.0, 0, 3.0, 0, 0]), np.random.default_rng(0)
    for count in (4, 100):
        all_of, one = (find_attack(name) for name in ("root_shift", "root_shift_one"))
        assert callable(all_of)
        assert callable(one)
        strength = math.sqrt(400 / count)
        np.testing.assert_allclose(all_of(X, mean, rng, np.arange(count)), [[-strength, 0, -strength, 0, 0]] * count)
        np.testing.assert_allclose(one(X, mean, rng, np.arange(count)), [[-strength, 0, 0, 0, 0]] * count)
    assert find_attack("constant_bias") == "constant_bias"


def test_rates_are_read_off_trials() -> None:
    import pandas as pd

    rows = [
        {"estimator": "a", "x": n, "attack": attack, "error": scale * (0.1 + 10 / n) * wobble, "seconds": wobble}
        for n in (100, 200, 400, 100_000)
        for attack, scale in (("weak", 0.5), ("strong", 1.0))
        for wobble in (0.5, 1.0, 2.0)
    ]
    trials = pd.DataFrame(rows)
    np.testing.assert_allclose(table1.worst_errors(trials).value, [0.2, 0.15, 0.125, 0.1001])
    np.testing.assert_allclose(table1.best_seconds(trials).value, 0.5)
    assert table1.enough_rows(trials) == {"a": 100}
    assert np.isnan(table1.enough_rows(trials, of_zero=0.2)["a"])
    trials.loc[trials.x == 200, "error"] *= 2
    assert table1.enough_rows(trials) == {"a": 400}


def small_sweeps(_quick: bool, _trials: int | None, seed: int) -> dict[str, studies.Sweep]:
    base = studies.Sweep("n", (200, 400), table1.NOISE, ("stage_1", "full_filter"), n=200, d=10, trials=2, seed=seed)
    many = replace(base, over="contamination", grid=(0.05, 0.2), attacks=table1.ATTACKS)
    found = {"error/ε": many, "floor": replace(many, estimators=("stage_1", "median_of_means"))}
    found |= {"error/k": replace(base, over="k", grid=(2, 4)), "n": base}
    found |= {"d": replace(base, over="d", grid=(1000, 2000)), "wide": replace(base, over="d", grid=(3000,))}
    return found | {f"rows/k/{k}": replace(base, mean=(2.0,) * k) for k in (2, 4)}


def test_it_is_made_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table1, "sweeps", small_sweeps)
    monkeypatch.setattr(table1, "BOUND_ESTIMATORS", ("default", "stage_1", "mean"))
    told: list[tuple[int, int]] = []
    options = Options(tmp_path, quick=True, n_jobs=1, progress=lambda done, total: told.append((done, total)))
    outcome = table1.make(options)
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    lines = outcome.table.set_index("row")
    for row in table1.ABSENT:
        assert lines.loc[row, "remark"].startswith("n/a: ")
    assert lines.loc["Ours (Stage 1)", "error in ε"].endswith("[0.5]")
    assert "every trial every estimator erred" in " ".join(outcome.notes)
    told.clear()
    monkeypatch.setattr(table1, "draw", lambda *_: None)
    again = table1.make(options)
    assert told == []
    assert again.table.equals(outcome.table)
    assert {path.name for path in tmp_path.iterdir()} == {
        "table1.csv", "table1-points.csv", "table1-lower-bound.csv", "table1.png", "trials",
    }  # fmt: skip


@pytest.mark.parametrize("quick", [True, False])
def test_all_that_is_run_is_known(quick: bool) -> None:
    for sweep in table1.sweeps(quick, None, 0).values():
        assert set(sweep.estimators) <= set(studies.methods())
        assert all(0 < setting.contamination < 0.5 for _, setting in sweep.points())
