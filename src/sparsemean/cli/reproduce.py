"""``sparsemean reproduce``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from sparsemean.cli.showing import echo, visible


@click.command(short_help="Make the figures of the paper again.")
@click.argument("figures", nargs=-1)
@click.option("--trials", type=int, default=None, help="Data sets a point  [default: the published number].")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder.")
@click.option("--quick", is_flag=True, help="A coarse grid and two trials: minutes, a look and no reproduction.")
@click.option("--jobs", type=int, default=None, help="Processes [default: all cores].")
@click.option("--seed", type=int, default=0, show_default=True, help="What the seeds of all trials are made from.")
@click.option("--list", "listing", is_flag=True, help="List the figures and stop.")
def reproduce(figures: tuple[str, ...], out: Path, listing: bool, jobs: int | None, **options: Any) -> None:
    """Make the FIGURES of the paper again, all if none is named.

    Published points stand beside ours, and one page collects everything. A run
    that is stopped goes on where it was: finished trials are kept.
    """
    from sparsemean.studies import figure, reproducing

    if listing:
        echo("\n".join(f"{name:<22} {figure.find(name).TITLE}" for name in figure.available()))
        return
    try:
        with _figures_progress() as told:
            made = figure.Options(out, n_jobs=jobs, progress=told.pop("progress"), **options)
            report = reproducing.reproduce(figures, made, **told)
    except KeyboardInterrupt:
        kept = f"interrupted; finished trials are kept in {out}: the same command goes on from there"
        raise click.Abort(kept) from None
    for sentence in report.left_out:
        echo(visible(sentence))
    echo(f"{visible(report.page)}: {report.summary.sentence()}")


def _figure_line(made: Any) -> None:
    from sparsemean.studies.agreement import summarise

    compared = "" if made.outcome.agreement is None else f"  {summarise(made.outcome.agreement).sentence()}"
    echo(f"{made.outcome.name:<22}{made.seconds:7.1f} s{compared}")
    for note in made.outcome.notes:
        echo(click.wrap_text(note, 80, "  ", "  "))


@contextlib.contextmanager
def _figures_progress() -> Iterator[dict[str, Any]]:
    """Show on a terminal which figure is made, the trials done and the time left; yield whom to tell of these."""
    if not sys.stderr.isatty():
        yield {"starting": None, "made": _figure_line, "progress": None}
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=300)

    def starting(name: str) -> None:
        for old in bar.task_ids:
            bar.remove_task(old)
        bar.add_task(name, total=None)
        bar.start()

    def made(figure: Any) -> None:
        bar.stop()  # the line would be written into the bar
        _figure_line(figure)

    def progress(done: int, total: int) -> None:
        bar.update(bar.task_ids[-1], completed=done, total=total)

    try:
        yield {"starting": starting, "made": made, "progress": progress}
    finally:
        bar.stop()
