"""What every source is held to: the numbers of the array in memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sparsemean._data import as_table, open_file
from sparsemean._data.table import NOTHING, ReadOptions, Table
from sparsemean._fit.one_sample import fit
from sparsemean._stats.effects import COLUMNS
from sparsemean.errors import InputError
from sparsemean.result import Estimate


@cache
def fitted(values: bytes, dtype: str, shape: tuple[int, int]) -> Estimate:
    """Return the fit of an array in memory, which many sources are compared with."""
    return fit(as_table(np.frombuffer(values, dtype=dtype).reshape(shape)), random_state=0)


def same_fit(table: Table, values: Any) -> None:
    """The table and the array in memory agree in every number that is certified."""
    expected = fitted(values.tobytes(), values.dtype.str, values.shape)
    found = fit(table, random_state=0)
    np.testing.assert_array_equal(found.support, expected.support)
    np.testing.assert_array_equal(found.p_values, expected.p_values)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-12)
    assert expected.support.size >= 2


def same_values(table: Table, values: Any) -> None:
    """All values, scattered columns and an inner block are those of the array."""
    columns = np.array([0, 1, 9, 30, 60])
    np.testing.assert_array_equal(table.values, values)
    np.testing.assert_array_equal(table.source.take(columns), values[:, columns])
    np.testing.assert_array_equal(table.source.block(slice(5, 77), slice(3, 50)), values[5:77, 3:50])


def same_tables(found: Any, expected: Any) -> None:
    """The table of what has no data is that of what has them, but for values of features that were not selected."""
    import pandas as pd

    pd.testing.assert_frame_equal(found.table(), expected.table())
    known = [name for name in found.table(all=True) if name not in ("estimate", "measure", *COLUMNS)]
    pd.testing.assert_frame_equal(found.table(all=True)[known], expected.table(all=True)[known])


def is_refused(path: Any, wanted: ReadOptions = NOTHING) -> bool:
    """Whether a file is refused, in one line, rather than read and fitted."""
    try:
        fit(open_file(path, wanted), random_state=0, test="buckets", refine=None, screen_rows=False)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return True
    return False
