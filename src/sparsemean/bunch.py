"""A dictionary whose entries can also be read as attributes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Bunch(dict[str, Any]):
    """Named results in one object: ``bunch["X"]`` and ``bunch.X`` are the same thing.

    Examples
    --------
    >>> bunch = Bunch(X=[1.0, 2.0], y="F")
    >>> bunch
    Bunch(X, y)
    >>> bunch.y
    'F'
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"Bunch has no entry {name!r}; it has {', '.join(self)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        return f"Bunch({', '.join(self)})"
