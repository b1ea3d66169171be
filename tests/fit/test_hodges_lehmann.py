"""The pseudomedian against brute force and R, its standard error against theory and simulation.

Standard errors: of 400 samples each, fixed seed; the mean estimated error must be within 8 % of the deviation that the
samples show, whose own relative deviation is 1/√800 = 3.5 %, and within 5 % of the asymptotic one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from specification import NAME, hodges_lehmann, pseudomedian

from sparsemean._util.records import FloatArray


def brute(x: FloatArray) -> FloatArray:
    """All averages of ordered pairs, sorted: those of two rows twice, each row with itself once."""
    return np.sort(np.add.outer(x, x) / 2, axis=None)


def sample(seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    x = (rng.standard_normal(n), np.round(rng.standard_t(1, n)), rng.standard_cauchy(n), rng.integers(0, 2, n))[
        seed % 4
    ]
    return np.asarray(x, dtype=np.float64)


@pytest.mark.parametrize("seed", range(80))
def test_it_is_the_median_of_all_ordered_pairs(seed: int) -> None:
    x = sample(seed)
    assert pseudomedian(x) == pytest.approx(np.median(brute(x)), rel=1e-14, abs=1e-14)
    assert hodges_lehmann(x).value == pseudomedian(x)


@pytest.mark.parametrize("seed", range(80))
def test_its_error_is_half_the_distance_of_two_averages(seed: int) -> None:
    x = sample(seed)
    n, averages = x.size, brute(x)
    reach = math.ceil(2 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    low, high = (n * n + 1) // 2 - reach - 1, n * n // 2 + reach
    expected = (averages[min(high, n * n - 1)] - averages[max(low, 0)]) / 2
    assert hodges_lehmann(x).error == pytest.approx(expected, rel=1e-13, abs=1e-14)


X = np.array([1.1, -0.4, 2.3, 0.7, 0.2, 5.9, -1.6, 0.95, 1.45, 3.2, -0.15, 0.5, 1.9, -2.2, 0.33, 40.0, 0.81, 1.27,
              -0.77, 2.05])  # fmt: skip


def test_r_says_the_same() -> None:
    """R 4.2.2: ``wilcox.test(x, conf.int = TRUE, conf.level = 2 * pnorm(1) - 1)``; R counts each average once."""
    centre = hodges_lehmann(X)
    assert centre.value == pytest.approx(0.95, rel=1e-14)
    assert centre.error == pytest.approx((1.375 - 0.575) / 2, rel=0.05)
    assert centre.name == NAME


def test_counting_each_average_once_moves_it_by_little() -> None:
    """2W − D ≥ n²/2 instead of W ≥ n(n+1)/4, D the rows up to it: the same but for |D − n/2| averages."""
    for seed in range(20):
        x = np.random.default_rng(seed).standard_t(3, 51)
        once = np.sort((np.add.outer(x, x) / 2)[np.triu_indices(51)])
        off = abs(np.count_nonzero(x <= pseudomedian(x)) - 51 / 2) / 2 + 1
        middle = (once.size - 1) / 2
        assert once[math.floor(middle - off)] <= pseudomedian(x) <= once[math.ceil(middle + off)]


NOISES: dict[str, tuple[Callable[[np.random.Generator, int], FloatArray], float]] = {
    "normal": (lambda rng, n: rng.standard_normal(n), math.sqrt(math.pi / 3)),
    "Laplace": (lambda rng, n: rng.laplace(size=n), math.sqrt(4 / 3)),
    "logistic": (lambda rng, n: rng.logistic(size=n), math.sqrt(3)),
    "Cauchy": (lambda rng, n: rng.standard_cauchy(n), math.pi / math.sqrt(3)),
    "uniform": (lambda rng, n: rng.uniform(-1, 1, n), math.sqrt(1 / 3)),
}


@pytest.mark.parametrize("noise", NOISES)
def test_standard_error(noise: str) -> None:
    draw, asymptotic = NOISES[noise]
    rng, n = np.random.default_rng(0), 300
    found = [hodges_lehmann(draw(rng, n)) for _ in range(400)]
    error = np.mean([c.error for c in found])
    assert error == pytest.approx(np.std([c.value for c in found]), rel=0.08)
    assert error == pytest.approx(asymptotic / math.sqrt(n), rel=0.05)


def test_shift_scale_sign_and_order() -> None:
    x = np.random.default_rng(0).standard_t(2, 60)
    plain = hodges_lehmann(x)
    moved = hodges_lehmann(1000 - 3 * x[::-1])
    assert moved.value == pytest.approx(1000 - 3 * plain.value, rel=1e-12)
    assert moved.error == pytest.approx(3 * plain.error, rel=1e-10)


def test_a_quarter_of_the_rows_cannot_carry_it_away() -> None:
    x = np.random.default_rng(0).standard_normal(100)
    for far in (10.0, 1e6, 1e300):
        x[:25] = far
        assert abs(pseudomedian(x)) < 3
    x[:30] = 1e300  # 1 − 1/√2 = 0.29 of them can
    assert pseudomedian(x) > 1e299


@pytest.mark.parametrize("value", [0.0, -3.5, 1e300, 1e-300])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_constants(value: float, n: int) -> None:
    centre = hodges_lehmann(np.full(n, value))
    assert (centre.value, centre.error) == (value, 0.0)
