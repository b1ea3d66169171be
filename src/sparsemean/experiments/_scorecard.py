"""The scorecard of an experiment: every metric in every arm, the users left out, and all of it in words and as a page.

Whatever shows a number shows that of one table by `cells`: terminal, notebook, page and Markdown cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sparsemean import __version__
from sparsemean._util.checks import list_names, pluralize
from sparsemean._util.files import check_writable, replacing, write_csv
from sparsemean.errors import InputError, visible
from sparsemean.result._report import page
from sparsemean.result._report.summary import TextTable, aligned, as_html, wrap
from sparsemean.result._report.wording import percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Line: TypeAlias = Mapping[Hashable, Any]
"""A row of a table."""
FORMAT = "sparsemean.scorecard/1"
SHOWN = 20
"""Metrics that are printed for each arm."""
NAMED = 5
"""Metrics that a sentence names."""
DIFFERENCE = "†"
MOST_TIMES = 50
"""Times as many users: what takes more is not told."""
ENDINGS = (".html", ".htm", ".md", ".json", ".csv")
LEGEND = (
    "Verdicts compare means without suspected bots, and all metrics and arms share the error; each interval stands for "
    "itself. Certified: ranks of all users show the same, even if that share of each arm were bots, whatever they did."
)
STAR = "* not certified: it rests on the suspected bots being bots, and on means being near normal."
IN_UNITS = f"{DIFFERENCE} the difference itself: a lift needs means above 0."


@dataclass(frozen=True, eq=False, repr=False)
class Scorecard:
    """Every metric of an experiment in every arm: means, lift, interval, verdict, certificate; and the suspected bots.

    `experiments.analyze` makes it. ``print`` shows it in 80 columns, a notebook as a table; `write` makes a page,
    Markdown, JSON or CSV of the same numbers.

    Attributes
    ----------
    headline : tuple of str
        The answer, what it assumes, what else would hold and who is left out.
    table : DataFrame
        A row for each metric and arm, the most important first; see `schema` for its columns.
    clumps : DataFrame
        A row for each clump of suspected bots: ``clump`` (its number, for ``keep``), ``users``, how many of each arm,
        ``metrics``, what they ``do`` and what the ``others`` do (medians), ``kept`` and the first ``names``.
    suspects : DataFrame
        A row for each of these users, and for each who is unusual but was kept: ``user``, ``arm``, ``clump``, ``kind``.
    segments, days : DataFrame or None
        Lifts within segments, all in one family, and by day.
    notes : tuple of str
        What to know besides.
    arms : dict
        Users of each arm, the control first.
    level : float
        Error rate of the verdicts.
    """

    headline: tuple[str, ...]
    table: pd.DataFrame
    clumps: pd.DataFrame
    suspects: pd.DataFrame
    segments: pd.DataFrame | None
    days: pd.DataFrame | None
    notes: tuple[str, ...]
    arms: dict[str, int]
    level: float

    def __repr__(self) -> str:
        return f"<Scorecard: {pluralize(len(self.table), 'line')}, {pluralize(len(self.suspects), 'suspect')}>"

    def __str__(self) -> str:
        return "\n".join((*map(wrap, self.headline), *self._lines(), "", *map(wrap, self._below())))

    def _repr_html_(self) -> str:
        said = (f"<p><strong>{escape(visible(line))}</strong></p>" for line in self.headline)
        tables = (f"<p>{escape(title)}</p>{as_html(shown)}" for title, _, shown in self._tables())
        below = "<br>".join(escape(visible(line)) for line in self._below())
        return f"<div>{''.join(said)}{''.join(tables)}<p>{below}</p></div>"

    @property
    def control(self) -> str:
        """The arm that others are compared with."""
        return next(iter(self.arms))

    def _tables(self) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
        """Return what is shown of each arm, of segments and of days: title, lines, and these lines as text."""
        parts = [(f"{arm} against {self.control}", own) for arm, own in self.table.groupby("arm", sort=False)]
        more = (("By segment", self.segments), ("By day", self.days))
        parts += [(title, own) for title, own in more if own is not None and len(own)]
        return [(visible(title), own, self._as_text(own)) for title, own in parts]

    def _as_text(self, own: pd.DataFrame) -> pd.DataFrame:
        """Return lines of a table as terminal, notebook, page and Markdown show them."""
        import pandas as pd

        first = [name for name in ("segment", "day", "arm", "metric") if name in own]
        first = [name for name in first if name != "arm" or len(first) > 2]
        lines = []
        for row in own.to_dict("records"):
            no_lift = np.isnan(row["lift_low"])  # which takes means above 0
            kind, form = ("difference", number) if no_lift else ("lift", per_cent)
            value, low, high = (form(row[f"{kind}{end}"]) for end in ("", "_low", "_high"))
            shown = {name: visible(row[name]) for name in first}
            shown |= {name: number(row[name]) for name in ("control", "treatment")}
            shown["lift, %"] = value + (DIFFERENCE if no_lift and value != "–" else "")
            shown[f"{100 * (1 - self.level):g} % interval"] = "–" if low == high == "–" else f"{low} … {high}"
            shown["verdict"] = row["verdict"]
            if "certified" in row:
                word, holds = row["certified"], f"{100 * row['survives']:.2g} % bots"
                certified = holds if word == row["verdict"] else f"{word}, {holds}"
                shown["certified to"] = certified if word else "–"
            lines.append(shown)
        arms = {"treatment": visible(own["arm"].iloc[0])} if own["arm"].nunique() == 1 else {}
        return pd.DataFrame(lines).rename(columns={"control": visible(self.control), **arms})

    def _lines(self) -> list[str]:
        out: list[str] = []
        for title, own, shown in self._tables():
            several = len(self.arms) > 2 or shown.columns[0] != "metric"
            rows = list(shown.head(SHOWN).itertuples(index=False, name=None))
            text = aligned(TextTable(tuple(shown.columns), rows))
            out += ["", *([title] if several else []), *(line.rstrip() for line in text)]
            out += [f"… and {len(own) - SHOWN:,} more in table"] if len(own) > SHOWN else []
        return out

    def _below(self) -> list[str]:
        """Return what the words of the table mean, and the notes."""
        stars = [STAR] if self.table["verdict"].str.endswith("*").any() else []
        units = [IN_UNITS] if self.table["lift_low"].isna().any() else []
        return [LEGEND, *stars, *units, *(f"Note: {note}." for note in self.notes)]

    def to_markdown(self) -> str:
        """Return headline, tables and notes as Markdown, for chats and tickets."""

        def cell(text: object) -> str:
            return str(text).replace("|", "\\|").replace("\n", " ")

        lines = [f"**{cell(visible(self.headline[0]))}**", *(f"- {cell(visible(x))}" for x in self.headline[1:])]
        for title, _, shown in self._tables():
            heads = [f"| {' | '.join(map(cell, shown.columns))} |", "|---" + "|---:" * (shown.shape[1] - 1) + "|"]
            rows = [f"| {' | '.join(map(cell, row))} |" for row in shown.itertuples(index=False)]
            lines += ["", f"**{cell(title)}**", "", *heads, *rows]
        return "\n".join((*lines, "", *(f"_{cell(visible(line))}_  " for line in self._below()), ""))

    def to_dict(self) -> dict[str, object]:
        """Return all of it as JSON takes it, by `schema`; a number that is missing is None."""
        frames = {name: getattr(self, name) for name in ("table", "clumps", "suspects", "segments", "days")}
        lines = {name: None if frame is None else json.loads(frame.to_json(orient="records", double_precision=15))
                 for name, frame in frames.items()}  # fmt: skip
        return {
            "format": FORMAT, "version": __version__, "headline": list(self.headline), "control": self.control,
            "arms": self.arms, "level": self.level, **lines, "notes": list(self.notes),
        }  # fmt: skip

    @staticmethod
    def schema() -> dict[str, object]:
        """Return the JSON Schema of `to_dict`, which says of each column of the table what it is."""
        found: dict[str, object] = json.loads((page.HERE / "scorecard.schema.json").read_text(encoding="utf-8"))
        return found

    def to_html(self, title: str = "Scorecard") -> str:
        """Return the page: one file that asks nothing of the network.

        Parameters
        ----------
        title : str
            Its heading.
        """
        tables = [(name, shown, self._bars(own)) for name, own, shown in self._tables()]
        return page.environment().get_template("scorecard.html").render(
            card=self, title=title, now=datetime.now(UTC), version=__version__, tables=tables, below=self._below(),
            clumps=self.clumps.to_dict("records"), style=(page.HERE / "style.css").read_text(encoding="utf-8"),
            data=json.dumps(self.to_dict()).replace("<", "\\u003c"),
        )  # fmt: skip

    def _bars(self, own: pd.DataFrame) -> list[tuple[float, float, float] | None]:
        """Return where the ends and the middle of each interval of a lift are drawn, in percent of the room."""
        ends = own[["lift_low", "lift", "lift_high"]].to_numpy(dtype=np.float64)
        known = np.isfinite(ends).all(axis=1)
        room = float(np.quantile(np.abs(ends[known][:, (0, 2)]).max(axis=1), 0.8)) if known.any() else 1.0
        at = np.clip(50 + 50 * ends / (room or 1.0), 0, 100).round(1)
        return [tuple(places) if there else None for places, there in zip(at.tolist(), known, strict=True)]

    def write(self, path: str | Path, *, title: str = "Scorecard") -> None:
        """Write it to a file: .html a page, .md for chats, .json by `schema`, .csv the table alone.

        Parameters
        ----------
        path : path
            What it is written as is told by its ending.
        title : str
            The heading of a page.
        """
        target = Path(path)
        check_card(target, "path")
        with replacing(target) as temporary:
            if target.suffix == ".csv":
                write_csv(self.table, temporary)
                return
            text = self.to_markdown() if target.suffix == ".md" else self.to_html(title)
            if target.suffix == ".json":
                text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
            temporary.write_bytes(text.encode("utf-8", errors="replace"))

    def plot(self, arm: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the lifts of one arm with their intervals, those with a verdict in colour.

        Parameters
        ----------
        arm : str, optional
            Which; by default the first.
        ax : matplotlib Axes, optional
            Where to draw; new ones by default.

        Returns
        -------
        matplotlib Axes
            What was drawn on.
        """
        from sparsemean.plots import _style

        arm = list(self.arms)[1] if arm is None else arm
        own = self.table[(self.table["arm"] == arm) & self.table["lift"].notna()].head(SHOWN)[::-1]
        ax = _style.axes_for(ax, height=1.2 + 0.26 * len(own))
        moved = own["verdict"].str.startswith(("up", "down", "broken"))
        for colour, those in ((_style.REST, ~moved), (_style.CHOSEN, moved)):
            lines, at = own[those.to_numpy()], np.flatnonzero(those)
            errors = np.abs(lines[["lift_low", "lift_high"]].to_numpy().T - lines["lift"].to_numpy())
            ax.errorbar(lines["lift"], at, xerr=errors, fmt="o", ms=4, color=colour)
        _style.dashed(ax.axvline, 0)
        ax.set_yticks(range(len(own)), [_style.shown(name) for name in own["metric"]])
        ax.set_xlabel(f"lift over {_style.shown(self.control)}, %, without suspected bots")
        _style.entitle(ax, f"{arm} against {self.control}")
        return ax


