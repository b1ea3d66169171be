"""pandas data frames: the numeric columns, with their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.sources.table import Array, Table, check_names, check_values

if TYPE_CHECKING:
    import pandas as pd


def from_frame(frame: pd.DataFrame, feature_names: Any = None) -> Table:
    """Take a frame whose columns are all numeric."""
    text = [str(name) for name, dtype in frame.dtypes.items() if getattr(dtype, "kind", "O") not in "fiub"]
    if text:
        raise InputError("X", "have numeric columns only", f"column {text[0]!r}", "leave it out or convert it")
    names = frame.columns if feature_names is None else feature_names
    values = check_values(_matrix(frame))
    return Table(values, check_names(names, values.shape[1]))


def _matrix(frame: pd.DataFrame) -> Array:
    """Return the values, converted only where the columns have several types or pandas' own."""
    plain = {dtype for dtype in frame.dtypes if isinstance(dtype, np.dtype)}
    if len(plain) == 1 and len(set(frame.dtypes)) == 1:
        return np.asarray(frame.to_numpy())
    return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))


def numeric_part(frame: pd.DataFrame, file: str) -> Table:
    """Take the numeric columns of a frame read from ``file`` and note which were left out."""
    kept = [i for i, dtype in enumerate(frame.dtypes) if getattr(dtype, "kind", "O") in "fiu"]
    if not kept:
        raise InputError("FILE", "have numeric columns", f"{file} with none among {frame.shape[1]}")
    left_out = [str(frame.columns[i]) for i in range(frame.shape[1]) if i not in set(kept)]
    notes: tuple[str, ...] = ()
    if left_out:
        shown = ", ".join(left_out[:3]) + (", …" if len(left_out) > 3 else "")
        notes = (f"left out {len(left_out)} column(s) that are not numeric: {shown}",)
    numeric = frame if not left_out else frame.iloc[:, kept]
    values = check_values(_matrix(numeric))
    return Table(values, check_names([str(name) for name in numeric.columns], values.shape[1]), notes)
