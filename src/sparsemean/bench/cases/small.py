"""A small problem, 600 × 100, with everything loaded: what is paid beyond the arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from sparsemean.bench import data, subjects, wording
from sparsemean.bench.row import Row
from sparsemean.bench.timing import best_times
from sparsemean.partition import deal
from sparsemean.planning import plan_fit
from sparsemean.planning.paper import PAPER_ITERATIONS, STAGE_1

SHAPE = (600, 100)
CALLS = 20
"""A call is short; this many take the place of one."""
KERNELS_BAR, FIT_BAR = 1.0, 5.0


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield the time of the kernel calls of a fit and of the fit itself."""
    from sparsemean.estimators import SparseMean
    from sparsemean.kernels import cpu

    X = data.draw(*SHAPE, "float64")
    estimator = SparseMean.paper(contamination=subjects.CONTAMINATION, random_state=0)
    plan = plan_fit(*SHAPE, contamination=subjects.CONTAMINATION, **STAGE_1)
    partition, support = deal(plan, 0), estimator.fit(X).support_

    def kernels() -> None:
        cpu.count_signs(X, partition)
        means = cpu.bucket_means(X, partition, columns=support)
        cpu.subgm(means, alpha=plan.alpha, eta=plan.eta, times=PAPER_ITERATIONS)

    calls, fit = best_times(kernels, lambda: estimator.fit(X), repeat=repeat * CALLS)
    what = f"{wording.shape(X)}, warm"
    detail = f"count, bucket means and walk of {support.size} features"
    yield Row(f"kernel calls, {what}", 1e3 * calls, "ms", bar=KERNELS_BAR, detail=detail)
    yield Row(f"SparseMean.paper().fit, {what}", 1e3 * fit, "ms", bar=FIT_BAR)
