"""``sparsemean fit``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from sparsemean.cli.showing import details, progressing, report, waiting
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate
    from sparsemean.sources.table import Table
    from sparsemean.sources.wanted import Wanted

ONE_SAMPLE = ("noise", "null", "paper", "refine", "refine_on", "screen_rows", "n_buckets", "seed")
"""Options that mean nothing where two groups are compared."""
IN_FILE = ("id", "group", "select", "drop", "layer", "dataset")
"""Options that say what of the file is meant."""
ELSEWHERE = ("dask", "workers", "worker_memory")
"""Options that say who reads and counts."""


@click.command(short_help="Which features of a file have a mean or differ.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--id", metavar="COLUMN", help="Column with the names of the rows.")
@click.option("--group", metavar="COLUMN", help="Compare the two groups of rows that this column names.")
@click.option("--select", multiple=True, metavar="NAME", help="Look at this column only; *, ? and repeats allowed.")
@click.option("--drop", multiple=True, metavar="NAME", help="Leave this column out; *, ? and repeats allowed.")
@click.option("--layer", metavar="NAME", help="Layer of an .h5ad file, in place of X.")
@click.option("--dataset", metavar="NAME", help="Array inside an .h5, .zarr or .npz file.")
@click.option("--missing", default="raise", show_default=True, help="raise, or omit: use what is present.")
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
    "--dask", metavar="WHERE", default=None,
    help="Let workers read and count: local, or the address of a scheduler, tcp://host:port.",
)  # fmt: skip
@click.option("--workers", type=int, default=None, help="Workers of --dask local [default: one a core].")
@click.option("--worker-memory", metavar="SIZE", default=None, help="Memory of each, such as 1GB.")
@click.option(
    "--json", "json_file", is_flag=False, flag_value="-", default=None, metavar="[FILE.json]",
    help="Write JSON to FILE.json, or in place of the table if no file is named.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="Write the result to .csv, .json, .parquet, or .h5ad (a copy of the input with it).",
)  # fmt: skip
@click.option(
    "--report", "page", type=click.Path(path_type=Path), metavar="FILE.html",
    help="Write a page for the browser: words, table, linked plots.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Allow --out to be the .h5ad file that is read.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("-v", "--verbose", is_flag=True, help="Say more of how it was read and done.")
@click.pass_context
def fit(
    context: click.Context,
    /,
    file: Path,
    json_file: str | None,
    out: Path | None,
    page: Path | None,
    overwrite: bool,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Select the features of FILE whose mean is not zero, or differs by --group.

    Rows are observations, columns are features. Every selected feature comes
    with an interval, an adjusted p-value and the share of bad rows it survives.

    FILE ends in .npy, .npz, .csv or .tsv (also .gz), .parquet, .feather, .h5ad,
    .zarr, .h5 or .mtx; - reads comma-separated text from standard input.
    """
    from sparsemean.output import as_json
    from sparsemean.sources import open_file
    from sparsemean.sources.wanted import Wanted

    if quiet and verbose:
        raise InputError("--quiet", "be left out with --verbose", "both")
    targets = [target for target in (out, Path(json_file) if json_file not in (None, "-") else None) if target]
    _check_targets(file, targets, json_file, overwrite)
    _check_page(file, page)
    wanted = Wanted(**{name: options.pop(name) for name in IN_FILE})
    if wanted.group is not None:
        _refuse_one_sample(context)
    title = "standard input" if str(file) == "-" else file.name
    elsewhere = {name: options.pop(name) for name in ELSEWHERE}
    began = time.perf_counter()
    with waiting(f"Reading {title}", quiet):
        table = open_file(file, wanted)
    opened = time.perf_counter() - began
    with _spread(table, file, wanted, quiet, **elsewhere) as table:
        with progressing("Fitting" if wanted.group is None else "Comparing", quiet) as progress:
            estimate = _estimate(table, wanted.group, options, progress)
        for target in targets:
            _write(estimate, file, target, overwrite)
        if page is not None:
            _write_page(estimate, page, wanted.group, title)
            targets.append(page)
    if json_file == "-":
        click.echo(as_json(estimate))
    elif not quiet:
        report(estimate, table, title, time.perf_counter() - began)
        if verbose:
            details(estimate, table, opened)
        for target in targets:
            click.echo(f"Written: {target}")


