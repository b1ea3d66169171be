"""What the plots share: colours that colour-blind readers tell apart, axes, titles, names, the order of strength."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from sparsemean.errors import InputError, require
from sparsemean.records import IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparsemean.estimate import Estimate

CHOSEN, ALARM, REST, GUIDE = "#0072b2", "#d55e00", "0.6", "0.35"
"""Selected features, suspect rows and plans; what asks for attention; the rest; lines to read by."""
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""After Okabe and Ito (2008), Color Universal Design."""
TITLE, SMALL = 10, 9
"""Size of titles and of small print, in points: still legible at half size."""
FEW = 60
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
    settle(ax)
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
    plain = "".join(letter if letter.isprintable() else " " for letter in str(name))
    plain = " ".join(plain.split()) or "(no name)"
    if len(plain) > most:
        tail = (most - 1) * 2 // 5
        plain = f"{plain[: most - 1 - tail]}…{plain[len(plain) - tail :]}"
    return plain.replace("$", r"\$")


def rim(marks: int) -> float:
    """Return how wide the white rim of marks is: none where they are many, as only rims would be seen."""
    return 0.5 if marks <= FEW else 0.0


def strongest_first(estimate: Estimate, features: IntArray) -> IntArray:
    """Return ``features`` by p-value and then |β|, as the table has them."""
    return features[np.lexsort((-np.abs(estimate.beta[features]), estimate.p_values[features]))]


def some(number: int, what: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> some(1, "feature"), some(12_000, "row")
    ('1 feature', '12,000 rows')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
