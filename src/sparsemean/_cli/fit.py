"""The commands that read rows: ``sparsemean fit``, ``sketch`` and ``merge``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from sparsemean._cli import common_options
from sparsemean._cli.common_options import (
    SKETCH,
    echo,
    print_details,
    print_sentence,
    print_written,
    progressing,
    waiting,
)
from sparsemean._util.checks import is_auto
from sparsemean.errors import InputError, visible

if TYPE_CHECKING:
    from sparsemean._data.source import Array
    from sparsemean._data.table import ReadOptions, Table
    from sparsemean._evidence.counting.sketch import Sketch
    from sparsemean.result import Estimate
    from sparsemean.result.comparison import Comparison


COMPARISON = ("reference", "vs", "strata", "pairs", "covariate")
"""Options that mean nothing without --group."""
ONE_SAMPLE = (
    "test", "null", "paper", "refine", "refine_on", "screen_rows", "n_buckets", "random_state", "device",
)  # fmt: skip
NOT_OF_TRENDS = {"subject", "min_effect", "target", "scale", *COMPARISON, *ONE_SAMPLE} - {"strata"}
"""Options that mean nothing with --trend."""
"""Options that mean nothing where groups are compared; the seed draws rows of subjects and those of a scale."""
CONTROLS = ("control", "ctrl", "placebo", "baseline")
"""Labels of references that nobody has to name."""
NEARLY_ALL, MANY = 0.8, 10
"""Share of the features, and number of them, at which a mean says little."""


@click.command("fit", short_help="Which features have a mean other than 0, or differ.")
@click.argument("file", type=click.Path(path_type=Path))
@common_options.file_options
@click.option("--group", metavar="COLUMN", help="Compare the groups of rows that this column names.")
@click.option("--trend", metavar="COLUMN", help="Find what rises or falls with this column: a dose, an age, a time.")
@click.option(
    "--reference", metavar="LABEL",
    help="Group that others are compared with  [default: control, ctrl, placebo or baseline, else first of two].",
)  # fmt: skip
@click.option(
    "--vs", metavar="WHAT", help="rest: each group against the rest; each: against every other one; pairs: all pairs."
)
@click.option("--subject", metavar="COLUMN", help="The subject of each row: subjects are compared, not rows.")
@click.option(
    "--strata", multiple=True, metavar="COLUMN",
    help="Compare rows within each stratum only: batch, site, country; repeated: within each combination.",
)  # fmt: skip
@click.option("--pairs", metavar="COLUMN", help="Which two rows, one of each group, make a pair.")
@click.option(
    "--covariate", metavar="SUFFIX",
    help="Columns NAME+SUFFIX have values of NAME from before, which are taken off it; two of them, _older,_newer: of "
    "two stretches.",
)  # fmt: skip
@click.option("--alternative", default="two-sided", show_default=True, help="two-sided, greater or less.")
@click.option("--min-effect", type=float, default=0.0, show_default=True, help="What a mean or shift must exceed.")
@click.option("--test", default="auto", show_default=True, help="ranks, buckets, or auto: ranks up to 20,000 rows.")
@click.option("--target", default="centre", show_default=True, help="centre, or mean: whatever the skew.")
@click.option("--scale", type=float, default=None, help="Bound of the standard deviation, for --target mean.")
@click.option("--missing", default="raise", show_default=True, help="raise, or omit: use what is present.")
@common_options.share_option(
    "Share of bad rows, of each group with --group; 5%,10%: of the reference and of the others; auto: the "
    "suspicious rows."
)
@common_options.level_option()
@click.option("--selection", default="fwer", show_default=True, help="fwer, fdr, fdr_by, maxt or paper.")
@click.option("--null", type=float, default=0.0, show_default=True, help="The mean that is tested against.")
@click.option("--paper", is_flag=True, help="Algorithm 1, Stage 1, as published; --selection is ignored.")
@click.option(
    "--refine", default=None, metavar="NAME",
    help="auto, none, gd, filter or a compared method  [default: auto; none with --paper].",
)  # fmt: skip
@common_options.refinement_options
@click.option("--n-buckets", default=None, help="'paper', 'theory' or a number: one size, the paper's way.")
@common_options.seed_option("Seed of the buckets and of draws; ranks need none.")
@common_options.jobs
@click.option("--device", default=None, help="cpu or gpu: where to count [default: cpu].")
@click.option("--dask", metavar="tcp://HOST:PORT", help="Let the workers of this Dask scheduler read and count.")
@click.option(
    "--out", type=click.Path(path_type=Path),
    help="Write the result to .csv, .json, .parquet, or .h5ad (a copy of the input with it).",
)  # fmt: skip
@click.option("--unit", metavar="NOUN", help="What a row is called: patient  [default: row; sample below 100].")
@click.option("--feature", metavar="NOUN", help="What a column is called: gene  [default: feature].")
@click.option("--all", "every", is_flag=True, help="Write every feature to --out and --json, not the selected only.")
@click.option("--overwrite", is_flag=True, help="Allow --out to be the .h5ad file that is read.")
@common_options.output_options
@click.option("-v", "--verbose", is_flag=True, help="Say more of how it was read and done.")
@click.pass_context
def fit_command(
    context: click.Context,
    /,
    file: Path,
    json_file: str | None,
    out: Path | None,
    page: Path | None,
    every: bool,
    overwrite: bool,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Select the features of FILE whose mean is not zero, or differs by --group.

    Rows are observations, columns are features. Every selected feature comes
    with an interval, an adjusted p-value and the share of bad rows up to which
    it is selected.

    FILE ends in .csv, .tsv or .txt (also .gz), .xlsx, .parquet, .npy,
    .npz, .h5ad, .zarr or .h5; - reads text from standard input.
    """
    from sparsemean._data import open_file
    from sparsemean.result.comparison import called

    if quiet and verbose:
        raise InputError("--quiet", "be left out with --verbose", "both")
    if every and not out and json_file is None:
        raise InputError("--all", "come with --out or --json", "neither", "name a file: --out FILE.csv")
    wanted = replace(common_options.read_options(options), drop_empty=True)
    _refuse_others(context, wanted)
    annotated = out is not None and out.suffix.lower() == ".h5ad"
    if out is not None and annotated and file.suffix.lower() != ".h5ad":
        raise InputError("--out", "end in .h5ad only where the input does", repr(out.name))
    named = [("--out", out), ("--json", json_file), ("--report", page)]
    outputs = common_options.check_outputs(named, [file], replaced=out if annotated and overwrite else None)
    if options["device"] == "gpu" and options["dask"] is not None:
        raise InputError("--device", "be left out with --dask, whose workers count", "gpu")
    title = common_options.title_of(file)
    dask = options.pop("dask")
    began = time.perf_counter()
    with waiting(f"Reading {title}", quiet):
        table = open_file(file, wanted)
    opened = time.perf_counter() - began
    what = "which features have a mean" if wanted.group is None else f"what differs by {wanted.group}"
    what = what if wanted.trend is None else f"what rises or falls with {wanted.trend}"
    with contextlib.ExitStack() as stack:
        if dask is not None:
            table = stack.enter_context(_spread(table, file, wanted, quiet, dask))
        with progressing("Fitting" if wanted.group is None else "Comparing", quiet) as progress:
            nouns = options.pop("unit"), options.pop("feature")
            estimate = _estimate(table, wanted, options, progress)
            estimate = called(estimate, *nouns) if any(nouns) else estimate
        table.check_unchanged()
        _write(estimate, outputs, title=f"{title}: {what}", copied=file, overwrite=overwrite, every=every)
    seconds, more = time.perf_counter() - began, "" if verbose else common_options.MORE
    if json_file == "-" or not quiet:
        common_options.report(estimate, title, seconds, json_file=json_file, every=every, more=more)
    if json_file != "-" and not quiet:
        if verbose:
            print_details(estimate, table, opened)
        print_written(*(target for _, target in outputs))


