"""Writing so that nothing is ever half-written, and reading nothing that is no file."""

from __future__ import annotations

import os
import stat
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sparsemean.errors import InputError

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
