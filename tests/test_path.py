"""The closed form and the event walk against the plain iteration."""

from __future__ import annotations

import numpy as np
import pytest
import specification

from sparsemean._kernels import reference
from sparsemean._stats import path
from sparsemean._stats.buckets import assign_paper_buckets

from problems import draw


@pytest.mark.parametrize(("alpha", "eta"), [(1e-5, 0.05), (1e-3, 0.3), (0.3, 0.7), (1e-10, 0.07)])
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_counts_settle_all_but_the_unfinished(first: int, alpha: float, eta: float, long_version: bool) -> None:
    for seed in range(first, first + (20 if long_version else 1)):
        problem = draw(seed)
        partition = assign_paper_buckets(problem.X.shape[0], problem.n_buckets, seed)
        counts = reference.count_signs(problem.X, partition)
        means = specification.bucket_means(problem.X, partition)
        free = {"alpha": alpha, "eta": eta}
        args = (counts.positive[0], counts.negative[0], problem.n_buckets)
        mu = path.closed_form_path(*args, **free, t=200)
        entry = path.free_entry(*args, **free)
        rest = path.needs_iteration(counts, mu, **free)
        settled = np.setdiff1d(np.arange(mu.size), rest)
        known = np.setdiff1d(np.arange(mu.size), path.entry_unsettled(counts, alpha=alpha))
        expected = specification.subgm(means, **free, times=(200,))[0]
        scale = np.hypot(expected, 2 * alpha**2)
        assert (np.abs(mu - expected) <= 1e-12 * scale)[settled].all()
        np.testing.assert_array_equal(entry[known], specification.entry_times(means[:, known], **free))


@pytest.mark.parametrize(("alpha", "eta"), [(1e-5, 0.05), (1e-3, 0.3), (0.3, 0.7)])
@pytest.mark.parametrize("seed", range(30))
def test_event_walk_finds_the_entry_times(seed: int, alpha: float, eta: float) -> None:
    rng = np.random.default_rng(seed)
    # bucket means crowd around α, so that nearly every walk meets some
    means = alpha * rng.standard_normal((int(rng.integers(1, 40)), 30)) * 10.0 ** rng.uniform(-2, 1, 30)
    means += alpha * rng.standard_normal(30)
    means[rng.random(means.shape) < 0.2] = 0.0
    np.testing.assert_array_equal(
        path.entry_times(means, alpha=alpha, eta=eta), specification.entry_times(means, alpha=alpha, eta=eta)
    )


def test_threshold_is_the_root_not_its_approximation() -> None:
    assert path.selection_threshold(200, alpha=1e-5, eta=0.05) == pytest.approx(0.58401, abs=5e-6)
    assert path.selection_threshold(10, alpha=1e-5, eta=0.05) == np.inf
    window = [path.selection_threshold(t, alpha=1e-5, eta=0.05) for t in (461, 1382)]
    assert window == pytest.approx([1 / 4, 1 / 12], rel=0.02)


@pytest.mark.parametrize("J", [239, 240])
def test_selection_is_a_sign_test(J: int) -> None:
    """A feature far from zero passes after T steps exactly when |β₀| reaches the root."""
    positive = np.arange(J + 1)
    mu = path.closed_form_path(positive, J - positive, J, alpha=1e-5, eta=0.05, t=200)
    beta = (2 * positive - J) / J
    threshold = path.selection_threshold(200, alpha=1e-5, eta=0.05)
    np.testing.assert_array_equal(np.abs(mu) >= 1e-5, np.abs(beta) >= threshold)
