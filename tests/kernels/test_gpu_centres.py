"""Centres on a device against those of the host, run by an ordinary compiler in place of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import specification

from sparsemean._fit import refinement
from sparsemean._kernels import gpu_blocks
from sparsemean._stats.arrays import GAUSSIAN, dropna, medians

from emulated import needs_compiler

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def small_blocks(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two warps: threads take turns here, and each switch costs."""
    monkeypatch.setattr(gpu_blocks, "THREADS", 64)


def settled(x: np.ndarray, dof: float, start: float, scale: float) -> float:
    """The Student-t centre by the weights of the specification, until nothing moves."""
    z = (x - start) / scale
    centre, spread = 0.0, 1.0
    for _ in range(3000):
        weight = (dof + 1) / (dof + ((z - centre) / spread) ** 2)
        centre = weight @ z / weight.sum()
        spread = np.sqrt(weight @ (z - centre) ** 2 / z.size)
    return float(start + scale * centre)


RULE: dict[str, Any] = {
    "degrees": refinement.DEGREES, "gaussian": GAUSSIAN, "far": refinement.FAR, "near": refinement.NEAR,
    "fewest": refinement.FEWEST,
}  # fmt: skip


def compare(cupy: Any, X: np.ndarray, start: np.ndarray | None = None) -> None:
    columns = gpu_blocks.sorted_columns(cupy.asarray(X))
    expected = np.array([specification.pseudomedian(x) if (x := dropna(column)).size else np.nan for column in X.T])
    found = gpu_blocks.starts(columns, by_median=False)
    np.testing.assert_array_equal(found.get(), expected)
    middle = [np.median(x) if (x := dropna(column)).size else np.nan for column in X.T]
    np.testing.assert_array_equal(gpu_blocks.starts(columns, by_median=True).get(), middle)
    start = expected if start is None else start
    values, errors, compared = gpu_blocks.locate(columns, cupy.asarray(start), **RULE)
    for k, column in enumerate(X.T):
        x = dropna(column)
        inner, *others = specification.candidates(x, start[k])
        assert values[k, 0] == inner.value or np.isnan(inner.value)
        assert errors[k, 0] == inner.error
        assert compared[k] == ((others[0].name != inner.name) if x.size else -1)
        spread = GAUSSIAN * float(np.median(np.abs(x - start[k]))) if x.size else 0.0
        for place, (dof, other) in enumerate(zip(refinement.DEGREES, others, strict=True), start=1):
            if compared[k] != 1:
                assert (values[k, place], errors[k, place]) == (values[k, 0], errors[k, 0])
            elif other.error < np.inf:
                assert abs(values[k, place] - settled(x, dof, inner.value, spread)) <= 1e-6 * spread
                assert abs(values[k, place] - other.value) <= 1e-4 * spread
                assert errors[k, place] == pytest.approx(other.error, rel=1e-2)
            else:
                assert errors[k, place] == np.inf


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 63, 64, 65, 200, 501])
def test_centres_are_those_of_the_host(cupy: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    noise = rng.standard_normal((n, 6)) + 1
    noise[:, 1] = rng.standard_cauchy(n)
    noise[:, 2] = rng.exponential(size=n).astype(np.float32)
    noise[:, 3] = rng.integers(-3, 4, n)  # ties and zeros
    noise[:, 4] = rng.choice([-0.0, 0.0, 1.0], n)
    noise[:, 5] = rng.standard_normal(n) + np.where(rng.random(n) < 0.2, 30.0, 0.0)
    compare(cupy, noise)


def test_constants_gaps_and_extremes(cupy: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    X[:, 0] = 3.0
    X[5:, 1] = np.nan
    X[:, 2] = np.nan
    X[::3, 3] = np.nan
    X[:, 4] *= 1e-310
    X[:, 5] *= 1e300
    compare(cupy, X, np.where(np.isnan(X).all(axis=0), 7.0, medians(X)))


def test_columns_are_clipped(cupy: Any) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_cauchy((80, 5))
    X[4, 2] = np.nan
    centre, unit = medians(X), medians(np.abs(X))
    rows = gpu_blocks.clipped(cupy.asarray(X), cupy.asarray(centre), cupy.asarray(unit), most=4.0)
    plain = np.nan_to_num(np.clip((X - centre) / unit, -4.0, 4.0)).astype(np.float32)
    np.testing.assert_array_equal(rows.get(), plain)
