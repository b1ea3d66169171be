"""What the sweep figures share: rows of panels, run, compared with the published points, written and drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean import remarks
from sparsemean.files import replacing
from sparsemean.studies import agreement, engine
from sparsemean.studies.figure import Options, Outcome
from sparsemean.studies.published import DIGITS
from sparsemean.studies.settings import Sweep

if TYPE_CHECKING:
    import pandas as pd

DISTRIBUTIONS = {"fisk": "Fisk", "pareto": "Pareto", "t": "Student-t"}
"""Our names, and those of the published points."""
QUICK_TRIALS = 2
LEADING = [
    "figure",
    "panel",
    "distribution",
    "param",
    "x",
    "estimator",
    "method",
    "trial",
    "error",
    "overlap",
    "seconds",
]


@dataclass(frozen=True, slots=True)
class Strip:
    """A row of panels, one for each distribution of a sweep.

    Attributes
    ----------
    panel
        Its name among the published points.
    sweep
        What is run, at the published grid and number of trials.
    methods
        Pairs of a published estimator and the method of ours that reproduces it.
    """

    panel: str
    sweep: Sweep
    methods: tuple[tuple[str, str], ...]


def strip(
    panel: str, methods: Mapping[str, str], over: str, grid: tuple[float, ...], *,
    distributions: tuple[str, ...] = tuple(DISTRIBUTIONS), shape: float = 3.1, **settings: Any,
) -> Strip:  # fmt: skip
    """Declare a row of panels; our default is run as one more estimator."""
    estimators = (*methods.values(), agreement.OWN)
    drawn = tuple((name, shape) for name in distributions)
    return Strip(panel, Sweep(over, grid, drawn, estimators, **settings), tuple(methods.items()))


def grid(start: float, stop: float, step: float) -> tuple[float, ...]:
    """Return the published kind of grid, ``np.arange``, free of what rounding adds to it."""
    return tuple(float(x) for x in np.round(np.arange(start, stop, step), DIGITS))


@dataclass(frozen=True, slots=True)
class SweepFigure:
    """A figure made of rows of panels.

    Attributes
    ----------
    name, title
        As on the command line, and in words.
    strips
        Its rows of panels.
    quick_grid
        The few points of the published grid that a quick look takes.
    x_label, y_label
        What the axes say.
    metric
        ``error`` or ``overlap``.
    notes
        What must be known to read it.
    """

    name: str
    title: str
    strips: tuple[Strip, ...]
    quick_grid: tuple[float, ...]
    x_label: str
    y_label: str = "ℓ₂ error"
    metric: str = "error"
    notes: tuple[str, ...] = ()

    def sweeps(self, options: Options) -> list[Sweep]:
        """Return what is run under these options."""
        made = []
        for row in self.strips:
            trials = QUICK_TRIALS if options.quick else row.sweep.trials
            points = self.quick_grid if options.quick else row.sweep.grid
            made.append(replace(row.sweep, grid=points, trials=options.trials or trials, seed=options.seed))
        return made


def make_figure(figure: SweepFigure, options: Options) -> Outcome:
    """Run what is missing, write ``<name>.csv`` and ``<name>.png``, and compare with the published points."""
    from sparsemean.studies import drawing

    table = run(figure, options)
    with replacing(options.out / f"{figure.name}.csv") as temporary:
        table.to_csv(temporary, index=False)
    image = drawing.draw(figure, table, options.out / f"{figure.name}.png")
    compared = agreement.compare(table, figure.metric)
    notes = [*figure.notes, *table.attrs["notes"]]
    return Outcome(figure.name, figure.title, table, (image,), compared, notes)


def run(figure: SweepFigure, options: Options) -> pd.DataFrame:
    """Return every trial of the figure in the words of the published points; ``method`` is what ran here."""
    import pandas as pd

    sweeps = figure.sweeps(options)
    told = _whole(sweeps, options.progress)
    tables = [
        engine.run(sweep, out=trials_folder(options.out), n_jobs=options.n_jobs, progress=told(place))
        for place, sweep in enumerate(sweeps)
    ]
    notes = [note for table in tables for note in table.attrs["notes"]]
    for table in tables:
        table.attrs = {}
    parts = [_in_their_words(figure.name, row, table) for row, table in zip(figure.strips, tables, strict=True)]
    made = pd.concat(parts, ignore_index=True)
    made.attrs = {"sweeps": [sweep.describe() for sweep in sweeps], "versions": remarks.versions(), "notes": notes}
    return made


def trials_folder(out: Path) -> Path:
    """Return where finished trials are kept: one folder for all figures, so that equal settings are run once."""
    return out / "trials"


def _in_their_words(name: str, row: Strip, table: pd.DataFrame) -> pd.DataFrame:
    theirs = {ours: published for published, ours in row.methods}
    table = table.assign(
        figure=name,
        panel=row.panel,
        distribution=table["distribution"].map(DISTRIBUTIONS),
        param=table["shape"],
        method=table["estimator"],
        estimator=table["estimator"].map(lambda ours: theirs.get(ours, ours)),
    )
    return table[[*LEADING, *(column for column in table.columns if column not in LEADING)]]


def _whole(
    sweeps: list[Sweep], progress: Callable[[int, int], None] | None
) -> Callable[[int], Callable[[int, int], None] | None]:
    """Return what tells the progress of each sweep as that of all; trials found on disk count as done."""
    sizes = [sweep.trials * sum(1 for _ in sweep.points()) for sweep in sweeps]

    def of(place: int) -> Callable[[int, int], None] | None:
        if progress is None:
            return None
        return lambda done, missing: progress(sum(sizes[: place + 1]) - missing + done, sum(sizes))

    return of
