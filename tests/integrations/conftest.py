"""Tests against the real packages that people use beside this one; run by `make test-integrations` only.

A package that is missing fails them: nothing here is skipped.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave these tests out unless they are asked for by name: they need an environment of their own."""
    return None if any("integrations" in argument for argument in config.args) else True
