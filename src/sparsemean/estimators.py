"""The scikit-learn estimators: parameters and attributes around the pipeline of `sparsemean._fit`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsemean._counts.merging import append_rows
from sparsemean._counts.sketch import Sketch, check_unchanged, sketch_table
from sparsemean._data import as_table
from sparsemean._data.gpu import lies_on_device, like, sent
from sparsemean._fit.one_sample import sparse_mean
from sparsemean._fit.two_sample import compare
from sparsemean._stats import planning
from sparsemean._stats.planning import MIN_ROWS
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.comparison import Comparison
from sparsemean.errors import InputError
from sparsemean.result import Estimate


def _is_foreign(X: Any) -> bool:
    """Whether scikit-learn would not know how to read ``X``."""
    return type(X).__module__.partition(".")[0] in ("anndata", "h5py", "zarr", "pyarrow", "dask", "cupy", "torch")


MADE_OF_ROWS = ("result_", "mean_", "support_", "row_scores_", "row_weights_", "suspects_")
"""What `SparseMean.partial_fit` leaves to be computed when it is asked for."""
COUNTING = ("random_state", "bucket_sizes", "noise", "null", "missing")
"""Parameters that the counts of its rows depend on."""


class _Selector(SelectorMixin, BaseEstimator):
    """What the estimators share: an `Estimate` read the scikit-learn way."""

    def _read(self, X: Any, result: Estimate | Comparison) -> Self:
        self._name(X, result.feature_names)
        self._take(result)
        if lies_on_device(X):  # what scikit-learn's users expect: attributes lie where the data do
            for name in set(MADE_OF_ROWS[1:]) & set(vars(self)):
                setattr(self, name, like(X, getattr(self, name)))
        return self

    def _name(self, X: Any, names: Any) -> None:
        """Take the number of features and their names over."""
        validate_data(self, X, skip_check_array=True, reset=True)
        if _is_foreign(X) and names is not None:  # names that scikit-learn overlooks
            self.feature_names_in_ = names

    def _take(self, result: Estimate | Comparison) -> Self:
        """Take the attributes over that an estimate has."""
        self.result_ = result
        self.mean_: FloatArray = result.mean
        self.support_: IntArray = result.support
        if result.rows is not None:
            self.row_scores_: FloatArray = result.rows.scores
            self.row_weights_: FloatArray = result.rows.weights
            self.suspects_: IntArray = result.rows.suspects
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.get_params()["missing"] == "omit"
        return tags

    def transform(self, X: Any) -> Any:
        """Return the selected columns of ``X``.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Of any kind that ``fit`` takes, with the features of the fit.

        Returns
        -------
        array of shape (n, number of selected features)
            Of the kind of ``X`` where that is possible.
        """
        if not _is_foreign(X):
            return super().transform(X)
        check_is_fitted(self)
        table = as_table(X)
        if table.shape[1] != self.n_features_in_:
            raise InputError("X", f"have the {self.n_features_in_} features of the fit", table.shape[1])
        fitted = self.result_.feature_names
        if fitted is not None and table.feature_names is not None and (other := fitted != table.feature_names).any():
            at = int(other.argmax())
            received = f"{table.feature_names[at]!r} in place of {fitted[at]!r} in column {at}"
            raise InputError("X", "have the features of the fit in their order", received)
        return table.source.select(self.result_.support)

    def _get_support_mask(self) -> npt.NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.result_.support] = True
        return mask


class SparseMean(_Selector):
    """Find the features whose mean is not zero, estimate it, and say how sure that is.

    Each feature is tested by the signs of means of small buckets of rows, with p-values that hold against any
    replacement of ⌈εn⌉ rows (see the page on guarantees).

    Parameters
    ----------
    contamination : float in [0, 0.5), default=0.05
        Share ε of rows that may be arbitrary. Whoever cannot name it reads ``max_contamination`` in the table.
    selection : {"fwer", "fdr", "fdr_by", "paper"}, default="fwer"
        Holm (no false feature at all, with probability 1 − level, against any adversary); Benjamini–Hochberg (share of
        false features, independence or positive dependence and no adversary); Benjamini–Yekutieli (the same under any
        dependence and any adversary); the paper's rule (no error rate).
    level : float in (0, 1), default=0.05
        Error rate of the selection and of the intervals.
    noise : {"symmetric", "skewed"}, default="symmetric"
        What is assumed of a feature without a mean. "skewed" cancels skewness to first order, for contamination up to
        about 3 %; it is refused beyond 2,500 rows and for columns of which one value makes up more than a quarter.
    bucket_sizes : "auto" or tuple of int, default="auto"
        Rising powers of two up to 64; "auto" is (1, 2, 4).
    n_buckets : None, "paper", "theory" or int, default=None
        One size, the paper's way: min(⌊1.5⌈εn⌉ + 150⌋, ⌊n/2⌋), 100⌈εn⌉ (at most n), or a number of buckets.
    step_size : float, default=0.05
        Step size η of the subgradient method, for paths and for the paper's rule.
    init_scale : float, default=1e-5
        Initial scale α of the subgradient method, for paths and for the paper's rule.
    n_iter : None, int or pair of int, default=None
        Iterations after which the paper's rule reads the support and after which values are read; None: 200, and the
        limit of the iteration, the median of the bucket means.
    min_selected : int, default=0
        The paper's rule takes this many features with the largest |μ̂| where fewer pass.
    refine : "auto", None, name or callable, default="auto"
        How values on the support are computed from the rows that screening leaves. "auto": from rows that agree, by the
        location estimator with the smallest standard error. None: the limit of the iteration. A name: a method of
        ``baselines.names()``, "gd" and "filter" among them. A callable: ``(X_support, contamination) -> mean``. Methods
        and callables are given the share of the rows left that may still be wrong: a rejected row is counted as a bad
        one that is gone.
    refine_on : {"rows", "buckets"}, default="rows"
        What the refinement works on.
    screen_rows : bool, default=True
        Score rows by the features off the support and leave out of the refinement those that contradict the rest, no
        more than the contamination explains. Support, p-values, intervals and radius are those of all rows either
        way, and so are values that are not refined or are refined on buckets.
    null : float or array of d numbers, default=0.0
        The means that are tested against.
    missing : {"raise", "omit"}, default="raise"
        What to do about NaN: refuse it, or take a bucket's mean over the values that are there and leave out, for each
        feature, buckets that have none. The page on guarantees says what is then assumed about why they are missing.
    random_state : int, Generator, RandomState or None, default=0
        Assigns the rows to buckets. It may be known to anyone, but must not be chosen after seeing what it selects: the
        best of 20 seeds has a family-wise error of .23 at level .05. None draws one; ``result_.seed`` has it.
    n_jobs : int, default=None
        Threads; None takes every core this process may use.
    device : None, "cpu" or "gpu", default=None
        Where to count: where the data lie, or on a GPU to which data on the host are sent in pieces.

    Attributes
    ----------
    mean_ : ndarray of shape (d,)
        Estimated means in original units; ``null`` (zero) off the support.
    support_ : ndarray of int
        Selected features, sorted.
    suspects_ : ndarray of int
        Rejected rows, worst first.
    row_scores_ : ndarray of shape (n,)
        How far each row contradicts the rest; larger is worse.
    row_weights_ : ndarray of shape (n,)
        1 for a row that is trusted, 0 for one that was rejected.
    result_ : Estimate
        Everything else: table, summary, p-values, intervals, radius, paths.
    sketch_ : Sketch
        After `partial_fit`: what was counted, to be saved or merged with others.
    n_samples_seen_ : int
        After `partial_fit`: the number of rows counted.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where the input has any.

    Examples
    --------
    >>> from sparsemean import SparseMean, simulate
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
    >>> est = SparseMean(contamination=0.1, random_state=0).fit(data.X)
    >>> est.support_
    array([0, 1, 2, 3])
    >>> sorted(est.suspects_) == sorted(data.corrupted)
    True
    >>> est.transform(data.X).shape
    (600, 4)
    """

    def __init__(
        self,
        contamination: float = 0.05,
        *,
        selection: str = "fwer",
        level: float = 0.05,
        noise: str = "symmetric",
        bucket_sizes: Any = "auto",
        n_buckets: int | str | None = None,
        step_size: float = planning.PAPER_ETA,
        init_scale: float = planning.PAPER_ALPHA,
        n_iter: int | tuple[int, int] | None = None,
        min_selected: int = 0,
        refine: Any = "auto",
        refine_on: str = "rows",
        screen_rows: bool = True,
        null: Any = 0.0,
        missing: str = "raise",
        random_state: Any = 0,
        n_jobs: int | None = None,
        device: str | None = None,
    ) -> None:
        self.contamination = contamination
        self.selection = selection
        self.level = level
        self.noise = noise
        self.bucket_sizes = bucket_sizes
        self.n_buckets = n_buckets
        self.step_size = step_size
        self.init_scale = init_scale
        self.n_iter = n_iter
        self.min_selected = min_selected
        self.refine = refine
        self.refine_on = refine_on
        self.screen_rows = screen_rows
        self.null = null
        self.missing = missing
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device

    @classmethod
    def paper(cls, contamination: float = 0.1, refine: Any = None, refine_on: str = "rows", **params: Any) -> Self:
        """Return the estimator of Algorithm 1 exactly as published.

        Parameters
        ----------
        contamination : float in [0, 0.5), default=0.1
            Share ε of rows that may be arbitrary.
        refine : None, "gd", "sparse_gd", "filter", name or callable, default=None
            None is Stage 1, "gd" is full_GD (dense_gd), "sparse_gd" the full_GD of the figures on k and ε, and "filter"
            is full_filter (sparse_filter).
        refine_on : {"rows", "buckets"}, default="rows"
            "buckets" is the full method of Fig 2c.
        **params
            Any other parameter of `SparseMean`, in place of the published value.

        Returns
        -------
        SparseMean
            Not fitted yet. Its selection has no error rate.
        """
        return cls(contamination, **{**planning.PRESET, "refine": refine, "refine_on": refine_on, **params})

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:  # noqa: ARG002
        """Fit rows of observations.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Rows are observations. Objects of NumPy, pandas, polars, pyarrow, scipy.sparse, AnnData, zarr, h5py and dask
            and arrays on a GPU are read where they lie.
        y : None
            Ignored; scikit-learn's convention.
        groups : sequence of n labels, optional
            Rows with one label belong to one subject: they share a bucket and count once for the contamination.

        Returns
        -------
        SparseMean
            The fitted estimator itself.
        """
        result = sparse_mean(X, groups=groups, **self.get_params(deep=False))
        self._forget("sketch_", "n_samples_seen_")
        return self._read(X, result)

    @available_if(lambda self: self.n_buckets is None and self.selection != "paper")
    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Count some more rows, at least one, which come after those of earlier calls; nothing else of them is kept.

        The first call starts a stream and fixes features, seed, bucket sizes, null value and missing values; `fit`
        ends it. Support, p-values and all else that rests on counts are those of one fit of all rows, and are computed
        when they are first asked for. ``mean_`` is NaN on the support until `complete` has read the rows again.

        Parameters
        ----------
        X : array or data frame of shape (m, d)
            The next rows, of any kind that `fit` takes.
        y : None
            Ignored.

        Returns
        -------
        SparseMean
            The estimator itself.
        """
        table = sent(as_table(X), self.device)
        if "sketch_" not in self.__dict__:
            sketch = sketch_table(table, n_jobs=self.n_jobs, **{name: getattr(self, name) for name in COUNTING})
            self._name(X, table.feature_names)
        else:
            check_unchanged(self.sketch_, **{name: getattr(self, name) for name in COUNTING})
            if not _is_foreign(X):
                validate_data(self, X, skip_check_array=True, reset=False)
            sketch = append_rows(self.sketch_, table, n_jobs=self.n_jobs)
        self._forget(*MADE_OF_ROWS)
        self.sketch_: Sketch = sketch
        self.n_samples_seen_: int = sketch.n_rows
        return self

    def complete(self, X: Any) -> Self:
        """Read all rows of the calls of `partial_fit` again, in order, for estimates, intervals and suspect rows.

        Only the selected columns are read, and those by which rows are scored.

        Parameters
        ----------
        X : array, data frame or iterable of chunks
            All rows, in the order in which they were counted.

        Returns
        -------
        SparseMean
            The estimator itself.
        """
        if "sketch_" not in self.__dict__:
            raise NotFittedError("complete must come after partial_fit: no rows have been counted yet")
        if X is None:
            raise InputError("X", "be given: all rows of the calls of partial_fit, in order", None)
        return self._take(self.sketch_.estimate(X, n_jobs=self.n_jobs, **self._deciding()))

    def __getattr__(self, name: str) -> Any:
        """Infer from what was counted the first time that it is asked for."""
        if name in MADE_OF_ROWS and "sketch_" in self.__dict__:
            if "result_" not in self.__dict__:
                self._conclude()
            if name in self.__dict__:
                return self.__dict__[name]
            raise NotFittedError(f"{name} needs the rows again: complete(X)")
        if name == "partial_fit":
            raise AttributeError(
                "partial_fit must be used without n_buckets and selection='paper', whose dealing needs all rows at "
                f"once: got n_buckets={self.n_buckets!r}, selection={self.selection!r}"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _conclude(self) -> None:
        try:
            self._take(self.sketch_.estimate(**self._deciding()))
        except InputError as error:
            if self.sketch_.n_rows >= MIN_ROWS:
                raise
            raise NotFittedError(str(error)) from error

    def _deciding(self) -> dict[str, Any]:
        """Return the parameters that counting does not depend on."""
        counting = ("random_state", "null", "missing", "n_buckets", "n_jobs", "device")
        return {name: value for name, value in self.get_params(deep=False).items() if name not in counting}

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)


