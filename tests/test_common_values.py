"""Values that many rows share: counts about each of them, Fisher's test beside bad rows, what is read."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from sparsemean import Estimate, SparseMeanDifference
from sparsemean._data import as_table
from sparsemean._evidence import groups
from sparsemean._evidence.common_values import NOTHING_READ, CommonValues, read
from sparsemean._evidence.ranks import Contrast, RankTest
from sparsemean._evidence.worst_case import WorstCase
from sparsemean._kernels.rank_tails import MOST_SPLITS, log_moved_tails
from sparsemean._util.plans import BadRows


def counted(X: np.ndarray, y: np.ndarray, strata: np.ndarray | None = None) -> RankTest:
    contrast = Contrast(reference=0, label=1, sizes=(int(np.sum(y == 0)), int(np.sum(y == 1))))
    return groups.count(as_table(X), y, [contrast], strata=strata)[0]


@pytest.mark.parametrize("n_strata", [1, 3])
def test_counts_about_a_value_are_those_of_the_column_less_it(n_strata: int) -> None:
    rng = np.random.default_rng(1)
    y, within = np.repeat([0, 1], [25, 35]), np.arange(60) % n_strata
    X = rng.permuted(np.repeat([[-1.0], [0], [1], [2], [4]], [3, 12, 20, 16, 9], axis=0) * np.ones(6), axis=0)
    rows = [tuple(np.flatnonzero((y == label) & (within == h)) for label in (1, 0)) for h in range(n_strata)]
    common = CommonValues.of(read(as_table(X), np.arange(6), rows), n_strata)  # type: ignore[arg-type]
    np.testing.assert_array_equal(common.often, [[20, 16, 20, 3]] * 6)
    assert common.size.tolist() == [20, 16, 9] * 6
    for k, (feature, value) in enumerate(product(range(6), (1.0, 2.0, 4.0))):
        moved = counted(X[:, [feature]] - value, y, within)
        np.testing.assert_array_equal(common.counts[k], moved.counts[0])
        np.testing.assert_array_equal(common.repeats[k], moved.repeats[0])


def test_what_is_not_read_bounds_what_is() -> None:
    """The reach of bad rows is never smaller without a look at the values, so p is never smaller either."""
    rng = np.random.default_rng(2)
    y, whole = np.repeat([0, 1], [30, 50]), rng.random((80, 40)) < np.linspace(0.05, 1, 40)
    X = np.where(whole, rng.integers(-1, 3, (80, 40)), np.round(rng.normal(size=(80, 40)), 1))
    test = counted(X + 2 * y[:, np.newaxis] * (np.arange(40) % 2), y)
    assert 10 < test.common.features.size < 40
    of_one = RankTest(test.contrast, test.counts, test.repeats, clean=test.clean)
    for bad in (BadRows(1, 0), BadRows(2, 2), BadRows(6, 5), BadRows(12, 8)):
        case = WorstCase(bad, goal=np.log(0.001))
        assert (of_one.log_p(case) >= test.log_p(case) - 1e-9).all()
    assert of_one.common is NOTHING_READ


@pytest.mark.parametrize(("n", "a", "b"), [((40, 60), 38, 3), ((300, 25), 200, 2), ((9, 9), 9, 0)])
def test_the_tail_of_two_values_once_rows_are_replaced(n: tuple[int, int], a: int, b: int) -> None:
    for more in (0, 1, 2, 5, MOST_SPLITS, 45):
        tails = []
        for down in range(more + 1):
            first, second = a - down, b + more - down
            above = first > 0 and second <= n[1] and first * n[1] > second * n[0]
            tails.append(stats.hypergeom(sum(n), first + second, n[0]).sf(first - 1) if above else 1.0)
        out = np.empty(1)
        log_moved_tails(np.array([n]), np.array([a]), np.array([b]), np.array([more]), out)
        if more <= MOST_SPLITS:
            assert np.exp(out[0]) == pytest.approx(max(tails), rel=1e-4)
        assert np.exp(out[0]) >= max(tails) * (1 - 1e-9)


@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.0, 2.0), (-3.0, 7.5), (0.0, -2.0)])
def test_two_values_have_fishers_p_beside_bad_rows(pair: tuple[float, float]) -> None:
    """Whichever values they are: the tail at a − m₁ and b + m₂, twice; rows with any other value are off the block."""
    a, b, n1, n2, m1, m2 = 130, 40, 400, 600, 4, 6
    x = np.full(n1 + n2, pair[0])
    x[:b], x[n2 : n2 + a] = pair[1], pair[1]
    tails = [stats.hypergeom(n1 + n2, a - m1 + b + m2 + more, n1).sf(a - m1 - 1) for more in (0, 5)]
    X = np.column_stack([x, x])
    X[50:55, 1] = 99.0
    y = np.repeat([0, 1], [n2, n1])
    p = SparseMeanDifference((m2 / n2, m1 / n1)).fit(X, y).result_.p_values
    assert p == pytest.approx(2 * np.array(tails), rel=1e-5)


def test_ratings_are_told_apart_with_their_mode_as_the_block() -> None:
    """1 to 5, mostly 5: as if 5 were 0. What is chosen does not hang on where zero lies."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], 300)
    weights = np.exp(-0.25 * np.outer([0, 1], np.arange(5))) * [0.08, 0.08, 0.08, 0.1, 0.66]
    X = np.vstack([rng.choice(5, (300, 12), p=row / row.sum()) + 1.0 for row in weights])
    both = [SparseMeanDifference(0.02).fit(values, y).result_.p_values for values in (X, X - 5)]
    np.testing.assert_allclose(*both, rtol=1e-6)
    assert (both[0] < 1).sum() >= 8


