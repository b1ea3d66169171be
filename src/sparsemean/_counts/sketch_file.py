"""Sketches in files: what a file may claim, checked before it is believed."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean import __version__
from sparsemean._counts.partial_counts import MOST_ROWS
from sparsemean._counts.sketch import Sketch
from sparsemean._data.table import FileContext, Names
from sparsemean._stats.buckets import check_sizes
from sparsemean._util.files import refuse_endless, replacing
from sparsemean._util.records import BLOCK, ConstantColumns, Counts, FloatArray, PendingRows, Ranges, SketchState
from sparsemean.errors import InputError

MOST_SEED = 2**128
MOST_NUMBER = 2**62
PIECE = 1 << 16
"""Features that are added at a time, so that sums stay in the processor's cache."""
A_NAME = 256
"""Bytes a name, on average, beyond which names are stored as they are."""
SHORTEST = 4
"""Bytes of a smallest distance, at least."""
CONTRADICTS = "its header contradicts its content"
TYPES = {
    "n_features": int, "seed": int, "missing": bool, "shift": str, "gaps": bool, "names": str, "written_by": str,
}  # fmt: skip


LISTS = ("sizes", "n_buckets", "loose")


def check_types(header: Header) -> None:
    """Refuse entries of another type than that which is written."""
    for name, kind in TYPES.items():
        if type(getattr(header, name)) is not kind:
            raise ValueError(f"{name} in its header is no {kind.__name__}")
    for name in LISTS:
        _check_integers(name, getattr(header, name))
    for name in ("ranges", "sealed"):
        pairs = getattr(header, name)
        if type(pairs) is not tuple:
            raise ValueError(f"{name} in its header is no list")
        for pair in pairs:
            _check_integers(name, pair)


def check_header(header: Header, members: Sequence[str], expected: Iterable[str]) -> None:
    """Refuse a header that cannot be, or that promises other members than there are."""
    _check_ranges(header.ranges)
    _check_ranges(header.sealed)
    rows = sum(last - first for first, last in header.ranges)
    possible = 0 <= header.seed < MOST_SEED and header.n_features >= 1 and 0 < rows <= MOST_ROWS
    if not possible or (header.gaps and not header.missing) or sorted(members) != sorted(expected):
        raise ValueError(CONTRADICTS)


def check_members(members: Sequence[zipfile.ZipInfo], size: int, *, packed: str) -> None:
    """Refuse members that take more than a file of ``size`` bytes has: all but the one called ``packed`` are stored."""
    if sum(info.compress_size for info in members) > size:
        raise ValueError("its members share bytes, or it is cut short")
    stored = (info for info in members if info.filename != packed or info.compress_type == zipfile.ZIP_STORED)
    if any(info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size for info in stored):
        raise ValueError("its arrays are packed")


