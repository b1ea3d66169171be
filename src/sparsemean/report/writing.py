"""One HTML file: the template, the style, the scripts and the data put together."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsemean.errors import InputError, require
from sparsemean.files import check_writable, replacing
from sparsemean.report import data, promises, settings, shown
from sparsemean.report.labels import Labels, labels_of

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate

HERE = Path(__file__).parent / "page"
ENDINGS = (".html", ".htm")
SCRIPTS = (
    "base", "state", "numbers", "axes", "plot", "volcano", "path", "forest", "robustness", "rows", "table",
    "download", "start",
)  # fmt: skip
"""In this order they are one script."""


def check_target(path: Path, argument: str = "path") -> None:
    """Refuse a page that cannot be written, before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(argument, f"end in {' or '.join(ENDINGS)}", repr(path.name))
    check_writable(path, argument)
    _jinja()


def write(
    estimate: Estimate,
    path: str | Path,
    *,
    title: str | None = None,
    row_names: Sequence[Any] | None = None,
    group_names: Sequence[Any] | None = None,
) -> None:
    """Write the page to ``path``; what was there stays if this fails."""
    target = Path(path)
    check_target(target)
    labels = labels_of(estimate, title=title, row_names=row_names, group_names=group_names)
    page = render(estimate, labels, file_name=target.stem)
    with replacing(target) as temporary:
        temporary.write_bytes(page.encode("utf-8", errors="replace"))  # half of a surrogate pair becomes "?"


def render(estimate: Estimate, labels: Labels, *, file_name: str = "report") -> str:
    """Return the page as text."""
    jinja2 = _jinja()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    content = data.content(estimate, labels)
    content["file"] = re.sub(r"[^\w.-]+", "-", file_name).strip("-.") or "report"
    made = environment.get_template("page.html").render(
        labels=labels,
        content=content,
        first=shown.first_rows(content),
        facts=settings.facts(estimate, labels),
        summary=estimate.summary(),
        promises=promises.of_fit(estimate),
        settings=settings.of_fit(estimate),
        versions=estimate.status.versions,
        uncertified=shown.uncertified_rows(content),
        now=datetime.now(UTC),
        style=_asset("style.css") + _asset("print.css"),
        script=_script(),
        data=embed(content),
    )
    return str(made)


def embed(content: Any) -> str:
    r"""Return JSON that may stand inside a script element: no ``<``, ``>`` or ``&`` is left in it.

    Examples
    --------
    >>> print(embed(["</script>", "a & b"]))
    ["\u003c/script\u003e","a \u0026 b"]
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _script() -> str:
    """Return the scripts as one function, whose names nobody else can see."""
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def _asset(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _jinja() -> Any:
    return require("jinja2", extra="report", purpose="writing a report")
