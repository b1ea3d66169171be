"""The certificate of sparse variance against closed forms, every support and a solver; then the two methods on it."""

from __future__ import annotations

import itertools
import math
import time
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sparsemean import baselines, simulate
from sparsemean._util.records import LocationEstimate
from sparsemean.baselines import BaselineWarning, descent
from sparsemean.baselines._sparse_variance import SparseBound, SparseVariance
from sparsemean.baselines.descent import CertifiedVariance, clip_columns

import plain_baselines
from conftest import Claims

Rows = npt.NDArray[np.float64]
MEANS = [10, -5, -4, 2]
# By SCS and Clarabel at 1e-5, by CVXOPT for the first two: see `attacked_covariance`.
SOLVED = {20: 4.7774, 40: 4.9837, 60: 5.2428, 100: 5.4178, 200: 5.5046, 400: 5.828}


def attacked_covariance(d: int) -> Rows:
    """Return the covariance, divided by n, of 600 rows under constant bias, clipped at their medians ± 10.6."""
    X = simulate.make_contaminated(600, d, MEANS, random_state=1).X
    centre = np.median(X, axis=0)
    return np.cov(np.clip(X, centre - 10.6, centre + 10.6).T, bias=True)


def any_covariance(d: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (40, d)) @ np.diag(rng.uniform(0.5, 2, d))
    X[:8] += 2
    return np.cov(X.T, bias=True)


