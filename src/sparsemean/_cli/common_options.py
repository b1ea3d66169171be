"""Options that commands share, and what they show while they work and when they are done."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.core import ParameterSource

from sparsemean._util.checks import AUTO, is_auto, pluralize
from sparsemean.errors import InputError, visible

if TYPE_CHECKING:
    from sparsemean._data.table import ReadOptions, Table
    from sparsemean.result import Estimate
    from sparsemean.result.comparison import Comparison

SKETCH = ".sketch"
"""The ending of sketches."""
SHOWN, ALL_OF_THEM = 20, "; --out FILE.csv writes all of them"
"""Features that are printed, what was asked for stays in view on a terminal; and where the others are."""
PATIENCE = 2.0
"""Seconds after which a command shows how far it is."""
STEPS = 1000
"""Of a whole, that a command shows."""
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
        close_unread(stream)


def close_unread(stream: TextIO) -> None:
    """Send nowhere what is still to be written to a pipe whose end is closed."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), stream.fileno())


def print_sentence(sentence: str) -> None:
    """Print a sentence, 80 columns wide."""
    echo(click.wrap_text(visible(sentence), WIDTH))


def print_written(*targets: object, err: bool = False) -> None:
    """Name the files that were written."""
    for target in targets:
        echo(f"Written: {visible(target)}", err=err)


def report(
    estimate: Estimate | Comparison,
    title: str,
    seconds: float,
    *,
    json_file: str | None = None,
    every: bool = False,
    more: str = "",
) -> None:
    """Print shape, verdict, table, notes and the time, 80 columns wide; ``more`` says where the details are.

    Where that is asked for, print JSON in place of it, of every feature if wanted.
    """
    from sparsemean._fit.write import as_json
    from sparsemean.result._report import summary
    from sparsemean.result._report.guarantees import seed_decides
    from sparsemean.result.comparison import tests_of

    if json_file == "-":
        text, encoding = as_json(estimate, every=every), codecs.lookup(sys.stdout.encoding or "ascii").name
        # Where a character may have no code JSON escapes all but plain letters.
        echo(text if encoding.startswith("utf") else json.dumps(json.loads(text), indent=2))
        return
    tests, width, said = tests_of(estimate), min(WIDTH, shutil.get_terminal_size().columns), summary.notes(estimate)
    seed, left = f"Seed {tests[0].seed}; " if seed_decides(tests[0]) else "", len(said) - summary.NOTED
    lines = [
        heading(estimate, title),
        *summary.verdict_and_table(estimate, most=SHOWN, width=width, rest=ALL_OF_THEM),
        *(summary.wrap(note, width) for note in (said[: summary.NOTED] if more else said)),
        f"{seed}{seconds:.2f} s in all, {tests[-1].status.seconds:.2f} s for the fit.",
        *([more if left <= 0 else more.replace("adds", f"adds {pluralize(left, 'note')} and")] if more else []),
    ]
    echo("\n".join(lines))


def heading(estimate: Estimate | Comparison, title: str) -> str:
    """Return the line that says what was read."""
    from sparsemean.result.comparison import tests_of

    one = tests_of(estimate)[0]
    return (
        f"{visible(title)}: {one.plan.n_rows:,} {'pairs' if one.paired else 'rows'} × {one.plan.n_features:,} columns"
    )


def print_details(estimate: Estimate | Comparison, table: Table, opened: float) -> None:
    """Print what was done and is promised, how the file was read and with what the result was made."""
    from sparsemean.result._report.summary import below_verdict
    from sparsemean.result.comparison import tests_of

    one = tests_of(estimate)[0]
    source, status = table.source, one.status
    lines = [
        *(line for line in below_verdict(estimate) if not line.startswith("Note: ")),
        f"Read along {source.along}, {'sparse' if source.sparse else 'dense'}, {source.dtype}; {opened:.2f} s to open.",
        "Made with " + ", ".join(f"{name} {version}" for name, version in status.versions.items()) + ".",
    ]
    for line in lines:
        print_sentence(line)


@contextlib.contextmanager
def waiting(what: str, quiet: bool) -> Iterator[None]:
    """Show on a terminal that something is being done whose end is not known."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    click.echo(f"{visible(what)} …", nl=False, err=True)
    try:
        yield
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)


Progress = Callable[[float], None]
"""Is told the share that is done."""


@contextlib.contextmanager
def progressing(what: str, quiet: bool) -> Iterator[Progress | None]:
    """Show on a terminal the share done and the time left, once it has taken two seconds."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    began, bar = time.perf_counter(), click.progressbar(length=STEPS, label=what, file=sys.stderr)

    def update(share: float) -> None:
        if time.perf_counter() - began > PATIENCE:
            bar.update(round(STEPS * share) - bar.pos)

    try:
        yield update
    finally:
        if bar.pos:
            bar.render_finish()


# Options that several commands have, and what is done about the files they name.

Function = Callable[..., object]
Option = Callable[[Function], Function]


def combine_options(*options: Option) -> Option:
    """Return several options as one decorator, in the order in which help lists them."""

    def decorate(command: Function) -> Function:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def as_share(written: str, argument: str) -> float:
    """Return a share that is written as a number or in percent."""
    try:
        number = float(written.removesuffix("%"))
    except ValueError:
        rule = "be auto, a share as 0.05 or 5%, or two of them with a comma between, for groups"
        raise InputError(
            argument, rule if "contamination" in argument else "be 0.05 or 5%, say", repr(written)
        ) from None
    return number / 100 if written.endswith("%") else number


