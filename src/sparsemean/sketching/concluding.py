"""From counts to an estimate: without the rows what the counts decide, with the rows again the values as well."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from sparsemean import certifying, fitting, improving
from sparsemean.errors import InputError
from sparsemean.estimate import Estimate
from sparsemean.partition import cut_blocks, deal
from sparsemean.passes import stream
from sparsemean.planning.fits import AUTO_SIZES
from sparsemean.reading import Reading
from sparsemean.records import BLOCK, Counts, FloatArray, IntArray, Plan, Ranges, Told
from sparsemean.sketching.making import SKEWED_SIZES
from sparsemean.sketching.rows_again import Unread, holding, rows_again
from sparsemean.sketching.sketched import Sketch
from sparsemean.sources.source import Held
from sparsemean.sources.table import Table

NEEDS_ROWS = (
    "estimates, intervals and suspect rows need the rows again, though only a few of their columns: "
    "estimate(X), complete(X) or sparsemean merge --rows"
)
NOT_LOOKED_FOR = "features that show only without the rejected rows were not looked for, which needs a fit of all rows"
FIXED = ("null", "missing", "random_state")
DEALT = ("groups", "n_buckets")


def conclude(sketch: Sketch, X: Any = None, *, n_jobs: int | None = None, **options: Any) -> Estimate:
    """Make an estimate of a sketch, and of all rows where they are given; see `Sketch.estimate`."""
    began = time.perf_counter()
    asked, counts, told = _asked(sketch, options)
    if X is None and asked.plan.noise == "skewed":
        advice = "counts do not show discrete columns: estimate(X), complete(X) or sparsemean merge --rows"
        raise InputError("noise", "be 'symmetric' without the rows", "'skewed'", advice)
    names = Table(Unread(sketch.n_rows, sketch.n_features), sketch.feature_names)
    if X is None:
        return fitting.without_rows(
            names, counts, asked, sketch.seed, constant=told.same.features, began=began, notes=(NEEDS_ROWS,)
        )
    data = Reading(
        names, deal(asked.plan, sketch.seed), asked.plan, asked.shift, None, n_jobs, counts.missing is not None
    )
    _, chosen = certifying.by_counts(asked.plan, counts)
    columns = np.union1d(improving.columns_judged_by(data, sketch.seed), chosen.support)
    table = rows_again(X, sketch, columns)
    data = replace(data, table=holding(table, columns))
    _check_counts(data, counts, columns)
    made = fitting.concluded(data, counts, asked, sketch.seed, began=began, look_again=False)
    rejected = made.rows is not None and made.rows.suspects.size
    notes = (*made.status.messages, *_numbering(asked.plan), *((NOT_LOOKED_FOR,) if rejected else ()))
    status = replace(made.status, messages=notes, seconds=time.perf_counter() - began)
    return replace(made, status=status, source=None if isinstance(table.source, Held) else table)


def _numbering(plan: Plan) -> tuple[str, ...]:
    """Say how rows are counted where their numbers are not 0, 1, … themselves."""
    if plan.ranges in ((), ((0, plan.n_rows),)):
        return ()
    return (f"rows are counted from 0 in the order of their numbers: the first is row {plan.ranges[0][0]}",)


def _asked(sketch: Sketch, options: dict[str, Any]) -> tuple[fitting.Asked, Counts, Told]:
    """Check what is asked for; return it, the counts of the sizes it needs, and the sketch with all blocks closed."""
    for name in (*FIXED, *DEALT):
        if name in options:
            fixed = f"{name} is fixed when rows are sketched"
            why = fixed if name in FIXED else "sketched rows are dealt one by one, in blocks of 64"
            raise InputError(name, "be left out here", repr(options[name]), why)
    if options.get("selection") == "paper":
        raise InputError(
            "selection", "be 'fwer', 'fdr' or 'fdr_by'", "'paper'", "the paper's dealing needs all rows at once"
        )
    skewed = options.get("noise") == "skewed"
    sizes = options.pop("bucket_sizes", "auto")
    if isinstance(sizes, str) and sizes == "auto" and not skewed:
        sizes = AUTO_SIZES if sketch.bucket_sizes == SKEWED_SIZES else sketch.bucket_sizes
    asked = fitting.ask(
        sketch.n_rows, sketch.n_features, null=sketch.null, missing=sketch.missing, bucket_sizes=sizes, **options
    )
    told = stream.closed(sketch.told)
    ranges, sealed = _dealt(told)
    if skewed:
        _check_cuts(ranges, sealed)
    counts = _of_sizes(told, asked.plan)
    return replace(asked, plan=replace(asked.plan, ranges=ranges, sealed=sealed)), counts, told


def _of_sizes(told: Told, plan: Plan) -> Counts:
    """Return the counts of the sizes that are needed, unless one was not counted."""
    needed = plan.bucket_sizes
    if lacking := [size for size in needed if size not in told.sizes]:
        named = ", ".join(map(str, lacking))
        advice = f"sketch the rows with bucket_sizes={tuple(sorted({*told.sizes, *needed}))}"
        what = "noise" if plan.noise == "skewed" else "bucket_sizes"
        raise InputError(what, f"need no sizes but those counted, {told.sizes}", f"{named} as well", advice)
    counts = told.counts
    if needed == told.sizes:
        return counts
    return counts.of_sizes(tuple(told.sizes.index(size) for size in needed))


def _dealt(told: Told) -> tuple[Ranges, Ranges]:
    """Return the numbers of the rows and what was dealt apart; nothing where one fit deals the same way."""
    sealed = tuple((a, b) for a, b in told.sealed if not _alone(a, b, told.ranges))
    if not sealed and told.ranges == ((0, told.n_rows),):
        return (), ()
    return told.ranges, sealed


def _alone(first: int, last: int, ranges: Ranges) -> bool:
    """Whether a part of a block has all rows that were seen of the block."""
    start = first // BLOCK * BLOCK
    seen = sum(max(0, min(b, start + BLOCK) - max(a, start)) for a, b in ranges)
    return seen == last - first


def _check_cuts(ranges: Ranges, sealed: Ranges) -> None:
    """Refuse skewed noise where more blocks are cut than the one that a fit may have: skewness cancels in full ones."""
    if (cut := cut_blocks(ranges, sealed)) > 1:
        rule = f"be 'symmetric' where pieces were sealed, or rows lack, inside blocks of {BLOCK}"
        raise InputError("noise", rule, f"'skewed' and {cut:,} blocks that are cut", "cut pieces at multiples of 64")


def _check_counts(data: Reading, counts: Counts, columns: IntArray) -> None:
    """Refuse rows that are not those of the sketch: all columns that are read must have the signs that were counted."""
    if not columns.size:
        return
    wanted = data.partition.wanted

    def signs(levels: list[FloatArray], _: IntArray) -> FloatArray:
        return np.vstack([np.sum(side, axis=0) for h in wanted for side in (levels[h] > 0, levels[h] < 0)])

    with np.errstate(invalid="ignore"):
        found = data.means(columns, signs, data.partition.depth)
    expected = np.stack([side[k, columns] for k in range(len(wanted)) for side in (counts.positive, counts.negative)])
    other = np.flatnonzero((found != expected).any(axis=0))
    if other.size:
        where = data.table.label(int(columns[other[0]]))
        raise InputError("X", "be the rows of the sketch, in the same order", f"other signs in {where}")
