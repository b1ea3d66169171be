"""HDF5 through h5py: one dataset, mapped where it lies in one stretch, else read in whole chunks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from sparsemean.errors import require
from sparsemean.sources.chunks import Chunked, check_array
from sparsemean.sources.damage import check_heaps
from sparsemean.sources.inside import is_annotated, is_group, pick
from sparsemean.sources.npy import Npy
from sparsemean.sources.opened import Opened
from sparsemean.sources.source import Source
from sparsemean.sources.table import Table, check_names
from sparsemean.sources.wanted import Wanted
from sparsemean.sources.within import Within, check_stored


class H5(Chunked):
    """An h5py dataset. Rows that follow each other are read along rows, chunks the way that reads each once."""

    def __init__(self, dataset: Any, opened: Opened) -> None:
        chunks = dataset.chunks or (1, dataset.shape[1])
        super().__init__(dataset, chunks, opened)
        if dataset.chunks is None:
            self.along, self.grain = "rows", 1


def takes(X: Any) -> bool:
    """Whether ``X`` is an h5py dataset."""
    return type(X).__module__.startswith("h5py") and hasattr(type(X), "chunks")


def from_object(dataset: Any, feature_names: Any = None) -> Table:
    """Take a dataset of an open file."""
    opened = Opened(type(dataset).__name__, "HDF5 dataset in an open file", argument="X")
    with opened.reading():
        return Table(source_of(dataset, opened), check_names(feature_names, dataset.shape[1]))


def read(path: Path, wanted: Wanted) -> Table:
    """Open the dataset that is meant in an .h5 file; one that holds an AnnData is read as such."""
    file, opened = open_hdf5(path, ".h5 file")
    try:
        with opened.reading():
            if wanted.dataset is None and is_annotated(file):
                from sparsemean.sources import annotated

                return annotated.read(file, wanted, opened, source_of)
            wanted.refuse("id", "group", "select", "drop", "layer", kind=".h5 files")
            element = pick(file, wanted.dataset, lambda: list(file.listing()), opened)
            if is_group(element):
                from sparsemean.sources.compressed import Compressed

                return Table(Compressed(element, opened))
            return Table(source_of(element, opened))
    except BaseException:
        file.close()
        raise


def open_hdf5(path: Path, kind: str) -> tuple[Within, Opened]:
    """Open a file for reading only."""
    h5py = require("h5py", extra="hdf5", purpose=f"reading {kind}s")
    opened = Opened(path.name, kind, path.stat().st_size)
    check_heaps(path, opened)
    with opened.reading():
        return Within(h5py.File(path, "r", locking="best-effort"), opened), opened


def source_of(dataset: Any, opened: Opened) -> Source:
    """Return a dataset as a source: mapped from the file if it lies there as NumPy would have it in memory."""
    check_stored(dataset, opened)
    check_array(dataset, opened)
    return _mapped(dataset) or H5(dataset, opened)


def _mapped(dataset: Any) -> Npy | None:
    """Map a dataset that lies in one stretch of a file opened for reading; None where it does not."""
    import h5py

    file, dtype = dataset.file, np.dtype(dataset.dtype)
    if dataset.chunks is not None or dataset.is_virtual or file.driver != "sec2" or file.mode != "r":
        return None
    if dtype.kind == "b" or h5py.h5t.py_create(dtype) != dataset.id.get_type():
        return None
    offset, needed, path = dataset.id.get_offset(), dataset.size * dtype.itemsize, Path(file.filename).absolute()
    if offset is None or offset % dtype.alignment or dataset.id.get_storage_size() != needed:
        return None
    behind = os.fstat(file.id.get_vfd_handle())
    if not path.exists() or not os.path.samestat(behind, path.stat()) or behind.st_size < offset + needed:
        return None
    return Npy(path, offset, (dataset.shape[0], dataset.shape[1]), dtype, fortran=False)
