"""Writing so that nothing is ever half-written, and reading nothing that is no file."""

from __future__ import annotations

import gzip
import os
import stat
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import IO, TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy.typing as npt

from sparsemean.errors import InputError, visible

if TYPE_CHECKING:
    import pandas as pd
    from _typeshed import DataclassInstance

written: deque[Path] = deque(maxlen=100)
"""Files that were replaced, the latest last, for whoever has to say so."""


def check_writable(path: str | Path, argument: str = "output") -> Path:
    """Refuse a file that could not be written; return where it lies, which of a link is what it leads to."""
    shown, target = repr(str(path)), Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = None
    except OSError as error:  # a name that is too long, or links in a circle
        raise InputError(argument, "be a name that a file can have", f"{shown} ({error.strerror})") from error
    if mode is not None and stat.S_ISDIR(mode):
        raise InputError(argument, "be a file", f"{shown}, a directory", "add a file name")
    if mode is not None and not stat.S_ISREG(mode):
        raise InputError(argument, "be a file", f"{shown}, a device or a pipe", "choose another name")
    if not target.parent.is_dir():
        raise InputError(argument, "be in an existing directory", shown, "make the directory first")
    # whoever may write to everything, as root may, is kept from what nobody may write to
    if mode is not None and not (mode & 0o222 and os.access(target, os.W_OK)):
        raise InputError(argument, "be a file that may be written to", f"{shown}, which is read-only")
    if not os.access(target.parent, os.W_OK):
        raise InputError(argument, "be in a writable directory", shown)
    return target


ENDLESS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def refuse_endless(path: str | Path, argument: str = "FILE") -> None:
    """Refuse what is waited for or read for ever; a path where nothing is, or a folder, fails by itself when opened."""
    try:
        what = ENDLESS.get(stat.S_IFMT(Path(path).stat().st_mode))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return
    except OSError as error:  # a name that is too long, links in a circle
        raise InputError(argument, "be readable", f"{str(path)!r} ({error.strerror})") from error
    if what is not None:
        raise InputError(
            argument, "be a file on a disk", f"{str(path)!r}, {what}", "write what it gives to a file first"
        )


class Unpacked(gzip.GzipFile):
    """A .gz file; ``check`` is told how many bytes came out of it, and raises where they are too many."""

    def __init__(self, file: IO[bytes], check: Callable[[int], None]) -> None:
        super().__init__(fileobj=file, mode="rb")
        self.check = check

    def read(self, size: int | None = -1) -> bytes:
        """Return some bytes."""
        out = super().read(size)
        self.check(self.tell())
        return out


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path`` and rename it to ``path`` once the block has succeeded.

    Whatever was at ``path`` stays untouched if the block fails. A link stays one: what it leads to is replaced.
    """
    target = check_writable(path)
    try:
        handle, name = tempfile.mkstemp(prefix=".sparsemean-", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise InputError("output", "be in a writable directory", f"{str(path)!r} ({error.strerror})") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mode = target.stat().st_mode if target.exists() else 0o666 & ~_umask()
        _flush(temporary, os.O_RDWR)
        temporary.chmod(mode & 0o777)
        temporary.replace(target)
        written.append(Path(path))
    except OSError as error:  # a full disk, most often
        temporary.unlink(missing_ok=True)
        why = error.strerror or str(error)
        raise InputError(
            "output", "be written whole", f"{str(path)!r} ({why})", "what was there is unchanged"
        ) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not every system can: Windows cannot open a directory
        _flush(target.parent, os.O_RDONLY)


FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula, or may, once it has cut off what stands before it."""


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame as CSV in which no spreadsheet finds a formula: an apostrophe stands before such text.

    Numbers are left alone, negative ones too. Control characters are written out, for people read such files: a
    terminal would obey them, and a carriage return, which pandas does not quote, would begin a line.
    """
    map_text(frame, _harmless).to_csv(path, index=False)


def _harmless(cell: str) -> str:
    return ("'" if cell.startswith(FORMULAS) else "") + visible(cell)


def map_text(frame: pd.DataFrame, function: Callable[[str], str]) -> pd.DataFrame:
    """Return a frame with a function of each text in place of it, columns of any name, or of one name, included."""
    out = frame.copy(deep=False)
    for k, dtype in enumerate(frame.dtypes):
        if dtype.kind not in "biufcmM":  # numbers and times hold no text
            out.isetitem(k, [function(cell) if isinstance(cell, str) else cell for cell in frame.iloc[:, k]])
    return out


def _flush(path: Path, how: int) -> None:
    """Wait until a file, or the names in a directory, are on the disk: the name must not get there before the bytes."""
    handle = os.open(path, how)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# What a file says of itself in JSON and arrays, compared with what a record may hold.

WORDS = {"tuple[int, ...]": "list of integers", "tuple[str, ...]": "list of strings", "Ranges": "list of ranges"}


def as_tuples(value: Any) -> Any:
    """Return what JSON holds with tuples in place of lists."""
    return tuple(as_tuples(item) for item in value) if isinstance(value, list) else value


hints = cache(get_type_hints)
"""Types of the entries of a record, made out once: they are compared for each of very many files."""


def check_types(record: DataclassInstance) -> None:
    """Refuse entries of another type than the record has."""
    for item in fields(record):
        check_type(type(record), item.name, getattr(record, item.name))


def check_type(kind: type, name: str, value: object) -> None:
    """Refuse a value that an entry of a kind of record cannot have."""
    if not _fits(value, hints(kind)[name]):
        annotation = kind.__annotations__[name]
        raise ValueError(f"{name} in its header is no {WORDS.get(annotation, annotation)}")


def _fits(value: object, kind: object) -> bool:
    """Whether a value is of a type as annotations have it: a whole number may be a float, True is no number.

    Examples
    --------
    >>> _fits(((0, 64),), tuple[tuple[int, int], ...]), _fits(True, int), _fits(None, int | None), _fits(3, float)
    (True, False, True, True)
    """
    items, origin = get_args(kind), get_origin(kind)
    if isinstance(value, tuple) and type(value) is kind:  # a named one
        return all(map(_fits, value, hints(kind).values()))
    if origin is None:
        return type(value) in ((int, float) if kind is float else (kind,))
    if isinstance(value, tuple) and origin is tuple:
        items = items[:1] * len(value) if items[-1] is Ellipsis else items
        return len(items) == len(value) and all(map(_fits, value, items))
    if isinstance(value, dict) and origin is dict:
        return all(_fits(item, items[1]) for item in value.values())
    return origin is UnionType and any(_fits(value, item) for item in items)


def check_array(name: str, array: npt.NDArray[Any], spec: str, sizes: Mapping[str, int]) -> None:
    """Refuse an array of another type or shape than ``spec`` says, and numbers beyond what they count.

    ``spec`` has the kinds of types, a letter of ``sizes`` for each side (``*`` is any), and perhaps what all numbers
    are below: ``"iu *d n"`` are integers from 0 to n − 1 in d columns.
    """
    kinds, shape, below = (*spec.split(), "")[:3]
    sides = tuple(array.shape[k] if side == "*" and k < array.ndim else sizes.get(side) for k, side in enumerate(shape))
    if array.dtype.kind not in kinds or array.shape != sides:
        raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
    if below and array.size and not 0 <= array.min() <= array.max() < sizes[below]:
        raise ValueError(f"{name} is not among {sizes[below]}")
