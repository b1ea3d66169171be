"""What a figure is: a module under ``figures/`` with a ``TITLE`` and ``make(options) -> Outcome``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from sparsemean.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_FIGURES = "sparsemean.studies.figures"


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


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A figure that was made: its table, its picture, how it agrees with the published points, and what to say."""

    name: str
    title: str
    table: pd.DataFrame
    images: tuple[Path, ...] = ()
    agreement: pd.DataFrame | None = None
    notes: list[str] = field(default_factory=list)


class Figure(Protocol):
    """A module of ``figures``."""

    TITLE: str

    def make(self, options: Options) -> Outcome:
        """Run what is missing and write table and picture."""
        ...


def available() -> list[str]:
    """List the figures."""
    folder = importlib.import_module(_FIGURES)
    return sorted(module.name for module in pkgutil.iter_modules(folder.__path__))


def find(name: str) -> Figure:
    """Return the figure called ``name``."""
    if name not in available():
        raise InputError("FIGURE", f"be among {', '.join(available())}", repr(name))
    return cast(Figure, importlib.import_module(f"{_FIGURES}.{name}"))
