"""Rows that disagree on several features at once are left out, no more than twice the share."""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean._fit import refinement
from sparsemean._fit.refinement import FEWEST_COLUMNS, MOST_COLUMNS, agreeing
from sparsemean._stats.descent import LEADING, RoughEigenpair, descend, follow, largest_weight
from sparsemean.baselines._covariances import TopEigenpair


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


def test_gaps_speak_neither_for_nor_against_a_row() -> None:
    X = np.random.default_rng(0).standard_normal((300, 6))
    X[:30] += 5
    X[::7, 2] = np.nan
    agree = agreeing(X, np.nanmedian(X, axis=0), 0.1)
    assert agree[:30].sum() <= 1
    assert agree[30:].sum() >= 255


@pytest.mark.parametrize(("n", "k"), [(60_000, 3), (30_000, 40)])
def test_of_many_rows_some_lead_and_all_follow(n: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(n)
    X = np.asfortranarray(rng.standard_t(3, (n, k)))
    bad = rng.permutation(n)[: n // 20]
    X[bad] += 4
    X[5, 0] = np.nan
    centre = np.nanmedian(X, axis=0)
    agree = agreeing(X, centre, 0.06)
    assert n - agree.sum() <= 2 * round(0.06 * n)
    monkeypatch.setattr(refinement, "MOST_VALUES", n * k * FEWEST_COLUMNS)
    alone = agreeing(X, centre, 0.06)
    assert np.mean(agree != alone) < 0.005
    assert agree[bad].mean() < 0.1


def test_followers_end_where_the_leaders_do() -> None:
    rows = np.random.default_rng(0).standard_normal((400, 5)).astype(np.float32)
    rows[:30] += 3
    cap = largest_weight(400, 0.1)
    objective = RoughEigenpair(rows)
    descent = descend(objective, 400, cap, n_iter=100, least_fall=3e-3, patience=4)
    assert len(descent.moves) > 3
    np.testing.assert_allclose(follow(descent, objective.directions, rows, cap=cap), descent.weights / cap, atol=1e-4)


@pytest.mark.parametrize("d", [1, 4, LEADING, 40])
def test_the_rough_eigenpair_is_the_exact_one(d: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((300, d))
    rows[:40] += 2
    w = rng.dirichlet(np.full(300, 5.0))
    rough, exact = RoughEigenpair(rows.astype(np.float32))(w, np.inf), TopEigenpair(rows)(w, np.inf)
    assert rough is not None
    assert exact is not None
    np.testing.assert_allclose(rough[0], exact[0], rtol=1e-5 if d <= LEADING else 1e-3)
    away = np.linalg.norm(rough[1] - exact[1]) / np.linalg.norm(exact[1])
    assert away < (1e-4 if d <= LEADING else 0.05)


def test_a_patient_descent_stops_where_several_moves_lower_nothing() -> None:
    def level(w: np.ndarray, below: float) -> tuple[float, np.ndarray] | None:
        value = 1 + 1e-6 * float(w @ np.arange(10.0))
        return (value, np.arange(10.0)) if value < below else None

    assert descend(level, 10, 0.2, n_iter=100, least_fall=1e-3, patience=4).iterations == 4
    assert descend(level, 10, 0.2, n_iter=100, least_fall=1e-3).iterations == 1
    assert descend(level, 10, 0.2, n_iter=3, least_fall=1e-3, patience=4).iterations == 3
