from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from sparsemean._cli.benchmarks import timing


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_is_student_t_with_two_degrees_of_freedom(dtype: str) -> None:
    X = timing.draw(1000, 200, dtype)
    columns = np.ones(200, dtype=bool)
    columns[np.linspace(0, 199, timing.N_SIGNALS).astype(int)] = False
    noise = X[:, columns].ravel()
    assert noise.dtype == dtype
    assert np.isfinite(noise).all()
    assert (noise != 0).all()
    assert stats.kstest(noise, stats.t(2).cdf).pvalue > 1e-3  # the draws are fixed: this holds always or never


def test_signals_are_where_they_should_be() -> None:
    X = timing.draw(2000, 1000, "float64")
    centres = np.median(X, axis=0)
    signals = np.flatnonzero(np.abs(centres) > timing.SIGNAL / 2)
    assert signals.tolist() == np.linspace(0, 999, timing.N_SIGNALS).astype(int).tolist()
    assert centres[signals] == pytest.approx(np.tile([timing.SIGNAL, -timing.SIGNAL], 10), abs=0.3)


def test_the_latest_matrix_is_kept_and_only_that() -> None:
    first = timing.draw(64, 30, "float64")
    assert timing.draw(64, 30, "float64") is first
    timing.draw(64, 31, "float64")
    again = timing.draw(64, 30, "float64")
    assert again is not first
    np.testing.assert_array_equal(again, first)


def test_ends_of_the_uniform_grid_stay_finite() -> None:
    class Ends:
        """A generator that draws only the extremes and the middle of the grid."""

        def random(self, *, dtype: np.dtype[np.floating], out: timing.FloatMatrix) -> None:
            step = np.finfo(dtype).epsneg
            out[:] = np.array([0.0, 0.5, 1.0 - step], dtype=dtype)

    for dtype in ("float32", "float64"):
        block = np.empty((1, 3), dtype=dtype)
        timing._student_2(block, Ends())  # type: ignore[arg-type]
        assert np.isfinite(block).all()
        assert (block != 0).all()
        assert block[0, 0] < -1000
        assert block[0, 2] > 1000


def test_drawing_holds_little_beside_the_matrix() -> None:
    timing.forget()
    tracemalloc.start()
    try:
        X = timing.draw(500, 20_000, "float64")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - X.nbytes < 4e6
