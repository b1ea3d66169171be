"""Python code run in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def measure(code: str, *, cache: Path | None = None) -> float:
    """Run ``code`` in a fresh interpreter and return the number it prints last; arguments as in `numbers`."""
    return numbers(code, cache=cache)[-1]


def numbers(code: str, *, cache: Path | None = None) -> list[float]:
    """Run ``code`` in a fresh interpreter and return the numbers in the last line it prints.

    Parameters
    ----------
    code : str
        Statements.
    cache : Path, optional
        Where compiled kernels are kept; the usual place by default. Bytecode is always written, so that it is there
        from the second process on.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(f"a benchmark process ended with status {done.returncode}: {done.stderr.strip()}")
    return [float(word) for word in done.stdout.splitlines()[-1].split()]
