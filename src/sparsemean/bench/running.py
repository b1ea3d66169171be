"""Find the benchmarks and run them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

from sparsemean.bench import cases, data
from sparsemean.bench.row import Row
from sparsemean.checks import integer
from sparsemean.errors import InputError

QUICK_REPEAT = 3


class Case(Protocol):
    """A benchmark: a module of ``cases`` with a docstring and this function."""

    def rows(self, *, quick: bool, repeat: int) -> Iterator[Row]:
        """Yield the rows as they are measured; ``quick`` takes smaller shapes."""
        ...  # pragma: no cover


def available() -> list[str]:
    """List the names of the benchmarks.

    Examples
    --------
    >>> "paper_fit" in available()
    True
    """
    return sorted(module.name for module in pkgutil.iter_modules(cases.__path__))


def find(name: str) -> Case:
    """Return the benchmark called ``name``."""
    if name not in available():
        raise InputError("names", f"be among {', '.join(available())}", repr(name))
    return cast(Case, importlib.import_module(f"{cases.__name__}.{name}"))


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
            for row in case.rows(quick=quick, repeat=min(repeat, QUICK_REPEAT) if quick else repeat):
                rows.append(row)
                if on_row is not None:
                    on_row(row)
    finally:
        data.forget()
    return rows