def check_size(header: Header, members: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Refuse more features than ``size`` bytes can tell of, and names that are packed and too long for so many."""
    if header.n_features * (2 * len(header.sizes) + SHORTEST) > size:
        raise ValueError(f"{header.n_features} features in {size} bytes")
    if any(info.compress_type != zipfile.ZIP_STORED and info.file_size > most_packed(header) for info in members):
        raise ValueError(f"names that are too long for {header.n_features} features")


def most_packed(header: Header) -> int:
    """Return how many bytes of names may be packed: few of them can stand for a thousand times as many."""
    return A_NAME * header.n_features + 65_536


def check_told(told: SketchState) -> None:
    """Refuse counts that no rows of such numbers can have, and rows kept that are not among them."""
    loose = tuple((part.first_row, part.first_row + part.values.shape[0]) for part in told.loose)
    parts = sorted((*loose, *told.sealed))
    _check_ranges(loose)
    _check_ranges(parts)
    _check_blocks(parts, told.ranges)
    rows = told.n_rows - sum(last - first for first, last in loose)
    _check_buckets(told.counts.n_buckets, told.sizes, rows)
    _check_counts(told.counts, rows)
    features = told.same.features
    rising = features.size == 0 or (np.diff(features) > 0).all()
    if not rising or (features.size and not 0 <= features[0] <= features[-1] < told.n_features):
        raise ValueError("features of one value are in disorder")
    if not np.isfinite(told.same.values).all() or not (told.shift is None or np.isfinite(told.shift).all()):
        raise ValueError("a null value or the value of a feature is not finite")


def _check_integers(name: str, numbers: Any) -> None:
    if type(numbers) is not tuple or any(type(number) is not int for number in numbers):
        raise ValueError(f"{name} in its header is no list of integers")


def _check_ranges(ranges: Sequence[tuple[int, int]]) -> None:
    """Refuse ranges that are empty, not rising or beyond all numbers."""
    if any(len(pair) != 2 or not 0 <= pair[0] < pair[1] <= MOST_NUMBER for pair in ranges):
        raise ValueError("its rows are in disorder")
    if any(first[1] > second[0] for first, second in pairwise(ranges)):
        raise ValueError("its rows are in disorder")


def _check_blocks(parts: Sequence[tuple[int, int]], ranges: Ranges) -> None:
    """Refuse parts of blocks, kept or closed, that are not all rows seen of blocks that were not counted whole."""
    kept: dict[int, int] = {}
    for first, last in parts:
        kept[first // BLOCK] = kept.get(first // BLOCK, 0) + last - first
    cut = {end // BLOCK for pair in ranges for end in pair if end % BLOCK}
    across = any(first // BLOCK != (last - 1) // BLOCK for first, last in parts)
    ends = [last for _, last in ranges]
    if across or not all(_seen(block, ranges, ends) == kept.get(block, BLOCK) for block in {*kept, *cut}):
        raise ValueError("parts of blocks are not among its rows")
    if any(not _covered(part, ranges, ends) for part in parts):
        raise ValueError("parts of blocks are not among its rows")


def _seen(block: int, ranges: Ranges, ends: list[int]) -> int:
    """Return how many rows of a block were seen."""
    start, stop, seen = block * BLOCK, (block + 1) * BLOCK, 0
    for k in range(bisect_right(ends, start), len(ranges)):
        if ranges[k][0] >= stop:
            break
        seen += min(stop, ranges[k][1]) - max(start, ranges[k][0])
    return seen


def _covered(part: tuple[int, int], ranges: Ranges, ends: list[int]) -> bool:
    """Whether all rows of a stretch were seen, in one range."""
    k = bisect_right(ends, part[0])
    return k < len(ends) and ranges[k][0] <= part[0] and part[1] <= ends[k]


def _check_buckets(n_buckets: tuple[int, ...], sizes: tuple[int, ...], rows: int) -> None:
    """Refuse numbers of buckets that ``rows`` cannot fill: each holds between one row and its size."""
    if len(n_buckets) != len(sizes):
        raise ValueError(CONTRADICTS)
    if any(not -(-rows // size) <= number <= rows for number, size in zip(n_buckets, sizes, strict=True)):
        raise ValueError(f"{rows} rows counted in {n_buckets} buckets")


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
            limit: Any = most if counts.present is None else counts.present[k, piece]
            if (signs > limit).any():
                raise ValueError("more signs are counted than there are buckets")
    if counts.missing is not None and _largest(counts.missing) > rows:
        raise ValueError("more values are missing than there are rows")
    if (counts.nearest < 0).any():
        raise ValueError("a smallest distance is below zero")


def _largest(numbers: npt.NDArray[Any]) -> int:
    return int(numbers.max(initial=0))


# A sketch as a file: a zip archive of .npy arrays, stored as they are, with a header in JSON; nothing pickled.

FORMAT = "sparsemean-sketch-1"
FAMILY = "sparsemean-sketch-"
HEADER, NAMES = "header.json", "feature_names.json"
COUNTED = ("positive", "negative", "present", "missing")
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
STRINGS = re.compile(rb"\[%b(?:, %b)*+\]" % (_STRING, _STRING))
"""A list of strings as it is written here, known for one before room is made for its items."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""A date for all members, so that equal sketches are equal files."""
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself before its arrays are read."""

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
    """First rows of the stretches that are kept as they are."""
    names: str
    """Digest of the feature names; empty where there are none."""
    written_by: str = __version__


def header_of(sketch: Sketch) -> Header:
    """Return what the file of a sketch says of it."""
    told = sketch.told
    return Header(
        n_features=sketch.n_features,
        seed=told.seed,
        sizes=told.sizes,
        missing=told.missing,
        shift="" if told.shift is None else _digest_of_null(told.shift),
        ranges=told.ranges,
        sealed=told.sealed,
        n_buckets=told.counts.n_buckets,
        gaps=told.counts.missing is not None,
        loose=tuple(part.first_row for part in told.loose),
        names="" if sketch.feature_names is None else _digest(_names_json(sketch.feature_names)),
    )


def save(sketch: Sketch, path: str | Path) -> None:
    """Write a sketch; what was at ``path`` stays if this fails."""
    header = header_of(sketch)
    said = {"format": FORMAT, **{name: getattr(header, name) for name in Header.__dataclass_fields__}}
    said["seed"] = str(header.seed)
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER, LONG_AGO), json.dumps(said))
        if sketch.feature_names is not None:
            content, info = _names_json(sketch.feature_names), zipfile.ZipInfo(NAMES, LONG_AGO)
            packed = len(content) <= most_packed(header)
            archive.writestr(info, content, zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED)
        for name, array in _arrays(sketch.told).items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", LONG_AGO), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _arrays(told: SketchState) -> dict[str, Array]:
    counts = told.counts
    arrays: dict[str, Array] = {}
    for name in COUNTED:
        if (array := getattr(counts, name)) is not None:
            arrays[name] = _small(array)
    arrays["nearest"] = _short(counts.nearest)
    arrays["same-features"], arrays["same-values"] = _small(told.same.features), told.same.values
    if told.shift is not None:
        arrays["shift"] = told.shift
    return arrays | {f"loose-{k}": part.values for k, part in enumerate(told.loose)}


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


def _digest_of_null(shift: FloatArray) -> str:
    return _digest((shift + 0.0).tobytes())  # 0.0 and −0.0 are the same null value


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a file; whatever goes wrong while it is taken apart is the file's fault."""
    opened = _opened(path)
    with opened.parsing(), opened.reading(), zipfile.ZipFile(path) as archive:
        yield archive


def load_sketch(path: str | Path) -> Sketch:
    """Read a sketch written by `Sketch.save`; damaged files and others are refused in one line."""
    path = Path(path)
    with _archive(path) as archive:
        header = _header(archive, path)
        names = _names(archive, header) if header.names else None
        return Sketch(_wide(_told(archive, header)), names)


def read_header(path: str | Path) -> Header:
    """Read what a file says of itself, and nothing more."""
    path = Path(path)
    with _archive(path) as archive:
        return _header(archive, path)


def read_names(path: str | Path) -> Names:
    """Read the feature names of a file that has some."""
    path = Path(path)
    with _archive(path) as archive:
        return _names(archive, _header(archive, path))


def read_told(path: str | Path) -> SketchState:
    """Read all of a file but the feature names; counts are in the types of the file, only fit to be added."""
    path = Path(path)
    with _archive(path) as archive:
        return _told(archive, _header(archive, path))


def _opened(path: Path) -> FileContext:
    refuse_endless(path)
    return FileContext(str(path), "sketch file")


def _header(archive: zipfile.ZipFile, path: Path) -> Header:
    """Read the header, and refuse what is not of this format."""
    size = path.stat().st_size
    if HEADER not in archive.namelist():
        raise ValueError("it has no header of a sketch")
    check_members(archive.infolist(), size, packed=NAMES)
    said = json.loads(archive.read(HEADER))
    kind = str(said.pop("format", ""))
    if kind != FORMAT:
        newer = kind.startswith(FAMILY)
        advice = f"it was written by sparsemean {said.get('written_by', 'of another version')}" if newer else ""
        raise InputError("FILE", f"hold a sketch of format {FORMAT}", f"{path} ({kind or 'none'})", advice)
    header = Header(**{name: _tuples(value) for name, value in said.items() if name != "seed"}, seed=int(said["seed"]))
    if said["seed"] != str(header.seed):
        raise ValueError("its seed is not written in digits")
    check_types(header)
    check_sizes(header.sizes)
    check_header(header, archive.namelist(), _members(header))
    check_size(header, archive.infolist(), size)
    return header


def _members(header: Header) -> list[str]:
    """Return the names of all that a file with this header holds."""
    arrays = ["positive", "negative", "nearest", "same-features", "same-values"]
    arrays += (["present", "missing"] if header.gaps else []) + (["shift"] if header.shift else [])
    arrays += [f"loose-{k}" for k in range(len(header.loose))]
    return [HEADER, *([NAMES] if header.names else []), *(f"{name}.npy" for name in arrays)]


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _names(archive: zipfile.ZipFile, header: Header) -> Names:
    content = archive.read(NAMES)
    if _digest(content) != header.names or not STRINGS.fullmatch(content):
        raise ValueError("its feature names are not those of its header")
    if (count := content.count(b'", "') + 1) != header.n_features:
        raise ValueError(f"{count} names for {header.n_features} features")
    names = json.loads(content)
    out = np.empty(len(names), dtype=object)
    out[:] = names
    return out


def _told(archive: zipfile.ZipFile, header: Header) -> SketchState:
    d, sizes = header.n_features, header.sizes

    def counted(name: str, *shape: int) -> Array:
        return _read(archive, name, "u", shape)

    counts = Counts(
        positive=counted("positive", len(sizes), d),
        negative=counted("negative", len(sizes), d),
        nearest=_read(archive, "nearest", "f", (d,)),
        n_buckets=header.n_buckets,
        present=counted("present", len(sizes), d) if header.gaps else None,
        missing=counted("missing", d) if header.gaps else None,
    )
    features = _read(archive, "same-features", "u", None)
    if features.ndim != 1 or features.max(initial=0) >= d:
        raise ValueError("features of one value are in disorder")
    told = SketchState(
        seed=header.seed,
        sizes=sizes,
        missing=header.missing,
        shift=_shift(archive, header) if header.shift else None,
        counts=counts,
        ranges=header.ranges,
        loose=tuple(_loose(archive, k, first, d) for k, first in enumerate(header.loose)),
        sealed=header.sealed,
        same=ConstantColumns(features.astype(np.intp), _read(archive, "same-values", "f", features.shape)),
    )
    check_told(told)
    return told


def _shift(archive: zipfile.ZipFile, header: Header) -> FloatArray:
    shift = _read(archive, "shift", "f", (header.n_features,))
    if _digest_of_null(shift) != header.shift:
        raise ValueError("its null values are not those of its header")
    return shift


def _wide(told: SketchState) -> SketchState:
    """Return the same with counts in the types that everything else takes."""
    counts = told.counts
    wide: dict[str, Any] = {
        name: array.astype(np.int32) for name in COUNTED if (array := getattr(counts, name)) is not None
    }
    return replace(told, counts=replace(counts, nearest=counts.nearest.astype(np.float64), **wide))


def _loose(archive: zipfile.ZipFile, k: int, first: int, d: int) -> PendingRows:
    values = _read(archive, f"loose-{k}", "fiub", None)
    if values.ndim != 2 or values.shape[1] != d or not 0 < values.shape[0] < BLOCK:
        raise ValueError(f"loose-{k} has shape {values.shape}")
    return PendingRows(first, values)


def _read(archive: zipfile.ZipFile, name: str, kinds: str, shape: tuple[int, ...] | None) -> Array:
    """Read one array whole, which compares its checksum; the bytes are not copied."""
    content = archive.read(f"{name}.npy")
    start = io.BytesIO(content[:4096])
    if np.lib.format.read_magic(start) != (1, 0):
        raise ValueError(f"{name} is not a plain array")
    found, fortran, dtype = np.lib.format.read_array_header_1_0(start)
    if dtype.kind not in kinds or (shape is not None and found != shape):
        raise ValueError(f"{name} has shape {found} and type {dtype}")
    return np.frombuffer(content, dtype, offset=start.tell()).reshape(found, order="F" if fortran else "C")
