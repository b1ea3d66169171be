"""Compiling kernels, and keeping what was compiled for the next process.

numba's own cache asks only whether the file that defines a function has changed, though code of functions in other
files is compiled into it; it raises where no folder can be written, and runs a file that is damaged. Here what is kept
is sealed with a checksum of all the kernels' sources, and whatever cannot be read or written is compiled anew.

numba alone takes a second to start, and ten to compile what a fit needs. A kernel may therefore name a plain partner:
``@compiled(plain="reference")`` says that the module ``reference`` here has a function of the same name, in NumPy or
Python, that does the same with the same arguments, to the last bit; ``plain="itself"``, that as Python it is fast
enough. Small problems take it until something asks for
machine code: a larger problem, a kernel without a partner, or `PATIENCE` seconds spent in partners. From then on all
is compiled. Functions around kernels that do better with another plan ask `plainly` themselves.
``tests/kernels/test_partners.py`` compares every pair; a kernel that names a partner is to be added to it.
"""

from __future__ import annotations

import hashlib
import importlib
import pickle
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numba.core.codegen import Codegen
    from numba.core.compiler import CompileResult
    from numba.core.target_extension import Target
    from numba.core.types import Type

P = ParamSpec("P")
R = TypeVar("R")

HERE = Path(__file__).resolve().parent
ROOMS = ("_kernels", "baselines")
"""Where kernels stand, whose code may be compiled into others."""
SMALL = 200_000
"""Values up to which a problem is small."""
PATIENCE = 3.0
"""Seconds in partners after which a process compiles: between what that takes where all is kept, one, and ten."""
ANY_ORDER = {"reassoc", "contract", "nsz", "arcp"}
"""What lets several terms of a sum be added at once: numbers may be rounded otherwise, and no sign of zero is kept."""
SEAL = hashlib.sha256().digest_size


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be kept: every process compiles them again."""


class Plainness(threading.local):
    """Whether a thread is at work in a partner; the process: whether it is done with partners, seconds spent so."""

    ended = False
    spent = 0.0
    inside = False


_plainness = Plainness()


def plainly(size: int = 0) -> bool:
    """Whether a problem of so many values is small enough for what is not compiled, and nothing asked for more yet."""
    return not Plainness.ended and size <= SMALL


def end_plainness() -> None:
    """Have everything compiled from now on: a fit that is repeated, or timed, is faster so."""
    Plainness.ended = True


class Kernel(Generic[P, R]):
    """A function that is compiled when it is first called, unless its partner is to do the work; see above.

    The first argument is what is worked on: its size decides, times ``weight`` values for each of its elements.
    """

    def __init__(self, function: Callable[P, R], *, plain: str | None, weight: float, any_order: bool) -> None:
        update_wrapper(self, function)
        self.function, self.home, self.weight, self.any_order = function, plain, weight, any_order

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        if self.home is not None and _plainness.inside:
            return self.partner(*arguments, **named)
        if not Plainness.ended:
            if self.home is not None and plainly(int(self.weight * getattr(arguments[0], "size", 1))):
                return self._done_plainly(*arguments, **named)
            end_plainness()
        return self.machine(*arguments, **named)

    def _done_plainly(self, *arguments: P.args, **named: P.kwargs) -> R:
        began, _plainness.inside = time.thread_time(), True
        try:
            with np.errstate(all="ignore"):  # machine code warns of nothing
                return self.partner(*arguments, **named)
        except (ArithmeticError, ValueError):  # Python refuses quotients and logarithms that are not finite elsewhere
            end_plainness()
            return self.machine(*arguments, **named)
        finally:
            _plainness.inside = False
            Plainness.spent += time.thread_time() - began
            Plainness.ended |= Plainness.spent > PATIENCE

    @cached_property
    def partner(self) -> Callable[P, R]:
        """The function that does the same without being compiled."""
        if self.home == "itself":
            return self.function
        partner: Callable[P, R] = getattr(
            importlib.import_module(f"sparsemean._kernels.{self.home}"), self.function.__name__
        )
        return partner

    @cached_property
    def machine(self) -> Callable[P, R]:
        """What numba makes of the function; the GIL is released."""
        import numba

        relaxed = ANY_ORDER if self.any_order else False
        kernel: Any = numba.njit(nogil=True, error_model="numpy", fastmath=relaxed)(self.function)
        kernel._cache = Kept(f"{self.function.__module__.rpartition('.')[2]}.{self.function.__qualname__}")
        machine: Callable[P, R] = kernel
        return machine

    @property
    def _numba_type_(self) -> Type:
        """What a kernel is to other kernels that call it."""
        machine: Any = self.machine
        kind: Type = machine._numba_type_
        return kind


def compiled(
    *, plain: str | None = None, weight: float = 1.0, any_order: bool = False
) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Compile a kernel when it is first called; a later process finds it compiled. ``plain``: where its partner is.

    Where ``any_order`` is as good, sums are added up in the one that is fastest.
    """
    return lambda function: Kernel(function, plain=plain, weight=weight, any_order=any_order)


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

    def load_overload(self, signature: object, target: Target) -> CompileResult | None:
        """Return what was compiled for ``signature``, or None."""
        from numba.core.compiler import CompileResult

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

    def save_overload(self, signature: object, result: CompileResult) -> None:
        """Keep what was compiled in the first folder that takes it."""
        from numba.core.serialize import dumps

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
    import numba
    from numba.misc.appdirs import AppDirs

    apart = f"sparsemean-{hashlib.sha256(str(HERE).encode()).hexdigest()[:12]}"
    named = [Path(numba.config.CACHE_DIR).absolute() / apart] if numba.config.CACHE_DIR else []
    own = Path(AppDirs(appname="sparsemean", appauthor=False).user_cache_dir) / apart
    # without a home the user's folder begins with a bare "~", which would be made in the working directory
    return (*named, HERE / "__pycache__", *([own] if own.is_absolute() else []))


def _sources() -> bytes | None:
    """Return a checksum of the sources of all kernels, None where they cannot be read."""
    package = resources.files("sparsemean")
    files = {file.name: file for room in ROOMS for file in (package / room).iterdir() if file.name.endswith(".py")}
    digest = hashlib.sha256()
    try:
        for name in sorted(files):
            digest.update(name.encode() + files[name].read_bytes())
    except OSError:
        return None
    return digest.digest() if files else None


SOURCES = _sources()
"""Taken as the kernels are imported: what is edited later is not what this process compiles."""


@cache
def _made_by() -> tuple[str | None, ...]:
    import llvmlite
    import numba

    return sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__


def _key(signature: object, codegen: Codegen) -> bytes:
    return repr((_made_by(), codegen.magic_tuple(), signature)).encode()


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
