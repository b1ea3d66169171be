"""A file that a library holds open: whatever the library complains of becomes one line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sparsemean.errors import InputError

MOST_COMPRESSED = 2000
"""Bytes of values that a byte on disk may stand for: deflate reaches about 1030."""
NOT_WORTH_CHECKING = 256_000_000
A_LINE = 64
"""Bytes, at least, that a row or a column takes while it is looked at."""
MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError)
"""What a slip in a program raises; libraries raise them for damaged files as well."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What to call a file in a message, and its bytes on disk where they are known."""

    name: str
    kind: str
    size: float = math.inf
    argument: str = "FILE"

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what a damaged file makes a library raise, of which there are many kinds, into one line.

        What our own code raises by mistake stays what it is: nobody's file is at fault.
        """
        try:
            yield
        except (InputError, ImportError):
            raise
        except (FileNotFoundError, PermissionError, BlockingIOError) as error:
            raise InputError(self.argument, "be readable", f"{self.name} ({_first_line(error)})") from error
        except MemoryError as error:
            rule = "have pieces that fit into memory"
            raise InputError(self.argument, rule, f"{self.name} ({_first_line(error)})") from error
        except Exception as error:
            if isinstance(error, MISTAKES) and _is_ours(error):
                raise
            raise self.broken(_first_line(error)) from error

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Blame the file for slips as well: only around what takes apart what a file says of itself."""
        try:
            yield
        except MISTAKES as error:
            raise self.broken(_first_line(error)) from error

    def broken(self, why: str) -> InputError:
        """Say that the file is not what its ending promises."""
        return InputError(self.argument, f"be a complete {self.kind}", f"{self.name} ({why})", "write it again")

    def check_size(self, shape: tuple[int, ...], itemsize: int) -> None:
        """Refuse a shape that so few bytes cannot hold: a damaged one would ask for all memory.

        Chunks of a folder that were never written are not there and hold one value, so of folders only the longer side
        is judged, which costs memory.
        """
        claimed = (max(shape) if self.kind.endswith("folder") else math.prod(shape)) * itemsize
        if claimed > max(NOT_WORTH_CHECKING, MOST_COMPRESSED * self.size):
            raise self.broken(f"shape {shape} in {self.size:,.0f} bytes")

    def check_lines(self, shape: tuple[int, ...]) -> None:
        """Refuse more rows or columns than so few bytes can tell of: each costs memory, even if nothing is in it."""
        if A_LINE * max(shape) > max(NOT_WORTH_CHECKING, MOST_COMPRESSED * self.size):
            raise self.broken(f"shape {shape} in {self.size:,.0f} bytes")


def _is_ours(error: Exception) -> bool:
    """Whether an error was raised in this package, not in a library that was called."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and str(at.tb_frame.f_globals.get("__name__")).partition(".")[0] == "sparsemean"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
