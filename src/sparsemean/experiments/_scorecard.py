"""Every metric of an experiment in both arms: lift, interval, verdict, and the users who look bad."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sparsemean._fit.arms import arms_of, left_out
from sparsemean._fit.messages import AT_NULL
from sparsemean._fit.power import CANNOT
from sparsemean._stats.effects import lift
from sparsemean._stats.planning import one_of
from sparsemean._util.checks import pluralize
from sparsemean._util.plans import Side
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError, visible
from sparsemean.result import Estimate
from sparsemean.result._report.summary import WIDTH, TextTable, aligned, as_html, notes, wrap
from sparsemean.result._report.verdict import signs_of, verdict
from sparsemean.result._report.wording import check_row_names
from sparsemean.result.comparison import Comparison, called, tests_of

if TYPE_CHECKING:
    import pandas as pd

MEANS = (
    "control", "treatment", "difference", "difference_low", "difference_high", "lift", "lift_low", "lift_high",
)  # fmt: skip
"""Columns that are means, or made of them."""
SHOWN = 20
"""Metrics that are printed."""
FIRM, NONE_SHOWN, NOT_CHECKABLE = ("up", "down", "differs"), "no difference shown", "not checkable"
WITHOUT, IF_NONE = " without suspects", " if nobody is bad"
SHORT = {WITHOUT: "*", IF_NONE: "*", NONE_SHOWN: "none shown"}
"""Words of verdicts where they must fit into a line."""
CALLED = {"together": "those who lie off together", "suspects": "all suspects", "nobody": "nobody"}
"""Whom means leave out, in words."""
AS_SUBJECTS = "if rows are parts of one user, such as sessions, fit(X, arm, groups=user) counts each user once"
ASSUMED = (
    "Lifts are those of means{}. Their intervals ({:g} %, each for itself) assume that {} and that means of so many "
    "users are near normal. Verdicts compare ranks and assume neither."
)
GUARANTEED = (
    "Lifts are those of means. Their intervals ({:g} %, each for itself) hold though as many are bad as were allowed "
    "for, given the bound of standard deviations."
)


@dataclass(frozen=True, eq=False, repr=False)
class Scorecard:
    """Every metric of an experiment in both arms, with lift, interval and verdict, and the users who look bad.

    Attributes
    ----------
    table : DataFrame
        A row for each metric (and arm, where there are several), those that differ first: ``metric``; ``control`` and
        ``treatment``, the means; ``difference`` and ``lift`` (in percent), each with ``_low`` and ``_high``; ``auc``,
        the share of pairs in which the user of the treatment has more, ties halved; ``p_value``, ``p_adjusted`` and
        ``survives``, the share of bad users up to which the verdict would be the same, as in `Estimate.table`;
        ``p_without_suspects``, not adjusted; ``verdict``.
    suspects : DataFrame
        A row for each user who looks bad: ``user``, ``arm``, ``kind``, ``metrics`` that speak against them, and
        ``left_out``, whether means leave them out.
    result : Estimate or Comparison
        What it was made of.

    Notes
    -----
    Verdicts are "up" and "down" where a metric differs although as many users may be bad as were allowed for; "up
    without suspects" and "down without suspects" where it differs once those who lie off together are left out,
    provided that nobody else is bad, "up if nobody is bad" where there are none; "differs" in the place of "up" and
    "down" where ranks go one way and means the other; "no difference shown"; "not checkable" where all values are
    equal, or so few users could show nothing.
    """

    table: pd.DataFrame
    suspects: pd.DataFrame
    result: Estimate | Comparison
    level: float
    leave_out: str
    users: Sequence[object] | None = None

    def __repr__(self) -> str:
        return f"<Scorecard: {pluralize(len(self.table), 'line')}, {pluralize(len(self.suspects), 'suspect')}>"

    def __str__(self) -> str:
        head = [wrap(line) for line in verdict(self.result, row_names=self.users)]
        return "\n".join((*head, *self._lines(), "", *map(wrap, (self._assumed(), *self._notes()))))

    def _repr_html_(self) -> str:
        head = "<br>".join(map(html.escape, verdict(self.result, row_names=self.users)))
        below = "<br>".join(map(html.escape, (self._assumed(), *self._notes())))
        return f"<p>{head}</p>{as_html(self.table)}<p>{below}</p>"

    def _lines(self) -> list[str]:
        """Return a table of 80 columns for each test."""
        out: list[str] = []
        for estimate in tests_of(self.result):
            assert estimate.class_names is not None
            reference, label = estimate.class_names.tolist()
            own = self.table
            if isinstance(self.result, Comparison):
                own = own[(own["arm"] == label) & (own["reference"] == reference)]
            out += ["", *_printed(own.head(SHOWN), (reference, label))]
            out += [f"… and {len(own) - SHOWN:,} more in table"] if len(own) > SHOWN else []
        words, those = self.table["verdict"], CALLED[self.leave_out]
        out += [f"* once {those} are left out"] if words.str.endswith(WITHOUT).any() else []
        return out + (["* if nobody is bad"] if words.str.endswith(IF_NONE).any() else [])

    def _notes(self) -> list[str]:
        """Return what there is to say of the fit, but for the intervals of shifts, which are not shown."""
        said = [note for note in notes(self.result) if AT_NULL not in note]
        repeats = 0 if self.users is None else len(self.users) - len(set(map(str, self.users)))
        if repeats:
            said.append(f"Note: {repeats:,} of {len(self.users or ()):,} names of users are repeated: {AS_SUBJECTS}.")
        return said

    def _assumed(self) -> str:
        if tests_of(self.result)[0].plan.question.target == "mean":
            return GUARANTEED.format(100 * self.level)
        bots = int(self.suspects["left_out"].sum())
        out = f", {CALLED[self.leave_out]} ({bots:,}) left out" if bots else ""
        return ASSUMED.format(out, 100 * self.level, "they are the only bad ones" if bots else "nobody is bad")


def scorecard(
    result: object, *, users: Sequence[object] | None = None, level: float = 0.95, leave_out: str = "together"
) -> Scorecard:
    """Return every metric of an experiment in both arms, with lift, interval, verdict, and the users who look bad.

    Parameters
    ----------
    result : Estimate or Comparison
        ``result_`` of a `SparseMeanDifference`; ``reference`` is the control.
    users : sequence of n names, optional
        What rows are called; defaults to the index of a data frame of pandas', else they are numbered.
    level : float in (0, 1), default=0.95
        Probability with which each interval covers.
    leave_out : {"together", "suspects", "nobody"}, default="together"
        Whom means leave out: those who lie off together, many and alike; all suspects, if you are convinced that they
        are no people, but for those whose label is contradicted; or nobody.

    Returns
    -------
    Scorecard
        ``print`` shows it in 80 columns; ``table`` and ``suspects`` are data frames.

    Notes
    -----
    Intervals of differences and lifts are Welch's, of the logarithm of the ratio for the lift: they assume that nobody
    is bad but those who are left out, and means that are near normal.
    With ``target="mean"`` they assume neither, but the bound of standard deviations: they are those of the test, with
    as many bad users as were allowed for. Then difference and lift are covered at once with probability ``level``.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sparsemean import SparseMeanDifference, experiments
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.choice(["control", "new"], 4000)
    >>> users = pd.DataFrame({"visits": rng.poisson(np.where(arm == "new", 3.3, 3.0)), "likes": rng.poisson(0.2, 4000)})
    >>> card = experiments.scorecard(SparseMeanDifference(reference="control").fit(users, arm).result_)
    >>> card.table[["metric", "lift", "lift_low", "lift_high", "verdict"]].round(1)
       metric  lift  lift_low  lift_high              verdict
    0  visits  12.6       8.7       16.5                   up
    1   likes   5.6      -8.1       21.4  no difference shown
    """
    import pandas as pd

    if not isinstance(level, float) or not 0 < level < 1:
        raise InputError("level", "be a number between 0 and 1, both excluded", repr(level))
    if not isinstance(result, (Estimate, Comparison)) or any(
        each.labels is None or each.rows is None for each in tests_of(result)
    ):
        paired = isinstance(result, Estimate) and result.paired
        received = "one of pairs" if paired else type(result).__name__
        advice = "print it: its table has the differences" if paired else "pass result_ of a SparseMeanDifference"
        raise InputError("result", "be of arms with users of their own", received, advice)
    one_of(leave_out, tuple(CALLED), argument="leave_out")
    own = tests_of(result)[0].sample
    result = called(result, own.unit or "user", own.feature or "metric")
    tests = tests_of(result)
    check_row_names(users, tests[0].plan.n_rows, "users")
    names = None if users is None else list(users)
    frames = [_frame(estimate, level, leave_out, several=isinstance(result, Comparison)) for estimate in tests]
    suspects = _suspects(result, names, np.concatenate([left_out(estimate, leave_out) for estimate in tests]))
    return Scorecard(pd.concat(frames, ignore_index=True), suspects, result, level, leave_out, names)


def _frame(estimate: Estimate, level: float, leave_out: str, *, several: bool) -> pd.DataFrame:
    """Return the lines of one test, of ``several`` with the names of its arms."""
    import pandas as pd

    assert estimate.class_names is not None
    reference, label = estimate.class_names.tolist()

    plan, features, arms = estimate.plan, np.arange(estimate.mean.size), arms_of(estimate, leave_out, level)
    means = arms.of_test if plan.question.target == "mean" else _welch(arms.moments, level, plan.question.side)
    means = np.concatenate((means[:5], 100 * means[5:]))
    left = None if np.isnan(arms.left).all() else arms.left
    words = _verdicts(estimate, means[2], left, WITHOUT if left_out(estimate, leave_out).size else IF_NONE)
    words[_constant(arms.moments)] = NOT_CHECKABLE
    columns = {
        **({"arm": label, "reference": reference} if several else {}),
        "metric": estimate.names(features),
        **dict(zip(MEANS, means, strict=True)),
        **({} if plan.question.target == "mean" else {"auc": 0.5 + 0.5 * estimate.beta}),
        "p_value": estimate.p_values,
        "p_adjusted": estimate.p_adjusted,
        "p_without_suspects": estimate.p_values if left is None else left[0],
        "survives": estimate.max_contamination,
        "verdict": words,
    }
    place = np.select([np.isin(words, FIRM), words == NONE_SHOWN, words == NOT_CHECKABLE], [0, 2, 3], default=1)
    order = np.lexsort((columns["p_without_suspects"], columns["p_value"], place))
    return pd.DataFrame(columns).iloc[order]


# Who is counted, and what users who look bad are called.


def _suspects(result: Estimate | Comparison, users: Sequence[object] | None, out: IntArray) -> pd.DataFrame:
    """Return who looks bad, worst first; of several tests each by the one in which they look worst."""
    import pandas as pd

    tests, rows = tests_of(result), result.rows
    assert rows is not None
    first, kinds = tests[0], np.array(rows.kinds, dtype=object)
    arms = np.full(first.plan.n_rows, None, dtype=object)
    for estimate in tests:
        assert estimate.class_names is not None
        for label, name in enumerate(estimate.class_names.tolist()):
            if label or not estimate.plan.rest:
                arms[estimate.labels == label] = name
    reasons = rows.reasons or ((),) * rows.suspects.size
    each = [(of, of.rows.suspects.tolist()) for of in tests if of.rows is not None]
    known = {row: name for of, own in each for row, name in zip(own, of.row_names(own), strict=True)}
    return pd.DataFrame(
        {
            "user": [known[row] if users is None else users[row] for row in rows.suspects.tolist()],
            "arm": arms[rows.suspects],
            "kind": kinds,
            "metrics": [", ".join(map(str, first.names(np.array(why, dtype=np.intp)))) for why in reasons],
            "left_out": np.isin(rows.suspects, out),
        }
    )


# Means, differences and lifts.


def _constant(moments: FloatArray) -> npt.NDArray[np.bool_]:
    """Say which metrics have one value only, or none in some arm."""
    number, mean, variance = moments.transpose(1, 0, 2)
    return np.asarray((number == 0).any(axis=0) | ((np.nan_to_num(variance) == 0).all(axis=0) & (mean[0] == mean[1])))


def _welch(moments: FloatArray, level: float, side: Side) -> FloatArray:
    """Return both means, their difference and relative difference with Welch's intervals, as `Arms.of_test` has them.

    The interval of the latter is that of its logarithm.
    """
    number, mean, variance = moments.transpose(1, 0, 2)
    positive = (mean > 0).all(axis=0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        squares = variance / number
        difference = _ends(mean[1] - mean[0], squares, number, level, side)
        logs = np.log(np.where(positive, mean[1] / mean[0], np.nan))
        ratio = np.exp(_ends(logs, squares / mean**2, number, level, side))
    ratio[0] = lift(mean[1], mean[0]) / 100 + 1
    return np.concatenate((mean, difference, ratio - 1))


def _ends(value: FloatArray, squares: FloatArray, n: FloatArray, level: float, side: Side) -> FloatArray:
    """Return a value with both ends of its t interval, from the squared errors of both arms and their numbers."""
    from scipy.special import stdtrit

    together = squares[0] + squares[1]
    degrees = together**2 / (squares[0] ** 2 / (n[0] - 1) + squares[1] ** 2 / (n[1] - 1))
    half = stdtrit(degrees, side.pick((1 + level) / 2, level, level)) * np.sqrt(together)
    return np.stack((value, *side.interval(value - half, value + half)))


# Verdicts.


def _verdicts(
    estimate: Estimate, difference: FloatArray, left: FloatArray | None, provided: str
) -> npt.NDArray[np.object_]:
    """Return a word for each metric; what only those say who are left holds as ``provided``."""
    d = estimate.mean.size
    words = np.full(d, NONE_SHOWN, dtype=object)
    if left is None and any(CANNOT in note for note in estimate.status.messages):
        words[:] = NOT_CHECKABLE
    shown = [(estimate.support, signs_of(estimate, np.arange(d)), "")]
    if left is not None:
        shown.insert(0, (np.flatnonzero(left[1]), left[1], provided))
    for support, signs, added in shown:
        for feature in support.tolist():
            agrees = signs[feature] * difference[feature] >= 0
            words[feature] = (("up" if signs[feature] > 0 else "down") if agrees else "differs") + added
    return words


def _printed(table: pd.DataFrame, arms: tuple[str, str]) -> list[str]:
    """Return lines of 80 columns; how much a verdict survives is left out where there is no room for it."""
    cells = []
    for row in table.to_dict("records"):
        word = row["verdict"]
        for long, short in SHORT.items():
            word = word.replace(long, short)
        share, low, high = (_percent(row[name]) for name in ("lift", "lift_low", "lift_high"))
        survives = f"{row['survives']:.1%}".replace("nan%", "–")
        ends = "–" if low == high == "–" else f"{low} … {high}"
        cells.append((f"{row['control']:.3g}", f"{row['treatment']:.3g}", share, ends, survives, word))
    width = max(len("verdict"), *(len(cell[-1]) for cell in cells))
    called = (name if len(name) < 10 else f"{name[:8]}…" for name in map(visible, arms))
    headings = (*called, "lift, %", "interval", "survives", "verdict".ljust(width))
    rows = [(*cell[:-1], cell[-1].ljust(width)) for cell in cells]
    for dropped in (slice(0, 0), slice(4, 5)):
        of = [(*row[: dropped.start], *row[dropped.stop :]) for row in (headings, *rows)]
        room = WIDTH - sum(2 + max(map(len, column)) for column in zip(*of, strict=True))
        if room >= 12:
            break
    named = [(str(name), *row) for name, row in zip(table["metric"], of[1:], strict=True)]
    return [line.rstrip() for line in aligned(TextTable(("metric", *of[0]), named))]


def _percent(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:+.1f}" if abs(value) < 100 else f"{value:+.3g}"
