"""The volcano plot draws β and −log10 p of every feature, and its line parts the selected ones from the rest."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from compared import changed
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh

from sparsemean import Estimate, sparse_mean
from sparsemean.result._report.plot_data import rejection_p


def points(ax: Axes, marker: str) -> np.ndarray:
    drawn = [line.get_xydata() for line in ax.lines if line.get_marker() == marker and line.get_xydata().size]
    return np.vstack(drawn) if drawn else np.empty((0, 2))


def ordered(pairs: np.ndarray) -> np.ndarray:
    return pairs[np.lexsort(pairs.T)]


def level_of(ax: Axes) -> float:
    line = next(line for line in ax.lines if str(line.get_label()).startswith("selected from"))
    return float(line.get_ydata()[0])


@pytest.mark.parametrize("which", ["made", "groups", "nothing", "paper"])
def test_every_feature_is_drawn_once_where_it_belongs(which: str, request: pytest.FixtureRequest) -> None:
    estimate: Estimate = request.getfixturevalue(which)
    ax = estimate.plot_volcano()
    where = np.column_stack((estimate.beta, -np.log10(estimate.p_values) + 0.0))
    inside = np.isin(np.arange(estimate.mean.size), estimate.support)
    np.testing.assert_allclose(ordered(points(ax, "o")), ordered(where[inside]))
    np.testing.assert_allclose(ordered(points(ax, ".")), ordered(where[~inside]))
    ax.figure.canvas.draw()


@pytest.mark.parametrize("selection", ["fwer", "fdr", "fdr_by"])
def test_the_line_parts_selected_from_unselected(selection: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 80))
    X[:, :40] += np.linspace(0, 1, 40)
    estimate = sparse_mean(X, selection=selection, contamination=0.0, random_state=0)
    line = rejection_p(estimate)
    assert line is not None
    assert 5 < estimate.support.size < 75
    np.testing.assert_array_equal(np.flatnonzero(estimate.p_values <= line), estimate.support)
    assert level_of(estimate.plot_volcano()) == pytest.approx(-np.log10(line))


def test_the_line_of_nothing_selected_is_that_of_a_first_feature(nothing: Estimate) -> None:
    assert rejection_p(nothing) == pytest.approx(0.05 / 20)


def test_the_papers_rule_is_a_rate(paper: Estimate) -> None:
    ax = paper.plot_volcano()
    lines = sorted(float(line.get_xdata()[0]) for line in ax.lines if line.get_linestyle() == "--")
    np.testing.assert_allclose(lines, [-0.58401, 0.58401], atol=1e-5)


def test_p_values_of_one_and_below_the_smallest_double_have_a_place() -> None:
    X = np.random.default_rng(0).standard_normal((2000, 6))
    X[:, 0] += 9
    estimate = sparse_mean(X, random_state=0, test="buckets")
    assert estimate.p_values[0] == 0
    ax = estimate.plot_volcano()
    np.testing.assert_allclose(points(ax, "o"), [[1.0, -estimate.log10_p[0]]])
    assert -estimate.log10_p[0] > 600


def test_labels_are_the_strongest_and_do_not_overlap(made: Estimate) -> None:
    ax = made.plot_volcano(labels=4)
    ax.figure.canvas.draw()
    texts = [text for text in ax.texts if text.get_visible()]
    assert 2 <= len(texts) <= 4
    assert texts[0].get_text() == r"\$x_{0}\$ <b>0</b>_"
    boxes = [text.get_window_extent() for text in texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert not made.plot_volcano(labels=0).texts


def test_labels_make_way_when_the_figure_shrinks(made: Estimate) -> None:
    ax = made.plot_volcano()
    ax.figure.set_size_inches(5.2, 2.0)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts if text.get_visible()]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_columns_of_one_value_are_marked_apart() -> None:
    X = np.random.default_rng(0).standard_normal((100, 10))
    X[:, 3] = 7.0
    estimate = sparse_mean(X, random_state=0)
    ax = estimate.plot_volcano()
    np.testing.assert_allclose(points(ax, "x"), [[1.0, -np.log10(estimate.p_values[3])]])
    assert points(ax, ".").shape == (9, 2)


def test_a_million_features_are_counted_in_cells(made: Estimate) -> None:
    d, rng = 1_000_000, np.random.default_rng(0)
    log_p = np.concatenate((made.decision.log_p, np.log(rng.uniform(size=d - 60))))
    many = changed(
        made,
        counts=None,
        strength=np.concatenate((made.beta, rng.uniform(-0.5, 0.5, d - 60))),
        mean=np.zeros(d),
        feature_names=None,
        plan=replace(made.plan, n_features=d),
        decision=replace(made.decision, p_values=np.exp(log_p), log_p=log_p, last=np.resize(made.decision.last, d)),
    )
    began = perf_counter()
    ax = many.plot_volcano()
    assert perf_counter() - began < 3  # 0.4 s on an idle core
    mesh = next(item for item in ax.collections if isinstance(item, QuadMesh))
    assert int(mesh.get_array().sum()) == d - many.support.size
    assert any("darker where more lie" in text.get_text() for text in ax.get_legend().get_texts())
    assert points(ax, "o").shape[0] == many.support.size


def test_other_tests_of_the_family_move_the_line(groups: Estimate) -> None:
    """Ten tests of forty features: alone p must reach level/400; what others reject leaves more for this one."""
    plan = replace(groups.plan, n_tests=10)
    strict = rejection_p(replace(groups, plan=plan))
    assert strict == pytest.approx(max(0.05 / (400 - groups.support.size), groups.p_values[groups.support].max()))
    p = groups.p_values.copy()
    p[groups.support[0]] = 0.01
    assert rejection_p(replace(groups, plan=plan, decision=replace(groups.decision, p_values=p))) == 0.01