def check_card(path: Path, argument: str) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(argument, f"end in {', '.join(ENDINGS)}", repr(path.name))
    if path.suffix.lower() in page.ENDINGS:
        page.check_report(path, argument)
    check_writable(path, argument)


def number(value: float) -> str:
    """Return a mean or a difference as it is shown.

    Examples
    --------
    >>> number(0.12345), number(12345.6), number(float("nan"))
    ('0.123', '12,346', '–')
    """
    return "–" if np.isnan(value) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def per_cent(value: float) -> str:
    """Return a lift, which is in percent, as it is shown."""
    return "–" if np.isnan(value) else f"{value:+.1f}" if abs(value) < 100 else f"{value:+,.0f}"


# The headline.


def of_sizes(sizes: Mapping[str, int], expected: Sequence[float], p: float) -> str:
    """Say that arms have other sizes than were planned: what is compared may differ by who is missing."""
    each = zip(sizes.items(), expected, strict=True)
    told = ", ".join(f"{arm} {n:,} (planned {want:,.0f})" for (arm, n), want in each)
    return (
        f"Sample ratio mismatch: users are not split as planned: {told}; p = {p:.1g}. Find out who is missing before "
        "you trust anything below. If other shares were planned, name them with --shares (shares=)."
    )


def users_needed(p: float, error: float) -> float:
    """Return how many times as many users show with 80 % probability, at an error, a lift that has this p now."""
    from scipy.special import ndtri

    return float(((ndtri(1 - error / 2) + ndtri(0.8)) / -ndtri(min(p, 0.999) / 2)) ** 2)


