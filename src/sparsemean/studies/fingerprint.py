"""A hash of the code that computes trials, so that results of edited code are never mixed with older ones.

Which files these are is read off their import statements, from `trial` on.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOTS = ("studies/trial.py", "passes/memory.py", "sources/array.py")
"""Where a trial begins, and what it loads by a name that is put together: arrays in memory, and the pass over them."""
FOUND_BY_NAME = ("baselines/methods", "simulate/attacks/kinds", "simulate/distributions")
"""Folders of which a study may name every file."""
OFFERED_BY = ("estimate.py", "sources/__init__.py")
"""Files whose functions import what shows a result or opens a file; a trial calls none of them."""


@cache
def fingerprint() -> str:
    """Return a hash of every source file on which a trial's numbers can depend."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(computing(package)):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def computing(package: Path) -> set[Path]:
    """Return the files of ``package`` that a trial runs through."""
    files: set[Path] = set()
    ahead = [package / root for root in ROOTS]
    ahead += [path for folder in FOUND_BY_NAME for path in (package / folder).glob("*.py")]
    while ahead:
        path = ahead.pop()
        if path in files:
            continue
        files.add(path)
        offers = path.relative_to(package).as_posix() in OFFERED_BY
        for name in _imported(ast.parse(path.read_bytes()), functions=not offers):
            ahead += _files(package, name)
    return files


def _imported(node: ast.AST, *, functions: bool) -> Iterator[str]:
    """Yield the names of this package that are imported when the code runs, those inside functions if wanted."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.FunctionDef() if not functions:
                continue
            case _:
                yield from _imported(child, functions=functions)


def _files(package: Path, name: str) -> Iterator[Path]:
    """Yield the files that importing ``name`` runs, but for the front doors of the package and of this room.

    Those load what is asked of them, and the rest of this room only runs, keeps and draws trials.
    """
    top, *parts = name.split(".")
    if top != package.name:
        return
    for length in range(1, len(parts) + 1):
        place = package.joinpath(*parts[:length])
        candidates = (place.with_suffix(".py"), place / "__init__.py")
        yield from (path for path in candidates if path.is_file() and path != package / "studies" / "__init__.py")
