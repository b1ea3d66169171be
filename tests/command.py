"""The command line, run in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparsemean import _cli


def run(*arguments: str | Path) -> int:
    """Run a command and return its exit status."""
    with pytest.raises(SystemExit) as stop:
        _cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def expect(*arguments: str | Path, status: int = 0) -> None:
    """Run a command that must end with ``status``."""
    assert run(*arguments) == status
