"""Columns that hold no numbers, refused in one line that says what can be done."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from sparsemean.errors import InputError

MOST_NAMED = 3


def not_numeric(argument: str, names: Sequence[str], kind: str, where: str = "") -> InputError:
    """Refuse the first of ``names``, say how many more there are and what to do: options in files, code in memory."""
    received = f"{kind} in column {names[0]!r}" + (f" ({where})" if where else "")
    if len(names) > 1:
        received += f" and {len(names) - 1} more"
    drop = " ".join(f"--drop {quote(name)}" for name in names[:MOST_NAMED])
    in_file = f"name it with --id or --group, or leave it out with {drop}"
    advice = in_file if argument == "FILE" else "leave it out or convert it"
    return InputError(argument, "have numeric columns only", received, advice)
