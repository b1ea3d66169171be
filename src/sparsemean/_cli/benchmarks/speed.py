"""Benchmarks of fits on the host: against the mean, the median, plain iteration, and themselves."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from sparsemean._cli.benchmarks import timing
from sparsemean._cli.benchmarks.timing import FloatMatrix, Row, at_least, best_times, over_mean, ratio
from sparsemean._stats.buckets import assign_block_buckets, assign_buckets
from sparsemean._stats.planning import PAPER_ITERATIONS, STAGE_1, plan_fit
from sparsemean._util.records import Counts, FloatArray, IntArray

if TYPE_CHECKING:
    import numpy.typing as npt
    from anndata import AnnData
    from scipy.sparse import csc_array, csr_array, csr_matrix

    from sparsemean._stats.decision import Decision
    from sparsemean.result import Estimate

    Matrix: TypeAlias = npt.NDArray[np.float32] | csr_matrix

# Whole fits, and counting of buckets of 1, 2 and 4 rows, against ``X.mean(axis=0)``: what certainty costs.

SIZES = (1, 2, 4)


def _counting(X: FloatMatrix) -> Callable[[], Counts]:
    return partial(timing.counting_pass, X, assign_block_buckets(X.shape[0], SIZES, 0))


paper_fit = partial(over_mean, "paper fit", partial(partial, timing.paper_fit), {"float64": 0.8, "float32": 1.3})
certified_fit = partial(
    over_mean, "certified fit by buckets", partial(partial, timing.certified_fit, test="buckets"),
    {"float64": 0.7, "float32": 0.95}, everywhere=False,
)  # fmt: skip
counting_pass = partial(over_mean, "counting pass, sizes 1, 2, 4", _counting, {"float64": 0.6, "float32": 0.85})


# The same by signed ranks, which sort the columns that pass a filter, against itself by buckets.

WIDE_SHAPE = {False: (2000, 100_000), True: (2000, 10_000)}
RANKS_BARS = {0.0: 2.5, 0.05: 1.6}


def ranks(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio where no bad rows are allowed for, and where some are."""
    timing.warm("float64")
    X = timing.draw(*WIDE_SHAPE[quick], "float64")
    for epsilon, bar in RANKS_BARS.items():
        fits = (partial(timing.certified_fit, X, test=test, contamination=epsilon) for test in ("ranks", "buckets"))
        name = f"certified fit by ranks / by buckets, {timing.shape(X)}, ε = {epsilon:g}"
        by_ranks, by_buckets = best_times(*fits, repeat=repeat)
        yield ratio(name, by_ranks, by_buckets, bar)


# The paper's fit against ``np.median(X, axis=0)``.

MEDIAN_SHAPE = {False: (2000, 10_000), True: (2000, 1000)}


