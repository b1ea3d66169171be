"""What every reader yields: a source, and the names of its features and rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean.errors import InputError
from sparsemean.sources.fingerprint import Fingerprint
from sparsemean.sources.source import Array, Dense, Source

Names = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows by features, with names where there are any and the group of each row where a column says it."""

    source: Source
    feature_names: Names | None = None
    notes: tuple[str, ...] = ()
    row_names: Names | None = None
    groups: npt.NDArray[Any] | None = None
    file: Fingerprint | None = None
    """What the file was when it was opened, where it is one."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.source.shape

    @property
    def values(self) -> Array:
        """Everything as one array: where it lies if it is one, read whole if not."""
        return self.source.whole()

    def check_unchanged(self) -> None:
        """Refuse what was read of a file that somebody wrote to meanwhile."""
        if self.file is not None:
            self.file.check_unchanged()

    def label(self, column: int) -> str:
        """Name a column in a message."""
        return f"column {column}" + (f" ({self.feature_names[column]!r})" if self.feature_names is not None else "")


def dense_table(values: Array, feature_names: Any = None, **more: Any) -> Table:
    """Return an array as a table, unless it is not a matrix of numbers."""
    check_matrix(values.shape, values.dtype)
    return Table(Dense(values), check_names(feature_names, values.shape[1]), **more)


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse what is not a real-valued matrix with something in it."""
    if dtype.kind == "c":
        raise InputError(
            "X",
            "be real",
            "complex values",
            "Complex data not supported: take real parts or magnitudes first",
        )
    if len(shape) != 2:
        raise InputError(
            "X", "be 2-D, rows by features", f"{len(shape)}-D",
            "Reshape your data: X.reshape(-1, 1) if it is one feature",
        )  # fmt: skip
    n, d = shape
    if d < 1:
        raise InputError("X", "have features", f"{d} feature(s) (shape={shape}) while a minimum of 1 is required.")
    if n < 1:
        raise InputError("X", "have rows", f"{n} sample(s) (shape={shape}) while a minimum of 1 is required.")
    if dtype.kind not in "fiub":
        raise InputError("X", "be numeric", f"dtype {dtype}", "convert it to numbers first")


def check_names(names: Any, d: int) -> Names | None:
    """Return one name for each of ``d`` features, no two alike, or None."""
    if names is None:
        return None
    countable = hasattr(names, "__len__") and hasattr(names, "__iter__") and not isinstance(names, str)
    if not countable or len(names) != d:
        size = len(names) if countable else type(names).__name__
        raise InputError("feature_names", f"be a sequence of {d} names, one for each column of X", size)
    out = as_names(names)
    if len(set(out)) < d:
        seen: set[object] = set()
        twice = next(name for name in out if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError("feature names", "differ from each other", f"{twice!r} more than once", "rename one of them")
    return out


def as_names(names: Any) -> Names:
    """Return names as an array of str."""
    out = np.empty(len(names), dtype=object)
    out[:] = [as_text(name) for name in names]
    return out


def as_text(name: object) -> str:
    r"""Return a name as text that can be written in UTF-8: bytes and halves of characters are spelled out.

    Examples
    --------
    >>> as_text(b"m\xc3\xa4n"), as_text("\ud800"), as_text(7)
    ('män', '\\ud800', '7')
    """
    if isinstance(name, bytes):
        return name.decode(errors="backslashreplace")
    text = str(name)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