@contextlib.contextmanager
def _spread(table: Table, file: Path, wanted: ReadOptions, quiet: bool, dask: str) -> Iterator[Table]:
    """Yield a table that workers read as long as the block lasts."""
    if str(file) == "-":
        raise InputError("--dask", "be left out for standard input, which no worker can read", dask)
    from sparsemean._data.dask import spread
    from sparsemean._util.cluster import cluster_client

    table = spread(table, file, wanted)
    with contextlib.ExitStack() as stack:
        with waiting(f"Asking {dask}", quiet):
            stack.enter_context(cluster_client(dask))
        yield table


def _estimate(
    table: Table, wanted: ReadOptions, options: dict[str, Any], progress: Callable[[float], None] | None
) -> Estimate | Comparison:
    """Fit one sample, or compare groups."""
    from sparsemean._fit import covariates, one_sample, two_sample

    reference, vs, covariate = (options.pop(name) for name in ("reference", "vs", "covariate"))
    if wanted.group is None and wanted.trend is None:
        _ask_of_one_sample(options)
        estimate = one_sample.fit(table, groups=table.columns.get("subject"), progress=progress, **options)
        return _hinted(estimate, table)
    y = "trend" if wanted.group is None else "group"
    flags = {"y": y, "groups": "subject", "strata": "strata", "pairs": "pairs"}
    called = {
        name: f"--{flag} {column if isinstance(column, str) else ' '.join(column)}"
        for name, flag in flags.items()
        if (column := getattr(wanted, flag))
    }
    if wanted.trend is not None:
        asked = {name: value for name, value in options.items() if name not in NOT_OF_TRENDS}
        numbers, asked["strata"] = table.columns["trend"], table.columns.get("strata")
        return one_sample.trend(table, numbers, called=called, progress=progress, **asked)
    labels, columns, before = table.groups, table.columns, None
    if reference is None and vs is None and labels is not None:
        classes = sorted(dict.fromkeys(labels.tolist()), key=str)
        controls = [label for label in classes if str(label).strip().lower() in CONTROLS]
        if len(controls) == 1 and (len(classes) > 2 or controls != classes[:1]):
            reference, note = controls[0], f"{controls[0]!r} was taken for the reference by its name; --reference "
            note += "names another" if len(classes) == 2 else "names another, --vs rest compares each with all others"
            table = replace(table, notes=(*table.notes, note))
    if covariate is not None:
        table, before = covariates.split(table, covariate.split(","))
        called["covariate"] = "--covariate"
    shared = {name: value for name, value in options.items() if name not in ONE_SAMPLE or name == "random_state"}
    return two_sample.compare(
        table, labels, vs=vs,
        reference=reference if reference is None or labels is None else _label(str(reference), labels),
        groups=columns.get("subject"), strata=columns.get("strata"), pairs=columns.get("pairs"), covariate=before,
        progress=progress, called=called, **shared,
    ).result  # fmt: skip


