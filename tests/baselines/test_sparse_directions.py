"""A mean along every sparse direction: the sweep against all medians, the minimum against one program, the errors."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import linprog

from sparsemean import baselines, simulate
from sparsemean._fit.refinement import refined
from sparsemean._util.records import FloatArray
from sparsemean.baselines import _sign_vectors as kernels
from sparsemean.baselines import directions
from sparsemean.errors import InputError
from sparsemean.studies.methods import find_attack

from conftest import Claims

METHOD = baselines.get("sparse_directions")
MEAN = (10.0, -5.0, -4.0, 2.0)
ATTACKS = (
    "constant_bias", "root_shift", "root_shift_one", "linear_hiding", "fake_support", "signed_support_shift", "mimic",
    "tail_flipping", "far_rows", "cauchy_rows",
)  # fmt: skip


def test_it_is_a_method_and_not_the_file_it_stands_in() -> None:
    assert baselines.sparse_directions is METHOD


# The directions.


def dense(codes: kernels.Codes, d: int) -> FloatArray:
    U = np.zeros((len(codes), d))
    for u, code in zip(U, codes, strict=True):
        used = code[code != 0]
        u[np.abs(used) - 1] = np.sign(used) / np.sqrt(used.size)
    return U


@pytest.mark.parametrize(("d", "k"), [(1, 1), (5, 1), (3, 2), (8, 3), (6, 6)])
def test_all_sign_vectors_are_there_once(d: int, k: int) -> None:
    U = dense(kernels.sign_vectors(d, k), d)
    assert len(U) == kernels.n_directions(d, k) == len(np.unique(U, axis=0))
    np.testing.assert_allclose(np.linalg.norm(U, axis=1), 1.0)
    assert (np.count_nonzero(U, axis=1) <= k).all()
    assert all(u[np.flatnonzero(u)[0]] > 0 for u in U)


def test_there_are_as_many_as_counted() -> None:
    assert kernels.n_directions(20, 4) == 43720 == len(kernels.sign_vectors(20, 4))
    assert [kernels.n_directions(d, 2) for d in (20, 50, 100, 200)] == [400, 2500, 10_000, 40_000]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_they_see_every_sparse_vector(k: int) -> None:
    d, rng = 6, np.random.default_rng(k)
    U = dense(kernels.sign_vectors(d, k), d)
    W = np.concatenate([rng.standard_normal((300, d)), rng.standard_cauchy((300, d)), np.eye(d), np.ones((1, d))])
    length = np.linalg.norm(np.sort(np.abs(W), axis=1)[:, d - k :], axis=1)
    seen = np.abs(W @ U.T).max(axis=1)
    assert (length <= directions.cover_constant(k) * seen * (1 + 1e-12)).all()
    extreme = np.zeros(d)
    extreme[:k] = np.diff(np.sqrt(np.arange(k + 1)))
    assert np.linalg.norm(extreme) == pytest.approx(directions.cover_constant(k) * np.abs(U @ extreme).max(), rel=1e-12)


def test_medians_are_those_of_the_sums() -> None:
    rng = np.random.default_rng(0)
    for columns in (rng.standard_t(2, (5, 7)), rng.standard_normal((14, 5))[::2, ::-1][:5], np.ones((5, 1))):
        codes = kernels.sign_vectors(5, 3)
        np.testing.assert_allclose(
            kernels.medians_along(columns, codes), np.median(dense(codes, 5) @ columns, axis=1), atol=1e-12
        )


# The sweep.

KINDS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "plain": lambda x: x,
    "ties": np.round,
    "signed zeros": lambda x: np.where(np.abs(x) < 1, np.copysign(0.0, x), x),
    "one value far": lambda x: np.where(np.arange(x.size).reshape(x.shape) == 3, 2e4, x),
    "some values very far": lambda x: np.where(np.abs(x) > 3, 1e12 * x, x),
    "large": lambda x: 2.0**800 * x,
    "small": lambda x: 2.0**-900 * x,
    "single": lambda x: x.astype(np.float32).astype(np.float64),
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_returns_what_medians_say(kind: str) -> None:
    rng = np.random.default_rng(1)
    for d, k, J in ((2, 2, 1), (7, 3, 15), (5, 5, 3), (9, 4, 101)):
        columns = KINDS[kind](rng.standard_t(2, (d, J)))
        codes = kernels.sign_vectors(d, k)
        codes = codes[np.count_nonzero(codes, axis=1) > 1]
        medians = np.abs(kernels.medians_along(columns, codes))
        for share in (0.3, 0.9):
            level = float(np.quantile(medians, share)) or 0.1
            found, bound = kernels.far_directions(columns, k, level, enough=2 * level, room=10**5, n_jobs=2)
            error = bound - level
            assert 0 <= error <= level / 2 * (1 + 1e-12)
            beyond = {tuple(code) for code in found.tolist()}
            assert len(beyond) == len(found)
            assert {tuple(code) for code in codes[medians > bound].tolist()} <= beyond
            assert beyond <= {tuple(code) for code in codes[medians > level - 2 * error - 1e-12 * level].tolist()}


def test_a_sweep_passes_all_directions() -> None:
    columns = np.random.default_rng(0).standard_normal((9, 64)).astype(np.float32)
    for k in (2, 3, 4, 9):
        found = np.zeros((kernels.n_directions(9, k), k), dtype=np.int16)
        limits, counters = np.full(k + 1, -100, dtype=np.float32), np.zeros(0, dtype=np.uint32)
        n = 0
        for first in range(8):
            n += kernels.walk(columns, -columns, limits, 31, first, found[n:], counters)
        assert n == kernels.n_directions(9, k) - 9
        expected = kernels.sign_vectors(9, k)[9:]
        np.testing.assert_array_equal(np.unique(found[:n], axis=0), np.unique(expected, axis=0))


def test_where_too_many_are_far_the_level_is_raised() -> None:
    columns = np.random.default_rng(2).standard_normal((20, 31))
    codes = kernels.sign_vectors(20, 3)[20:]
    medians = np.abs(kernels.medians_along(columns, codes))
    level = float(np.quantile(medians, 0.5))
    found, bound = kernels.far_directions(columns, 3, level, enough=2 * level, room=1000)
    assert level < bound <= 2 * level
    assert np.count_nonzero(medians > bound) <= len(found) < np.count_nonzero(medians > level)
    found, bound = kernels.far_directions(columns, 3, level, enough=level, room=1000)
    assert np.isinf(bound)
    assert (np.abs(kernels.medians_along(columns, found)) > 0.7 * level).all()


def test_more_buckets_than_sixteen_bits_count() -> None:
    columns = np.random.default_rng(3).standard_normal((3, 70_001)) + 0.1
    found, _ = kernels.far_directions(columns, 2, 0.1, enough=0.2, room=1000)
    np.testing.assert_array_equal(found, [[1, 2], [1, 3], [2, 3]])


# The minimax point.


def program(Z: FloatArray, k: int) -> float:
    """Return the least largest disagreement, by one linear program with all directions."""
    d = Z.shape[1]
    U = dense(kernels.sign_vectors(d, k), d)
    m, ones = np.median(Z @ U.T, axis=0), np.ones((len(U), 1))
    solved = linprog(
        np.append(np.zeros(d), 1.0),
        A_ub=np.block([[U, -ones], [-U, -ones]]),
        b_ub=np.concatenate((m, -m)),
        bounds=(None, None),
    )
    return float(solved.fun)


@pytest.mark.parametrize(("d", "k"), [(3, 2), (8, 2), (5, 3), (8, 3)])
@pytest.mark.parametrize("by_sweeps", [True, False])
def test_the_minimum_is_that_over_all_directions(
    d: int, k: int, by_sweeps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(10 * d + k)
    if by_sweeps:
        for name, value in (("ALL", 0), ("SAMPLE", 4), ("ROOM", 10), ("FEWEST_ROWS", 5)):
            monkeypatch.setattr(directions, name, value)
    for Z in (rng.standard_t(3, (41, d)), np.round(rng.standard_normal((15, d))), rng.standard_normal((1, d))):
        least = program(Z, k)
        for tolerance in (0.0, directions.TOLERANCE):
            found = directions.agree(Z, k, rng=rng, tolerance=tolerance)
            assert found.value <= (1 + max(tolerance, 2e-6)) * least + 1e-8
            assert least / (1 + tolerance) - 1e-6 <= found.least <= least + 1e-6
            U = dense(kernels.sign_vectors(d, k), d)
            largest = np.abs(U @ found.point - np.median(Z @ U.T, axis=0)).max()
            assert largest == pytest.approx(found.value, abs=1e-9)
            assert (found.sweeps > 0) == by_sweeps


def test_it_moves_with_the_rows() -> None:
    rng = np.random.default_rng(4)
    X, shift = rng.standard_t(3, (200, 12)), rng.integers(-50, 50, 12).astype(float)
    for k, columns in ((12, slice(None)), (3, slice(0, 3)), (1, slice(0, 1))):
        here, there = (METHOD(Y[:, columns], contamination=0.1, k=k, random_state=0) for Y in (X, X + shift))
        np.testing.assert_allclose(there, here + shift[columns], atol=1e-6)
    points = [directions.agree(Z, 3, rng=np.random.default_rng(0)).point for Z in (X[:101], X[:101] + shift)]
    np.testing.assert_allclose(points[1], points[0] + shift, atol=1e-6)


def test_a_point_that_is_not_there_yet_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((100, 12))
    monkeypatch.setattr(directions, "SWEEPS", 1)
    for name in ("ALL", "SAMPLE"):
        monkeypatch.setattr(directions, name, 2)
    found = METHOD.detailed(X, contamination=0.1, k=3, random_state=0)
    assert (found.iterations, found.converged) == (1, False)
    assert "after 1 sweep" in found.notes[0]
    assert "the least possible" in found.notes[0]


# On the support.


def plain_interval_mean(x: FloatArray, share: float) -> float:
    h, answers = x.size // 2, []
    for one, other in ((x[:h], x[h:]), (x[h:], x[:h])):
        ordered = np.sort(one)
        held = int(np.ceil(share * h))
        widths = [ordered[i + held - 1] - ordered[i] for i in range(h - held + 1)]
        low = ordered[int(np.argmin(widths))]
        high = ordered[int(np.argmin(widths)) + held - 1]
        inside = other[(other >= low) & (other <= high)]
        answers.append(inside.mean() if inside.size else (low + high) / 2)
    return float(np.mean(answers))


def test_interval_means_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(5)
    for values in (rng.standard_t(2, (6, 80)), np.round(rng.standard_normal((6, 80)))):
        for contamination in (0.0, 0.1, 0.4):
            expected = [plain_interval_mean(x, 1 - 2 * contamination) for x in values]
            np.testing.assert_allclose(directions.interval_means(values, contamination), expected, atol=1e-12)


@pytest.mark.parametrize(("x", "mean"), [
    ([3.0], 3.0), ([1.0, 4.0], 2.5), ([0.0, 1.0, 2.0], 1.0), ([-1e308, -1e308], -1e308),
])  # fmt: skip
def test_interval_means_of_few_values(x: list[float], mean: float) -> None:
    for contamination in (0.0, 0.1):
        np.testing.assert_allclose(directions.interval_means(np.array([x]), contamination), mean)


def test_the_point_on_a_support_disagrees_by_no_more_than_twice_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(6).standard_t(1.5, (60, 4))
    pools: list[directions.Pool] = []

    class Kept(directions.Pool):
        def __init__(self, U: object, m: FloatArray) -> None:
            super().__init__(U, m)
            pools.append(self)

    monkeypatch.setattr(directions, "Pool", Kept)
    point = directions.agree_on_support(X, 0.1, np.random.default_rng(0))
    least = pools[0].minimax(point, 0.0)[1]
    assert pools[0].disagreements(point).max() <= directions.GIVEN_UP * least * (1 + 1e-6)
    assert pools[0].m.size == directions.RANDOM + kernels.n_directions(4, 4)


@pytest.mark.parametrize("columns", [1, 4, 8, 12])
def test_it_refines(columns: int) -> None:
    rng = np.random.default_rng(columns)
    mean = rng.uniform(-5, 5, columns)
    X = mean + rng.standard_t(3.1, (600, columns))
    X[:60] -= 5
    found = refined("sparse_directions", X, contamination=0.1, random_state=0)
    assert np.linalg.norm(found.mean - mean) < 0.15 * np.sqrt(columns)


# What it is asked.


@pytest.mark.parametrize(("d", "k", "said"), [
    (100, 10, "9.37e+15 of them for k = 10, which would take about 13 years"),
    (400, 4, "8.45e+09 of them for k = 4, which would take about 6.3 minutes"),
])  # fmt: skip
def test_too_many_directions_are_refused_with_their_number_and_the_time(d: int, k: int, said: str) -> None:
    with pytest.raises(InputError) as refused:
        METHOD(np.ones((600, d)), contamination=0.1, k=k)
    rule = f"k must leave sparse_directions at most 1,000,000,000 sign vectors on k of {d} features: got "
    assert str(refused.value) == rule + said


def test_the_share_done_rises() -> None:
    done: list[float] = []
    X = np.random.default_rng(0).standard_normal((100, 20))
    METHOD.detailed(X, contamination=0.1, k=4, random_state=0, progress=done.append)
    assert len(done) >= 19
    assert (np.diff(done) >= 0).all()
    assert 0 < done[0] < done[-1] < 1
    baselines.get("median").detailed(X, contamination=0.1, progress=done.append)


def edge_rows() -> dict[str, tuple[FloatArray, int]]:
    rng = np.random.default_rng(7)
    X = rng.standard_t(3, (200, 12))
    half = np.where(rng.random(X.shape) < 0.6, 0.0, X)
    far = np.where(rng.random(X.shape) < 0.01, 1e300, X)
    return {
        "four rows": (X[:4], 3), "fewer rows than columns": (X[:9], 3), "one column": (X[:, :1], 1), "k = 1": (X, 1),
        "k = d": (X[:, :5], 5), "half of the values equal": (half, 3), "entries of 1e300": (far, 3),
        "Cauchy": (rng.standard_cauchy((200, 12)), 3), "zeros": (np.zeros((30, 12)), 3), "subnormal": (1e-310 * X, 3),
        "two columns are one": (X[:, [0, 0, 1, 2]], 2),
    }  # fmt: skip


@pytest.mark.parametrize("case", edge_rows())
def test_rows_at_the_edge(case: str) -> None:
    X, k = edge_rows()[case]
    middle = np.sort(X, axis=0)
    for contamination in (0.0, 0.2):
        found = METHOD.detailed(X, contamination=contamination, k=k, random_state=0)
        kept = found.mean != 0
        assert kept.sum() <= k
        assert (middle[0] <= found.mean)[kept].all()
        assert (found.mean <= middle[-1])[kept].all()
        if contamination and len(X) > 100:
            assert np.abs(found.mean).max() <= np.abs(np.quantile(X, [0.1, 0.9])).max()


def test_constants_come_back() -> None:
    row = np.array([7.0, 0.0, -2.5, 1e-150, 1e150, 3.0])
    found = METHOD(np.tile(row, (50, 1)), contamination=0.1, k=3, random_state=0)
    np.testing.assert_array_equal(found, [7.0, 0, 0, 0, 1e150, 3.0])


# How far off it is, and how long it takes.


def error(d: int, attack: str, seed: int) -> float:
    data = simulate.make_contaminated(600, d, MEAN, attack=find_attack(attack), random_state=seed)
    return float(np.linalg.norm(METHOD(data.X, contamination=0.1, k=4, random_state=seed) - data.mean))


def test_errors_under_ten_attacks(long_version: bool, claims: Claims) -> None:
    """Constants were chosen on seeds 1000–1005, these are others.

    A seed's mean over the attacks, which share its good rows, is .164 with a deviation of .042: that of ten seeds
    exceeds the bar with a probability below 1e-6, that of another seed than the one here in 4 % of cases.
    """
    seeds = range(20_000, 20_000 + (10 if long_version else 1))
    errors = {attack: np.mean([error(20, attack, seed) for seed in seeds]) for attack in ATTACKS}
    worst = max(errors, key=lambda attack: errors[attack])
    mean = np.mean(list(errors.values()))
    assert mean <= 0.24
    if long_version:
        assert errors["constant_bias"] <= 0.3
        said = f"mean {mean:.3f}, {errors[worst]:.3f} under {worst}"
        claims.add("sparse_directions, d = 20, k = 4, n = 600: error under ten attacks", said, "≤ 0.24", "20000–20009")


def test_it_takes_seconds(long_version: bool, claims: Claims) -> None:
    error(25, "constant_bias", 0)
    for d, most in ((50, 3), (100, 40)) if long_version else ((50, 3),):
        began = time.process_time()
        assert error(d, "constant_bias", 0) < 0.5
        spent = time.process_time() - began
        assert spent <= most
        if long_version:
            claims.add(f"sparse_directions, d = {d}, k = 4, n = 600: seconds", f"{spent:.2f}", f"≤ {most}", 0)
