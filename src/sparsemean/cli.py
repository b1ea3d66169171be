"""The command line: fit, demo, plan, reproduce, bench. One clear line and status 2 for bad input, never a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsemean import __version__
from sparsemean.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate
    from sparsemean.sources.table import Table

SHOWN = 20
PATIENCE = 2.0
"""Seconds after which a command shows how far it is."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, package_name="sparsemean", message="%(prog)s %(version)s")
def commands() -> None:
    """Which of very many features have a mean that is not zero, and how large it is."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with 0 (done), 2 (bad input) or 1 (anything else)."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        commands.main(args=arguments, prog_name="sparsemean", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as help_text:
        click.echo(help_text.format_message())
        return 2
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except (InputError, OSError) as error:
        return _complain(str(error), 2)
    except MissingExtraError as error:
        return _complain(str(error), 1)
    except (click.Abort, KeyboardInterrupt) as stop:
        return _complain(str(stop) or "interrupted; no file was changed", 130)
    except Exception as error:
        if os.environ.get("SPARSEMEAN_DEBUG"):
            raise
        return _complain(f"internal error, {type(error).__name__}: {error} (SPARSEMEAN_DEBUG=1 shows where)", 1)
    return 0


def _complain(message: str, status: int) -> int:
    click.echo(f"sparsemean: {' '.join(message.split())}", err=True)
    return status


@commands.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-e", "--contamination", type=float, default=0.05, show_default=True, help="Share of bad rows.")
@click.option("--selection", default="fwer", show_default=True, help="fwer, fdr, fdr_by or paper.")
@click.option("--level", type=float, default=0.05, show_default=True, help="Error rate of the selection.")
@click.option("--noise", default="symmetric", show_default=True, help="symmetric or skewed.")
@click.option("--null", type=float, default=0.0, show_default=True, help="The mean that is tested against.")
@click.option("--paper", is_flag=True, help="Algorithm 1, Stage 1, as published; --selection is ignored.")
@click.option(
    "--refine", default=None, metavar="NAME",
    help="auto, none, gd, filter or a compared method  [default: auto; none with --paper].",
)  # fmt: skip
@click.option("--refine-on", default="rows", show_default=True, help="rows or buckets.")
@click.option("--screen/--no-screen", "screen_rows", default=None, help="Leave suspect rows out of the estimates.")
@click.option("--n-buckets", default=None, help="'paper', 'theory' or a number: one size, the paper's way.")
@click.option("--seed", type=int, default=None, help="Deals rows into buckets; drawn and printed if not given.")
@click.option("--jobs", type=int, default=None, help="Threads [default: all cores].")
@click.option(
    "--json", "json_file", is_flag=False, flag_value="-", default=None, metavar="[FILE.json]",
    help="Write JSON to FILE.json, or in place of the table if no file is named.",
)  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="Write the selected features to .csv, .json or .parquet.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def fit(file: Path, json_file: str | None, out: Path | None, quiet: bool, paper: bool, **options: Any) -> None:
    """Select the features of FILE (.npy, .csv, .parquet) whose mean is not zero.

    Rows are observations, columns are features. Every selected feature comes
    with an interval, an adjusted p-value and the share of bad rows it survives.
    """
    from sparsemean import fitting
    from sparsemean.output import as_json, write
    from sparsemean.planning.paper import PRESET
    from sparsemean.sources import open_file

    targets = [target for target in (out, Path(json_file) if json_file not in (None, "-") else None) if target]
    _check_targets(file, targets, json_file)
    options["random_state"], options["n_jobs"] = options.pop("seed"), options.pop("jobs")
    with contextlib.suppress(TypeError, ValueError):
        options["n_buckets"] = int(options["n_buckets"])
    if options["refine"] is None:
        del options["refine"]
    elif options["refine"].lower() == "none":
        options["refine"] = None
    if options["screen_rows"] is None:
        del options["screen_rows"]
    if paper:
        given = {name: value for name, value in options.items() if name != "selection" and value is not None}
        options = {**PRESET, **given}
    began = time.perf_counter()
    with _waiting(f"Reading {file.name}", quiet):
        table = open_file(file)
    with _progress("Fitting", quiet) as progress:
        estimate = fitting.fit(table, progress=progress, **options)
    for target in targets:
        write(estimate, target)
    if json_file == "-":
        click.echo(as_json(estimate))
    elif not quiet:
        _report(estimate, table, file.name, time.perf_counter() - began)
        for target in targets:
            click.echo(f"Written: {target}")


def _check_targets(file: Path, targets: list[Path], json_file: str | None) -> None:
    """Refuse outputs that cannot be meant, before anything is read."""
    from sparsemean.output import check_target

    if json_file not in (None, "-") and not str(json_file).endswith(".json"):
        raise InputError("--json", "be followed by a name that ends in .json, or by none", repr(json_file))
    for target in targets:
        check_target(target)
        if target.exists() and file.exists() and target.samefile(file):
            raise InputError("--out", "differ from the input", repr(str(target)), "choose another name")


@commands.command()
def demo() -> None:
    """Run on the shipped data: the probes that differ between men and women.

    125 leukaemia patients, 12,625 probes, about six of the patients mislabelled.
    """
    from sparsemean import demonstration

    began = time.perf_counter()
    with _progress("Comparing", quiet=False) as progress:
        estimate, table, samples = demonstration.run(progress)
    _report(estimate, table, "Gene expression (log2), men against women", time.perf_counter() - began)
    click.echo(click.wrap_text(demonstration.meaning(estimate, samples), width=80))


@commands.command()
@click.argument("n", type=int)
@click.argument("d", type=int)
@click.option("-e", "--contamination", type=float, default=0.05, show_default=True, help="Share of bad rows.")
@click.option("--level", type=float, default=0.05, show_default=True, help="Family-wise error rate.")
@click.option("--power", type=float, default=0.8, show_default=True, help="Probability of finding an effect.")
@click.option("--effect", type=float, default=None, help="A mean, in standard deviations: how many rows does it need?")
@click.option("--k", type=int, default=1, show_default=True, help="Sparsity in the paper's theorems.")
@click.option("--sigma", type=float, default=1.0, show_default=True, help="Standard deviation in the theorems.")
@click.option("--delta", type=float, default=0.05, show_default=True, help="Failure probability in the theorems.")
def plan(n: int, d: int, **options: Any) -> None:
    """Say what N rows of D features can show, before any data are seen."""
    from sparsemean.planning import plan as make_plan

    made = make_plan(n, d, **options)
    assert made.outlook is not None
    click.echo(click.wrap_text(made.summary(), width=80))
    click.echo("\n  bucket of   buckets   majority needed   detectable mean (σ)")
    for row in made.outlook.table:
        click.echo(f"  {row['size']:>9.0f} {row['buckets']:>9.0f} {row['majority']:>17.0f} {row['effect']:>21.3g}")
    click.echo("\nThe paper's theorems:")
    for theorem, quantity, value in made.outlook.theorems:
        click.echo(click.wrap_text(f"{quantity}: {value:,.4g} ({theorem})", 80, "  ", "    "))


@commands.command()
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
        click.echo("\n".join(f"{name:<22} {figure.find(name).TITLE}" for name in figure.available()))
        return
    try:
        with _figures_progress() as told:
            made = figure.Options(out, n_jobs=jobs, progress=told.pop("progress"), **options)
            report = reproducing.reproduce(figures, made, **told)
    except KeyboardInterrupt:
        kept = f"interrupted; finished trials are kept in {out}: the same command goes on from there"
        raise click.Abort(kept) from None
    for sentence in report.left_out:
        click.echo(sentence)
    click.echo(f"{report.page}: {report.summary.sentence()}")


def _figure_line(made: Any) -> None:
    from sparsemean.studies.agreement import summarise

    compared = "" if made.outcome.agreement is None else f"  {summarise(made.outcome.agreement).sentence()}"
    click.echo(f"{made.outcome.name:<22}{made.seconds:7.1f} s{compared}")
    for note in made.outcome.notes:
        click.echo(click.wrap_text(note, 80, "  ", "  "))


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


@commands.command()
@click.argument("names", nargs=-1)
@click.option("--quick", is_flag=True, help="Smaller problems, less than a minute in all.")
@click.option("--repeat", type=click.IntRange(min=1), default=7, show_default=True, help="Best of this many.")
@click.option("--list", "listing", is_flag=True, help="List the benchmarks and stop.")
def bench(names: tuple[str, ...], quick: bool, repeat: int, listing: bool) -> None:
    """Measure speed and memory as ratios taken in one run, best of several."""
    from sparsemean import bench as benchmarks

    if listing:
        click.echo("\n".join(benchmarks.available()))
        return
    show: Callable[[Any], None] = lambda row: click.echo(_bench_line(row))  # noqa: E731
    rows = benchmarks.run(list(names) or None, quick=quick, repeat=repeat, on_row=show)
    missed = sum(row.met is False for row in rows)
    click.echo(f"{len(rows)} rows, {missed} outside their bar")


def _bench_line(row: Any) -> str:
    mark = {True: "ok  ", False: "MISS", None: "    "}[row.met]
    aim = f" (bar {row.bar_text})" if row.met is not None else ""
    line = f"{mark} {row.value:8.3g} {row.unit:<3}{row.name}"
    return line + (f"\n{'':17}{row.detail}{aim}" if row.detail or aim else "")


def _report(estimate: Estimate, table: Table, title: str, seconds: float) -> None:
    """Print shape, table, one sentence and the time, 80 columns wide."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    console = Console(width=min(80, Console().width), highlight=False)
    n, d = table.shape
    console.print(f"{escape(title)}: {n:,} rows × {d:,} columns")
    selected = estimate.table()
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("feature", overflow="fold")
    for name in ("estimate", "interval", "p adjusted", "radius", "survives"):
        grid.add_column(name, justify="right")
    row: Any
    for row in selected.head(SHOWN).itertuples():
        interval = f"{row.ci_low:.3g} … {row.ci_high:.3g}"
        survives = f"{row.max_contamination:.1%}".replace("nan%", "–")
        cells = (f"{row.estimate:.4g}", interval, f"{row.p_adjusted:.2g}", str(row.radius), survives)
        grid.add_row(escape(str(row.feature)), *cells)
    if len(selected):
        console.print(grid)
    if len(selected) > SHOWN:
        console.print(f"… and {len(selected) - SHOWN} more; --out FILE.csv writes all of them")
    console.print(escape(estimate.summary()))
    seed = "" if estimate.labels is not None else f"Seed {estimate.seed}; "
    console.print(f"{seed}{seconds:.2f} s in all, {estimate.status.seconds:.2f} s for the fit.")


@contextlib.contextmanager
def _waiting(what: str, quiet: bool) -> Iterator[None]:
    """Show on a terminal that something is being done whose end is not known."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextlib.contextmanager
def _progress(what: str, quiet: bool) -> Iterator[Callable[[float], None] | None]:
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
