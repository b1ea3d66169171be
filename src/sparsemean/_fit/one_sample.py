"""One sample: from a table to an Estimate, or to the decisions alone."""

from __future__ import annotations

import inspect
import time
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from sparsemean._counts.engines import Progress
from sparsemean._data import as_table
from sparsemean._data.gpu import on_the_host, sent, where_it_lies
from sparsemean._data.table import Table
from sparsemean._fit import designs
from sparsemean._fit.centres import Centres
from sparsemean._fit.data import FitData
from sparsemean._fit.mean import Means
from sparsemean._fit.pipeline import OneSample, estimates, parts_of
from sparsemean._fit.refinement import Refinement, check, name_of
from sparsemean._stats import planning
from sparsemean._util.checks import draw_seed, one_number_each
from sparsemean._util.plans import Plan
from sparsemean.errors import InputError
from sparsemean.result import Estimate


def sparse_mean(
    X: Any, *, feature_names: Any = None, groups: Any = None, layer: str | None = None, **params: Any
) -> Estimate:
    """Find the features of ``X`` whose mean is not zero, estimate it and say how sure that is, in one call.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        Rows are observations. Arrays of any real type and layout, memory maps included, are read where they lie.
    feature_names : sequence of d names, optional
        Defaults to the column names of a data frame, else the features are numbered.
    groups : sequence of n labels, optional
        Rows with one label belong to one subject: they share a bucket and count once for the contamination.
    layer : str, optional
        The layer of an AnnData that is meant, in place of its X.
    **params
        Those of `SparseMean`.

    Returns
    -------
    Estimate
        Table, summary, p-values, intervals, radius, paths.

    Examples
    --------
    >>> from sparsemean import simulate, sparse_mean
    >>> data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
    >>> sparse_mean(data.X, contamination=0.1, random_state=0).support
    array([0, 1, 2, 3])
    """
    return fit(as_table(X, feature_names, layer=layer), groups=groups, **params)


def plan_of(
    n: int,
    d: int,
    *,
    n_units: int | None = None,
    null: Any = 0.0,
    refine: Any = "auto",
    refine_on: Any = "rows",
    screen_rows: Any = True,
    **options: Any,
) -> tuple[Plan, Refinement]:
    """Check everything that can be asked of a fit of ``n`` rows and ``d`` features, before any value is looked at."""
    if unknown := sorted(options.keys() - _plan_options()):
        named = {"groups", "null", "refine", "refine_on", "screen_rows", "random_state", "n_jobs", "device"}
        raise InputError("option", f"be one of {', '.join(sorted(_plan_options() | named))}", repr(unknown[0]))
    if not isinstance(screen_rows, (bool, np.bool_)):
        raise InputError("screen_rows", "be True or False", repr(screen_rows))
    method, plan = check(refine), planning.plan_fit(n, d, n_units=n_units, **options)
    question = replace(
        plan.question,
        screen_rows=bool(screen_rows),
        refine=name_of(method),
        refine_on=planning.one_of(refine_on, ("rows", "buckets"), argument="refine_on"),
        null=one_number_each(null, d, argument="null"),
    )
    return replace(plan, question=question), method


def fit(table: Table, *, progress: Progress | None = None, **options: Any) -> Estimate:
    """Fit a table; ``options`` are those of `prepare`, ``progress`` is told the share of the reading done."""
    began = time.perf_counter()
    data, method = prepare(table, **options)
    shares = (1.0, 0.2 * (method is not None) + 0.8 * data.plan.question.screen_rows)
    counting, estimating = parts_of(progress, shares)
    with where_it_lies(data.table):
        kind = Means if data.plan.question.target == "mean" else Centres
        planned = {name: value for name, value in options.items() if name in _plan_options()}
        found: OneSample = kind.of(data, counting, method=method, options=planned)
        return estimates(found, began=began, progress=(estimating,))[0]


def prepare(
    table: Table,
    *,
    groups: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    device: Any = None,
    **options: Any,
) -> tuple[FitData, Refinement]:
    """Check what is asked of a table and assign its rows to buckets."""
    table = table if device is None else sent(table, device)
    units = None
    if groups is not None:
        given = on_the_host(groups, table, argument="groups")
        _, units = designs.in_order(*designs.labels_of(given, table.shape[0], "groups"))
    options["null"] = on_the_host(options.get("null", 0.0), table, argument="null")
    plan, method = plan_of(*table.shape, n_units=None if units is None else int(units.max()) + 1, **options)
    # Where ranks or sums decide, what is drawn only says which features to rank or which rows give a scale: nobody who
    # draws again should be better off.
    seed = 0 if random_state is None and plan.question.test in ("ranks", "sums") else draw_seed(random_state)
    return FitData.of(table, plan, seed=seed, units=units, n_jobs=n_jobs), method


@cache
def _plan_options() -> frozenset[str]:
    """Return what `planning.plan_fit` may be asked for."""
    known = (inspect.signature(function).parameters for function in (planning.plan_fit, planning.ask))
    return frozenset().union(*known) - {"n", "d", "n_units", "asked"}
