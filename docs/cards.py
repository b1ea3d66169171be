"""Draw the pictures of the cards on the first page: what each profession sees of its data, and what is found in them.

Usage: python docs/cards.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import sparsemean as sm

HERE = Path(__file__).parent / "pictures"
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "0.72"


def cells(ax: Axes, rng: np.random.Generator) -> None:
    """Draw simulated cells of three types along two directions; rings are those that contradict their label."""
    kind = np.repeat([0, 1, 2], 70)
    genes = rng.standard_normal((kind.size, 60))
    genes[np.arange(kind.size)[:, np.newaxis], 12 * kind[:, np.newaxis] + np.arange(12)] += 2.5
    places = np.linalg.svd(genes - genes.mean(axis=0), full_matrices=False)[0][:, :2]
    label = kind.copy()
    label[[20, 60, 90, 130, 160, 200]] = [1, 2, 0, 2, 0, 1]
    suspects = sm.SparseMeanDifference().fit(genes, label).suspects_
    ax.scatter(*places.T, c=np.array([BLUE, "#009e73", "#cc79a7"])[label], s=14)
    ax.scatter(*places[suspects].T, s=110, facecolors="none", edgecolors=ORANGE, linewidths=2)


def experiments(ax: Axes, rng: np.random.Generator) -> None:
    """Draw simulated metrics of two arms: the shift of each with its interval, orange where it is no chance."""
    arm = np.repeat(["control", "new"], 1500)
    metrics = rng.standard_t(2.5, (3000, 7))
    metrics[1500:] += [0.42, 0, -0.3, 0.03, 0.22, 0, -0.04]
    result = sm.SparseMeanDifference(contamination=0, reference="control").fit(metrics, arm).result_
    low, high = result.interval(list(range(7))).T
    colours = np.where(np.isin(np.arange(7), result.support), ORANGE, GREY)
    ax.hlines(np.arange(7), low, high, colors=colours, linewidth=4)
    ax.scatter((low + high) / 2, np.arange(7), c=colours, s=50, zorder=3)
    ax.axvline(0, color="0.4", linewidth=1, linestyle="--")
    ax.invert_yaxis()


def federated(ax: Axes, rng: np.random.Generator) -> None:
    """Draw simulated updates of clients, some of which lie: the mean follows them, the sparse mean does not."""
    sent = rng.standard_normal((240, 40))
    sent[:, :2] += [3, 2.4]
    sent[:30, :2] = [-5, 5] + 0.7 * rng.standard_normal((30, 2))
    ours = sm.SparseMean().fit(sent).mean_[:2]
    ax.scatter(*sent[30:, :2].T, color=GREY, s=12)
    ax.scatter(*sent[:30, :2].T, color=ORANGE, s=30, marker="x")
    for to, colour in ((sent.mean(axis=0)[:2], "0.2"), (ours, BLUE)):
        ax.annotate("", to, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 3, "mutation_scale": 22})


def neuroimaging(ax: Axes, rng: np.random.Generator) -> None:
    """Draw simulated maps of forty subjects: their median, and around what is certified, a line."""
    y, x = np.mgrid[-1:1:44j, -1:1:60j]
    head = x**2 + y**2 < 0.95
    signal = 1.5 * (np.hypot(x + 0.45, y) < 0.25) - 1.5 * (np.hypot(x - 0.35, y + 0.35) < 0.2)
    maps = signal[head] + rng.standard_t(3, (40, head.sum()))
    picture, certain = np.full(head.shape, np.nan), np.zeros(head.shape)
    picture[head] = np.median(maps, axis=0)
    certain[head] = np.isin(np.arange(head.sum()), sm.SparseMean().fit(maps).support_)
    ax.imshow(picture, cmap="coolwarm", vmin=-2, vmax=2)
    ax.contour(certain, levels=[0.5], colors="black", linewidths=1.5)


def proteomics(ax: Axes, rng: np.random.Generator) -> None:
    """Draw Aβ42 and tau in the fluid of 333 people, real data: Control and Impaired beside each other."""
    data = sm.datasets.load_alzheimer()
    for place, assay in enumerate(("Ab_42", "tau", "p_tau")):
        level = standardised(data.X[:, list(data.features).index(assay)])
        for side, group in enumerate(np.unique(data.y)):
            values = level[data.y == group]
            across = 2.6 * place + side
            ax.scatter(across + rng.uniform(-0.3, 0.3, values.size), values, color=(GREY, BLUE)[side], s=7)
            ax.hlines(np.median(values), across - 0.4, across + 0.4, color=ORANGE, linewidth=3, zorder=3)


def standardised(values: np.ndarray) -> np.ndarray:
    """Return values about their median, in standard deviations."""
    return (values - np.median(values)) / values.std()


def statistics(ax: Axes, _rng: np.random.Generator) -> None:
    """Draw the smallest effect that so many rows find, for four shares of bad rows."""
    rows = np.geomspace(200, 20_000, 12).astype(int)
    for share, colour in ((0, BLUE), (0.01, "#56b4e9"), (0.05, "#e69f00"), (0.2, ORANGE)):
        effects = [sm.plan(int(n), 1000, contamination=share).detectable_effect for n in rows]
        ax.loglog(rows, effects, color=colour, linewidth=3)
    ax.minorticks_off()


def main() -> None:
    """Write a picture for each."""
    for draw in (cells, experiments, federated, neuroimaging, proteomics, statistics):
        figure, ax = plt.subplots(figsize=(4.8, 2.7), dpi=100, layout="constrained")
        draw(ax, np.random.default_rng(0))
        ax.set(xticks=[], yticks=[])
        ax.margins(0.06)
        ax.spines[:].set_visible(False)
        figure.savefig(HERE / f"card-{draw.__name__}.png")
        plt.close(figure)


if __name__ == "__main__":
    main()
