"""What all plots share: names are shown as they are, axes are taken as given, matplotlib may be missing."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

import sparsemean as sm
from sparsemean import Estimate, InputError, sparse_mean
from sparsemean.errors import MissingExtraError
from sparsemean.plots import plot_plan
from sparsemean.plots._style import shown

PLOTS = ("path", "volcano", "forest", "rows", "robustness")


@pytest.mark.parametrize("name", ["$a$", "a$b", r"\$", "a_b^c", "<b>x</b>", "$\\frac{", "50 % & more #1", "Größe µ"])
def test_names_reach_the_page_as_they_are(name: str) -> None:
    figure, ax = plt.subplots()
    text = ax.text(0, 0, shown(name))
    assert text._preprocess_math(text.get_text()) == (name, False)
    figure.canvas.draw()


def test_long_and_empty_names() -> None:
    assert shown("x" * 99 + "end", 10) == "xxxxxx…end"
    assert shown(" \n") == "(no name)"
    assert shown("two\nlines\x00") == r"two lines\x00"
    assert shown(7) == "7"


@pytest.mark.parametrize("plot", PLOTS)
def test_given_axes_are_used_and_no_figure_is_made(plot: str, made: Estimate) -> None:
    figure, axes = plt.subplots(1, 2)
    assert getattr(made, f"plot_{plot}")(ax=axes[1]) is axes[1]
    assert plt.get_fignums() == [figure.number]
    assert not axes[0].lines
    figure.canvas.draw()
    with pytest.raises(InputError, match=r"ax must be the axes of a matplotlib figure.*got list"):
        getattr(made, f"plot_{plot}")(ax=[axes[0]])


@pytest.mark.parametrize("plot", PLOTS)
def test_one_feature(plot: str) -> None:
    X = np.random.default_rng(0).standard_normal((100, 1)) + 2
    ax = getattr(sparse_mean(X, random_state=0), f"plot_{plot}")()
    ax.figure.canvas.draw()
    assert ax.get_xlabel()
    assert ax.get_title()


@pytest.mark.parametrize("plot", PLOTS)
def test_figures_inside_figures(plot: str, made: Estimate) -> None:
    outer = plt.figure(layout="constrained")
    ax = outer.subfigures(1, 2)[0].subplots()
    getattr(made, f"plot_{plot}")(ax=ax)
    outer.canvas.draw()


def test_missing_matplotlib_is_one_line(made: Estimate, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    for plot in PLOTS:
        with pytest.raises(MissingExtraError, match=r'needs matplotlib.*pip install "sparsemean\[plots\]"$'):
            getattr(made, f"plot_{plot}")()
    with pytest.raises(MissingExtraError):
        plot_plan(sm.plan(100, 10, test="buckets"))


def test_a_plot_that_fails_leaves_no_figure(groups: Estimate) -> None:
    for plot, options in (("rows", {"order": "x"}), ("forest", {"most": -1})):
        with pytest.raises(InputError):
            getattr(groups, f"plot_{plot}")(**options)
    assert plt.get_fignums() == []
    assert mpl.get_backend().lower() == "agg"


def test_pages_and_plots_are_imported_without_matplotlib() -> None:
    code = "import sys, sparsemean.plots, sparsemean.result._report.page; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
