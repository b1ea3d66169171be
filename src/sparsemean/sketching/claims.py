"""What a file of a sketch says of itself, compared with what it holds: checksums show damage, not contradictions."""

from __future__ import annotations

import zipfile
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsemean.passes.stream import MOST_ROWS
from sparsemean.records import BLOCK, Counts, Ranges, Told

if TYPE_CHECKING:
    from sparsemean.sketching.file import Header

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


def check_told(told: Told) -> None:
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
