"""The robustness plot is the number of features that a fit at each contamination selects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes

from sparsemean import Estimate, simulate, sparse_mean
from sparsemean._util.plans import BadRows, GroupSizes
from sparsemean.result._report.plot_data import lost_at, planned_share


def curve(ax: Axes) -> np.ndarray:
    return next(line.get_xydata() for line in ax.lines if line.get_drawstyle() == "steps-post")


def planned(ax: Axes) -> list[float]:
    return next(line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "D")


@pytest.mark.parametrize("selection", ["fwer", "fdr"])
def test_the_curve_agrees_with_fits_at_other_contaminations(selection: str) -> None:
    data = simulate.make_contaminated(200, 30, [4, -2, 1, 0.8, 0.6], contamination=0.0, random_state=0)
    options = {"selection": selection, "random_state": 0, "screen_rows": False, "refine": None}
    ax = sparse_mean(data.X, contamination=0.05, **options).plot_robustness()
    shares, left = curve(ax).T
    for rows in (0, 3, 10, 20, 40, 60, 80):
        fit = sparse_mean(data.X, contamination=rows / 200, **options)
        at = np.searchsorted(shares, rows / 200 + 1e-9) - 1
        assert left[at] == fit.support.size, rows
    assert planned(ax) == [0.05, left[np.searchsorted(shares, 0.05 + 1e-9) - 1]]


def test_ends_with_the_largest_max_contamination(made: Estimate) -> None:
    ax = made.plot_robustness()
    shares, left = curve(ax).T
    assert (shares[0], left[-1]) == (0, 0)
    assert shares[-1] == pytest.approx(np.nanmax(made.max_contamination) + 1 / 400)
    assert planned(ax) == [0.1, made.support.size]
    ax.figure.canvas.draw()
    most_robust = made.names(np.array([int(np.nanargmax(made.max_contamination))]))[0]
    assert str(most_robust).replace("$", r"\$") in {text.get_text() for text in ax.texts if text.get_visible()}


def test_two_groups_and_the_papers_rule(groups: Estimate, paper: Estimate) -> None:
    assert planned(groups.plot_robustness()) == [2 / 40, groups.support.size]
    ax = paper.plot_robustness()
    assert "rather than the paper's rule" in " ".join(ax.get_title().split())
    assert planned(ax) == [0.1, int(np.sum(paper.p_adjusted <= 0.05))]


def test_a_plan_beyond_the_last_feature_is_still_marked(made: Estimate) -> None:
    far = replace(made, plan=replace(made.plan, bad_rows=199, contamination=0.4975))
    ax = far.plot_robustness()
    assert planned(ax) == [199 / 400, 0]
    assert ax.get_xlim()[1] > 199 / 400


def test_columns_of_one_value_do_not_count() -> None:
    X = np.random.default_rng(0).standard_normal((100, 10))
    X[:, 3], X[:, 4] = 7.0, X[:, 4] + 3
    assert curve(sparse_mean(X, random_state=0).plot_robustness())[0, 1] == 1


def test_nothing_at_any_contamination_is_a_sentence(nothing: Estimate) -> None:
    ax = nothing.plot_robustness()
    assert "no feature is selected, even if no sample is bad" in " ".join(ax.texts[0].get_text().split())
    assert ax.get_ylabel() == "features selected"


def test_between_groups_shares_are_those_of_each_group(groups: Estimate) -> None:
    """A feature is lost at the next share that allows for one bad row more in either group."""
    ax = groups.plot_robustness()
    assert ax.get_xlabel() == "assumed share of bad samples of each group"
    shares, left = curve(ax).T
    last = groups.max_contamination
    for share, number in zip(shares, left, strict=True):
        assert number == np.sum(last >= share - 1e-9)
    grid = np.unique(np.concatenate([np.arange(n + 1) / n for n in groups.plan.sizes]))
    ever = ~np.isnan(last)
    np.testing.assert_allclose(lost_at(groups)[ever], [grid[grid > share + 1e-9][0] for share in last[ever]])
    assert np.isnan(lost_at(groups)[~ever]).all()


def test_a_share_of_each_group_that_was_planned_for(groups: Estimate) -> None:
    plan = replace(groups.plan, sizes=GroupSizes(10, 4), bad_by_group=BadRows(1, 1))
    assert planned_share(plan) == 0.1
    assert planned_share(replace(plan, bad_by_group=BadRows(3, 1))) == 0.25
    assert planned_share(replace(plan, bad_by_group=BadRows(0, 1))) is None
