"""One sample: `SparseMean`."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from sparsemean._data import as_table
from sparsemean._data.gpu import sent
from sparsemean._evidence.counting.merging import append_rows
from sparsemean._evidence.counting.sketch import Sketch, check_unchanged, no_means, sketch
from sparsemean._fit.one_sample import fit
from sparsemean._fit.theorems import theory_settings
from sparsemean._stats import planning
from sparsemean.errors import InputError
from sparsemean.estimators._selector import MADE_OF_ROWS, Selector, is_foreign, take_columns, takes_parameters

COUNTING = ("random_state", "bucket_sizes", "null", "missing")
"""Parameters that the counts of its rows depend on."""


@takes_parameters
class SparseMean(Selector):
    """Find the features whose mean is not zero, estimate it, and say how sure that is.

    Each feature is tested by signed ranks of its values, or by the signs of means of small buckets of rows, with
    p-values that hold against any replacement of ⌈εn⌉ rows (see the page on guarantees).

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share ε of rows that may be arbitrary. "auto" assumes that the suspicious rows are bad, those that deviate in
        the same direction, a fifth of all at most: what is selected is real, or more rows are bad. It assumes none
        where rows are not screened (``screen_rows=False``), and is refused between `partial_fit` and `complete`, as
        counts alone do not tell which rows are suspicious. The paper's rule and numbers of buckets rest on a share:
        there it is 0.1, as in the paper's experiments. ``result_.at`` decides again for another share.
    selection : {"fwer", "fdr", "fdr_by", "maxt", "paper"}, default="fwer"
        Holm (no false feature at all, with probability 1 − level, against any adversary); Benjamini–Hochberg (share of
        false features, independence or positive dependence and no adversary); Benjamini–Yekutieli (the same under any
        dependence and any adversary); the step-down maximum of t under common sign flips (no false feature at all;
        where no row is bad it finds more of features that are alike, and assumes that rows of false features are
        symmetric as a whole); the paper's rule (no error rate).
    level : float in (0, 1), default=0.05
        Error rate of the selection and of the intervals.
    test : {"auto", "ranks", "buckets"}, default="auto"
        What features are tested by: signed ranks of rows, which need no seed and find smaller means, or signs of means
        of small buckets, which are counted in one pass and add up. "auto" takes ranks up to 20,000 rows, and buckets
        beyond, where bucket sizes are named, in `partial_fit` and for the paper's rule; ``result_.plan.test`` says
        which.
    target : {"centre", "mean"}, default="centre"
        What is tested and estimated: the centre of symmetric noise, or the mean, whatever the skew. The mean asks for a
        ``scale``; its values are roots of the influence sum, from all rows.
    scale : None, float, array of d numbers or earlier data, default=None
        For ``target="mean"``: an upper bound of the standard deviation (of a subject's mean, where rows come in
        groups), one for each feature, or earlier data with the same columns to take it from. None: without
        contamination half of the rows, drawn by the seed, give it and the others are tested; with contamination it is
        refused. A scale from data assumes a kurtosis of at most 20 and takes a tenth of the level.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        Which side counts: "greater" looks for means above the null value.
    min_effect : float, default=0.0
        The smallest distance from the null value that matters. With one side it may be taken off ``null`` instead, for
        means that are not lower than that.
    bucket_sizes : "auto" or tuple of int, default="auto"
        Rising powers of two up to 64; "auto" is (1, 2, 4). Beside ranks they are for β, entry times and paths.
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
        Score rows by the features off the support and on it, and leave out of the refinement those that contradict the
        rest. Support, p-values, intervals and radius are those of all rows either
        way, and so are values that are not refined or are refined on buckets.
    null : float or array of d numbers, default=0.0
        The means that are tested against. Values that differ from it by rounding only count as equal to it.
    missing : {"raise", "omit"}, default="raise"
        What to do about NaN: refuse it, or take a bucket's mean over the values that are there and leave out, for each
        feature, buckets that have none. The page on guarantees says what is then assumed about why they are missing.
    random_state : int, Generator, RandomState or None, default=0
        Assigns the rows to buckets and, of very many features, draws those that rows are judged by. Where signs of
        buckets select it may be known to anyone, but must not be chosen after seeing what it selects: the best of 20
        seeds has a family-wise error of .23 at level .05. None draws one; ``result_.seed`` has it. With ranks no choice
        of it raises the error, and None is 0.
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

    contamination: float | str = "auto"
    _: KW_ONLY
    selection: str = "fwer"
    level: float = 0.05
    test: str = "auto"
    target: str = "centre"
    scale: object = None
    alternative: str = "two-sided"
    min_effect: float = 0.0
    bucket_sizes: Any = "auto"
    n_buckets: int | str | None = None
    step_size: float = planning.PAPER_ETA
    init_scale: float = planning.PAPER_ALPHA
    n_iter: int | tuple[int, int] | None = None
    min_selected: int = 0
    refine: Any = "auto"
    refine_on: str = "rows"
    screen_rows: bool = True
    null: Any = 0.0
    missing: str = "raise"
    random_state: object = 0
    n_jobs: int | None = None
    device: str | None = None

    @classmethod
    def paper(
        cls,
        contamination: float = planning.PAPER_CONTAMINATION,
        refine: Any = None,
        refine_on: str = "rows",
        *,
        theory: Any = None,
        **params: Any,
    ) -> Self:
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
        theory : dict, optional
            Its keys ``n`` and ``d`` (rows, features), ``sigma`` and ``mu_max`` (largest mean) give J, α, η and T as
            Theorem 1 asks, not as in the paper's experiments. What it asks of data is in ``plan(n, d).outlook``.
        **params
            Any other parameter of `SparseMean`, in place of the published value.

        Returns
        -------
        SparseMean
            Not fitted yet. Its selection has no error rate.
        """
        settings = {} if theory is None else theory_settings(contamination, theory)
        return cls(contamination, **{**planning.PRESET, **settings, "refine": refine, "refine_on": refine_on, **params})

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, layer: str | None = None) -> Self:  # noqa: ARG002
        """Fit rows of observations.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Rows are observations. Objects of NumPy, pandas, polars, pyarrow, scipy.sparse, AnnData, zarr, h5py and dask
            and arrays on a GPU are read where they lie.
        y : None
            Ignored; scikit-learn's convention.
        groups : sequence of n labels, or str, optional
            Rows with one label belong to one subject: they share a bucket and count once for the contamination. Or the
            name of a column of X that has these labels, which then is no feature.
        layer : str, optional
            The layer of an AnnData that is meant, in place of its X.

        Returns
        -------
        SparseMean
            The fitted estimator itself.
        """
        if isinstance(groups, str):
            X, given = take_columns(X, groups=groups)
            groups = given["groups"]
        result = fit(as_table(X, layer=layer), groups=groups, **self.get_params(deep=False))
        for name in ("sketch_", "n_samples_seen_"):
            self.__dict__.pop(name, None)
        self._name(X, result.feature_names)
        return self._take(result, X)

    @available_if(lambda self: self.n_buckets is None and self.selection != "paper")
    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Count some more rows, at least one, which come after those of earlier calls; nothing else of them is kept.

        The first call starts a stream and fixes features, seed, bucket sizes, null value and missing values; `fit`
        ends it. Support, p-values and all else that rests on counts are those of one fit of all rows with
        ``test="buckets"``, and are computed when they are first asked for; that takes a ``contamination`` that
        is named, 0 if no row is to be assumed bad. ``mean_`` is NaN on the support until `complete` has read the rows
        again.

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
        if self.target != "centre":
            raise no_means()
        table = sent(as_table(X), self.device)
        if "sketch_" not in self.__dict__:
            counted = sketch(table, n_jobs=self.n_jobs, **{name: getattr(self, name) for name in COUNTING})
            self._name(X, table.feature_names)
        else:
            check_unchanged(self.sketch_, **{name: getattr(self, name) for name in COUNTING})
            if not is_foreign(X):
                validate_data(self, X, skip_check_array=True, reset=False)
            counted = append_rows(self.sketch_, table, n_jobs=self.n_jobs)
        for name in MADE_OF_ROWS:
            self.__dict__.pop(name, None)
        self.sketch_: Sketch = counted
        self.n_samples_seen_: int = counted.n_rows
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
        except InputError as error:  # of an attribute that is asked for, so that hasattr() says no
            raise NotFittedError(str(error)) from error

    def _deciding(self) -> dict[str, Any]:
        """Return the parameters that counting does not depend on."""
        counting = ("random_state", "null", "missing", "n_buckets", "n_jobs", "device")
        return {name: value for name, value in self.get_params(deep=False).items() if name not in counting}
