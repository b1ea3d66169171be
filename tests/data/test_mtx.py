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
BANNER = "%%MatrixMarket matrix "


def read(path: Path, content: str | bytes) -> Table:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_file(path)


@pytest.mark.parametrize("ending", [".mtx", ".mtx.gz"])
@pytest.mark.parametrize(
    "matrix", [X, X.astype(np.float32), (X * 9).astype(int), THIN], ids=["X", "single", "whole", "thin"]
)
def test_the_same_numbers_as_the_array(
    matrix: Any, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrices, "READ_AT_ONCE", 100)
    io.mmwrite(tmp_path / "x.mtx", sparse.coo_array(matrix), comment="by us")
    content = (tmp_path / "x.mtx").read_bytes()
    table = read(tmp_path / f"y{ending}", gzip.compress(content) if ending.endswith("gz") else content)
    as_written = io.mmread(tmp_path / "x.mtx").toarray()
    assert table.source.sparse
    np.testing.assert_array_equal(table.values, as_written)
    if matrix.dtype != np.float32:  # fewer digits are written for it
        np.testing.assert_array_equal(as_written, matrix)
    ours, theirs = fit(table, random_state=0), fit(as_table(as_written), random_state=0)
    np.testing.assert_array_equal(ours.support, theirs.support)
    np.testing.assert_array_equal(ours.p_values, theirs.p_values)


@pytest.mark.parametrize(
    "kind", ["coordinate real symmetric", "coordinate integer skew-symmetric", "array real general"]
)
def test_halves_and_dense_ones_are_refused(kind: str, tmp_path: Path) -> None:
    stored, _, symmetry = kind.split()
    rule = "FILE must be a general matrix of coordinates"
    with pytest.raises(InputError, match=rf"^{rule}: got x\.mtx, {stored} {symmetry}; write it so"):
        read(tmp_path / "x.mtx", f"{BANNER}{kind}\n2 2 1\n1 1 1\n")


def test_patterns_places_twice_and_numbers_of_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "x.mtx"
    text = BANNER + "coordinate pattern general\n% a comment\n\n3 2 3\n1 1\n3 2\n1 1\n"
    np.testing.assert_array_equal(read(path, text).values, [[2, 0], [0, 0], [0, 1]])
    text = BANNER.upper() + "Coordinate REAL general\r\n2 2 4\r\n1 1 1e-310\r\n 1 2 nan\r\n2\t1 -inf\t2 2 1\r\n"
    np.testing.assert_array_equal(read(path, text).values, [[1e-310, np.nan], [-np.inf, 1]])
    with pytest.raises(InputError, match="--id must be left out"):
        open_file(path, ReadOptions(id="a"))


BAD = {
    "empty": "",
    "one byte": "%",
    "no heading": "1 2 3\n",
    "a heading that makes no sense": BANNER + "coordinate quaternion general\n2 2 1\n1 1 1\n",
    "invalid literal": BANNER + "coordinate real general\n2 x 1\n1 1 1\n",
    "an entry outside of shape": BANNER + "coordinate real general\n2 2 1\n3 1 1\n",
    "an entry outside": BANNER + "coordinate real general\n2 2 1\n1.5 1 1\n",
    "an entry": BANNER + "coordinate real general\n2 2 1\nnan 1 1\n",
    "not the 2 entries it promises": BANNER + "coordinate real general\n2 2 2\n1 1 1\n",
    "not the 1 entries": BANNER + "coordinate real general\n2 2 1\n1 1 1 1\n",
    "'x' where a number should be": BANNER + "coordinate real general\n2 1 1\n1 1 x\n",
    "'1_0' where": BANNER + "coordinate real general\n2 1 1\n1 1 1_0\n",
    "in so few bytes": BANNER + "coordinate real general\n1000000000 1000000 1000000\n1 1 1\n",
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
        read(tmp_path / "x.mtx", BANNER + "coordinate complex general\n1 1 1\n1 1 1 1\n")
    with pytest.raises(InputError, match="X must have rows"):
        read(tmp_path / "x.mtx", BANNER + "coordinate real general\n0 1 0\n")
    with pytest.raises(InputError, match="at least 4 rows"):
        fit(read(tmp_path / "x.mtx", BANNER + "coordinate real general\n1 1 1\n1 1 1\n"), random_state=0)


@pytest.mark.parametrize("kind", ["mtx", "gz"])
def test_damaged_files_never_crash(kind: str, tmp_path: Path) -> None:
    io.mmwrite(tmp_path / "x.mtx", sparse.coo_array(THIN.round(3)))
    content, rng = (tmp_path / "x.mtx").read_bytes(), np.random.default_rng(4)
    name, content = ("y.mtx.gz", gzip.compress(content)) if kind == "gz" else ("y.mtx", content)
    for _ in range(60):
        try:
            fit(read(tmp_path / name, damaged(content, rng)), random_state=0)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
