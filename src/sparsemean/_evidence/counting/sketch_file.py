"""A sketch as a file: a zip archive of .npy arrays, stored as they are, with a header in JSON; nothing pickled.

What a file claims is checked before it is believed, once: the header against the members of the archive and their
bytes before any is read, then the sketch that was read.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean import __version__
from sparsemean._data.table import FileContext, Names
from sparsemean._evidence.counting.sketch import ConstantColumns, PendingRows, Sketch
from sparsemean._stats.buckets import check_sizes
from sparsemean._util.files import as_tuples, check_array, check_types, refuse_endless, replacing
from sparsemean._util.records import BLOCK, CountArray, Counts, FloatArray, Ranges
from sparsemean.errors import InputError

FORMAT = "sparsemean-sketch-1"
FAMILY = "sparsemean-sketch-"
HEADER, NAMES = "header.json", "feature_names.json"
ARRAYS = {"positive": "u kd", "negative": "u kd", "nearest": "f d", "same-features": "u * d", "same-values": "f *"}
GAPS = {"present": "u kd", "missing": "u d"}
"""Kinds and shape of every array, in the words of `check_array`: d features, k sizes."""
COUNTED = ("positive", "negative", *GAPS)
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
STRINGS = re.compile(rb"\[%b(?:, %b)*+\]" % (_STRING, _STRING))
"""A list of strings as it is written here, known for one before room is made for its items."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""A date for all members, so that equal sketches are equal files."""
MOST_ROWS = 2**31 - 1
"""Rows that the counters can tell apart."""
MOST_SEED = 2**128
MOST_NUMBER = 2**62
PIECE = 1 << 16
"""Features that are added at a time, so that sums stay in the processor's cache."""
A_NAME = 256
"""Bytes a name, on average, beyond which names are stored as they are."""
SHORTEST = 4
"""Bytes of a smallest distance, at least."""
CONTRADICTS = "its header contradicts its content"
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself before its arrays are read.

    Entries have the words of the format, which are older than those of `Sketch`: sizes are ``bucket_sizes``, shift is
    the null, loose rows are pending; arrays called "same" are of constant columns.
    """

    n_features: int
    seed: int
    sizes: tuple[int, ...]
    missing: bool
    shift: str
    """Digest of the null values; empty where they are zero."""
    ranges: Ranges
    sealed: Ranges
    n_buckets: tuple[int, ...]
    gaps: bool
    """Whether values are missing, and counted."""
    loose: tuple[int, ...]
    """First rows of the pending stretches."""
    names: str
    """Digest of the feature names; empty where there are none."""
    written_by: str = __version__

    def arrays(self) -> dict[str, str]:
        """Return the arrays that a file with this header holds, with their kinds and shape."""
        pending = {f"loose-{k}": "fiub *d" for k in range(len(self.loose))}
        return ARRAYS | (GAPS if self.gaps else {}) | ({"shift": "f d"} if self.shift else {}) | pending

    def most_packed(self) -> int:
        """Return how many bytes of names may be packed: few of them can stand for a thousand times as many."""
        return A_NAME * self.n_features + 65_536


def header_of(sketch: Sketch) -> Header:
    """Return what the file of a sketch says of it."""
    return Header(
        n_features=sketch.n_features,
        seed=sketch.seed,
        sizes=sketch.bucket_sizes,
        missing=sketch.missing == "omit",
        shift=_digest_of_null(sketch.null),
        ranges=sketch.ranges,
        sealed=sketch.sealed,
        n_buckets=sketch.counts.n_buckets,
        gaps=sketch.counts.missing is not None,
        loose=tuple(rows.first_row for rows in sketch.pending),
        names="" if sketch.feature_names is None else _digest(_names_json(sketch.feature_names)),
    )


def save_sketch(sketch: Sketch, path: str | Path) -> None:
    """Write a sketch; what was at ``path`` stays if this fails."""
    header = header_of(sketch)
    claims = {"format": FORMAT, **asdict(header), "seed": str(header.seed)}  # digits: seeds are longer than 64 bits
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER, LONG_AGO), json.dumps(claims))
        if sketch.feature_names is not None:
            content, info = _names_json(sketch.feature_names), zipfile.ZipInfo(NAMES, LONG_AGO)
            packed = len(content) <= header.most_packed()
            archive.writestr(info, content, zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED)
        for name, array in _arrays(sketch).items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", LONG_AGO), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _arrays(sketch: Sketch) -> dict[str, Array]:
    counts, constant = sketch.counts, sketch.constant
    arrays = {name: _small(array) for name in COUNTED if (array := getattr(counts, name)) is not None}
    arrays |= {"nearest": _short(counts.nearest)}
    arrays |= {"same-features": _small(constant.features), "same-values": constant.values}
    if not isinstance(sketch.null, float):
        arrays["shift"] = sketch.null
    return arrays | {f"loose-{k}": rows.values for k, rows in enumerate(sketch.pending)}


def _small(numbers: Array) -> Array:
    """Return numbers from 0 in the smallest unsigned type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _short(numbers: FloatArray) -> Array:
    """Return numbers in half the bytes where that loses nothing."""
    with np.errstate(over="ignore", under="ignore"):
        short = numbers.astype(np.float32)
    return short if np.array_equal(short, numbers, equal_nan=True) else np.ascontiguousarray(numbers)