@contextlib.contextmanager
def _spread(
    table: Table,
    file: Path,
    wanted: Wanted,
    quiet: bool,
    *,
    dask: str | None,
    workers: int | None,
    worker_memory: str | None,
) -> Iterator[Table]:
    """Yield the table as it is, or as one that workers read as long as the block lasts."""
    if dask is None:
        for flag, value in (("--workers", workers), ("--worker-memory", worker_memory)):
            if value is not None:
                raise InputError(flag, "come with --dask local", value)
        yield table
        return
    if str(file) == "-":
        raise InputError("--dask", "be left out for standard input, which no worker can read", dask)
    from sparsemean.clusters.starting import working
    from sparsemean.sources.spread import spread

    table = spread(table, file, wanted)
    with contextlib.ExitStack() as stack:
        with waiting("Starting workers" if dask == "local" else f"Asking {dask}", quiet):
            stack.enter_context(working(dask, workers=workers, memory=worker_memory))
        yield table


def _estimate(table: Table, group: str | None, options: dict[str, Any], progress: Any) -> Estimate:
    """Fit one sample, or compare two groups."""
    from sparsemean import comparing, fitting

    if group is not None:
        given = {name: options[name] for name in ("contamination", "level", "missing")}
        estimate, _ = comparing.compare(
            table, table.groups, selection_rule=options["selection"], n_jobs=options["jobs"], progress=progress,
            argument=f"--group {group}", **given,
        )  # fmt: skip
        return estimate
    return fitting.fit(table, progress=progress, **_one_sample(options))


def _one_sample(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the command line as those of a fit."""
    from sparsemean.planning.paper import PRESET

    given = dict(options)
    paper = given.pop("paper")
    given["random_state"], given["n_jobs"] = given.pop("seed"), given.pop("jobs")
    with contextlib.suppress(TypeError, ValueError):
        given["n_buckets"] = int(given["n_buckets"])
    if given["refine"] is None:
        del given["refine"]
    elif given["refine"].lower() == "none":
        given["refine"] = None
    if given["screen_rows"] is None:
        del given["screen_rows"]
    if not paper:
        return given
    return {**PRESET, **{name: value for name, value in given.items() if name != "selection" and value is not None}}


def _refuse_one_sample(context: click.Context) -> None:
    """Refuse options that a comparison would have to ignore."""
    for name in ONE_SAMPLE:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = "--screen" if name == "screen_rows" else f"--{name.replace('_', '-')}"
            raise InputError(flag, "be left out with --group", repr(context.params[name]))


def _check_targets(file: Path, targets: list[Path], json_file: str | None, overwrite: bool) -> None:
    """Refuse outputs that cannot be meant, before anything is read."""
    from sparsemean.output import check_target

    if json_file not in (None, "-") and not str(json_file).endswith(".json"):
        raise InputError("--json", "be followed by a name that ends in .json, or by none", repr(json_file))
    for target in targets:
        annotated = target.suffix.lower() == ".h5ad"
        if annotated and file.suffix.lower() != ".h5ad":
            raise InputError("--out", "end in .h5ad only where the input does", repr(target.name))
        check_target(target)
        if target.exists() and file.exists() and target.samefile(file) and not (annotated and overwrite):
            advice = "choose another name" + (", or allow it with --overwrite" if annotated else "")
            raise InputError("--out", "differ from the input", repr(str(target)), advice)


def _write(estimate: Estimate, file: Path, target: Path, overwrite: bool) -> None:
    if target.suffix.lower() == ".h5ad":
        from sparsemean.annotating import write_h5ad

        write_h5ad(estimate, file, target, overwrite=overwrite)
        return
    from sparsemean.output import write

    write(estimate, target)


def _check_page(file: Path, page: Path | None) -> None:
    """Refuse a page that cannot be written, before anything is read."""
    if page is None:
        return
    from sparsemean.report.writing import check_target

    check_target(page, "--report")
    if page.exists() and file.exists() and page.samefile(file):
        raise InputError("--report", "differ from the input", repr(str(page)), "choose another name")


def _write_page(estimate: Estimate, page: Path, group: str | None, title: str) -> None:
    """Write the report."""
    what = "which features have a mean" if group is None else f"what differs by {group}"
    estimate.report(page, title=f"{title}: {what}")
