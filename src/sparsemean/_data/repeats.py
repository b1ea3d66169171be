"""Columns that name subjects, told by what they are called and by how many rows share a value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from sparsemean._util.checks import is_missing

SUBJECTS = (
    "donor", "subject", "patient", "participant", "individual", "person", "volunteer", "respondent", "user",
    "customer", "animal", "mouse", "case", "sample", "replicate",
)  # fmt: skip
"""What subjects are called: first those of whom one may have several of the last."""
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
    if len(said) != 1:
        return None
    stem = said[0].removesuffix("id") if said[0].removesuffix("id") in SUBJECTS else said[0].removesuffix("s")
    numbered = len(words) > 1 or said[0].endswith("id")
    return None if stem not in SUBJECTS or (stem in ONLY_WITH_NUMBER and not numbered) else SUBJECTS.index(stem)


def repeated(name: str, values: Collection[Any], most: float = 0.5) -> tuple[str, int] | None:
    """Return the name of a column and its number of values, unless that is one, or more than a share of the rows."""
    different = len({value for value in values if not is_missing(value)})
    return (name, different) if 1 < different < most * len(values) else None
