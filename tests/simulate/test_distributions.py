"""Draws against scipy.stats; every seeded test would fail for one seed in 10⁴ if the claim were true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from sparsemean._util.records import FloatArray
from sparsemean.errors import InputError
from sparsemean.simulate import distributions, make_contaminated
from sparsemean.simulate.distributions import open_uniform

FALSE_ALARM = 1e-4
SIZE = (400, 100)

# name, shape, scipy's law of the magnitude
SIGNED = [
    ("fisk", 3.1, stats.fisk(3.1)),
    ("fisk", 0.7, stats.fisk(0.7)),
    ("pareto", 3.1, stats.pareto(3.1)),
    ("pareto", 1.3, stats.pareto(1.3)),
    ("lognormal", 0.954, stats.lognorm(0.954)),
    ("laplace", 1.0, stats.expon()),
    ("gaussian", 1.0, stats.halfnorm()),
]
# name, shape, scipy's law before its expectation is taken off
ONE_SIDED = [
    ("fisk_one_sided", 3.1, stats.fisk(3.1)),
    ("fisk_one_sided", 1.3, stats.fisk(1.3)),
    ("pareto_one_sided", 3.1, stats.pareto(3.1)),
    ("pareto_one_sided", 1.3, stats.pareto(1.3)),
    ("lognormal_one_sided", 0.954, stats.lognorm(0.954)),
    ("exponential_one_sided", 1.0, stats.expon()),
]
SYMMETRIC_NAMES = ["fisk", "gaussian", "laplace", "lognormal", "pareto", "t"]


def draw(name: str, shape: float) -> FloatArray:
    return distributions.get(name)(np.random.default_rng(1), SIZE, shape)


def ks_p_value(draws: FloatArray, law: Any) -> float:
    return float(stats.kstest(draws.ravel(), law.cdf).pvalue)


def test_registry_is_complete() -> None:
    assert distributions.available() == sorted([*SYMMETRIC_NAMES, *{name for name, _, _ in ONE_SIDED}])


@pytest.mark.parametrize(("name", "shape", "law"), SIGNED)
def test_magnitude_has_the_law(name: str, shape: float, law: Any) -> None:
    assert ks_p_value(np.abs(draw(name, shape)), law) > FALSE_ALARM


@pytest.mark.parametrize("shape", [0.7, 1.3, 3.1])
def test_t_has_the_law(shape: float) -> None:
    assert ks_p_value(draw("t", shape), stats.t(shape)) > FALSE_ALARM


@pytest.mark.parametrize(("name", "shape", "law"), ONE_SIDED)
def test_one_sided_draw_has_the_law_less_its_expectation(name: str, shape: float, law: Any) -> None:
    assert ks_p_value(draw(name, shape) + law.mean(), law) > FALSE_ALARM


@pytest.mark.parametrize("name", SYMMETRIC_NAMES)
def test_signs_are_fair_and_independent_of_the_magnitude(name: str) -> None:
    draws = draw(name, 2.0).ravel()
    positive = draws > 0
    assert stats.binomtest(int(positive.sum()), draws.size).pvalue > FALSE_ALARM
    assert stats.ks_2samp(draws[positive], -draws[~positive]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", distributions.available())
def test_shape_with_finite_moments_gives_mean_zero(name: str) -> None:
    shape = 0.5 if name.startswith("lognormal") else 6.0
    assert stats.ttest_1samp(draw(name, shape).ravel(), 0.0).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("name", "shape", "variance"),
    [
        ("fisk", 10.0, (np.pi / 5) / np.sin(np.pi / 5)),
        ("fisk_one_sided", 10.0, stats.fisk(10.0).var()),
        ("pareto", 10.0, 10 / 8),
        ("pareto_one_sided", 10.0, stats.pareto(10.0).var()),
        ("lognormal", 0.3, np.exp(2 * 0.3**2)),
        ("lognormal_one_sided", 0.3, stats.lognorm(0.3).var()),
        ("t", 10.0, 10 / 8),
        ("gaussian", 1.0, 1.0),
        ("laplace", 1.0, 2.0),
        ("exponential_one_sided", 1.0, 1.0),
    ],
)
def test_variance_is_the_documented_one(name: str, shape: float, variance: float) -> None:
    squares = draw(name, shape).ravel() ** 2
    assert stats.ttest_1samp(squares, variance).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", ["gaussian", "laplace", "exponential_one_sided"])
def test_shape_is_ignored_where_documented(name: str) -> None:
    np.testing.assert_array_equal(draw(name, 0.2), draw(name, 7.0))


def test_pareto_has_no_mass_near_its_centre() -> None:
    assert np.abs(draw("pareto", 3.1)).min() >= 1


def test_open_uniform_excludes_both_ends_exactly() -> None:
    class Extreme:
        def integers(self, high: int, size: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
            return np.array([0, high - 1]).reshape(size)

    lowest, highest = open_uniform(Extreme(), (1, 2))[0]  # type: ignore[arg-type]
    assert lowest == 2.0**-53
    assert highest == 1 - 2.0**-53


@pytest.mark.parametrize("name", ["fisk", "pareto"])
@pytest.mark.parametrize("shape", [0.5, 1.0])
def test_one_sided_noise_needs_a_finite_expectation(name: str, shape: float) -> None:
    with pytest.raises(InputError, match=rf"^shape must exceed 1 for {name}_one_sided.*: got {shape}; .*$"):
        make_contaminated(10, 2, [1.0], distribution=f"{name}_one_sided", shape=shape)


@pytest.mark.parametrize(("name", "shape"), [("pareto", 1e-3), ("t", 1e-4), ("lognormal_one_sided", 50.0)])
def test_shape_whose_draws_overflow_is_refused(name: str, shape: float) -> None:
    with pytest.raises(InputError, match=rf"^shape must be one at which every {name} draw fits .*$"):
        make_contaminated(200, 20, [1.0], distribution=name, shape=shape, random_state=0)
