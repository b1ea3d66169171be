"""The paper's fit against a plain NumPy iteration of the same 600 steps on all features."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sparsemean.bench import data, subjects, wording
from sparsemean.bench.row import Row, at_least
from sparsemean.bench.timing import best_times
from sparsemean.kernels import reference
from sparsemean.partition import deal
from sparsemean.planning import plan_fit
from sparsemean.planning.paper import PAPER_ITERATIONS, STAGE_1
from sparsemean.records import FloatArray

SHAPE = {False: (600, 10_000), True: (600, 1000)}
BAR = at_least(200)


def rows(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield how many times faster the fit is; the plain side is slow and runs once."""
    subjects.warm("float64")
    X = data.draw(*SHAPE[quick], "float64")
    fit_side, plain_side = partial(subjects.paper_fit, X), partial(iterate, X)
    before, plain = best_times(fit_side, plain_side, repeat=1)
    after, *_ = best_times(fit_side, repeat=repeat)
    fit = min(before, after)
    yield Row(
        name=f"plain NumPy iteration / paper fit, {wording.shape(X)}",
        value=plain / fit,
        unit="×",
        bar=None if quick else BAR,
        detail=wording.against(plain, fit),
    )


def iterate(X: data.FloatMatrix) -> FloatArray:
    """Take bucket means and walk every feature, step by step, with the readable kernels."""
    plan = plan_fit(*X.shape, contamination=subjects.CONTAMINATION, **STAGE_1)
    means = reference.bucket_means(X, deal(plan, 0))
    return reference.subgm(means, alpha=plan.alpha, eta=plan.eta, times=PAPER_ITERATIONS)
