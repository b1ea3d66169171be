"""p-values of two groups where nothing differs, on data as people have them: never more often small than promised.

Of D independent features at most as many may have p ≤ t as a binomial of D trials with chance t exceeds with
probability 1e-5. With bad rows every column is attacked by itself, in its own best direction, so that all D stay
independent. About 330 cells are asked at three t each, so that valid p-values fail somewhere with probability .01 at
most; seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from sparsemean import SparseMeanDifference

from conftest import Claims

FALSE_ALARM = 1e-5
LEVELS = (0.05, 0.01, 0.001)
Matrix = npt.NDArray[np.float64]
Shape = tuple[int, int]
Law = Callable[[np.random.Generator, Shape], Matrix]


def most(number: int, level: float) -> int:
    return int(stats.binom.isf(FALSE_ALARM, number, level))


def sparse(share: float, signed: bool = False) -> Law:
    def draw(rng: np.random.Generator, shape: Shape) -> Matrix:
        X = rng.lognormal(size=shape) * (rng.random(shape) < share)
        return X * rng.choice([-1.0, 1.0], shape) if signed else X

    return draw


LAWS = {f"{share:.0%} non-zeros": sparse(share) for share in (0.01, 0.05, 0.1, 0.25, 0.5)}
LAWS |= {f"{share:.0%} non-zeros of either sign": sparse(share, True) for share in (0.1, 0.4, 0.6)}
LAWS |= {
    f"Poisson {rate:g}": lambda rng, shape, rate=rate: rng.poisson(rate, shape) * 1.0 for rate in (0.05, 0.3, 1, 5)
}
LAWS |= {
    "ratings 1–5": lambda rng, shape: rng.choice([1.0, 2, 3, 4, 5], shape, p=[0.1, 0.1, 0.2, 0.35, 0.25]),
    "ratings −2 to 2": lambda rng, shape: rng.choice([-2.0, -1, 0, 1, 2], shape, p=[0.2, 0.2, 0.2, 0.2, 0.2]),
    "Gaussian": lambda rng, shape: rng.standard_normal(shape),
    "Gaussian, rounded": lambda rng, shape: np.round(rng.standard_normal(shape), 1),
}
SIZES = {"13 + 687": (13, 687), "60 + 60": (60, 60), "150 + 50": (150, 50)}


SHORT = [(law, "13 + 687") for law in ("10% non-zeros", "50% non-zeros", "Poisson 0.3")]
SHORT += [(law, "150 + 50") for law in ("40% non-zeros of either sign", "ratings 1–5")]
SHORT += [(law, "60 + 60") for law in ("Poisson 5", "Gaussian")]


def cells(long_version: bool) -> tuple[list[tuple[str, str]], int]:
    """Laws with group sizes, and how many features each has."""
    return (list(product(LAWS, SIZES)), 5000) if long_version else (SHORT, 400)


def shares(p: Matrix, cell: str) -> list[float]:
    """The shares of p-values up to each level, none of them too large."""
    counts = [int(np.sum(p <= level)) for level in LEVELS]
    bars = [most(p.size, level) for level in LEVELS]
    assert all(count <= bar for count, bar in zip(counts, bars, strict=True)), (cell, counts, bars)
    return [count / p.size for count in counts]


def told(cells: str, measured: list[list[float]], claims: Claims) -> None:
    largest = ", ".join(f"{share:.4f}" for share in np.max(measured, axis=0))
    name = f"two groups, nothing differs, {cells}, {len(measured)} cells: largest P(p ≤ .05), P(p ≤ .01), P(p ≤ .001)"
    claims.add(name, largest, "≤ .05, .01, .001 up to chance", "50000–50003")


def attack(X: Matrix, n1: int, m: tuple[int, int], kind: str) -> None:
    """Make the label, the first rows, look larger in every column.

    "replaced": its smallest values become the largest, the largest of the reference the smallest. "wrong labels": the
    smallest of the label are listed in the reference and the largest of that in the label.
    """
    label, reference = X[:n1], X[n1:]
    label.sort(axis=0)
    reference.sort(axis=0)
    if kind == "replaced":
        top, bottom = X.max(axis=0) + 1.0, np.minimum(X.min(axis=0), 0.0)
        label[: m[0]] = top + np.arange(m[0])[:, np.newaxis]
        reference[reference.shape[0] - m[1] :] = bottom
    else:
        wrong = min(m)
        low, high = label[:wrong].copy(), reference[reference.shape[0] - wrong :].copy()
        label[:wrong], reference[reference.shape[0] - wrong :] = high, low


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_nothing_differs(alternative: str, long_version: bool, claims: Claims) -> None:
    drawn, number = cells(long_version)
    measured = []
    for law, sizes in drawn:
        n1, n2 = SIZES[sizes]
        X = LAWS[law](np.random.default_rng(50_000), (n1 + n2, number))
        model = SparseMeanDifference(0.0, alternative=alternative, selection="fdr")
        p = model.fit(X, np.repeat([1, 0], [n1, n2])).result_.p_values
        measured.append(shares(p, f"{law}, {sizes}"))
    told(f"ε = 0, {alternative}", measured, claims)


@pytest.mark.parametrize("kind", ["replaced", "wrong labels"])
@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
def test_nothing_differs_under_attack(kind: str, alternative: str, long_version: bool, claims: Claims) -> None:
    drawn, number = cells(long_version)
    measured = []
    for law, sizes in drawn:
        n1, n2 = SIZES[sizes]
        X = LAWS[law](np.random.default_rng(50_001), (n1 + n2, number))
        attack(X, n1, (int(np.ceil(0.05 * n1)), int(np.ceil(0.05 * n2))), kind)
        model = SparseMeanDifference((0.05, 0.05), alternative=alternative, selection="fdr")
        p = model.fit(X, np.repeat([1, 0], [n1, n2])).result_.p_values
        measured.append(shares(p, f"{law}, {sizes}"))
    told(f"ε = .05, {kind}, {alternative}", measured, claims)


@pytest.mark.parametrize("law", ["10% non-zeros", "Poisson 1", "Gaussian", "ratings 1–5"])
@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_nothing_differs_within_strata(law: str, epsilon: float, long_version: bool, claims: Claims) -> None:
    """Two batches with another level and 70:30 and 30:70 of the groups: without strata everything would be found."""
    number = 5000 if long_version else 400
    X = LAWS[law](np.random.default_rng(50_002), (200, number))
    X[100:] *= 3.0
    X[100:] += law == "Gaussian"
    y, strata = np.repeat([1, 0, 1, 0], [70, 30, 30, 70]), np.repeat([0, 1], 100)
    model = SparseMeanDifference(epsilon, selection="fdr")
    told(f"{law}, two strata, ε = {epsilon:g}", [shares(model.fit(X, y, strata=strata).result_.p_values, law)], claims)
    without = model.fit(X, y).result_.p_values
    if epsilon == 0 and law == "Gaussian":
        assert np.sum(without <= 0.05) > 2 * most(number, 0.05)


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_gaps_that_know_the_group(epsilon: float, long_version: bool, claims: Claims) -> None:
    """A third of the label and a tenth of the reference is missing; bad rows of the label lose their small values."""
    n1, n2, number = 60, 90, 5000 if long_version else 400
    rng = np.random.default_rng(50_003)
    X = rng.poisson(0.8, (n1 + n2, number)).astype(float)
    share = np.repeat([0.33, 0.1], [n1, n2])[:, np.newaxis]
    X[rng.random(X.shape) < share] = np.nan
    m = int(np.ceil(epsilon * n1))
    X[:n1] = np.sort(X[:n1], axis=0)  # NaN is last
    X[: m // 2] = np.nan
    X[n1 - (m - m // 2) : n1] = 50.0
    model = SparseMeanDifference(epsilon, selection="fdr", missing="omit")
    p = model.fit(X, np.repeat([1, 0], [n1, n2])).result_.p_values
    told(f"gaps, ε = {epsilon:g}", [shares(p, "gaps")], claims)


@pytest.mark.parametrize("contamination", [(0.1, 0.1), (0.2, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("sizes", [(50, 52), (100, 100), (20, 150)])
def test_no_fewer_rows_than_the_radius_undo_a_selection(
    sizes: tuple[int, int], contamination: tuple[float, float]
) -> None:
    """The rows that say most for the label, or for the reference, are turned into the opposite."""
    n1, n2 = sizes
    y = np.repeat([1, 0], sizes)
    model = SparseMeanDifference(contamination)
    for seed, shift in product(range(2), (2.0, 3.0, 6.0)):
        X = np.random.default_rng(50_004 + seed).standard_normal((n1 + n2, 1))
        X[:n1] += shift
        X -= np.median(X)  # as many below zero as above: the test is on x itself
        found = model.fit(X, y)
        replaced = int(found.result_.radius[0]) - 1 if found.support_.size else 0
        for rows, far in ((np.argsort(-X[:n1, 0]), -50.0), (n1 + np.argsort(X[n1:, 0]), 50.0)):
            attacked = X.copy()
            attacked[rows[:replaced], 0] = far + np.arange(min(replaced, rows.size)) / 1000
            assert not replaced or model.fit(attacked, y).support_.size, (seed, shift, replaced)