def _names_json(names: Names) -> bytes:
    return json.dumps(names.tolist()).encode("ascii")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of_null(null: FloatArray | float) -> str:
    return "" if isinstance(null, float) else _digest((null + 0.0).tobytes())  # 0.0 and −0.0 are the same null value


def load_sketch(path: str | Path) -> Sketch:
    """Read a sketch written by `Sketch.save`; damaged files and others are refused in one line."""
    with _archive(path) as (archive, header):
        names = _names(archive, header) if header.names else None
        sketch = _sketch(archive, header)
    counts = sketch.counts
    wide = {name: array.astype(np.int32) for name in COUNTED if (array := getattr(counts, name)) is not None}
    counts = replace(counts, nearest=counts.nearest.astype(np.float64), **wide)
    return replace(sketch, counts=counts, feature_names=names)


def read_counts(path: str | Path) -> Sketch:
    """Read all of a file but the feature names; counts are in the types of the file, only fit to be added."""
    with _archive(path) as (archive, header):
        return _sketch(archive, header)


def read_header(path: str | Path) -> Header:
    """Read what a file says of itself, and nothing more."""
    with _archive(path) as (_, header):
        return header


@contextmanager
def _archive(path: str | Path) -> Iterator[tuple[zipfile.ZipFile, Header]]:
    """Open a file and read its header; whatever goes wrong while it is taken apart is the file's fault."""
    refuse_endless(path)
    context, path = FileContext(str(path), "sketch file"), Path(path)
    with context.parsing(), context.reading(), zipfile.ZipFile(path) as archive:
        yield archive, _header(archive, path)


def _header(archive: zipfile.ZipFile, path: Path) -> Header:
    """Read the header, and refuse what is not of this format."""
    members, size = archive.infolist(), path.stat().st_size
    if HEADER not in archive.namelist():
        raise ValueError("it has no header of a sketch")
    _check_members(members, size)
    claims = json.loads(archive.read(HEADER))
    kind = str(claims.pop("format", ""))
    if kind != FORMAT:
        newer = kind.startswith(FAMILY)
        advice = f"it was written by sparsemean {claims.get('written_by', 'of another version')}" if newer else ""
        raise InputError("FILE", f"hold a sketch of format {FORMAT}", f"{path} ({kind or 'none'})", advice)
    header = Header(**{name: as_tuples(value) for name, value in (claims | {"seed": int(claims["seed"])}).items()})
    if claims["seed"] != str(header.seed):
        raise ValueError("its seed is not written in digits")
    _check_header(header, members, size)
    return header


def _names(archive: zipfile.ZipFile, header: Header) -> Names:
    content = archive.read(NAMES)
    if _digest(content) != header.names or not STRINGS.fullmatch(content):
        raise ValueError("its feature names are not those of its header")
    if (count := content.count(b'", "') + 1) != header.n_features:
        raise ValueError(f"{count} names for {header.n_features} features")
    return np.fromiter(json.loads(content), dtype=object)


def _sketch(archive: zipfile.ZipFile, header: Header) -> Sketch:
    sizes = {"d": header.n_features, "k": len(header.sizes)}
    arrays = dict[str, Array]()
    for name, spec in header.arrays().items():
        arrays[name] = _array(archive, name)
        check_array(name, arrays[name], spec, sizes)
    counted: dict[str, Any] = {name: arrays.get(name) for name in (*COUNTED, "nearest")}
    sketch = Sketch(
        counts=Counts(n_buckets=header.n_buckets, **counted),
        ranges=header.ranges,
        seed=header.seed,
        bucket_sizes=header.sizes,
        null=arrays.get("shift", 0.0),
        missing="omit" if header.missing else "raise",
        pending=tuple(PendingRows(first, arrays[f"loose-{k}"]) for k, first in enumerate(header.loose)),
        sealed=header.sealed,
        constant=ConstantColumns(arrays["same-features"].astype(np.intp), arrays["same-values"]),
    )
    if _digest_of_null(sketch.null) != header.shift:
        raise ValueError("its null values are not those of its header")
    check_sketch(sketch)
    return sketch


def _array(archive: zipfile.ZipFile, name: str) -> Array:
    """Read one array whole, which compares its checksum; the bytes are not copied."""
    content = archive.read(f"{name}.npy")
    start = io.BytesIO(content[:4096])
    if np.lib.format.read_magic(start) != (1, 0):
        raise ValueError(f"{name} is not a plain array")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(start)
    return np.frombuffer(content, dtype, offset=start.tell()).reshape(shape, order="F" if fortran else "C")


# What a file may claim.


