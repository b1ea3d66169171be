"""Matrix Market files, dense or of entries only: a few lines of heading, then numbers with blanks between them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from sparsemean.errors import InputError
from sparsemean.kernels import decimals
from sparsemean.sources.opened import MOST_COMPRESSED, Opened
from sparsemean.sources.table import Table, check_matrix, dense_table
from sparsemean.sources.wanted import Wanted

Floats = npt.NDArray[np.float64]
READ_AT_ONCE = 8_000_000
LONGEST_LINE = 10_000
FIELDS = ("real", "double", "integer", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric")


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says it holds; ``width`` numbers make an entry."""

    dense: bool
    symmetry: str
    n: int
    d: int
    entries: int
    width: int


def read(path: Path, wanted: Wanted) -> Table:
    """Read a .mtx or .mtx.gz file: its rows are rows, its columns are features."""
    wanted.refuse("id", "group", "select", "drop", "layer", "dataset", kind=".mtx files")
    packed = path.name.lower().endswith(".gz")
    opened = Opened(path.name, ".mtx file", path.stat().st_size)
    with opened.reading(), _open(path, packed) as file:
        head = _head(file, opened, MOST_COMPRESSED if packed else 1)
        numbers = _rows(_numbers(file, opened), head, opened)
        return _dense(numbers, head) if head.dense else _sparse(numbers, head, opened)


def _open(path: Path, packed: bool) -> Any:
    return gzip.open(path, "rb") if packed else path.open("rb")


def _head(file: IO[bytes], opened: Opened, packed: int) -> Head:
    """Read the heading, and refuse a size that the file cannot hold: room is made for it before the rest is read."""
    banner = file.readline(LONGEST_LINE).decode("ascii").lower().split()
    if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"] or banner[2] not in ("array", "coordinate"):
        raise opened.broken("no heading")
    if banner[3] == "complex":
        raise InputError("FILE", "be real", f"{opened.name} with complex values", "take real parts or magnitudes first")
    dense, field, symmetry = banner[2] == "array", banner[3], banner[4]
    line = file.readline(LONGEST_LINE)
    while line.startswith(b"%") or (line and not line.strip()):
        line = file.readline(LONGEST_LINE)
    sizes = [int(size) for size in line.decode("ascii").split()]
    known = field in FIELDS and symmetry in SYMMETRIES and not (dense and field == "pattern")
    if not known or len(sizes) != (2 if dense else 3) or min(sizes) < 0:
        raise opened.broken("a heading that makes no sense")
    n, d = sizes[:2]
    check_matrix((n, d), np.dtype(np.float64))
    if symmetry != "general" and n != d:
        raise opened.broken(f"{symmetry} of shape ({n}, {d})")
    stored = n * d if symmetry == "general" else n * (n + 1) // 2 - (n if symmetry.startswith("skew") else 0)
    entries, width = (stored, 1) if dense else (sizes[2], 2 + (field != "pattern"))
    if 2 * width * entries > packed * opened.size:
        raise opened.broken(f"shape ({n}, {d}) with {entries} entries in so few bytes")
    opened.check_lines((n, d))
    return Head(dense, symmetry, n, d, entries, width)


def _numbers(file: IO[bytes], opened: Opened) -> Iterator[Floats]:
    """Yield the numbers of the rest of a file, a stretch at a time."""
    left, more = b"", b" "
    while more:
        more = file.read(READ_AT_ONCE)
        text = left + (more or b"\n")
        end = max(text.rfind(blank) for blank in (b"\n", b" ", b"\t", b"\r")) + 1
        text, left = text[:end], text[end:]
        while text:
            out = np.empty(len(text) // 2 + 1)
            count, used = decimals.read_numbers(np.frombuffer(text, dtype=np.uint8), out.view(np.uint64))
            yield out[:count]
            text = text[used:]
            if text:  # a number that is left open, or none
                word = text.split(maxsplit=1)[0]
                text = text[len(word) :]
                yield np.array([_number(word, opened)])


def _number(word: bytes, opened: Opened) -> float:
    """Read a number the slow way."""
    try:
        if b"_" not in word:
            return float(word.decode("ascii"))
    except ValueError:
        pass
    raise opened.broken(f"{word[:40].decode(errors='replace')!r} where a number should be")


def _rows(numbers: Iterator[Floats], head: Head, opened: Opened) -> Iterator[tuple[slice, Floats]]:
    """Yield whole entries with their places, exactly as many as there should be."""
    at, left = 0, np.empty(0)
    for part in numbers:
        together = np.concatenate([left, part]) if left.size else part
        whole = together.size // head.width
        if at + whole > head.entries:
            break
        yield slice(at, at + whole), together[: whole * head.width].reshape(whole, head.width)
        at, left = at + whole, together[whole * head.width :]
    else:
        if at == head.entries and not left.size:
            return
    raise opened.broken(f"not the {head.entries} entries it promises")


def _dense(rows: Iterator[tuple[slice, Floats]], head: Head) -> Table:
    """Return a matrix that is written out column by column, its lower half only if it is symmetric."""
    values = np.empty(head.entries)
    for places, part in rows:
        values[places] = part[:, 0]
    if head.symmetry == "general":
        return dense_table(values.reshape((head.n, head.d), order="F"))
    out = np.zeros((head.n, head.n))
    skew = head.symmetry != "symmetric"
    column, row = np.triu_indices(head.n, k=1 if skew else 0)
    out[column, row] = -values if skew else values
    out[row, column] = values
    return dense_table(out)


def _sparse(rows: Iterator[tuple[slice, Floats]], head: Head, opened: Opened) -> Table:
    """Return a matrix of which entries are written, from 1 on; those of one place are added."""
    from scipy import sparse

    from sparsemean.sources import sparse as sparse_source

    kind = np.int32 if max(head.n, head.d) < 2**31 else np.int64
    row: npt.NDArray[Any] = np.empty(head.entries, kind)
    column, values = np.empty_like(row), np.empty(head.entries)
    for places, part in rows:
        at = part[:, :2]
        if not ((at >= 1) & (at <= (head.n, head.d)) & (at == np.floor(at))).all():
            raise opened.broken(f"an entry outside of shape ({head.n}, {head.d})")
        row[places], column[places] = at.T - 1
        values[places] = part[:, 2] if head.width == 3 else 1.0
    matrix = sparse.coo_array((values, (row, column)), shape=(head.n, head.d)).tocsc()
    if head.symmetry != "general":
        off = matrix - sparse.diags_array(matrix.diagonal())
        matrix = (matrix + (off.T if head.symmetry == "symmetric" else -off.T)).tocsc()
    return sparse_source.from_object(matrix)