def _hinted(estimate: Estimate, table: Table) -> Estimate:
    """Point to groups where nearly all features of one sample have a mean, and a column may say the groups."""
    n, d = estimate.support.size, estimate.plan.n_features
    if not table.two_valued or d < MANY or n < NEARLY_ALL * d:
        return estimate
    name = table.two_valued[0]
    hint = f"{n} of {d} features have a mean, as counts and amounts do; --group {quote(name)} asks what differs by it"
    return replace(estimate, status=replace(estimate.status, messages=(*estimate.status.messages, hint)))


def _label(written: str, labels: Array) -> object:
    """Return the label that is written so; labels of a file may be numbers."""
    for label in dict.fromkeys(labels.tolist()):
        if written == str(label) or (isinstance(label, float) and written == f"{label:g}"):
            return label
    return written


def _ask_of_one_sample(options: dict[str, Any]) -> None:
    """Make options of the command line those of a fit."""
    from sparsemean._stats.planning import PRESET

    common_options.keep_given(options)
    with contextlib.suppress(TypeError, ValueError):
        options["n_buckets"] = int(options["n_buckets"])
    if options.pop("paper"):
        options.update({name: value for name, value in PRESET.items() if options.get(name) is None})
        options["selection"] = PRESET["selection"]


def _refuse_others(context: click.Context, wanted: ReadOptions) -> None:
    """Refuse options that a comparison, or a fit of one sample, would have to ignore."""
    compared, params = wanted.group is not None, context.params
    flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    if compared and wanted.trend is not None:
        raise InputError("--trend", "be left out with --group", repr(wanted.trend), "choose one of them")
    chosen = "group" if wanted.trend is None else "trend"
    for name in sorted(NOT_OF_TRENDS) if chosen == "trend" else ONE_SAMPLE if compared else COMPARISON:
        drawing = name == "random_state" and (wanted.subject or wanted.pairs or params["target"] == "mean")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and not drawing:
            value = " ".join(params[name]) if isinstance(params[name], tuple) else params[name]
            rule = f"be left out with --{chosen}" if compared or wanted.trend else "come with --group"
            raise InputError(flags[name], rule, repr(value))
    if not compared and isinstance(params["contamination"], tuple):
        raise InputError("--contamination", "be one number without --group", params["contamination"])
    if params["vs"] not in (None, "rest", "each", "pairs"):
        raise InputError("--vs", "be rest, each or pairs", repr(params["vs"]), "name one group with --reference")
    if params["vs"] is not None and params["reference"] is not None:
        raise InputError("--vs", "be left out with --reference", repr(params["vs"]), "choose one of them")


