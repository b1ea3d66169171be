"""Benchmarks of fits on the host: against the mean, the median, plain iteration, and themselves."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sparsemean._cli.benchmarks import data, timing
from sparsemean._cli.benchmarks.data import N_SIGNALS, SIGNAL, FloatMatrix
from sparsemean._cli.benchmarks.timing import Row, at_least, best_times, measure
from sparsemean._kernels import reference
from sparsemean._stats.buckets import assign_block_buckets, assign_buckets
from sparsemean._stats.planning import PAPER_ITERATIONS, STAGE_1, plan_fit
from sparsemean._util.records import Counts, FloatArray, IntArray

PAPER_BARS = {"float64": 0.8, "float32": 1.3}
GOALS = {"float64": 0.5, "float32": 0.7}


def paper_fit(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio for every shape and precision."""
    subject = partial(partial, timing.paper_fit)
    return data.rows("paper fit", subject, PAPER_BARS, goals=GOALS, quick=quick, repeat=repeat)


# The certified fit with all inference by signs of buckets against ``X.mean(axis=0)``: what certainty costs.

CERTIFIED_BARS = {"float64": 0.7, "float32": 0.95}


def certified_fit(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio for every shape and precision; the bar is for the first shape."""

    def subject(X: FloatMatrix) -> Callable[[], object]:
        return partial(timing.certified_fit, X, test="buckets")

    name = "certified fit by buckets"
    return data.rows(name, subject, CERTIFIED_BARS, everywhere=False, quick=quick, repeat=repeat)


# The same by signed ranks, which sort the columns that pass a filter, against itself by buckets.

RANKS_SHAPE = {False: (2000, 100_000), True: (2000, 10_000)}
RANKS_BARS = {0.0: 2.5, 0.05: 1.6}


def ranks(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio where no bad rows are allowed for, and where some are."""
    timing.warm("float64")
    X = data.draw(*RANKS_SHAPE[quick], "float64")
    for epsilon, bar in RANKS_BARS.items():
        fits = (partial(timing.certified_fit, X, test=test, contamination=epsilon) for test in ("ranks", "buckets"))
        ours, signs = best_times(*fits, repeat=repeat)
        yield Row(
            name=f"certified fit by ranks / by buckets, {timing.shape(X)}, ε = {epsilon:g}",
            value=ours / signs,
            unit="×",
            bar=None if quick else bar,
            detail=timing.against(ours, signs),
        )


# The counting pass for nested buckets of 1, 2 and 4 rows against ``X.mean(axis=0)``.

COUNTING_BARS = {"float64": 0.6, "float32": 0.85}
SIZES = (1, 2, 4)


def counting_pass(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio for every shape and precision."""

    def subject(X: FloatMatrix) -> Callable[[], Counts]:
        return partial(timing.counting_pass, X, assign_block_buckets(X.shape[0], SIZES, 0))

    return data.rows("counting pass, sizes 1, 2, 4", subject, COUNTING_BARS, quick=quick, repeat=repeat)


# The paper's fit against ``np.median(X, axis=0)``, and against two threads that only read ``X``.

READ_SHAPE = {False: (2000, 100_000), True: (2000, 10_000)}
MEDIAN_SHAPE = {False: (2000, 10_000), True: (2000, 1000)}


def against_median(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield both ratios; neither has a bar."""
    for dtype in ("float64", "float32"):
        timing.warm(dtype)
        X = data.draw(*READ_SHAPE[quick], dtype)
        fit, read = best_times(partial(timing.paper_fit, X), partial(two_thread_read, X), repeat=repeat)
        yield Row(
            name=f"paper fit / two-thread read, {timing.shape(X)}",
            value=fit / read,
            unit="×",
            detail=f"{timing.against(fit, read)}, {timing.rate(X, fit)} against {timing.rate(X, read)}",
        )
        X = data.draw(*MEDIAN_SHAPE[quick], dtype)
        fit, median = best_times(partial(timing.paper_fit, X), partial(np.median, X, axis=0), repeat=repeat)
        yield Row(
            name=f"paper fit / np.median(X, axis=0), {timing.shape(X)}",
            value=fit / median,
            unit="×",
            detail=timing.against(fit, median),
        )


def two_thread_read(X: data.FloatMatrix) -> float:
    """Return the maximum of ``X``, each half found by a thread of its own."""
    halves = np.array_split(X, 2)
    with ThreadPoolExecutor(2) as pool:
        return float(max(pool.map(np.max, halves)))


# The paper's fit against a plain NumPy iteration of the same 600 steps on all features.

PLAIN_SHAPE = {False: (600, 10_000), True: (600, 1000)}
PLAIN_BAR = at_least(200)


def plain_iteration(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield how many times faster the fit is; the plain side is slow and runs once."""
    timing.warm("float64")
    X = data.draw(*PLAIN_SHAPE[quick], "float64")
    fit_side, plain_side = partial(timing.paper_fit, X), partial(iterate, X)
    before, plain = best_times(fit_side, plain_side, repeat=1)
    after, *_ = best_times(fit_side, repeat=repeat)
    fit = min(before, after)
    yield Row(
        name=f"plain NumPy iteration / paper fit, {timing.shape(X)}",
        value=plain / fit,
        unit="×",
        bar=None if quick else PLAIN_BAR,
        detail=timing.against(plain, fit),
    )


def iterate(X: data.FloatMatrix) -> FloatArray:
    """Take bucket means and walk every feature, step by step, with the readable kernels."""
    plan = plan_fit(*X.shape, contamination=timing.CONTAMINATION, **STAGE_1)
    means = reference.bucket_means(X, assign_buckets(plan, 0))
    return reference.subgm(means, alpha=plan.walk.alpha, eta=plan.walk.eta, times=PAPER_ITERATIONS)


# How the time of the paper's fit grows when the data double, in features or in rows.

ROWS = {False: 2000, True: 500}
FEATURES = {False: 50_000, True: 10_000}
GROWTH_BAR = (1.7, 2.3)


def growth(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the time ratio of every doubling, all sizes timed in turn."""
    timing.warm("float32")
    n, d = ROWS[quick], FEATURES[quick]
    X = data.draw(4 * n, d, "float32")
    wider = [X[: n * k].reshape(n, k * d) for k in (1, 2, 4)]
    longer = [X[: n * k] for k in (1, 2, 4)]
    for what, sizes, axis in (("features", wider, 1), ("rows", longer, 0)):
        times = best_times(*(partial(timing.paper_fit, Y) for Y in sizes), repeat=repeat)
        for small, large, before, after in zip(sizes, sizes[1:], times, times[1:], strict=False):
            yield Row(
                name=f"{what} doubled, {timing.shape(small)} → {timing.size(large.shape[axis])} {what}",
                value=after / before,
                unit="×",
                bar=None if quick else GROWTH_BAR,
                detail=timing.against(after, before),
            )


# A small problem, 600 × 100, with everything loaded: what is paid beyond the arithmetic.

SMALL_SHAPE = (600, 100)
CALLS = 20
"""A call is short; this many take the place of one."""
KERNELS_BAR, FIT_BAR, DEFAULT_BAR = 1.0, 5.0, 4.0


def small(*, quick: bool, repeat: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield the time of the kernel calls of a fit and of the fit itself."""
    from sparsemean._fit.one_sample import sparse_mean
    from sparsemean._kernels import cpu
    from sparsemean.estimators import SparseMean

    X = data.draw(*SMALL_SHAPE, "float64")
    estimator = SparseMean.paper(contamination=timing.CONTAMINATION, random_state=0)
    plan = plan_fit(*SMALL_SHAPE, contamination=timing.CONTAMINATION, **STAGE_1)
    partition, support = assign_buckets(plan, 0), estimator.fit(X).support_

    def kernels() -> None:
        cpu.count_signs(X, partition)
        means = cpu.bucket_means(X, partition, columns=support)
        cpu.subgm(means, alpha=plan.walk.alpha, eta=plan.walk.eta, times=PAPER_ITERATIONS)

    calls, fit = best_times(kernels, lambda: estimator.fit(X), repeat=repeat * CALLS)
    what = f"{timing.shape(X)}, warm"
    detail = f"count, bucket means and walk of {support.size} features"
    yield Row(f"kernel calls, {what}", 1e3 * calls, "ms", bar=KERNELS_BAR, detail=detail)
    yield Row(f"SparseMean.paper().fit, {what}", 1e3 * fit, "ms", bar=FIT_BAR)
    Y = np.random.default_rng(0).standard_t(4, SMALL_SHAPE)
    Y[:, :4] += 1.0
    by_signs = partial(sparse_mean, Y, contamination=timing.DEFAULT_CONTAMINATION, test="buckets", n_jobs=1)
    by_ranks = partial(sparse_mean, Y, n_jobs=1)
    of_signs, of_ranks = best_times(by_signs, by_ranks, repeat=repeat * CALLS, clock=time.process_time)
    detail = f"{by_signs().support.size} features selected; processor time, one thread"
    yield Row(f"default fit by signs of buckets, {what}", 1e3 * of_signs, "ms", bar=DEFAULT_BAR, detail=detail)
    yield Row(f"default fit, {what}", 1e3 * of_ranks, "ms", detail=detail)


# The default fit of a sparse matrix: its memory over that of the matrix, its time over filling the zeros in first.

SPARSE_SHAPE = {False: (10_000, 50_000), True: (1000, 5000)}
STRETCH = 20
"""Columns of which a row stores one."""
AT_ONCE = 200
MEMORY_BAR = 1.5
TIME_BAR = 1.0
MOST_REPEATS = 3
"""Filling in the zeros takes seconds."""
CODE = """
from sparsemean._cli.benchmarks import speed, timing
timing.default_fit(speed.draw(640, 400))
X = speed.draw({n}, {d})
print(1e6 * timing.peak_above(lambda: timing.default_fit(X)) / speed.bytes_of(X))
"""


def draw(n: int, d: int) -> Any:
    """Return a matrix compressed by rows: noise of Student t with 3 degrees of freedom, and signals in every row."""
    from scipy.sparse import csr_array

    width = d // STRETCH
    indices, data = np.empty((n, width), dtype=np.int32), np.empty((n, width))
    signals = np.linspace(0, width - 1, N_SIGNALS).astype(np.intp)
    rng = np.random.default_rng(0)
    for first in range(0, n, AT_ONCE):
        sparse_matrix = slice(first, min(first + AT_ONCE, n))
        shape = indices[sparse_matrix].shape
        indices[sparse_matrix] = STRETCH * np.arange(width) + rng.integers(STRETCH, size=shape, dtype=np.int32)
        data[sparse_matrix] = rng.standard_t(3, shape)
        indices[sparse_matrix, signals] = STRETCH * signals
        data[sparse_matrix, signals] += SIGNAL
    indptr = np.arange(n + 1, dtype=np.int32) * np.int32(width)
    return csr_array((data.ravel(), indices.ravel(), indptr), shape=(n, d))


def bytes_of(X: Any) -> int:
    """Return the memory that a compressed matrix takes."""
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def sparse_matrix(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the memory where the system tells it, and the time for matrices compressed by rows and by columns."""
    n, d = SPARSE_SHAPE[quick]
    what = f"{timing.size(n)} × {timing.size(d)} at {100 / STRETCH:g} %"
    if sys.platform != "win32":
        yield Row(
            name=f"peak memory of the default fit, matrix included / the matrix, CSR {what}",
            value=1 + measure(CODE.format(n=n, d=d)),
            unit="×",
            bar=None if quick else MEMORY_BAR,
            detail=f"the matrix is {12 * n * d / STRETCH / 1e6:,.0f} MB",
        )
    by_rows = draw(n, d)
    timing.warm("float64")
    timing.default_fit(draw(640, 400))
    for kind in ("CSR", "CSC"):
        X = by_rows.asformat(kind.lower())
        ours, filled = best_times(
            partial(timing.default_fit, X),
            lambda X=X: timing.default_fit(X.toarray()),  # type: ignore[misc]
            repeat=min(repeat, MOST_REPEATS),
        )
        yield Row(
            name=f"default fit / default fit with zeros filled in, {kind} {what}",
            value=ours / filled,
            unit="×",
            bar=None if quick else TIME_BAR,
            detail=timing.against(ours, filled),
        )


# Groups of rows compared in every feature: the counting pass against illico and scanpy, one thread, CPU seconds.


class Shape(NamedTuple):
    """Rows, features and groups of one comparison, and how the matrix is stored."""

    kind: str
    n: int
    d: int
    n_groups: int


FULL = (
    Shape("CSR", 20_000, 20_000, 2),
    Shape("CSR", 20_000, 20_000, 10),
    Shape("CSR", 100_000, 5000, 10),
    Shape("dense", 2000, 50_000, 2),
)
QUICK = (Shape("CSR", 2000, 2000, 10), Shape("dense", 500, 2000, 2))
CELLS = Shape("CSR", 20_000, 2000, 10)
ILLICO_BAR = 1.0
SCANPY_FORMAT_BAR = 1.2
SCANPY_BAR = at_least(5)
RATE, SPREAD, DEPTH = 0.13, 0.35, 0.4
"""Mean count of a gene, the shape of the gamma law of these means, and the spread of the logarithm of cell sizes."""
DRAWN_AT_ONCE = 20_000_000


def groups(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield how long comparisons take over illico's time, and scanpy's over that; a remark where they are not here."""
    if importlib.util.find_spec("anndata") is not None:
        yield _called_as_in_scanpy(Shape("CSR", 2000, 400, 10) if quick else CELLS, quick=quick, repeat=repeat)
    sides = {"illico": _illico, "scanpy": _scanpy}
    absent = [name for name in sides if importlib.util.find_spec(name) is None]
    if absent:
        yield Row(f"not compared, not installed: pip install {' '.join(absent)}", 0.0, "")
    for shape in QUICK if quick else FULL:
        labels = np.random.default_rng(1).integers(0, shape.n_groups, shape.n)
        X = draw_counts(shape, labels)
        for name, side in sides.items():
            if name not in absent:
                yield _compare(name, side, X, shape, labels=labels, quick=quick, repeat=repeat)


def draw_counts(shape: Shape, labels: IntArray) -> Any:
    """Return log1p of Poisson counts over the size of each row, about 8 % of them not zero, in single precision.

    One gene in fifty has twice its rate in the rows of one label.
    """
    from scipy import sparse

    rng = np.random.default_rng(0)
    rates, sizes = rng.gamma(SPREAD, RATE / SPREAD, shape.d), rng.lognormal(0, DEPTH, shape.n)
    step = max(1, DRAWN_AT_ONCE // shape.d)
    stripes: list[Any] = []
    for first in range(0, shape.n, step):
        size = sizes[first : first + step, np.newaxis]
        more = 1.0 + (labels[first : first + step, np.newaxis] == 1) * (np.arange(shape.d) % 50 == 0)
        values = np.log1p(rng.poisson(rates * size * more) / size).astype(np.float32)
        stripes.append(sparse.csr_matrix(values) if shape.kind == "CSR" else values)
    return sparse.vstack(stripes, format="csr") if shape.kind == "CSR" else np.concatenate(stripes)


def compare_groups(X: Any, labels: IntArray) -> Any:
    """Compare each group with the rest: counts, p-values, selection and the contamination that each survives."""
    from sparsemean._counts import ranks
    from sparsemean._data import as_table
    from sparsemean._stats.decision import Holm, decide
    from sparsemean._stats.families import RankEvidence
    from sparsemean._stats.rank_evidence import REST, Contrast

    sizes = tuple(np.bincount(labels).tolist())
    contrasts = [Contrast(label, REST, sizes) for label in range(len(sizes))]
    tests = ranks.count(as_table(X), labels, contrasts, n_jobs=1)
    evidence = RankEvidence(tuple(tests), n_jobs=1)
    return decide(evidence, Holm(evidence.level), evidence.at_share((0.0, 0.0)))


def _compare(
    name: str, side: Callable[[Any], object], X: Any, shape: Shape, *, labels: IntArray, quick: bool, repeat: int
) -> Row:
    data, small = _annotated(X, labels), slice(0, 400)
    ours, theirs = partial(compare_groups, X, labels), partial(side, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare_groups(X[small], labels[small])
        side(_annotated(X[small], labels[small]))
        most = 1 if name == "scanpy" else MOST_REPEATS
        own, other = best_times(ours, theirs, repeat=min(repeat, most), clock=time.process_time)
    what = f"{shape.kind} {timing.size(shape.n)} × {timing.size(shape.d)}, {shape.n_groups} groups against the rest"
    if name == "illico":
        bar, detail = None if quick else ILLICO_BAR, timing.against(own, other)
        return Row(f"certified comparison / illico, {what}", own / other, "×", bar=bar, detail=detail)
    least, detail = None if quick else SCANPY_BAR, timing.against(other, own)
    return Row(f"scanpy / certified comparison, {what}", other / own, "×", bar=least, detail=detail)


def _called_as_in_scanpy(shape: Shape, *, quick: bool, repeat: int) -> Row:
    """Return what scanpy's format costs: averages of groups, records sorted by score, over the plain fit."""
    from sparsemean import SparseMeanDifference, tl

    labels = np.random.default_rng(1).integers(0, shape.n_groups, shape.n)
    cells = _annotated(draw_counts(shape, labels), labels)
    plain = SparseMeanDifference(reference="rest", n_jobs=1)
    own, other = best_times(
        lambda: tl.rank_genes_groups(cells, "group", n_jobs=1), lambda: plain.fit(cells, cells.obs["group"]),
        repeat=min(repeat, MOST_REPEATS), clock=time.process_time,
    )  # fmt: skip
    what = f"{shape.kind} {timing.size(shape.n)} × {timing.size(shape.d)}, {shape.n_groups} groups against the rest"
    bar, detail = None if quick else SCANPY_FORMAT_BAR, timing.against(own, other)
    return Row(f"tl.rank_genes_groups / the plain fit, {what}", own / other, "×", bar=bar, detail=detail)


def _annotated(X: Any, labels: IntArray) -> Any:
    import anndata
    import pandas as pd

    obs = pd.DataFrame(
        {"group": pd.Categorical([f"g{label}" for label in labels])}, index=np.arange(labels.size).astype(str)
    )
    return anndata.AnnData(X, obs=obs, uns={"log1p": {"base": None}})


def _illico(data: Any) -> Any:
    illico: Any = importlib.import_module("illico")
    importlib.import_module("loguru").logger.disable("illico")  # a line for every call
    return illico.asymptotic_wilcoxon(data, group_keys="group", reference=None, is_log1p=True, n_threads=1)


def _scanpy(data: Any) -> Any:
    scanpy: Any = importlib.import_module("scanpy")
    return scanpy.tl.rank_genes_groups(data, "group", method="wilcoxon", tie_correct=True)
