"""CuPy as far as this package needs it, without a device: arrays are NumPy's, kernels are compiled for the processor.

A kernel has no barriers and each thread has its own part of shared memory, so that running the threads one after the
other computes what a device does.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import types
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to stand in for a device")
LAUNCH = """
extern "C" void launch(int across, int down, int threads, void** a) {
  blockDim = {threads, 1};
  for (blockIdx.y = 0; blockIdx.y < down; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < across; ++blockIdx.x)
      for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
        count_signs(
            (const Value*)a[0], (long long)a[1], (long long)a[2], (const long long*)a[3], (const int*)a[4],
            (int)(long long)a[5], (int)(long long)a[6], (const double*)a[7], (int*)a[8], (int*)a[9],
            (unsigned long long*)a[10], (int*)a[11], (int*)a[12], (int*)a[13]);
}
"""


class ndarray(np.ndarray):  # noqa: N801
    """An array that says it lies on a device."""

    __module__ = "cupy"

    @property
    def data(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(ptr=self.ctypes.data)

    @property
    def device(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(id=0)

    def get(self, *_: Any, **__: Any) -> np.ndarray:
        return np.array(self.view(np.ndarray))

    def set(self, values: np.ndarray, **_: Any) -> None:
        self.view(np.ndarray)[...] = values


def on_device(function: Any) -> Any:
    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        options.pop("blocking", None)
        return np.asanyarray(function(*arguments, **options)).view(ndarray)

    return wrapped


class RawModule:
    """Compiles with the ordinary compiler; kept for the session."""

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        device = (resources.files("sparsemean.kernels") / "device.cuh").read_text(encoding="utf-8")
        host = (Path(__file__).parent / "kernels" / "host.h").read_text(encoding="utf-8")
        assert code.startswith(device)
        self.library = compiled(host + code.removeprefix(device) + LAUNCH, options)

    def get_function(self, name: str) -> Any:
        assert name == "count_signs"

        def kernel(grid: tuple[int, int], block: tuple[int], arguments: tuple[Any, ...]) -> None:
            raw = [a.data.ptr if isinstance(a, ndarray) else int(a) for a in arguments]
            self.library.launch(*grid, *block, (ctypes.c_void_p * len(raw))(*raw))

        return kernel


@functools.cache
def compiled(code: str, options: tuple[str, ...]) -> ctypes.CDLL:
    assert COMPILER is not None
    folder = Path(tempfile.gettempdir()) / f"sparsemean-emulated-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    name = hashlib.sha256(repr((code, options)).encode()).hexdigest()[:24]
    library = folder / f"{name}.so"
    if not library.exists():
        source, temporary = folder / f"{name}.{os.getpid()}.cpp", folder / f"{name}.{os.getpid()}.so"
        source.write_text(code, encoding="utf-8")
        subprocess.run(
            [COMPILER, "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-shared", "-fPIC", *options, str(source), "-o", str(temporary)],
            check=True,
        )  # fmt: skip
        temporary.replace(library)
        source.unlink()
    return ctypes.CDLL(str(library))


def module() -> types.ModuleType:
    """Return a module that stands in for ``cupy``."""
    fake = types.ModuleType("cupy")
    fake.ndarray = ndarray
    fake.RawModule = RawModule
    for name in ("asarray", "zeros", "full", "empty", "ascontiguousarray", "arange", "concatenate"):
        setattr(fake, name, on_device(getattr(np, name)))
    fake.asnumpy = lambda x: np.array(np.asarray(x).view(np.ndarray))
    return fake


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put the stand-in in the place of CuPy."""
    from sparsemean.kernels import gpu

    fake = module()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    gpu.compiled.cache_clear()
    yield fake
    gpu.compiled.cache_clear()
