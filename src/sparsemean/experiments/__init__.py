"""For analysts of experiments: a scorecard of the arms, and metrics for tea-tasting.

tea-tasting's base class is told of the metric here when one is made, so that it need not be installed before.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from sparsemean._fit import arms
from sparsemean._fit.arms import Users
from sparsemean._stats.arrays import some_rows
from sparsemean._stats.planning import check_question
from sparsemean._util.checks import list_names, pluralize
from sparsemean._util.plans import Question
from sparsemean._util.records import IntArray
from sparsemean.errors import InputError, require
from sparsemean.experiments import _scorecard as words
from sparsemean.experiments._scorecard import Scorecard
from sparsemean.experiments._users import Clump, find_clumps, read_users, users_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from tea_tasting.metrics import MetricBaseGranular

__all__ = ["RobustDifference", "RobustDifferenceResult", "Scorecard", "analyze", "metrics"]

Shares: TypeAlias = Mapping[str, float] | Sequence[float] | None
ROLES, WORDS = ("primary", "guardrail", "metric"), ("broken", "up", "down", "flat", "unclear", "held")
"""In the order of the table."""
TOLD_BY = 10_000
"""Users who tell what is usual."""
MISMATCH = 0.001
"""The p-value below which the sizes of the arms are not as planned."""
ARM, EARLIER = "\u2063arm", "\u2063before"
"""Columns that no table has."""


def analyze(
    table: object,
    arm: str = "variant",
    user: str | None = None,
    control: object = None,
    metrics: Sequence[str] | None = None,
    ratios: Mapping[str, tuple[str, str]] | None = None,
    pre: str | tuple[str, str] = "_pre",
    by: str | None = None,
    primary: str | Sequence[str] | None = None,
    guardrails: Mapping[str, float] | None = None,
    *,
    day: str | None = None,
    share: float = 0.8,
    min_effect: float | None = None,
    level: float = 0.05,
    alternative: str = "two-sided",
    contamination: float | tuple[float, float] | str = "auto",
    keep: Sequence[int] = (),
    shares: Shares = None,
    events: bool = False,
    n_jobs: int | None = None,
) -> Scorecard:
    """Compare every metric of an experiment between its arms: lift, interval, verdict, and who looks like a bot.

    Users who look like bots are found in all arms together, before anything is compared. Estimates, intervals and
    verdicts are of means without them; a verdict is certified where ranks of *all* users show the same whatever so
    many of them did.

    Parameters
    ----------
    table : path or data frame
        A row for each user: .csv, .parquet, .xlsx, .duckdb, or a frame of pandas, polars or Arrow. Columns of numbers
        are metrics, what is text or numbers users is set aside, gaps are left out.
    arm, user : str
        The columns with the arm and the name of each user; for ``user`` None is "user_id" where there is one.
    control : label, optional
        The arm that others are compared with; by default one called control, ctrl, baseline, placebo, off or A.
    metrics : sequence of str, optional
        Columns that are compared; by default all that hold numbers.
    ratios : dict, optional
        Ratios of totals by name: ``{"ctr": ("clicks", "views")}``.
    pre : str or pair of str, default="_pre"
        The ending of columns with the values of a metric from before the experiment: what they predict is taken off it
        (CUPED). A pair, of an earlier and a later stretch, leaves bots no way to move what is taken off.
    by : str, optional
        A column of segments, such as the country: lifts within each, all in one family of tests.
    primary : str or sequence of str, optional
        Metrics that decide: they have ``share`` of the level, the others the rest, and all of it once every primary
        metric differs. A share of 1 is a fixed sequence.
    guardrails : dict, optional
        Metrics that must not be harmed, with the lift that is too much: ``{"latency": 0.02, "signup": -0.01}``. Each
        is tested on one side at ``level``, as the claim is that all hold.
    day : str, optional
        A column with the day of each user: lifts of the primary metrics by day.
    min_effect : float, optional
        A lift that matters: a metric whose interval lies within ± so much is "flat".
    level : float, default=0.05
        Probability of any wrong "up" or "down" if nothing differs. Intervals cover with 1 − level, each for itself.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        On which side of the control a metric must lie.
    contamination : "auto", float or pair of them, default="auto"
        Share of each arm that certificates allow to be bots; "auto": as many as are suspected.
    keep : sequence of int
        Numbers of clumps that are people, and stay.
    shares : dict or sequence, optional
        Planned shares of the arms, for the check of their sizes; equal by default.
    events : bool, default=False
        Whether rows of one user are added up.
    n_jobs : int, optional
        Threads; None takes every core.

    Returns
    -------
    Scorecard
        ``print`` it, or `Scorecard.write` it as a page, Markdown, JSON or CSV.

    Notes
    -----
    Means are compared by Welch's test, lifts by the logarithm of the ratio of means, ratios of totals by the delta
    method (Deng, Knoblich and Lu 2018, KDD), and adjusted by Holm's rule over metrics and arms. Certificates are those
    of `SparseMeanDifference`, at the same level.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sparsemean import experiments
    >>> rng = np.random.default_rng(0)
    >>> variant = rng.choice(["control", "new"], 4000)
    >>> rates = np.where(variant == "new", 3.3, 3.0)
    >>> users = pd.DataFrame({"variant": variant, "visits": rng.poisson(rates), "likes": rng.poisson(0.2, 4000)})
    >>> card = experiments.analyze(users)
    >>> card.table[["metric", "lift", "lift_low", "lift_high", "verdict", "certified"]].round(1)
       metric  lift  lift_low  lift_high  verdict certified
    0  visits  12.6       8.7       16.5       up        up
    1   likes   5.6      -8.1       21.4  unclear
    """
    question = check_question(contamination=contamination, level=level, missing="omit", alternative=alternative)
    found = read_users(table, arm=arm, user=user or "user_id", by=by, day=day, sure=user is not None)
    users = users_of(found, control=control, metrics=metrics, ratios=ratios or {}, pre=pre, events=events)
    first = [primary] if isinstance(primary, str) else list(primary or ())
    return _card(
        users, question, first=first, bounds=guardrails, share=share, min_effect=min_effect, keep=keep, shares=shares,
        n_jobs=n_jobs,
    )  # fmt: skip


def _card(
    users: Users, question: Question, *, first: Sequence[str] = (), bounds: Mapping[str, float] | None = None,
    share: float = 0.8, min_effect: float | None = None, keep: Sequence[int] = (), shares: Shares = None,
    covers: float | None = None, n_jobs: int | None = None,
) -> Scorecard:  # fmt: skip
    """Judge users and compare those who are left; ``covers`` is the error of intervals, if not that of verdicts."""
    import pandas as pd

    level, names, bounds = question.level, list(users.metrics), bounds or {}
    for argument, lift in (("min_effect", min_effect), *(("guardrails", bound) for bound in bounds.values())):
        if lift is not None and not (isinstance(lift, (int, float)) and abs(lift) <= 1):
            raise InputError(argument, "be a lift from -1 to 1, 0.02 for 2 %", repr(lift))
    for argument, asked in (("primary", first), ("guardrails", bounds)):
        if unknown := [name for name in asked if name not in names]:
            rule = f"be of the metrics {list_names(names)}"
            raise InputError(argument, rule, list_names(unknown), "check the spelling")
    roles = np.array(["primary" if n in first else "guardrail" if n in bounds else "metric" for n in names])
    clumps, unusual = find_clumps(users.values)
    if wrong := [k for k in keep if not 1 <= k <= len(clumps)]:
        rule = f"be numbers of clumps, of which there are {len(clumps)}"
        raise InputError("keep", rule, list_names(wrong), "see which there are without it")
    out = [clump.users for k, clump in enumerate(clumps, 1) if k not in keep]
    bots = np.concatenate([np.empty(0, dtype=np.intp), *out])
    everyone = np.arange(users.arm.size)
    kept = np.delete(everyone, bots)
    if (np.bincount(users.arm[kept], minlength=len(users.arms)) < arms.FEWEST).any():
        rule = f"have {arms.FEWEST} users or more in each arm, suspected bots aside"
        raise InputError("arm", rule, list_names([f"{arm}: {n}" for arm, n in users.sizes.items()]))
    reduced, noted = arms.less_earlier(users, kept)
    effects = arms.effects_of(reduced, kept, covers or level, question.side)
    with_bots = arms.effects_of(users, everyone, level) if bots.size else effects
    p = np.stack([each["p_value"] for each in effects])
    tested, primary = roles != "guardrail", roles == "primary"
    p_adjusted = p.copy()
    p_adjusted[:, tested] = arms.shared(p[:, tested], primary[tested], share)
    (signs, p_certified, survives), if_bots = arms.certificates(
        reduced, bots, question=question, primary=primary, tested=tested, share=share, n_jobs=n_jobs
    )
    frames = []
    for k, (effect, naive) in enumerate(zip(effects, with_bots, strict=True)):
        said = arms.words_of(effect, p_adjusted[k] <= level, min_effect)
        for at in np.flatnonzero(~tested).tolist():
            p[k, at], said[at] = arms.crossing(effect.iloc[at], bounds[names[at]], level)
            p_adjusted[k, at] = p[k, at]
        certified = np.select([signs[k] > 0, signs[k] < 0], ["up", "down"], "")
        moved = np.isin(said, ("up", "down"))
        said[moved & (said != certified)] += "*"
        order = np.lexsort((p[k], [WORDS.index(word.rstrip("*")) for word in said], [ROLES.index(r) for r in roles]))
        effect.insert(2, "role", roles)
        frame = effect.drop(columns=[*arms.HIDDEN]).assign(
            p_value=p[k], p_adjusted=p_adjusted[k], verdict=said, certified=certified, p_certified=p_certified[k],
            survives=survives[k], lift_with_bots=naive["lift"],
        )  # fmt: skip
        frames.append(frame.iloc[order])
    table = pd.concat(frames, ignore_index=True)
    told = list(first) or table["metric"][table["verdict"].str.startswith(("up", "down"))].tolist()
    segments, notes = arms.by_segment(reduced, kept, told, level)
    listed = _clumps(users, clumps, keep)
    of_bots = np.bincount(users.arm[bots], minlength=len(users.arms)).tolist()
    sizes = {arm: (n, bad) for (arm, n), bad in zip(users.sizes.items(), of_bots, strict=True)}
    p_sizes, expected = arms.mismatch(users, shares)
    least = max(bad / n for n, bad in sizes.values())
    counts = {share: n for share, n in if_bots.items() if share > least}
    headline = [words.of_sizes(users.sizes, expected.tolist(), p_sizes)] if p_sizes < MISMATCH else []
    for arm in users.arms[1:]:
        own, error = table[table["arm"] == arm], level / max(1, p[:, tested].size)
        headline += words.of_arm(own, arm, users.arms[0], bots=bots.size, error=error)
    few = None if question.shares is None or min(question.shares) >= least else min(question.shares)
    headline += words.of_certificate(table, counts, bots.size, few=few, kept=bool(keep))
    headline += words.of_bots_found(listed, table, sizes)
    odd = [f"{pluralize(rows.size, 'user')} unusual in other ways ({kind}) kept" for kind, rows in unusual.items()]
    days = None
    if users.day is not None:
        days = arms.within(reduced, kept, users.day, "day", told, level).drop(columns=[*arms.HIDDEN], errors="ignore")
    suspects = _suspects(users, clumps, unusual, keep)
    notes = [*notes, *users.notes, *noted, *odd]
    return Scorecard(tuple(headline), table, listed, suspects, segments, days, tuple(notes), users.sizes, level)


def _clumps(users: Users, clumps: Sequence[Clump], keep: Sequence[int]) -> pd.DataFrame:
    """Return a line for each clump: who they are, and what they do in place of others."""
    import pandas as pd

    lines, out = [], np.concatenate([np.empty(0, dtype=np.intp), *(clump.users for clump in clumps)])
    others = np.delete(np.arange(users.arm.size), out)
    others = others[some_rows(others.size, 1, values=TOLD_BY)]
    for k, clump in enumerate(clumps, 1):
        do, usual = (np.nanmedian(users.values[np.ix_(rows, clump.metrics)], axis=0) for rows in (clump.users, others))
        by_arm = np.bincount(users.arm[clump.users], minlength=len(users.arms)).tolist()
        own = {f"in {arm}": n for arm, n in zip(users.arms, by_arm, strict=True)}
        lines.append({
            "clump": k, "users": clump.users.size, **own,
            "metrics": ", ".join(users.names[j].replace(", ", ",") for j in clump.metrics),
            "do": ", ".join(map(words.number, do)), "others": ", ".join(map(words.number, usual)), "kept": k in keep,
            "names": list_names(users.called[clump.users]),
        })  # fmt: skip
    return pd.DataFrame(lines)


def _suspects(
    users: Users, clumps: Sequence[Clump], unusual: Mapping[str, IntArray], keep: Sequence[int]
) -> pd.DataFrame:
    """Return a line for each user of a clump, and for each who is unusual in another way."""
    import pandas as pd

    parts = [(clump.users, k, "clump, kept" if k in keep else "clump") for k, clump in enumerate(clumps, 1)]
    parts += [(rows, 0, kind) for kind, rows in unusual.items()]
    rows = np.concatenate([np.empty(0, dtype=np.intp), *(own for own, *_ in parts)])
    sizes = [own.size for own, *_ in parts]
    return pd.DataFrame({
        "user": list(users.called[rows]), "arm": np.array(users.arms, dtype=object)[users.arm[rows]],
        "clump": np.repeat([k for _, k, _ in parts], sizes).astype(int),
        "kind": np.repeat(np.array([kind for *_, kind in parts], dtype=object), sizes),
    })  # fmt: skip


def metrics(
    columns: str | Sequence[str] | Mapping[str, str],
    *,
    ratios: Mapping[str, tuple[str, str]] | None = None,
    covariates: Mapping[str, str] | None = None,
    contamination: float | tuple[float, float] | str = "auto",
    alternative: str | None = None,
    confidence_level: float | None = None,
    level: float | None = None,
    keep: Sequence[int] = (),
) -> dict[str, RobustDifference]:
    """Return metrics for ``tea_tasting.Experiment``, which are tested together and find bots together.

    Bots show in several metrics at once, so that one metric alone cannot tell them from good users: name all that you
    have. All are analyzed once for each pair of variants. It needs the extra ``tea-tasting``.

    Parameters
    ----------
    columns : str, sequence of str or mapping
        The columns with the values of each user; a mapping has the names of metrics as keys.
    ratios : dict, optional
        Ratios of totals by name, ``{"ctr": ("clicks", "views")}``, of ``columns`` or others.
    covariates : mapping, optional
        For some of ``columns`` the one with the same users' values from before the experiment (CUPED).
    contamination, keep : optional
        As in `analyze`.
    alternative, confidence_level, level : optional
        As in tea-tasting, whose configuration has the defaults; ``level`` is its ``alpha``, for ``pvalue_adj`` and
        ``verdict``.

    Returns
    -------
    dict of str to RobustDifference
        By name, for the first argument of ``tea_tasting.Experiment``.

    Examples
    --------
    >>> import tea_tasting as tt  # doctest: +SKIP
    >>> from sparsemean import experiments
    >>> users = tt.make_users_data(rng=42)  # doctest: +SKIP
    >>> tt.Experiment(experiments.metrics(["sessions", "orders", "revenue"])).analyze(users)  # doctest: +SKIP
    metric   control treatment rel_effect_size rel_effect_size_ci pvalue
    sessions    2.00      1.98          -0.66%      [-3.7%, 2.5%]  0.674
    orders     0.530     0.573            8.0%       [-2.0%, 19%]  0.118
    revenue     5.24      5.73            9.3%       [-2.4%, 22%]  0.123
    """
    get = require("tea_tasting", extra="tea-tasting", purpose="a metric for tea-tasting").get_config
    named = {columns: columns} if isinstance(columns, str) else columns
    if not isinstance(named, Mapping):
        named = {column: column for column in named} if isinstance(named, Iterable) else {}
    own, before = tuple(dict.fromkeys(named.values())), dict(covariates or {})
    if not own or not all(isinstance(column, str) for column in own):
        raise InputError("columns", "name a column or more", repr(columns))
    if unknown := [column for column in before if column not in own]:
        advice = "use the names of columns, not those of metrics" if any(name in named for name in unknown) else ""
        raise InputError("covariates", f"be of the columns {list_names(own)}", list_names(unknown), advice)
    question = check_question(
        contamination=contamination, level=get("alpha") if level is None else level, missing="omit",
        alternative=get("alternative") if alternative is None else alternative,
    )  # fmt: skip
    covers = get("confidence_level") if confidence_level is None else confidence_level
    together = _Together(own, dict(ratios or {}), before, question, 1 - covers, tuple(keep))
    made = {name: RobustDifference(column, together) for name, column in named.items()}
    return made | {name: RobustDifference(name, together) for name in together.ratios}


FIELDS = {
    "control": "control", "treatment": "treatment",
    "effect_size": "difference", "effect_size_ci_lower": "difference_low", "effect_size_ci_upper": "difference_high",
    "rel_effect_size": "lift", "rel_effect_size_ci_lower": "lift_low", "rel_effect_size_ci_upper": "lift_high",
    "pvalue": "p_value", "pvalue_adj": "p_adjusted", "pvalue_certified": "p_certified",
    "max_contamination": "survives",
}  # fmt: skip
"""What tea-tasting calls the columns of a scorecard."""


class RobustDifferenceResult(NamedTuple):
    """What `RobustDifference` returns, a number each but for the verdict.

    All but the last four are of means without suspected bots, shares where the scorecard has percents; ``pvalue_adj``
    is Holm's, over the metrics that were named together. ``pvalue_certified`` is that of ranks of all users, whatever
    suspected bots did; ``max_contamination`` the share of bots up to which that would still differ; ``suspects`` the
    number of users who were left out.
    """

    control: float
    treatment: float
    effect_size: float
    effect_size_ci_lower: float
    effect_size_ci_upper: float
    rel_effect_size: float
    rel_effect_size_ci_lower: float
    rel_effect_size_ci_upper: float
    pvalue: float
    pvalue_adj: float
    pvalue_certified: float
    max_contamination: float
    suspects: int
    verdict: str


class RobustDifference:
    """A metric of tea-tasting, by its granular interface; `metrics` makes them.

    Attributes
    ----------
    column : str
        The column with the values of each user.
    """

    def __init__(self, column: str, together: _Together) -> None:
        self.column, self.together = column, together
        _granular()

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        _granular()  # it may be another process, where none was made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.column!r}, among={list_names(self.together.columns)})"

    @property
    def cols(self) -> tuple[str, ...]:
        """The columns that are read: those of all metrics that were named together."""
        of, parts = self.together, (column for pair in self.together.ratios.values() for column in pair)
        return tuple(dict.fromkeys((*of.columns, *parts, *of.before.values())))

    def analyze(
        self, data: object, control: object, treatment: object, variant: str | None = None
    ) -> RobustDifferenceResult:
        """Compare two variants, as all metrics of tea-tasting do, in a data frame, an Ibis table or a dict of tables.

        Returns
        -------
        RobustDifferenceResult
            Means, difference, p-values, verdict.
        """
        found: RobustDifferenceResult = _granular().analyze(self, data, control, treatment, variant)
        return found

    def analyze_granular(self, control: pa.Table, treatment: pa.Table) -> RobustDifferenceResult:
        """Compare two variants.

        Parameters
        ----------
        control, treatment : pyarrow.Table
            The users of either variant.

        Returns
        -------
        RobustDifferenceResult
            Means, difference, p-values, verdict.
        """
        table, suspects = self.together.analyzed(control, treatment)
        (line,) = table[table["metric"] == self.column].to_dict("records")
        numbers = {field: float(line[name]) for field, name in FIELDS.items()}
        shares = {field: numbers[field] / 100 for field in FIELDS if field.startswith("rel_")}
        return RobustDifferenceResult(**numbers | shares, suspects=suspects, verdict=str(line["verdict"]))

    def solve_power(self, data: object, parameter: str = "rel_effect_size") -> object:
        """Solve for power as tea-tasting's own metric of this mean, or ratio, with its part of the level.

        Parameters
        ----------
        data : data frame or Ibis table
            A row for each user, of an earlier time.
        parameter : str
            What is asked: "power", "effect_size", "rel_effect_size" or "n_obs".

        Returns
        -------
        tea_tasting.metrics.MetricPowerResults
            That of `tea_tasting.Mean` or `tea_tasting.RatioOfMeans`.
        """
        tasting, of = require("tea_tasting", extra="tea-tasting", purpose="a metric for tea-tasting"), self.together
        error = of.question.level / (len(of.columns) + len(of.ratios))
        if self.column in of.ratios:
            return tasting.RatioOfMeans(*of.ratios[self.column], alpha=error).solve_power(data, parameter)
        return tasting.Mean(self.column, of.before.get(self.column), alpha=error).solve_power(data, parameter)


def _granular() -> type[MetricBaseGranular]:
    """Return tea-tasting's base class, told that ours is one of its metrics, and solves for power."""
    tasting = require("tea_tasting.metrics", extra="tea-tasting", purpose="a metric for tea-tasting")
    for base in (tasting.PowerBase, tasting.MetricBaseGranular):
        base.register(RobustDifference)
    return tasting.MetricBaseGranular  # type: ignore[no-any-return]


