"""The specification against what can be said on paper."""

from __future__ import annotations

import numpy as np
import pytest
import specification

from sparsemean._stats.buckets import assign_block_buckets, assign_paper_buckets


def test_one_step_by_hand() -> None:
    means = np.array([[1.0, -1.0, 0.0], [2.0, 3.0, 0.0], [3.0, -5.0, 1.0]])
    alpha, eta = 0.1, 0.2
    beta = np.array([1.0, -1 / 3, 1 / 3])
    mu = specification.subgm(means, alpha=alpha, eta=eta, times=(1,))[0]
    np.testing.assert_allclose(mu, 4 * alpha**2 * eta * beta, rtol=1e-13)


def test_the_walk_ends_at_the_median() -> None:
    means = np.random.default_rng(0).standard_normal((41, 5)) + 3.0
    # the last steps have length about 2ημ/J, so it ends that near to the median
    mu = specification.subgm(means, alpha=1e-3, eta=1e-3, times=(60_000,))[0]
    np.testing.assert_allclose(mu, np.median(means, axis=0), atol=2e-3 * 5)


def test_bucket_means_are_means_of_the_rows_of_each_bucket() -> None:
    X = np.random.default_rng(0).standard_normal((131, 4))
    for partition in (assign_paper_buckets(131, 20, 0), assign_block_buckets(131, (2, 8), 0)):
        fine = specification.bucket_means(X, partition, level=partition.wanted[0])
        labels = np.unique(partition.bucket_of_row)
        expected = [X[partition.bucket_of_row == label].mean(axis=0) for label in labels]
        np.testing.assert_allclose(fine, expected, rtol=1e-12)


@pytest.mark.parametrize("alpha", [1e-5, 1e-2])
def test_entry_time_is_the_first_time_at_alpha(alpha: float) -> None:
    means = np.random.default_rng(4).standard_normal((60, 12)) + np.linspace(-1, 1, 12)
    path = np.abs(specification.subgm(means, alpha=alpha, eta=0.05, times=range(20_001)))
    for i, entry in enumerate(specification.entry_times(means, alpha=alpha, eta=0.05)):
        above = np.flatnonzero(path[:, i] >= alpha)
        assert entry == (above[0] if above.size else np.inf)
