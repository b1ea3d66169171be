"""Rows that belong together: classes, strata, subjects and pairs, and the tables that are compared in their place."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import AT_ONCE, Block, Dense, Source, as_dense, find_non_finite
from sparsemean._data.table import Names, Table, as_names
from sparsemean._kernels.memory_layout import cut
from sparsemean._kernels.rounding import DOUBLE, Grid, difference, of_size, on_grid, snapped
from sparsemean._util.checks import is_missing, list_names, pluralize
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Labels = npt.NDArray[Any]
MOST_MEASURED = 20
"""Different values of floats that may be labels, if not all of them are whole numbers."""
UNEQUAL, UNEQUAL_OF_FEW, FEW_SUBJECTS = 0.01, 0.1, 15
"""p-values below which numbers of rows of subjects are said to differ between classes, of so few subjects earlier."""
DRAWS = 20
"""How often equally many rows of each subject are drawn then."""


def classes_of(
    y: Any, n: int, argument: str = "y", *, needed: Collection[Any] | None = None
) -> tuple[Labels, IntArray]:
    """Return the classes of ``y``, two or more, sorted, and the number of the class of every row.

    Of three classes and more those ``needed``, or all, must have two rows.
    """
    classes, codes = labels_of(y, n, argument)
    if classes.size < 2:
        advice = "give each row the label of its group, of which there are two or more"
        raise InputError(argument, "have two classes or more", f"one class ({classes[0]})", advice)
    measured = classes.dtype.kind == "f" and (classes != np.round(classes)).any()
    if (measured and classes.size > MOST_MEASURED) or 2 * classes.size > max(n, 3):
        advice = "pass a column of labels; what rises or falls with a number SparseTrend (--trend) tells"
        received = f"{classes.size:,} different values in {n:,} rows ({list_names(classes, 4)})"
        raise InputError(argument, "be labels, each shared by several rows", received, advice)
    single = classes[np.bincount(codes) < 2]
    if needed is not None and classes.size > 2:
        single = single[np.array([label in needed for label in single.tolist()], dtype=bool)]
    if single.size:
        received = f"one row of {_named(single)}"
        raise InputError(argument, "have two rows or more of each class", received, "drop such rows or merge classes")
    return classes, codes


def labels_of(labels: Any, n: int, argument: str) -> tuple[Labels, IntArray]:
    """Return the different labels, sorted, and the number of the label of every row."""
    plain = labels if isinstance(labels, (list, tuple)) or hasattr(labels, "tolist") else np.asarray(labels)
    given = plain.tolist() if hasattr(plain, "tolist") else list(plain)
    if not isinstance(given, list) or len(given) != n or any(isinstance(label, (list, tuple)) for label in given):
        received = f"{len(given)} labels" if isinstance(given, list) and len(given) != n else "another shape"
        advice = "pass one label a row, in the order of the rows"
        raise InputError(argument, f"have one label for each of the {n} rows of X", received, advice)
    missing = [row for row, label in enumerate(given) if is_missing(label)]
    if missing:
        advice = "drop such rows or give them a label"
        raise InputError(argument, "have no missing labels", f"a missing one at row {missing[0]}", advice)
    try:
        names, codes = np.unique(np.asarray(given), return_inverse=True)
    except TypeError as error:
        raise InputError(argument, "have labels of one type", str(error)) from None
    return names, codes.astype(np.intp)


def measured(y: object, n: int, argument: str = "y") -> FloatArray:
    """Return the number that each row has, a dose, an age or a time; dates in days from the first one on."""
    labels, codes = labels_of(y, n, argument)
    rule, advice = f"be a number for each of the {n} rows", "labels are for SparseMeanDifference (--group)"
    try:
        numbers = labels.astype("M8[us]" if hasattr(labels[0], "year") else np.float64)
        numbers = (numbers - numbers[0]) / np.timedelta64(1, "D") if numbers.dtype.kind == "M" else numbers
    except (TypeError, ValueError):
        raise InputError(argument, rule, list_names(labels, 3), advice) from None
    if labels.size < 2 or not np.isfinite(numbers).all():
        raise InputError(argument, f"{rule}, not all the same", list_names(labels, 3))
    return snapped(numbers, DOUBLE)[codes]


def refuse_other_rows(table: Table, names: Any, argument: str, advice: str) -> None:
    """Refuse what names its rows, where X does, and names others or has them in another order."""
    if names is None or table.row_names is None or len(names) != table.shape[0]:
        return
    if (others := np.flatnonzero(table.row_names != names)).size:
        received = f"{names[others[0]]!r} in row {others[0]}, which is {table.row_names[others[0]]!r} in X"
        raise InputError(argument, "have the rows of X in their order", received, advice)


def refuse_other_index(table: Table, labels: Any, argument: str) -> None:
    """Refuse a series whose index says that its labels are of other rows than those of a frame."""
    index = labels.index
    if table.row_names is not None and type(index).__name__ != "RangeIndex":
        advice = f"{argument}.loc[X.index] puts them so, {argument}.to_numpy() says that they are"
        refuse_other_rows(table, as_names(index), argument, advice)


def check_strata(strata: object, codes: IntArray, argument: str = "strata") -> IntArray:
    """Return the number of the stratum of every row; in each there must be rows of two classes or more."""
    names, numbers = labels_of(strata, codes.size, argument)
    alone = names[alone_in(numbers, codes)]
    if alone.size:
        received = f"rows of one class only in {_named(alone, 'stratum', 'strata')}"
        advice = "drop those rows, or merge strata"
        raise InputError(argument, "have rows of two classes or more in each stratum", received, advice)
    return numbers


def alone_in(strata: IntArray, codes: IntArray) -> npt.NDArray[np.bool_]:
    """Return, for the number of every stratum, whether it has rows of one class only."""
    return np.asarray(_spread(codes, strata)[0] == 0)


def _spread(codes: IntArray, within: IntArray) -> tuple[IntArray, IntArray]:
    """Return, for every number of ``within``, largest minus smallest of its ``codes``, and the smallest."""
    low, high = np.full((2, int(within.max()) + 1), -1, dtype=np.intp)
    low[:] = codes.max()
    np.minimum.at(low, within, codes)
    np.maximum.at(high, within, codes)
    return high - low, low


def _named(names: Labels, one: str = "class", many: str = "classes") -> str:
    """Name what is refused: the first, and how many more there are."""
    return f"{one if names.size == 1 else many} {list_names([repr(name) for name in names.tolist()], 3)}"


# Subjects: one mean each, so that means of all subjects have one law where nothing differs, numbers of rows included.


class Subjects(NamedTuple):
    """One row a subject."""

    table: Table
    codes: IntArray
    """The class of every subject."""
    notes: list[str]
    draws: tuple[Table, ...] = ()
    """The same of equally many rows, or counts, of each, drawn many times, where their numbers differ by class."""


def subject_means(
    table: Table,
    codes: IntArray,
    subjects: object,
    *,
    missing: str = "raise",
    classes: Labels | None = None,
    argument: str = "groups",
    counts: bool = False,
) -> Subjects:
    """Return one row a subject: its mean, or of counts log₂(1 + x) of its counts per million.

    Means of all rows have one law where nothing differs if numbers of rows have; and shares of counts if their totals
    have, too. Where these differ between classes, tests are of as many rows, or counts, of each subject.
    """
    names, units = in_order(*labels_of(subjects, codes.size, argument))
    apart, own = _spread(codes, units)
    _refuse_both(names[apart > 0], argument)
    sizes = np.bincount(own)
    if (sizes == 1).any():
        which = int(np.flatnonzero(sizes == 1)[0])
        called = "" if classes is None else f" of class {classes.item(which)!r}"
        advice = "drop that class, or leave subjects out where rows are independent"
        raise InputError(argument, "name two subjects or more of each class", f"one subject{called}", advice)
    numbers, skip_missing = np.bincount(units), missing == "omit"
    sums, there = _pooled(table, units, np.ones(units.size), skip_missing=skip_missing)
    what = "rows a subject has"
    alarms, totals = _unequal(numbers, own, classes, what), sums.sum(axis=1)
    if counts and not alarms:
        alarms = _unequal(totals, own, classes, what := "counts that a subject has in all")
    draws = []
    for k in range(DRAWS if alarms else 0):
        rng, weights = np.random.default_rng(k), np.zeros(units.size)
        weights[drawn(units, int(numbers.min()), k)] = 1.0
        few, of_few = _pooled(table, units, weights, skip_missing=skip_missing)
        if counts:
            all_few = np.maximum(few.sum(axis=1), 1.0)
            few = rng.binomial(few.astype(np.int64), (all_few.min() / all_few)[:, np.newaxis]).astype(np.float64)
        draws.append(_per_subject(table, names, few, of_few, counts=counts))
    called = "log₂(1 + counts per million) of the counts" if counts else "the means"
    least, most = int(numbers.min()), int(numbers.max())
    rows = pluralize(most, "row") if least == most else f"{least:,} to {most:,} rows"
    each = f"{names.size:,} subjects, {rows} of each"
    notes = [*alarms, f"subjects are compared, not rows: {called} of all rows of {each}"]
    if (there < numbers[:, np.newaxis]).any():
        notes.append(
            "values are missing: the mean of a subject is that of the values there are in its rows, which is "
            "comparable only if as many are missing in all classes"
        )
    return Subjects(_per_subject(table, names, sums, there, counts=counts), own, notes, tuple(draws))


def _per_subject(table: Table, names: Labels, sums: FloatArray, there: FloatArray, *, counts: bool) -> Table:
    """Return a table of means, or of logarithms of counts per million."""
    with np.errstate(invalid="ignore"):
        totals = np.maximum(sums.sum(axis=1, keepdims=True), 1.0)
        values = np.log2(1.0 + 1e6 * sums / totals) if counts else sums / there
    if np.isinf(values).any():
        raise table.non_finite_error(None, skip_missing=True)
    return in_place_of(table, Dense(values, precision=table.source.precision), as_names(names.tolist()))


def strata_of_subjects(strata: IntArray, subjects: object, argument: str = "strata") -> IntArray:
    """Return the stratum of every subject, in the order of `subject_means`; each must lie in one."""
    names, units = in_order(*labels_of(subjects, strata.size, "groups"))
    apart, own = _spread(strata, units)
    if (apart > 0).any():
        received = f"rows of {_named(names[apart > 0], 'subject', 'subjects')} in several"
        advice = "drop the rows of all but one, or leave out strata"
        raise InputError(argument, "have all rows of a subject in one stratum", received, advice)
    return own


def drawn(units: IntArray, k: int, seed: int) -> IntArray:
    """Return k rows of every subject, rising, of shape (subjects, k): those with the smallest random numbers.

    Examples
    --------
    >>> drawn(np.array([0, 1, 0, 1]), 2, 0)
    array([[0, 2],
           [1, 3]])
    """
    order = np.lexsort((np.random.default_rng(seed).random(units.size), units))
    counts = np.bincount(units)
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    return np.sort(order[first[:, np.newaxis] + np.arange(k)], axis=1)


def in_order(names: Labels, codes: IntArray) -> tuple[Labels, IntArray]:
    """Give labels their numbers in the order of their first rows."""
    first = np.full(names.size, codes.size, dtype=np.intp)
    np.minimum.at(first, codes, np.arange(codes.size))
    order = np.argsort(first)
    return names[order], np.argsort(order)[codes]


def _refuse_both(names: Labels, argument: str) -> None:
    """Refuse subjects with rows in several classes."""
    if not names.size:
        return
    received = f"rows of {_named(names, 'subject', 'subjects')} in several"
    advice = (
        "pass strata= (--strata) in place of it, which compares rows within subjects; with one row a subject in each "
        "of two classes, pairs= (--pairs)"
    )
    raise InputError(argument, "have all rows of a subject in one class", received, advice)


def _unequal(numbers: FloatArray | IntArray, own: IntArray, classes: Labels | None, what: str) -> list[str]:
    """Say so, loudly, where numbers differ between classes: by Mann and Whitney, or Kruskal."""
    from scipy import stats

    parts = [numbers[own == code] for code in range(int(own.max()) + 1)]
    two, few = len(parts) == 2, min(map(len, parts)) < FEW_SUBJECTS
    p = float(stats.mannwhitneyu(*parts).pvalue if two else stats.kruskal(*parts).pvalue) if np.ptp(numbers) else 1.0
    if not p < (UNEQUAL_OF_FEW if few else UNEQUAL):
        return []
    names = range(len(parts)) if classes is None else classes.tolist()
    medians = ", ".join(f"{np.median(part):g} in {name!r}" for name, part in zip(names, parts[:4], strict=False))
    return [
        f"THE NUMBER OF {what.upper()} DIFFERS between the classes ({'Mann–Whitney' if two else 'Kruskal–Wallis'} "
        f"p = {p:.2g}; medians {medians}): p-values are twice the mean over {DRAWS} draws of equally many rows, or "
        "counts, of each subject, whatever the seed; estimates are of all rows"
    ]


def _pooled(table: Table, units: IntArray, weights: FloatArray, *, skip_missing: bool) -> tuple[FloatArray, FloatArray]:
    """Return sums of the rows of weight 1 of every subject, and how many values are there.

    Each sum is over the rows in their order, whatever kind of source they come from: one result to the last bit. Values
    are rounded to the digits that they have: where rows have one law then, means do.
    """
    from scipy.sparse import csr_array

    n, d = table.shape
    rows = np.flatnonzero(weights)
    ones = csr_array((weights[rows], (units[rows], rows)), shape=(int(units.max()) + 1, n))
    sums, there = np.empty((2, ones.shape[0], d))
    there[:] = ones.sum(axis=1)[:, np.newaxis]
    for first, piece in pieces(table, skip_missing=skip_missing):
        at, block = slice(first, first + piece.shape[1]), on_grid(piece, table.source.grid)
        if np.isnan(block if isinstance(block, np.ndarray) else block.data).any():
            block = np.asarray(as_dense(block), dtype=np.float64)
            there[:, at] -= ones @ np.isnan(block).astype(np.float64)
            block = np.nan_to_num(block, nan=0.0, posinf=np.inf, neginf=-np.inf)
        sums[:, at] = as_dense(ones @ block)
    return sums, there


def _indicator(rows: IntArray, weights: FloatArray, n: int) -> csr_array:
    """Return a matrix whose product with a column sums ``rows``, those of one unit in a line, with weights."""
    from scipy.sparse import csr_array

    units, k = rows.shape
    return csr_array((weights, rows.ravel(), np.arange(units + 1) * k), shape=(units, n))


def pieces(table: Table, *, skip_missing: bool) -> Iterator[tuple[int, Block]]:
    """Yield all rows of some columns at a time, all of them numbers, after the number of the first column."""
    from sparsemean._evidence.counting.engines import column_blocks

    n = table.shape[0]
    for stretch, block in column_blocks(table.source):
        for part in cut(block.shape[1], max(1, AT_ONCE // (8 * n)), 1):
            piece, first = block[:, part], stretch.start + part.start
            if place := find_non_finite(piece, at=(0, first), skip_missing=skip_missing):
                raise table.non_finite_error(place, skip_missing=skip_missing)
            yield first, piece


def in_place_of(table: Table, source: Source, row_names: Names) -> Table:
    """Return a table of other rows of the same file, with the same features."""
    return replace(table, source=source, row_names=row_names, groups=None, columns={}, repeated=None)


# Pairs: the difference within each, which is symmetric about zero where the two members are exchangeable.


def pair_differences(
    table: Table,
    codes: IntArray,
    pairs: object,
    *,
    missing: str = "raise",
    classes: Labels | None = None,
    argument: str = "pairs",
) -> tuple[Table, list[str]]:
    """Return a row a pair, its member of class 1 less that of class 0, and notes.

    Every pair has two rows, one of each class. Differences of sparse tables are sparse; where either value is missing
    so is the difference.
    """
    n_classes = np.unique(codes).size
    if n_classes > 2:
        shown = "" if classes is None else f" ({list_names(classes, 4)})"
        advice = "keep the rows of two classes"
        raise InputError(argument, "come with two classes", f"{n_classes} classes{shown}", advice)
    names, units = in_order(*labels_of(pairs, codes.size, argument))
    _check_pairs(names, units, codes, argument)
    members = np.lexsort((codes, units)).reshape(-1, 2)
    source = _differences(table, members, skip_missing=missing == "omit")
    note = f"differences within {names.size:,} pairs are tested: a pair is bad if either of its rows is"
    return in_place_of(table, source, as_names(names.tolist())), [note]


def _check_pairs(names: Labels, units: IntArray, codes: IntArray, argument: str) -> None:
    """Refuse pairs that are not one row of each class."""
    rule = "have two rows a pair, one of each class"
    counts = np.bincount(units)
    others = names[counts != 2]
    if others.size:
        count = int(counts[counts != 2][0])
        single = "drop such rows, or leave out pairs"
        advice = single if count < 2 else "average the rows of each class of a pair first, or pass it as strata="
        received = f"{pluralize(count, 'row')} of pair {others.item(0)!r}{_and_more(others.size)}"
        raise InputError(argument, rule, received, advice)
    alike = names[np.bincount(units, weights=codes) != 1]
    if alike.size:
        received = f"both rows of pair {alike.item(0)!r} in one class{_and_more(alike.size)}"
        raise InputError(argument, rule, received, "drop such pairs, or mend their labels")


def _and_more(count: int) -> str:
    return "" if count == 1 else f" (and {count - 1:,} more such pairs)"


def _differences(table: Table, members: IntArray, *, skip_missing: bool) -> Source:
    """Return second less first row of every pair, compressed where the table is."""
    d, grid = table.shape[1], table.source.grid
    dense, compressed = np.empty((0 if table.source.sparse else members.shape[0], d)), list[Any]()
    for first, piece in pieces(table, skip_missing=skip_missing):
        block = on_grid(piece, grid)
        if isinstance(block, np.ndarray):
            low, high = (block[rows] for rows in members.T)
            dense[:, first : first + block.shape[1]] = difference(high, low, grid)
        else:
            compressed.append(_sparse_differences(block, members, grid))
    if any(np.isinf(part).any() for part in [dense, *(part.data for part in compressed)]):
        raise table.non_finite_error(None, skip_missing=skip_missing)
    if not compressed:
        return Dense(dense, precision=table.source.precision)
    from scipy.sparse import hstack

    from sparsemean._data.matrices import read_sparse

    return read_sparse(hstack(compressed, format="csc")).source


def _sparse_differences(block: Any, members: IntArray, grid: Grid | None) -> Any:
    """Return the same of a block that is compressed by columns, and stays so."""
    low, high = (_indicator(rows[:, np.newaxis], np.ones(rows.size), block.shape[0]) @ block for rows in members.T)
    found = (high - low).tocsc()
    found.sort_indices()
    for part in (low, high):  # the larger of NaN and nothing must not be nothing
        part.data = np.where(np.isnan(part.data), np.inf, np.abs(part.data))
    size = high.maximum(low).multiply(found.astype(bool)).tocsc()
    size.sort_indices()
    found.data = of_size(found.data, size.data, grid)
    found.eliminate_zeros()
    return found
