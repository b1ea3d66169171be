"""A stand-in for CuPy on a machine without a device: NumPy behind arrays that refuse to mix with those of the host."""

from __future__ import annotations

import ctypes
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np

CALLS: Counter[str] = Counter()
"""How often each function was called; ``"to host"`` counts what waits for the device."""
KNOWN = {
    "arange", "argsort", "asarray", "ascontiguousarray", "bincount", "broadcast_to", "ceil", "clip", "concatenate",
    "count_nonzero", "empty",
    "flatnonzero", "floor", "full", "log", "log1p", "exp", "arcsinh", "isinf", "maximum", "minimum", "nonzero", "ones",
    "partition", "searchsorted", "sign", "sort", "stack", "unique", "where", "zeros", "zeros_like", "abs", "copysign",
    "isnan", "rint", "divide", "dot", "einsum", "isfinite", "sqrt",
}  # fmt: skip
"""Functions that CuPy has under NumPy's name; extend it by looking them up there."""


def _bare(value: Any) -> Any:
    if isinstance(value, Array):
        return value.values
    if isinstance(value, np.ndarray):
        raise TypeError("an array of the host among those of the device")
    return type(value)(_bare(item) for item in value) if isinstance(value, (tuple, list)) else value


def _dressed(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_dressed, value))
    return Array(value) if isinstance(value, (np.ndarray, np.generic)) else value


class Memory(SimpleNamespace):
    """Where an array lies."""

    def __init__(self, ptr: int) -> None:
        super().__init__(ptr=ptr)

    def copy_from_host_async(self, source: int, size: int) -> None:
        ctypes.memmove(self.ptr, source, size)


class Array:
    """An array of the device."""

    __array_ufunc__ = None
    device = SimpleNamespace(id=0)

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("an array of the device is not turned into one of the host behind one's back")

    def set(self, values: np.ndarray) -> None:
        self.values[...] = values

    def get(self) -> Any:
        CALLS["to host"] += 1
        return self.values.copy()

    def __getitem__(self, key: Any) -> Array:
        CALLS["[]"] += 1
        return Array(self.values[_bare(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        CALLS["[]="] += 1
        self.values[_bare(key)] = _bare(value)

    def __iter__(self) -> Any:
        return map(Array, self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "strides", "itemsize", "nbytes"):
            return getattr(self.values, name)
        if name in ("min", "max", "sum", "any", "all", "astype", "reshape", "argmin", "copy", "view", "ravel"):
            return _counted(name, getattr(self.values, name))
        if name == "T":
            return Array(self.values.T)
        if name == "data":
            return Memory(self.values.ctypes.data)
        raise AttributeError(name)


def _scalar(name: str) -> Any:
    def convert(self: Array) -> Any:
        CALLS["to host"] += 1
        return getattr(self.values, name)()

    return convert


def _operator(name: str) -> Any:
    def operate(self: Array, *others: Any) -> Any:
        CALLS[name] += 1
        return _dressed(getattr(self.values, name)(*map(_bare, others)))

    return operate


def _counted(name: str, function: Any) -> Any:
    def call(*args: Any, **options: Any) -> Any:
        CALLS[name] += 1
        if name in ("nonzero", "flatnonzero", "unique", "bincount"):
            CALLS["to host"] += 1  # their results have sizes that the host must know
        return _dressed(function(*_bare(args), **{key: _bare(value) for key, value in options.items()}))

    return call


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "lshift", "rshift"):
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))
    setattr(Array, f"__r{_name}__", _operator(f"__r{_name}__"))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "abs", "invert", "iadd", "isub", "imul", "itruediv"):
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))
for _name in ("bool", "int", "float"):
    setattr(Array, f"__{_name}__", _scalar(f"__{_name}__"))
Array.__module__ = "cupy"


class Module:
    """What ``import cupy`` gives: the functions it is known to have, none of the methods of NumPy's ufuncs."""

    ndarray = Array

    def asarray(self, values: Any, dtype: Any = None) -> Array:
        CALLS["asarray"] += 1
        return Array(np.asarray(values.values if isinstance(values, Array) else values, dtype=dtype))

    def __getattr__(self, name: str) -> Any:
        if name in KNOWN:
            return _counted(name, getattr(np, name))
        raise AttributeError(f"module 'cupy' has no attribute {name!r}")


MODULE = Module()


def moved(record: Any) -> Any:
    """Return an array, a tuple or a record with all arrays on the device."""
    from dataclasses import fields, is_dataclass, replace

    if isinstance(record, np.ndarray):
        return MODULE.asarray(record)
    if isinstance(record, tuple) and not hasattr(record, "_fields"):
        return tuple(map(moved, record))
    if is_dataclass(record) and not isinstance(record, type):
        parts = {item.name: getattr(record, item.name) for item in fields(record)}
        return replace(record, **{name: moved(part) for name, part in parts.items()})
    return record
