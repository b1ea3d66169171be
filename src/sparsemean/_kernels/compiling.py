"""Compiling kernels, and keeping what was compiled for the next process.

numba's own cache asks only whether the file that defines a function has changed, though code of functions in other
files is compiled into it; it raises where no folder can be written, and runs a file that is damaged. Here what is kept
is sealed with a checksum of all the kernels' sources, and whatever cannot be read or written is compiled anew.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import uuid
import warnings
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

HERE = Path(__file__).resolve().parent
MADE_BY = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__)
SEAL = hashlib.sha256().digest_size


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be kept: every process compiles them again."""


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a kernel when it is first called, with the GIL released; a later process finds it compiled."""
    kernel = numba.njit(nogil=True, error_model="numpy")(function)
    kernel._cache = Kept(f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}")
    return kernel


class Kept:
    """What was compiled of one kernel, a file for each signature; numba calls the methods.

    A file is its seal and a pickle. The seal covers the kernels' sources, the versions, processor and signature beside
    the pickle, so nothing that is old, of another signature or damaged is ever unpickled, let alone run.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def cache_path(self) -> str:
        """Return the folder that is asked first."""
        return str(next(iter(folders()), ""))

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return what was compiled for ``signature``, or None."""
        target.refresh()
        key = _key(signature, target.codegen())
        for folder in folders():
            try:
                content = self._file(folder, key).read_bytes()
                if content[:SEAL] == _seal(key, content[SEAL:]):
                    return CompileResult._rebuild(target, *pickle.loads(content[SEAL:]))
            except Exception:
                continue
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled in the first folder that takes it."""
        key = _key(signature, result.codegen)
        code = dumps(result._reduce())
        why = ""
        for folder in folders():
            try:
                _write(self._file(folder, key), _seal(key, code) + code)
                return
            except OSError as error:
                why = why or f": {folder} ({error.strerror or error})"
        _note(why)

    def flush(self) -> None:
        """Do nothing: what is compiled anew takes the place of what was there."""

    def _file(self, folder: Path, key: bytes) -> Path:
        return folder / f"{self.name}-{hashlib.sha256(key).hexdigest()[:16]}.kernel"


@cache
def folders() -> tuple[Path, ...]:
    """Return where compiled kernels may lie, first to last: the folder named for numba, beside the code, the user's."""
    if SOURCES is None:
        return ()
    apart = f"sparsemean-{hashlib.sha256(str(HERE).encode()).hexdigest()[:12]}"
    named = [Path(numba.config.CACHE_DIR).absolute() / apart] if numba.config.CACHE_DIR else []
    own = Path(AppDirs(appname="sparsemean", appauthor=False).user_cache_dir) / apart
    # without a home the user's folder begins with a bare "~", which would be made in the working directory
    return (*named, HERE / "__pycache__", *([own] if own.is_absolute() else []))


def _sources() -> bytes | None:
    """Return a checksum of the sources of all kernels, None where they cannot be read."""
    files = {file.name: file for file in resources.files("sparsemean._kernels").iterdir() if file.name.endswith(".py")}
    digest = hashlib.sha256()
    try:
        for name in sorted(files):
            digest.update(name.encode() + files[name].read_bytes())
    except OSError:
        return None
    return digest.digest() if files else None


SOURCES = _sources()
"""Taken as the kernels are imported: what is edited later is not what this process compiles."""


def _key(signature: Any, codegen: Any) -> bytes:
    return repr((MADE_BY, codegen.magic_tuple(), signature)).encode()


def _seal(key: bytes, code: bytes) -> bytes:
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in (SOURCES or b"", key, code))).digest()


def _write(path: Path, content: bytes) -> None:
    """Write a file that other processes see whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@cache
def _note(why: str) -> None:
    """Say, once a process, that nothing can be kept."""
    warnings.warn(
        f"compiled kernels cannot be kept{why}, so every start compiles them again, which takes seconds; "
        "set NUMBA_CACHE_DIR to a folder that can be written",
        KernelCacheWarning,
        stacklevel=2,
    )
