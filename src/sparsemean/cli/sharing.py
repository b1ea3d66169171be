"""Options that several commands have, and what is done about the files they name."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate

Function = Callable[..., Any]
Option = Callable[[Function], Function]


def together(*options: Option) -> Option:
    """Return several options as one decorator, in the order in which help lists them."""

    def decorate(command: Function) -> Function:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


in_file = together(
    click.option("--id", metavar="COLUMN", help="Column with the names of the rows."),
    click.option("--select", multiple=True, metavar="NAME", help="Look at this column only; *, ? and repeats allowed."),
    click.option("--drop", multiple=True, metavar="NAME", help="Leave this column out; *, ? and repeats allowed."),
    click.option("--layer", metavar="NAME", help="Layer of an .h5ad file, in place of X."),
    click.option("--dataset", metavar="NAME", help="Array inside an .h5, .zarr or .npz file."),
    click.option("--header/--no-header", default=None, help="Whether a text's first line names columns."),
)
"""What of a file is meant."""
IN_FILE = ("id", "select", "drop", "layer", "dataset", "header")
deciding = together(
    click.option("-e", "--contamination", type=float, default=0.05, show_default=True, help="Share of bad rows."),
    click.option("--level", type=float, default=0.05, show_default=True, help="Error rate of the selection."),
    click.option("--noise", default="symmetric", show_default=True, help="symmetric, or skewed: up to 2,500 rows."),
)
refining = together(
    click.option("--refine-on", default="rows", show_default=True, help="rows or buckets."),
    click.option("--screen/--no-screen", "screen_rows", default=None, help="Leave suspect rows out of the estimates."),
)
showing = together(
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


def check_page(page: Path | None, inputs: Sequence[Path]) -> None:
    """Refuse a page that cannot be written, before anything is read."""
    if page is None:
        return
    from sparsemean.report.writing import check_target

    check_target(page, "--report")
    check_apart(page, inputs, "--report")


def show(estimate: Estimate, title: str, seconds: float, *, json_file: str | None, quiet: bool) -> None:
    """Print a result, as JSON where that is asked for."""
    from sparsemean.cli.showing import echo, report
    from sparsemean.output import as_json

    if json_file == "-":
        text = as_json(estimate)
        echo(text if _in_unicode() else json.dumps(json.loads(text), indent=2))
    elif not quiet:
        report(estimate, title, seconds)


def _in_unicode() -> bool:
    """Whether standard output has a code for every character; elsewhere JSON escapes all but plain letters."""
    return codecs.lookup(sys.stdout.encoding or "ascii").name.startswith("utf")
