"""The filter on signs before ranks: p is that of the ranks where signs pass for as many bad rows, and 1 elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from sparsemean import certify
from sparsemean._stats import signed_ranks

N, D = 100, 400
FILTER = 0.003
"""20 · level / d = 0.0025 is less than the least there is."""


@pytest.mark.parametrize("m", [0, 3, 10])
def test_p_is_one_where_signs_do_not_pass(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Single rows, so that the sign test is a binomial tail: m signs are taken from the majority there too."""
    X = np.random.default_rng(2).standard_normal((N, D)) + np.linspace(0, 1.5, D)
    options = {"contamination": m / N, "bucket_sizes": (1,), "test": "ranks"}
    everywhere = certify(X, **options)
    monkeypatch.setattr(signed_ranks, "ALL_RANKED", 0)
    found = certify(X, **options)
    above = np.sum(X > 0, axis=0)
    signs = np.minimum(1, 2 * binom.sf(np.maximum(above, N - above) - m - 1, N, 0.5))
    passing = signs <= FILTER
    assert 50 < passing.sum() < D
    np.testing.assert_array_equal(found.p_values, np.where(passing, everywhere.p_values, 1))
    assert (everywhere.p_values[~passing] < 1).any()


def test_filter_lies_far_above_what_selects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where noise is not made against it, hardly a feature is lost by it: 3 of 272 here."""
    X = np.random.default_rng(4).standard_normal((N, D)) + np.linspace(0, 1.5, D)
    every = certify(X, contamination=0.02).support
    monkeypatch.setattr(signed_ranks, "ALL_RANKED", 0)
    found = certify(X, contamination=0.02).support
    assert set(found) <= set(every)
    assert found.size >= 0.98 * every.size


def test_radius_without_a_filter_promises_no_more_than_ranks_do() -> None:
    """Signs are balanced and positive values a little larger: one row more and ranks select, whatever signs say."""
    changes = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        keys = rng.uniform(1, 3) * np.arange(40) / 40 + rng.gumbel(size=40)
        x = -(1 + 0.001 * np.arange(40) / 40)
        x[np.argsort(-keys)[:20]] *= -1
        x = rng.permutation(x)
        other = x.copy()
        other[np.argmin(x)] = 3.0
        before, after = (certify(values[:, np.newaxis], contamination=0.0) for values in (x, other))
        if before.support.size != after.support.size:
            assert before.radius[0] == 1
            changes += 1
    assert changes >= 5
