"""Rows that disagree on several features at once are left out, no more than twice the share."""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean._fit.refinement import MOST_COLUMNS, agreeing


def kept(X: np.ndarray, share: float) -> np.ndarray:
    return agreeing(X, np.median(X, axis=0), share)


@pytest.mark.parametrize("noise", ["normal", "t 1.3"])
@pytest.mark.parametrize("distance", [5.0, 10.0, 1e6, 1e300])
def test_a_cluster_is_left_out(noise: str, distance: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6)) if noise == "normal" else rng.standard_t(1.3, (300, 6))
    X[:30] = distance + 0.1 * X[:30]
    agree = kept(X, 0.1)
    assert agree[:30].sum() <= 1
    assert agree[30:].sum() >= 255


def test_one_wild_entry_in_a_row_is_no_reason() -> None:
    X = np.random.default_rng(0).standard_normal((300, 6))
    X[np.arange(6), np.arange(6)] = 1e6
    X[10:40] = 8.0
    assert not kept(X, 0.1)[10:40].any()
    assert kept(X, 0.1)[:6].sum() >= 3


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.2, 0.4, 0.49])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 50, 101])
def test_at_most_twice_the_share_and_never_all(share: float, n: int) -> None:
    """Weights add up to one and none exceeds c = 1/(n − round(share·n)): at most 2 round(share·n) are below c/2."""
    for seed in range(3):
        X = np.random.default_rng(seed).standard_t(2, (n, 3))
        dropped = n - kept(X, share).sum()
        assert dropped <= min(2 * round(share * n), n - 1)
        assert round(share * n) or dropped == 0


def test_constant_columns_and_more_columns_than_rows() -> None:
    X = np.random.default_rng(0).standard_normal((40, 5))
    X[:4] += 9
    np.testing.assert_array_equal(kept(np.column_stack((X, np.ones((40, 3)))), 0.1), kept(X, 0.1))
    assert kept(np.ones((20, 4)), 0.2).all()
    wide = np.random.default_rng(0).standard_normal((25, MOST_COLUMNS + 100))
    wide[:2] += 5
    assert not kept(wide, 0.08)[:2].any()
    assert kept(wide, 0.08).sum() >= 21


def test_scale_shift_and_order() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, (120, 4))
    X[:12] += 4
    plain = kept(X, 0.1)
    np.testing.assert_array_equal(kept(X * 2.0 ** np.array([-30, 0, 5, 60]), 0.1), plain)
    order = rng.permutation(120)
    np.testing.assert_array_equal(kept((X + 100)[order], 0.1), plain[order])


def test_the_input_is_not_touched() -> None:
    X = np.random.default_rng(0).standard_normal((50, 3))
    before = X.copy()
    kept(X, 0.2)
    np.testing.assert_array_equal(X, before)
