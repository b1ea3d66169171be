"""``sparsemean sketch``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsemean.cli import sharing
from sparsemean.cli.showing import echo, progressing, say, visible, waiting
from sparsemean.errors import InputError
from sparsemean.files import check_writable

if TYPE_CHECKING:
    from sparsemean.sketching import Sketch

ENDING = ".sketch"


@click.command(short_help="Count some of the rows, to be merged with others.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--first-row", type=int, default=0, show_default=True, help="Number of the first row among all rows.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write  [default: beside FILE, .sketch].")
@click.option("--seed", type=int, default=0, show_default=True, help="Deals rows into buckets; the same for all.")
@sharing.in_file
@click.option("--missing", default="raise", show_default=True, help="raise, or omit: use what is present.")
@click.option("--null", type=float, default=0.0, show_default=True, help="The mean that is tested against.")
@click.option("--noise", default="symmetric", show_default=True, help="skewed counts larger buckets as well.")
@click.option("--bucket-sizes", metavar="1,2,4", default=None, help="Sizes to count  [default: 1,2,4].")
@click.option("--seal", is_flag=True, help="Keep no row: close the blocks at both ends.")
@sharing.jobs
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
    otherwise rows are dealt a little differently: guarantees under symmetric
    noise stay, skewed noise is refused where more than one block was closed
    so. Fewer than 64 rows cannot be sealed, as counts would give them away.
    """
    from sparsemean.sketching.making import sketch_table
    from sparsemean.sources import open_file
    from sparsemean.sources.wanted import Wanted

    target = _target(file, out)
    wanted = Wanted(group=None, **{name: options.pop(name) for name in sharing.IN_FILE})
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
    from sparsemean.sketching.sketched import spans

    sizes = ", ".join(map(str, made.bucket_sizes))
    return (
        f"rows {spans(made.ranges)} ({made.n_rows:,}), {made.n_features:,} features, "
        f"seed {made.seed}, buckets of {sizes}"
    )


def _kept(made: Sketch) -> str:
    """Say whether the file holds rows as they are."""
    if not made.rows_kept:
        return "It holds counts only, no row as it is."
    from sparsemean.sketching.sketched import spans

    kept = tuple((part.first_row, part.first_row + part.values.shape[0]) for part in made.told.loose)
    return (
        f"It holds {made.rows_kept} of the rows as they are ({spans(kept)}), as their blocks of 64 go on elsewhere; "
        "--seal keeps none."
    )
