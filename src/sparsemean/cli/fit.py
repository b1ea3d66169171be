"""``sparsemean fit``."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import click

from sparsemean.cli.showing import progressing, report, waiting
from sparsemean.errors import InputError


@click.command(short_help="Which features of a file have a mean or differ.")
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
    with waiting(f"Reading {file.name}", quiet):
        table = open_file(file)
    with progressing("Fitting", quiet) as progress:
        estimate = fitting.fit(table, progress=progress, **options)
    for target in targets:
        write(estimate, target)
    if json_file == "-":
        click.echo(as_json(estimate))
    elif not quiet:
        report(estimate, table, file.name, time.perf_counter() - began)
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
