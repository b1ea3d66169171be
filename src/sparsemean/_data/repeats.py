"""Values that mean something else than a measurement: names of rows, subjects or groups, gaps and totals."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import cut
from sparsemean._util.checks import is_missing

SUBJECTS = (
    "donor", "subject", "patient", "participant", "individual", "person", "volunteer", "respondent", "user",
    "customer", "animal", "mouse", "case", "sample", "replicate", "hashtag", "library",
)  # fmt: skip
"""What subjects are called: first those of whom one may have several of the last."""
SEURATS = ["orig", "ident"]
"""Where Seurat, and files made of its objects, have the sample of each cell."""
NUMBER_WORDS = {"id", "ids", "identifier", "name", "names", "nr", "no", "number", "code", "key"}
ONLY_WITH_NUMBER = {"case"}
"""Words that alone rather name a class, as case and control."""
MOST_NAMES = 0.9
"""Names of rows, as a share of the rows, that are more than a few names given twice by mistake."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def likely(names: Iterable[str]) -> list[str]:
    """Return the names that subjects are called by, the most telling first.

    Examples
    --------
    >>> likely(["age", "sampleID", "Donor_id", "patient group", "case", "userid", "case.no"])
    ['Donor_id', 'userid', 'case.no', 'sampleID']
    """
    found = [(place, name) for name in names if (place := _place(name)) is not None]
    return [name for _, name in sorted(found, key=lambda entry: entry[0])]


def _place(name: str) -> int | None:
    """Return where among ``SUBJECTS`` a name belongs, which must say nothing else."""
    words = [word.lower() for word in WORD.findall(name)]
    said = [word for word in words if word not in NUMBER_WORDS]
    if words == SEURATS:
        return len(SUBJECTS)
    if len(said) != 1:
        return None
    stem = said[0].removesuffix("id") if said[0].removesuffix("id") in SUBJECTS else said[0].removesuffix("s")
    numbered = len(words) > 1 or said[0].endswith("id")
    return None if stem not in SUBJECTS or (stem in ONLY_WITH_NUMBER and not numbered) else SUBJECTS.index(stem)


def repeated(name: str, values: Collection[Any], most: float = 0.5) -> tuple[str, int] | None:
    """Return the name of a column and its number of values, unless that is one, or more than a share of the rows."""
    different = len({value for value in values if not is_missing(value)})
    return (name, different) if 1 < different < most * len(values) else None


NUMBER_OF_ROW = re.compile(r"(?:^|.*[_\s.-])(?:id|ID|Id)s?|.*[a-z]I[dD]s?")
GROUPS = {
    "arm", "group", "treatment", "treated", "variant", "condition", "cohort", "class", "label", "exposed", "sex",
    "gender",
}  # fmt: skip
"""What a column is called that says which of two groups a row is of."""
LEAST_ROWS, SEEN = 20, 16
"""Rows without which whole numbers in order mean nothing, and rows by which most columns are passed over."""


def row_numbers(names: list[str], values: npt.NDArray[Any] | None) -> list[str]:
    """Return the names of features that number rows: called id and whole, or all of 1 … n (0 … n − 1) once.

    Examples
    --------
    >>> row_numbers(["user_id", "paid", "k"], np.array([[7, 2, k] for k in range(30)]))
    ['user_id', 'k']
    """
    ends = ("id", "ids", "ID", "IDs", "Id", "Ids")
    called = [k for k, name in enumerate(names) if name.endswith(ends) and NUMBER_OF_ROW.fullmatch(name)]
    if values is None:
        return [names[k] for k in called]
    counted = _counted(values) if len(values) >= LEAST_ROWS else []
    whole = [k for k in called if not np.mod(values[: 1000 * SEEN, k], 1).any()]  # not of NaN
    return [names[k] for k in sorted({*whole, *counted})]


def _counted(values: npt.NDArray[Any]) -> list[int]:
    """Return the columns that hold 1 … n, or 0 … n − 1, in any order."""
    n, head = len(values), np.sort(values[:SEEN], axis=0)
    likely = np.flatnonzero((head[1:] >= head[:-1] + 1).all(axis=0) & (head[0] >= 0) & (head[-1] <= n))
    return [k for k in likely.tolist() if (np.diff(np.sort(values[:, k])) == 1).all() and values[:, k].min() in (0, 1)]


def says_groups(name: str) -> bool:
    """Whether a column is called as groups are."""
    return not GROUPS.isdisjoint(word.lower() for word in WORD.findall(name))


def group_names(names: list[str], values: npt.NDArray[Any]) -> list[str]:
    """Return the names of features with two values, gaps not counted, that are called as groups are.

    Examples
    --------
    >>> group_names(["is treated", "clicks", "sex"], np.array([[0, 3, 1], [1, 4, 2], [0, 3, 3]]))
    ['is treated']
    """
    joined = "\n".join(names).lower()  # most tables have no such name, and some very many names
    called = [k for k, name in enumerate(names) if says_groups(name)] if any(map(joined.__contains__, GROUPS)) else []
    each = ((k, np.unique(values[:, k])) for k in called)
    return [names[k] for k, found in each if np.count_nonzero(found == found) == 2]


