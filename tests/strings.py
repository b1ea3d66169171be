"""Every sentence that users read, word for word: ``strings.txt``, and the words that must not come back.

``python tests/strings.py`` writes that file anew: read what has changed as a stranger. Sentences are text of at least
three words in the rooms that speak to users, but for what only programmers read: docstrings of private names, comments.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "sparsemean"
GOLDEN = Path(__file__).with_name("strings.txt")
SILENT = ("_kernels", "studies", "_cli/benchmarks", "simulate", "datasets", "baselines")
"""Rooms that say nothing of a fit."""
OWN = ("experiments",)
"""Rooms with words of their own, in which a user is bad and a metric is up."""
BAD_WORDS = {
    r"none looks it": "None looks suspicious",
    r"\bl(ie|ies|ay|ying) off\b": "deviate",
    r"\ballow(s|ed|ing)? for\b": "assume, or tolerate",
    r"\bsurviv(e|ed|ing|able)\b": "hold, or be selected up to",
    r"\b(it|they|each|feature|that|them) survives\b": "“Survives” is a column only",
    r"\b(speaks?|spoke|speaking) against\b": "contradict",
    r"\bwhichever\b": "say which",
    r"\bso many\b": "say how many",
    r"\bwhat becomes of\b": "say what happens",
    r"\ba row a client\b": "a row for each client",
    r"\blooks? bad\b": "look suspicious",
    r"\bwho they are\b": "name them",
    r"\bnot even at 0\b": "not significant, even with no bad rows",
    r"\blarge throughout, as\b": "unusual in most features",
    r"\b(of|they|these) lie\b.*\btogether\b": "deviate in the same direction",
    r"\bin this very fit\b": "in this fit",
}
"""Words of an idiom of our own, and what the reader's field says."""


def texts_of(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield the text constants of a syntax tree, formatted ones with … in the place of what is filled in."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node) if part is not node}
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield node, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node, node.value


def docstrings(tree: ast.AST) -> dict[int, bool]:
    """Return the docstrings and the strings below constants by their ids, and whether users read them."""
    found = {}
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for above, below in zip([None, *body], body, strict=False) if isinstance(body, list) else ():
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                public = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
                found[id(below.value)] = public and above is None
    return found


def is_sentence(text: str) -> bool:
    """Whether a text has three words and more."""
    return len(re.findall(r"[A-Za-z’']{2,}", text)) > 2


def of_templates() -> Iterator[tuple[str, str]]:
    """Yield what templates say: text between tags, and literals of scripts."""
    for path in sorted((SOURCE / "result/_report/template").iterdir()):
        code = path.read_text(encoding="utf-8")
        if path.suffix == ".html":
            plain = re.sub(r"{#.*?#}|{%.*?%}|{{.*?}}", "…", code, flags=re.S)
            said = [re.sub(r"\s+", " ", part) for part in re.split(r"<[^>]*>", plain)]
            said += re.findall(r'(?:title|aria-label|label)="([^"]*)"', plain)
        elif path.suffix == ".js":
            code = re.sub(r"^\s*//.*$", "", code, flags=re.M)
            said = [re.sub(r"\$\{[^}]*\}", "…", text[1:-1]) for text in re.findall(r'`[^`]*`|"[^"\n]*"', code)]
        else:
            continue
        yield from ((path.name, text.strip()) for text in said if is_sentence(text))


def sentences() -> Iterator[tuple[str, str, bool]]:
    """Yield where each text stands, what it says, and whether it is a docstring of a public name."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(SILENT):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented, spoken = docstrings(tree), name.startswith(("_fit", "result", "plots", "_cli", "tl", "experiments"))
        public = not any(part.startswith("_") and part != "__init__.py" for part in name.split("/"))
        for node, text in texts_of(tree):
            if not is_sentence(text):
                continue
            if id(node) not in documented:
                if spoken or name.startswith(("estimators", "_data", "_stats", "_util", "_evidence", "federated")):
                    yield name, text, False
            elif documented[id(node)] and public:
                yield name, text, True
    yield from ((name, text, False) for name, text in of_templates())


def everything() -> str:
    """Return the golden file: a heading for each file, a line for each sentence that is no docstring."""
    by_file: dict[str, list[str]] = {}
    for name, text, documented in sentences():
        if not documented:
            by_file.setdefault(name, []).append(re.sub(r"\s+", " ", text).strip())
    return "\n".join(f"# {name}\n" + "".join(f"{text}\n" for text in said) for name, said in by_file.items())


def idioms() -> list[str]:
    """Return where words stand that must not come back, and what to say."""
    found = []
    for name, text, _ in sentences():
        if name.startswith(OWN):
            continue
        plain = re.sub(r"\s+", " ", text)
        for bad, better in BAD_WORDS.items():
            if match := re.search(bad, plain, re.I):
                around = plain[max(0, match.start() - 60) : match.end() + 60]
                found.append(f"{name}: “{match.group()}” in “{around}”: {better}")
    return found


if __name__ == "__main__":
    GOLDEN.write_text(everything(), encoding="utf-8")
    sys.stdout.write("\n".join(idioms()) + "\n")