@dataclass(eq=False)
class _Together:
    """Columns that are tested together: what was found last is kept, since each metric asks for it in turn."""

    columns: tuple[str, ...]
    ratios: dict[str, tuple[str, str]]
    before: dict[str, str]
    question: Question
    covers: float
    keep: tuple[int, ...]
    last: tuple[weakref.ref[pa.Table], weakref.ref[pa.Table], pd.DataFrame, int] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "last": None}

    def analyzed(self, control: pa.Table, treatment: pa.Table) -> tuple[pd.DataFrame, int]:
        """Return the table of the scorecard of two tables of Arrow's, and the number of suspects."""
        if self.last is not None and self.last[0]() is control and self.last[1]() is treatment:
            return self.last[2:]
        import pyarrow as pa

        users = pa.concat_tables([control, treatment], promote_options="permissive")
        parts = [column for pair in self.ratios.values() for column in pair]
        own = users.select(list(dict.fromkeys((*self.columns, *parts))))
        for column, of in self.before.items():
            own = own.append_column(f"{column}{EARLIER}", users.column(of))
        own = own.append_column(ARM, pa.array(["control"] * control.num_rows + ["treatment"] * treatment.num_rows))
        found = read_users(own, arm=ARM, user=ARM + ARM, by=None, day=None, sure=False)
        assert found.feature_names is not None
        if text := [name for name in (*self.columns, *parts) if name not in found.feature_names]:
            raise InputError("columns", "hold numbers", list_names(text))
        named = [*self.columns, *self.ratios]
        told = users_of(found, control="control", metrics=named, ratios=self.ratios, pre=EARLIER, events=False)
        card = _card(told, self.question, covers=self.covers, keep=self.keep)
        suspects = int((card.suspects["kind"] == "clump").sum())
        self.last = weakref.ref(control), weakref.ref(treatment), card.table, suspects
        return self.last[2:]
