"""Make figures one after the other; after each, what is known of all of them is on one page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsemean.checks import integer
from sparsemean.errors import require
from sparsemean.studies import agreement, figure, page
from sparsemean.studies.figure import Options, Outcome
from sparsemean.studies.record import Record, collect
from sparsemean.studies.store import Store, alone
from sparsemean.studies.sweeping import trials_folder


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A figure that was made, and how long it took."""

    outcome: Outcome
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """Where the page is, and how the figures on it agree with the published points."""

    page: Path
    summary: agreement.Summary
    left_out: list[str]


def reproduce(
    names: Sequence[str],
    options: Options,
    *,
    starting: Callable[[str], None] | None = None,
    made: Callable[[Made], None] | None = None,
) -> Report:
    """Make the figures called ``names``, all where none is named, and the page.

    Parameters
    ----------
    names
        Names of `figure.available`.
    options
        How they are made, and where they go.
    starting, made
        Are told the name of a figure when it begins and what became of it when it is done.
    """
    chosen = [(name, figure.find(name)) for name in (list(dict.fromkeys(names)) or in_order())]
    if options.trials is not None:
        integer(options.trials, argument="trials", least=1, rule="be a positive integer")
    integer(options.seed, argument="seed", least=0, rule="be an integer of at least 0")
    _drawable()
    Store(trials_folder(options.out), options.seed)  # refuses a folder that cannot be written before anything is run
    with alone(options.out):
        report = write_page(options)
        for name, module in chosen:
            if starting is not None:
                starting(name)
            began = time.perf_counter()
            outcome = module.make(options)
            Record.of(outcome, options).write(options.out)
            report = write_page(options)
            if made is not None:
                made(Made(outcome, time.perf_counter() - began))
    return report


def in_order() -> list[str]:
    """List the figures as the paper has them: those of the text, then the appendix, then what is measured besides."""
    return sorted(figure.available(), key=lambda name: (not name.startswith("fig"), name))


def write_page(options: Options) -> Report:
    """Write ``index.html`` and ``agreement.csv`` from every figure that was made with these options."""
    records, left_out = collect(options, in_order())
    return Report(*page.write(records, options, left_out), left_out)


def _drawable() -> None:
    """Refuse at once where pictures cannot be drawn, and draw without a screen."""
    require("matplotlib", extra="plots", purpose="drawing a figure").use("agg")
