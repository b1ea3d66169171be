"""Columns that name rows, subjects or groups, told by what they are called and by how many rows share a value."""

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
    likely = np.flatnonzero((np.diff(head, axis=0) >= 1).all(axis=0) & (head[0] >= 0) & (head[-1] <= n))
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