def _shares(
    _context: click.Context, parameter: click.Parameter, value: object
) -> str | float | tuple[float, ...] | None:
    """Return a share, as a number or in percent, one for each of two groups with a comma between, or "auto"."""
    if value is None or isinstance(value, float):
        return value
    if is_auto(value):
        return AUTO
    shares = tuple(as_share(part.strip(), parameter.opts[-1]) for part in str(value).split(","))
    return shares if len(shares) > 1 else shares[0]


file_options = combine_options(
    click.option("--id", metavar="COLUMN", help="Column with the names of the rows."),
    click.option("--select", multiple=True, metavar="NAME", help="Look at this column only; *, ? and repeats allowed."),
    click.option("--drop", multiple=True, metavar="NAME", help="Leave this column out; *, ? and repeats allowed."),
    click.option("--layer", metavar="NAME", help="Layer of an .h5ad file, in place of X."),
    click.option("--dataset", "--sheet", metavar="NAME", help="Which array or sheet of a file."),
    click.option("--drop-text", is_flag=True, help="Leave out all columns that hold no numbers."),
    click.option(
        "--transpose", is_flag=True,
        help="Features are in rows. --group and similar options then name a row, --id, --select and --drop columns of "
        "the file. The whole table is read into memory.",
    ),
    click.option(
        "--na", multiple=True, metavar="TEXT",
        help="What stands for a missing value in a text; implies --missing omit; repeats allowed.",
    ),
    click.option("--header/--no-header", default=None, help="Whether a text's first line names columns."),
    click.option("--sep", metavar="SIGN", help="What stands between columns of a text: ; , | tab  [default: judged]."),
    click.option("--decimal", metavar="SIGN", help="Decimal mark of a text: . or ,  [default: judged]."),
    click.option("--encoding", metavar="NAME", help="Encoding of a text: utf-8, utf-16, cp1252  [default: judged]."),
)  # fmt: skip
"""What of a file is meant, and how it is written."""


def read_options(options: dict[str, Any]) -> ReadOptions:
    """Take those of ``options`` that are about the file; who says what stands for gaps wants them passed over."""
    from sparsemean._data.table import ReadOptions

    source = click.get_current_context().get_parameter_source("missing")
    if options["na"] and source is ParameterSource.DEFAULT:
        options["missing"] = "omit"
    names = [field.name for field in fields(ReadOptions) if field.name in options]
    return ReadOptions(**{name: options.pop(name) for name in names})


def share_option(about: str, metavar: str = "SHARE", default: str | None = AUTO, shown: str | bool = True) -> Option:
    """Return the option that says how many rows may be bad."""
    flags = ("-e", "--contamination")
    return click.option(*flags, metavar=metavar, default=default, show_default=shown, callback=_shares, help=about)


def seed_option(about: str) -> Option:
    """Return the option that names the seed."""
    return click.option("--seed", "random_state", type=int, default=0, show_default=True, help=about)


def level_option(about: str = "Error rate of the selection, as 0.05 or 5%.") -> Option:
    """Return the option that names the error rate."""
    return click.option(
        "--level", type=click.UNPROCESSED, metavar="SHARE", default=0.05, show_default=True, callback=_shares,
        help=about,
    )  # fmt: skip


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
jobs: Option = click.option("--jobs", "n_jobs", type=int, default=None, help="Threads [default: all cores].")


def keep_given(options: dict[str, object]) -> None:
    """Make options that say how to estimate those of a fit: what nobody named is left out, none is None."""
    for name in ("refine", "screen_rows"):
        if options[name] is None:
            del options[name]
    if str(options.get("refine", "")).lower() == "none":
        options["refine"] = None


def check_outputs(
    named: Iterable[tuple[str, Path | str | None]],
    inputs: Sequence[Path],
    *,
    replaced: Path | None = None,
    check: Callable[[Path, str], object] | None = None,
) -> list[tuple[str, Path]]:
    """Return the files that options name, each with its option; - is no file.

    Refuse what cannot be written (by ``check``, where results are of another kind), an input that is not to be
    ``replaced``, and one file twice, however spelled.
    """
    from sparsemean._fit import write
    from sparsemean._util.files import check_writable
    from sparsemean.result._report.page import check_report

    outputs = [(option, Path(target)) for option, target in named if target not in (None, "-")]
    seen: dict[str, str] = {}
    for option, target in outputs:
        if option == "--json" and target.suffix != ".json":
            raise InputError(option, "be followed by a name that ends in .json, or by none", repr(str(target)))
        if check is not None:
            check(target, option)
        elif option == "--report":
            check_report(target, option)
        elif target.suffix.lower() == SKETCH:
            check_writable(target, option)
        else:
            write.check_target(target)
        if target != replaced and any(target.exists() and at.exists() and target.samefile(at) for at in inputs):
            advice = ", or allow it with --overwrite" if target.suffix.lower() == ".h5ad" else ""
            raise InputError(option, "differ from the input", repr(str(target)), f"choose another name{advice}")
        where = os.path.realpath(target)
        if where in seen:
            raise InputError(option, f"be another file than that of {seen[where]}", repr(str(target)))
        seen[where] = option
    return outputs


def title_of(file: Path) -> str:
    """Return what a file is called where something is said of it."""
    return "standard input" if str(file) == "-" else file.name
