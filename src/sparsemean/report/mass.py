"""Very many points as counts on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean.records import FloatArray

CELLS = (64, 32)


def counts(x: FloatArray, y: FloatArray, cells: tuple[int, int] = CELLS) -> dict[str, Any]:
    """Count points on a grid over their range; only cells with points are listed, as column, row, count in turn.

    Examples
    --------
    >>> counts(np.array([0.0, 1.0, 1.0]), np.array([0.0, 2.0, 2.0]), (2, 2))
    {'x': [0.0, 1.0, 2], 'y': [0.0, 2.0, 2], 'cells': [0, 0, 1, 1, 1, 2], 'total': 3, 'most': 2}
    """
    if not x.size:
        return {"x": [0.0, 1.0, 1], "y": [0.0, 1.0, 1], "cells": [], "total": 0, "most": 0}
    ranges = [_range(x), _range(y)]
    histogram, _, _ = np.histogram2d(x, y, bins=cells, range=ranges)
    i, j = np.nonzero(histogram)
    listed = np.column_stack((i, j, histogram[i, j].astype(np.int64))).ravel()
    across, up = ([float(low), float(high), number] for (low, high), number in zip(ranges, cells, strict=True))
    most = int(histogram.max())
    return {"x": across, "y": up, "cells": listed.tolist(), "total": int(x.size), "most": most}


def _range(values: FloatArray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)
