"""The result of a fit: values, how sure they are, table, path; words and files are next door."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import Checksum
from sparsemean._data.table import Table
from sparsemean._evidence.signs import strongest_signs
from sparsemean._stats import path
from sparsemean._stats.arrays import LeftThere
from sparsemean._stats.decision import Decision
from sparsemean._stats.effects import GroupEffects
from sparsemean._stats.planning import DEFAULT_ITERATIONS
from sparsemean._util.checks import integer
from sparsemean._util.plans import Plan
from sparsemean._util.records import (
    Counts,
    FloatArray,
    Inside,
    IntArray,
    Leaning,
    MeanDifferenceTest,
    MeanTest,
    RowScores,
    Sample,
    Status,
    Uncertified,
)
from sparsemean.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """What features are worth; see `Estimate` for each."""

    support: IntArray
    mean: FloatArray
    intervals: FloatArray
    measure: IntArray
    skewed: IntArray
    effects: GroupEffects | None = None
    uncertified: Uncertified | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(LeftThere):
    """The result of a fit: which features, how large, how sure, and what there is to say about it.

    Attributes
    ----------
    decision : Decision
        What was selected, p-values and up to how many bad rows each feature is; its evidence is not saved or pickled.
    plan : Plan
        What was asked and done: settings and shapes.
    seed : int
        The seed that assigned rows to buckets.
    status : Status
        Notes in words (``status.messages``), the test, what screening and refinement did, time and versions.
    located, sample : records
        Where what follows stands.
    support : ndarray of int
        The selected features, sorted.
    mean : ndarray of shape (d,)
        Estimated means (shifts between two groups) in original units; the null value off the support. NaN on it where
        the estimate comes from a `Sketch` without the rows; ``has_values`` tells.
    intervals : ndarray of shape (d, 2)
        Intervals after selection (the page on guarantees says what holds under attack), NaN off the support.
    measure : ndarray of int of shape (d,)
        What that is: 0 a centre, or shift; 1 a mean, or difference; 2 a share of pairs (see guarantees); −1 unknown.
    skewed : ndarray of int of shape (d,)
        1 where a selected feature looks skewed, or has bad rows to one side: its value is a centre, not a mean. 0 where
        it does not, −1 where that cannot be told: of few rows, counts alone, groups, and off the support.
    effects : GroupEffects or None
        Means, medians and the like of the two groups in the selected features, in their order.
    uncertified : Uncertified or None
        Features that only the rows left after screening show; ``table(certified=False)``.
    p_values, p_adjusted, q_values : ndarray of shape (d,)
        Valid against any replacement of the planned number of rows; by Holm (``selection="maxt"`` without bad rows: by
        flips or permutations); by Benjamini and Hochberg (Benjamini and Yekutieli with ``selection="fdr_by"``).
    beta : ndarray of shape (d,)
        β₀ = (N₊ − N₋)/J at the best bucket size, which ranks do not select by; Cliff's delta for two groups.
    bucket_size : ndarray of int of shape (d,)
        The bucket size at which signs show most.
    counts, strength : Counts or None, ndarray of shape (d,) or None
        The signs that were counted, where buckets were; β where nothing was.
    feature_names : ndarray of str or None
        Names of the features, where the input has any.
    bucket_of_row : ndarray of int of shape (n,) or None
        The bucket of each row at the finest size; None for two groups.
    units : ndarray of int of shape (n,) or None
        The subject of each row, where rows come in groups.
    labels : ndarray of int of shape (n,) or None
        1 for rows of the label, 0 of the reference, 2 of others; None for one sample.
    class_names : ndarray of str or None
        The names of the reference and of the label; None for one sample.
    strata : ndarray of int of shape (n,) or None
        The stratum of each row, where groups were compared within strata.
    theta : ndarray of shape (d,) or None
        What was taken off each feature, as a multiple of its ``covariate``; None where none was adjusted.
    rows : RowScores or None
        How far each row deviates from the rest, where rows were scored.
    mean_test, difference_test : MeanTest or None, MeanDifferenceTest or None
        How means were tested, and those of two groups compared, with ``target="mean"``.
    checksum : Checksum or None
        By which data in memory are known when they are given again, adjusted as in the fit; None of others.
    source : Table or None
        A handle on the data, not kept when the estimate is pickled or saved.
    """

    decision: Decision
    plan: Plan
    seed: int
    status: Status
    located: Located
    sample: Sample
    counts: Counts | None
    strength: FloatArray | None
    rows: RowScores | None = None
    mean_test: MeanTest | None = None
    difference_test: MeanDifferenceTest | None = None
    checksum: Checksum | None = None
    source: Table | None = None

    support = Inside[IntArray]("located")
    mean = Inside[FloatArray]("located")
    intervals = Inside[FloatArray]("located")
    measure = Inside[IntArray]("located")
    skewed = Inside[IntArray]("located")
    effects = Inside[GroupEffects | None]("located")
    uncertified = Inside[Uncertified | None]("located")
    beta = Inside[FloatArray]("_leaning")
    bucket_size = Inside[IntArray]("_leaning")
    feature_names = Inside[npt.NDArray[np.object_] | None]("sample")
    bucket_of_row = Inside[IntArray | None]("sample")
    units = Inside[IntArray | None]("sample")
    labels = Inside[IntArray | None]("sample")
    class_names = Inside[npt.NDArray[np.str_] | None]("sample")
    strata = Inside[IntArray | None]("sample")
    theta = Inside[FloatArray | None]("sample")
    p_values = Inside[FloatArray]("decision")
    p_adjusted = Inside[FloatArray]("decision")
    q_values = Inside[FloatArray]("decision")

    @property
    def shift(self) -> FloatArray | None:
        """The null values; None for zero."""
        return self.plan.question.null

    def __getstate__(self) -> dict[str, Any]:
        from sparsemean._fit.afterwards import checksum_of

        self._bring()
        made = {name: getattr(self, name) for name in ("entry_time", "radius", "_suspect_names")}
        made |= {} if self.source is None else {"_no_arms": "pickled before this scorecard was made"}
        decision = replace(self.decision, evidence=None, whole=None)
        return self.__dict__ | made | {"checksum": checksum_of(self), "source": None, "decision": decision}

    def __repr__(self) -> str:
        n, d = self.plan.n_rows, self.plan.n_features
        return f"<Estimate: {self.support.size} of {d} features selected from {n} rows, seed {self.seed}>"

    def __str__(self) -> str:
        from sparsemean.result._report.summary import printed

        return printed(self)

    def _repr_html_(self) -> str:
        from sparsemean.result._report.summary import fragment

        return fragment(self)

    @cached_property
    def _leaning(self) -> Leaning:
        """To which side each feature leans and how far, and at which bucket size: known once someone asks."""
        if self.counts is not None:
            return Leaning(*strongest_signs(self.plan, self.counts))
        assert self.strength is not None
        return Leaning(self.strength, np.ones(self.strength.size, dtype=np.intp))

    @property
    def log10_p(self) -> FloatArray:
        """Logarithms of the p-values to base 10, which do not end where the smallest double does."""
        return np.asarray(self.decision.log_p / np.log(10.0))

    @property
    def has_values(self) -> bool:
        """Whether there are estimates on the support; there are none where the rows were not at hand."""
        return not np.isnan(self.mean[self.support]).any()

    @property
    def max_contamination(self) -> FloatArray:
        """Largest share of bad rows, of each group, at which a feature is still selected; NaN if it never is.

        With confidence 1 − level, at once for all features (under Holm): a feature is real, or more rows are bad.
        """
        if not self.paired:
            return self.decision.max_contamination
        bad = self.decision.last // 2  # a pair is bad if either of its rows is
        return np.where(bad < 0, np.nan, bad / self.plan.n_units)

    @property
    def paired(self) -> bool:
        """Whether it is of differences within pairs."""
        return self.class_names is not None and self.labels is None and not self.plan.sizes

    @cached_property
    def radius(self) -> IntArray:
        """Rows that must be replaced before a selected feature can drop out, a guaranteed lower bound; 1 of others."""
        return self.decision.radius

    @cached_property
    def entry_time(self) -> FloatArray:
        """First iteration with |μ̂_t| ≥ α, of every feature, on the unbounded path; infinity for one that never moves.

        NaN where no buckets were counted. Under the paper's rule what has a bucket mean within α of 0 is read again.
        """
        if self.counts is None:
            return np.full(self.mean.size, np.nan)
        scales = {"alpha": self.plan.walk.alpha, "eta": self.plan.walk.eta}
        counts, entry = self.counts, np.empty(self.mean.size)
        for index, size in enumerate(self.plan.walk.bucket_sizes):
            at = np.flatnonzero(self.bucket_size == size)
            positive, negative = counts.positive[index, at], counts.negative[index, at]
            entry[at] = path.free_entry(positive, negative, counts.buckets(index, at), **scales)
        rest = path.entry_unsettled(counts, alpha=self.plan.walk.alpha)
        if self.plan.question.selection == "paper" and rest.size:
            from sparsemean._fit.afterwards import rows_of

            entry[rest] = rows_of(self).means(rest, lambda levels, _: path.entry_times(levels[0], **scales))
        return entry

    @cached_property
    def _suspect_names(self) -> dict[int, str]:
        """Names of suspect rows, which are kept where the data are not."""
        if self.rows is None or self.source is None or self.source.row_names is None:
            return {}
        return {int(row): str(self.source.row_names[row]) for row in self.rows.suspects}

    def names(self, features: IntArray) -> list[str | int]:
        """Return the names of ``features``, or their numbers where there are none."""
        if self.feature_names is None:
            return [int(i) for i in features]
        return [str(name) for name in self.feature_names[features]]

    def row_names(self, rows: Iterable[int]) -> list[str | int]:
        """Return the names of ``rows``, or their numbers where there are none; without the data, those of suspects."""
        names = None if self.source is None else self.source.row_names
        return [self._suspect_names.get(int(row), int(row)) if names is None else str(names[row]) for row in rows]

    def table(
        self, all: bool = False, certified: bool = True, intervals: bool = False, X: object = None
    ) -> pd.DataFrame:
        """Return one row for each selected feature, strongest first.

        Parameters
        ----------
        all : bool, default=False
            One row for every feature, with its value read from the data; NaN where the data are gone.
        certified : bool, default=True
            False: the features that only the rows left after screening show, without any guarantee.
        intervals, X : bool, default=False; array or data frame, optional
            Whether ``all`` features have intervals; the data, where the estimate does not keep them, as in `interval`.

        Returns
        -------
        DataFrame
            Columns feature, estimate, ci_low, ci_high, measure (of what), p_value, log10_p, p_adjusted, q_value,
            radius, max_contamination, beta, entry_time, bucket_size and skewed (NA where not known); of
            ``certified=False`` feature, estimate, p_adjusted and certified. Groups have auc (share of pairs in which
            the label is larger), and, without guarantee, mean, median, share of non-zeros and number of values of the
            reference (0) and of the label (1), difference of means, lift in percent and log2_fold_change.
        """
        from sparsemean._fit.afterwards import table_of

        return table_of(self, all=all, certified=certified, intervals=intervals, X=X)

    def at(self, contamination: float | tuple[float, float]) -> Estimate:
        """Decide again for another share of bad rows, from the counts in hand.

        Parameters
        ----------
        contamination : float in [0, 0.5) or pair of them
            The share of rows that may be bad; of groups that of each, a pair for the reference and the label.

        Returns
        -------
        Estimate
            Support, p-values and radius are those of a fit at that contamination; of means, with the κ of this one.
            In ``mean`` features not selected here are NaN; `table` reads their values where the data are at hand.
            Intervals are NaN unless as many rows may be bad.
        """
        from sparsemean._fit.afterwards import at

        return at([self], contamination)[0]

    def curve(self) -> pd.DataFrame:
        """Return how many features are selected at each contamination, a row wherever that changes.

        Returns
        -------
        DataFrame
            Columns contamination, bad_rows (of groups in both together) and selected, up to that contamination from
            beyond that of the row before. Under Holm all rows hold at once.
        """
        from sparsemean._fit.afterwards import curve

        return curve(self)

    def without_suspects(self, X: object = None, *, covariate: object = None) -> Estimate:
        """Fit the rows that are left without the suspects, none of which may be bad: *not guaranteed*.

        Rows that are chosen by their values void every error rate, and the messages, summary and page of what is
        returned say so first. Beside ``at(0)``, what all rows show if none is bad, it tells what the suspects cost.

        Parameters
        ----------
        X, covariate : array or data frame, optional
            The data of the fit, needed, and compared, as by `interval`.

        Returns
        -------
        Estimate
            The same question, ``contamination=0`` and rows that keep their names, or else are named by their numbers
            here; values that were adjusted for a covariate stay so. Without suspects it is that of all rows.
        """
        from sparsemean._fit.afterwards import without_suspects

        return without_suspects([self], X, covariate)[0]

    def summary(self, unit: str | None = None, feature: str | None = None) -> str:
        """Return the verdict, what was done, notes, and details of what is guaranteed, in lines.

        Parameters
        ----------
        unit, feature : str, optional
            What a row (or subject) and a column are called, such as "patient" and "probe"; the plural has an s.
        """
        from sparsemean.result._report.summary import summary

        return summary(self, unit, feature)

    def interval(self, features: Any, level: float = 0.95, X: Any = None, *, covariate: Any = None) -> FloatArray:
        """Return intervals that each cover with probability ``level``, for features named before seeing the data.

        Parameters
        ----------
        features : int, str or sequence of them
            By number or by name.
        level : float in (0, 1), default=0.95
            Probability with which each interval covers.
        X, covariate : array or data frame, optional
            The data of the fit, and what they were adjusted for; needed after loading or unpickling. Names, order and
            values are compared: up to 4 million, of more a part. Of a `Sketch` it is signs.

        Returns
        -------
        ndarray of shape (number of features, 2)
            Of what the fit has shown of selected features (``measure``), of centres or shifts of others.
        """
        columns = self._columns(features)
        if not columns.size:
            return np.empty((0, 2))
        if not isinstance(level, float) or not 0 < level < 1:
            raise InputError("level", "be a number between 0 and 1, both excluded", repr(level))
        from sparsemean._fit.afterwards import intervals_of, rows_of

        data = rows_of(self, X, covariate, columns)
        return intervals_of(self, columns, 1.0 - level, data.table, data)

    def trajectory(self, features: Any, n_iter: int | None = None, X: Any = None) -> FloatArray:
        """Return μ̂_t for t = 0 … n_iter of some features, a column each, in original units.

        With ``target="mean"`` it is that of single rows, which goes to their median. Groups have no paths.

        Parameters
        ----------
        features : int, str or sequence of them
            By number or by name.
        n_iter : int, optional
            Defaults to the iterations behind the values, 400 where they are its limit.
        X : array or data frame, optional
            The data of the fit: needed, and compared, as by `interval`.

        Returns
        -------
        ndarray of shape (n_iter + 1, number of features)
            The path of each feature.
        """
        if self.labels is not None or self.sample.y is not None:
            advice = "no test of groups or trends rests on iterations; interval() and plot_forest() show them"
            raise InputError("result", "be of one sample to have paths", "one of groups or of a trend", advice)
        columns, last = self._columns(features), self.plan.walk.estimate_at or DEFAULT_ITERATIONS
        if n_iter is not None:
            last = integer(n_iter, argument="n_iter", least=0, rule="be an integer of at least 0")
        from sparsemean._fit.afterwards import rows_of, walks_of

        return walks_of(self, columns, last, rows_of(self, X, columns=columns))

    def plot_path(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw |μ̂_t|: the selected features rise one after the other, the rest stays down; see `plots.plot_path`."""
        from sparsemean.plots.features import plot_path

        return plot_path(self, ax=ax, **options)

    def plot_volcano(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw how far each feature leans to one side and how small its p-value is; see `plots.plot_volcano`."""
        from sparsemean.plots.features import plot_volcano

        return plot_volcano(self, ax=ax, **options)

    def plot_forest(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the selected features with estimates and intervals, strongest first; see `plots.plot_forest`."""
        from sparsemean.plots.features import plot_forest

        return plot_forest(self, ax=ax, **options)

    def plot_rows(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw how far each row deviates from the rest, suspects named; see `plots.plot_rows`."""
        from sparsemean.plots.bad_rows import plot_rows

        return plot_rows(self, ax=ax, **options)

    def plot_robustness(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw how many features are left as contamination grows; see `plots.plot_robustness`."""
        from sparsemean.plots.bad_rows import plot_robustness

        return plot_robustness(self, ax=ax, **options)

    def plot_plan(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw what numbers of rows can find as contamination grows, and where this fit is; see `plots.plot_plan`."""
        from sparsemean.plots.plan import plot_plan

        return plot_plan(self.plan, ax=ax, **options)

    def report(self, path: str | Path, **names: Any) -> None:
        """Write one HTML page that needs no network: summary, table, linked plots and guarantees.

        Parameters
        ----------
        path : path
            The file to write.
        **names
            ``title``, ``row_names`` (one for each row), ``unit`` and ``feature`` (as in `summary`): what is shown.
        """
        from sparsemean.result._report.page import write_report

        write_report(self, path, **names)

    def save(self, path: str | Path) -> None:
        """Write the estimate to one .npz file, without the data; `sparsemean.load` reads it.

        Parameters
        ----------
        path : path
            The file to write.
        """
        from sparsemean._fit.storage import save

        save(self, path)

    def to_adata(self, adata: Any, key: str = "sparsemean") -> None:
        """Add columns to ``var`` and ``obs`` of the AnnData of the fit, and settings to ``uns``, named by ``key``."""
        from sparsemean._fit.write import to_adata

        to_adata(self, adata, key)

    def _columns(self, features: Any) -> IntArray:
        single = isinstance(features, (str, int, np.integer)) or not isinstance(features, Iterable)
        return np.array([self._column(f) for f in ([features] if single else features)], dtype=np.intp)

    def _column(self, feature: Any) -> int:
        if isinstance(feature, (int, np.integer)) and -self.mean.size <= feature < self.mean.size:
            return int(feature) % self.mean.size
        if isinstance(feature, str) and self.feature_names is not None:
            found = np.flatnonzero(self.feature_names == feature)
            if found.size:
                return int(found[0])
        raise InputError("features", f"be names of features or numbers below {self.mean.size}", repr(feature))
