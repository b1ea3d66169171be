"""What the house measures: lines of code, files, fields of records, roads, and what is decided in several places.

``python tests/house.py`` prints all of it beside ``tests/limits.json``, which no measure may exceed. A limit only
falls: `test_house` walks its history.
"""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sparsemean"
LIMITS = ROOT / "tests" / "limits.json"
APART = {"studies", "benchmarks", "baselines", "simulate", "datasets"}
"""What is not on the way from data to a result."""
FILES = {
    ".".join(("sparsemean", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip
EVIDENCE = {
    "Evidence", "OfRows", "SlackEvidence", "SignedRankEvidence", "RankEvidence", "RankTest", "MeanContrast",
    "GroupTest", "SignTestNull", "InfluenceNull", "TrendEvidence",
}  # fmt: skip
"""Kinds of evidence, and what they are made of."""
GRANTED = {"lines of code": 3200, "lines of code, core": 3262, "files": 12, "files, core": 12}
"""What features that came after the house was merged into one may add to these limits, in all."""
ALTERNATIVES = {"two-sided", "greater", "less"}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def code_lines(path: Path) -> int:
    """Count the lines that hold code: no comments, blank lines or bare strings."""
    text, lines = path.read_text(encoding="utf-8"), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def core() -> list[Path]:
    return [path for path in FILES.values() if not APART & set(path.relative_to(SOURCE).parts)]


def records() -> Iterator[tuple[str, int]]:
    """Yield the classes whose annotated names are stored fields, data classes and named tuples, and how many."""
    for module, path in FILES.items():
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.ClassDef):
                continue
            named = ast.dump(ast.Module([ast.Expr(each) for each in (*node.decorator_list, *node.bases)], []))
            if "dataclass" in named or "NamedTuple" in named:
                yield f"{module}.{node.name}", sum(isinstance(part, ast.AnnAssign) for part in node.body)


def told_apart(path: Path) -> int:
    """Count the places of a file that ask of what kind evidence is which the file does not define."""
    own = {node.name for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)}
    found = 0
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            found += bool((EVIDENCE - own) & {getattr(name, "id", "") for name in ast.walk(node.args[1])})
    return found


def decodes_a_side(path: Path) -> bool:
    """Whether a file says what an alternative means: compares with one, or looks something up by it."""
    for node in ast.walk(parsed(path)):
        inside = node.comparators if isinstance(node, ast.Compare) else node.keys if isinstance(node, ast.Dict) else []
        if ALTERNATIVES & {part.value for part in inside if isinstance(part, ast.Constant)}:
            return True
    return False


def names_twice() -> list[str]:
    """Return functions and classes without an underscore that more than one file defines.

    Kernels have partners of the same name: readable ones, and those that need no compiler.
    """
    defined = Counter(
        node.name
        for path in core()
        if "_kernels" not in path.parts
        for node in parsed(path).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
    )
    return sorted(name for name, number in defined.items() if number > 1)


def measures() -> dict[str, int]:
    """Return everything that has a limit but for the roads, which take fits."""
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in FILES.values()]
    any_uses = sum(
        isinstance(node, ast.Name) and node.id == "Any" for path in FILES.values() for node in ast.walk(parsed(path))
    )
    return {
        "lines of code": sum(map(code_lines, FILES.values())),
        "lines of code, core": sum(map(code_lines, core())),
        "files": len(FILES),
        "files, core": len(core()),
        "entries on top": len([entry for entry in SOURCE.iterdir() if entry.name != "__pycache__"]),
        "longest file": max(lengths),
        "files of 40 lines or fewer": sum(length <= 40 for length in lengths),
        "fields of the largest record": max(number for _, number in records()),
        "kinds of evidence told apart elsewhere": sum(map(told_apart, FILES.values())),
        "files that decode a side": sum(map(decodes_a_side, FILES.values())),
        "uses of Any": any_uses,
        "public names defined twice": len(names_twice()),
    }


def roads() -> dict[str, int]:
    """Return files and functions of every road."""
    import roads as measured

    found = measured.roads()
    return {f"{name}, {what}": getattr(road, what) for name, road in found.items() for what in ("files", "functions")}


def limits() -> dict[str, int]:
    return dict(json.loads(LIMITS.read_text(encoding="utf-8")))


def allowed() -> dict[str, int]:
    """Return what measures may be: the limits, and what was granted."""
    return {name: limit + GRANTED.get(name, 0) for name, limit in limits().items()}


def history() -> list[dict[str, int]]:
    """Return the limits of every commit that changed them, oldest first, and those that stand there now."""
    name = str(LIMITS.relative_to(ROOT))
    asked = ["git", "-C", str(ROOT)]
    found = subprocess.run(
        [*asked, "log", "--first-parent", "--reverse", "--format=%H", "--", name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    texts = [
        subprocess.run([*asked, "show", f"{commit}:{name}"], capture_output=True, text=True, check=True).stdout
        for commit in found.stdout.split()
    ]
    return [*map(json.loads, texts), limits()]


if __name__ == "__main__":
    for name, value in {**measures(), **roads()}.items():
        sys.stdout.write(f"{name:42}{value:7}{allowed().get(name, ''):>8}\n")
    largest = sorted(records(), key=lambda pair: -pair[1])[:12]
    sys.stdout.write(f"records: {', '.join(f'{name} {number}' for name, number in largest)}\n")
    sys.stdout.write(f"defined twice: {', '.join(names_twice())}\n")
