"""What the site needs beyond Sphinx: where examples write, their order, links that work on a Git host as well."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList

DOCS = Path(__file__).parents[1]
PICTURES = DOCS / "gallery" / "pictures"
MADE = DOCS / "gallery" / "made"
"""What examples write: pictures that pages show, and pages that go to the site as they are."""
PROPERTIES: dict[str, list[str]] = {}
"""Docstrings of properties while Napoleon looks at them."""
ORDER = (
    "tutorial", "scorecard", "alzheimer", "cells", "experiment", "expression", "clients", "how_it_works", "quickstart",
    "two_groups", "plots",
)  # fmt: skip


def in_order(filename: str) -> tuple[int, str]:
    """Return what the gallery sorts by: the tutorial, the worked jobs, then the rest by name."""
    name = Path(filename).stem
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def arguments(_gallery_conf: dict[str, Any], script: dict[str, Any]) -> list[str]:
    """Return the arguments an example is run with, so that it writes nothing beside itself."""
    targets = {
        "path_plot": PICTURES / "path.png",
        "how_it_works": PICTURES,
        "plots": PICTURES / "plots",
        "tutorial": MADE,
    }
    target = targets.get(Path(script["src_file"]).stem)
    if target is None:
        return []
    (target.parent if target.suffix else target).mkdir(parents=True, exist_ok=True)
    return [str(target)]


def read(_app: Any, name: str, source: list[str]) -> None:
    """Let links to examples lead to their executed pages, and show the pictures that this build made."""
    up = "../" * name.count("/")
    text = re.sub(rf"\]\({up}\.\./examples/(\w+)\.py\)", rf"]({up}gallery/\1.rst)", source[0])
    text = re.sub(r"\]\(((?:pictures/)?(?:how-\w+|path)\.png)\)", _picture, text)
    text = re.sub(r"\n\n( *```)$", r"\n\1", text, flags=re.MULTILINE)  # doctests end with an empty line
    source[0] = re.sub(r"^\*Also: ([^*]+)\.\*$", _entries, text, flags=re.MULTILINE)


def _entries(found: re.Match[str]) -> str:
    """Put other words for a thing into the index, where a search finds them before it looks into the text."""
    words = ", ".join(f"! {word}" for word in found[1].split(", "))
    return f"```{{index}} {words}\n```\n\n{found[0]}"


def _picture(found: re.Match[str]) -> str:
    return f"](gallery/pictures/{Path(found[1]).name})"


def keep_property(_app: Any, what: str, name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Remember the docstring of a property: Napoleon takes what stands before its first colon for a type."""
    if what in ("property", "attribute"):
        PROPERTIES[name] = list(lines)


def restore_property(_app: Any, _what: str, name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Undo what Napoleon did to the docstring of a property."""
    if name in PROPERTIES:
        lines[:] = PROPERTIES.pop(name)


def escape_bars(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Keep absolute values such as |β| in docstrings from being read as substitutions."""
    example = False
    for at, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            parts = re.split("(``.*?``)", line)
            lines[at] = "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


class Catalogue(Directive):
    """Document all functions that a module finds by name, those of some of its files, or list them in a table.

    ``.. catalogue:: sparsemean.baselines names filters descent``.
    """

    required_arguments, optional_arguments = 2, 9
    option_spec: ClassVar = {"table": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the descriptions, or a table of names and first lines."""
        from importlib import import_module

        home, finder, *families = self.arguments
        room = import_module(home)
        names = [name for name in getattr(room, finder)() if not families or _family(room.get(name)) in families]
        if "table" in self.options:
            lines = [".. autosummary::", "   :nosignatures:", "", *(f"   ~{home}.{name}" for name in names)]
        else:
            lines = [line for name in names for line in (f".. autofunction:: {home}.{name}", "")]
        parent = nodes.container()
        self.state.nested_parse(StringList(lines, source=home), self.content_offset, parent)
        return parent.children


def _family(method: Any) -> str:
    """Return the name of the file in which a method is."""
    return str(method.__module__).rpartition(".")[2]


class CommandHelp(Directive):
    """Show what a command of ``sparsemean`` says of itself: ``.. command-help:: fit``."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the text that ``--help`` prints."""
        from click.testing import CliRunner

        from sparsemean._cli import commands

        said = CliRunner().invoke(commands, [*self.arguments, "--help"], prog_name="sparsemean", terminal_width=88)
        if said.exit_code:
            raise self.error(f"sparsemean {' '.join(self.arguments)} --help failed: {said.output}")
        return [nodes.literal_block(said.output, said.output, language="text")]


def setup(app: Any) -> dict[str, Any]:
    """Add all that to Sphinx."""
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", keep_property, priority=400)  # Napoleon has 500
    app.connect("autodoc-process-docstring", restore_property, priority=600)
    app.connect("autodoc-process-docstring", escape_bars, priority=700)
    app.add_directive("catalogue", Catalogue)
    app.add_directive("command-help", CommandHelp)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