def of_arm(table: pd.DataFrame, arm: str, control: str, *, bots: int, error: float) -> list[str]:
    """Say which metrics differ in one arm, or how far the closest is from it."""
    tested = table[table["role"] != "guardrail"]
    sides = {side: tested[tested["verdict"].str.startswith(side)] for side in ("up", "down")}
    counts = [f"{len(own)} {side}" for side, own in sides.items() if len(own)]
    k, d = sum(map(len, sides.values())), len(tested)
    between = f"between {arm} and {control}"
    left_out = f", without {pluralize(bots, 'suspected bot')}" if bots else ""
    lines = []
    if k:
        differ = "differs" if k == 1 else "differ"
        lines.append(f"{k:,} of {pluralize(d, 'metric')} {differ} {between} ({', '.join(counts)}){left_out}.")
        told = {side: [_with_lift(row) for row in own.to_dict("records")] for side, own in sides.items() if len(own)}
        lines.append(" ".join(f"{side.capitalize()}: {list_names(lifts, NAMED)}." for side, lifts in told.items()))
    elif d:
        best = tested.iloc[int(tested["p_value"].argmin())]
        lines.append(
            f"No metric differs clearly {between} ({d:,} tested{left_out}; strongest: {best['metric']}, adjusted p "
            f"{best['p_adjusted']:.2g})."
        )
        if 1 < (needed := users_needed(best["p_value"], error)) < MOST_TIMES:
            n = best["n_treatment"]
            lines.append(
                f"If {best['metric']} differs by as much as it seems to, about {needed * n:,.0f} users an arm (now "
                f"{n:,}) would show it with 80 % probability."
            )
    primary = table[table["role"] == "primary"]
    if len(primary):
        columns = primary[["metric", "verdict", "lift", "lift_low", "lift_high"]]
        verdicts = [
            "{} is {} ({} %, {} … {})".format(*own[:2], *map(per_cent, own[2:]))
            for own in columns.itertuples(index=False, name=None)
        ]
        lines.insert(0, f"Primary, {arm} against {control}: {list_names(verdicts)}.")
    guards = table[table["role"] == "guardrail"]
    if len(guards):
        by_word = {word: guards[guards["verdict"] == word]["metric"].tolist() for word in ("broken", "unclear", "held")}
        guarded = [f"{word}: {list_names(names)}" for word, names in by_word.items() if names]
        lines.append(f"Guardrails {'; '.join(guarded)}.")
    return lines


