"""Fits that run at once leave the threads of NumPy's linear algebra as they found them."""

from __future__ import annotations

from threading import Event, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from sparsemean._kernels.memory_layout import one_blas_thread


def blas_threads() -> set[int]:
    assert np.ones((2, 2)) @ np.ones(2) is not None
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.skipif(blas_threads() == {1}, reason="one core")
def test_fits_that_run_at_once_lift_the_limit() -> None:
    before, began, ended = blas_threads(), Event(), Event()

    def first() -> None:
        with one_blas_thread():
            began.set()
            assert ended.wait(10)

    other = Thread(target=first)
    other.start()
    assert began.wait(10)
    with one_blas_thread():
        assert blas_threads() == {1}
        ended.set()
        other.join()
    assert blas_threads() == before
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before
