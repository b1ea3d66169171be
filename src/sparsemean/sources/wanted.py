"""What a user asks of a file: which columns name rows and groups, and which are features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from sparsemean.errors import InputError
from sparsemean.records import IntArray


@dataclass(frozen=True, slots=True)
class Wanted:
    """Choices on a file; empty where there are none.

    Attributes
    ----------
    id
        Column with the name of each row.
    group
        Column with the group of each row.
    select, drop
        Names of feature columns to keep or to leave out; ``*`` and ``?`` stand for any characters.
    layer
        Layer of an .h5ad file, in place of X.
    dataset
        Array inside an .h5, .zarr or .npz file.
    header
        Whether the first line of a text names the columns; None: judged by what stands in it.
    """

    id: str | None = None
    group: str | None = None
    select: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    layer: str | None = None
    dataset: str | None = None
    header: bool | None = None

    def refuse(self, *fields: str, kind: str) -> None:
        """Refuse choices that a kind of file has no meaning for."""
        for field in fields:
            if getattr(self, field):
                raise InputError(f"--{field}", f"be left out for {kind}", repr(getattr(self, field)))


NOTHING = Wanted()


def chosen(names: Sequence[str], wanted: Wanted) -> IntArray:
    """Return the columns that are features: those selected and not dropped, neither id nor group.

    Examples
    --------
    >>> chosen(["user", "clicks", "cost", "age"], Wanted(id="user", drop=("c*",)))
    array([3])
    """
    apart = {wanted.id, wanted.group}
    for name in apart - {None}:
        if name not in names:
            which = "--id" if name == wanted.id else "--group"
            raise InputError(which, "name a column of the file", repr(name), f"it has {shown(names)}")
    keep = np.array([name not in apart for name in names], dtype=bool)
    if wanted.select:
        keep &= _matching(names, wanted.select, "--select")
    if wanted.drop:
        keep &= ~_matching(names, wanted.drop, "--drop")
    if not keep.any():
        raise InputError("FILE", "have columns left to look at", f"none of {len(names)}")
    return np.flatnonzero(keep)


def _matching(
    names: Sequence[str], patterns: tuple[str, ...], argument: str
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(len(names), dtype=bool)
    for pattern in patterns:
        exact = np.array([name == pattern for name in names], dtype=bool)
        these = exact if exact.any() else np.array([fnmatchcase(name, pattern) for name in names], dtype=bool)
        if not these.any():
            raise InputError(argument, "name columns of the file", repr(pattern), f"it has {shown(names)}")
        found |= these
    return found


def shown(names: Sequence[str], most: int = 5) -> str:
    """List a few names."""
    return ", ".join(map(str, names[:most])) + (", …" if len(names) > most else "")
