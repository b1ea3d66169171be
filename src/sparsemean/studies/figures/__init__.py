"""The figures of the paper by name, what they are made with, and what is kept of them for the page."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import pkgutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pandas as pd

from sparsemean._fit import messages
from sparsemean._util.files import replacing
from sparsemean.errors import InputError, require
from sparsemean.studies import published
from sparsemean.studies.engine import fingerprint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TableRow: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class Options:
    """How figures are made.

    Attributes
    ----------
    out
        The folder that everything goes to; finished trials are kept in ``out/trials``.
    trials
        Data sets a point; None takes the published number.
    quick
        A coarser grid and two trials: a look, not a reproduction.
    n_jobs, seed
        Processes, and what the seeds of all trials are made from.
    progress
        Is told the trials done and those to be done.
    """

    out: Path
    trials: int | None = None
    quick: bool = False
    n_jobs: int | None = None
    seed: int = 0
    progress: Callable[[int, int], None] | None = None

    def counting(self, total: int) -> Callable[[], None]:
        """Return what is called after each of so many trials, to tell the progress."""
        done = itertools.count(1)

        def tell() -> None:
            if self.progress is not None:
                self.progress(next(done), total)

        return tell


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A figure that was made: its table, its picture, how it agrees with the published points, and what to say.

    ``text`` is the table for a terminal, where it is short enough to be read there.
    """

    name: str
    title: str
    table: pd.DataFrame
    images: tuple[Path, ...] = ()
    agreement: pd.DataFrame | None = None
    notes: list[str] = field(default_factory=list)
    text: str = ""


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """A figure that can be made: ``make`` runs what is missing and writes table and picture."""

    title: str
    make: Callable[[Options], Outcome]


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV, in a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        table.to_csv(temporary, index=False)


def write_picture(figure: Figure, image: Path) -> None:
    """Write a picture, and close it."""
    pyplot = require("matplotlib.pyplot", extra="plots", purpose="drawing a figure")
    with replacing(image) as temporary:
        figure.savefig(temporary, dpi=150)
    pyplot.close(figure)


def available() -> list[str]:
    """List the figures."""
    return sorted(_figures())


def find(name: str) -> PaperFigure:
    """Return the figure called ``name``."""
    if name not in _figures():
        raise InputError("FIGURE", f"be among {', '.join(available())}", repr(name))
    return _figures()[name]


@cache
def _figures() -> dict[str, PaperFigure]:
    """Collect the ``FIGURES`` of every module here; a new one needs no entry anywhere."""
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return {name: figure for module in modules for name, figure in getattr(module, "FIGURES", {}).items()}


# What is kept of a figure for the page: a later run adds its figures to those that were made in the same way.

FORMAT = "sparsemean-figure-1"
ENDING = ".figure.json"


@dataclass(frozen=True, slots=True)
class Record:
    """A figure that was made, as plain data.

    Attributes
    ----------
    name, title, images, notes
        As in `Outcome`; images lie in the same folder.
    made_with
        Versions, code, seed, trials and whether it was a quick look. Records that differ here are not put on one page.
    settings
        What was run.
    agreement
        Rows of `published.compare`, or None where nothing was compared.
    better
        Rows of `published.better`.
    table
        The measured table where it is short enough to be read.
    """

    name: str
    title: str
    images: list[str]
    notes: list[str]
    made_with: TableRow
    settings: object
    agreement: list[TableRow] | None
    better: list[TableRow]
    table: list[TableRow]
    format: str = FORMAT

    @classmethod
    def of(cls, outcome: Outcome, options: Options) -> Record:
        """Return what is kept of an outcome."""
        compared = None if outcome.agreement is None else _rows(outcome.agreement)
        short = _rows(outcome.table) if len(outcome.table) <= LONGEST else []
        attrs = {key: value for key, value in outcome.table.attrs.items() if key not in ("versions", "notes")}
        images = [os.path.relpath(image, options.out) for image in outcome.images]
        return cls(
            outcome.name, outcome.title, images, list(outcome.notes), made_with(options), attrs, compared,
            _rows(_better(outcome)), short,
        )  # fmt: skip

    def write(self, out: Path) -> None:
        """Write it into ``out``."""
        with replacing(out / f"{self.name}{ENDING}") as temporary:
            temporary.write_text(json.dumps(asdict(self), default=str), encoding="utf-8")


LONGEST = 60
"""Rows of a table that a page shows."""


def made_with(options: Options) -> TableRow:
    """Return what must be equal for figures to share a page."""
    made_by = {**messages.versions(), "code": fingerprint()}
    return {**made_by, "seed": options.seed, "trials": options.trials, "quick": options.quick}


def collect(options: Options, names: list[str]) -> tuple[list[Record], list[str]]:
    """Return the figures found in ``options.out`` that were made alike, and a sentence on each that was not."""
    kept, left_out = [], []
    for name in names:
        path = options.out / f"{name}{ENDING}"
        if not path.exists():
            continue
        try:
            record = Record(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, OSError):
            left_out.append(f"{path.name} cannot be read and is left out; making {name} again replaces it")
            continue
        differing = [
            f"{key} {record.made_with.get(key)}"
            for key, value in made_with(options).items()
            if record.made_with.get(key) != value
        ]
        if differing or record.format != FORMAT:
            left_out.append(f"{name} was made otherwise ({', '.join(differing) or record.format}) and is left out")
        else:
            kept.append(record)
    return kept, left_out


def _better(outcome: Outcome) -> pd.DataFrame:
    """Return by how much the default is better, where errors were compared with published ones."""
    wanted = {*published.POINT, "estimator", "error"}
    comparable = outcome.agreement is not None and wanted <= set(outcome.table.columns)
    if not comparable or outcome.name not in L2_FIGURES:
        return pd.DataFrame()
    return published.better(outcome.table)


L2_FIGURES = ("fig2b", "fig2c", "app_sensitivity", "app_different_k", "app_infinite_variance", "app_different_eps")
"""Those whose published points are errors; Fig 2a has success rates, Fig 1 trajectories, `runtime` seconds."""


def _rows(table: pd.DataFrame) -> list[TableRow]:
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
