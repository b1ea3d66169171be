"""AnnData files through h5py alone: X or a layer, dense or compressed, read where it lies."""

from __future__ import annotations

from pathlib import Path

from sparsemean.sources import annotated
from sparsemean.sources.h5 import open_hdf5, source_of
from sparsemean.sources.table import Table
from sparsemean.sources.wanted import Wanted


def read(path: Path, wanted: Wanted) -> Table:
    """Open an .h5ad file; the groups of rows are a column of obs."""
    file, opened = open_hdf5(path, ".h5ad file")
    try:
        return annotated.read(file, wanted, opened, source_of)
    except BaseException:
        file.close()
        raise
