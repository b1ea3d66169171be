"""What one task of a pass has counted; tallies of all tasks add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparsemean.records import CountArray, FloatArray

Codes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Counts of one task, a row for each wanted size."""

    columns: slice
    positive: CountArray
    negative: CountArray
    nearest: FloatArray
    finite: bool
    gaps: tuple[CountArray, CountArray] | None = None
    """Buckets without any value, a row for each wanted size, and missing values of each column; None for none."""


def decoded(code: Codes) -> FloatArray:
    """Return distances from their codes, which are their bits less one."""
    return (code + np.uint64(1)).view(np.float64)