def _write(
    estimate: Estimate | Comparison,
    outputs: list[tuple[str, Path]],
    *,
    title: str,
    copied: Path | None = None,
    overwrite: bool = False,
    every: bool = False,
) -> None:
    """Write a result to every file that is named, to .h5ad files with a copy of the input."""
    from sparsemean._fit.write import write, write_h5ad

    for option, target in outputs:
        if option == "--report":
            estimate.report(target, title=title)
        elif copied is not None and target.suffix.lower() == ".h5ad":
            write_h5ad(estimate, copied, target, overwrite=overwrite)
        else:
            write(estimate, target, every=every)


# ``sparsemean sketch``.


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
    from sparsemean._data import open_file
    from sparsemean._evidence.counting.sketch import sketch

    target = _target(file, out)
    wanted = common_options.read_options(options)
    options["bucket_sizes"] = sizes_of(options["bucket_sizes"])
    began = time.perf_counter()
    title = common_options.title_of(file)
    with waiting(f"Reading {title}", quiet):
        table = open_file(file, wanted)
    with progressing("Counting", quiet) as progress:
        made = sketch(table, sealed=seal, progress=progress, **options)
    table.check_unchanged()
    made.save(target)
    if not quiet:
        for line in (
            f"{title}: {made.n_features:,} features, seed {made.seed}. {_held(made)}",
            *(f"Note: {note}." for note in table.notes),
        ):
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


def _held(sketch: Sketch) -> str:
    """Say which rows were seen and which were not, and whether the file holds some as they are."""
    from sparsemean._evidence.counting.sketch import spans

    said = f"Rows seen: {spans(sketch.ranges)}" + (f"; not seen: {spans(sketch.gaps)}" if sketch.gaps else "")
    if not sketch.rows_kept:
        return f"{said}. It holds counts only, no row as it is."
    kept = spans(tuple(rows.range for rows in sketch.pending))
    return f"{said}. It holds {sketch.rows_kept} rows as they are ({kept}), of blocks that are not complete."


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
@common_options.share_option("Share of bad rows; auto: the suspicious rows, which takes --rows.")
@common_options.level_option()
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
    and the share of bad rows up to which each is selected are those of one fit
    of all the rows. Estimates, intervals and suspects need the rows again, and
    so does the number of suspicious rows: --rows names the files with them, in
    the order of the rows; only a few columns are read. Without them name
    --contamination, 0 if no row is to be assumed bad, or just --out all.sketch,
    to add up.
    """
    from sparsemean._data import open_file
    from sparsemean._evidence.counting.merging import merge

    for path in out:
        if path.suffix.lower() not in (SKETCH, *RESULTS):
            raise InputError("--out", "end in .sketch, .csv, .json or .parquet", repr(path.name))
    named = [*(("--out", path) for path in out), ("--json", json_file), ("--report", page)]
    outputs = common_options.check_outputs(named, [*files, *rows])
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
            print_sentence(_held(together))
        return
    with waiting("Reading rows again" if rows else "Selecting", quiet):
        again = [open_file(path, wanted) for path in rows]
        estimate = together.estimate(again or None, **options)
        for table in again:
            table.check_unchanged()
    title = files[0].name if len(files) == 1 else f"{len(files)} sketches"
    _write(estimate, results, title=f"{title}: which features have a mean")
    if json_file == "-" or not quiet:
        common_options.report(estimate, title, time.perf_counter() - began, json_file=json_file)
    if json_file != "-" and not quiet:
        print_sentence(_held(together))
        print_written(*(target for _, target in results))
