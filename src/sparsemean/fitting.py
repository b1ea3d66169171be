"""The only conductor: a pass over the rows, the path of every feature, the selection, the values."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sparsemean import path, planning, selection
from sparsemean.errors import InputError
from sparsemean.estimate import Estimate
from sparsemean.partition import deal
from sparsemean.passes import memory
from sparsemean.randomness import draw_seed
from sparsemean.records import Evidence, FloatArray, IntArray, Partition, Plan, Selection, Status
from sparsemean.sources import as_table
from sparsemean.sources.table import Table

Progress = Callable[[float], None]


def sparse_mean(
    X: Any,
    *,
    feature_names: Any = None,
    contamination: float = 0.05,
    selection: str = "paper",
    n_buckets: int | str = "paper",
    step_size: float = planning.PAPER_ETA,
    init_scale: float = planning.PAPER_ALPHA,
    n_iter: int | tuple[int, int] = planning.PAPER_ITERATIONS,
    min_selected: int = planning.PAPER_MIN_SELECTED,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Estimate:
    """Find the features of ``X`` whose mean is not zero and estimate it, in one call.

    At present this is Stage 1 of Algorithm 1 exactly as published; rules with an error rate come later.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        Rows are observations. Arrays of any real type and layout, memory maps included, are read where they lie.
    feature_names : sequence of d names, optional
        Defaults to the column names of a data frame, else the features are numbered.
    contamination : float in [0, 0.5)
        Share of rows that may be arbitrary.
    selection : {"paper"}
        The rule that makes the support.
    n_buckets : "paper", "theory" or int
        min(⌊1.5⌈εn⌉ + 150⌋, ⌊n/2⌋) as in the paper's experiments, 100⌈εn⌉ (at most n) as in its theorem, or a number.
    step_size, init_scale : float
        η and α of the subgradient method.
    n_iter : int or pair of int
        Iterations after which the support is read, and those after which the values are.
    min_selected : int
        Where fewer features pass, this many with the largest |μ̂| are taken.
    random_state : None, int or NumPy generator
        Deals the rows into buckets; None draws a seed, which is stored in the result.
    n_jobs : int, optional
        Threads; None takes every core this process may use.

    Examples
    --------
    >>> from sparsemean import simulate, sparse_mean
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
    >>> sparse_mean(data.X, contamination=0.1, random_state=0).support
    array([0, 1, 2, 3])
    """
    if selection != "paper":
        raise InputError("selection", "be 'paper', the only rule so far", repr(selection))
    return fit(
        as_table(X, feature_names),
        random_state=random_state,
        n_jobs=n_jobs,
        contamination=contamination,
        n_buckets=n_buckets,
        step_size=step_size,
        init_scale=init_scale,
        n_iter=n_iter,
        min_selected=min_selected,
    )


def fit(
    table: Table,
    *,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Estimate:
    """Fit a table; ``options`` are those of `planning.paper_plan`, ``progress`` is told the share of the pass done."""
    began = time.perf_counter()
    plan = planning.paper_plan(*table.values.shape, **options)
    seed = draw_seed(random_state)
    partition = deal(plan, seed)
    evidence = memory.count(table, partition, n_jobs=n_jobs, progress=progress)
    walks = _Walks(table, partition, plan, n_jobs)
    mu, walked = _select_at(walks, evidence)
    chosen = selection.by_paper(mu, alpha=plan.alpha, min_selected=plan.min_selected)
    mean = np.zeros(plan.n_features)
    if chosen.support.size:
        mean[chosen.support] = walks.values(chosen.support, plan.estimate_at)
    status = Status(
        messages=(*table.notes, *_remarks(plan, chosen)),
        walked=int(np.union1d(walked, chosen.support).size),
        seconds=time.perf_counter() - began,
    )
    return Estimate(
        mean=mean,
        support=chosen.support,
        evidence=evidence,
        bucket_of_row=partition.bucket_of_row,
        feature_names=table.feature_names,
        plan=plan,
        selection=chosen,
        seed=seed,
        status=status,
        source=table,
    )


class _Walks:
    """Bucket means of few features, read again and walked step by step."""

    def __init__(self, table: Table, partition: Partition, plan: Plan, n_jobs: int | None) -> None:
        self.table, self.partition, self.plan, self.n_jobs = table, partition, plan, n_jobs

    def values(self, columns: IntArray, t: int) -> FloatArray:
        """Return μ̂ after ``t`` steps."""

        def work(means: FloatArray) -> FloatArray:
            return path.walk(means, alpha=self.plan.alpha, eta=self.plan.eta, times=(t,))

        walked = memory.map_means(self.table, self.partition, columns, work, n_jobs=self.n_jobs)
        return np.asarray(walked[0])


def _select_at(walks: _Walks, evidence: Evidence) -> tuple[FloatArray, IntArray]:
    """Return μ̂ where the support is read, and the features that had to be walked for it."""
    plan = walks.plan
    counts = (evidence.counts.positive[0], evidence.counts.negative[0], evidence.n_buckets[0])
    mu = path.free_walk(*counts, alpha=plan.alpha, eta=plan.eta, t=plan.select_at)
    walked = path.unfinished(evidence, mu, alpha=plan.alpha, eta=plan.eta)
    if walked.size:
        mu[walked] = walks.values(walked, plan.select_at)
    if np.count_nonzero(np.abs(mu) >= plan.alpha) < plan.min_selected:
        close = path.contenders(mu, plan.min_selected)
        mu[close] = walks.values(close, plan.select_at)
        walked = np.union1d(walked, close)
    return mu, walked


def _remarks(plan: Plan, chosen: Selection) -> tuple[str, ...]:
    if not chosen.filled_up:
        return ()
    passed = chosen.support.size - chosen.filled_up
    return (
        f"only {passed} feature(s) passed the rule; the {chosen.support.size} that moved farthest were taken "
        f"(min_selected={plan.min_selected})",
    )
