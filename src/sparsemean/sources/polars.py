"""Data frames of polars': numeric columns with their names, each where it lies."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.sources.columns import Columns
from sparsemean.sources.refusing import not_numeric
from sparsemean.sources.source import Array
from sparsemean.sources.table import Table, check_matrix, check_names


def takes(X: Any) -> bool:
    """Whether ``X`` is a data frame of polars', computed or not."""
    return type(X).__module__.startswith("polars") and hasattr(X, "collect_schema")


def from_object(X: Any, feature_names: Any = None) -> Table:
    """Take a frame whose columns are all numeric."""
    if hasattr(X, "collect"):
        raise InputError("X", "be a data frame", "a LazyFrame of polars", "call .collect() first")
    import polars as pl

    kinds = X.dtypes
    text = [k for k, kind in enumerate(kinds) if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null))]
    if text:
        what = (
            "text" if kinds[text[0]] in (pl.String, pl.Categorical, pl.Enum) else str(kinds[text[0]]).partition("(")[0]
        )
        raise not_numeric("X", [X.columns[k] for k in text], what)
    dtype = np.dtype(np.float32 if kinds and all(kind == pl.Float32 for kind in kinds) else np.float64)
    check_matrix(X.shape, dtype)
    names = check_names(X.columns if feature_names is None else feature_names, X.width)

    def get(column: int) -> Array:
        series = X.to_series(column)
        return np.asarray((series if series.dtype.is_float() else series.cast(pl.Float64)).to_numpy())

    return Table(Columns(X.height, X.width, dtype, get), names)
