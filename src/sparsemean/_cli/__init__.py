"""The command line: one clear line and status 2 for bad input, never a traceback."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import click

from sparsemean import __version__
from sparsemean._cli.commands import bench, demo, plan, reproduce
from sparsemean._cli.common_options import echo, steady_streams, visible
from sparsemean._cli.fit import fit
from sparsemean._cli.sketch import merge, sketch
from sparsemean._data.numpy_files import WHOLE
from sparsemean._util import files
from sparsemean.errors import InputError, MissingExtraError

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


# The command line: one clear line and status 2 for bad input, never a traceback. One command a file.


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, package_name="sparsemean", message="%(prog)s %(version)s")
def commands() -> None:
    """Which of very many features have a mean that is not zero, and how large it is."""


for _command in (fit, sketch, merge, demo, plan, reproduce, bench):
    commands.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with 0 (done), 2 (bad input) or 1 (anything else)."""
    steady_streams()
    if arguments is None:  # a process of our own
        load_special_lazily()
        if hasattr(signal, "SIGBUS"):
            ctypes.CDLL(None).signal(signal.SIGBUS, _ON_BUS_ERROR)
    with warnings.catch_warnings():
        warnings.showwarning = _note
        sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    with in_order() as came:
        status = _outcome(arguments)
    return 128 + came[0] if came else status


def _outcome(arguments: Sequence[str] | None) -> int:
    try:
        commands.main(args=arguments, prog_name="sparsemean", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as help_text:
        echo(help_text.format_message())
        return 2
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except (InputError, OSError) as error:
        return _complain(str(error), 2)
    except MissingExtraError as error:
        return _complain(str(error), 1)
    except (click.Abort, KeyboardInterrupt) as stop:
        return _complain(str(stop) or what_was_written(), 130)
    except Exception as error:
        if os.environ.get("SPARSEMEAN_DEBUG"):
            raise
        return _complain(f"internal error, {type(error).__name__}: {error} (SPARSEMEAN_DEBUG=1 shows where)", 1)
    return 0


def _complain(message: str, status: int) -> int:
    echo(f"sparsemean: {visible(' '.join(message.split()))}", err=True)
    return status


def _note(message: Warning | str, *_where: object, **_what: object) -> None:
    """Show a warning in one line, unless only errors are wanted."""
    context = click.get_current_context(silent=True)
    if context is None or not context.params.get("quiet"):
        _complain(f"note: {message}", 0)


def _on_bus_error(_: int) -> None:
    """End in one line where a file is cut short that is mapped into memory and being counted.

    A handler of Python's would never run: it waits for the next instruction, and this one is repeated for ever.
    """
    os._exit(_complain(str(InputError("FILE", WHOLE, "a file that was cut short", "run it again")), 2))


_ON_BUS_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_int)(_on_bus_error)


# SciPy's special functions at a tenth of the time that ``import scipy.special`` takes. That package wraps them for
# arrays of other libraries, and for it walks through all of NumPy, the compiler of Fortran included: 0.2 s, a fifth of
# a small fit. The functions themselves are one compiled module.

PACKAGE, FUNCTIONS = "scipy.special", "scipy.special._ufuncs"


def load_special_lazily() -> None:
    """Have ``scipy.special``, if nobody has it yet, loaded whole only for what is not one of these functions."""
    found = importlib.util.find_spec("scipy")
    if PACKAGE in sys.modules or found is None or not found.submodule_search_locations:
        return
    stand_in = ModuleType(PACKAGE)
    stand_in.__path__ = [str(Path(found.submodule_search_locations[0]) / "special")]
    stand_in.__getattr__ = _function  # type: ignore[method-assign]
    sys.modules[PACKAGE] = stand_in


def _function(name: str) -> Any:
    if name.startswith("__"):  # asked by the machinery of imports
        raise AttributeError(name)
    try:
        importlib.import_module("scipy")
        return getattr(importlib.import_module(FUNCTIONS), name)
    except (AttributeError, ImportError):  # none of them, or SciPy is laid out otherwise
        return getattr(_package(), name)


def _package() -> ModuleType:
    """Put the whole package in the place of what stands for it."""
    if hasattr(sys.modules.get(PACKAGE), "__getattr__"):
        del sys.modules[PACKAGE]
    return importlib.import_module(PACKAGE)
