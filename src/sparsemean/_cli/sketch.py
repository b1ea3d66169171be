"""``sparsemean sketch`` and ``sparsemean merge``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsemean._cli import common_options
from sparsemean._cli.common_options import SKETCH, echo, print_sentence, print_written, progressing, waiting
from sparsemean._util.checks import is_auto
from sparsemean.errors import InputError, visible

if TYPE_CHECKING:
    from sparsemean._counts.sketch import Sketch


@click.command("sketch", short_help="Count some of the rows, to be merged with others.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--first-row", type=int, default=0, show_default=True, help="Number of the first row among all rows.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write  [default: beside FILE, .sketch].")
@common_options.seed_option("Deals rows into buckets; the same for all.")
@common_options.file_options
@click.option("--missing", default="raise", show_default=True, help="raise, or omit: use what is present.")
@click.option("--null", type=float, default=0.0, show_default=True, help="The mean that is tested against.")
@click.option("--bucket-sizes", metavar="1,2,4", default=None, help="Sizes to count  [default: 1,2,4].")
@click.option("--seal", is_flag=True, help="Keep no row: close the blocks at both ends.")
@common_options.jobs
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def sketch_command(file: Path, out: Path | None, seal: bool, quiet: bool, **options: Any) -> None:
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

    target = _target(file, out)
    wanted = common_options.read_options(options)
    options["bucket_sizes"] = sizes_of(options["bucket_sizes"])
    began = time.perf_counter()
    title = common_options.title_of(file)
    with waiting(f"Reading {title}", quiet):
        table = open_file(file, wanted)
    with progressing("Counting", quiet) as progress:
        made = sketch_table(table, sealed=seal, progress=progress, **options)
    table.check_unchanged()
    made.save(target)
    if not quiet:
        for line in (f"{title}: {_said(made)}", _kept(made), *(f"Note: {note}." for note in table.notes)):
            print_sentence(line)
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


def _target(file: Path, out: Path | None) -> Path:
    if out is None and str(file) == "-":
        raise InputError("--out", "be given where rows come from standard input", None)
    if not file.name:
        raise InputError("FILE", "be an existing file", f"{str(file)!r}, a directory", "check the path")
    if out is None:
        name = file.name.removesuffix(".gz")
        out = file.with_name(f"{Path(name).stem}{SKETCH}")
    if out.suffix.lower() != SKETCH:
        raise InputError("--out", f"end in {SKETCH}", repr(out.name))
    common_options.check_outputs([("--out", out)], [])
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


@click.command("merge", short_help="Add sketches up and say which features have a mean.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--rows", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Rows again, for estimates; repeated, in order.",
)  # fmt: skip
@common_options.file_options
@common_options.share_option("Share of bad rows; auto: as many as look bad, which takes --rows.")
@common_options.level
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
def merge_command(
    files: tuple[Path, ...],
    rows: tuple[Path, ...],
    out: tuple[Path, ...],
    json_file: str | None,
    page: Path | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Add up sketches of rows and say which features have a mean.

    Each FILE was written by sparsemean sketch. The selected features, p-values
    and the share of bad rows that each survives are those of one fit of all the
    rows. Estimates, intervals and suspects need the rows again, and so does the
    number of rows that look bad: --rows names the files with them, in the order
    of the rows; only a few columns are read. Without them name --contamination,
    0 if no row is to be assumed bad, or just --out all.sketch, to add up.
    """
    from sparsemean._counts.merging import merge
    from sparsemean._data import open_file
    from sparsemean._fit.write import write

    outputs = common_options.outputs_of(out, json_file, page)
    for path in out:
        if path.suffix.lower() not in (SKETCH, *RESULTS):
            raise InputError("--out", "end in .sketch, .csv, .json or .parquet", repr(path.name))
    common_options.check_outputs(outputs, [*files, *rows])
    wanted = common_options.read_options(options)
    options["bucket_sizes"] = sizes_of(options["bucket_sizes"])
    common_options.keep_given(options)
    began = time.perf_counter()
    sketches = [path for path in out if path.suffix.lower() == SKETCH]
    with waiting(f"Adding {len(files)} sketches", quiet):
        together = merge(files)
        for target in sketches:
            together.save(target)
    if not quiet:  # there whatever comes of the rest: more rows may follow
        print_written(*sketches, err=json_file == "-")
    results = [(option, target) for option, target in outputs if target not in sketches]
    if sketches and not (rows or results or json_file) and is_auto(options["contamination"]):
        if not quiet:
            print_sentence(_covered(together))
        return
    with waiting("Reading rows again" if rows else "Selecting", quiet):
        again = [open_file(path, wanted) for path in rows]
        estimate = together.estimate(again or None, **options)
        for table in again:
            table.check_unchanged()
    title = files[0].name if len(files) == 1 else f"{len(files)} sketches"
    for option, target in results:
        if option == "--report":
            estimate.report(target, title=f"{title}: which features have a mean")
        else:
            write(estimate, target)
    common_options.show(estimate, title, time.perf_counter() - began, json_file=json_file, quiet=quiet)
    if json_file != "-" and not quiet:
        print_sentence(_covered(together))
        print_written(*(target for _, target in results))


def _covered(together: Sketch) -> str:
    """Say which rows were seen and which were not."""
    from sparsemean._counts.sketch import spans

    said = f"Rows seen: {spans(together.ranges)}"
    if together.gaps:
        said += f"; not seen: {spans(together.gaps)}"
    return f"{said}. It holds {together.rows_kept} rows as they are, of blocks that are not complete."
