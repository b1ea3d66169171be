"""What is told of suspect rows, refinements and features that cannot be certified: tables, words, files, commands."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import Estimate, SparseMean, _cli, baselines, load, simulate, sparse_mean
from sparsemean._fit.screening import DOUBT, ScreeningResult
from sparsemean._fit.write import as_json
from sparsemean._stats.planning import PRESET, plan_fit
from sparsemean._stats.row_scores import row_scores
from sparsemean._util.plans import Plan

from improved import DATA, MEAN, NEITHER, fit


@pytest.fixture(scope="module")
def default() -> Estimate:
    return fit()


@pytest.fixture(scope="module")
def strong() -> Estimate:
    """30 % of bad rows: the feature with mean 2 cannot be certified."""
    X = simulate.make_contaminated(600, 100, MEAN, contamination=0.3, random_state=0).X
    return fit(X, contamination=0.3, feature_names=[f"gene{i}" for i in range(100)])


def test_uncertified_features_are_listed_apart(strong: Estimate) -> None:
    np.testing.assert_array_equal(strong.support, [0, 1, 2])
    table = strong.table(certified=False)
    assert list(table.columns) == ["feature", "estimate", "p_adjusted", "certified"]
    assert table["feature"].tolist() == ["gene3"]
    assert table["certified"].tolist() == [False]
    assert table["estimate"][0] == pytest.approx(2, abs=0.3)
    assert table["p_adjusted"][0] < 1e-6
    assert strong.mean[3] == 0
    assert "gene3" not in set(strong.table()["feature"])
    assert "Seen only without those rows, and so not certified: gene3." in strong.summary()
    assert [row["feature"] for row in json.loads(as_json(strong))["not_certified"]] == ["gene3"]


@pytest.mark.parametrize("contamination", [0.28, 0.3, 0.34])
def test_uncertified_features_allow_for_the_bad_rows_that_are_left(contamination: float) -> None:
    """Rows that lie off together took their share with them: as many of the others may be bad as are still allowed."""
    X = simulate.make_contaminated(600, 100, MEAN, contamination=0.27, random_state=0).X
    found = fit(X, contamination=contamination, test="ranks")
    assert found.rows is not None
    assert found.uncertified is not None
    kept = np.setdiff1d(np.arange(600), found.rows.suspects)
    left = found.plan.bad_rows - found.rows.aligned
    assert 0 < left < 0.5 * found.plan.bad_rows
    again = sparse_mean(X[kept], contamination=left / kept.size, test="ranks", **NEITHER)
    np.testing.assert_array_equal(found.uncertified.p_adjusted, again.p_adjusted[found.uncertified.features])


def test_the_share_of_bad_rows_that_are_left() -> None:
    rows = row_scores(np.zeros(200), {}, {})
    named, auto = plan_fit(200, 50, contamination=0.1), plan_fit(200, 50)

    def share(kept: int, left: int, plan: Plan) -> float:
        return ScreeningResult(rows, np.arange(kept), left).share(plan)

    assert share(200, 20, named) == 0.1
    assert share(190, 20, named) == 0.1  # large rows are no bad rows that are gone
    assert share(188, 8, named) == 8 / 188
    assert share(100, 15, named) == 0.1  # of fewer rows no larger share
    assert share(180, 0, named) == 0.0
    assert share(200, 0, auto) == DOUBT
    assert share(190, 0, auto) == (DOUBT * 200 - 10) / 190
    assert share(150, 0, auto) == 0.0


def test_the_uncertified_table_is_empty_otherwise(default: Estimate) -> None:
    for result in (default, fit(**NEITHER)):
        table = result.table(certified=False)
        assert list(table.columns) == ["feature", "estimate", "p_adjusted", "certified"]
        assert len(table) == 0
        assert "not certified" not in result.summary()


def test_uncertified_features_without_refinement_and_by_name() -> None:
    X = simulate.make_contaminated(600, 100, MEAN, contamination=0.3, random_state=0).X
    for refine in (None, "median", lambda rows, _: np.median(rows, axis=0)):
        result = fit(X, contamination=0.3, refine=refine)
        assert result.table(certified=False)["feature"].tolist() == [3]
        assert result.table(certified=False)["estimate"][0] == pytest.approx(2, abs=0.3)


@pytest.mark.parametrize(
    "options",
    [{}, {"refine": "gd"}, {"refine": lambda rows, _: rows.mean(axis=0)}, NEITHER, {"target": "mean", "scale": 5.0}],
    ids=["default", "gd", "function", "neither", "mean"],
)
def test_file_and_pickle_keep_rows_status_and_uncertified(options: dict[str, Any], tmp_path: Path) -> None:
    X = simulate.make_contaminated(600, 100, MEAN, contamination=0.3, random_state=0).X
    result = fit(X, contamination=0.01 if "target" in options else 0.3, **options)
    result.save(tmp_path / "fit.npz")
    for copy in (load(tmp_path / "fit.npz"), pickle.loads(pickle.dumps(result))):
        assert copy.rows is not None
        assert result.rows is not None
        for name in ("scores", "weights", "suspects"):
            np.testing.assert_array_equal(getattr(copy.rows, name), getattr(result.rows, name))
        assert copy.status == result.status
        assert copy.plan == result.plan
        assert (copy.uncertified is None) == (result.uncertified is None)
        pd.testing.assert_frame_equal(copy.table(certified=False), result.table(certified=False))
        assert copy.summary() == result.summary()


@pytest.mark.parametrize("name", baselines.names())
def test_every_method_can_be_saved(name: str, tmp_path: Path) -> None:
    result = fit(refine=name)
    result.save(tmp_path / "fit.npz")
    assert load(tmp_path / "fit.npz").status == result.status


def test_the_estimator_shows_rows() -> None:
    est = SparseMean(0.1, random_state=1).fit(DATA.X)
    assert est.row_scores_.shape == est.row_weights_.shape == (400,)
    assert set(est.suspects_) == set(DATA.corrupted)
    assert (np.diff(est.row_scores_[est.suspects_]) <= 0).all()
    assert SparseMean.paper().get_params()["refine"] is None
    assert SparseMean.paper(refine="gd", refine_on="buckets").get_params()["refine_on"] == "buckets"
    assert SparseMean.paper(screen_rows=True).get_params()["screen_rows"] is True


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path, status: int = 0) -> str:
    with pytest.raises(SystemExit) as stop:
        _cli.main([str(a) for a in arguments])
    assert (stop.value.code or 0) == status
    captured = capsys.readouterr()
    return " ".join((captured.out if status == 0 else captured.err).split())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", DATA.X)
    return tmp_path / "x.npy"


def test_the_command_line_names_suspects_and_method(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "fit", file, "-e", "0.1", "--seed", "1", "-v")
    assert "40 of 400 rows contradict the rest on 56 features off the support" in out
    assert "… (counted from 0)" in out
    assert "Values on the support: centre with the smallest standard error" in out
    told = json.loads(run(capsys, "fit", file, "-e", "0.1", "--seed", "1", "--json"))
    assert set(told["suspects"]) == set(DATA.corrupted.tolist())
    assert told["not_certified"] == []


def test_options_of_the_command_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def means(*options: str) -> list[float]:
        told = json.loads(run(capsys, "fit", file, "-e", "0.1", "--seed", "1", "--json", *options))
        return [row["estimate"] for row in sorted(told["selected"], key=lambda row: row["feature"])]

    paper = {"contamination": 0.1, "random_state": 1, **PRESET}
    for options, expected in (
        ((), fit()),
        (("--refine", "none"), fit(refine=None)),
        (("--refine", "None", "--no-screen"), fit(**NEITHER)),
        (("--no-screen",), fit(screen_rows=False)),
        (("--refine", "median", "--refine-on", "buckets"), fit(refine="median", refine_on="buckets")),
        (("--paper",), sparse_mean(DATA.X, **paper)),
        (("--paper", "--refine", "none"), sparse_mean(DATA.X, **paper)),
        (("--paper", "--refine", "gd"), sparse_mean(DATA.X, **{**paper, "refine": "gd"})),
        (("--paper", "--refine", "filter", "--screen"),
         sparse_mean(DATA.X, **{**paper, "refine": "filter", "screen_rows": True})),
    ):  # fmt: skip
        assert means(*options) == expected.mean[expected.support].tolist()


def test_a_wrong_option_of_the_command_line_is_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, line in (
        (("--refine", "odd"), "sparsemean: refine must be one of agnostic_filter"),
        (("--refine-on", "odd"), "sparsemean: refine_on must be one of 'rows', 'buckets': got 'odd'"),
        (("--refine-on", "buckets", "-e", "0.4"), "sparsemean: refine_on must leave most buckets without a bad row"),
    ):
        assert run(capsys, "fit", file, *options, status=2).startswith(line)
