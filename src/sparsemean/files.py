"""Writing so that nothing is ever half-written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sparsemean.errors import InputError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path`` and rename it to ``path`` once the block has succeeded.

    Whatever was at ``path`` stays untouched if the block fails.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError("output", "be a file", f"{str(path)!r}, a directory", "add a file name")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise InputError("output", "be in a writable directory", f"{str(path)!r} ({error.strerror})") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mode = path.stat().st_mode if path.exists() else 0o666 & ~_umask()
        temporary.chmod(mode & 0o777)
        temporary.replace(path)
    except OSError as error:  # a full disk, most often
        temporary.unlink(missing_ok=True)
        why = error.strerror or str(error)
        raise InputError(
            "output", "be written whole", f"{str(path)!r} ({why})", "what was there is unchanged"
        ) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