def check(bound: SparseBound, S: Rows, k: int) -> None:
    """A is feasible and has the value that is said."""
    assert np.linalg.eigvalsh(bound.A)[0] >= -1e-12
    assert np.trace(bound.A) == pytest.approx(1, abs=1e-12)
    assert np.abs(bound.A).sum() <= k + 1e-9
    assert np.vdot(bound.A, S) == pytest.approx(bound.lower, rel=1e-12)
    assert bound.lower <= bound.upper * (1 + 1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_closed_forms(k: int) -> None:
    variances = np.array([0.5, 3.0, 1.0, 2.0, 0.25, 0.0, 1.5])
    direction = np.array([1.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    spiked = 4 * np.outer(direction, direction) / 3
    # Of a vector with s equal entries k take the share min(k/s, 1).
    for S, value in (
        (np.eye(7), 1.0),
        (np.ones((7, 7)), float(k)),
        (np.diag(variances), 3.0),
        (spiked, 4 * min(k / 3, 1)),
        (np.zeros((7, 7)), 0.0),
    ):
        bound = SparseVariance(k).evaluate(S, gap=1e-6)
        check(bound, S, k)
        np.testing.assert_allclose([bound.lower, bound.upper], value, rtol=2e-6, atol=1e-12)


def test_one_coordinate_and_all_of_them() -> None:
    S = any_covariance(9, 0)
    one, every = (SparseVariance(k).evaluate(S, gap=1e-3) for k in (1, 9))
    assert (one.lower, one.upper) == (S.diagonal().max(), S.diagonal().max())
    assert every.lower == every.upper == pytest.approx(np.linalg.eigvalsh(S)[-1], rel=1e-12)
    check(every, S, 9)
    number = SparseVariance(1).evaluate(np.array([[2.5]]), gap=1e-3)
    assert (number.lower, number.upper, number.A.tolist()) == (2.5, 2.5, [[1.0]])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [2, 3])
def test_between_the_best_support_and_the_top_eigenvalue(k: int, seed: int) -> None:
    S = any_covariance(8, seed)
    supports = itertools.combinations(range(8), k)
    exact = max(np.linalg.eigvalsh(S[np.ix_(some, some)])[-1] for some in supports)
    bound = SparseVariance(k).evaluate(S, gap=1e-4)
    check(bound, S, k)
    assert bound.within(1e-4)
    assert exact <= bound.upper <= np.linalg.eigvalsh(S)[-1] * (1 + 1e-12)


@pytest.mark.parametrize("d", SOLVED)
def test_values_that_solvers_gave(d: int, long_version: bool) -> None:
    if d > 100 and not long_version:
        pytest.skip("some seconds: in the long version")
    S = attacked_covariance(d)
    bound = SparseVariance(4).evaluate(S, gap=2e-4)
    check(bound, S, 4)
    assert bound.lower == pytest.approx(SOLVED[d], rel=1e-3)
    assert bound.upper == pytest.approx(SOLVED[d], rel=1e-3)


def by_scs(S: Rows, k: int) -> float:
    """Return φ by SCS: A = A₊ − A₋ ⪰ 0 on its lower triangle, columns stacked, off-diagonal entries times √2."""
    scs: Any = pytest.importorskip("scs")
    from scipy import sparse

    d = S.shape[0]
    row, column = (np.array(places) for places in zip(*((i, j) for j in range(d) for i in range(j, d)), strict=True))
    count = np.where(row == column, 1.0, 2.0)
    m = row.size
    trace = sparse.csr_matrix(np.where(row == column, 1.0, 0.0)[None] @ np.eye(m))
    rows = [
        sparse.hstack([trace, -trace]),
        sparse.csr_matrix(np.concatenate([count, count])[None]),
        -sparse.identity(2 * m),
        sparse.hstack([-sparse.diags(np.sqrt(count)), sparse.diags(np.sqrt(count))]),
    ]
    b = np.concatenate([[1.0, k], np.zeros(3 * m)])
    c = -np.concatenate([count * S[row, column], -count * S[row, column]])
    solver = scs.SCS(
        {"A": sparse.vstack(rows).tocsc(), "b": b, "c": c},
        {"z": 1, "l": 1 + 2 * m, "s": [d]},
        eps_abs=1e-5, eps_rel=1e-5, max_iters=20_000, verbose=False,
    )  # fmt: skip
    return -float(solver.solve()["info"]["pobj"])


@pytest.mark.parametrize("d", [10, 20, 40])
def test_agrees_with_scs(d: int) -> None:
    S = attacked_covariance(d)
    bound = SparseVariance(4).evaluate(S, gap=2e-4)
    solved = by_scs(S, 4)
    assert [bound.lower, bound.upper] == pytest.approx([solved, solved], rel=1e-3)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scale_changes_nothing(scale: float) -> None:
    S = any_covariance(12, 1)
    one, other = SparseVariance(3), SparseVariance(3)
    bound, scaled = one.evaluate(S, gap=1e-3), other.evaluate(scale * S, gap=1e-3)
    assert one.steps == other.steps
    assert [scaled.lower / scale, scaled.upper / scale] == pytest.approx([bound.lower, bound.upper], rel=1e-12)
    # What was learnt of the one is a start for the other.
    assert one.evaluate(scale * S, gap=1e-3).within(1e-3)
    assert one.steps <= other.steps + 5


def test_starts_where_it_ended_and_stops_where_it_knows_enough() -> None:
    S = attacked_covariance(40)
    warm, cold = SparseVariance(4), SparseVariance(4)
    first = warm.evaluate(S, gap=1e-3)
    needed = warm.steps
    near = S + 1e-3 * any_covariance(40, 2)
    bound, fresh = warm.evaluate(near, gap=1e-3), cold.evaluate(near, gap=1e-3)
    assert bound.upper == pytest.approx(fresh.upper, rel=2e-3)
    assert warm.steps - needed < cold.steps / 2
    refused = warm.evaluate(S, gap=1e-3, enough=0.99 * first.lower)
    assert refused.lower >= 0.99 * first.lower
    assert math.isinf(refused.upper), "the last matrix says so by itself"


def test_a_new_size_is_a_new_start() -> None:
    certificate = SparseVariance(2)
    for d in (6, 4, 9):
        assert certificate.evaluate(np.ones((d, d)), gap=1e-4).upper == pytest.approx(2, rel=1e-4)


def test_objective_and_gradient() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_t(3, (50, 8))
    certificate = SparseVariance(2)
    objective = CertifiedVariance(rows, certificate.evaluate)
    w = rng.dirichlet(np.ones(50))
    evaluation = objective(w, math.inf)
    assert evaluation is not None
    value, gradient = evaluation
    S = plain_baselines.covariance(rows, w)
    bound = SparseVariance(2).evaluate(S, gap=1e-6)
    assert bound.lower <= value <= bound.upper * 1.01
    # ⟨A, Σ_w⟩ is quadratic in w, so that differences on both sides are exact.
    A = certificate.A
    for i in (0, 7, 23):
        step = np.zeros(50)
        step[i] = 1e-3
        ahead, behind = (w + step, w - step)
        form = [float(np.vdot(A, (rows.T * v) @ rows) - (v @ rows) @ A @ (v @ rows)) for v in (ahead, behind)]
        assert gradient[i] == pytest.approx((form[0] - form[1]) / 2e-3, rel=1e-6, abs=1e-9)
    assert objective(w, value * 0.9) is None


@pytest.mark.parametrize(("n", "gap"), [(600, 0.01), (100_000, 0.0019), (10**6, 0.0006)])
def test_the_gap_stays_below_the_first_fall(n: int, gap: float) -> None:
    assert CertifiedVariance(np.zeros((n, 1)), SparseVariance(1).evaluate).gap == pytest.approx(gap, rel=0.01)


# Clipping.


def test_columns_are_clipped_at_their_own_width() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((2000, 3)) * [1.0, 10.0, 1e-3] + [0.0, 5.0, 1.0]
    X[:20] = 1e300
    clipped = clip_columns(X, 0.1, 2, rng=np.random.default_rng(0))
    np.testing.assert_allclose(np.sqrt(clipped.variances), [1.0, 10.0, 1e-3], rtol=0.2)
    np.testing.assert_allclose(clipped.rows[:20], np.tile(np.sqrt(clipped.variances * 2 / 0.1), (20, 1)), rtol=1e-12)
    same = np.isclose(clipped.rows + clipped.centre, X, rtol=1e-9)
    assert same[20:].mean() > 0.999, "√20 deviations are far for a Gaussian"


@pytest.mark.parametrize("share", [0.6, 0.7, 0.8])
def test_half_of_a_column_equal(share: float) -> None:
    """Buckets hold two rows: at 70 % zeros about half of them are zero, and their median anything."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((400, 3))
    X[rng.random(400) < share, 1] = 0.0
    X[5:, 2] = 7.0
    clipped = clip_columns(X, 0.1, 2, rng=np.random.default_rng(0))
    deviations = np.sort(np.abs(X[:, 1] - clipped.centre[1]))
    assert clipped.variances[1] >= np.sum(deviations[:360] ** 2) / 400 * (1 - 1e-12)
    assert clipped.variances[1] <= 1.2 * (1 - share)
    # Five rows are no more than may be bad.
    assert clipped.centre[2] == 7
    assert not clipped.rows[:, 2].any()


# The method.


def located(X: Rows, contamination: float = 0.1, k: int = 4, seed: int = 0) -> LocationEstimate:
    return baselines.get("sparse_sdp").detailed(X, contamination=contamination, k=k, random_state=seed)


def error(X: Any, seed: int = 0) -> float:
    return float(np.linalg.norm(located(X.X, seed=seed).mean - X.mean))


def edges() -> dict[str, tuple[Rows, float, int]]:
    rng = np.random.default_rng(6)
    normal = rng.standard_normal
    huge = 3.0 + normal((200, 5))
    huge[:10], huge[10:16] = 1e300, -1.7e308
    half = 3.0 + normal((200, 5))
    half[:120, 1] = 3.0
    return {
        "k = 1": (3.0 + normal((100, 5)), 0.1, 1),
        "k = d": (3.0 + normal((100, 5)), 0.1, 5),
        "d = 1": (3.0 + normal((100, 1)), 0.1, 1),
        "n < d": (3.0 + normal((30, 60)), 0.1, 3),
        "constant columns": (np.where(np.arange(5) < 3, 3.0, 3.0 + normal((100, 5))), 0.1, 4),
        "half of a column": (half, 0.1, 3),
        "huge": (huge, 0.1, 3),
        "Cauchy": (3.0 + rng.standard_cauchy((400, 5)), 0.1, 3),
        "four rows": (3.0 + 0.1 * normal((4, 5)), 0.1, 2),
    }


@pytest.mark.parametrize("case", edges())
def test_edge_rows(case: str) -> None:
    X, contamination, k = edges()[case]
    with np.errstate(all="raise", under="ignore"):
        found = located(X, contamination, k)
    kept = np.flatnonzero(found.mean)
    assert kept.size == k
    np.testing.assert_allclose(found.mean[kept], 3.0, atol=0.8)
    assert found.weights is not None
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)


def test_without_contamination_it_is_the_mean_of_the_largest_entries() -> None:
    X = np.random.default_rng(0).standard_normal((50, 6)) + np.array([9, 8, 0, 0, 0, 0])
    np.testing.assert_allclose(located(X, 0.0, 2).mean[:2], X.mean(axis=0)[:2], atol=1e-14)


def test_weights_follow_neither_shift_nor_scale() -> None:
    X = simulate.make_contaminated(200, 12, [3.0, -2.0], random_state=1).X
    weights = located(X, k=2).weights
    assert weights is not None
    for rows in (4.0 * X, X + np.linspace(-8, 8, 12), 2.0**-300 * X):
        np.testing.assert_allclose(located(rows, k=2).weights, weights, rtol=1e-6, atol=1e-9)


def test_weights_are_feasible_and_lower_the_certificate() -> None:
    X = simulate.make_contaminated(300, 20, MEANS, random_state=2).X
    w = located(X).weights
    assert w is not None
    assert w.min() >= 0
    assert w.max() <= 1 / 270 * (1 + 1e-12)
    rows = clip_columns(X, 0.1, 4, rng=np.random.default_rng(0)).rows
    before, after = (
        SparseVariance(4).evaluate(plain_baselines.covariance(rows, v), gap=1e-3) for v in (np.full(300, 1 / 300), w)
    )
    assert after.upper < 0.8 * before.lower
    assert w[270:].sum() < 0.1 * w[:270].sum(), "the last tenth of the rows is bad"


def test_all_columns_are_the_dense_descent_on_clipped_rows() -> None:
    X = simulate.make_contaminated(300, 5, MEANS, random_state=3).X
    found = located(X, k=5)
    clipped = clip_columns(X, 0.1, 5, rng=np.random.default_rng(0))
    top = np.linalg.eigvalsh(plain_baselines.covariance(clipped.rows, found.weights))[-1]
    dense = baselines.get("dense_gd").detailed(clipped.rows, contamination=0.1).weights
    assert top == pytest.approx(np.linalg.eigvalsh(plain_baselines.covariance(clipped.rows, dense))[-1], rel=0.02)


def test_many_columns_are_warned_of_first(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(8).standard_normal((60, 6))
    monkeypatch.setattr(descent, "SLOW", 6)
    with pytest.warns(BaselineWarning, match=r"^sparse_sdp: 6 columns may take minutes") as caught:
        baselines.get("sparse_sdp")(X, contamination=0.1, k=2, random_state=0)
    assert caught[0].filename == __file__
    baselines.get("sparse_sdp")(X, contamination=0.1, k=6, random_state=0)  # a plain eigenvalue, which takes no time


# Errors. Constants were chosen on seeds from 2000 on.

BARS = {"t": 0.12, "fisk": 0.125, "pareto": 0.14}


@cache
def errors_under_bias(distribution: str, d: int, runs: int) -> tuple[float, float]:
    """Return the mean error of the method and that of the mean of the rows that are clean, cut to four entries."""
    errors = []
    for seed in range(runs):
        drawn = simulate.make_contaminated(600, d, MEANS, distribution=distribution, random_state=seed)
        clean = LocationEstimate(np.delete(drawn.X, drawn.corrupted, axis=0).mean(axis=0)).cut(4).mean
        errors.append((error(drawn, seed=seed), float(np.linalg.norm(clean - drawn.mean))))
    ours, clean_rows = np.mean(errors, axis=0)
    return float(ours), float(clean_rows)


@pytest.mark.parametrize("distribution", BARS)
def test_about_as_good_as_the_mean_of_the_clean_rows(distribution: str, long_version: bool, claims: Claims) -> None:
    """In 50 runs the ratio was 0.97, 1.02 and 1.04, and the bar was set after that; one run varies by a third."""
    ours, clean = errors_under_bias(distribution, *((100, 50) if long_version else (40, 1)))
    if long_version:
        claim = f"sparse_sdp error over that of the clean rows' mean, constant bias, {distribution} 3.1"
        claims.add(claim, f"{ours / clean:.2f}", "≤ 1.1", "0–49")
    assert ours <= (1.1 if long_version else 2.0) * clean


@pytest.mark.xfail(
    strict=True, reason="set by ten easier seeds: the clean rows' own mean errs by 0.137, 0.136 and 0.152"
)
@pytest.mark.parametrize("distribution", BARS)
def test_error_bars(distribution: str, long_version: bool) -> None:
    """Measured 0.133, 0.139 and 0.158, with standard errors of 0.007."""
    if not long_version:
        pytest.skip("50 runs: in the long version")
    assert errors_under_bias(distribution, 100, 50)[0] <= BARS[distribution]


def test_does_not_stall_on_many_rows(long_version: bool, claims: Claims) -> None:
    """With values that are 5 % off the first moves are refused, and the error is 0.39."""
    runs = 10 if long_version else 1
    data = (simulate.make_contaminated(9600, 64, [2.0] * 4, random_state=seed) for seed in range(runs))
    errors = [error(drawn, seed=seed) for seed, drawn in enumerate(data)]
    if long_version:
        claims.add("sparse_sdp largest error, n = 9600, d = 64", f"{max(errors):.3f}", "≤ 0.1", "0–9")
    assert max(errors) <= 0.1


@pytest.mark.parametrize(("d", "seconds"), [(100, 2), (200, 15), (400, 90)])
@pytest.mark.filterwarnings("ignore::sparsemean.baselines.BaselineWarning")
def test_seconds(d: int, seconds: int, long_version: bool, claims: Claims) -> None:
    if not long_version:
        pytest.skip("measured in the long version")
    X = simulate.make_contaminated(600, d, MEANS, random_state=0).X
    start = time.process_time()
    located(X)
    took = time.process_time() - start
    claims.add(f"sparse_sdp seconds, n = 600, d = {d}", f"{took:.1f}", f"≤ {seconds}", "0")
    assert took <= seconds
