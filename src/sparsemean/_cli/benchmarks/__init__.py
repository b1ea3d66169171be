"""Benchmarks by name: every speed and memory number as a ratio taken in one run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from sparsemean._cli.benchmarks.timing import Row, forget
from sparsemean._util.checks import integer
from sparsemean.errors import InputError

__all__ = ["Row", "available", "run"]

QUICK_REPEAT = 3


Case = Callable[..., Iterator[Row]]
"""A benchmark: ``case(quick=…, repeat=…)`` yields the rows as they are measured; ``quick`` takes smaller shapes."""
CASES = {
    "against_median": "speed.against_median",
    "certified_fit": "speed.certified_fit",
    "counting_pass": "speed.counting_pass",
    "dask": "scale.dask_workers",
    "dask_default": "scale.dask_default",
    "default_fit": "default_fit.default_fit",
    "far": "scale.far_reckoning",
    "gpu": "gpu.gpu",
    "groups": "speed.groups",
    "growth": "speed.growth",
    "large_files": "files.large_files",
    "memory": "files.memory",
    "paper_fit": "speed.paper_fit",
    "plain_iteration": "speed.plain_iteration",
    "ranks": "speed.ranks",
    "sketches": "files.sketches",
    "small": "speed.small",
    "sparse": "speed.sparse_matrix",
    "start": "files.start",
    "ties": "ties.ties",
}
"""Module and function of each benchmark, loaded when it is run."""


def available() -> list[str]:
    """List the names of the benchmarks.

    Examples
    --------
    >>> "paper_fit" in available()
    True
    """
    return sorted(CASES)


def find(name: str) -> Case:
    """Return the benchmark called ``name``."""
    if name not in available():
        raise InputError("names", f"be among {', '.join(available())}", repr(name))
    module, _, function = CASES[name].partition(".")
    return cast(Case, getattr(importlib.import_module(f"{__name__}.{module}"), function))


def run(
    names: Sequence[str] | None = None,
    *,
    quick: bool = False,
    repeat: int = 7,
    on_row: Callable[[Row], None] | None = None,
) -> list[Row]:
    """Run benchmarks and return their rows.

    Parameters
    ----------
    names : sequence of str, optional
        Which ones, of `available`; all of them by default.
    quick : bool
        Smaller shapes and at most three repeats, under a minute in all. Bars hold for the full shapes only, so
        most rows then have none.
    repeat : int
        How often each side is timed; the best counts.
    on_row : callable, optional
        Is told each row as soon as it is measured.
    """
    repeat = integer(repeat, argument="repeat", least=1, rule="be an integer of at least 1")
    rows: list[Row] = []
    try:
        for case in [find(name) for name in (available() if names is None else names)]:
            for measured in case(quick=quick, repeat=min(repeat, QUICK_REPEAT) if quick else repeat):
                row = measured if measured.always or not quick else replace(measured, bar=None)
                rows.append(row)
                if on_row is not None:
                    on_row(row)
    finally:
        forget()
    return rows
