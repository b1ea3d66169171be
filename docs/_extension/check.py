"""Run the Python blocks of the pages, and look through the built site for what it must not have.

Usage: python check.py blocks PAGES… | site FOLDER
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import sparsemean

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
FENCED = re.compile(r"^( *)```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LOADS = {("script", "src"), ("link", "href"), ("img", "src"), ("img", "srcset"), ("iframe", "src"), ("source", "src")}
SEARCHES = {
    **dict.fromkeys(("bots", "conversion", "CUPED"), "experiments"),
    **dict.fromkeys(("donor", "mislabelled"), "single-cell"),
    **dict.fromkeys(("batch", "Mann-Whitney", "lift"), "groups"),
    **dict.fromkeys(("t-test", "statsmodels", "limma", "DESeq2"), "differs"),
    **dict.fromkeys(
        ("A/B", "outlier", "heavy tails", "p-value", "pseudobulk", "Cliff's delta", "Bonferroni"), "glossary"
    ),
    **{"patient": "gallery/tutorial", "FDR": "which", "volcano": "api/plots", "sample size": "api/plan"},
}
"""What people type into the search, in the words of their field, and a page that they should then be offered."""
OUTSIDE = re.compile(r"^\s*(https?:)?//", re.IGNORECASE)


def run_blocks(pages: list[Path]) -> list[str]:
    """Run every fenced Python block, a page at a time in a folder of its own; return what went wrong."""
    faults, began = [], Path.cwd()
    for page in (page.resolve() for page in pages):
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                faults += _run(page.name, text)
            finally:
                os.chdir(began)
    return faults


def _run(name: str, text: str) -> list[str]:
    """Run the blocks of one page: those with prompts are compared with their output, others must not fail."""
    example = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    said = io.StringIO()
    failed = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=said.write).failed
    faults = [said.getvalue()] if failed else []
    plain = [block for _, block in FENCED.findall(text) if ">>>" not in block]
    for block in plain:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block, name, "exec"), {"__name__": "__main__"})
    print(f"{name}: {len(example.examples)} prompts and {len(plain)} blocks run")
    return faults


class _Loaded(HTMLParser):
    """Collects what a page loads, and the anchors of the objects it documents."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif value and (tag, name) in LOADS and OUTSIDE.match(value):
                self.outside.append(f"<{tag} {name}={value}>")


def look_through(site: Path) -> list[str]:
    """Return what pages and styles load from elsewhere, public names without a page, and what readers would miss."""
    faults, ids = [], set()
    for page in sorted(site.rglob("*.html")):
        seen = _Loaded()
        seen.feed(page.read_text(encoding="utf-8"))
        faults += [f"{page.relative_to(site)} loads {what}" for what in seen.outside]
        ids |= seen.ids if page.parent.name == "api" else set()
    for style in sorted(site.rglob("*.css")):
        text = re.sub(r"/\*.*?\*/", "", style.read_text(encoding="utf-8"), flags=re.DOTALL)
        found = re.findall(r"(?:url\(|@import\s+)\s*['\"]?((?:https?:)?//[^'\")]+)", text)
        faults += [f"{style.relative_to(site)} loads {what}" for what in found]
    faults += [f"no page of docs/api describes {name}" for name in _public() if name not in ids]
    reference = "".join(page.read_text(encoding="utf-8") for page in site.glob("api/sparse-mean*.html"))
    faults += [f"its page garbles {name}" for name in _fitted() if f"<strong>{name}</strong>" not in reference]
    faults += _unsought(site) + _unillustrated(site)
    print(f"{len(list(site.rglob('*.html')))} pages looked through")
    return faults


def _unsought(site: Path) -> list[str]:
    """Return the searches that miss the page that answers them."""
    index = json.loads((site / "searchindex.js").read_text(encoding="utf-8").partition("(")[2].rstrip(" ;\n)"))
    missed = {words: page for words, page in SEARCHES.items() if page not in _found(index, words)}
    return [f"a search for {words} misses {page}" for words, page in missed.items()]


def _unillustrated(site: Path) -> list[str]:
    """Return the examples whose card has the picture of another: they draw nothing themselves."""
    pictures = {card.name: card.read_bytes() for card in site.glob("_images/sphx_glr_*_thumb.png")}
    times = Counter(pictures.values())
    return [f"{name} is not of its own example" for name, picture in pictures.items() if times[picture] > 1]


def _found(index: dict[str, Any], words: str) -> set[str]:
    """Return the pages that Sphinx's search offers for words: by text, by title or entry of the index, by object."""
    from sphinx.search.en import SearchEnglish

    language, asked = SearchEnglish({}), words.lower()
    found = []
    for word in {language.stem(word) for word in re.findall(r"\w+", asked) if word not in language.stopwords}:
        places = [index[where].get(word, []) for where in ("terms", "titleterms")]
        found.append({page for place in places for page in (place if isinstance(place, list) else [place])})
    pages = set.intersection(*found) if found else set()
    for text, places in [*index["alltitles"].items(), *index["indexentries"].items()]:
        if asked in text.lower() and 2 * len(asked) >= len(text):
            pages |= {place[0] for place in places}
    pages |= {thing[0] for things in index["objects"].values() for thing in things if asked in thing[-1].lower()}
    return {index["docnames"][page] for page in pages}


def _public(room: ModuleType = sparsemean) -> Iterator[str]:
    """Yield every public name: those of a room, of the rooms in it, and what it finds by name, as baselines are."""
    found = getattr(room, "names", getattr(room, "available", list))()
    for name in {*room.__all__, *(found if isinstance(found, list) else ())}:
        thing = getattr(room, name)
        if isinstance(thing, ModuleType):
            yield from _public(thing)
        else:
            yield f"{room.__name__}.{name}"


def _fitted() -> list[str]:
    """Return the attributes of fitted estimators, whose trailing underscore must not be lost."""
    from sparsemean import SparseMean, SparseMeanDifference

    return [
        name
        for kind in (SparseMean, SparseMeanDifference)
        for name in re.findall(r"^    (\w+_) : ", str(kind.__doc__), re.M)
    ]


def main(what: str, *paths: str) -> None:
    """Do one of the two and exit with 1 where something is wrong."""
    faults = run_blocks([Path(path) for path in paths]) if what == "blocks" else look_through(Path(paths[0]))
    sys.exit("\n".join(faults) if faults else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
