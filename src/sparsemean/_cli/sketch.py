"""``sparsemean sketch`` and ``sparsemean merge``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsemean._cli import common_options
from sparsemean._cli.common_options import echo, progressing, say, waiting, written
from sparsemean._util.files import check_writable
from sparsemean.errors import InputError, visible

if TYPE_CHECKING:
    from sparsemean._counts.sketch import Sketch

ENDING = ".sketch"


@click.command(short_help="Count some of the rows, to be merged with others.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--first-row", type=int, default=0, show_default=True, help="Number of the first row among all rows.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write  [default: beside FILE, .sketch].")
@click.option("--seed", type=int, default=0, show_default=True, help="Deals rows into buckets; the same for all.")
@common_options.file_options
@click.option("--missing", default="raise", show_default=True, help="raise, or omit: use what is present.")
@click.option("--null", type=float, default=0.0, show_default=True, help="The mean that is tested against.")
@click.option("--bucket-sizes", metavar="1,2,4", default=None, help="Sizes to count  [default: 1,2,4].")
@click.option("--seal", is_flag=True, help="Keep no row: close the blocks at both ends.")
@common_options.jobs
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def sketch(file: Path, out: Path | None, seal: bool, seed: int, jobs: int | None, quiet: bool, **options: Any) -> None:
    """Count the rows of FILE so that they can be merged with rows elsewhere.

    What is written is a few counts a feature, not the data. Rows are dealt by
    their number among all rows, so say the first one's with --first-row. All
    files to be merged need one seed, the same bucket sizes, null and missing.

    Rows come in blocks of 64 by their number. Where FILE begins or ends inside
    a block, that block's rows, 126 at most, are kept in the sketch as they are,
    so that the merged answer is exactly that of one fit. --seal closes such
    blocks and keeps no row: for those who may not share any. Nothing is lost by
    that if the first row is a multiple of 64 and no row comes after the last;
    otherwise rows are dealt a little differently, and guarantees stay. Fewer
    than 64 rows cannot be sealed, as counts would give them away.
    """
    from sparsemean._counts.sketch import sketch_table
    from sparsemean._data import open_file
    from sparsemean._data.table import ReadOptions

    target = _target(file, out)
    wanted = ReadOptions(group=None, **{name: options.pop(name) for name in common_options.IN_FILE})
    options["bucket_sizes"] = sizes_of(options["bucket_sizes"])
    began = time.perf_counter()
    title = "standard input" if str(file) == "-" else file.name
    with waiting(f"Reading {title}", quiet):
        table = open_file(file, wanted)
    with progressing("Counting", quiet) as progress:
        made = sketch_table(table, random_state=seed, sealed=seal, n_jobs=jobs, progress=progress, **options)
    table.check_unchanged()
    made.save(target)
    if not quiet:
        for line in (f"{title}: {_said(made)}", _kept(made), *(f"Note: {note}." for note in table.notes)):
            say(line)
        size = target.stat().st_size
        echo(f"Written: {visible(target)} ({size:,} bytes, {time.perf_counter() - began:.2f} s)")


def sizes_of(text: str | None) -> tuple[int, ...] | str:
    """Return bucket sizes as they are typed, ``1,2,4``."""
    if text is None:
        return "auto"
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        raise InputError("--bucket-sizes", "be numbers between commas, such as 1,2,4", repr(text)) from None


def check_sketch_target(target: Path) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if target.suffix.lower() != ENDING:
        raise InputError("--out", f"end in {ENDING}", repr(target.name))
    check_writable(target, "--out")


def _target(file: Path, out: Path | None) -> Path:
    if out is None and str(file) == "-":
        raise InputError("--out", "be given where rows come from standard input", None)
    if not file.name:
        raise InputError("FILE", "be an existing file", f"{str(file)!r}, a directory", "check the path")
    if out is None:
        name = file.name.removesuffix(".gz")
        out = file.with_name(f"{Path(name).stem}{ENDING}")
    check_sketch_target(out)
    return out


def _said(made: Sketch) -> str:
    from sparsemean._counts.sketch import spans

    sizes = ", ".join(map(str, made.bucket_sizes))
    return (
        f"rows {spans(made.ranges)} ({made.n_rows:,}), {made.n_features:,} features, "
        f"seed {made.seed}, buckets of {sizes}"
    )


def _kept(made: Sketch) -> str:
    """Say whether the file holds rows as they are."""
    if not made.rows_kept:
        return "It holds counts only, no row as it is."
    from sparsemean._counts.sketch import spans

    kept = tuple(rows.range for rows in made.pending)
    return (
        f"It holds {made.rows_kept} of the rows as they are ({spans(kept)}), as their blocks of 64 go on elsewhere; "
        "--seal keeps none."
    )


# ``sparsemean merge``.

RESULTS = (".csv", ".json", ".parquet")
"""Endings of results that need no rows."""


@click.command(short_help="Add sketches up and say which features have a mean.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--rows", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Rows again, for estimates; repeated, in order.",
)  # fmt: skip
@common_options.file_options
@common_options.selection_options
@click.option("--selection", default="fwer", show_default=True, help="fwer, fdr or fdr_by.")
@click.option("--bucket-sizes", metavar="1,2,4", default=None, help="Some of those counted  [default: all].")
@click.option("--refine", default=None, metavar="NAME", help="auto, none or a compared method  [default: auto].")
@common_options.refinement_options
@common_options.jobs
@click.option(
    "--out", multiple=True, type=click.Path(path_type=Path),
    help="Write the merged sketch (.sketch) or the result (.csv, .json, .parquet); repeats allowed.",
)  # fmt: skip
@common_options.output_options
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
    from sparsemean._counts.merging import merge as merged
    from sparsemean._data import open_file
    from sparsemean._data.table import ReadOptions
    from sparsemean._fit.write import write

    results = [*(path for path in out if path.suffix.lower() != ENDING), *common_options.json_target(json_file)]
    sketches = [path for path in out if path.suffix.lower() == ENDING]
    _check_targets(results, sketches, [*files, *rows])
    common_options.check_page(page, [*files, *rows])
    named = [*(("--out", path) for path in out), *(("--json", path) for path in common_options.json_target(json_file))]
    common_options.check_outputs([*named, *([] if page is None else [("--report", page)])])
    wanted = ReadOptions(group=None, **{name: options.pop(name) for name in common_options.IN_FILE})
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
        estimate = together.estimate(again or None, n_jobs=jobs, **common_options.given(options))
        for table in again:
            table.check_unchanged()
    title = files[0].name if len(files) == 1 else f"{len(files)} sketches"
    for target in results:
        write(estimate, target)
    if page is not None:
        estimate.report(page, title=f"{title}: which features have a mean")
    common_options.show(estimate, title, time.perf_counter() - began, json_file=json_file, quiet=quiet)
    if json_file != "-" and not quiet:
        say(_covered(together))
        written(*results, *([] if page is None else [page]))


def _check_targets(results: list[Path], sketches: list[Path], inputs: list[Path]) -> None:
    """Refuse outputs that cannot be meant, before anything is read."""
    from sparsemean._fit.write import check_target

    for target in results:
        if target.suffix.lower() not in RESULTS:
            raise InputError("--out", "end in .sketch, .csv, .json or .parquet", repr(target.name))
        check_target(target)
    for target in sketches:
        check_sketch_target(target)
    for target in (*results, *sketches):
        common_options.check_apart(target, inputs)


def _covered(together: Sketch) -> str:
    """Say which rows were seen and which were not."""
    from sparsemean._counts.sketch import spans

    said = f"Rows seen: {spans(together.ranges)}"
    if together.gaps:
        said += f"; not seen: {spans(together.gaps)}"
    return f"{said}. It holds {together.rows_kept} rows as they are, of blocks that are not complete."
