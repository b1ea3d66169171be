"""The two ways in which a call can be refused, one line each that a user can act on; what they share."""

from __future__ import annotations

import errno
import importlib
import re
from collections.abc import Sequence
from types import ModuleType

MOST_SHOWN = 500
"""Characters of a value or of an advice: names and headers in files are as long as they like."""


CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Characters that move, hide or turn round what a terminal or a page shows."""


def visible(text: object) -> str:
    r"""Return a text with its control characters written out, so that no name can speak to a terminal or a reader.

    Examples
    --------
    >>> print(visible("red\x1b[31m"))
    red\x1b[31m
    """
    return CONTROLS.sub(lambda control: control[0].encode("unicode_escape").decode(), str(text))


class InputError(ValueError):
    """Input that breaks a rule: the message names the argument, the rule, the value and what to do."""

    def __init__(self, argument: str, rule: str, received: object, advice: str = "") -> None:
        self.argument = argument
        line = f"{argument} must {rule}: got {_short(received)}"
        super().__init__(visible(" ".join((f"{line}; {_short(advice)}" if advice else line).split())))

    def __reduce__(self) -> tuple[object, ...]:
        # the default would call __init__ with the finished line: an error could not leave a worker process
        return restored, (self.argument, str(self))


def _short(what: object) -> str:
    """Return a text without its middle where it is long."""
    line = str(what)
    half = MOST_SHOWN // 2
    return line if len(line) <= MOST_SHOWN else f"{line[:half]} … {line[-half:]}"


MOST_LINES = 5
"""Of an error that names several faults."""


def together(faults: Sequence[InputError]) -> InputError:
    """Return one error that has a line for each of several faults, of many the first and how many more there are."""
    lines = [str(fault) for fault in faults]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 1 :] = [f"{len(lines) - MOST_LINES + 1} more such faults"]
    return restored(faults[0].argument, "\n".join(lines))


def restored(argument: str, line: str) -> InputError:
    """Return an error whose line is known."""
    error = InputError.__new__(InputError, line)
    error.argument = argument
    return error


class MissingExtraError(ImportError):
    """An optional package that this call needs is not installed."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional ``module``, or say in one line how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if not isinstance(error, ModuleNotFoundError) or (error.name or package) not in (package, module):
            raise MissingExtraError(f"{purpose} needs {package}, which does not load: {error}") from error
        raise MissingExtraError(
            f'{purpose} needs {package}, which is not installed: pip install "sparsemean[{extra}]"'
        ) from error


NO_MEMORY = re.compile(
    "start new thread|worker thread|cannot allocate|unable to allocate|failed to map|out of memory|bad_alloc", re.I
)
MORE_MEMORY = "raise the limit (ulimit -v), use fewer threads (--jobs 1) or look at fewer columns (--select)"


def lacks_memory(error: BaseException | None) -> bool:
    """Whether memory was refused, also to a thread or to a library that is loaded; many have an error of their own."""
    if error is None:
        return False
    refused = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
    return refused or NO_MEMORY.search(str(error)) is not None or lacks_memory(error.__context__)
