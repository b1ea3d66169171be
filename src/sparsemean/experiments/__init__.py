"""For analysts of experiments: a scorecard of the arms, and metrics for tea-tasting.

tea-tasting's base class is told of the metric here when one is made, so that it need not be installed before.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparsemean._stats.planning import ALTERNATIVES, one_of
from sparsemean._util.checks import list_names
from sparsemean.errors import InputError, require
from sparsemean.experiments._scorecard import Scorecard, scorecard

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from tea_tasting.metrics import MetricBaseGranular

    from sparsemean.estimators import SparseMeanDifference

__all__ = ["RobustDifference", "RobustDifferenceResult", "Scorecard", "metrics", "scorecard"]


def metrics(
    columns: str | Sequence[str] | Mapping[str, str],
    *,
    covariates: Mapping[str, str] | Mapping[str, tuple[str, str]] | None = None,
    contamination: float | tuple[float, float] | str = "auto",
    target: str = "centre",
    scale: object = None,
    alternative: str | None = None,
    confidence_level: float | None = None,
    level: float | None = None,
    missing: str = "raise",
    leave_out: str = "together",
) -> dict[str, RobustDifference]:
    """Return metrics for ``tea_tasting.Experiment``, which are tested together and screen users together.

    Bots show in several metrics at once, so that one metric alone cannot tell them from good users: name all that you
    have. The fit of all is made once for each pair of variants. It needs the extra ``tea-tasting``.

    Parameters
    ----------
    columns : str, sequence of str or mapping
        The columns with the values of each user; a mapping has the names of metrics as keys.
    covariates : mapping, optional
        For some of ``columns`` the one with the same users' values from before the experiment (CUPED), or for each of
        them a pair (earlier, later), as in `SparseMeanDifference.fit`.
    contamination : "auto", float in [0, 0.5) or pair of them, default="auto"
        Share of each variant that may be bad, as in `SparseMeanDifference`; "auto" allows for as many as look bad.
    target : {"centre", "mean"}, default="centre"
        What is tested: distributions by ranks, or means given a ``scale``.
    scale : float, sequence of numbers or mapping, optional
        For ``target="mean"``: an upper bound of the standard deviation of each column, in their order or by column.
    alternative, confidence_level, level : optional
        As in tea-tasting, whose configuration has the defaults; ``level`` is its ``alpha``, for ``pvalue_adj`` and
        ``verdict``.
    missing : {"raise", "omit"}, default="raise"
        What to do about users without a value.
    leave_out : {"together", "suspects", "nobody"}, default="together"
        Whom means, effects and their intervals leave out, as in `scorecard`.

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
    sessions    2.00      1.98          -0.66%      [-3.7%, 2.5%]   1.00
    orders     0.530     0.573            8.0%       [-2.0%, 19%] 0.0417
    revenue     5.24      5.73            9.3%       [-2.4%, 22%] 0.0308
    """
    get = require("tea_tasting", extra="tea-tasting", purpose="a metric for tea-tasting").get_config
    named = {columns: columns} if isinstance(columns, str) else columns
    if not isinstance(named, Mapping):
        named = {column: column for column in named} if isinstance(named, Iterable) else {}
    own = tuple(dict.fromkeys(named.values()))
    if not own or not all(isinstance(column, str) for column in own):
        raise InputError("columns", "name a column or more", repr(columns))
    from sparsemean.estimators import SparseMeanDifference

    side = get("alternative") if alternative is None else alternative
    model = SparseMeanDifference(
        contamination, reference="control", target=target, scale=_in_order(scale, own), missing=missing,
        alternative=one_of(side, ALTERNATIVES, argument="alternative"),
        level=get("alpha") if level is None else level,
    )  # fmt: skip
    covers = get("confidence_level") if confidence_level is None else confidence_level
    together = _Together(own, _stretches(covariates or {}, named), model, covers, leave_out)
    return {name: RobustDifference(column, together) for name, column in named.items()}


def _in_order(scale: object, columns: tuple[str, ...]) -> object:
    """Return the numbers of a mapping in the order of the columns; what is no mapping as it is."""
    if not isinstance(scale, Mapping):
        return scale
    if lacking := [column for column in columns if column not in scale]:
        raise InputError("scale", "have a number for every column", f"none for {list_names(lacking)}")
    return [scale[column] for column in columns]


def _stretches(covariates: object, named: Mapping[str, str]) -> tuple[dict[str, str], ...]:
    """Return, for each stretch of time before the experiment, the column that has the values of another."""
    columns = tuple(dict.fromkeys(named.values()))
    if not isinstance(covariates, Mapping):
        advice = f"covariates={{{columns[0]!r}: …}}"
        raise InputError("covariates", "say for each column which one is from before", repr(covariates), advice)
    if unknown := [column for column in covariates if column not in columns]:
        metrics = any(name in named for name in unknown)
        advice = "use the names of columns, not those of metrics" if metrics else ""
        raise InputError("covariates", f"be of the columns {list_names(columns)}", list_names(unknown), advice)
    pairs = {column: (of,) if isinstance(of, str) else tuple(of) for column, of in covariates.items()}
    lengths = {len(pair) for pair in pairs.values()}
    if len(lengths) > 1 or not lengths <= {1, 2}:
        raise InputError("covariates", "name one column for each, or a pair for each", repr(dict(covariates)))
    return tuple({column: pair[k] for column, pair in pairs.items()} for k in range(max(lengths, default=0)))


FIELDS = {
    "control": "control", "treatment": "treatment",
    "effect_size": "difference", "effect_size_ci_lower": "difference_low", "effect_size_ci_upper": "difference_high",
    "rel_effect_size": "lift", "rel_effect_size_ci_lower": "lift_low", "rel_effect_size_ci_upper": "lift_high",
    "pvalue": "p_value", "pvalue_adj": "p_adjusted", "pvalue_without_suspects": "p_without_suspects",
    "max_contamination": "survives",
}  # fmt: skip
"""What tea-tasting calls the columns of a scorecard."""


class RobustDifferenceResult(NamedTuple):
    """What `RobustDifference` returns, a number each but for the verdict.

    ``control`` to ``rel_effect_size_ci_upper`` are those of `scorecard`: means without users who lie off together,
    shares where the scorecard has percents. ``pvalue`` holds though as many users are bad as were allowed for;
    ``pvalue_adj`` is Holm's, over the metrics that were named together; ``pvalue_without_suspects`` is what the users
    who are left say. ``max_contamination`` is the share of bad users up to which the metric would still differ;
    ``suspects`` the number of users who look bad.
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
    pvalue_without_suspects: float
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
        _granular().register(RobustDifference)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        _granular().register(RobustDifference)  # it may be another process, where none was made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.column!r}, among={list_names(self.together.columns)})"

    @property
    def cols(self) -> tuple[str, ...]:
        """The columns that are read: those of all metrics that were named together."""
        before = (column for stretch in self.together.before for column in stretch.values())
        return tuple(dict.fromkeys((*self.together.columns, *before)))

    def analyze(
        self, data: object, control: object, treatment: object, variant: str | None = None
    ) -> RobustDifferenceResult:
        """Compare two variants, as all metrics of tea-tasting do.

        Parameters
        ----------
        data : data frame, Ibis table or dict of Arrow tables
            A row for each user.
        control, treatment : label
            The variants that are compared.
        variant : str, optional
            The column with the variant of each user.

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


def _granular() -> type[MetricBaseGranular]:
    tasting = require("tea_tasting.metrics", extra="tea-tasting", purpose="a metric for tea-tasting")
    return tasting.MetricBaseGranular  # type: ignore[no-any-return]


@dataclass(eq=False)
class _Together:
    """Columns that are tested together: what was found last is kept, since each metric asks for it in turn."""

    columns: tuple[str, ...]
    before: tuple[dict[str, str], ...]
    model: SparseMeanDifference
    level: float
    leave_out: str
    last: tuple[weakref.ref[pa.Table], weakref.ref[pa.Table], pd.DataFrame, int] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "last": None}

    def analyzed(self, control: pa.Table, treatment: pa.Table) -> tuple[pd.DataFrame, int]:
        """Return the table of the scorecard of two tables of Arrow's, and the number of suspects."""
        if self.last is not None and self.last[0]() is control and self.last[1]() is treatment:
            return self.last[2:]
        import pyarrow as pa
        from sklearn.base import clone

        users = pa.concat_tables([control, treatment], promote_options="permissive")
        arms = np.repeat(["control", "treatment"], [control.num_rows, treatment.num_rows])
        stretches = [users.select(list(of.values())).rename_columns(list(of)) for of in self.before]
        covariate = tuple(stretches) if len(stretches) == 2 else next(iter(stretches), None)
        found = clone(self.model).fit(users.select(list(self.columns)), arms, covariate=covariate).result_
        card = scorecard(found, level=self.level, leave_out=self.leave_out)
        self.last = weakref.ref(control), weakref.ref(treatment), card.table, len(card.suspects)
        return self.last[2:]
