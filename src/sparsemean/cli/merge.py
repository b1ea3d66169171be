"""``sparsemean merge``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsemean.cli import sharing
from sparsemean.cli.showing import say, waiting, written
from sparsemean.cli.sketch import ENDING, check_sketch_target, sizes_of
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean.sketching import Sketch

RESULTS = (".csv", ".json", ".parquet")
"""Endings of results that need no rows."""


@click.command(short_help="Add sketches up and say which features have a mean.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--rows", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Rows again, for estimates; repeated, in order.",
)  # fmt: skip
@sharing.in_file
@sharing.deciding
@click.option("--selection", default="fwer", show_default=True, help="fwer, fdr or fdr_by.")
@click.option("--bucket-sizes", metavar="1,2,4", default=None, help="Some of those counted  [default: all].")
@click.option("--refine", default=None, metavar="NAME", help="auto, none or a compared method  [default: auto].")
@sharing.refining
@sharing.jobs
@click.option(
    "--out", multiple=True, type=click.Path(path_type=Path),
    help="Write the merged sketch (.sketch) or the result (.csv, .json, .parquet); repeats allowed.",
)  # fmt: skip
@sharing.showing
def merge(
    files: tuple[Path, ...],
    rows: tuple[Path, ...],
    out: tuple[Path, ...],
    json_file: str | None,
    page: Path | None,
    jobs: int | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Add up sketches of rows and say which features have a mean.

    Each FILE was written by sparsemean sketch. The selected features, p-values
    and the share of bad rows that each survives are those of one fit of all the
    rows. Estimates, intervals and suspects need the rows again: --rows names
    the files with them, in the order of the rows; only a few columns are read.
    """
    from sparsemean.output import write
    from sparsemean.sketching import merge as merged
    from sparsemean.sources import open_file
    from sparsemean.sources.wanted import Wanted

    results = [*(path for path in out if path.suffix.lower() != ENDING), *sharing.json_target(json_file)]
    sketches = [path for path in out if path.suffix.lower() == ENDING]
    _check_targets(results, sketches, [*files, *rows])
    sharing.check_page(page, [*files, *rows])
    wanted = Wanted(group=None, **{name: options.pop(name) for name in sharing.IN_FILE})
    options["bucket_sizes"] = sizes_of(options["bucket_sizes"])
    began = time.perf_counter()
    with waiting(f"Adding {len(files)} sketches", quiet):
        together = merged(files)
        for target in sketches:
            together.save(target)
    if not quiet:  # there whatever comes of the rest: more rows may follow
        written(*sketches, err=json_file == "-")
    with waiting("Reading rows again" if rows else "Selecting", quiet):
        again = [open_file(path, wanted) for path in rows]
        estimate = together.estimate(again or None, n_jobs=jobs, **sharing.given(options))
        for table in again:
            table.check_unchanged()
    title = files[0].name if len(files) == 1 else f"{len(files)} sketches"
    for target in results:
        write(estimate, target)
    if page is not None:
        estimate.report(page, title=f"{title}: which features have a mean")
    sharing.show(estimate, title, time.perf_counter() - began, json_file=json_file, quiet=quiet)
    if json_file != "-" and not quiet:
        say(_covered(together))
        written(*results, *([] if page is None else [page]))


def _check_targets(results: list[Path], sketches: list[Path], inputs: list[Path]) -> None:
    """Refuse outputs that cannot be meant, before anything is read."""
    from sparsemean.output import check_target

    for target in results:
        if target.suffix.lower() not in RESULTS:
            raise InputError("--out", "end in .sketch, .csv, .json or .parquet", repr(target.name))
        check_target(target)
    for target in sketches:
        check_sketch_target(target)
    for target in (*results, *sketches):
        sharing.check_apart(target, inputs)


def _covered(together: Sketch) -> str:
    """Say which rows were seen and which were not."""
    from sparsemean.sketching.sketched import spans

    said = f"Rows seen: {spans(together.ranges)}"
    if together.gaps:
        said += f"; not seen: {spans(together.gaps)}"
    return f"{said}. It holds {together.rows_kept} rows as they are, of blocks that are not complete."
