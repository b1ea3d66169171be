"""Options that commands share, and what they show while they work and when they are done."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsemean._util.checks import AUTO, is_auto
from sparsemean.errors import InputError, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from sparsemean._data.table import Table
    from sparsemean.comparison import Comparison
    from sparsemean.result import Estimate

SHOWN = 20
"""Features that are printed: what was asked for stays in view on a terminal."""
PATIENCE = 2.0
"""Seconds after which a command shows how far it is."""
WIDTH = 80
"""Columns of the narrowest terminal in use, and of logs."""
MORE = "-v adds details: what is promised, and how it was done."
"""Said of a result where nobody has asked for them."""
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


def report(estimate: Estimate | Comparison, title: str, seconds: float, *, more: str = "") -> None:
    """Print shape, verdict, table, notes and the time, 80 columns wide; ``more`` says where the details are."""
    from rich.console import Console
    from rich.table import Table as Grid

    # names are printed as they are: no [markup], no :emoji:
    console = Console(width=min(WIDTH, Console().width), highlight=False, markup=False, emoji=False)
    with console.capture() as shown:
        _show(estimate, title, seconds, console=console, grid=Grid(box=None, pad_edge=False, header_style="bold"))
        if more:
            console.print(more)
    echo(shown.get().removesuffix("\n"))


def heading(estimate: Estimate | Comparison, title: str) -> str:
    """Return the line that says what was read."""
    from sparsemean._report.wording import wording_of

    one = _first(estimate)
    units = f"{wording_of(one).unit}s" if one.class_names is not None else "rows"
    return f"{visible(title)}: {one.plan.n_rows:,} {units} × {one.plan.n_features:,} columns"


def _first(estimate: Estimate | Comparison) -> Estimate:
    from sparsemean.comparison import Comparison

    return next(iter(estimate.results.values())) if isinstance(estimate, Comparison) else estimate


def _show(estimate: Estimate | Comparison, title: str, seconds: float, *, console: Console, grid: Grid) -> None:
    """Print a result on ``console``, the features, or the tests, in ``grid``."""
    from sparsemean._report import summary
    from sparsemean._report.guarantees import seed_decides
    from sparsemean._report.verdict import verdict
    from sparsemean.comparison import Comparison

    one = _first(estimate)
    console.print(heading(estimate, title))
    for line in verdict(estimate):
        console.print(visible(line))
    console.print()
    if isinstance(estimate, Comparison):
        _fill_tests(estimate, console, grid)
        notes = summary.shared_notes(list(estimate.results.values()))
    else:
        _fill_features(estimate, console, grid)
        notes = list(estimate.status.messages)
    for note in summary.notes(notes):
        console.print(visible(note))
    seed = f"Seed {one.seed}; " if seed_decides(one) else ""
    last = list(estimate.results.values())[-1] if isinstance(estimate, Comparison) else estimate
    console.print(f"{seed}{seconds:.2f} s in all, {last.status.seconds:.2f} s for the fit.")


def _fill_tests(comparison: Comparison, console: Console, grid: Grid) -> None:
    """Print a line for each test: how many features, and the strongest of them; where none, those of the closest."""
    from rich.table import Table as Grid

    from sparsemean._report.strongest import nearest, overview
    from sparsemean._report.wording import wordings_of

    for name in ("test", "rows", "features", "strongest first"):
        grid.add_column(name, justify="right" if name in ("rows", "features") else "left", overflow="fold")
    tests = overview(comparison)
    for row in tests:
        rows = f"{row['n label']:,} / {row['n reference']:,}"
        grid.add_row(visible(row["test"]), rows, f"{row['features']:,}", visible(row["strongest"]))
    console.print(grid)
    if not any(row["features"] for row in tests):
        estimates = list(comparison.results.values())
        at = nearest(wordings_of(comparison))
        console.print(f"\nClosest is {visible(tests[at]['test'])}:")
        _fill_features(estimates[at], console, Grid(box=None, pad_edge=False, header_style="bold"))


def _fill_features(estimate: Estimate, console: Console, grid: Grid) -> None:
    """Print the selected features; where there is none the strongest, and what it would take."""
    from sparsemean._report import strongest
    from sparsemean._report.wording import wording_of

    wording = wording_of(estimate)
    k = wording.k
    if not k and wording.paper:
        return
    lines = strongest.selected(wording, SHOWN) if k else strongest.closest(wording)
    for name in lines.headings:
        grid.add_column(name, justify="left" if name == "feature" else "right", overflow="fold")
    for feature, *cells in lines.rows:
        grid.add_row(visible(feature), *cells)
    console.print(grid)
    if not k and (takes := strongest.needed(wording)):
        console.print(takes)
    if k > SHOWN:
        console.print(f"… and {k - SHOWN} more; --out FILE.csv writes all of them")
    if strongest.has_centres(estimate):
        console.print("* centre, not mean; --target mean is about means")


def details(estimate: Estimate | Comparison, table: Table, opened: float) -> None:
    """Print what was done and is promised, how the file was read and with what the result was made."""
    one = next(iter(estimate.results.values())) if hasattr(estimate, "results") else estimate
    source, status = table.source, one.status
    kind = "sparse" if source.sparse else "dense"
    lines = [
        *_done_and_promised(estimate),
        f"Read along {source.along}, {kind}, {source.dtype}; {opened:.2f} s to open.",
        f"Bad rows allowed for: {one.plan.bad_rows} of {one.plan.n_units}. "
        f"Features walked step by step: {status.walked}.",
        "Made with " + ", ".join(f"{name} {version}" for name, version in status.versions.items()) + ".",
    ]
    for line in lines:
        say(line)


def _done_and_promised(estimate: Estimate | Comparison) -> list[str]:
    """Return what a summary says besides verdict and notes."""
    from sparsemean._report.summary import below_verdict

    return [line for line in below_verdict(estimate) if not line.startswith("Note: ")]


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


# Options that several commands have, and what is done about the files they name.

Function = Callable[..., Any]
Option = Callable[[Function], Function]


def combine_options(*options: Option) -> Option:
    """Return several options as one decorator, in the order in which help lists them."""

    def decorate(command: Function) -> Function:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _share(written: str) -> float:
    """Return a share that is written as a number or in percent."""
    try:
        number = float(written.removesuffix("%"))
    except ValueError:
        rule = "be auto, a share as 0.05 or 5%, or two of them with a comma between, for groups"
        raise InputError("--contamination", rule, repr(written)) from None
    return number / 100 if written.endswith("%") else number


def shares(_context: click.Context, _parameter: click.Parameter, value: Any) -> str | float | tuple[float, ...]:
    """Return a share, as a number or in percent, one for each of two groups with a comma between, or "auto"."""
    if is_auto(value):
        return AUTO
    shares = tuple(_share(part.strip()) for part in str(value).split(","))
    return shares if len(shares) > 1 else shares[0]


file_options = combine_options(
    click.option("--id", metavar="COLUMN", help="Column with the names of the rows."),
    click.option("--select", multiple=True, metavar="NAME", help="Look at this column only; *, ? and repeats allowed."),
    click.option("--drop", multiple=True, metavar="NAME", help="Leave this column out; *, ? and repeats allowed."),
    click.option("--layer", metavar="NAME", help="Layer of an .h5ad file, in place of X."),
    click.option("--dataset", metavar="NAME", help="Array inside an .h5, .zarr or .npz file, table of a database."),
    click.option("--drop-text", is_flag=True, help="Leave out all columns that hold no numbers."),
    click.option("--header/--no-header", default=None, help="Whether a text's first line names columns."),
    click.option("--sep", metavar="SIGN", help="What stands between columns of a text: ; , | tab  [default: judged]."),
    click.option("--decimal", metavar="SIGN", help="Decimal mark of a text: . or ,  [default: judged]."),
    click.option("--encoding", metavar="NAME", help="Encoding of a text: utf-8, utf-16, cp1252  [default: judged]."),
    click.option("--sheet", metavar="NAME", help="Sheet of an .xlsx file  [default: the first]."),
)
"""What of a file is meant, and how it is written."""
IN_FILE = (
    "id", "select", "drop", "drop_text", "layer", "dataset", "header", "sep", "decimal", "encoding", "sheet",
)  # fmt: skip
error_options = combine_options(
    click.option("--level", type=float, default=0.05, show_default=True, help="Error rate of the selection."),
)
selection_options = combine_options(
    click.option(
        "-e",
        "--contamination",
        metavar="SHARE",
        default=AUTO,
        show_default=True,
        callback=shares,
        help="Share of bad rows; auto: none, as counts tell of no row.",
    ),
    error_options,
)
refinement_options = combine_options(
    click.option("--refine-on", default="rows", show_default=True, help="rows or buckets."),
    click.option("--screen/--no-screen", "screen_rows", default=None, help="Leave suspect rows out of the estimates."),
)
output_options = combine_options(
    click.option(
        "--json", "json_file", is_flag=False, flag_value="-", default=None, metavar="[FILE.json]",
        help="Write JSON to FILE.json, or in place of the table if no file is named.",
    ),
    click.option(
        "--report", "page", type=click.Path(path_type=Path), metavar="FILE.html",
        help="Write a page for the browser: words, table, linked plots.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
)  # fmt: skip
"""How a result is shown."""
jobs: Option = click.option("--jobs", type=int, default=None, help="Threads [default: all cores].")


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of the command line that say how to estimate as those of a fit."""
    out = dict(options)
    if out["refine"] is None:
        del out["refine"]
    elif out["refine"].lower() == "none":
        out["refine"] = None
    if out["screen_rows"] is None:
        del out["screen_rows"]
    return out


