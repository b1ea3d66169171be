"""Thin scikit-learn classes around `sparsemean.fitting`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsemean import planning
from sparsemean.estimate import Estimate
from sparsemean.fitting import sparse_mean
from sparsemean.records import FloatArray, IntArray


class SparseMean(SelectorMixin, BaseEstimator):
    """Estimate a sparse mean and select the features that have one.

    Until rules with an error rate arrive, the defaults are those of the paper's Algorithm 1, Stage 1
    (`SparseMean.paper`).

    Parameters
    ----------
    contamination : float in [0, 0.5), default=0.05
        Share of rows that may be arbitrary.
    selection : {"paper"}, default="paper"
        The rule that makes the support.
    n_buckets : "paper", "theory" or int, default="paper"
        Number of buckets: min(⌊1.5⌈εn⌉ + 150⌋, ⌊n/2⌋), 100⌈εn⌉ (at most n), or a number.
    step_size : float, default=0.05
        η of the subgradient method.
    init_scale : float, default=1e-5
        α of the subgradient method, also the threshold of the rule. It is in the units of the data.
    n_iter : int or pair of int, default=(200, 600)
        Iterations after which the support is read, and those after which the values are.
    min_selected : int, default=2
        Where fewer features pass, this many with the largest |μ̂| are taken.
    random_state : None, int, Generator or RandomState, default=None
        Deals the rows into buckets. None draws a seed; ``result_.seed`` has it.
    n_jobs : int, default=None
        Threads; None takes every core this process may use.

    Attributes
    ----------
    mean_ : (d,) array
        Estimated means in original units, zero off the support.
    support_ : array of int
        Selected features, sorted.
    result_ : Estimate
        Everything else: table, summary, entry times, trajectories.

    Examples
    --------
    >>> from sparsemean import SparseMean, simulate
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
    >>> est = SparseMean.paper(contamination=0.1, random_state=0).fit(data.X)
    >>> est.support_
    array([0, 1, 2, 3])
    >>> est.transform(data.X).shape
    (600, 4)
    """

    def __init__(
        self,
        contamination: float = 0.05,
        *,
        selection: str = "paper",
        n_buckets: int | str = "paper",
        step_size: float = planning.PAPER_ETA,
        init_scale: float = planning.PAPER_ALPHA,
        n_iter: int | tuple[int, int] = planning.PAPER_ITERATIONS,
        min_selected: int = planning.PAPER_MIN_SELECTED,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.contamination = contamination
        self.selection = selection
        self.n_buckets = n_buckets
        self.step_size = step_size
        self.init_scale = init_scale
        self.n_iter = n_iter
        self.min_selected = min_selected
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def paper(cls, contamination: float = 0.1, **params: Any) -> Self:
        """Return the estimator of Algorithm 1, Stage 1, exactly as published."""
        published = {
            "selection": "paper",
            "n_buckets": "paper",
            "step_size": planning.PAPER_ETA,
            "init_scale": planning.PAPER_ALPHA,
            "n_iter": planning.PAPER_ITERATIONS,
            "min_selected": planning.PAPER_MIN_SELECTED,
        }
        return cls(contamination, **{**published, **params})

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit rows of observations; ``y`` is ignored."""
        self.result_: Estimate = sparse_mean(X, **self.get_params(deep=False))
        validate_data(self, X, skip_check_array=True, reset=True)
        self.mean_: FloatArray = self.result_.mean
        self.support_: IntArray = self.result_.support
        return self

    def _get_support_mask(self) -> npt.NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(self.mean_.size, dtype=bool)
        mask[self.support_] = True
        return mask
