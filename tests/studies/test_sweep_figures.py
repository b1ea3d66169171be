"""The sweep figures have the settings that the paper's numbers came from, and their published points are all there."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sparsemean.studies import engine, published
from sparsemean.studies.figures import Options
from sparsemean.studies.figures import sweeps as _sweeps
from sparsemean.studies.figures.sweeps import SweepFigure
from sparsemean.studies.methods import Setting, Sweep

COUNTS = {
    "fig1": 336, "fig2a": 27, "fig2b": 180, "fig2c": 177, "app_sensitivity": 504, "app_different_k": 720,
    "app_infinite_variance": 432, "app_different_eps": 720, "runtime": 96,
}  # fmt: skip
NAMES = ["fig2a", "fig2b", "fig2c", "app_sensitivity", "app_different_k", "app_infinite_variance", "app_different_eps"]


def declared(name: str) -> SweepFigure:
    figure = getattr(importlib.import_module("sparsemean.studies.figures.sweeps"), name.upper())
    assert isinstance(figure, SweepFigure)
    assert figure.name == name
    return figure


def test_every_published_point_is_there_and_none_that_is_not_in_the_paper() -> None:
    table = published.read()
    assert table.groupby("figure").size().to_dict() == COUNTS
    assert not table["figure"].str.startswith("extra_").any()
    assert not table["panel"].str.contains("outside").any()
    assert table.loc[table["figure"] == "fig2c", "plotted"].value_counts().to_dict() == {True: 171, False: 6}
    sweeps = table[table["figure"].isin(NAMES)]
    assert sweeps[["mean", "median", "q25", "q75", "std"]].notna().all(axis=None)


def test_a_figure_that_was_not_published_is_named() -> None:
    with pytest.raises(ValueError, match=r"figure must be among app_different_eps, .*: got 'fig9'"):
        published.read("fig9")


@pytest.mark.parametrize("name", NAMES)
def test_grids_estimators_and_trials_are_the_published_ones(name: str) -> None:
    theirs = published.read(name)
    ours = set()
    for row in declared(name).strips:
        for distribution, _ in row.sweep.distributions:
            kind = _sweeps.DISTRIBUTIONS[distribution]
            ours |= {(row.panel, kind, x, estimator) for x in row.sweep.grid for estimator, _ in row.methods}
            part = theirs[(theirs["panel"] == row.panel) & (theirs["distribution"] == kind)]
            assert set(part["trials"]) == {row.sweep.trials}
        for x, setting in row.sweep.points():
            kind = _sweeps.DISTRIBUTIONS[setting.distribution]
            at = theirs[(theirs["panel"] == row.panel) & (theirs["distribution"] == kind) & (theirs["x"] == x)]
            assert set(at["param"]) == {setting.shape}
    columns = ["panel", "distribution", "x", "estimator"]
    assert ours == set(theirs[columns].itertuples(index=False, name=None))


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_look_takes_published_points_and_two_trials(name: str, tmp_path: Path) -> None:
    figure = declared(name)
    for row, sweep in zip(figure.strips, figure.sweeps(Options(tmp_path, quick=True, seed=5)), strict=True):
        assert set(sweep.grid) < set(row.sweep.grid)
        assert (sweep.trials, sweep.seed) == (2, 5)
    assert {sweep.trials for sweep in figure.sweeps(Options(tmp_path, trials=7, quick=True))} == {7}


@pytest.mark.parametrize(
    ("name", "place", "expected"),
    [
        ("fig2a", 0, {"over": "contamination", "n": 600, "mean": (2.0,) * 10, "trials": 50}),
        ("fig2b", 0, {"over": "k", "rows_per_k": 100, "trials": 10}),
        ("fig2c", 0, {"over": "shape", "n": 600, "mean": (10.0, -5.0, -4.0, 2.0), "trials": 50}),
        ("fig2c", 1, {"over": "shape", "n": 400, "mean": (10.0, -5.0, -4.0, 2.0), "trials": 50}),
        ("app_sensitivity", 0, {"over": "told_k", "n": 600, "mean": (2.0,) * 5 + (-2.0,) * 5, "trials": 10}),
        ("app_sensitivity", 1, {"over": "told_k", "n": 600, "mean": (2.0,) * 5 + (-2.0,) * 5, "trials": 10}),
        ("app_different_k", 0, {"over": "k", "rows_per_k": 100, "trials": 10}),
        ("app_different_k", 1, {"over": "k", "rows_per_k": 100, "trials": 10}),
        ("app_infinite_variance", 0, {"over": "shape", "n": 600, "mean": (10.0, -5.0, -4.0, 2.0), "trials": 10}),
        ("app_different_eps", 0, {"over": "contamination", "n": 600, "mean": (10.0, -5.0, -4.0, 2.0), "trials": 10}),
    ],
)
def test_settings(name: str, place: int, expected: dict[str, object]) -> None:
    sweep = declared(name).strips[place].sweep
    assert {key: getattr(sweep, key) for key in expected} == expected
    assert (sweep.d, sweep.contamination, sweep.attacks) == (100, 0.1, ("constant_bias",))
    assert sweep.estimators[-1] == "default"


def test_shapes_by_row() -> None:
    shapes = {name: [row.sweep.distributions[0][1] for row in declared(name).strips] for name in NAMES}
    assert shapes["app_sensitivity"] == shapes["app_different_k"] == [3.1, 2.0]
    assert shapes["app_different_eps"] == [2.1]
    assert shapes["fig2a"] == shapes["fig2b"] == [3.1]


def test_which_method_stands_behind_a_published_name() -> None:
    methods = {name: [dict(row.methods) for row in declared(name).strips] for name in NAMES}
    assert methods["fig2a"] == [{"stage_1": "stage_1_plain"}]
    assert methods["fig2b"][0]["full_filter"] == "full_filter"
    assert [row["full_filter"] for row in methods["fig2c"]] == ["full_filter_buckets", "old_full_filter_buckets"]
    for name in ("app_sensitivity", "app_infinite_variance"):
        assert {row["full_GD"] for row in methods[name]} == {"full_GD_as_run"}
    for name in ("app_different_k", "app_different_eps"):
        assert {row["full_GD"] for row in methods[name]} == {"full_sparse_GD"}
    assert {row["sparse_filter"] for name in NAMES[3:] for row in methods[name]} == {"sparse_filter_buckets"}


def test_rows_grow_with_the_sparsity() -> None:
    settings = [setting for _, setting in declared("fig2b").strips[0].sweep.points()]
    assert {(s.n, len(s.mean), s.told_k) for s in settings} == {(100 * k, k, k) for k in range(5, 101, 5)}
    with pytest.raises(ValueError, match="rows_per_k must be given with over"):
        list(replace(declared("fig2a").strips[0].sweep, rows_per_k=100).points())


def test_figures_with_the_same_data_share_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[Setting, int, tuple[str, ...]]] = []

    def noted(setting: Setting, _seed: int, trial: int, names: tuple[str, ...]) -> list[dict[str, object]]:
        ran.append((setting, trial, names))
        return [{"trial": trial, "estimator": n, "error": 1.0, "overlap": 1.0, "seconds": 0.0} for n in names]

    monkeypatch.setattr(engine, "run_trial", noted)
    options = Options(tmp_path, n_jobs=1, trials=2)
    _sweeps.run(declared("fig2b"), options)
    assert len(ran) == 3 * 20 * 2
    first = {(setting, trial) for setting, trial, _ in ran}
    ran.clear()
    _sweeps.run(declared("app_different_k"), options)
    shared = [names for setting, trial, names in ran if (setting, trial) in first]
    assert len(shared) == 3 * 20 * 2
    assert set(shared) == {("sparse_GD", "sparse_filter_buckets", "full_sparse_GD")}
    ran.clear()
    _sweeps.run(declared("app_different_k"), options)
    assert ran == []


def test_progress_is_that_of_the_whole_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(setting: Setting, _seed: int, trial: int, names: tuple[str, ...]) -> list[dict[str, object]]:
        return [{"trial": trial, "estimator": n, "error": 1.0, "overlap": 1.0, "seconds": 0.0} for n in names]

    monkeypatch.setattr(engine, "run_trial", at_once)
    seen: list[tuple[int, int]] = []
    options = Options(tmp_path, n_jobs=1, quick=True, progress=lambda done, total: seen.append((done, total)))
    _sweeps.run(declared("fig2c"), options)
    assert seen == [(done, 3 * 5 * 2) for done in range(1, 31)]
    seen.clear()
    _sweeps.run(declared("fig2c"), replace(options, trials=3))
    assert seen == [(done, 15) for done in range(1, 16)]  # those found on disk are not run


def test_published_names_in_the_table(tmp_path: Path) -> None:
    sweep = Sweep("shape", (2.0,), (("t", 3.1),), ("old_stage_1", "default"), n=100, d=10, trials=1)
    figure = SweepFigure("fig2c", "", (_sweeps.PanelRow("p", sweep, (("stage_1", "old_stage_1"),)),), (2.0,), "x")
    table = _sweeps.run(figure, Options(tmp_path, n_jobs=1))
    assert table["estimator"].tolist() == ["stage_1", "default"]
    assert table["method"].tolist() == ["old_stage_1", "default"]
    assert set(table["distribution"]) == {"Student-t"}
    assert set(table["param"]) == {2.0}
    assert np.isfinite(table["error"]).all()
