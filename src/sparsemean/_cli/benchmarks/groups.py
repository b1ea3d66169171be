"""Groups of rows compared in every feature: the counting pass against illico and scanpy, one thread, CPU seconds."""

from __future__ import annotations

import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sparsemean._cli.benchmarks import timing
from sparsemean._cli.benchmarks.timing import Row, at_least, best_times
from sparsemean._util.records import CellCounts, IntArray


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
ILLICO_BAR = 1.0
SCANPY_BAR = at_least(5)
MOST_REPEATS = 5
RATE, SPREAD, DEPTH = 0.13, 0.35, 0.4
"""Mean count of a gene, the shape of the gamma law of these means, and the spread of the logarithm of cell sizes."""
DRAWN_AT_ONCE = 20_000_000


def groups(*, quick: bool, repeat: int) -> Iterator[Row]:
    """Yield how long counting takes over illico's time and scanpy's over that, or a remark where they are not here."""
    sides = {"illico": _illico, "scanpy": _scanpy}
    absent = [name for name in sides if importlib.util.find_spec(name) is None]
    if absent:
        yield Row(f"not compared, not installed: pip install {' '.join(absent)}", 0.0, "")
    for shape in QUICK if quick else FULL:
        X = draw(shape)
        labels = np.random.default_rng(1).integers(0, shape.n_groups, shape.n)
        for name, side in sides.items():
            if name not in absent:
                yield _compare(name, side, X, shape, labels=labels, quick=quick, repeat=repeat)


def draw(shape: Shape) -> Any:
    """Return log1p of Poisson counts over the size of each row, about 8 % of them not zero, in single precision."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    rates, sizes = rng.gamma(SPREAD, RATE / SPREAD, shape.d), rng.lognormal(0, DEPTH, shape.n)
    step = max(1, DRAWN_AT_ONCE // shape.d)
    stripes: list[Any] = []
    for first in range(0, shape.n, step):
        size = sizes[first : first + step, np.newaxis]
        values = np.log1p(rng.poisson(rates * size) / size).astype(np.float32)
        stripes.append(sparse.csr_matrix(values) if shape.kind == "CSR" else values)
    return sparse.vstack(stripes, format="csr") if shape.kind == "CSR" else np.concatenate(stripes)


def count(X: Any, labels: IntArray) -> CellCounts:
    """Compare each group with the rest."""
    from sparsemean._counts.engines import engine_of
    from sparsemean._data import as_table

    table, n_groups = as_table(X), int(labels.max()) + 1
    strata, against = np.zeros(n_groups, dtype=np.intp), np.full((1, n_groups), -1)
    return engine_of(table.source).rank_counts(table, labels, strata, against, n_jobs=1)


def _compare(
    name: str, side: Callable[[Any], object], X: Any, shape: Shape, *, labels: IntArray, quick: bool, repeat: int
) -> Row:
    data, small = _annotated(X, labels), slice(0, 400)
    ours, theirs = partial(count, X, labels), partial(side, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count(X[small], labels[small])
        side(_annotated(X[small], labels[small]))
        most = 1 if name == "scanpy" else MOST_REPEATS
        own, other = best_times(ours, theirs, repeat=min(repeat, most), clock=time.process_time)
    what = f"{shape.kind} {timing.size(shape.n)} × {timing.size(shape.d)}, {shape.n_groups} groups against the rest"
    if name == "illico":
        bar = None if quick else ILLICO_BAR
        return Row(f"counting / illico, {what}", own / other, "×", bar=bar, detail=timing.against(own, other))
    detail = timing.against(other, own)
    return Row(f"scanpy / counting, {what}", other / own, "×", bar=None if quick else SCANPY_BAR, detail=detail)


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
