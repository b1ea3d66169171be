"""Arrays on an NVIDIA GPU, CuPy's and torch's, where they lie; and tables on the host that are counted on one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from sparsemean._data.source import Array, Source
from sparsemean._data.table import Table, check_feature_names, check_matrix, from_array
from sparsemean._kernels import gpu
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    import cupy
    import torch

    OnDevice: TypeAlias = cupy.ndarray | torch.Tensor


class DeviceArray(Source):
    """An array on a device. ``kind`` is the type of its values: bfloat16 is kept as integers of 16 bits."""

    in_memory = True
    engine = "gpu"

    def __init__(self, values: cupy.ndarray, kind: str, origin: OnDevice) -> None:
        self.values, self.kind, self.origin = values, kind, origin
        self.dtype = np.dtype(np.float32) if kind == "bfloat16" else np.dtype(values.dtype)
        self.shape = (int(values.shape[0]), int(values.shape[1]))

    def block(self, rows: slice, columns: slice) -> Array:
        """Copy some rows of some columns to the host."""
        with self.there():
            copied: Array = self.plain(self.values[rows, columns]).get()
        return copied

    @property
    def precision(self) -> float:
        """That of bfloat16 too, which NumPy does not have."""
        return 2.0 ** gpu.PRECISION[self.kind] if self.kind in gpu.PRECISION else super().precision

    @contextmanager
    def there(self) -> Iterator[None]:
        """Use the device that the array lies on, which may not be the one in use."""
        with device_errors(), gpu.cupy().cuda.Device(self.values.device.id):
            yield

    def _take(self, columns: IntArray) -> FloatArray:
        """Copy some columns to the host."""
        with self.there():
            taken = self.values[:, gpu.cupy().asarray(columns)]
            copied: FloatArray = self.plain(taken).astype(np.float64).get()
        return copied

    def select(self, columns: IntArray) -> OnDevice:
        """Return some columns as an array of the kind that was given, where it lies."""
        with self.there():
            return self.origin[:, like(self.origin, columns)]

    def plain(self, values: cupy.ndarray) -> cupy.ndarray:
        """Return values of a kind that NumPy has."""
        if self.kind != "bfloat16":
            return values
        return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def counted_there(source: Source) -> DeviceArray | None:
    """Return a source that is an array on a device, of a kind that is counted as it is; None for any other."""
    return source if isinstance(source, DeviceArray) and source.kind in gpu.KINDS else None


def is_there(X: Any) -> bool:
    """Whether an array that may lie on a GPU does: those of other libraries only know when they are asked."""
    if _is_torch(X) or _module(type(X)) in ("cupy", "cupyx"):
        return not _is_torch(X) or X.device.type != "cpu"
    try:
        return hasattr(X, "__cuda_array_interface__")
    except Exception:  # whatever such a library raises for an array on the host
        return False


def _is_torch(X: object) -> TypeGuard[torch.Tensor]:
    return any(_module(kind) == "torch" for kind in type(X).__mro__)


def _module(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def read_device(X: OnDevice, feature_names: object = None) -> Table:
    """Take an array where it lies: on a device, or on the host in the case of torch."""
    if _module(type(X)) == "cupyx":
        raise InputError("X", "be a dense array", type(X).__name__, "convert it first: X.toarray()")
    if not _is_torch(X):
        if not is_there(X):
            return from_array(X, feature_names)
        with device_errors():
            values = X if _module(type(X)) == "cupy" else gpu.cupy().asarray(X)
            return _resident(values, values.dtype.name, X, feature_names)
    if str(X.layout) != "torch.strided":
        raise InputError("X", "be a dense tensor", f"layout {X.layout}", "convert it first: X.to_dense()")
    given, brain = X, str(X.dtype) == "torch.bfloat16"
    X = X.detach()
    if X.device.type == "cpu":
        return from_array((X.float() if brain else X).numpy(), feature_names)
    if X.device.type != "cuda":
        raise InputError("X", "lie on the host or on a CUDA device", f"device {X.device}", "copy it first: X.cpu()")
    import torch

    with device_errors():
        values = gpu.cupy().from_dlpack(X.view(torch.int16) if brain else X)
        return _resident(values, "bfloat16" if brain else values.dtype.name, given, feature_names)


def _resident(values: cupy.ndarray, kind: str, origin: OnDevice, feature_names: object) -> Table:
    if kind == "bfloat16":
        values = values.view(np.int16)
    check_matrix(tuple(values.shape), np.dtype(np.float32) if kind == "bfloat16" else values.dtype)
    return Table(DeviceArray(values, kind, origin), check_feature_names(feature_names, values.shape[1]))


def like(X: OnDevice, array: Array) -> OnDevice:
    """Return an array of the host as one of the kind of ``X``, where ``X`` lies."""
    if not _is_torch(X):
        with gpu.cupy().cuda.Device(X.device.id):
            return gpu.cupy().asarray(array)
    import torch

    return torch.as_tensor(array, device=X.device)


def fetched(value: OnDevice, table: Table, argument: str) -> Any:
    """Return a small array that lies on a device as one on the host, unless the data lie on the host."""
    if not isinstance(table.source, DeviceArray):
        advice = "copy it first: .get() or .cpu()"
        raise InputError(argument, "lie on the host, as X does", f"{type(value).__name__} on a GPU", advice)
    if not _is_torch(value):
        return gpu.cupy().asarray(value).get()
    small = value.detach().cpu()
    return (small.float() if str(small.dtype) == "torch.bfloat16" else small).numpy()


def sent(table: Table, device: object) -> Table:
    """Return ``table`` as it is to be counted: on the host ("cpu"), on a GPU ("gpu"), or where it lies (None)."""
    if device not in (None, "cpu", "gpu"):
        raise InputError("device", "be None, 'cpu' or 'gpu'", repr(device))
    lies_on_gpu = isinstance(table.source, DeviceArray)
    if device == "cpu" and lies_on_gpu:
        advice = "leave device out, or copy it first: X.get() or X.cpu()"
        raise InputError("device", "be that of X", "'cpu' for data on a GPU", advice)
    if device != "gpu" or lies_on_gpu:
        return table
    if table.source.engine != "host":
        raise InputError("device", "be None for data of this kind", f"'gpu' for {type(table.source).__name__}")
    with device_errors():
        if not gpu.cupy().cuda.runtime.getDeviceCount():
            raise InputError("device", "be 'cpu', as there is no GPU here", repr(device))
    return replace(table, source=table.source.on_engine("gpu"))


@contextmanager
def device_errors() -> Iterator[None]:
    """Turn what a device complains of into one line."""
    try:
        yield
    except Exception as error:
        name = type(error).__name__
        if name == "OutOfMemoryError" or "cudaErrorMemoryAllocation" in str(error):
            advice = "free some of it, or compute on the host; data on the host are sent in pieces by device='gpu'"
            raise InputError("device", "have enough memory", str(error), advice) from None
        if name in ("CompileException", "NVRTCError"):
            advice = "is the CUDA toolkit there, of a version that CuPy knows?"
            raise InputError("device", "compile its kernels", str(error).splitlines()[0], advice) from None
        if name in ("CUDARuntimeError", "CUDADriverError"):
            advice = "run where nvidia-smi shows a GPU, or leave device out to compute on the host"
            raise InputError("device", "be a GPU that works", str(error), advice) from None
        raise
