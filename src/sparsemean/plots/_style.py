"""What all plots share: colours, names of features, and how many dots are drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._util.records import FloatArray
from sparsemean.errors import InputError, require, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

CHOSEN, ALARM, REST, GUIDE = "#0072b2", "#d55e00", "0.6", "0.35"
"""Selected features, suspect rows and plans; what asks for attention; the rest; lines to read by."""
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""After Okabe and Ito (2008), Color Universal Design."""
TITLE, SMALL = 10, 9
"""Size of titles and of small print, in points: still legible at half size."""
FEW = 60
"""Marks that are drawn with a rim."""
LETTER = 0.53
"""Width of a letter, about, in units of its size."""


def axes_for(ax: Axes | None, height: float = 4.0, width: float = 6.4) -> Axes:
    """Return ``ax``, or the axes of a new figure of that many inches."""
    pyplot = require("matplotlib.pyplot", extra="plots", purpose="plotting")
    from matplotlib.axes import Axes

    if ax is None:
        ax = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise InputError("ax", "be the axes of a matplotlib figure, or None for new ones", type(ax).__name__)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def settle(ax: Axes) -> None:
    """Let the figure's layout, where it has one, give the axes their final size."""
    figure = ax.figure.canvas.figure
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)


def entitle(ax: Axes, title: str) -> None:
    """Write a title, broken into lines as the names of the axes are, and below the axes the key of what is drawn.

    To be called last, as room depends on all else. Below the axes a key covers nothing of what they show, and it
    leaves the place of the title free for another one.
    """
    settle(ax)  # before anything is measured: constrained layout gives axes their size when it is executed
    room, high = ax.get_window_extent().size
    for label, length in ((ax.xaxis.label, room), (ax.yaxis.label, high)):
        label.set_text(textwrap.fill(label.get_text(), letters(ax, length)))
    ax.set_title(textwrap.fill(title, letters(ax, room)), fontsize=TITLE)
    if ax.get_legend_handles_labels()[1]:
        _key(ax, room)


def letters(ax: Axes, pixels: float, size: float = TITLE) -> int:
    """Return how many letters, about, of ``size`` points have room in ``pixels``."""
    return max(12, int(pixels * 72 / ax.figure.dpi / (size * LETTER)))


def _key(ax: Axes, room: float) -> None:
    """Draw a key below the name of the horizontal axis in as few lines as ``room`` pixels allow."""
    from matplotlib.transforms import ScaledTranslation

    named = ax.xaxis.get_tightbbox()
    depth = 0.0 if named is None else (ax.bbox.y0 - named.y0) / ax.figure.dpi
    below = ax.transAxes + ScaledTranslation(0, -depth, ax.figure.dpi_scale_trans)
    for columns in range(len(ax.get_legend_handles_labels()[1]), 0, -1):
        key = ax.legend(
            loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below, ncols=columns, fontsize=SMALL,
            frameon=False, borderpad=0.2, borderaxespad=0.2, columnspacing=1.2, handlelength=1.6, handletextpad=0.5,
        )  # fmt: skip
        if key.get_window_extent().width <= room:
            break


