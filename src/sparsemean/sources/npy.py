"""NumPy's own file format, memory-mapped: only what the passes touch is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparsemean.errors import InputError
from sparsemean.sources.table import Table, check_values


def read(path: Path) -> Table:
    """Map a .npy file; object arrays, which would need unpickling, are refused."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, UnicodeDecodeError) as error:
        raise InputError(
            "FILE",
            "be a complete .npy file of numbers",
            f"{path.name} ({error})",
            "write it again with numpy.save",
        ) from error
    if not isinstance(values, np.ndarray):
        raise InputError("FILE", "hold one array", f"{path.name}, an archive", "save the array alone with numpy.save")
    return Table(check_values(values))
