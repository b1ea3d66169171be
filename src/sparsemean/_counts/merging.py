"""Merging sketches: each is read, checked against the first and added."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sparsemean._counts import partial_counts, sketch_file
from sparsemean._counts.sketch import Sketch, sketch
from sparsemean._counts.sketch_file import load_sketch
from sparsemean._data.table import Names
from sparsemean._util.records import CountArray, FloatArray, SketchState
from sparsemean.errors import InputError

__all__ = ["Sketch", "load_sketch", "merge", "sketch"]

BY_CHANCE = 1e-9
"""Pieces of which all features have the same signs are refused where other rows would have them this seldom."""
LOOKED_AT = 1000
"""Features, the first, whose signs are compared: enough to tell."""
AHEAD = 2
"""Files that are read while one is added."""
ALIKE = {
    "n_features": "number of features",
    "names": "feature names",
    "seed": "seed",
    "sizes": "bucket sizes",
    "missing": "way with missing values",
    "shift": "null value",
}
"""What must be the same, in words."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One sketch to be added, in memory or in a file, and what to call it."""

    what: Sketch | Path
    header: sketch_file.Header
    name: str

    def told(self) -> SketchState:
        """Return the counts, read now if they are in a file, to be added to others."""
        return self.what.told if isinstance(self.what, Sketch) else sketch_file.read_told(self.what)

    def whole(self) -> Sketch:
        """Return the sketch, read now if it is in a file."""
        return self.what if isinstance(self.what, Sketch) else sketch_file.load_sketch(self.what)

    def names(self) -> Names | None:
        """Return the feature names."""
        if isinstance(self.what, Sketch):
            return self.what.feature_names
        return sketch_file.read_names(self.what) if self.header.names else None


def merge(sketches: Iterable[Sketch | str | Path]) -> Sketch:
    """Return what several sketches, or files of them, tell together, in whatever order they come.

    They must agree in features, seed, bucket sizes, null value and missing values, and have no row in common. Rows that
    two have by number are refused, and so are two pieces of the same rows under different numbers, where the signs of
    their features are too many to agree by chance; rows that are a part of two pieces only cannot be noticed. Files are
    read one after the other: no more than a few are in memory at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemean import merge, sketch
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> merge([sketch(X[100:], first_row=100), sketch(X[:100])]).ranges
    ((0, 300),)
    """
    parts = [_part(item, k) for k, item in enumerate(_listed(sketches))]
    for other in parts[1:]:
        _check_alike(parts[0], other)
    _check_apart(parts)
    first = parts[0].whole()
    told = _unlike(parts, chain((first.told,), _coming(parts[1:])))
    return replace(first, told=partial_counts.merged(told))


def _listed(sketches: Any) -> list[Any]:
    rule = "be a list of sketches or of files with them"
    if isinstance(sketches, (str, Path, Sketch)) or not isinstance(sketches, Iterable):
        raise InputError("sketches", rule, type(sketches).__name__, "put it into a list")
    listed = list(sketches)
    if not listed:
        raise InputError("sketches", rule, "none")
    return listed


def _part(item: Any, k: int) -> Part:
    if isinstance(item, Sketch):
        return Part(item, sketch_file.header_of(item), f"sketch {k + 1} of the list")
    if isinstance(item, (str, Path)):
        return Part(Path(item), sketch_file.read_header(item), str(item))
    raise InputError("sketches", "be sketches or files with them", type(item).__name__)


def _coming(parts: Sequence[Part]) -> Iterator[SketchState]:
    """Yield one sketch after the other, while the next ones are read: comparing checksums is most of the work."""
    pool = ThreadPoolExecutor(AHEAD)
    try:
        reading = deque(pool.submit(part.told) for part in parts[:AHEAD])
        for part in parts[AHEAD:]:
            yield reading.popleft().result()
            reading.append(pool.submit(part.told))
        while reading:
            yield reading.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _unlike(parts: Sequence[Part], sketches: Iterable[SketchState]) -> Iterator[SketchState]:
    """Yield one sketch after the other, unless all of its features have the signs of one before."""
    known: dict[bytes, Part] = {}
    for part, told in zip(parts, sketches, strict=False):
        signs = partial_counts.signs_of_rows(told, LOOKED_AT)
        if signs is not None and _agree_by_chance(signs, told.n_rows) <= BY_CHANCE:
            digest = hashlib.sha256(signs.tobytes()).digest()
            if (other := known.setdefault(digest, part)) is not part:
                both = f"{other.name} and {part.name}, in which every feature has the same signs"
                advice = "they seem to be the same rows under another first row: leave one out"
                raise InputError("sketches", "have no rows in common", both, advice)
        yield told


def _agree_by_chance(signs: CountArray, n: int) -> float:
    """Return about how likely n other rows have the same number above the null value, or below, in every feature.

    That of a binomial with its own variance v is repeated with probability 1/√(4πv). Features with the same numbers may
    be one and the same, and count once.
    """
    distinct = np.unique(signs.astype(np.float64), axis=1)
    variance = (distinct * (n - distinct) / n).max(axis=0)
    return float(np.exp(-0.5 * np.sum(np.log(np.maximum(4 * np.pi * variance, 1.0)))))


def _check_alike(first: Part, other: Part) -> None:
    """Refuse sketches that do not add up, with both files and both values."""
    for name, words in ALIKE.items():
        a, b = getattr(first.header, name), getattr(other.header, name)
        if a != b:
            one, two = _values(name, first, other)
            raise InputError("sketches", f"have the same {words}", f"{one} in {first.name} and {two} in {other.name}")


def _values(name: str, first: Part, other: Part) -> tuple[str, str]:
    """Return both values in words: of many the first that differ."""
    if name == "names":
        return _differing(first.names(), other.names(), "no names")
    if name == "shift":
        d = first.header.n_features
        return _differing(_null(first, d), _null(other, d), "0")
    if name == "missing":
        one, two = (("omit" if part.header.missing else "raise") for part in (first, other))
        return one, two
    return str(getattr(first.header, name)), str(getattr(other.header, name))


def _null(part: Part, d: int) -> FloatArray:
    shift = part.told().shift
    return np.zeros(d) if shift is None else shift


def _differing(first: Any, other: Any, none: str) -> tuple[str, str]:
    if first is None or other is None:
        one, two = (none if each is None else f"{each[0]!r}, …" for each in (first, other))
        return one, two
    at = int(np.flatnonzero(first != other)[0])
    one, two = (repr(each[at].item() if isinstance(each[at], np.generic) else each[at]) for each in (first, other))
    return f"{one} (column {at})", two


def _check_apart(parts: Sequence[Part]) -> None:
    """Refuse rows that two sketches have seen, with their numbers and both files."""
    ranges = sorted((first, last, part.name) for part in parts for first, last in part.header.ranges)
    furthest, whose = 0, ""
    for first, last, name in ranges:
        if first < furthest:
            both = f"{whose} and {name}" if whose != name else f"{name}, given twice"
            rule = "have no rows in common"
            raise InputError("sketches", rule, f"rows {first} to {min(furthest, last) - 1} in {both}")
        furthest, whose = last, name
    partial_counts.check_apart((first, last) for first, last, _ in ranges)
