"""Matrix Market files against what SciPy reads from them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import io, sparse

from sparsemean._data import as_table, matrices, open_file
from sparsemean._data.table import ReadOptions, Table
from sparsemean._fit.one_sample import fit
from sparsemean.errors import InputError

from fuzzed import damaged

rng = np.random.default_rng(0)
X = rng.standard_t(2, (60, 7)) + 3.0 * (np.arange(7) < 2)
THIN = np.where(X > 1, X, 0.0)
SQUARE = sparse.coo_array(rng.standard_normal((9, 9)).round(2) * (rng.random((9, 9)) < 0.5)).toarray()
BANNER = "%%MatrixMarket matrix "


def read(path: Path, content: str | bytes) -> Table:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_file(path)


@pytest.mark.parametrize("ending", [".mtx", ".mtx.gz"])
@pytest.mark.parametrize(
    "matrix", [X, X.astype(np.float32), (X * 9).astype(int), THIN, sparse.coo_array(THIN)], ids=str
)
def test_the_same_numbers_as_the_array(
    matrix: Any, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrices, "READ_AT_ONCE", 100)
    io.mmwrite(tmp_path / "x.mtx", matrix, comment="by us")
    content = (tmp_path / "x.mtx").read_bytes()
    table = read(tmp_path / f"y{ending}", gzip.compress(content) if ending.endswith("gz") else content)
    values = matrix.toarray() if sparse.issparse(matrix) else matrix
    as_written = io.mmread(tmp_path / "x.mtx")
    as_written = as_written.toarray() if sparse.issparse(as_written) else as_written
    assert table.source.sparse == sparse.issparse(matrix)
    np.testing.assert_array_equal(table.values, as_written)
    if values.dtype != np.float32:  # fewer digits are written for it
        np.testing.assert_array_equal(as_written, values)
    ours, theirs = fit(table, random_state=0), fit(as_table(as_written), random_state=0)
    np.testing.assert_array_equal(ours.support, theirs.support)
    np.testing.assert_array_equal(ours.p_values, theirs.p_values)


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric"])
@pytest.mark.parametrize("stored", ["array", "coordinate"])
def test_halves_are_made_whole(symmetry: str, stored: str, tmp_path: Path) -> None:
    whole = SQUARE + SQUARE.T if symmetry == "symmetric" else SQUARE - SQUARE.T
    io.mmwrite(tmp_path / "x.mtx", sparse.coo_array(whole) if stored == "coordinate" else whole, symmetry=symmetry)
    head = (tmp_path / "x.mtx").read_text().split("\n", 1)[0]
    assert head == f"{BANNER}{stored} real {symmetry}"
    np.testing.assert_array_equal(open_file(tmp_path / "x.mtx").values, whole)


def test_patterns_places_twice_and_numbers_of_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "x.mtx"
    text = BANNER + "coordinate pattern general\n% a comment\n\n3 2 3\n1 1\n3 2\n1 1\n"
    np.testing.assert_array_equal(read(path, text).values, [[2, 0], [0, 0], [0, 1]])
    text = BANNER.upper() + "Array REAL general\r\n2 2\r\n1e-310\r\n nan\r\n-inf\t1\r\n"
    np.testing.assert_array_equal(read(path, text).values, [[1e-310, -np.inf], [np.nan, 1]])
    with pytest.raises(InputError, match="--id must be left out"):
        open_file(path, ReadOptions(id="a"))


BAD = {
    "empty": "",
    "one byte": "%",
    "no heading": "1 2 3\n",
    "a heading that makes no sense": BANNER + "coordinate real hermitian\n2 2 1\n1 1 1\n",
    "invalid literal": BANNER + "coordinate real general\n2 x 1\n1 1 1\n",
    "an entry outside of shape": BANNER + "coordinate real general\n2 2 1\n3 1 1\n",
    "an entry outside": BANNER + "coordinate real general\n2 2 1\n1.5 1 1\n",
    "an entry": BANNER + "coordinate real general\n2 2 1\nnan 1 1\n",
    "not the 2 entries it promises": BANNER + "coordinate real general\n2 2 2\n1 1 1\n",
    "not the 1 entries": BANNER + "coordinate real general\n2 2 1\n1 1 1 1\n",
    "'x' where a number should be": BANNER + "array real general\n2 1\n1\nx\n",
    "'1_0' where": BANNER + "array real general\n2 1\n1\n1_0\n",
    "in so few bytes": BANNER + "array real general\n1000000000 1000000\n1\n",
    "with 9000000000000 entries": BANNER + "coordinate real general\n2 2 9000000000000\n1 1 1\n",
    r"shape \(20, 80000000\) in 66 bytes": BANNER + "coordinate real general\n20 80000000 1\n1 1 1\n",
    r"shape \(99999999999, 2\)": BANNER + "coordinate real general\n99999999999 2 1\n1 1 1\n",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_files_get_one_line(line: str, tmp_path: Path) -> None:
    why = "no heading" if line in ("empty", "one byte") else line
    with pytest.raises(InputError, match=rf"^FILE must be a complete \.mtx file: got x\.mtx \(.*{why}"):
        read(tmp_path / "x.mtx", BAD[line])


def test_complex_and_few_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="FILE must be real"):
        read(tmp_path / "x.mtx", BANNER + "array complex general\n1 1\n1 1\n")
    with pytest.raises(InputError, match="X must have rows"):
        read(tmp_path / "x.mtx", BANNER + "array real general\n0 1\n")
    with pytest.raises(InputError, match="at least 4 rows"):
        fit(read(tmp_path / "x.mtx", BANNER + "array real general\n1 1\n1\n"), random_state=0)


@pytest.mark.parametrize("kind", ["array", "coordinate", "gz"])
def test_damaged_files_never_crash(kind: str, tmp_path: Path) -> None:
    io.mmwrite(tmp_path / "x.mtx", X.round(3) if kind == "array" else sparse.coo_array(THIN.round(3)))
    content, rng = (tmp_path / "x.mtx").read_bytes(), np.random.default_rng(4)
    name, content = ("y.mtx.gz", gzip.compress(content)) if kind == "gz" else ("y.mtx", content)
    for _ in range(60):
        try:
            fit(read(tmp_path / name, damaged(content, rng)), random_state=0)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
