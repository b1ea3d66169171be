"""NumPy arrays and memory maps, and anything NumPy can view as one."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.sources.source import Array
from sparsemean.sources.table import Table, dense_table


def from_array(X: Any, feature_names: Any = None) -> Table:
    """Take ``X`` as it lies in memory; only lists and arrays of Python objects are converted."""
    if isinstance(X, np.ma.MaskedArray):
        raise InputError("X", "have no mask", "a masked array", "fill it first, for example X.filled(numpy.nan)")
    try:
        values: Array = np.asarray(X)
        if values.dtype.kind == "O":
            values = values.astype(np.float64)
    except TypeError as error:  # scikit-learn's own wording ("argument must be a string or a number") passes through
        raise TypeError(f"X must be numeric: {error}; convert it to numbers first") from error
    except (ValueError, RuntimeError) as error:
        raise InputError("X", "be a matrix of numbers", f"{type(X).__name__} ({error})") from error
    return dense_table(values, feature_names)
