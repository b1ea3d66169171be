"""What stands where a file should be, and what becomes of a file after it was opened."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random

from hostile.case import worn


def fifo(path: Path, _: Random) -> None:
    os.mkfifo(path)


def folder(path: Path, _: Random) -> None:
    path.mkdir()


def device(path: Path, rng: Random) -> None:
    path.symlink_to(rng.choice(("/dev/zero", "/dev/null", "/dev/full", "/dev/random", "/dev/tty", "/dev/stdin")))


def loop(path: Path, _: Random) -> None:
    path.symlink_to(path)


def dangling(path: Path, _: Random) -> None:
    path.symlink_to(path.with_name("nowhere"))


def link_to_fifo(path: Path, _: Random) -> None:
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to(path.with_name("fifo"))


def link_to_folder(path: Path, rng: Random) -> None:
    path.symlink_to(rng.choice((path.parent, Path("/proc/self"), Path("/dev"))))


def listening(path: Path, _: Random) -> None:
    there = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as ear:
        ear.bind(f"/proc/self/fd/{there}/{path.name}")  # names of sockets are short
    os.close(there)


def endless(path: Path, rng: Random) -> None:
    """A file of the kernel's that has no size, or one with more to read than it says."""
    path.symlink_to(rng.choice(("/proc/self/mem", "/proc/self/maps", "/proc/self/pagemap", "/sys/kernel")))


def unreadable(path: Path, _: Random) -> None:
    path.write_bytes(b"x")
    path.chmod(0)


def empty(path: Path, _: Random) -> None:
    path.write_bytes(b"")


def hole(path: Path, rng: Random) -> None:
    """A file of zeros that takes no room on the disk."""
    path.touch()
    os.truncate(path, rng.choice((1, 512, 10**6, 10**8, 10**10)))


NO_FILES: tuple[Callable[[Path, Random], None], ...] = (
    fifo, folder, device, loop, dangling, link_to_fifo, link_to_folder, listening, endless, unreadable, empty, hole,
)  # fmt: skip


def changed(path: Path, rng: Random) -> Callable[[], None]:
    """Return what cuts, changes or replaces a file, or one file of a folder, once it is called."""
    parts = sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
    part, way, seed = rng.choice(parts), rng.randrange(8), rng.getrandbits(32)
    return lambda: _change(part, way, Random(seed))


def _change(path: Path, way: int, rng: Random) -> None:
    content = path.read_bytes()
    if way == 0:
        os.truncate(path, rng.randrange(len(content) + 1))
    elif way == 1:
        os.truncate(path, rng.choice((0, 1, 128, 4095)))
    elif way == 2:
        path.write_bytes(worn(content, rng))
    elif way == 3:
        other = path.with_name("other")
        other.write_bytes(worn(content, rng))
        other.replace(path)
    elif way == 4:
        path.unlink()
    elif way == 5:
        path.write_bytes(content + content)
    else:
        path.unlink()
        rng.choice((fifo, folder, device, loop, endless))(path, rng)


def clear(path: Path) -> None:
    """Take away whatever a case left."""
    for part in path.iterdir():
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part)
        else:
            part.unlink()
