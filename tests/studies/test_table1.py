"""The lower bound is the paper's, rates and costs are read off trials, and the table names what it lacks."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sparsemean import baselines, studies
from sparsemean.errors import InputError
from sparsemean.studies import engine
from sparsemean.studies.figures import Options, lower_bound, table1
from sparsemean.studies.figures.lower_bound import Reach, Worlds, affordable_weight, reach
from sparsemean.studies.figures.table1 import Key, Scale
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


def test_the_largest_size_is_read_off_times() -> None:
    cubic = {float(d): 1e-6 * d**3 for d in (10, 20, 50, 100)}
    assert reach(cubic, 0.5) == Reach(pytest.approx(5e5 ** (1 / 3)))
    assert reach(cubic, 600.0) == Reach(pytest.approx(6e8 ** (1 / 3)), "~")
    assert reach(cubic, 600.0, most=500) == Reach(500, "!")
    assert reach(cubic, 1e-9) == Reach(10, "<")
    for limit, most in ((1e12, math.inf), (2.0, 20_000)):
        assert reach(dict.fromkeys((1.0, 20.0, 100.0), 1.0), limit, most=most) == Reach(pytest.approx(10_000), ">")
    late = {1.0: 1.0, 10.0: 1.0, 100.0: 2.0, 1000.0: 20.0}
    assert reach(late, 200.0, least=100).size == pytest.approx(10_000)
    assert [str(Reach(*found)) for found in ((123_456.0, "~"), (84.7,), (24, "!"), (1e12, ">"))] == [
        "~1.2e5", "85", "24!", ">1e12",
    ]  # fmt: skip


def test_the_table_has_what_is_measured_beside_what_is_stated() -> None:
    import pandas as pd

    sizes = (10.0, 20.0, 100.0, 400.0)
    points = {
        ("error", "ε"): pd.DataFrame({"estimator": "sparse_sdp", "x": [0.01, 0.1, 0.2], "value": [0.1, 0.316, 0.447]}),
        ("time", "d"): pd.DataFrame({"estimator": "sparse_sdp", "x": sizes, "value": [1e-6 * d**3 for d in sizes]}),
    }
    cells = {(r["quantity"], r["over"]): r["text"] for r in table1._growth(points)}
    assert cells == {("error exponent", "ε"): "0.50±0.00 [0.5]", ("time exponent", "d"): "3.00±0.00 [poly]"}
    assert table1.stated("stage_1", ("error", "k")) == "0.5"
    assert table1.stated("full_GD", ("error", "k")) == "0"
    assert table1.stated("sparse_sdp", ("rows needed", "k")) == "2"
    assert table1.stated("default", ("error", "k")) == ""
    assert [table1._duration(t) for t in (0.0004, 0.0031, 0.0996, 1.26, 81.4)] == [
        "0.4ms",
        "3ms",
        "0.1s",
        "1.3s",
        "81s",
    ]


def small_sweeps(_quick: bool, trials: int | None, seed: int) -> dict[Key, studies.Sweep]:
    scale = Scale(
        ("stage_1", "full_filter", "sparse_directions"), n=200, d=10, contamination=(0.05, 0.2), k=(2, 4),
        grid_n=(200, 400), grid_d=(10, 20), attacked=(10,), rows=(200, 400), rows_k=(2, 4), trials=1,
    )  # fmt: skip
    floor = replace(scale, estimators=("stage_1", "median_of_means")).sweeps(trials, seed)["growth", "ε"]
    return {**scale.sweeps(trials, seed), ("floor",): floor}


def test_it_is_made_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table1, "sweeps", small_sweeps)
    monkeypatch.setattr(table1, "REFUSED", {"sparse_directions": (400,)})
    monkeypatch.setattr(table1, "NEEDS", {"sparse_sos": "nowhere"})
    monkeypatch.setattr(table1, "BOUND_ESTIMATORS", ("default", "stage_1", "mean"))
    told: list[tuple[int, int]] = []
    options = Options(tmp_path, quick=True, n_jobs=1, progress=lambda done, total: told.append((done, total)))
    outcome = table1.make(options)
    assert [done for done, _ in told] == list(range(1, told[0][1] + 1))
    lines = {line["method"]: line for line in outcome.table.to_dict("records")}
    assert list(lines) == [table1.BOUND, "sparse_directions", "stage_1", "full_filter"]
    assert lines["stage_1"]["exponents of the error in ε"].endswith("[0.5]")
    assert lines["sparse_directions"]["time at d = 400"] == "n/a"
    assert lines["sparse_directions"]["exponents of the time in d"].endswith("[exp]")
    assert "every trial every estimator erred" in " ".join(outcome.notes)
    assert (tmp_path / "table1.txt").read_text(encoding="utf-8") == outcome.text
    assert max(map(len, outcome.text.splitlines())) <= 80
    assert "sparse_sos         not run, for want of nowhere: pip install 'sparsemean[sos]'" in outcome.text
    told.clear()
    monkeypatch.setattr(table1, "draw", lambda *_: None)
    again = table1.make(options)
    assert told == []
    assert again.text == outcome.text
    assert {path.name for path in tmp_path.iterdir()} == {
        "table1.csv", "table1.txt", "table1-points.csv", "table1-lower-bound.csv", "table1.png", "trials",
    }  # fmt: skip


@pytest.mark.parametrize("quick", [True, False])
def test_all_that_is_run_is_known(quick: bool) -> None:
    found = table1.sweeps(quick, None, 0)
    assert {name for sweep in found.values() for name in sweep.estimators} >= set(table1.ROWS) - {*table1.lacking()}
    for sweep in found.values():
        assert set(sweep.estimators) <= set(studies.methods())
        assert all(0 < setting.contamination < 0.5 for _, setting in sweep.points())


def test_what_is_refused_is_told_and_what_is_absent_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    said = table1.refusals()
    assert set(said) == {
        (name, d) for name, sizes in table1.REFUSED.items() for d in sizes if name not in table1.lacking()
    }
    for name in set(table1.MOST) - {*table1.lacking()}:
        with pytest.raises(InputError):
            baselines.get(name)(np.zeros((600, table1.MOST[name] + 1)), contamination=0.1, k=4)
    monkeypatch.setattr(table1, "NEEDS", {"sparse_sos": "nowhere"})
    assert "sparsemean[sos]" in table1.lacking()["sparse_sos"]
    assert all("sparse_sos" not in sweep.estimators for sweep in table1.sweeps(False, None, 0).values())
    assert all(name != "sparse_sos" for name, _ in table1.refusals())


def test_sweeps_run_together_share_what_they_have_in_common(tmp_path: Path) -> None:
    sweep = studies.Sweep("n", (50, 60), table1.NOISE, ("median",), d=5, trials=2)
    more = replace(sweep, grid=(60, 70), estimators=("mean", "median"), trials=1)
    told: list[int] = []
    tables = engine.run_all(
        {"one": sweep, 2: more}, out=tmp_path, n_jobs=1, progress=lambda _, total: told.append(total)
    )
    assert told == [5] * 5  # two at 50, two at 60 of which one has both estimators, one at 70
    for key, alone in (("one", sweep), (2, more)):
        expected = studies.run(alone, n_jobs=1).drop(columns="seconds")
        assert tables[key].drop(columns="seconds").equals(expected)
