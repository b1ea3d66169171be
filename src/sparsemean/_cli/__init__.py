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

import click

from sparsemean import __version__
from sparsemean._cli.commands import bench, demo, experiment, plan_command, reproduce
from sparsemean._cli.common_options import close_unread, echo, steady_streams
from sparsemean._cli.fit import fit_command, merge_command, sketch_command
from sparsemean._data.matrices import WHOLE
from sparsemean._util import files
from sparsemean.errors import MORE_MEMORY, InputError, MissingExtraError, lacks_memory, visible

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM")
"""Sent by Ctrl-C, by batch systems and `timeout`, by a terminal that is closed, by ourselves; no system has all."""
AGAIN = 0.05
"""Seconds after which a signal is sent again: modules swallow the first one while they are imported."""


@contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """Let signals end a command as Ctrl-C does, cleaning up; yield the signal that came, if any.

    One that is ignored (by ``nohup``) stays so, and one that is handled already, but for Ctrl-C.
    """
    came: list[int] = []
    alarm = getattr(signal, "SIGALRM", None)

    def end(number: int, _: FrameType | None) -> None:
        if not _cleaning_up():
            came[:] = came or [number]
            if alarm in ours:
                signal.setitimer(signal.ITIMER_REAL, AGAIN)
            raise KeyboardInterrupt

    def pass_on(ignored: sys.UnraisableHookArgs) -> None:
        if ignored.exc_type is not KeyboardInterrupt:  # which is sent again
            hook(ignored)

    known = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        known = []
    before = {number: signal.getsignal(number) for number in known}
    ours = [n for n, now in before.items() if now is signal.SIG_DFL or (n == signal.SIGINT and callable(now))]
    hook, sys.unraisablehook = sys.unraisablehook, pass_on
    files.written.clear()
    for number in ours:
        signal.signal(number, end)
    try:
        yield came
    finally:
        sys.unraisablehook = hook
        if came and alarm in ours:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number in ours:
            signal.signal(number, before[number])


def _cleaning_up() -> bool:
    """Whether an interrupt is being dealt with: it does already what it can."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def what_was_written() -> str:
    """Say what a command that was interrupted leaves behind."""
    names = ", ".join(str(path) for path in files.written)
    return f"interrupted after it had written {names}" if names else "interrupted; no file was changed"


# The command line: one clear line and status 2 for bad input, never a traceback. One command a file.


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, package_name="sparsemean", message="%(prog)s %(version)s")
def commands() -> None:
    """Which of very many features have a mean that is not zero, and how large it is."""


for _command in (fit_command, experiment, sketch_command, merge_command, demo, plan_command, reproduce, bench):
    commands.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with 0 (done), 2 (bad input) or 1 (anything else)."""
    steady_streams()
    if arguments is None:  # a process of our own
        load_special_lazily()
        for number in FATAL if hasattr(signal, "SIGBUS") and not os.environ.get("SPARSEMEAN_DEBUG") else ():
            if number != signal.SIGSEGV or _limited():
                ctypes.CDLL(None).signal(number, _ON_FATAL)
    with warnings.catch_warnings():
        warnings.showwarning = _note
        status = _run(arguments)
    if arguments is None:  # all is done and said: what is left is the end of Python, which has tracebacks of its own
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        eval("0")  # else Python dies by SIGINT if text that it ran was interrupted: it forgets so when it runs the next
    sys.exit(status)


def _run(arguments: Sequence[str] | None) -> int:
    """Run a command as click does, but for the empty line that it writes where one is interrupted."""
    given, status = list(sys.argv[1:] if arguments is None else arguments), 0
    with ended_by_signals() as came:
        try:
            with commands.make_context("sparsemean", given) as context:
                commands.invoke(context)
        except click.exceptions.Exit as stop:
            status = stop.exit_code
        except click.exceptions.NoArgsIsHelpError as help_text:
            echo(help_text.format_message())
            status = 2
        except BrokenPipeError:
            close_unread(sys.stdout)
        except (click.Abort, KeyboardInterrupt) as stop:
            status = _complain(str(stop) or what_was_written(), 130)
        except Exception as error:
            # an import that is interrupted may raise anything in the end
            status = _complain(what_was_written(), 130) if came else _refuse(error)
    return 128 + came[0] if came else status


def _refuse(error: Exception) -> int:
    """Say in one line why a command has failed, and return its status."""
    if isinstance(error, click.ClickException):
        return _complain(error.format_message(), 2)
    if lacks_memory(error) and not isinstance(error, InputError):
        return _complain(f"memory ran out ({str(error) or type(error).__name__}); {MORE_MEMORY}", 1)
    if isinstance(error, (InputError, OSError, MissingExtraError)):
        for line in str(error).splitlines() if isinstance(error, InputError) else [str(error)]:
            _complain(line, 2)
        return 1 if isinstance(error, MissingExtraError) else 2
    if os.environ.get("SPARSEMEAN_DEBUG"):
        raise error
    return _complain(f"internal error, {type(error).__name__}: {error} (SPARSEMEAN_DEBUG=1 shows where)", 1)


def _complain(message: str, status: int) -> int:
    echo(f"sparsemean: {visible(' '.join(message.split()))}", err=True)
    return status


def _note(message: Warning | str, category: type[Warning], filename: str, *_where: object, **_what: object) -> None:
    """Show a warning of ours in one line, unless only errors are wanted; those of libraries say nothing to a user."""
    ours = category.__module__.startswith("sparsemean.")
    ours = ours or (category is FutureWarning and Path(filename).is_relative_to(Path(__file__).parents[1]))
    context = click.get_current_context(silent=True)
    if ours and (context is None or not context.params.get("quiet")):
        _complain(f"note: {message}", 0)


ABORTED = f"a library ended the process, often because memory ran out: {MORE_MEMORY}; SPARSEMEAN_DEBUG=1 leaves a core"
FATAL = {
    getattr(signal, name, 0): (status, f"sparsemean: {line}\n".encode())
    for name, status, line in (
        ("SIGBUS", 2, str(InputError("FILE", WHOLE, "a file that was cut short", "run it again"))),
        ("SIGABRT", 1, ABORTED),
        ("SIGSEGV", 1, ABORTED),
    )
}
"""Status and line where a file is cut short that is mapped into memory and being counted, and where a library gives up,
or under a limit of memory does not look whether it got any.

A handler of Python's would never run: it waits for the next instruction, and there is none, or this one for ever.
"""


def _limited() -> bool:
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _on_fatal(number: int) -> None:
    status, line = FATAL[number]
    try:
        os.write(2, line)
    finally:
        os._exit(status)


_ON_FATAL = ctypes.CFUNCTYPE(None, ctypes.c_int)(_on_fatal)


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


def _function(name: str) -> object:
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
