"""The public surface is frozen: names, signatures, documented import paths and what ``--help`` says.

A change of the surface changes ``fixtures/public_surface.txt`` in the same commit, with a line in the changelog:
``python tests/test_public_surface.py`` writes it. Files of formats that were released stay readable.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

import sparsemean

FIXTURES = Path(__file__).parent / "fixtures"
SNAPSHOT = FIXTURES / "public_surface.txt"
ROOT = Path(__file__).parents[1]
RETURNED = (
    "Aggregate", "Baseline", "BaselineWarning", "Certified", "Estimate", "InputError", "Plan", "Replacement",
    "RobustDifference", "RobustDifferenceResult", "Scorecard", "Sketch",
)  # fmt: skip
"""Classes that users are handed and do not call: how they are made is not promised."""
PACKAGES = (
    "baselines", "datasets", "experiments", "federated", "plots", "simulate", "simulate.attacks",
    "simulate.distributions", "studies", "tl",
)  # fmt: skip


def signature(thing: Any) -> str:
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return re.sub(r" at 0x\w+", "", str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty)))


def lines_of(name: str, thing: Any) -> Iterator[str]:
    if not inspect.isclass(thing):
        yield f"{name}{signature(thing)}"
        return
    yield f"class {name}{signature(thing) if thing.__name__ not in RETURNED else ''}"
    ours = [base for base in thing.__mro__ if base.__module__.partition(".")[0] == "sparsemean"]
    for member in sorted({member for base in ours for member in vars(base) if not member.startswith("_")}):
        value = getattr(thing, member)
        yield f"    .{member}{signature(value) if callable(value) else ''}"


def documented() -> Iterator[str]:
    """Statements of import in README, docs and examples."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.py"))]
    found = re.findall(r"from (sparsemean[\w.]*) import ([\w, ]+)", "\n".join(p.read_text("utf-8") for p in pages))
    yield from sorted({f"{module}.{name.strip()}" for module, names in found for name in names.split(",")})


def helps() -> Iterator[str]:
    from sparsemean._cli import commands

    assert isinstance(commands, click.Group)
    for arguments in ([], *([name] for name in commands.commands)):
        shown = CliRunner().invoke(commands, [*arguments, "--help"], prog_name="sparsemean", terminal_width=80)
        yield from (line.rstrip() for line in shown.output.splitlines())
        yield ""


def surface() -> str:
    lines = []
    for name in sparsemean.__all__:
        if name not in PACKAGES:
            lines += lines_of(f"sparsemean.{name}", getattr(sparsemean, name))
    for package in PACKAGES:
        module = importlib.import_module(f"sparsemean.{package}")
        offered = getattr(module, "available", list)()
        names = sorted({*module.__all__, *(offered if isinstance(offered, list) else offered.index)})
        for name in names:
            thing = module.get(name) if not hasattr(module, name) else getattr(module, name)
            if not inspect.ismodule(thing):
                lines += lines_of(f"sparsemean.{package}.{name}", thing)
    return "\n".join([*lines, "", "Documented imports", *documented(), "", "Command line", *helps()]) + "\n"


def test_the_surface_is_the_frozen_one() -> None:
    assert surface() == SNAPSHOT.read_text(encoding="utf-8")


def test_documented_imports_work() -> None:
    for path in documented():
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.sketch")), ids=lambda path: path.stem)
def test_sketches_of_earlier_versions_are_read(path: Path) -> None:
    back = sparsemean.load_sketch(path)
    estimate = back.estimate(contamination=0.01)
    assert estimate.support.tolist() == [0, 6]
    assert back.n_rows == estimate.plan.n_rows


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.npz")), ids=lambda path: path.stem)
def test_estimates_of_earlier_versions_are_read(path: Path) -> None:
    back = sparsemean.load(path)
    assert back.support.tolist() == [0, 6]
    assert (back.p_adjusted[back.support] < 0.05).all()
    assert np.isfinite(back.intervals[back.support]).all()
    assert len(back.table()) == 2
    assert back.summary()


if __name__ == "__main__":
    SNAPSHOT.write_text(surface(), encoding="utf-8")