def json_target(json_file: str | None) -> list[Path]:
    """Return the file that ``--json`` names, if any."""
    if json_file in (None, "-"):
        return []
    assert json_file is not None
    if not json_file.endswith(".json"):
        raise InputError("--json", "be followed by a name that ends in .json, or by none", repr(json_file))
    return [Path(json_file)]


def check_apart(target: Path, inputs: Sequence[Path], option: str = "--out", *, advice: str = "") -> None:
    """Refuse an output that is one of the inputs."""
    for file in inputs:
        if target.exists() and file.exists() and target.samefile(file):
            raise InputError(option, "differ from the input", repr(str(target)), f"choose another name{advice}")


def check_outputs(outputs: Iterable[tuple[str, Path]]) -> None:
    """Refuse two outputs, each with its option, that are one file, however it is spelled or linked to."""
    seen: dict[str, str] = {}
    for option, target in outputs:
        where = os.path.realpath(target)
        if where in seen:
            raise InputError(option, f"be another file than that of {seen[where]}", repr(str(target)))
        seen[where] = option


def check_page(page: Path | None, inputs: Sequence[Path]) -> None:
    """Refuse a page that cannot be written, before anything is read."""
    if page is None:
        return
    from sparsemean._report.page import check_report

    check_report(page, "--report")
    check_apart(page, inputs, "--report")


def show(
    estimate: Estimate | Comparison,
    title: str,
    seconds: float,
    *,
    json_file: str | None,
    quiet: bool,
    every: bool = False,
    more: str = "",
) -> None:
    """Print a result, as JSON where that is asked for, of every feature where that is; ``more`` tells of details."""
    from sparsemean._fit.write import as_json

    if json_file == "-":
        text = as_json(estimate, every=every)
        echo(text if _in_unicode() else json.dumps(json.loads(text), indent=2))
    elif not quiet:
        report(estimate, title, seconds, more=more)


def _in_unicode() -> bool:
    """Whether standard output has a code for every character; elsewhere JSON escapes all but plain letters."""
    return codecs.lookup(sys.stdout.encoding or "ascii").name.startswith("utf")