class SparseMeanDifference(_Selector):
    """Find the features that differ between groups of rows, by how much, and how sure that is.

    Mann–Whitney statistics with p-values that hold when a share ε of each group is wrong, in value or in label, and
    whatever ties and zeros there are; the estimate is the Hodges–Lehmann shift, *label minus reference*. The null is
    equal distributions in both groups; intervals assume that a feature that differs is shifted by a constant and
    otherwise the same.

    Parameters
    ----------
    contamination : float in [0, 0.5) or pair of them, default=0.05
        Share of each group that may be wrong; a pair gives that of the reference and that of the label. A wrong label
        costs one row in each group.
    reference : None, label, "rest" or "pairs", default=None
        What labels are compared with. Two classes: None is the first, ``classes_[0]``. More: None and "rest" compare
        each label with all others together, a label compares every other one with it, "pairs" compares all pairs. All
        tests are one family of hypotheses.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        Which side counts: "greater" looks for features in which the label is larger.
    min_effect : float, default=0.0
        The smallest shift that matters: features that differ by less count as equal.
    selection : {"fwer", "fdr", "fdr_by"}, default="fwer"
        As in `SparseMean`.
    level : float in (0, 1), default=0.05
        Error rate of the selection and of the intervals.
    missing : {"raise", "omit"}, default="raise"
        What to do about NaN: refuse it, or compare, for each feature, the rows that have a value.
    random_state : int, Generator, RandomState or None, default=0
        Draws rows of subjects, where ``groups`` have different numbers of them, and deals pairs into buckets.
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

    def __init__(
        self,
        contamination: float | tuple[float, float] = 0.05,
        *,
        reference: Any = None,
        alternative: str = "two-sided",
        min_effect: float = 0.0,
        selection: str = "fwer",
        level: float = 0.05,
        missing: str = "raise",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.contamination = contamination
        self.reference = reference
        self.alternative = alternative
        self.min_effect = min_effect
        self.selection = selection
        self.level = level
        self.missing = missing
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.classifier_tags = ClassifierTags()
        return tags

    def fit(self, X: Any, y: Any, *, groups: Any = None, strata: Any = None, pairs: Any = None) -> Self:
        """Compare groups of rows.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Of any kind that `SparseMean.fit` takes.
        y : sequence of n labels
            The group of each row, two or more.
        groups : sequence of n labels, optional
            The subject, donor or user of each row, where there are several rows of one: they are not independent. Each
            subject then counts once, by the mean of equally many rows, and must be in one group.
        strata : sequence of n labels, optional
            Batch, site or country of each row: rows are compared within strata only.
        pairs : sequence of n labels, optional
            The pair of each row, one row in each of two groups: differences within pairs are tested, as by
            `SparseMean`. Then a pair is bad if either row is.

        Returns
        -------
        SparseMeanDifference
            The fitted estimator itself.
        """
        if y is None:
            raise InputError("y", "be given: requires y to be passed, but the target y is None", None)
        params = self.get_params(deep=False)
        found = compare(
            as_table(X), y, groups=groups, strata=strata, pairs=pairs, selection_rule=params.pop("selection"), **params
        )
        self.classes_ = found.classes
        self.results_ = found.results
        return self._read(X, found.result)
