"""The same data give the same decisions on every road: memory, GPU, Dask, a stream, files that were merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsemean as sm
from sparsemean.result import Estimate
from sparsemean.simulate import make_contaminated

from emulated import Emulated, needs_compiler

OPTIONS: dict[str, Any] = {"contamination": 0.05, "random_state": 7}
DECISIONS = (
    "support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination", "beta", "bucket_size", "entry_time",
)  # fmt: skip
PIECES, FILES = 7, 5
Road = Callable[[np.ndarray, Path, str], Estimate]


def by_gpu(X: np.ndarray, folder: Path, test: str) -> Estimate:
    return sm.sparse_mean(Emulated().asarray(X), test=test, **OPTIONS)


def sent_to_gpu(X: np.ndarray, folder: Path, test: str) -> Estimate:
    return sm.sparse_mean(X, device="gpu", test=test, **OPTIONS)


def by_dask(X: np.ndarray, folder: Path, test: str) -> Estimate:
    array = pytest.importorskip("dask.array")
    return sm.sparse_mean(array.from_array(X, chunks=(97, 31)), test=test, **OPTIONS)


def by_stream(X: np.ndarray, folder: Path, test: str) -> Estimate:
    """Ranks need the rows again; bucket signs decide without them."""
    est = sm.SparseMean(test=test, **OPTIONS)
    for piece in np.array_split(X, PIECES):
        est.partial_fit(piece)
    if test == "ranks":
        return est.complete(X).result_
    counted = est.result_
    completed = est.complete(X).result_
    for name in DECISIONS:
        np.testing.assert_array_equal(getattr(counted, name), getattr(completed, name), err_msg=name)
    return completed


def by_files(X: np.ndarray, folder: Path, test: str) -> Estimate:
    first, paths = 0, []
    for k, piece in enumerate(np.array_split(X, FILES)):
        paths.append(folder / f"{k}.sketch")
        sm.sketch(piece, first_row=first, random_state=OPTIONS["random_state"]).save(paths[-1])
        first += piece.shape[0]
    return sm.merge(paths[::-1]).estimate(X, contamination=OPTIONS["contamination"], test=test)


@needs_compiler
@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("road", [by_gpu, sent_to_gpu, by_dask, by_stream, by_files], ids=lambda road: road.__name__)
@pytest.mark.parametrize("test", ["ranks", "buckets"])
@pytest.mark.parametrize(("kind", "close"), [("float64", 1e-10), ("float32", 1e-5)])
@pytest.mark.parametrize(("distribution", "n", "d"), [("t", 601, 90), ("pareto", 333, 200)])
def test_every_road_gives_the_same_answer(
    road: Road,
    test: str,
    kind: str,
    close: float,
    distribution: str,
    n: int,
    d: int,
    tmp_path: Path,
) -> None:
    made: Any = make_contaminated(
        n, d, [10, -5, -4, 2], distribution=distribution, shape=2.0, contamination=0.05, random_state=3
    )
    X = made.X.astype(kind)
    expected, found = sm.sparse_mean(X, test=test, **OPTIONS), road(X, tmp_path, test)
    assert expected.support.size >= 3
    for name in DECISIONS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=close)
    np.testing.assert_allclose(found.intervals, expected.intervals, rtol=0, atol=close)
    assert found.rows is not None
    assert expected.rows is not None
    np.testing.assert_array_equal(found.rows.suspects, expected.rows.suspects)