def say(ax: Axes, sentence: str) -> None:
    """Write a sentence where there is nothing to draw."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, textwrap.fill(sentence, 40), transform=ax.transAxes, ha="center", va="center", color=GUIDE)


def shown(name: object, most: int = 24) -> str:
    r"""Return a name as matplotlib is to show it: one line, its middle left out where it is long, no mathematics.

    Examples
    --------
    >>> shown("$a_1$")
    '\\$a_1\\$'
    >>> shown("a very long name of a feature", 12)
    'a very …ture'
    """
    plain = visible(" ".join(str(name).split())) or "(no name)"
    if len(plain) > most:
        tail = (most - 1) * 2 // 5
        plain = f"{plain[: most - 1 - tail]}…{plain[len(plain) - tail :]}"
    return plain.replace("$", r"\$")


def dashed(draw: Callable[..., object], *at: object, zorder: int = 1, label: str = "_nolegend_") -> None:
    """Draw a line to read by, with that method of axes."""
    draw(*at, color=GUIDE, linewidth=1.0, linestyle="--", zorder=zorder, label=label)


def rim(marks: int) -> float:
    """Return how wide the white rim of marks is: none where they are many, as only rims would be seen."""
    return 0.5 if marks <= FEW else 0.0


# Names beside points: as many as have room, the first ones first, none over another.

PLACES = ((7, 0), (-7, 0), (0, 8), (0, -8), (6, 7), (-6, 7), (6, -7), (-6, -7))
"""Where a name may stand, in points from what it names; the first place that is free is taken."""
NEARBY = 3.0
"""Points about a mark that names keep off."""
TRIED = 4
"""Names that are tried for each one wanted."""
MARKS = 500
"""Marks that names keep off; among more there is no room anyway."""


def label_points(
    ax: Axes,
    x: FloatArray,
    y: FloatArray,
    names: Sequence[object],
    *,
    most: int,
    colour: str,
    places: Sequence[tuple[int, int]] = PLACES,
) -> None:
    """Write ``names`` beside the points (x, y), the most important first, where they cover no other and no mark."""
    texts = [
        ax.annotate(shown(name), at, (0, 0), textcoords="offset points", fontsize=SMALL, color=colour, in_layout=False)
        for at, name in zip(zip(x, y, strict=True), names[: TRIED * most], strict=False)
    ]
    labels = PointLabels(ax, texts, np.column_stack((x, y))[:MARKS], most=most, places=places)
    artist = require("matplotlib.artist", extra="plots", purpose="plotting").Artist()
    artist.draw = labels.draw  # not a subclass, which would load matplotlib with this file
    artist.set_zorder(-1)  # before the texts, whose places it decides
    artist.set_in_layout(False)
    ax.add_artist(artist)
    settle(ax)
    labels.draw()


class PointLabels:
    """Names that are placed anew whenever the axes are drawn, as their room changes with the size of the figure."""

    def __init__(
        self,
        axes: Axes,
        texts: Sequence[Annotation],
        marks: FloatArray,
        *,
        most: int,
        places: Sequence[tuple[int, int]],
    ) -> None:
        self.axes, self.texts, self.marks, self.most, self.places = axes, texts, marks, most, places

    def draw(self, renderer: object = None) -> None:  # noqa: ARG002
        """Show as many names as are wanted and have room; they draw themselves."""
        near = NEARBY * self.axes.figure.dpi / 72
        marks = self.axes.transData.transform(self.marks)
        taken = np.hstack((marks - near, marks + near))
        inside, placed = np.asarray(self.axes.get_window_extent().extents), 0
        for text in self.texts:
            box = self._free_place(text, taken, inside) if placed < self.most else None
            text.set_visible(box is not None)
            if box is not None:
                taken, placed = np.vstack((taken, box)), placed + 1

    def _free_place(self, text: Annotation, taken: FloatArray, inside: FloatArray) -> FloatArray | None:
        """Put a name into the first free place, within the axes, and return its extent; None if there is none."""
        text.set_visible(True)  # what is hidden has no extent
        for right, up in self.places:
            text.set_position((right, up))
            text.set_horizontalalignment("left" if right > 0 else "right" if right < 0 else "center")
            text.set_verticalalignment("bottom" if up > 0 else "top" if up < 0 else "center")
            box = np.asarray(text.get_window_extent().extents)
            within = (box[:2] >= inside[:2]).all() and (box[2:] <= inside[2:]).all()
            if within and not np.any((taken[:, :2] < box[2:]).all(axis=1) & (taken[:, 2:] > box[:2]).all(axis=1)):
                return box
        return None


# Points too many to be drawn one by one: how many lie in each cell of a grid, darker where there are more.

ONE_BY_ONE = 20_000
"""Points that are drawn as points."""
AS_SHAPES = 2_000
"""Points that are shapes of their own in a vector graphic; more become one picture in it."""
GRID = (120, 70)
"""Cells across and up."""
GREYS = ("0.72", "0.15")
"""Of cells with one point and with the most: the lightest is still seen on white, the darkest is not taken for ink."""


def draw_mass(ax: Axes, x: FloatArray, y: FloatArray, box: tuple[float, float, float, float], label: str) -> None:
    """Draw grey points, or their number in each cell of ``box`` (left, right, bottom, top) where they are many."""
    if not x.size:
        return
    if x.size <= ONE_BY_ONE:
        picture = x.size > AS_SHAPES
        ax.plot(x, y, ".", color=REST, markersize=5, markeredgewidth=0, rasterized=picture, zorder=1, label=label)
        return
    colors = require("matplotlib.colors", extra="plots", purpose="plotting")
    greys = colors.LinearSegmentedColormap.from_list("greys", GREYS)
    left, right, low, high = box  # what lies beyond counts at the edge
    counts, *_, cells = ax.hist2d(
        np.clip(x, left, right), np.clip(y, low, high), bins=GRID, range=((left, right), (low, high)), cmin=1,
        cmap=greys, norm=colors.LogNorm(), zorder=1, rasterized=True,
    )  # fmt: skip
    cells.set_clim(1, max(10, np.nanmax(counts)))
    ax.plot([], [], linestyle="", marker="s", markersize=5, color="0.5", label=f"{label}, darker where more lie")
