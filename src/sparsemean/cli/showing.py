"""What commands show while they work and when they are done, 80 columns wide; how a terminal takes it is no error."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from sparsemean.estimate import Estimate
    from sparsemean.sources.table import Table

SHOWN = 20
PATIENCE = 2.0
"""Seconds after which a command shows how far it is."""
WIDTH = 80
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Characters that move, hide or turn round what a terminal shows."""
PLAIN = {
    "…": "...", "–": "-", "−": "-", "×": "x", "·": "*", "±": "+-", "’": "'", "“": '"', "”": '"', "→": "->",
    "≤": "<=", "≥": ">=", "∞": "inf", "√": "sqrt ", "⌈": "ceil(", "⌉": ")", "ℓ": "l", "α": "alpha", "β": "beta",
    "δ": "delta", "ε": "epsilon", "η": "eta", "μ": "mu", "σ": "sigma",
}  # fmt: skip
"""Our own signs, where an encoding lacks them."""


def steady_streams() -> None:
    """Make standard output and error take any text: what is closed goes nowhere, what has no code is spelt out."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # the next file to be opened would be taken for the terminal
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
    codecs.register_error("sparsemean", _spelt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="sparsemean")


def _spelt(error: UnicodeError) -> tuple[str, int]:
    """Return in plain letters what an encoding lacks."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    plain = "".join(PLAIN.get(sign) or sign.encode("ascii", "backslashreplace").decode() for sign in lacking)
    return plain, error.end


def visible(text: object) -> str:
    """Return a text with its control characters written out, so that no name can speak to the terminal."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def echo(text: str, *, err: bool = False) -> None:
    """Print, unless nobody reads on: a closed pipe is no reason to give up the work."""
    stream = sys.stderr if err else sys.stdout
    try:
        click.echo(text, file=stream)  # named, or click would write UTF-8 where ASCII is asked for
    except BrokenPipeError:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), stream.fileno())


def say(sentence: str) -> None:
    """Print a sentence, 80 columns wide."""
    echo(click.wrap_text(visible(sentence), WIDTH))


def written(*targets: object, err: bool = False) -> None:
    """Name the files that were written."""
    for target in targets:
        echo(f"Written: {visible(target)}", err=err)


def report(estimate: Estimate, title: str, seconds: float) -> None:
    """Print shape, table, one sentence and the time, 80 columns wide."""
    from rich.console import Console
    from rich.table import Table as Grid

    # names are printed as they are: no [markup], no :emoji:
    console = Console(width=min(WIDTH, Console().width), highlight=False, markup=False, emoji=False)
    with console.capture() as shown:
        _show(estimate, title, seconds, console=console, grid=Grid(box=None, pad_edge=False, header_style="bold"))
    echo(shown.get().removesuffix("\n"))


def _show(estimate: Estimate, title: str, seconds: float, *, console: Console, grid: Grid) -> None:
    """Print a result on ``console``, the features in ``grid``."""
    plan = estimate.plan
    console.print(f"{visible(title)}: {plan.n_rows:,} rows × {plan.n_features:,} columns")
    selected = estimate.table()
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
        grid.add_row(visible(row.feature), *cells)
    if len(selected):
        console.print(grid)
    if len(selected) > SHOWN:
        console.print(f"… and {len(selected) - SHOWN} more; --out FILE.csv writes all of them")
    console.print(visible(estimate.summary()))
    seed = "" if estimate.labels is not None else f"Seed {estimate.seed}; "
    console.print(f"{seed}{seconds:.2f} s in all, {estimate.status.seconds:.2f} s for the fit.")


def details(estimate: Estimate, table: Table, opened: float) -> None:
    """Print how the file was read and with what the result was made."""
    source, status = table.source, estimate.status
    kind = "sparse" if source.sparse else "dense"
    lines = [
        f"Read along {source.along}, {kind}, {source.dtype}; {opened:.2f} s to open.",
        f"Bad rows allowed for: {estimate.plan.bad_rows} of {estimate.plan.n_units}. "
        f"Features walked step by step: {status.walked}.",
        "Made with " + ", ".join(f"{name} {version}" for name, version in status.versions.items()) + ".",
    ]
    for line in lines:
        say(line)


@contextlib.contextmanager
def waiting(what: str, quiet: bool) -> Iterator[None]:
    """Show on a terminal that something is being done whose end is not known."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True, markup=False, emoji=False).status(visible(what), spinner="line"):
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
