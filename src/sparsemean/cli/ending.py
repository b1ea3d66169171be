"""How a command ends that is told to: by Ctrl-C, or by a signal that would leave its temporary files behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sparsemean import files

SIGNALS = ("SIGTERM", "SIGHUP")
"""Sent by batch systems, by `timeout`, by a terminal that is closed; not every system has all."""


@contextmanager
def in_order() -> Iterator[list[int]]:
    """Let signals end a command as Ctrl-C does, cleaning up; yield the signal that came, if any.

    One that is ignored (by ``nohup``) or handled already stays so.
    """
    came: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        if not came:  # again while it cleans up: it does already what it can
            came.append(number)
            raise KeyboardInterrupt

    known = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        known = []
    ours = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]
    files.written.clear()
    for number in ours:
        signal.signal(number, end)
    try:
        yield came
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def what_was_written() -> str:
    """Say what a command that was interrupted leaves behind."""
    names = ", ".join(str(path) for path in files.written)
    return f"interrupted after it had written {names}" if names else "interrupted; no file was changed"
