"""Where arrays lie: on the host, NumPy's, or on a device, CuPy's. What is written for one namespace works on both.

Values that take a special function or a small table are made on the host, so that they are the same bits wherever the
data lie, and only looked up on the device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

from sparsemean.records import FloatArray

DEVICE = "cupy"
MANY = 8
Thing = TypeVar("Thing")


def on_device(array: Any) -> bool:
    """Say whether ``array`` is CuPy's, without loading CuPy."""
    return type(array).__module__.partition(".")[0] == DEVICE


def namespace(*arrays: Any) -> Any:
    """Return the module whose functions take these arrays: CuPy if any of them lies on a device, else NumPy.

    Examples
    --------
    >>> namespace(np.zeros(3), 1.0).__name__
    'numpy'
    """
    return sys.modules[DEVICE] if any(map(on_device, arrays)) else np


def place(array: Any) -> int | None:
    """Return the number of the device an array lies on; None for the host."""
    return int(array.device.id) if on_device(array) else None


def to_device(array: FloatArray) -> Any:
    """Copy an array to the device in use."""
    return sys.modules[DEVICE].asarray(array)


def on_host(thing: Thing) -> Thing:
    """Return an array, a tuple or a record with every array in it moved to the host; what lies there stays as it is."""
    if on_device(thing):
        return thing.get()  # type: ignore[attr-defined, no-any-return]
    if isinstance(thing, tuple):
        moved = tuple(map(on_host, thing))
        return thing if all(a is b for a, b in zip(moved, thing, strict=True)) else moved  # type: ignore[return-value]
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    parts = {item.name: getattr(thing, item.name) for item in fields(thing) if item.init}
    changed = {name: new for name, part in parts.items() if (new := on_host(part)) is not part}
    return replace(thing, **changed) if changed else thing


def for_each_value(rule: Callable[[Any], FloatArray], values: Any, *, most: int | None = None) -> Any:
    """Return ``rule`` of all ``values``, evaluated on the host, once for each value that occurs.

    Values that are whole numbers of 0 … ``most`` need not be sorted, if they are many.
    """
    xp = namespace(values)
    if most is None or most > MANY * values.size:
        distinct, back = xp.unique(values, return_inverse=True)
        return xp.asarray(rule(on_host(distinct)))[back].reshape(values.shape)
    occurs = xp.zeros(most + 1, dtype=bool)
    occurs[values] = True
    distinct = xp.flatnonzero(occurs)
    table = xp.empty(most + 1)
    table[distinct] = xp.asarray(rule(on_host(distinct)))
    return table[values]
