"""Make figures one after the other; after each, what is known of all of them is on one page."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

import pandas as pd

from sparsemean._util.checks import integer
from sparsemean._util.files import replacing
from sparsemean.errors import require
from sparsemean.studies import figures, published
from sparsemean.studies.engine import Store, alone
from sparsemean.studies.figures import Options, Outcome, Record, TableRow, collect, made_with, write_table
from sparsemean.studies.figures.sweeps import trials_folder

FEW = 5
"""Trials below which a standard deviation says little."""


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """Where the page is, and how the figures on it agree with the published points."""

    page: Path
    summary: published.Summary
    left_out: list[str]


def write_page(options: Options) -> Report:
    """Write ``index.html`` and ``agreement.csv`` from every figure that was made with these options."""
    records, left_out = collect(options, in_order())
    rows = _frame([row for record in records for row in record.agreement or []], published.COLUMNS)
    write_table(rows[list(published.COLUMNS)], options.out / "agreement.csv")
    report = Report(options.out / "index.html", published.summarise(rows), left_out)
    with replacing(report.page) as temporary:
        temporary.write_text(render(records, report.summary, options, left_out), encoding="utf-8")
    return report


def render(records: Sequence[Record], summary: published.Summary, options: Options, left_out: Sequence[str]) -> str:
    """Return the page, which needs nothing but itself."""
    style = files("sparsemean.studies").joinpath("page.css").read_text(encoding="utf-8")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>The paper, reproduced</title><style>{style}</style></head><body><main>",
        "<h1>The paper, reproduced</h1>",
        "<p>Figures of <cite>Sparse Mean Estimation in Adversarial Settings via Incremental Learning</cite> "
        "(Ma, Chen, He, Fattahi, Hu 2023), run again. Dashed: the published points. Solid: run here.</p>",
        _paragraph(_made(options), "faint"),
        _list(left_out),
        _contents(records),
        _agreement(records, summary, few=options.quick or (options.trials or FEW) < FEW),
        _better([row for record in records for row in record.better]),
        *(_figure(record, options.out) for record in records),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part)


def _made(options: Options) -> str:
    told = made_with(options)
    trials = told.pop("trials") or "the published number of"
    kind = "A quick look at a coarser grid, not a reproduction. " if told.pop("quick") else ""
    seed = told.pop("seed")
    trials = 2 if kind and options.trials is None else trials
    return f"{kind}Seed {seed}, {trials} trials a point; " + ", ".join(f"{k} {v}" for k, v in told.items()) + "."


def _contents(records: Iterable[Record]) -> str:
    links = "".join(f'<a href="#{escape(r.name)}">{escape(r.name)}</a>' for r in records)
    return f"<nav>{links}</nav>" if links else "<p>No figure has been made yet.</p>"


def _agreement(records: Sequence[Record], summary: published.Summary, *, few: bool) -> str:
    if not summary.points:
        return ""
    each = [(one.name, published.summarise(_frame(one.agreement))) for one in records if one.agreement]
    counts = [(name, one.points, one.within, f"{one.share:.1%}") for name, one in each]
    caution = " So few trials hardly tell their own spread: many a |z| above 3 is chance." if few else ""
    told = (
        f"{summary.sentence()}. z is the difference of the two means over the root of the sum of their squared "
        "standard errors. Where neither side varies, equal means (to a millionth, what rounding makes) have z = 0. "
        f"agreement.csv has every point.{caution}"
    )
    shares = _table(pd.DataFrame(counts, columns=["figure", "points", "|z| ≤ 3", "share"]))
    outside = f"<summary>The {len(summary.outside)} points with |z| &gt; 3</summary>{_table(summary.outside)}"
    heading = "<h2>Agreement with the published points</h2>"
    return f"{heading}\n{_paragraph(told)}\n{shares}\n<details>{outside}</details>"


def _better(rows: list[TableRow]) -> str:
    if not rows:
        return ""
    table = _frame(rows)
    of_figure = published.better_by_figure(table)
    shown = of_figure.assign(below=of_figure["share"].map("{:.0%}".format)).drop(columns="share")
    below = int(table["below"].sum())
    told = (
        f"At {below} of {len(table)} published ℓ₂ points ({below / len(table):.1%}) the median error of our default is "
        "below the smallest published median of a method that does not see the truth. Ratios are ours over that "
        "smallest one: below 1 is better."
    )
    ratios = _table(shown.rename(columns={"ratio": "middle ratio", "worst": "largest ratio"}))
    return f"<h2>What is better, and by how much</h2>\n{_paragraph(told)}\n{ratios}"


def _figure(record: Record, out: Path) -> str:
    parts = [f'<section id="{escape(record.name)}"><h2>{escape(record.name)}: {escape(record.title)}</h2>']
    parts += [_image(out / name, record.title) for name in record.images]
    if record.agreement:
        parts.append(_paragraph(f"{published.summarise(_frame(record.agreement, published.COLUMNS)).sentence()}."))
    parts += [_list(record.notes), _table(_frame(record.table)) if record.table else ""]
    settings = escape(json.dumps(record.settings, indent=1, ensure_ascii=False))
    return "\n".join([*parts, f"<details><summary>Settings</summary><pre>{settings}</pre></details></section>"])


def _image(path: Path, title: str) -> str:
    if not path.exists():
        return _paragraph(f"{path.name} is no longer there.", "faint")
    kind = "svg+xml" if path.suffix == ".svg" else path.suffix.removeprefix(".")
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<figure><img alt="{escape(title)}" src="data:image/{kind};base64,{data}"></figure>'


def _paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def _list(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<ul>{items}</ul>" if items else ""


def _table(frame: pd.DataFrame) -> str:
    table = frame.to_html(index=False, border=0, na_rep="–", float_format="{:.4g}".format, justify="unset")
    return f'<div class="wide">{table}</div>'


def _frame(rows: list[TableRow], columns: Sequence[str] | None = None) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=None if columns is None else list(columns))
    return frame.astype({"z": float}) if "z" in frame else frame


# Make figures one after the other; after each, what is known of all of them is on one page.


def reproduce(
    names: Sequence[str], options: Options, *, made: Callable[[Outcome, float], None] | None = None
) -> Report:
    """Make the figures called ``names``, all where none is named, and the page.

    Parameters
    ----------
    names
        Names of `figures.available`.
    options
        How they are made, and where they go.
    made
        Is told what became of a figure when it is done, and the seconds that it took.
    """
    chosen = [figures.find(name) for name in (list(dict.fromkeys(names)) or in_order())]
    if options.trials is not None:
        integer(options.trials, argument="trials", least=1, rule="be a positive integer")
    integer(options.seed, argument="seed", least=0, rule="be an integer of at least 0")
    require("matplotlib", extra="plots", purpose="drawing a figure").use("agg")  # refused at once, and without a screen
    Store(trials_folder(options.out), options.seed)  # refuses a folder that cannot be written before anything is run
    with alone(options.out):
        report = write_page(options)
        for module in chosen:
            began = time.perf_counter()
            outcome = module.make(options)
            Record.of(outcome, options).write(options.out)
            report = write_page(options)
            if made is not None:
                made(outcome, time.perf_counter() - began)
    return report


def in_order() -> list[str]:
    """List the figures as the paper has them: those of the text, then the appendix, then what is measured besides."""
    return sorted(figures.available(), key=lambda name: (not name.startswith("fig"), name))
