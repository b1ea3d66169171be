"""The plot of a plan draws what `sparsemean.plan` answers."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

import sparsemean as sm
from sparsemean import Estimate, InputError
from sparsemean.plots import plot_plan
from sparsemean.plots.plan import NUMBERS


def curves(ax: Axes) -> list[np.ndarray]:
    return [line.get_xydata() for line in ax.lines if line.get_marker() != "*"]


def test_curves_are_detectable_effects() -> None:
    plan = sm.plan(500, 1000, power=0.9, level=0.01)
    ax = plot_plan(plan, contaminations=(0, 0.1))
    for share, curve in zip((0, 0.1), curves(ax), strict=True):
        for n, effect in curve[::9]:
            expected = sm.plan(int(n), 1000, contamination=share, power=0.9, level=0.01).detectable_effect
            assert effect == pytest.approx(expected)
    own = next(line.get_xydata()[0] for line in ax.lines if line.get_marker() == "*")
    np.testing.assert_allclose(own, [500, plan.detectable_effect])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_curves_begin_where_anything_can_be_found() -> None:
    ax = plot_plan(sm.plan(60, 1000, contamination=0.0), contaminations=(0, 0.2), n_range=(5, 300))
    for share, curve in zip((0, 0.2), curves(ax), strict=True):
        first = int(curve[0, 0])
        sm.plan(first, 1000, contamination=share)
        drawn = np.unique(np.geomspace(5, 300, NUMBERS).round())
        before = int(drawn[drawn < first][-1])
        with pytest.raises(InputError):
            sm.plan(before, 1000, contamination=share)


def test_the_plan_of_a_fit_and_a_range_that_finds_nothing(made: Estimate) -> None:
    ax = plot_plan(made.plan)
    own = next(line.get_xydata()[0] for line in ax.lines if line.get_marker() == "*")
    np.testing.assert_allclose(own, [400, sm.plan(400, 60, contamination=0.1).detectable_effect])
    empty = plot_plan(made.plan, n_range=(4, 9), contaminations=[0.3])
    assert curves(empty)[0].size == 0
    assert empty.get_legend().get_texts()[0].get_text() == "30 % bad: nothing here"
    empty.figure.canvas.draw()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contaminations": []}, "contaminations must be one to 6 numbers"),
        ({"contaminations": [0.7]}, r"contamination must be a number in \[0, 0.5\)"),
        ({"n_range": (100, 10)}, "n_range must be two rising numbers"),
    ],
)
def test_refuses_in_one_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plot_plan(sm.plan(500, 1000), **options)


def test_plans_of_other_kinds_are_refused(groups: Estimate) -> None:
    with pytest.raises(InputError, match=r"plan must be made by sparsemean.plan.*got dealing 'pairs'"):
        plot_plan(groups.plan)
    with pytest.raises(InputError, match="got int"):
        plot_plan(5)


def test_an_estimate_draws_where_its_own_plan_stands() -> None:
    X = np.random.default_rng(0).standard_normal((500, 20))
    ax = sm.sparse_mean(X, contamination=0.1, random_state=0).plot_plan(contaminations=(0.1,))
    own = next(line.get_xydata()[0] for line in ax.lines if line.get_marker() == "*")
    np.testing.assert_allclose(own, [500, sm.plan(500, 20, contamination=0.1).detectable_effect])
