"""pandas data frames: numeric columns with their names, as one array where they have one type; an index names rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.sources.columns import Columns
from sparsemean.sources.source import Array, Dense
from sparsemean.sources.table import Table, as_names, check_matrix, check_names

if TYPE_CHECKING:
    import pandas as pd


def takes(X: Any) -> bool:
    """Whether ``X`` is a pandas data frame."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def from_object(frame: pd.DataFrame, feature_names: Any = None) -> Table:
    """Take a frame whose columns are all numeric."""
    text = [str(name) for name, dtype in frame.dtypes.items() if getattr(dtype, "kind", "O") not in "fiub"]
    if text:
        raise InputError("X", "have numeric columns only", f"column {text[0]!r}", "leave it out or convert it")
    names = check_names(frame.columns if feature_names is None else feature_names, frame.shape[1])
    rows = None if type(frame.index).__name__ == "RangeIndex" else as_names(frame.index)
    types = set(frame.dtypes)
    if len(types) <= 1 and all(isinstance(dtype, np.dtype) for dtype in types):
        values: Array = frame.to_numpy()
        check_matrix(values.shape, values.dtype)
        return Table(Dense(values), names, row_names=rows)
    check_matrix(frame.shape, np.dtype(np.float64))

    def get(column: int) -> Array:
        return np.asarray(frame.iloc[:, column].to_numpy(dtype=np.float64, na_value=np.nan))

    return Table(Columns(*frame.shape, np.float64, get), names, row_names=rows)
