"""Values that mean something else than a measurement: names of rows, subjects or groups, gaps and totals."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

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


def gap_codes(values: npt.NDArray[Any]) -> dict[float, dict[int, int]]:
    """Return numbers that seem to stand for gaps, and how often each column has them.

    Such a number is the least or the largest of its column, is there at least twice, and lies more than twice as far
    from the nearest other value as that one from the median of the others. Columns that also have it are listed with
    these if it lies as far out there, or is there twice.

    Examples
    --------
    >>> gap_codes(np.array([[3.5, -9999], [4.1, 20], [-9999, 45], [3.9, 35], [-9999, 99]]))
    {-9999.0: {0: 2, 1: 1}}
    """
    ends = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    found: dict[float, dict[int, int]] = {}
    for code in sorted({*np.concatenate(ends).tolist()} & {*GAP_CODES.tolist()}):
        counts = {k: int(np.count_nonzero(values[:, k] == code)) for k in np.flatnonzero((values == code).any(axis=0))}
        far = {k for k in counts if _is_far(code, values[:, k])}
        if any(counts[k] > 1 for k in far):
            found[code] = {int(k): count for k, count in counts.items() if count > 1 or k in far}
    return found


def _is_far(code: float, column: npt.NDArray[Any]) -> bool:
    """Whether a value lies far from the nearest other one, all of them on one side of it."""
    others = column[np.isfinite(column) & (column != code)]
    if others.size < 2 or others.min() == others.max() or others.min() < code < others.max():
        return False
    nearest = others[np.argmin(np.abs(others - code))]
    return bool(np.abs(code - nearest) > FAR_OUT * np.abs(nearest - np.median(others)))


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
    there = np.flatnonzero(~np.isnan(values[-1]))
    above, last = np.nan_to_num(values[:-1, there]), values[-1, there]
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(above).sum(axis=0)
        if not ((np.abs(last - above.sum(axis=0)) <= 1e-9 * size) & (size < np.inf)).all():
            return ""
        chances = [_chance_of_sum(column) for column in above.T if np.count_nonzero(column) >= LEAST_SUMMED]
    return "the last row" if chances and np.prod(chances) < MOST_CHANCE else ""


def _chance_of_sum(column: npt.NDArray[Any]) -> float:
    """Return about how likely one more value would be the sum of all, by how finely they are written and by signs."""
    near = 1e-9 * np.abs(column).max()
    digits = next((k for k in range(MOST_DIGITS) if np.abs(column - np.round(column, k)).max() <= near), MOST_DIGITS)
    return min(1.0, 10.0**-digits / max(float(column.std()), 1e-300)) * (BEYOND_ALL if column.min() >= 0 else 1.0)
