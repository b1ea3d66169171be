"""The plot of rows draws every score once and names the suspects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compared import changed
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh

from sparsemean import Estimate, InputError, load, sparse_mean
from sparsemean._stats.row_scores import limit
from sparsemean._util.records import RowScores


def marks(ax: Axes, marker: str) -> np.ndarray:
    return np.vstack([np.empty((0, 2)), *(line.get_xydata() for line in ax.lines if line.get_marker() == marker)])


def guide(ax: Axes) -> float:
    return next(float(line.get_ydata()[0]) for line in ax.lines if line.get_linestyle() == "--")


def test_scores_in_the_order_of_the_data(made: Estimate) -> None:
    assert made.rows is not None
    suspects = made.rows.suspects
    assert suspects.size == 40
    ax = made.plot_rows()
    np.testing.assert_allclose(marks(ax, "^"), np.column_stack((suspects, made.rows.scores[suspects])))
    rest = np.setdiff1d(np.arange(400), suspects)
    np.testing.assert_allclose(marks(ax, "."), np.column_stack((rest, made.rows.scores[rest])))
    assert guide(ax) == limit(400)
    shown = {text.get_text() for text in ax.texts if text.get_visible()}
    assert shown
    assert shown <= set(map(str, suspects))


def test_scores_from_the_largest_down(groups: Estimate) -> None:
    assert groups.rows is not None
    ax = groups.plot_rows(order="scores")
    together = np.vstack((marks(ax, "^"), marks(ax, ".")))
    together = together[np.argsort(together[:, 0])]
    np.testing.assert_allclose(together, np.column_stack((np.arange(80), np.sort(groups.rows.scores)[::-1])))
    assert guide(ax) == 0
    with pytest.raises(InputError, match="order must be 'rows' or 'scores'"):
        groups.plot_rows(order="size")


def two_suspects(made: Estimate) -> Estimate:
    assert made.rows is not None
    named = np.argsort(-made.rows.scores)[[0, 39]]
    return replace(made, rows=replace(made.rows, suspects=named, reasons=(), kinds=()))


def test_suspects_have_the_names_given_or_those_of_the_data(made: Estimate) -> None:
    made = two_suspects(made)
    assert made.rows is not None
    numbers = {str(row) for row in made.rows.suspects}
    names = [f"patient $ {i}" for i in range(400)]
    own = {rf"patient \$ {row}" for row in numbers}
    assert {text.get_text() for text in made.plot_rows(names=names).texts} == own
    assert made.source is not None
    named = replace(made, source=replace(made.source, row_names=np.array(names, dtype=object)))
    assert {text.get_text() for text in named.plot_rows().texts} == own
    assert {text.get_text() for text in made.plot_rows().texts} == numbers
    with pytest.raises(InputError, match="names must have one name for each of the 400 rows: got 2 names"):
        made.plot_rows(names=["a", "b"])


def test_between_two_groups_suspects_look_like_the_other(groups: Estimate) -> None:
    assert groups.rows is not None
    ax = replace(groups, rows=replace(groups.rows, suspects=np.array([45, 5]))).plot_rows()
    np.testing.assert_allclose(marks(ax, "^"), np.column_stack(([45, 5], groups.rows.scores[[45, 5]])))
    assert {text.get_text() for text in ax.texts} == {"45", "5"}
    assert " ".join(ax.get_title().split()) == "2 of 80 samples look like the other group (b and a)"


def test_rows_of_neither_group_are_not_drawn(groups: Estimate) -> None:
    assert groups.rows is not None
    assert groups.labels is not None
    labels = groups.labels.copy()
    labels[:10] = -1
    some = changed(groups, labels=labels, rows=replace(groups.rows, suspects=np.array([45])))
    assert marks(some.plot_rows(), ".")[:, 0].tolist() == [row for row in range(10, 80) if row != 45]


def test_a_loaded_estimate_shows_numbers(made: Estimate, tmp_path: Path) -> None:
    made = two_suspects(made)
    assert made.rows is not None
    made.save(tmp_path / "x.npz")
    shown = {text.get_text() for text in load(tmp_path / "x.npz").plot_rows().texts}
    assert shown == {str(row) for row in made.rows.suspects}


def test_says_why_rows_were_not_judged(paper: Estimate, made: Estimate) -> None:
    def said(estimate: Estimate, unit: str = "row") -> str:
        ax = estimate.plot_rows()
        assert ax.get_xlabel() == f"{unit}, in the order of the data"
        return " ".join(ax.texts[0].get_text().split())

    assert said(paper) == "rows were not judged: screening was off"
    assert said(replace(made, rows=None)) == "rows were not judged: the rows were not at hand"
    few = sparse_mean(np.random.default_rng(0).standard_normal((60, 2)), random_state=0)
    assert "where there are 2 features" in said(few, "sample")


def test_many_rows_are_counted_in_cells(made: Estimate) -> None:
    n, rng = 100_000, np.random.default_rng(0)
    scores = rng.uniform(size=n)
    scores[[7, 9]] = 30, 20
    judged = RowScores(scores, np.ones(n), np.array([7, 9]))
    many = replace(made, rows=judged, source=None, plan=replace(made.plan, n_rows=n, n_units=n))
    ax = many.plot_rows()
    mesh = next(item for item in ax.collections if isinstance(item, QuadMesh))
    assert int(mesh.get_array().sum()) == n - 2
    np.testing.assert_allclose(marks(ax, "^"), [[7, 30], [9, 20]])
    assert "7" in {text.get_text() for text in ax.texts if text.get_visible()}
