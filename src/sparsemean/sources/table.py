"""What every source yields: a two-dimensional array that is not copied, and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean.errors import InputError

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows by features, with the names of the features if they have any."""

    values: Array
    feature_names: npt.NDArray[np.object_] | None = None
    notes: tuple[str, ...] = ()

    def label(self, column: int) -> str:
        """Name a column in a message."""
        return f"column {column}" + (f" ({self.feature_names[column]!r})" if self.feature_names is not None else "")


def check_values(values: Array) -> Array:
    """Return ``values`` if it is a real-valued matrix with something in it."""
    if values.dtype.kind == "c":
        raise InputError(
            "X",
            "be real",
            "complex values",
            "Complex data not supported: take real parts or magnitudes first",
        )
    if values.ndim != 2:
        raise InputError(
            "X", "be 2-D, rows by features", f"{values.ndim}-D",
            "Reshape your data: X.reshape(-1, 1) if it is one feature",
        )  # fmt: skip
    n, d = values.shape
    if d == 0:
        raise InputError("X", "have features", f"0 feature(s) (shape={values.shape}) while a minimum of 1 is required.")
    if n == 0:
        raise InputError("X", "have rows", f"0 sample(s) (shape={values.shape}) while a minimum of 1 is required.")
    if values.dtype.kind not in "fiub":
        raise InputError("X", "be numeric", f"dtype {values.dtype}", "convert it to numbers first")
    return values


def check_names(names: Any, d: int) -> npt.NDArray[np.object_] | None:
    """Return one name for each of ``d`` features, or None."""
    if names is None:
        return None
    countable = hasattr(names, "__len__") and hasattr(names, "__iter__") and not isinstance(names, str)
    if not countable or len(names) != d:
        size = len(names) if countable else type(names).__name__
        raise InputError("feature_names", f"be a sequence of {d} names, one for each column of X", size)
    out = np.empty(d, dtype=object)
    out[:] = [str(name) for name in names]
    return out
