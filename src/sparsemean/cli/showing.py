"""What commands show while they work and when they are done, 80 columns wide."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate
    from sparsemean.sources.table import Table

SHOWN = 20
PATIENCE = 2.0
"""Seconds after which a command shows how far it is."""


def report(estimate: Estimate, title: str, seconds: float) -> None:
    """Print shape, table, one sentence and the time, 80 columns wide."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    console = Console(width=min(80, Console().width), highlight=False)
    plan = estimate.plan
    console.print(f"{escape(title)}: {plan.n_rows:,} rows × {plan.n_features:,} columns")
    selected = estimate.table()
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("feature", overflow="fold")
    adjusted, sure = ("q_value", "q") if plan.selection in ("fdr", "fdr_by") else ("p_adjusted", "p adjusted")
    for name in ("estimate", "interval", sure, "radius", "survives"):
        grid.add_column(name, justify="right")
    row: Any
    for row in selected.head(SHOWN).itertuples():
        interval = f"{row.ci_low:.3g} … {row.ci_high:.3g}".replace("nan … nan", "–")
        survives = f"{row.max_contamination:.1%}".replace("nan%", "–")
        value = f"{row.estimate:.4g}".replace("nan", "–")
        cells = (value, interval, f"{getattr(row, adjusted):.2g}", str(row.radius), survives)
        grid.add_row(escape(str(row.feature)), *cells)
    if len(selected):
        console.print(grid)
    if len(selected) > SHOWN:
        console.print(f"… and {len(selected) - SHOWN} more; --out FILE.csv writes all of them")
    console.print(escape(estimate.summary()))
    seed = "" if estimate.labels is not None else f"Seed {estimate.seed}; "
    console.print(f"{seed}{seconds:.2f} s in all, {estimate.status.seconds:.2f} s for the fit.")


def details(estimate: Estimate, table: Table, opened: float) -> None:
    """Print how the file was read and with what the result was made."""
    import click

    source, status = table.source, estimate.status
    kind = "sparse" if source.sparse else "dense"
    lines = [
        f"Read along {source.along}, {kind}, {source.dtype}; {opened:.2f} s to open.",
        f"Bad rows allowed for: {estimate.plan.bad_rows} of {estimate.plan.n_units}. "
        f"Features walked step by step: {status.walked}.",
        "Made with " + ", ".join(f"{name} {version}" for name, version in status.versions.items()) + ".",
    ]
    for line in lines:
        click.echo(click.wrap_text(line, 80))


@contextlib.contextmanager
def waiting(what: str, quiet: bool) -> Iterator[None]:
    """Show on a terminal that something is being done whose end is not known."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextlib.contextmanager
def progressing(what: str, quiet: bool) -> Iterator[Callable[[float], None] | None]:
    """Show on a terminal the share done and the time left, once it has taken two seconds."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=1.0)
    began = time.perf_counter()

    def update(share: float) -> None:
        if time.perf_counter() - began > PATIENCE:
            bar.start()
        bar.update(task, completed=share)

    try:
        yield update
    finally:
        bar.stop()
