"""AnnData objects: X as it lies in memory or in the file behind it, with the names of genes and cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.sources import annotated, array, h5, zarr
from sparsemean.sources.inside import is_group
from sparsemean.sources.opened import Opened
from sparsemean.sources.table import Table, as_names, check_names


def takes(X: Any) -> bool:
    """Whether ``X`` is an AnnData object or a view of one."""
    return type(X).__module__.startswith("anndata.") and hasattr(type(X), "var_names")


def from_object(adata: Any, feature_names: Any = None) -> Table:
    """Take X of an AnnData; one that lies in a file stays there (but a view of such a file is read)."""
    given = annotated.gene_names(as_names(adata.var_names)) if feature_names is None else feature_names
    opened = Opened(type(adata).__name__, "AnnData behind an open file", argument="X")
    with opened.reading():
        X = adata.X
    if X is None:
        raise InputError("X", "have an X", "an AnnData without one", "set adata.X to the layer that is meant")
    rows = as_names(adata.obs_names)
    element = getattr(X, "group", X)  # AnnData's own wrapper of a compressed matrix in a file
    for module in (h5, zarr):
        if module.takes(element) or is_group(element):
            with opened.reading():
                source = annotated.source_of(element, opened, module.source_of)
            return Table(source, check_names(given, source.shape[1]), row_names=rows)
    if hasattr(X, "indptr"):
        from sparsemean.sources import sparse

        return replace(sparse.from_object(X, given), row_names=rows)
    return replace(array.from_array(np.asarray(X), given), row_names=rows)