def _check_members(members: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Refuse members that take more than a file of ``size`` bytes has: all but the names are stored as they are."""
    if sum(info.compress_size for info in members) > size:
        raise ValueError("its members share bytes, or it is cut short")
    stored = (info for info in members if info.filename != NAMES or info.compress_type == zipfile.ZIP_STORED)
    if any(info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size for info in stored):
        raise ValueError("its arrays are packed")


def _check_header(header: Header, members: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Refuse a header that cannot be, other members than it names, and more features than the bytes can hold."""
    check_types(header)
    check_sizes(header.sizes)
    _check_ranges(header.ranges)
    _check_ranges(header.sealed)
    rows = sum(last - first for first, last in header.ranges)
    possible = 0 <= header.seed < MOST_SEED and header.n_features >= 1 and 0 < rows <= MOST_ROWS
    expected = [HEADER, *([NAMES] if header.names else []), *(f"{name}.npy" for name in header.arrays())]
    named = sorted(info.filename for info in members) == sorted(expected)
    if not (possible and named) or (header.gaps and not header.missing):
        raise ValueError(CONTRADICTS)
    if header.n_features * (2 * len(header.sizes) + SHORTEST) > size:
        raise ValueError(f"{header.n_features} features in {size} bytes")
    if any(info.compress_type != zipfile.ZIP_STORED and info.file_size > header.most_packed() for info in members):
        raise ValueError(f"names that are too long for {header.n_features} features")


def check_sketch(sketch: Sketch) -> None:
    """Refuse counts that no rows of such numbers can have, and pending rows that are not among them."""
    pending, constant = [rows.range for rows in sketch.pending], sketch.constant
    _check_ranges(pending)
    _check_blocks(sorted((*pending, *sketch.sealed)), sketch.ranges)
    rows, n_buckets = sketch.n_rows - sketch.rows_kept, sketch.counts.n_buckets
    if len(n_buckets) != len(sketch.bucket_sizes):
        raise ValueError(CONTRADICTS)
    # a bucket holds between one row and as many as its size
    if any(not -(-rows // size) <= n <= rows for n, size in zip(n_buckets, sketch.bucket_sizes, strict=True)):
        raise ValueError(f"{rows} rows counted in {n_buckets} buckets")
    _check_counts(sketch.counts, rows)
    if constant.features.shape != constant.values.shape or (np.diff(constant.features) <= 0).any():
        raise ValueError("features of one value are in disorder")
    if not (np.isfinite(constant.values).all() and np.isfinite(sketch.null).all()):
        raise ValueError("a null value or the value of a feature is not finite")


def _check_ranges(ranges: Sequence[tuple[int, int]]) -> None:
    """Refuse ranges that are empty, not rising or beyond all numbers."""
    possible = all(0 <= first < last <= MOST_NUMBER for first, last in ranges)
    if not possible or any(last > first for (_, last), (first, _) in pairwise(ranges)):
        raise ValueError("its rows are in disorder")


def _check_blocks(parts: Sequence[tuple[int, int]], ranges: Ranges) -> None:
    """Refuse parts of blocks, pending or sealed, that are not all rows seen of blocks that were not counted whole.

    The rows seen less those of parts must be whole blocks: every number at which a stretch of them begins or ends is a
    multiple of 64, and none is taken away that was not seen.
    """
    _check_ranges(parts)
    change = Counter[int]()
    for stretches, by in ((ranges, 1), (parts, -1)):
        for first, last in stretches:
            change[first] += by
            change[last] -= by
    inside = all(first // BLOCK == (last - 1) // BLOCK and last - first < BLOCK for first, last in parts)
    whole = all(at % BLOCK == 0 for at, by in change.items() if by)
    seen = all(rows >= 0 for rows in accumulate(change[at] for at in sorted(change)))
    if not (inside and whole and seen):
        raise ValueError("parts of blocks are not among its rows")


def _check_counts(counts: Counts, rows: int) -> None:
    """Refuse more signs than buckets, and more missing values than rows."""
    d = counts.nearest.size
    for k, most in enumerate(counts.n_buckets):
        sides = (counts.positive[k], counts.negative[k])
        if any(_largest(side) > most for side in (*sides, *([] if counts.present is None else [counts.present[k]]))):
            raise ValueError("more buckets are counted than there are")
        kind = np.min_scalar_type(2 * most)  # holds every sum
        for start in range(0, d, PIECE):
            piece = slice(start, start + PIECE)
            signs = np.add(sides[0][piece], sides[1][piece], dtype=kind, casting="unsafe")
            limit: int | CountArray = most if counts.present is None else counts.present[k, piece]
            if (signs > limit).any():
                raise ValueError("more signs are counted than there are buckets")
    if counts.missing is not None and _largest(counts.missing) > rows:
        raise ValueError("more values are missing than there are rows")
    if (counts.nearest < 0).any():
        raise ValueError("a smallest distance is below zero")


def _largest(numbers: Array) -> int:
    return int(numbers.max(initial=0))
