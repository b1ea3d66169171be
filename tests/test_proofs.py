"""The table of docs/guarantees.md that leads from data to decisions has no gap, and nothing in it that is not there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import house

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
ROOMS = {
    "_stats": ("nulls", "signed_ranks", "group_ranks", "maxt"),
    "_kernels": ("rank_tails", "rank_transforms", "tied_tails"),
    "_evidence": ("ranks", "worst_case", "common_values", "signed_ranks", "means", "trend"),
}
PARTS = {
    "_kernels/rank_tails.py": {"log_tail", "log_normal"},
}
"""Parts of a step that has a row: by which tails are put together, or that nothing is selected by."""
MADE = re.compile(
    r"log_\w*(tails?|p|bounds?|normal|transformed)|\w*slack\w*|most_(bad|moved)|\w*_bound|bound|rare_\w+|step_down|fisher"
    r"|critical_sums|larger_side|label_is_asked|by_pairs|least_evidence|SignTestNull|WorstCaseNull|CommonValues|TrendEvidence|Sizes|slope"
)
"""Names of what makes, or bounds, a p-value."""


def rows() -> list[tuple[str, str, str]]:
    table = PAGE[PAGE.index("### From data to decision, step by step") :]
    found = re.findall(r"^\| [^|]+ \| `([^:`|]+): (\w+)` \| ([^|]+) \|$", table, flags=re.M)
    return [(file, name, why) for file, name, why in found]


def defined(file: str) -> set[str]:
    tree = ast.parse((house.SOURCE / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_everything_that_makes_a_p_value_has_a_reason() -> None:
    listed = {(file, name) for file, name, _ in rows()}
    files = [f"{room}/{name}.py" for room, names in ROOMS.items() for name in names]
    made = {(file, name) for file in files for name in defined(file) - PARTS.get(file, set()) if MADE.fullmatch(name)}
    assert len(made) >= 20
    assert made - listed == set()


def test_every_reason_is_there() -> None:
    anchors = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", PAGE, flags=re.M)
    }
    assert len(rows()) >= 25
    for file, name, why in rows():
        assert name in defined(file), (file, name)
        for anchor in re.findall(r"\(#([^)]+)\)", why):
            assert anchor in anchors, anchor
        for test in re.findall(r"`(tests/[^`]+)`", why):
            assert (ROOT / test).exists(), test
        assert re.match(r"(theorem|exhaustion|the null restated|the inverse|a sum of positive|of proved tails)", why), (
            why
        )
