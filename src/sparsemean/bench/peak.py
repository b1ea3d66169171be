"""How much memory a call needs beyond what was there before it; to be used in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

MEGABYTE = 1_000_000


def peak_memory() -> int:
    """Return the most memory, in bytes, that this process has had in use at any moment so far.

    ``ru_maxrss`` of a new process starts on Linux at the peak of the process that started it, which here may hold a
    large matrix; the kernel's own VmHWM does not, and is taken where it can be read.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def peak_above(work: Callable[[], object]) -> float:
    """Return by how many megabytes (10⁶ bytes) ``work`` raises the peak."""
    before = peak_memory()
    kept = work()
    after = peak_memory()
    del kept
    return (after - before) / MEGABYTE
