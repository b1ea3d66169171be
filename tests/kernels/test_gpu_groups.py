"""Two groups on a device against the counts of the host, run by an ordinary compiler in place of a device."""

from __future__ import annotations

import pickle
import re
from importlib import resources
from typing import Any

import numpy as np
import pytest

from sparsemean import SparseMeanDifference, certify
from sparsemean._data import as_table
from sparsemean._evidence import ranks
from sparsemean._evidence.counting.engines import Engine, gpu
from sparsemean._kernels import NotFiniteError, gpu_blocks, groups
from sparsemean._kernels.groups import REST, UNWANTED
from sparsemean._kernels.rounding import DOUBLE, SINGLE, snapped
from sparsemean._stats.arrays import on_host
from sparsemean.errors import InputError

from emulated import needs_compiler

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def small_blocks(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two warps: threads take turns here, and each switch costs."""
    monkeypatch.setattr(gpu_blocks, "THREADS", 64)


def counts_of(X: np.ndarray, of: np.ndarray, *, missing: bool = False) -> np.ndarray:
    """The same counts by the host."""
    comparisons = groups.Comparisons.of(np.where(of == 2, -1, of), np.zeros(2, dtype=int), np.array([[-1, -2]]))
    out = comparisons.blank(X.shape[1])
    for _ in groups.count_pairs(X, comparisons, out, skip_missing=missing, n_jobs=1):
        pass
    own, (wins, ties, repeats, *below) = out.own.reshape(6, -1), out.pairs[0, :, 0]
    return np.stack([*own, wins, ties, *below[:2], repeats, below[2]])


def compare(cupy: Any, X: np.ndarray, of: np.ndarray, *, missing: bool = False) -> None:
    found = gpu_blocks.compare_groups(cupy.asarray(X), of, missing=missing).get()
    np.testing.assert_array_equal(found, counts_of(X, of, missing=missing))
    grid = DOUBLE if X.dtype == np.float64 else SINGLE
    found = gpu_blocks.compare_groups(cupy.asarray(X), of, missing=missing, grid=grid).get()
    np.testing.assert_array_equal(found, counts_of(snapped(X, grid).astype(X.dtype), of, missing=missing))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 3, 63, 64, 65, 300])
def test_counts_are_those_of_the_host(cupy: Any, n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 8)).astype(dtype)
    X[:, 1] = rng.integers(-3, 4, n)
    X[:, 2] = rng.poisson(0.3, n)
    X[:, 3] = rng.choice([-0.0, 0.0, 1e-45, -1e-45], n)
    X[:, 4] = rng.standard_cauchy(n).astype(dtype)
    X[:, 5] = (rng.integers(0, 5, n) / 3).astype(dtype) * (1 + rng.integers(-4, 5, n) * np.finfo(dtype).eps)
    X[:, 5] = np.sort(X[:, 5])
    X[:, 6] = 2.0
    X[:, 7] = np.where(rng.random(n) < 0.9, 0.0, X[:, 7])
    of = rng.integers(0, 2, n)
    of[:2] = 0, 1
    compare(cupy, X, of)
    compare(cupy, X, np.where(rng.random(n) < 0.3, 2, of))
    X[rng.random(X.shape) < 0.2] = np.nan
    compare(cupy, X, of, missing=True)


def test_some_columns_of_wider_rows(cupy: Any) -> None:
    X = np.random.default_rng(0).standard_normal((100, 9)).astype(np.float32)
    of = np.arange(100) % 2
    found = gpu_blocks.compare_groups(cupy.asarray(X)[:, 3:7], of).get()
    np.testing.assert_array_equal(found, counts_of(X[:, 3:7], of))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -np.nan])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_not_finite_is_refused(cupy: Any, value: float, dtype: str) -> None:
    X, of = np.ones((40, 3), dtype=dtype), np.arange(40) % 2
    X[7, 1] = value
    with pytest.raises(NotFiniteError):
        gpu_blocks.compare_groups(cupy.asarray(X), of)
    if np.isinf(value):
        with pytest.raises(NotFiniteError):
            gpu_blocks.compare_groups(cupy.asarray(X), of, missing=True)
    else:
        compare(cupy, X, of, missing=True)


def design(rng: np.random.Generator, n: int, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells of rows, their strata, and what each is compared with."""
    if kind == "strata":
        against = np.full((1, 6), UNWANTED)
        against[0, [1, 4]] = 0, 3
        return rng.integers(0, 6, n), np.repeat([0, 1], 3), against
    if kind == "pairs":
        return rng.integers(-1, 3, n), np.zeros(3, dtype=int), np.array([[UNWANTED, 0, 0], [UNWANTED, UNWANTED, 1]])
    return rng.integers(-1, 3, n), np.zeros(3, dtype=int), np.full((1, 3), REST)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "fortran"])
