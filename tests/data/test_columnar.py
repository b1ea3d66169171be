"""Data frames of polars and tables of pyarrow, as they lie in memory."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sparsemean import sparse_mean
from sparsemean._data import as_table
from sparsemean.errors import InputError

rng = np.random.default_rng(0)
X = rng.standard_t(2, (60, 7)) + 3.0 * (np.arange(7) < 2)
Make = Callable[[dict[str, Any]], Any]
KINDS: dict[str, Make] = {
    "polars": pl.DataFrame,
    "polars in pieces": lambda data: pl.concat([pl.DataFrame(data)[:25], pl.DataFrame(data)[25:]], rechunk=False),
    "arrow": pa.table,
    "arrow in pieces": lambda data: pa.concat_tables([pa.table(data)[:25], pa.table(data)[25:]]),
    "record batch": pa.RecordBatch.from_pydict,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8, np.bool_])
def test_the_same_numbers_as_the_array(
    kind: str,
    dtype: type,
) -> None:
    values = (X * 10).clip(-100, 100).astype(dtype) if dtype is not np.bool_ else X > 0
    table = as_table(KINDS[kind]({name: values[:, k].copy() for k, name in enumerate("abcdefg")}))
    assert table.values.dtype == (np.float32 if dtype is np.float32 else np.float64)
    np.testing.assert_array_equal(table.values, values)
    assert list(table.feature_names) == list("abcdefg")
    ours = sparse_mean(KINDS[kind]({name: values[:, k].copy() for k, name in enumerate("abcdefg")}), random_state=0)
    theirs = sparse_mean(values, random_state=0)
    np.testing.assert_array_equal(ours.support, theirs.support)
    np.testing.assert_array_equal(ours.p_values, theirs.p_values)


@pytest.mark.parametrize("kind", KINDS)
def test_gaps_truths_and_decimals(kind: str) -> None:
    cents = [decimal.Decimal(int(c)).scaleb(-2) for c in rng.integers(-(10**9), 10**9, 50)]
    data = {"gap": [1, None] * 25, "yes": [True, None] * 25, "cents": cents, "none": [None] * 50, "x": [0.5, None] * 25}
    values = as_table(KINDS[kind](data)).values
    np.testing.assert_array_equal(values[:, 0], [1, np.nan] * 25)
    np.testing.assert_array_equal(values[:, 1], [1, np.nan] * 25)
    np.testing.assert_array_equal(values[:, 2], [float(c) for c in cents])
    assert np.isnan(values[:, 3]).all()
    np.testing.assert_array_equal(values[:, 4], [0.5, np.nan] * 25)
    with pytest.raises(InputError, match=r"NaN in column 0 \('gap'\), row 1"):
        sparse_mean(KINDS[kind](data))


def test_decimals_of_pandas_are_numbers() -> None:
    cents = [decimal.Decimal(int(c)).scaleb(-2) for c in rng.integers(-(10**9), 10**9, 50)]
    values = np.array([float(c) for c in cents])
    frame = pd.DataFrame({"price": cents, "gap": [*cents[:-1], None], "whole": np.arange(50), "last": cents[::-1]})
    kept = frame.copy()
    np.testing.assert_array_equal(as_table(frame[["price", "last"]]).values, np.column_stack((values, values[::-1])))
    table = as_table(frame)
    np.testing.assert_array_equal(table.values[:, 0], values)
    np.testing.assert_array_equal(table.values[:, 1], [*values[:-1], np.nan])
    ours, theirs = sparse_mean(frame, missing="omit"), sparse_mean(table.values, missing="omit")
    np.testing.assert_array_equal(ours.p_values, theirs.p_values)
    pd.testing.assert_frame_equal(frame, kept)
    for odd in ("12.5", 12.5, decimal.Decimal("sNaN")):
        with pytest.raises(
            InputError, match=r"^X must have numeric columns only: got text in column 'price'; leave it"
        ):
            as_table(frame.assign(price=[odd, *cents[1:]]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("value", "what"),
    [("x", "text"), (datetime.date(2020, 1, 1), "[dD]ate"), ([1.0], "[lL]ist"), ({"u": 1}, "[sS]truct")],
)
def test_what_holds_no_numbers_is_refused(kind: str, value: Any, what: str) -> None:
    shown = "2 columns: 'odd', 'more'" if what == "text" else "column 'odd'; text in column 'more'"
    line = rf"^X must have numeric columns only: got {what}[^;]* in {shown}; leave it out or convert it$"
    with pytest.raises(InputError, match=line):
        sparse_mean(KINDS[kind]({"a": X[:50, 0], "odd": [value] * 50, "more": ["z"] * 50}))


def test_names_can_be_given_and_an_index_of_pandas_names_the_rows() -> None:
    names = as_table(pl.DataFrame({"a": [1.0], "b": [2.0]}), ["u", "v"]).feature_names
    assert names is not None
    assert names.tolist() == ["u", "v"]
    table = as_table(pa.Table.from_pandas(pd.DataFrame({"a": [1.0, 2.0]}, index=["p", "q"])), ["u"])
    assert table.feature_names is not None
    assert table.row_names is not None
    assert (table.feature_names.tolist(), table.row_names.tolist()) == (["u"], ["p", "q"])
    with pytest.raises(InputError, match="feature_names must be a sequence of 2 names"):
        as_table(pl.DataFrame({"a": [1.0], "b": [2.0]}), ["u"])


def test_lazy_empty_and_doubled() -> None:
    with pytest.raises(
        InputError, match=r"X must be a data frame: got a LazyFrame of polars; call \.collect\(\) first"
    ):
        sparse_mean(pl.LazyFrame({"a": [1.0]}))
    for empty in (pl.DataFrame(), pa.table({})):
        with pytest.raises(InputError, match=r"features|columns left"):
            sparse_mean(empty)
    with pytest.raises(InputError, match="X must have rows"):
        sparse_mean(pl.DataFrame({"a": []}, schema={"a": pl.Float64}))
    with pytest.raises(InputError, match="feature names must differ"):
        sparse_mean(pa.Table.from_arrays([pa.array([1.0])] * 2, names=["b", "b"]))


def test_polars_needs_no_pyarrow() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import polars, sparsemean\n"
        "frame = polars.DataFrame({'a': [1.0, 2.0] * 20, 'b': [1, None] * 20}).fill_null(0)\n"
        "print(sparsemean.sparse_mean(frame, random_state=0).support)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[0 1]\n"
