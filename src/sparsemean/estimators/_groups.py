"""Rows with a label, or a number, of their own: `SparseMeanDifference` and `SparseTrend`."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

from sklearn.utils import ClassifierTags

from sparsemean._data import as_table
from sparsemean.estimators._selector import Selector, take_columns, takes_parameters


@takes_parameters
class SparseMeanDifference(Selector):
    """Find the features that differ between groups of rows, by how much, and how sure that is.

    Mann–Whitney statistics with p-values that hold when a share ε of each group is wrong, in value or in label, and
    whatever ties and zeros there are; the estimate is the Hodges–Lehmann shift, *label minus reference*. The null is
    equal distributions in both groups; intervals assume that a feature that differs is shifted by a constant and
    otherwise the same. Values are compared by their first 14 digits, in single precision by 6 below a million, so
    0.1·3 and 0.3 count as equal.

    Parameters
    ----------
    contamination : "auto", float in [0, 0.5) or pair of them, default="auto"
        Share of each group that may be wrong; a pair gives that of the reference and that of the label. A wrong label
        costs one row in each group. "auto" allows for as many as contradict their label, in both groups, a fifth at
        most: what is selected differs, or more rows are wrong than look wrong.
    reference : None, label, "rest", "each" or "pairs", default=None
        What labels are compared with. Two classes: None is the first, ``classes_[0]``. More: None and "rest" compare
        each label with all others together, "each" with every single other one (its p is the largest of these), a
        label compares every other one with it, "pairs" compares all pairs. All tests are one family of hypotheses.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        Which side counts: "greater" looks for features in which the label is larger.
    min_effect : float, default=0.0
        The smallest shift that matters: features that differ by less count as equal.
    target : {"centre", "mean"}, default="centre"
        "mean" compares means, whatever the skew and the shape of either group, given a bound of the standard deviation
        in ``scale``; the estimate is then the difference of the two roots of influence sums.
    scale : None, float, array of d numbers or earlier data, default=None
        For ``target="mean"``: an upper bound of the standard deviation in each group that is compared, a rest of
        several labels taken as one (of subjects' means, where rows come in ``groups``; of differences within
        ``pairs``). None, with ``contamination=0`` only, which "auto" then comes to: from half of the rows of each
        group, which then are not compared. A scale from data assumes a kurtosis of at most 20 and takes a tenth of the
        level.
    selection : {"fwer", "fdr", "fdr_by", "maxt"}, default="fwer"
        As in `SparseMean`; "maxt" by permutations of the labels that a test compares, within strata.
    level : float in (0, 1), default=0.05
        Error rate of the selection and of the intervals.
    missing : {"raise", "omit"}, default="raise"
        What to do about NaN: refuse it, or compare, for each feature, the rows that have a value.
    random_state : int, Generator, RandomState or None, default=0
        Deals pairs into buckets, and draws the rows that give a scale.
    n_jobs : int, default=None
        Threads; None takes every core this process may use.

    Attributes
    ----------
    classes_ : ndarray of labels
        Sorted.
    results_ : dict
        The `Estimate` of each test, by its label; by (label, reference) where all pairs are compared.
    result_ : Estimate or Comparison
        That of the only test, else all of them: table, summary, report. ``result_.beta`` is Cliff's delta.
    mean_ : ndarray of shape (d,), or (tests, d) for more than one test
        Estimated shifts in original units; zero off the support.
    support_ : ndarray of int
        Features that are selected, in any test, sorted.
    row_scores_ : ndarray of shape (n,)
        How much each row, or subject, looks like another group than its own on features that differ, in any test.
    row_weights_ : ndarray of shape (n,)
        0 for suspects, 1 for all others.
    suspects_ : ndarray of int
        Rows whose label contradicts features that tell the groups well apart, worst first; ``result_.rows.reasons``
        has these features.
    theta_ : ndarray of shape (d,) or None
        What was taken off each feature: so many times its ``covariate``, 0 where that would gain nothing.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where the input has any.

    Examples
    --------
    >>> from sparsemean import SparseMeanDifference, datasets
    >>> data = datasets.load_all_sex()
    >>> est = SparseMeanDifference(contamination=0.05).fit(data.X, data.y)
    >>> sorted(data.features[est.support_].tolist())[:3]
    ['34477_at', '35885_at', '36321_at']
    """

    _labelled = True

    contamination: float | tuple[float, float] | str = "auto"
    _: KW_ONLY
    reference: object = None
    alternative: str = "two-sided"
    min_effect: float = 0.0
    target: str = "centre"
    scale: object = None
    selection: str = "fwer"
    level: float = 0.05
    missing: str = "raise"
    random_state: object = 0
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        strata: Any = None,
        pairs: Any = None,
        covariate: Any = None,
        layer: str | None = None,
    ) -> Self:
        """Compare groups of rows.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Of any kind that `SparseMean.fit` takes.
        y : sequence of n labels, or str
            The group of each row, two or more; or the name of a column of X that says it, which then is no feature (of
            an AnnData, of obs). ``groups``, ``strata`` and ``pairs`` may be such names, too.
        groups : sequence of n labels, optional
            The subject, donor or user of each row, where there are several rows of one: they are not independent. Each
            subject then counts once, by the mean of its rows, and must be in one group.
        strata : sequence of n labels, optional
            Batch, site or country of each row: rows are compared within strata only. Not with ``target="mean"``.
        pairs : sequence of n labels, optional
            The pair of each row, one row in each of two groups: differences within pairs are tested, as by
            `SparseMean`. Then a pair is bad if either row is.
        covariate : array or data frame, or a pair of them, optional
            Values of the same metrics from before rows were given their labels, such as those of the week before an
            experiment: an array of X's shape, or a frame with some of its columns, rows in the order of X, NaN where
            nothing is known. What they predict is taken off X (CUPED). A pair ``(earlier, later)`` is of two stretches
            as long as that of X: then bad rows can do no more than without it.
        layer : str, optional
            The layer of an AnnData that is meant, in place of its X.

        Returns
        -------
        SparseMeanDifference
            The fitted estimator itself.
        """
        from sparsemean._fit.two_sample import compare  # one sample has no need of it

        X, given = take_columns(X, y=y, groups=groups, strata=strata, pairs=pairs)
        found = compare(as_table(X, layer=layer), covariate=covariate, **given, **self.get_params(deep=False))
        self.classes_ = found.classes
        self.results_ = found.results
        self.theta_ = next(iter(found.results.values())).theta
        self._name(X, found.result.feature_names)
        return self._take(found.result, X)


@takes_parameters
class SparseTrend(Selector):
    """Find the features that rise or fall with a number of each row: a dose, an age, a time, a stage of disease.

    Kendall's S with p-values that hold when a share ε of the rows is wrong, in value or in y, and whatever ties there
    are; the null is that values have one distribution whatever y is, that of Jonckheere and Terpstra's test. The
    estimate is Theil and Sen's slope, the median of the slopes of all pairs of rows, in units of X per unit of y; its
    interval assumes that values less a slope times y have one distribution. Only the order of y counts for p-values.

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share of rows that may be wrong. "auto" allows for as many as deviate together from the trends, a fifth at most.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        Which side counts: "greater" looks for features that rise.
    selection : {"fwer", "fdr", "fdr_by"}, default="fwer"
        As in `SparseMean`.
    level : float in (0, 1), default=0.05
        Error rate of the selection and of the intervals.
    missing : {"raise", "omit"}, default="raise"
        What to do about NaN in X: refuse it, or use, for each feature, the rows that have a value.
    n_jobs : int, default=None
        Threads; None takes every core this process may use.

    Attributes
    ----------
    result_ : Estimate
        Everything that is known: table, summary, report. ``result_.beta`` is Kendall's τ (of pairs of different y).
    mean_ : ndarray of shape (d,)
        Slopes; zero off the support.
    support_ : ndarray of int
        Features that are selected, sorted.
    row_scores_, row_weights_ : ndarray of shape (n,)
        How far each row lies from the trends, and 0 for suspects, 1 for all others.
    suspects_ : ndarray of int
        Rows that contradict the rest, worst first.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where the input has any.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemean import SparseTrend
    >>> rng = np.random.default_rng(0)
    >>> dose = np.repeat([0, 1, 2, 4], 15)
    >>> X = rng.standard_normal((60, 200))
    >>> X[:, :3] += dose[:, None] * [1.0, -1.0, 0.8]
    >>> SparseTrend().fit(X, dose).support_
    array([0, 1, 2])
    """

    _labelled = True

    contamination: float | str = "auto"
    _: KW_ONLY
    alternative: str = "two-sided"
    selection: str = "fwer"
    level: float = 0.05
    missing: str = "raise"
    n_jobs: int | None = None

    def fit(self, X: Any, y: object, *, strata: object = None, layer: str | None = None) -> Self:
        """Hold the values of rows against a number of each.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Of any kind that `SparseMean.fit` takes, in memory or in a file.
        y : sequence of n numbers or dates, or str
            The dose, age or time of each row; or the name of a column of X (of an AnnData, of obs) that says it, which
            then is no feature. ``strata`` may be such a name, too. Dates are taken as days from the first one on.
        strata : sequence of n labels, optional
            Batch, plate or site of each row, or the subject where each has rows at several times: rows are compared
            within strata only.
        layer : str, optional
            The layer of an AnnData that is meant, in place of its X.

        Returns
        -------
        SparseTrend
            The fitted estimator itself.
        """
        from sparsemean._fit.one_sample import trend  # groups have no need of it

        X, given = take_columns(X, y=y, strata=strata)
        result = trend(as_table(X, layer=layer), **given, **self.get_params(deep=False))
        self._name(X, result.feature_names)
        return self._take(result, X)