GAP_CODES = np.array([
    *(sign * nines for sign in (-1.0, 1.0) for nines in (
        99, 999, 9999, 99999, 999999, 99999999, 99.9, 99.99, 999.9, 999.99, 9999.9, 9999.99, 1e20, 1e30, 1e36, 32767,
        2147483647,
    )), -32768, -2147483648,
])  # fmt: skip
"""Numbers that are written where a value is missing."""
NO_ROWS = re.compile(
    r"(grand|sub)?[ -]?totals?|sums?|summe|gesamt|somme|means?|average|avg\.?|mittelwert|moyenne|(#|//).*",
    re.I | re.DOTALL,
)
"""What a row is called that sums up others, or that is a comment."""
LEAST_SUMMED = 3
"""Values other than zero without which a sum says nothing."""
MOST_DIGITS = 8
"""Digits behind the point that are looked for."""
MOST_CHANCE, BEYOND_ALL = 0.01, 0.001
"""Chance below which a sum is no accident, and that of a value to lie as far out as the sum of values of one sign."""
FAR_OUT = 2
"""Times as far from the nearest other value as that one is from the median."""
AT_ONCE = 2**17
"""Values that are looked at together: no table is held twice for a note."""
FIRST_COLUMNS = 8, 512
"""Columns after which a last row is known not to be a total, of nearly all tables."""
SOME = 1000
"""Rows by which most columns are passed over whose least or largest value is a number for gaps."""


def gap_codes(values: npt.NDArray[Any]) -> dict[float, dict[int, int]]:
    """Return numbers that seem to stand for gaps, and how often each column has them.

    Such a number is the least or the largest of its column, is there at least twice, and lies more than twice as far
    from the nearest other value as that one from the median of the others. Columns that also have it are listed with
    these if it lies as far out there, by a sample of many rows, or is there twice.

    Examples
    --------
    >>> gap_codes(np.array([[3.5, -9999], [4.1, 20], [-9999, 45], [3.9, 35], [-9999, 99]]))
    {-9999.0: {0: 2, 1: 1}}
    """
    ends, step = np.array((np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0))), len(values) // SOME + 1
    found: dict[float, dict[int, int]] = {}
    for code in np.unique(GAP_CODES).tolist():
        at_end = np.flatnonzero((ends == code).any(axis=0))
        pieces = [at_end[part] for part in cut(at_end.size, AT_ONCE // min(len(values), SOME), 1)]
        far = {k for part in pieces for k in part[_is_far(code, values[::step, part], every=step == 1)].tolist()}
        if not far:
            continue
        each = cut(len(values), AT_ONCE // values.shape[1], 1)
        counts = np.sum([np.count_nonzero(values[rows] == code, axis=0) for rows in each], axis=0).tolist()
        sure = (k for k in far if step == 1 or _is_far(code, values[:, [k]], every=True)[0])  # few are looked at again
        if any(counts[k] > 1 for k in sure):
            found[code] = {k: count for k, count in enumerate(counts) if count > 1 or k in far}
    return found


def _is_far(code: float, values: npt.NDArray[Any], *, every: bool) -> npt.NDArray[np.bool_]:
    """Whether the value at the end of each column lies far from the nearest other one, or may, by some of the rows."""
    off = np.abs(values - code)
    other = (off > 0) & (off < np.inf)
    nearest = np.where(other, off, np.inf).min(axis=0)
    count = np.count_nonzero(other, axis=0)
    with_nearest = np.count_nonzero(other & (off / (1 + 1 / FAR_OUT) < nearest), axis=0)
    is_far: npt.NDArray[np.bool_] = 2 * with_nearest > count  # the median is one of these
    if every:
        is_far &= np.where(other, values, np.inf).min(axis=0) < np.where(other, values, -np.inf).max(axis=0)
    else:
        is_far |= count == 0
    return is_far


def no_row(values: npt.NDArray[Any], names: Iterable[str]) -> str:
    """Name a row that is called as totals, means and comments are, or a last one that is the sum of the others.

    Examples
    --------
    >>> no_row(np.array([[1, 2.5], [3, 4], [5, 7.5], [9, 14]]), [])
    'the last row'
    """
    called = [name for name in names if NO_ROWS.fullmatch(name.strip(" :"))]
    if 0 < len(called) < len(values) / 2:
        return f"row {called[0]!r}"
    if len(values) <= LEAST_SUMMED:
        return ""
    chance = 1.0
    for block in (some for some in np.split(values, FIRST_COLUMNS, axis=1) if some.size):
        above, last = block[:-1], block[-1]
        pieces = (above[rows] for rows in cut(len(above), AT_ONCE // block.shape[1], 1))
        with np.errstate(over="ignore", invalid="ignore"):
            total, size, count = np.asarray(sum(_sums(np.where(np.isnan(rows), 0.0, rows)) for rows in pieces))
            if not ((np.abs(last - total) <= 1e-9 * size) & (size < np.inf) | np.isnan(last)).all():
                return ""
        for k in np.flatnonzero((count >= LEAST_SUMMED) & ~np.isnan(last)) if chance >= MOST_CHANCE else ():
            chance *= _chance_of_sum(np.nan_to_num(above[:AT_ONCE, k]))
    return "the last row" if chance < MOST_CHANCE else ""


def _sums(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the sum of each column, that of sizes, and how many values are not zero."""
    return np.array((rows.sum(axis=0), np.abs(rows).sum(axis=0), np.count_nonzero(rows, axis=0)))


def _chance_of_sum(column: npt.NDArray[Any]) -> float:
    """Return about how likely one more value would be the sum of all, by how finely they are written and by signs."""
    near = 1e-9 * np.abs(column).max()
    digits = next((k for k in range(MOST_DIGITS) if np.abs(column - np.round(column, k)).max() <= near), MOST_DIGITS)
    return min(1.0, 10.0**-digits / max(float(column.std()), 1e-300)) * (BEYOND_ALL if column.min() >= 0 else 1.0)
