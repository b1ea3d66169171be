"""One hostile file, and small changes that several formats share."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np

from sparsemean._data.table import NOTHING, ReadOptions

from fuzzed import damaged

T = TypeVar("T")
N, D = 40, 5
NUMBERS = (
    0, 1, 2, 3, 4, 5, 7, 8, 39, 40, 41, 64, 127, 128, 200, 255, 256, 4096, 32767, 65535, 65536, 10**6, 2**24,
    2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 40, 2**31, 2**63, 2**64, 10**30, 1.5, 1e308, float("nan"), float("inf"), "", "a",
    "NaN", "0", "-1", "\ud800", "x" * 3000, "..", "/", [], [0], [[]], [None], {}, {"a": 1}, {"id": "pickle"},
)  # fmt: skip

DEEP = "lists in lists"
"""What `as_json` writes as lists that no recursion gets to the end of."""


@dataclass(frozen=True, slots=True)
class Case:
    """A file, what was asked of it, and what is done to it after it was opened."""

    path: Path
    wanted: ReadOptions = NOTHING
    meddle: Callable[[], None] | None = None
    while_reading: bool = False
    """Whether it is meddled with once the first values were read, rather than before."""


def matrix(rng: Random) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a few rows, some of them zero."""
    X = np.random.default_rng(rng.getrandbits(32)).normal(size=(N, D)) + 1
    X[rng.choice((-9, 0.5)) > X] = 0
    return X


def worn(content: bytes, rng: Random) -> bytes:
    """Return a content as disks and cables leave it."""
    return damaged(content, np.random.default_rng(rng.getrandbits(32)))


def stamped(content: bytes, at: int, rng: Random, width: int = 0) -> bytes:
    """Return a content with another number at ``at``."""
    width = width or rng.choice((1, 2, 4, 8))
    old = int.from_bytes(content[at : at + width], "little")
    number = rng.choice((*NUMBERS, old + 1, old - 1, 2 * old, old ^ 1 << rng.randrange(8 * width), len(content), at))
    return content[:at] + (number % 2 ** (8 * width)).to_bytes(width, "little") + content[at + width :]


def patched(content: bytes, at: int, form: str, number: int) -> bytes:
    """Return a content with ``number`` packed at ``at``."""
    most = 2 ** (8 * struct.calcsize(form))
    return content[:at] + struct.pack(form, number % most) + content[at + struct.calcsize(form) :]


def places(content: bytes, mark: bytes) -> list[int]:
    """Return where ``mark`` stands."""
    out, at = [], content.find(mark)
    while at >= 0:
        out.append(at)
        at = content.find(mark, at + 1)
    return out


def edited(value: Any, rng: Random, odd: Sequence[Any] = ()) -> Any:
    """Return a tree of JSON with one of its nodes replaced, taken away, doubled, or given another's value."""
    value = copy.deepcopy(value)
    nodes = list(_nodes(value))
    if not nodes:
        return rng.choice((*ODD, *odd))
    parent, key = rng.choice(nodes)
    act = rng.randrange(8)
    if act == 0:
        del parent[key]
    elif act == 1:
        other, name = rng.choice(nodes)
        parent[key] = copy.deepcopy(other[name])
    elif act == 2 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif act == 3 and isinstance(parent, dict):
        parent[rng.choice(("", "a", "format", "id", "name", "shape"))] = parent.pop(key)
    elif act == 4 and type(parent[key]) is int:
        parent[key] = rng.choice((1, -1)) * rng.choice(NUMBERS)
    elif act == 5:
        parent[key] = rng.choice((DEEP, [parent[key]], [[parent[key]]], {"a": parent[key]}))
    else:
        parent[key] = copy.deepcopy(rng.choice((*ODD, *odd, *odd, *odd)))
    return value


def as_json(value: Any) -> bytes:
    """Return a tree as text."""
    return json.dumps(value).replace(json.dumps(DEEP), "[" * 20_000 + "]" * 20_000).encode()


def _nodes(value: Any) -> list[tuple[Any, Any]]:
    keys: Any = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    out = [(value, key) for key in keys]
    return out + [node for key in keys for node in _nodes(value[key])]


def some(rng: Random, changes: Sequence[Callable[[T, Random], T]], thing: T) -> T:
    """Make one change, or a few after each other."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        thing = rng.choice(changes)(thing, rng)
    return thing
