"""Leading directions on a device against those of the host, run by an ordinary compiler in place of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparsemean import sparse_mean
from sparsemean._kernels import gpu_blocks
from sparsemean._stats import assumptions, directions, row_scores
from sparsemean._stats.standardized import StandardizedRows

from emulated import needs_compiler

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def small_blocks(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two warps: threads take turns here, and each switch costs."""
    monkeypatch.setattr(gpu_blocks, "ONE_BLOCK", 64)


def both(cupy: Any, rows: np.ndarray) -> tuple[Any, Any]:
    """Directions and variances of rows by the host and by the device."""
    rows = rows.astype(np.float32)
    gram, sums, count = rows.T @ rows, rows.sum(axis=0), float(len(rows))
    return directions.leading(gram, sums, count), directions.leading(cupy.asarray(gram), sums, count)


@pytest.mark.parametrize("p", [129, 200, 512, 1024, 1025])
def test_directions_are_those_of_the_host(cupy: Any, monkeypatch: pytest.MonkeyPatch, p: int) -> None:
    monkeypatch.setattr(directions, "STEPS", 64 if p < 512 else 13)
    rng = np.random.default_rng(p)
    scale = np.concatenate((np.arange(12.0, 4.0, -1.0), np.ones(p - 8)))
    rows = rng.standard_normal((300, p)) * scale + rng.standard_normal(p)
    (vectors, values), (found, variances) = both(cupy, rows)
    assert found.shape == (p, directions.DIRECTIONS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(variances[:8], values[:8], rtol=2e-4)
    np.testing.assert_allclose(np.linalg.norm(found, axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(np.abs(np.sum(found[:, :4] * vectors[:, :4], axis=0)), 1, atol=1e-3)
    exact = np.linalg.eigvalsh(np.cov(rows.astype(np.float32).T.astype(np.float64)) * 299)[::-1]
    np.testing.assert_allclose(variances[0], exact[0], rtol=2e-3 if p < 512 else 0.03)


@pytest.mark.parametrize("rank", [1, 2, 5, 20])
def test_nothing_is_left_of_a_matrix_of_low_rank(cupy: Any, rank: int) -> None:
    rng = np.random.default_rng(rank)
    rows = rng.standard_normal((80, rank)) @ rng.standard_normal((rank, 150))
    (vectors, values), (found, variances) = both(cupy, rows)
    assert min(found.shape[1], vectors.shape[1]) >= min(rank, 8)  # what rounding leaves beyond may differ
    np.testing.assert_allclose(variances[:rank], values[:rank], rtol=1e-3)
    there, here = (np.linalg.qr(x[:, : min(rank, 5)])[0] for x in (found, vectors))
    np.testing.assert_allclose(there.T @ here @ here.T @ there, np.eye(there.shape[1]), atol=5e-3)


def test_no_variance_at_all(cupy: Any) -> None:
    for value in (0.0, 2.0):
        (_, values), (found, variances) = both(cupy, np.full((10, 130), value))
        assert np.isfinite(found).all()
        np.testing.assert_allclose(variances[:1], values[:1], atol=1e-2)


def test_the_host_waits_once_in_a_few_steps(cupy: Any) -> None:
    from fakecupy import CALLS

    gram = cupy.asarray(np.diag(np.arange(200.0)).astype(np.float32))
    before = CALLS["to host"]
    space = gpu_blocks.DeviceSpace(
        gram, np.zeros(200), np.zeros(200), start=np.ones(200, dtype=np.float32), most=64, tiny=1e-12
    )
    assert space.grow(8).shape == (8,)
    assert CALLS["to host"] - before == 1
    basis = space.basis.values[:8]
    np.testing.assert_allclose(basis @ basis.T, np.eye(8), atol=1e-5)


@pytest.mark.parametrize("own", [1.0, 3.0])
def test_far_values_meet_as_on_the_host(cupy: Any, own: float) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_t(3, (200, 30)) * np.where(rng.random(200) < 0.2, own, 1.0)[:, np.newaxis]
    kept = rng.random(200) < 0.9
    met, sums = directions._meeting(StandardizedRows(X).winsorized_tails(), kept, 30)
    wide = StandardizedRows(cupy.asarray(X)).winsorized()
    found, totals = directions._meeting_there(wide.parts[0][0], kept)
    np.testing.assert_allclose(found.get(), met + met.T, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(totals, sums, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("known", [False, True])
def test_neighbours_agree_as_on_the_host(cupy: Any, known: bool) -> None:
    X = np.random.default_rng(0).integers(-2, 3, (150, 7)).astype(np.float64)
    for x in (X, X[np.arange(150) // 3 * 3]):
        found = assumptions.z_of_neighbours(cupy.asarray(x), known=known)
        assert found == pytest.approx(assumptions.z_of_neighbours(x, known=known), rel=1e-12)


def test_rows_are_judged_as_on_the_host(cupy: Any) -> None:
    X = np.random.default_rng(1).standard_normal((300, 140))
    X[:20] += 1.5
    X[20:30, :4] += 9.0
    expected, found = row_scores.score_rows(X), row_scores.score_rows(cupy.asarray(X))
    assert expected.aligned == 30
    np.testing.assert_array_equal(found.suspects, expected.suspects)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-3)
    assert (found.kinds, found.reasons) == (expected.kinds, expected.reasons)


def test_a_sorted_table_is_told_as_on_the_host(cupy: Any) -> None:
    X = np.random.default_rng(0).standard_normal((400, 12)).astype(np.float32)
    X[:, 1:] += 2 * X[:, :1]
    X = X[np.argsort(X[:, 0])]
    notes = [sparse_mean(each).status.messages for each in (X, cupy.asarray(X))]
    assert notes[0][0].startswith("rows are sorted by column 0; apart from that neighbouring rows are not alike")
    assert notes[1][0] == notes[0][0]
