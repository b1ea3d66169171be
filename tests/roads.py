"""How far it is from an array to an estimate: files and named functions that a default call goes through.

``python tests/roads.py`` prints both numbers of every road. The second of two equal calls counts, so that what is
compiled, imported or kept once has no part in it; functions whose names begin with ``<`` or ``__`` do not count.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sparsemean

SOURCE = str(Path(sparsemean.__file__).parent)


class Road(NamedTuple):
    """What one call goes through."""

    files: int
    functions: int


def walked(call: Callable[[], Any]) -> set[tuple[str, str]]:
    """Return the file and the qualified name of every function of the package that the second of two calls enters."""
    seen: set[Any] = set()

    def look(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    call()
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    named = {(code.co_filename, code.co_qualname) for code in seen if code.co_filename.startswith(SOURCE)}
    return {(file, name) for file, name in named if not name.rpartition(".")[2].startswith(("<", "__"))}


def road(call: Callable[[], Any]) -> Road:
    """Count them."""
    found = walked(call)
    return Road(len({file for file, _ in found}), len(found))


def tables() -> tuple[np.ndarray, np.ndarray]:
    """Return 300 rows of 200 columns, ten of which have a mean, and the same with 15 rows moved by −4."""
    X = np.random.default_rng(0).standard_normal((300, 200))
    X[:, :10] += 1.0
    moved = X.copy()
    moved[:15] -= 4.0
    return X, moved


def command(folder: Path) -> Callable[[], Any]:
    """Return a call of ``fit x.csv --group arm --report p.html``."""
    from sparsemean._cli import main

    X, _ = tables()
    X[150:, :10] += 0.5
    file = folder / "x.csv"
    lines = [",".join([*(f"{value:.6f}" for value in row), "ab"[k >= 150]]) for k, row in enumerate(X)]
    file.write_text("\n".join([",".join([*(f"f{j}" for j in range(200)), "arm"]), *lines]), encoding="utf-8")
    arguments = ["fit", str(file), "--group", "arm", "--report", str(folder / "p.html")]

    def call() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(arguments)

    return call


def roads() -> dict[str, Road]:
    """Measure every road."""
    from sparsemean._kernels.compiling import end_plainness

    end_plainness()
    X, moved = tables()
    with tempfile.TemporaryDirectory() as folder:
        return {
            "array": road(lambda: sparsemean.SparseMean().fit(X)),
            "array with bad rows": road(lambda: sparsemean.SparseMean().fit(moved)),
            "file to page": road(command(Path(folder))),
        }


if __name__ == "__main__":
    for name, (files, functions) in roads().items():
        sys.stdout.write(f"{name:22}{files:5} files{functions:6} functions\n")
