"""z by hand, the rule where nothing varies, and by how much the default is better."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from sparsemean.studies import published

POINT = {"figure": "fig2b", "panel": "p", "distribution": "Fisk", "param": 3.1, "x": 5.0}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Three trials of two published estimators and of ours, and published points beside them."""
    theirs = pd.DataFrame(
        [
            {**POINT, "estimator": "stage_1", "trials": 4, "mean": 1.0, "std": 0.4, "median": 0.9},
            {**POINT, "estimator": "oracle", "trials": 4, "mean": 0.1, "std": 0.0, "median": 0.1},
            {**POINT, "estimator": "full_GD", "trials": 4, "mean": 0.7, "std": 0.1, "median": 0.7},
        ]
    )
    monkeypatch.setattr(published, "read", lambda *_: theirs)
    errors = {"stage_1": (1.0, 2.0, 3.0), "oracle": (0.1, 0.1, 0.1), "default": (0.2, 0.3, 0.9)}
    return pd.DataFrame(
        [{**POINT, "estimator": name, "error": error} for name, values in errors.items() for error in values]
    )


def test_z_by_hand(tiny: pd.DataFrame) -> None:
    table = published.compare(tiny)
    assert tuple(table.columns) == published.COLUMNS
    assert table["estimator"].tolist() == ["stage_1", "oracle"]
    first, second = table.to_dict("records")
    assert (first["ours_mean"], first["ours_std"], first["published_mean"]) == (2.0, 1.0, 1.0)
    assert first["z"] == pytest.approx((2.0 - 1.0) / math.sqrt(1.0 / 3 + 0.4**2 / 4), rel=1e-12)
    assert second["z"] == 0.0


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ((1.0, 0.0), (1.0, 0.0), 0.0),
        ((12.0415946, 0.0), (12.041595, 0.0), 0.0),  # the same number to eight digits
        ((12.0415946, 2e-15), (12.041595, 0.0), 0.0),  # equal numbers, added up in floating point
        ((1.0, 0.0), (1.001, 0.0), -math.inf),
        ((0.0, 0.0), (0.0, 0.0), 0.0),
        ((1.1, 0.0), (1.0, 0.2), 0.1 / math.sqrt(0.04 / 10)),
    ],
)
def test_where_nothing_varies(ours: tuple[float, float], theirs: tuple[float, float], expected: float) -> None:
    def side(values: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.array([values[0]]), np.array([values[1]]), np.array([10.0])

    assert published.z_values(side(ours), side(theirs))[0] == pytest.approx(expected)


def test_one_trial_is_not_judged(tiny: pd.DataFrame) -> None:
    table = published.compare(tiny.drop_duplicates("estimator"))
    assert table["z"].isna().all()
    assert published.summarise(table).sentence() == "no published point was compared"


def test_summary_counts_and_lists_the_farthest_first() -> None:
    table = pd.DataFrame({"z": [0.0, -3.0, 3.5, -math.inf, math.nan]})
    summary = published.summarise(table)
    assert (summary.points, summary.within, summary.share) == (4, 2, 0.5)
    assert summary.outside["z"].tolist() == [-math.inf, 3.5]
    assert summary.sentence() == "2 of 4 published points (50.0%) with |z| ≤ 3"


@pytest.mark.parametrize(("trials", "low", "high"), [(10, 2, 7), (50, 12, 37), (2, 0, 1), (1, 0, 0)])
def test_bands_are_the_order_statistics_of_the_paper(trials: int, low: int, high: int) -> None:
    values = np.random.default_rng(0).permutation(trials).astype(float)
    assert published.band(values) == (low, high)


def test_condensed(tiny: pd.DataFrame) -> None:
    row = published.condense(tiny, "error").set_index("estimator").loc["default"]
    assert (row["trials"], row["median"], row["q25"], row["q75"]) == (3, 0.3, 0.2, 0.9)


def test_better_is_against_the_best_that_does_not_see_the_truth(tiny: pd.DataFrame) -> None:
    (row,) = published.better(tiny).to_dict("records")
    assert (row["best_estimator"], row["best_median"], row["ours_median"]) == ("full_GD", 0.7, 0.3)
    assert row["ratio"] == pytest.approx(3 / 7)
    assert row["below"]
    (figure,) = published.better_by_figure(published.better(tiny)).to_dict("records")
    assert (figure["points"], figure["share"]) == (1, 1.0)