def test_columns_with_few_values_are_judged_by_these() -> None:
    """Beside gaps a tenth is one of the values that are there; classes and single features have one p-value."""
    rng, y = np.random.default_rng(0), np.repeat([1, 0], 500)
    X = rng.standard_normal((1000, 4200))
    X[:, 0], X[:, 1] = np.nan, np.nan
    X[:60, 0], X[60:95, 0], X[500:539, 0], X[539:600, 0] = 2 + rng.random(60), 0, 1 + rng.random(39), 0
    X[:30, 1], X[500:530, 1] = 2, 1
    few, many = (SparseMeanDifference(0.002, missing="omit").fit(X[:, :d], y).result_ for d in (3, 4200))
    np.testing.assert_allclose(few.p_values[:2], many.p_values[:2], rtol=1e-6)
    assert few.p_values[1] < 1e-9


def test_the_radius_holds_where_a_replaced_row_ends_what_is_known_of_a_value() -> None:
    y, x = np.repeat([1, 0], 500), np.full(1000, np.nan)
    x[:66], x[500:533], x[533:628] = 7, 3, 10 + np.arange(95)

    def fitted(values: np.ndarray) -> Estimate:
        return SparseMeanDifference(0.002, missing="omit").fit(np.stack([values, values], 1), y).result_

    radius = int(fitted(x).radius[0])
    assert radius > 1
    for replaced in range(1, radius):
        moved = x.copy()
        moved[:replaced] = 500 + np.arange(replaced)
        assert fitted(moved).support.size == 2


def test_what_is_selected_and_adjusted_p_agree() -> None:
    rng, n = np.random.default_rng(5), 30
    y = np.repeat([1, 0], [n, n])
    X = (rng.random((2 * n, 29)) < np.where(y[:, np.newaxis] == 1, 0.95, 0.05)).astype(float)
    for share in (1 / 30, 2 / 30, 4 / 30):
        found = SparseMeanDifference(share).fit(X, y).result_
        np.testing.assert_array_equal(found.support, np.flatnonzero(found.p_adjusted <= 0.05))