def _with_lift(row: Line) -> str:
    star = "*" if row["verdict"].endswith("*") else ""
    gap = f"{row['difference']:+.3g}" if np.isnan(row["lift_low"]) else f"{per_cent(row['lift'])} %"
    return f"{row['metric']}{star} {gap}"


def of_certificate(
    table: pd.DataFrame, if_bots: Mapping[float, int], bots: int, *, few: float | None, kept: bool
) -> list[str]:
    """Say what holds whatever bots did, what is assumed, and what more bots would leave.

    ``few`` is the share of bots that was named, where more are suspected.
    """
    tested = table[table["role"] != "guardrail"]
    moved = tested[tested["verdict"].str.startswith(("up", "down"))]
    k, sure = len(moved), int((~moved["verdict"].str.endswith("*")).sum())
    lines = []
    if bots and sure:
        which = "It holds" if k == 1 else "All of them hold" if sure == k else f"{sure:,} of the {k:,} hold"
        least = f"if at most {percent(few or 0.0)} of each arm are bots (certified); more are suspected."
        lines.append(f"{which} {'whatever the suspected bots did (certified).' if few is None else least}")
    elif bots and k:
        lines.append("This holds only if the suspected bots are bots (*). If they may be people, nothing is certain.")
    elif not bots:
        none = "Clumps that were kept count as people" if kept else "None was detected"
        lines.append(f"This assumes that no user is a bot. {none}; bots that behave like heavy users would not show.")
    only = tested[(tested["certified"] != "") & ~tested["verdict"].str.startswith(("up", "down"))]
    if len(only) and few is None:
        told = (only["metric"] + " " + only["certified"]).tolist()
        lines.append(f"Certified by ranks alone, where the mean is unclear: {list_names(told)}.")
    if sure:
        left = [(percent(share), f"{n:,} certified" if n else "none") for share, n in if_bots.items()]
        lines.append("   ".join(f"If {share} of each arm were bots: {n}." for share, n in left))
    return lines