def against_median(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the ratio in both precisions, without a bar."""
    for dtype in ("float64", "float32"):
        timing.warm(dtype)
        X = timing.draw(*MEDIAN_SHAPE[quick], dtype)
        sides = partial(timing.paper_fit, X), partial(np.median, X, axis=0)
        yield ratio(f"paper fit / np.median(X, axis=0), {timing.shape(X)}", *best_times(*sides, repeat=repeat))


# The paper's fit against a plain NumPy iteration of the same 600 steps on all features.

PLAIN_SHAPE = {False: (600, 10_000), True: (600, 1000)}
PLAIN_BAR = at_least(200)


def plain_iteration(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield how many times faster the fit is; the plain side is slow and runs once."""
    timing.warm("float64")
    X = timing.draw(*PLAIN_SHAPE[quick], "float64")
    fit_side, plain_side = partial(timing.paper_fit, X), partial(iterate, X)
    before, plain = best_times(fit_side, plain_side, repeat=1)
    after, *_ = best_times(fit_side, repeat=repeat)
    yield ratio(f"plain NumPy iteration / paper fit, {timing.shape(X)}", plain, min(before, after), PLAIN_BAR)


def iterate(X: FloatMatrix) -> FloatArray:
    """Take bucket means and walk every feature, step by step, in NumPy."""
    from sparsemean._kernels.columns import bucket_means

    plan = plan_fit(*X.shape, contamination=timing.CONTAMINATION, **STAGE_1)
    means = bucket_means(X, assign_buckets(plan, 0))
    u = v = np.full(X.shape[1], plan.walk.alpha)
    for _ in range(max(PAPER_ITERATIONS)):
        mu = u * u - v * v
        beta = (np.sum(means > mu, axis=0) - np.sum(means < mu, axis=0)) / len(means)
        u, v = u * (1.0 + plan.walk.eta * beta), v * (1.0 - plan.walk.eta * beta)
    return np.asarray(u * u - v * v)


# How the time of the paper's fit grows when the data double, in features or in rows.

ROWS = {False: 2000, True: 500}
FEATURES = {False: 50_000, True: 10_000}
GROWTH_BAR = (1.7, 2.3)


def growth(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the time ratio of every doubling, all sizes timed in turn."""
    timing.warm("float32")
    n, d = ROWS[quick], FEATURES[quick]
    X = timing.draw(4 * n, d, "float32")
    wider = [X[: n * k].reshape(n, k * d) for k in (1, 2, 4)]
    longer = [X[: n * k] for k in (1, 2, 4)]
    for what, sizes, axis in (("features", wider, 1), ("rows", longer, 0)):
        times = best_times(*(partial(timing.paper_fit, Y) for Y in sizes), repeat=repeat)
        for (small, before), (large, after) in pairwise(zip(sizes, times, strict=True)):
            name = f"{what} doubled, {timing.shape(small)} → {timing.size(large.shape[axis])} {what}"
            yield ratio(name, after, before, GROWTH_BAR)


# A small problem, 600 × 100, with everything loaded: what is paid beyond the arithmetic.

SMALL_SHAPE = (600, 100)
CALLS = 20
"""A call is short; this many take the place of one."""
KERNELS_BAR, FIT_BAR, DEFAULT_BAR = 1.0, 5.0, 4.0


def small(*, quick: bool, repeat: int) -> Iterator[Row]:  # noqa: ARG001
    """Yield the time of the kernel calls of a fit and of the fit itself."""
    from sparsemean._fit.one_sample import sparse_mean
    from sparsemean._kernels.columns import bucket_means
    from sparsemean._kernels.cpu import count_signs
    from sparsemean._kernels.loops import subgm
    from sparsemean.estimators import SparseMean

    X = timing.draw(*SMALL_SHAPE, "float64")
    estimator = SparseMean.paper(contamination=timing.CONTAMINATION, random_state=0)
    plan = plan_fit(*SMALL_SHAPE, contamination=timing.CONTAMINATION, **STAGE_1)
    partition, support = assign_buckets(plan, 0), estimator.fit(X).support_

    def kernels() -> None:
        count_signs(X, partition)
        means = bucket_means(X, partition, columns=support)
        subgm(means, alpha=plan.walk.alpha, eta=plan.walk.eta, times=PAPER_ITERATIONS)

    calls, fit = best_times(kernels, lambda: estimator.fit(X), repeat=repeat * CALLS)
    what = f"{timing.shape(X)}, warm"
    detail = f"count, bucket means and walk of {support.size} features"
    yield Row(f"kernel calls, {what}", 1e3 * calls, "ms", bar=KERNELS_BAR, detail=detail, always=True)
    yield Row(f"SparseMean.paper().fit, {what}", 1e3 * fit, "ms", bar=FIT_BAR, always=True)
    Y = np.random.default_rng(0).standard_t(4, SMALL_SHAPE)
    Y[:, :4] += 1.0
    by_signs = partial(sparse_mean, Y, contamination=timing.DEFAULT_CONTAMINATION, test="buckets", n_jobs=1)
    by_ranks = partial(sparse_mean, Y, n_jobs=1)
    of_signs, of_ranks = best_times(by_signs, by_ranks, repeat=repeat * CALLS, clock=time.process_time)
    detail = f"{by_signs().support.size} features selected; processor time, one thread"
    name = f"default fit by signs of buckets, {what}"
    yield Row(name, 1e3 * of_signs, "ms", bar=DEFAULT_BAR, detail=detail, always=True)
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


def draw_sparse(n: int, d: int) -> csr_array:
    """Return a matrix compressed by rows: noise of Student t with 3 degrees of freedom, and signals in every row."""
    from scipy.sparse import csr_array

    width = d // STRETCH
    indices, data = np.empty((n, width), dtype=np.int32), np.empty((n, width))
    signals = np.linspace(0, width - 1, timing.N_SIGNALS).astype(np.intp)
    rng = np.random.default_rng(0)
    for first in range(0, n, AT_ONCE):
        rows = slice(first, min(first + AT_ONCE, n))
        shape = indices[rows].shape
        indices[rows] = STRETCH * np.arange(width) + rng.integers(STRETCH, size=shape, dtype=np.int32)
        data[rows] = rng.standard_t(3, shape)
        indices[rows, signals] = STRETCH * signals
        data[rows, signals] += timing.SIGNAL
    indptr = np.arange(n + 1, dtype=np.int32) * np.int32(width)
    return csr_array((data.ravel(), indices.ravel(), indptr), shape=(n, d))


def memory_of_sparse(n: int, d: int) -> float:
    """Return what the default fit takes above a matrix over what the matrix takes; for a process of its own."""
    timing.default_fit(draw_sparse(640, 400))
    X = draw_sparse(n, d)
    above = timing.peak_above(lambda: timing.default_fit(X))
    return 1e6 * above / (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def sparse_matrix(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield the memory where the system tells it, and the time for matrices compressed by rows and by columns."""
    n, d = SPARSE_SHAPE[quick]
    what = f"{timing.size(n)} × {timing.size(d)} at {100 / STRETCH:g} %"
    if sys.platform != "win32":
        (above,) = timing.apart(memory_of_sparse, n, d)
        name = f"peak memory of the default fit, matrix included / the matrix, CSR {what}"
        detail = f"the matrix is {12 * n * d / STRETCH / 1e6:,.0f} MB"
        yield Row(name, 1 + above, "×", MEMORY_BAR, detail=detail)
    by_rows = draw_sparse(n, d)
    timing.warm("float64")
    timing.default_fit(draw_sparse(640, 400))
    for X in (by_rows, by_rows.tocsc()):
        sides = partial(timing.default_fit, X), partial(_filled, X)
        ours, filled = best_times(*sides, repeat=min(repeat, MOST_REPEATS))
        name = f"default fit / default fit with zeros filled in, {X.format.upper()} {what}"
        yield ratio(name, ours, filled, TIME_BAR)


def _filled(X: csr_array | csc_array) -> Estimate:
    return timing.default_fit(X.toarray())


# Groups of rows compared in every feature: the counting pass against illico and scanpy, one thread, CPU seconds.


class Shape(NamedTuple):
    """Rows, features and groups of one comparison, and how the matrix is stored."""

    kind: str
    n: int
    d: int
    n_groups: int

    @property
    def words(self) -> str:
        """What is compared."""
        rows, features = timing.size(self.n), timing.size(self.d)
        return f"{self.kind} {rows} × {features}, {self.n_groups} groups against the rest"


COMPARED = (
    Shape("CSR", 20_000, 20_000, 2),
    Shape("CSR", 20_000, 20_000, 10),
    Shape("CSR", 100_000, 5000, 10),
    Shape("dense", 2000, 50_000, 2),
)
COMPARED_QUICK = (Shape("CSR", 2000, 2000, 10), Shape("dense", 500, 2000, 2))
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
        yield _called_as_in_scanpy(Shape("CSR", 2000, 400, 10) if quick else CELLS, repeat)
    sides = {"illico": _illico, "scanpy": _scanpy}
    absent = [name for name in sides if importlib.util.find_spec(name) is None]
    if absent:
        yield Row(f"not compared, not installed: pip install {' '.join(absent)}", 0.0, "")
    for shape in COMPARED_QUICK if quick else COMPARED:
        labels = np.random.default_rng(1).integers(0, shape.n_groups, shape.n)
        X = draw_counts(shape, labels)
        for name, side in sides.items():
            if name not in absent:
                yield _compare(name, side, X, shape, labels=labels, repeat=repeat)


def draw_counts(shape: Shape, labels: IntArray) -> Matrix:
    """Return log1p of Poisson counts over the size of each row, about 8 % of them not zero, in single precision.

    One gene in fifty has twice its rate in the rows of one label.
    """
    from scipy import sparse

    rng = np.random.default_rng(0)
    rates, sizes = rng.gamma(SPREAD, RATE / SPREAD, shape.d), rng.lognormal(0, DEPTH, shape.n)
    step = max(1, DRAWN_AT_ONCE // shape.d)

    def drawn(first: int) -> npt.NDArray[np.float32]:
        size = sizes[first : first + step, np.newaxis]
        more = 1.0 + (labels[first : first + step, np.newaxis] == 1) * (np.arange(shape.d) % 50 == 0)
        return np.asarray(np.log1p(rng.poisson(rates * size * more) / size), dtype=np.float32)

    stripes = map(drawn, range(0, shape.n, step))
    if shape.kind == "dense":
        return np.concatenate(list(stripes))
    matrix: csr_matrix = sparse.vstack([sparse.csr_matrix(stripe) for stripe in stripes], format="csr")
    return matrix


def compare_groups(X: Matrix, labels: IntArray) -> Decision:
    """Compare each group with the rest: counts, p-values, selection and the contamination that each survives."""
    from sparsemean._data import as_table
    from sparsemean._evidence import groups
    from sparsemean._evidence.groups import RankEvidence
    from sparsemean._evidence.ranks import REST, Contrast
    from sparsemean._stats.decision import Holm, decide
    from sparsemean._util.plans import Shares

    sizes = tuple(np.bincount(labels).tolist())
    contrasts = [Contrast(reference=REST, label=label, sizes=sizes) for label in range(len(sizes))]
    tests = groups.count(as_table(X), labels, contrasts, n_jobs=1)
    evidence = RankEvidence(tuple(tests), n_jobs=1)
    return decide(evidence, Holm(evidence.level), evidence.at_share(Shares(0.0, 0.0)))


def _compare(
    name: str, side: Callable[[object], object], X: Matrix, shape: Shape, *, labels: IntArray, repeat: int
) -> Row:
    data, small = _annotated(X, labels), slice(0, 400)
    ours, theirs = partial(compare_groups, X, labels), partial(side, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare_groups(X[small], labels[small])
        side(_annotated(X[small], labels[small]))
        most = 1 if name == "scanpy" else MOST_REPEATS
        own, other = best_times(ours, theirs, repeat=min(repeat, most), clock=time.process_time)
    if name == "illico":
        return ratio(f"certified comparison / illico, {shape.words}", own, other, ILLICO_BAR)
    return ratio(f"scanpy / certified comparison, {shape.words}", other, own, SCANPY_BAR)


def _called_as_in_scanpy(shape: Shape, repeat: int) -> Row:
    """Return what scanpy's format costs: averages of groups, records sorted by score, over the plain fit."""
    from sparsemean import SparseMeanDifference, tl

    labels = np.random.default_rng(1).integers(0, shape.n_groups, shape.n)
    cells = _annotated(draw_counts(shape, labels), labels)
    plain = SparseMeanDifference(reference="rest", n_jobs=1)
    own, other = best_times(
        lambda: tl.rank_genes_groups(cells, "group", n_jobs=1), lambda: plain.fit(cells, cells.obs["group"]),
        repeat=min(repeat, MOST_REPEATS), clock=time.process_time,
    )  # fmt: skip
    return ratio(f"tl.rank_genes_groups / the plain fit, {shape.words}", own, other, SCANPY_FORMAT_BAR)


def _annotated(X: Matrix, labels: IntArray) -> AnnData:
    import anndata
    import pandas as pd

    obs = pd.DataFrame(
        {"group": pd.Categorical([f"g{label}" for label in labels])}, index=np.arange(labels.size).astype(str)
    )
    return anndata.AnnData(X, obs=obs, uns={"log1p": {"base": None}})


def _illico(data: object) -> object:
    importlib.import_module("loguru").logger.disable("illico")  # a line for every call
    compare = importlib.import_module("illico").asymptotic_wilcoxon
    return compare(data, group_keys="group", reference=None, is_log1p=True, n_threads=1)


def _scanpy(data: object) -> object:
    return importlib.import_module("scanpy").tl.rank_genes_groups(data, "group", method="wilcoxon", tie_correct=True)
