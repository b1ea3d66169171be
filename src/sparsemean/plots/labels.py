"""Names beside points: as many as have room, the first ones first, none over another.

This file loads matplotlib; plots import it when they draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from sparsemean.plots.style import SMALL, settle, shown
from sparsemean.records import FloatArray

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
    placing = Placing(texts, np.column_stack((x, y))[:MARKS], most, places)
    ax.add_artist(placing)
    settle(ax)
    placing.place()


class Placing(Artist):
    """Places names anew whenever the axes are drawn, as their room changes with the size of the figure."""

    def __init__(
        self, texts: Sequence[Annotation], marks: FloatArray, most: int, places: Sequence[tuple[int, int]]
    ) -> None:
        super().__init__()
        self.texts, self.marks, self.most, self.places = texts, marks, most, places
        self.set_zorder(-1)  # before the texts
        self.set_in_layout(False)

    def draw(self, renderer: Any) -> None:  # noqa: ARG002
        """Place the names; they draw themselves."""
        self.place()

    def place(self) -> None:
        """Show as many names as are wanted and have room."""
        assert self.axes is not None
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
