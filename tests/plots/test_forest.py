"""The forest plot draws estimates and intervals of the estimate, the strongest on top."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compared import changed
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from sparsemean import Estimate, InputError, load, sparse_mean
from sparsemean._util.records import Uncertified


def marks(ax: Axes, marker: str) -> np.ndarray:
    drawn = [line.get_xydata() for line in ax.lines if line.get_marker() == marker]
    return np.vstack(drawn) if drawn else np.empty((0, 2))


def bars(ax: Axes) -> np.ndarray:
    """Return both ends of every interval, as drawn, from the top."""
    lines = [item for item in ax.collections if isinstance(item, LineCollection)]
    return np.array([segment[:, 0] for item in lines for segment in item.get_segments()])


@pytest.mark.parametrize("which", ["made", "groups", "paper"])
def test_values_and_order_are_those_of_the_table(which: str, request: pytest.FixtureRequest) -> None:
    estimate: Estimate = request.getfixturevalue(which)
    ax, table = estimate.plot_forest(), estimate.table()
    np.testing.assert_allclose(marks(ax, "o"), np.column_stack((table["estimate"], np.arange(len(table)))))
    np.testing.assert_allclose(bars(ax), table[["ci_low", "ci_high"]])
    names = [label.get_text().replace("\\$", "$") for label in ax.get_yticklabels()]
    assert names == [str(name) for name in table["feature"]]
    top, bottom = ax.get_ylim()[::-1]
    assert top < 0 < bottom
    ax.figure.canvas.draw()


def test_says_how_many_are_left_out(made: Estimate) -> None:
    ax = made.plot_forest(most=2)
    title = " ".join(ax.get_title().split())
    assert f"the 2 strongest shown and {made.support.size - 2} left out" in title
    assert marks(ax, "o").shape == (2, 2)
    with pytest.raises(InputError, match="most must be a positive integer"):
        made.plot_forest(most=0)


def test_infinite_ends_are_arrows_at_the_edge(made: Estimate) -> None:
    strongest = [made.names(made.support).index(name) for name in made.table()["feature"]]
    first, second = made.support[strongest[0]], made.support[strongest[1]]
    ends = made.intervals.copy()
    ends[first, 0], ends[second] = -np.inf, (-np.inf, np.inf)
    ax = changed(made, intervals=ends).plot_forest()
    left, right = ax.get_xlim()
    np.testing.assert_allclose(marks(ax, "<"), [[left, 0], [left, 1]])
    np.testing.assert_allclose(marks(ax, ">"), [[right, 1]])
    np.testing.assert_allclose(bars(ax)[:2], [[left, ends[first, 1]], [left, right]])
    assert "arrow: no end" in " ".join(ax.get_title().split())
    everything = changed(made, intervals=np.broadcast_to([-np.inf, np.inf], ends.shape))
    assert np.isfinite(everything.plot_forest().get_xlim()).all()


def test_uncertified_features_stand_below_with_open_marks(made: Estimate) -> None:
    extra = Uncertified(np.array([50, 51]), np.array([1.0, -3.0]), np.array([0.02, 0.01]))
    estimate = changed(made, uncertified=extra)
    assert marks(estimate.plot_forest(), "D").size == 0
    ax = estimate.plot_forest(uncertified=True)
    k = estimate.support.size
    np.testing.assert_allclose(marks(ax, "D"), [[-3.0, k + 1], [1.0, k + 2]])
    assert "not certified" in ax.texts[0].get_text()
    line = next(line for line in ax.lines if line.get_marker() == "D")
    assert line.get_markerfacecolor() == "none"


def test_null_values_are_marked() -> None:
    X = np.random.default_rng(0).standard_normal((200, 5)) + 3
    same = sparse_mean(X, null=1.0, random_state=0).plot_forest()
    assert [float(line.get_xdata()[0]) for line in same.lines if line.get_linestyle() == "--"] == [1.0]
    each = sparse_mean(X, null=[0, 0, 0, 1, 1], random_state=0)
    drawn = bars(each.plot_forest())[:5, 0]  # upright, from null to null
    np.testing.assert_allclose(np.sort(drawn), [0, 0, 0, 1, 1])


def test_nothing_selected_is_a_sentence(nothing: Estimate) -> None:
    ax = nothing.plot_forest(uncertified=True)
    assert "no feature was selected" in ax.texts[0].get_text()
    assert ax.get_xlabel() == "Mean, in units of the data"


def test_given_axes_that_are_low_show_fewer(made: Estimate) -> None:
    figure, ax = plt.subplots(figsize=(3, 1.0))
    assert made.plot_forest(ax=ax) is ax
    assert 1 <= marks(ax, "o").shape[0] < made.support.size
    assert plt.get_fignums() == [figure.number]


def test_a_loaded_estimate(made: Estimate, tmp_path: Path) -> None:
    made.save(tmp_path / "x.npz")
    ax = load(tmp_path / "x.npz").plot_forest()
    np.testing.assert_allclose(marks(ax, "o")[:, 0], made.table()["estimate"])
    left, right = ax.get_xlim()
    assert left < np.nanmin(made.intervals)
    assert right > np.nanmax(made.intervals)


def test_the_direction_is_said_by_name(groups: Estimate) -> None:
    assert groups.plot_forest().get_xlabel() == "Shift, b minus a, in units of the data"
    assert groups.plot_volcano().get_xlabel().startswith("Cliff’s delta: share of pairs in which b is larger")
    rest = changed(groups, plan=replace(groups.plan, rest=True), class_names=np.array(["a", "$b$"]))
    assert rest.plot_forest().get_xlabel() == r"Shift, \$b\$ minus the rest, in units of the data"
