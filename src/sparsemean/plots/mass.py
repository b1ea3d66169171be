"""Points too many to be drawn one by one: how many lie in each cell of a grid, darker where there are more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.errors import require
from sparsemean.plots.style import REST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean.records import FloatArray

ONE_BY_ONE = 20_000
"""Points that are drawn as points."""
AS_SHAPES = 2_000
"""Points that are shapes of their own in a vector graphic; more become one picture in it."""
GRID = (120, 70)
"""Cells across and up."""
GREYS = ("0.72", "0.15")


def draw_mass(ax: Axes, x: FloatArray, y: FloatArray, box: tuple[float, float, float, float], label: str) -> None:
    """Draw grey points, or their number in each cell of ``box`` (left, right, bottom, top) where they are many."""
    if not x.size:
        return
    if x.size <= ONE_BY_ONE:
        style: dict[str, Any] = {"markersize": 5, "markeredgewidth": 0, "rasterized": x.size > AS_SHAPES}
        ax.plot(x, y, ".", color=REST, zorder=1, label=label, **style)
        return
    colors = require("matplotlib.colors", extra="plots", purpose="plotting")
    counts = count_cells(x, y, box)
    greys = colors.LinearSegmentedColormap.from_list("greys", GREYS)
    scale = colors.LogNorm(vmin=1, vmax=max(10, int(counts.max())))
    edges = (np.linspace(*box[:2], GRID[0] + 1), np.linspace(*box[2:], GRID[1] + 1))
    ax.pcolormesh(*edges, np.ma.masked_equal(counts, 0), cmap=greys, norm=scale, zorder=1, rasterized=True)
    ax.plot([], [], linestyle="", marker="s", markersize=5, color="0.5", label=f"{label}, darker where more lie")


def count_cells(x: FloatArray, y: FloatArray, box: tuple[float, float, float, float]) -> FloatArray:
    """Return the number of points in every cell, a row of cells for each height; points beyond count at the edge."""
    places = []
    for values, low, high, cells in ((x, *box[:2], GRID[0]), (y, *box[2:], GRID[1])):
        place = ((values - low) * (cells / (high - low))).astype(np.intp)
        places.append(np.clip(place, 0, cells - 1))
    flat = places[1] * GRID[0] + places[0]
    return np.bincount(flat, minlength=GRID[0] * GRID[1]).reshape(GRID[::-1]).astype(np.float64)
