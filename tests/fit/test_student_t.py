"""Student-t centres against maximum likelihood by SciPy, and their standard errors against simulation.

Standard errors: 400 samples, fixed seed; the mean estimated error is within 8 % of the deviation that the samples
show, whose own relative deviation is 1/√800 = 3.5 %.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats
from specification import Centre, student_t

from sparsemean._util.records import FloatArray


def located(x: FloatArray, dof: float) -> Centre:
    start = float(np.median(x))
    return student_t(x, dof=dof, start=start, scale=1.4826 * float(np.median(np.abs(x - start))))


def likeliest(x: FloatArray, dof: float) -> FloatArray:
    """Centre and scale by a general optimiser."""

    def loss(theta: FloatArray) -> float:
        return -float(stats.t.logpdf(x, dof, theta[0], math.exp(theta[1])).sum())

    start = np.array([np.median(x), math.log(np.median(np.abs(x - np.median(x))))])
    options = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 4000}
    return np.asarray(optimize.minimize(loss, start, method="Nelder-Mead", options=options).x)


@pytest.mark.parametrize("dof", [1.0, 3.0])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_maximum_of_the_likelihood(dof: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = 5 + 2 * rng.standard_t((1.0, 2.0, 8.0)[seed % 3], 80)
    assert located(x, dof).value == pytest.approx(likeliest(x, dof)[0], abs=2e-5)


@pytest.mark.parametrize("dof", [1.0, 3.0])
def test_the_score_vanishes_at_the_centre(dof: float) -> None:
    x = np.random.default_rng(0).standard_cauchy(200)
    value, log_scale = located(x, dof).value, likeliest(x, dof)[1]
    r = (x - value) / math.exp(log_scale)
    assert np.mean((dof + 1) * r / (dof + r * r)) == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("dof", [1.0, 3.0])
@pytest.mark.parametrize("noise", ["normal", "Laplace", "t 3", "Cauchy"])
def test_standard_error_holds_whatever_the_noise(dof: float, noise: str) -> None:
    rng = np.random.default_rng(1)
    draw = {
        "normal": rng.standard_normal,
        "Laplace": lambda n: rng.laplace(size=n),
        "t 3": lambda n: rng.standard_t(3, n),
        "Cauchy": rng.standard_cauchy,
    }[noise]
    found = [located(draw(300), dof) for _ in range(400)]
    error = np.mean([c.error for c in found])
    assert error == pytest.approx(np.std([c.value for c in found]), rel=0.08)
    if (noise, dof) == ("Cauchy", 1.0):  # the information of the Cauchy location is 1/2
        assert error == pytest.approx(math.sqrt(2 / 300), rel=0.05)
    if (noise, dof) == ("t 3", 3.0):  # (ν + 1)/(ν + 3) = 2/3
        assert error == pytest.approx(math.sqrt(1.5 / 300), rel=0.05)


def test_shift_scale_sign_and_order() -> None:
    x = np.random.default_rng(0).standard_t(2, 60)
    plain, moved = located(x, 3.0), located(1000 - 4 * x[::-1], 3.0)
    assert moved.value == pytest.approx(1000 - 4 * plain.value, abs=1e-6)
    assert moved.error == pytest.approx(4 * plain.error, rel=1e-4)
    doubled = located(2.0**40 * x, 3.0)
    assert (doubled.value, doubled.error) == (2.0**40 * plain.value, 2.0**40 * plain.error)


@pytest.mark.parametrize("far", [1e3, 1e100, 1e300, -1.7e308])
def test_far_values_do_not_count_and_do_not_overflow(far: float) -> None:
    x = np.random.default_rng(0).standard_normal(100)
    plain = located(x, 1.0).value
    x[:5] = far
    assert abs(located(x, 1.0).value - plain) < 0.15
    assert math.isfinite(located(x, 1.0).error)


@pytest.mark.parametrize("unit", [1e-300, 1e307])
def test_units_far_from_one(unit: float) -> None:
    x = np.random.default_rng(0).standard_normal(100)
    assert located(x * unit, 3.0).value == pytest.approx(located(x, 3.0).value * unit, rel=1e-9)


@pytest.mark.parametrize("equal", [51, 60, 90])
def test_where_more_than_half_are_equal_the_error_says_not_to_use_it(equal: int) -> None:
    x = np.random.default_rng(0).standard_normal(100)
    x[:equal] = 2.0
    assert student_t(x, dof=1.0, start=1.0, scale=1.0).error == math.inf
    assert student_t(np.full(9, 2.0), dof=1.0, start=2.0, scale=1.0).error == math.inf
