"""CuPy as far as this package needs it, without a device: kernels are compiled for the processor.

Where a kernel has no barriers each thread has its own part of shared memory, and running the threads one after the
other computes what a device does; where it has some, the threads of a block take turns. Blocks follow each other, so
that none may wait for another.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import types
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from fakecupy import Array, Module

COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to stand in for a device")
LAUNCH = """
extern "C" void launch_%s(int across, int down, int threads, void** a) {
  blockDim = {threads, 1};
  gridDim = {across, down};
  for (blockIdx.y = 0; blockIdx.y < down; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < across; ++blockIdx.x)
      %s;
}
"""
FREE = "for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) %s"
TOGETHER = "together([&] { %s; })"
KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([\w, ]+\) )?(\w+)\(([^)]*)\)')


def launchers(code: str) -> str:
    """Return a function for each kernel that runs all of its threads, one after the other."""
    out, block = [], TOGETHER if "__syncthreads" in code else FREE
    for name, parameters in KERNEL.findall(code):
        kinds = [parameter.strip().rpartition(" ")[0] for parameter in parameters.split(",")]
        casts = [f"({kind})" if "*" in kind else f"({kind})(long long)" for kind in kinds]
        call = f"{name}({', '.join(f'{cast}a[{i}]' for i, cast in enumerate(casts))})"
        out.append(LAUNCH % (name, block % call))
    return "".join(out)


class RawModule:
    """Compiles with the ordinary compiler; kept for the session."""

    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        device = (resources.files("sparsemean._kernels") / "device.cuh").read_text(encoding="utf-8")
        host = (Path(__file__).parent / "kernels" / "host.h").read_text(encoding="utf-8")
        # fused products are off in `compiled`; headers of the later standard take most of the time
        plain = tuple(option for option in options if option not in ("--fmad=false", "-std=c++17"))
        self.library = compiled(host + code.removeprefix(device) + launchers(code), plain)

    def get_function(self, name: str) -> Any:
        launch = getattr(self.library, f"launch_{name}")

        def kernel(grid: tuple[int, ...], block: tuple[int], arguments: tuple[Any, ...]) -> None:
            raw = [a.data.ptr if isinstance(a, Array) else int(a) for a in arguments]
            across, down = (*grid, 1)[:2]
            launch(across, down, *block, (ctypes.c_void_p * len(raw))(*raw))

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
        how = ("-std=c++14", "-O0", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-shared", "-fPIC", *options)
        subprocess.run([COMPILER, *how, str(source), "-o", str(temporary)], check=True)
        temporary.replace(library)
        source.unlink()
    return ctypes.CDLL(str(library))


class Stream:
    """A queue whose work is done at once."""

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def synchronize(self) -> None: ...


class Pool:
    """Memory of which a limit can be set."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit

    def get_limit(self) -> int:
        return self.limit

    def free_bytes(self) -> int:
        return 0

    def used_bytes(self) -> int:
        return 0


class Emulated(Module):
    """What ``import cupy`` gives where kernels are run by the processor."""

    RawModule = RawModule

    def __init__(self, devices: int = 1, limit: int = 0) -> None:
        self.pool = Pool(limit)
        self.cuda = types.SimpleNamespace(
            Device=lambda number: contextlib.nullcontext(),  # noqa: ARG005
            Stream=Stream,
            get_current_stream=Stream,
            alloc_pinned_memory=bytearray,
            runtime=types.SimpleNamespace(
                getDeviceCount=lambda: devices, getDevice=lambda: 0, memGetInfo=lambda: (10**9, 10**9)
            ),
        )

    def get_default_memory_pool(self) -> Pool:
        return self.pool