@pytest.mark.parametrize("kind", ["rest", "pairs", "strata"])
def test_an_engine_counts_what_the_host_does(cupy: Any, kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = np.asarray(rng.standard_normal((90, 7)) * 2, dtype=np.float64 if dtype == "fortran" else dtype)
    X[:, 1] = rng.poisson(0.3, 90)
    X = np.asfortranarray(X) if dtype == "fortran" else X
    monkeypatch.setattr(gpu, "CONVERTED_BYTES", 2000)
    asked = design(rng, 90, kind)
    found = on_host(gpu.GpuEngine().rank_counts(as_table(cupy.asarray(X)), *asked))
    expected = Engine().rank_counts(as_table(X), *asked)
    np.testing.assert_array_equal(found[0], expected.own)
    np.testing.assert_array_equal(found[1], expected.pairs)


def test_longer_columns_are_compared_on_the_host(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, asked = np.random.default_rng(0).standard_normal((30, 3)), (np.arange(30) % 2, np.zeros(2, int), [[REST] * 2])
    monkeypatch.setattr(gpu_blocks, "most_rows", lambda size: 160 // size)
    found = gpu.GpuEngine().rank_counts(as_table(cupy.asarray(X)), *map(np.asarray, asked))
    assert isinstance(found.own, np.ndarray)


SHARED = re.compile(r"__shared__ (.*?);", re.DOTALL)
PLACES = re.compile(r"(\w+)\[(\w+)\]")


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("threads", [64, 128, 256, 512])
def test_the_longest_columns_fit_into_the_memory_of_a_block(
    monkeypatch: pytest.MonkeyPatch, threads: int, size: int
) -> None:
    monkeypatch.setattr(gpu_blocks, "THREADS", threads)
    home = resources.files("sparsemean._kernels")
    code = "".join((home / file).read_text(encoding="utf-8") for file in ("blocks.cuh", "compare_groups.cu"))
    bytes_of = {
        "Key": size,
        "unsigned short": 2,
        "unsigned int": 4,
        "Part": 4 * 3 + 4 * 6,
    }  # found and pairs are joined

    def shared(rows: int) -> int:
        places = {"THREADS": threads, "ROWS": rows, "BUCKETS": 2 * threads + 1, "WARPS": threads // 32}
        return sum(
            bytes_of[re.match(r"(?:unsigned )?\w+", declared)[0]] * places[places_of]  # type: ignore[index]
            for declared in SHARED.findall(code)
            for _, places_of in PLACES.findall(declared)
        )

    most = gpu_blocks.most_rows(size)
    assert most % threads == 0
    assert 3000 <= most < 2**15  # places in a bucket have 15 bits
    assert shared(most) <= gpu_blocks.OWN_MEMORY < shared(most + threads)


def test_what_is_not_finite_is_named(cupy: Any) -> None:
    X = np.ones((40, 3))
    X[7, 1] = np.nan
    with pytest.raises(InputError, match="column 1, row 7"):
        SparseMeanDifference().fit(cupy.asarray(X), np.arange(40) % 2)


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("missing", ["raise", "omit"])
def test_a_fit_on_the_device_is_that_on_the_host(
    cupy: Any, labels: int, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "A_TASK", 8)  # features are looked at by classes
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((80, 30)).astype(np.float32), np.arange(80) % labels
    X[:, 10:20] = rng.poisson(0.5, (80, 10))
    X[:, 20:25] = rng.integers(-2, 3, (80, 5))
    X[y == 1, ::5] += 2
    if missing == "omit":
        X[rng.random(X.shape) < 0.05] = np.nan
    asked = {"contamination": 0.02, "missing": missing}
    found, expected = (certify(A, y, **asked) for A in (cupy.asarray(X), X))
    for key in expected if labels > 2 else [None]:
        one, other = (found, expected) if key is None else (found[key], expected[key])
        assert other.support.size or key not in (None, 1)
        for name in ("support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination", "beta"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    fits = [SparseMeanDifference(**asked).fit(A, y) for A in (cupy.asarray(X), X)]
    here, there = (fit.result_ if labels == 2 else next(iter(fit.result_.results.values())) for fit in fits)
    np.testing.assert_array_equal(here.mean, there.mean)
    np.testing.assert_array_equal(here.intervals, there.intervals)
    np.testing.assert_array_equal(here.rows.suspects, there.rows.suspects)
    np.testing.assert_array_equal(here.at(0.1).support, there.at(0.1).support)
    assert pickle.loads(pickle.dumps(here)).support.tolist() == there.support.tolist()
