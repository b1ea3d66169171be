"""What a centre of one column is: its value, its standard error, and the name of what found it."""

from __future__ import annotations

from typing import NamedTuple


class Centre(NamedTuple):
    """The centre of one column; an infinite error says that it is not to be used."""

    value: float
    error: float
    name: str
