"""Options and fixtures that all tests share."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

TABLE = Path(__file__).parents[1] / "docs" / "validation.md"
collect_ignore = ["against_byzfl.py"]
"""A program that needs byzfl and torch: `make bench-federated`."""
CLAIMS = pytest.StashKey[list[tuple[str, str, str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--validate", action="store_true", help="the long version of every claim; writes its table")
    parser.addoption("--keep-claims", action="store_true", help="leave rows of the table that are not run again")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CLAIMS] = []
    # Of processes that run side by side each has a core: threads that wait for each other would only take its time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded
    from sparsemean._kernels import compiling

    compiling.end_plainness()  # kernels, not their partners, are what tests are about


@pytest.fixture
def long_version(request: pytest.FixtureRequest) -> bool:
    """Whether a claim is checked at full length."""
    return bool(request.config.getoption("--validate"))


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Put a stand-in that runs kernels on the processor in the place of CuPy."""
    from sparsemean._evidence import signs
    from sparsemean._kernels import gpu, gpu_blocks
    from sparsemean._stats import nulls

    from emulated import Emulated

    fake = Emulated()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    yield fake
    tables = signs._asked_there, signs._frame_there
    for kept in (*tables, nulls._table_on, gpu.kernel, gpu._module, gpu._numbers_there, gpu_blocks._grid_there):
        kept.cache_clear()


class Claims:
    """Collects what was claimed, measured and demanded for the table of `make validate`."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def add(self, claim: str, measured: str, bar: str, seed: object) -> None:
        self.config.stash[CLAIMS].append((claim, measured, bar, str(seed)))


@pytest.fixture
def claims(request: pytest.FixtureRequest) -> Claims:
    return Claims(request.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a worker process has collected."""
    node.config.stash[CLAIMS].extend(tuple(row) for row in getattr(node, "workeroutput", {}).get("claims", []))


def _state() -> str:
    """The commit that is measured."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=TABLE.parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    rows = session.config.stash[CLAIMS]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["claims"] = rows
        return
    if not session.config.getoption("--validate") or not rows or exitstatus != 0:
        return
    found = {row[0]: (*row, _state()) for row in sorted(rows)}
    if session.config.getoption("--keep-claims"):
        kept = [tuple(line.strip("| ").split(" | ")) for line in TABLE.read_text(encoding="utf-8").splitlines()[7:]]
        found = {row[0]: row for row in kept} | found
    packages = ("sparsemean", "numpy", "scipy", "numba", "scikit-learn", "pandas")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    lines = [
        "# Validation",
        "",
        f"Written by `make validate` on {datetime.now(UTC):%Y-%m-%d}; Python {platform.python_version()}, {versions}.",
        "The last column has the commit that a row was measured at: parts may be run by themselves.",
        "",
        "| claim | measured | bar | seeds | commit |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(found[claim])} |" for claim in sorted(found)),
    ]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
