"""The path plot draws the numbers of the estimate."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from sparsemean import Estimate, load, simulate, sparse_mean
from sparsemean._stats.planning import PRESET
from sparsemean.errors import InputError
from sparsemean.plots import features as path_plot

mpl.use("Agg")
from matplotlib import pyplot as plt

DATA = simulate.make_contaminated(300, 30, [6, -5, 0, 4], random_state=0).X


@pytest.fixture
def estimate() -> Estimate:
    return sparse_mean(DATA, random_state=0, **PRESET)


def test_lines_are_the_trajectories(estimate: Estimate) -> None:
    ax = estimate.plot_path(n_rest=5)
    lines = [np.asarray(line.get_ydata()) for line in ax.lines if len(line.get_xdata()) == 601]
    assert len(lines) == 3 + 5
    ends = sorted(float(line[-1]) for line in lines)[-3:]
    np.testing.assert_allclose(ends, np.sort(np.abs(estimate.mean[estimate.support])))
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"0", "1", "3"}
    plt.close(ax.figure)


def test_own_axes_few_features_and_nothing_selected() -> None:
    figure, ax = plt.subplots()
    none = sparse_mean(DATA[:, 4:], random_state=0)
    assert none.plot_path(ax=ax, n_iter=50) is ax
    assert "0 of 26" in ax.get_title()
    plt.close(figure)
    one = sparse_mean(DATA[:, :1], random_state=0).plot_path()
    plt.close(one.figure)


def test_of_very_many_selected_features_the_strongest_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_plot, "MOST_SELECTED", 2)
    ax = sparse_mean(DATA, random_state=0).plot_path(n_rest=0)
    assert "the 2 strongest are drawn" in " ".join(ax.get_title().split())
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"0", "1"}
    plt.close(ax.figure)


def test_a_loaded_estimate_needs_the_data(estimate: Estimate, tmp_path: Path) -> None:
    estimate.save(tmp_path / "x.npz")
    copy = load(tmp_path / "x.npz")
    with pytest.raises(InputError, match="X must be given"):
        copy.plot_path()
    plt.close("all")
    ax = copy.plot_path(X=DATA)
    plt.close(ax.figure)
