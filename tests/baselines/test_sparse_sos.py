"""Sums of squares: pseudo-expectations against distributions, their bound by enumeration, the estimator by its kin."""

from __future__ import annotations

import re
import sys
import time
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparsemean import baselines, simulate
from sparsemean._util.records import FloatArray
from sparsemean.baselines import sum_of_squares
from sparsemean.baselines._sparse_variance import SparseVariance
from sparsemean.baselines.sum_of_squares import PseudoExpectations, SumsOfSquares
from sparsemean.errors import InputError, MissingExtraError

from conftest import Claims

scs = pytest.importorskip("scs")
MEAN = [10.0, -5.0, -4.0, 2.0]


def exact(S: FloatArray, k: int) -> float:
    """The largest variance along k coordinates, by looking at all of them."""
    supports = np.array(list(combinations(range(len(S)), k)))
    return float(np.linalg.eigvalsh(S[supports[:, :, np.newaxis], supports[:, np.newaxis, :]]).max())


def covariance(kind: str, d: int, seed: int = 0) -> FloatArray:
    """Of few rows, of attacked ones, or with everything along all coordinates alike."""
    rng = np.random.default_rng((d, seed))
    if kind == "attacked":
        X = simulate.make_contaminated(600, d, MEAN[:d], random_state=seed + 1).X
        centre = np.median(X, axis=0)
        return np.asarray(np.cov(np.clip(X, centre - 10.6, centre + 10.6), rowvar=False, bias=True))
    if kind == "few rows":
        return np.asarray(np.cov(rng.standard_normal((d // 2 + 1, d)), rowvar=False))
    return np.asarray(np.eye(d) + np.outer(signs := rng.choice([-1.0, 1.0], d), signs))


KINDS = ("attacked", "few rows", "alike")


@pytest.mark.parametrize(("d", "k"), [(3, 2), (5, 2), (6, 4)])
def test_expectations_are_pseudo_expectations(d: int, k: int) -> None:
    """At one k-sparse unit vector a moment is its monomial: equations hold, and blocks are products of their rows."""
    rng = np.random.default_rng(d)
    program = PseudoExpectations(d, k)
    z = np.isin(np.arange(d), rng.choice(d, k, replace=False)).astype(float)
    v = z * rng.standard_normal(d)
    factors = np.concatenate([v / np.linalg.norm(v), z, [1.0]])
    values = factors[program.monomials].prod(axis=1)
    equations = program.equations()
    np.testing.assert_allclose(equations @ values, np.append(np.zeros(equations.shape[0] - 1), 1.0), atol=1e-12)
    for (rows, columns), moments, size in zip(program.places, program.moments, (d * d - 1, d * d - d), strict=True):
        block = np.zeros((size, size))
        block[rows, columns] = block[columns, rows] = values[moments]
        assert np.linalg.matrix_rank(block) <= 1
        assert block.trace() >= 0
    i, j = np.triu_indices(d)
    np.testing.assert_allclose(values[program.squares], factors[i] * factors[j], atol=1e-15)


def test_the_uniform_distribution_is_inside() -> None:
    """Else the program has no interior, and solvers crawl: what the rows that were left out are about."""
    rng = np.random.default_rng(0)
    d, k, draws = 5, 3, 4000
    z = (rng.random((draws, d)).argsort(axis=1) < k).astype(float)
    v = z * rng.standard_normal((draws, d))
    factors = np.hstack([v / np.linalg.norm(v, axis=1, keepdims=True), z, np.ones((draws, 1))])
    program = PseudoExpectations(d, k)
    values = factors[:, program.monomials].prod(axis=2).mean(axis=0)
    for (rows, columns), moments in zip(program.places, program.moments, strict=True):
        block = np.zeros((rows[-1] + 1,) * 2)
        block[rows, columns] = block[columns, rows] = values[moments]
        assert np.linalg.eigvalsh(block)[0] > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_is_the_largest_variance_along_sparse_directions(
    kind: str, long_version: bool, claims: Claims
) -> None:
    """And lies below the semidefinite bound, which lies below the top eigenvalue; all up to what SCS is asked for."""
    sizes = [(5, 2), (6, 5), (8, 4)]
    if long_version:
        sizes += [(d, k) for d in (7, 10, 12) for k in (2, 3, 4, 6)]
    worst = 0.0
    for d, k in sizes:
        S = covariance(kind, d)
        truth, bound = exact(S, k), SumsOfSquares(d, k, tolerance=1e-5).evaluate(S, gap=0.0)
        relaxed = SparseVariance(k).evaluate(S, gap=1e-4)
        worst = max(worst, abs(bound.upper / truth - 1))
        assert bound.lower == pytest.approx(bound.upper, rel=1e-9)
        assert truth * (1 - 1e-3) <= bound.upper <= relaxed.upper * (1 + 1e-3)
        assert relaxed.lower <= np.linalg.eigvalsh(S)[-1] * (1 + 1e-9)
        assert np.abs(bound.A).sum() <= k * (1 + 1e-3)
    assert worst <= 1e-3
    if long_version:
        claims.add(f"φ_SoS is the largest sparse variance, d ≤ 12, {kind}", f"{worst:.1e}", "1e-3", 0)


def test_closed_forms_and_units() -> None:
    for k in (2, 4):
        assert SumsOfSquares(6, k, tolerance=1e-5).evaluate(np.eye(6), gap=0.0).upper == pytest.approx(1, abs=1e-3)
        assert SumsOfSquares(6, k, tolerance=1e-5).evaluate(np.ones((6, 6)), gap=0.0).upper == pytest.approx(
            k, rel=1e-3
        )
    S = covariance("attacked", 6)
    one, other = (SumsOfSquares(6, 3).evaluate(unit * S, gap=0.01) for unit in (1.0, 2.0**200))
    assert other.upper == one.upper * 2.0**200
    zero = SumsOfSquares(6, 3).evaluate(np.zeros((6, 6)), gap=0.01)
    assert (zero.lower, zero.upper) == (0, 0)


def test_bounds_of_one_matrix_after_another() -> None:
    """Within the gap, about the truth, and refused without being solved for where it is known to be no less."""
    certificate = SumsOfSquares(7, 3)
    for seed in range(4):
        S = covariance("attacked", 7, seed)
        bound, truth = certificate.evaluate(S, gap=0.01), exact(S, 3)
        assert bound.lower <= truth * 1.004
        assert truth <= bound.upper * 1.004
        assert bound.within(0.012)
        steps = certificate.steps
        again = certificate.evaluate(1.01 * S, gap=0.01, enough=bound.lower)
        assert again.lower >= bound.lower
        assert again.upper == np.inf
        assert certificate.steps == steps


def errors(d: int, seed: int, **options: Any) -> tuple[float, float, float]:
    """Errors of sums of squares and of `sparse_sdp` on the same rows, and the seconds that the first took."""
    data = simulate.make_contaminated(600, d, MEAN, random_state=seed, **options)
    told = {"contamination": 0.1, "k": 4, "random_state": seed}
    began = time.process_time()
    mean = baselines.get("sparse_sos")(data.X, **told)
    seconds = time.process_time() - began
    other = baselines.get("sparse_sdp")(data.X, **told)
    return float(np.linalg.norm(mean - data.mean)), float(np.linalg.norm(other - data.mean)), seconds


def test_it_errs_as_the_semidefinite_method_does(long_version: bool, claims: Claims) -> None:
    """Means over seeds differ by less than 0.03; one pair differs by 0.01 on average."""
    runs = [errors(8, seed) for seed in range(2)]
    assert abs(np.mean([one - other for one, other, _ in runs])) <= 0.03
    if not long_version:
        return
    for d, seeds, bar in ((8, 12, 5.0), (12, 6, 15.0)):
        for noise in ("t", "fisk", "pareto"):
            runs = [errors(d, 700 + seed, distribution=noise) for seed in range(seeds)]
            one, other, seconds = np.mean(runs, axis=0)
            claims.add(f"sparse_sos errs as sparse_sdp, d = {d}, {noise}", f"{one:.3f}, {other:.3f}", "0.03", seeds)
            assert abs(one - other) <= 0.03
            assert seconds <= bar


def test_many_rows_do_not_stall_it(long_version: bool) -> None:
    if not long_version:
        pytest.skip("long version only")
    for seed in range(3):
        data = simulate.make_contaminated(9600, 8, [2.0] * 4, random_state=800 + seed)
        told = {"contamination": 0.1, "k": 4, "random_state": seed}
        one, other = (
            np.linalg.norm(baselines.get(f"sparse_{by}")(data.X, **told) - data.mean) for by in ("sos", "sdp")
        )
        assert one <= other + 0.03


def test_units_and_origin_do_not_matter_to_weights_and_progress_is_told() -> None:
    X = simulate.make_contaminated(80, 4, MEAN, random_state=3).X
    told = {"contamination": 0.1, "k": 2, "random_state": 5}
    method = baselines.get("sparse_sos")
    shares: list[float] = []
    weights = method.detailed(X, **told, progress=shares.append).weights
    assert weights is not None
    assert weights.max() <= 1 / 72 * (1 + 1e-12)
    np.testing.assert_array_equal(weights, method.detailed(-8 * X, **told).weights)
    np.testing.assert_allclose(weights, method.detailed(X + np.array([3, 0, -7, 100]), **told).weights, atol=1e-6)
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] == 1


@pytest.mark.parametrize(("d", "k"), [(30, 1), (30, 30), (3, 3)])
def test_where_both_bounds_are_one_so_are_the_answers(d: int, k: int) -> None:
    X = simulate.make_contaminated(100, d, MEAN[:d], random_state=1).X
    told = {"contamination": 0.1, "k": k, "random_state": 2}
    np.testing.assert_array_equal(baselines.get("sparse_sos")(X, **told), baselines.get("sparse_sdp")(X, **told))


def test_too_many_columns_are_refused_with_the_memory_they_would_need() -> None:
    rule = r"^X must have at most 24 columns for sparse_sos, unless k is 1 or their number: got 100; "
    with pytest.raises(InputError, match=rule + r"so many would need 1\d\d GiB of memory; sparse_sdp takes them$"):
        baselines.get("sparse_sos")(np.ones((20, 100)), contamination=0.1, k=4)


def test_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scs", None)
    X = np.random.default_rng(0).standard_normal((30, 4))
    with pytest.raises(MissingExtraError) as missing:
        baselines.get("sparse_sos")(X, contamination=0.1, k=2)
    assert str(missing.value) == 'sparse_sos needs scs, which is not installed: pip install "sparsemean[sos]"'


def test_programs_that_are_not_solved_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sum_of_squares, "STEPS", 1)
    X = simulate.make_contaminated(60, 4, MEAN, random_state=3).X
    found = baselines.get("sparse_sos").detailed(X, contamination=0.1, k=2, random_state=5)
    assert not found.converged
    (note,) = found.notes
    assert re.fullmatch(r"(\d+) of \1 programs were not solved to 0.001", note)


def test_an_interrupt_that_the_solver_catches_ends_the_fit() -> None:
    certificate = SumsOfSquares(3, 2)
    certificate.evaluate(np.eye(3), gap=0.01)
    stopped = {"info": {"status_val": scs.SIGINT}}
    certificate.solver = SimpleNamespace(update=lambda **_: None, solve=lambda **_: stopped)
    with pytest.raises(KeyboardInterrupt):
        certificate.evaluate(2 * np.eye(3), gap=0.01)