def of_bots_found(clumps: pd.DataFrame, table: pd.DataFrame, sizes: Mapping[str, tuple[int, int]]) -> list[str]:
    """Say who is left out, what they do and what they would have made of the answer."""
    frame, kept = (clumps[clumps["kept"] == those] for those in (False, True)) if len(clumps) else (clumps, clumps)
    lines = []
    if len(frame):
        total, out = (sum(pair[k] for pair in sizes.values()) for k in (0, 1))
        by_arm = ", ".join(f"{bots:,} in {arm}" for arm, (_, bots) in sizes.items())
        share = percent(out / total)
        lines.append(f"Suspected bots: {out:,} of {total:,} users ({share}; {by_arm}), left out of means.")
        lines += [_of_clump(row) for row in frame.head(3).to_dict("records")]
        lines += [f"{pluralize(len(frame) - 3, 'smaller clump')} besides."] if len(frame) > 3 else []
        gap = (table["lift_with_bots"] - table["lift"]).abs() / (table["lift_high"] - table["lift_low"])
        if gap.notna().any() and gap.max() > 1:
            row = table.iloc[int(gap.argmax())]
            lines.append(
                f"Were they counted, {row['metric']} of {row['arm']} would show {per_cent(row['lift_with_bots'])} % in "
                f"place of {per_cent(row['lift'])} %."
            )
    lines += [f"Kept, as you asked: {list_names([f'clump {k}' for k in kept['clump']])}."] if len(kept) else []
    return lines


def _of_clump(row: Line) -> str:
    each = zip(*(row[name].split(", ") for name in ("metrics", "do", "others")), strict=True)
    told = [f"{own} {name} (others {usual})" for name, own, usual in each]
    return (
        f"Clump {row['clump']}: {pluralize(row['users'], 'user')} with about {list_names(told, 3)}: {row['names']}. If "
        f"these are people, --keep {row['clump']} (keep=[{row['clump']}]) counts them."
    )
