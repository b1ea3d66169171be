"""Null distributions against scipy and against counting by hand."""

from __future__ import annotations

from itertools import combinations, product
from math import comb, log

import numpy as np
import pytest
from scipy import stats

from sparsemean._kernels import rank_tails
from sparsemean._stats.group_ranks import critical_rank, log_u_tails
from sparsemean._stats.nulls import SignTestNull, least_majorities, times, two_sided


def sign_test(k: np.ndarray, n: np.ndarray) -> np.ndarray:
    return SignTestNull(n).p_values(k[:, np.newaxis], slice(None))[:, 0]  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 2, 7, 100, 2001])
def test_sign_test_is_the_binomial_tail(n: int) -> None:
    k = np.arange(n + 1)
    expected = np.where(2 * k <= n, 1.0, np.minimum(1.0, 2 * stats.binom.sf(k - 1, n, 0.5)))
    np.testing.assert_allclose(sign_test(k, np.full(n + 1, n)), expected, rtol=1e-9, atol=1e-300)


def test_sign_test_with_different_numbers_of_signs() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(0, 60, 500)
    k = np.array([rng.integers(0, m + 2) for m in n])
    expected = np.where(2 * k <= n, 1.0, np.minimum(1.0, 2 * stats.binom.sf(k - 1, n, 0.5)))
    np.testing.assert_allclose(sign_test(k, n), expected, rtol=1e-9)


def test_sign_test_is_exact_at_its_smallest() -> None:
    assert sign_test(np.array([60]), np.array([60]))[0] == pytest.approx(2.0**-59, rel=1e-14)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 1599, 1600, 1700, 20_001, 100_000])
def test_a_window_of_the_table_has_the_bits_of_the_whole(n: int) -> None:
    k = np.arange(n + 2)
    whole = two_sided(k, np.full(n + 2, n))
    null = SignTestNull(np.full(n + 2, n))
    np.testing.assert_array_equal(null.p_values(k[:, np.newaxis], slice(None))[:, 0], whole)
    errors = np.append(
        whole[np.linspace(n // 2, n + 1, 7).astype(int)], [0.0, 5e-324, 1e-300, 1e-9, 0.03, 0.99, 1.0, 2.0]
    )
    for factor in (0.5, 1.0, 3.0):
        rising = np.maximum.accumulate(times(whole[::-1], factor))
        for error in errors:
            passing = int(np.searchsorted(rising, error, side="right"))
            assert least_majorities(np.array([n]), float(error), factor)[0] == n + 2 - passing


def test_majorities_beyond_the_window_have_no_p_value() -> None:
    """For many numbers of signs nothing beyond the window is above zero."""
    for n in (1601, 5000, 123_457, 10_000_000, 1_000_000_000):
        k = n // 2 + np.unique(np.geomspace(20 * np.sqrt(n), n - n // 2, 2000).astype(int)) + 1
        assert not two_sided(k, np.full(k.size, n)).any()


def test_thresholds_of_few_and_of_many_numbers_agree() -> None:
    numbers = np.array([0, 1, 2, 3, 10, 64, 500, 501, 1999, 2500, 10_000, 100_000])
    for error in (1e-12, 1e-6, 0.02, 0.6):
        one_by_one = [least_majorities(numbers[k : k + 1], error, 1.5)[0] for k in range(numbers.size)]
        np.testing.assert_array_equal(least_majorities(np.tile(numbers, 2), error, 1.5), np.tile(one_by_one, 2))


SIZES = [(1, 1), (2, 5), (5, 4), (6, 6)]
EXACT = 2e-6
"""What a tail may be too large by, as a share: a millionth is added so that it is never too small."""


def tails(
    n1: int, n2: int, doubled: object, *, A: int | None = None, bound: bool = False, top: float = 0
) -> np.ndarray:
    """Logarithms of P(2U ≥ w) for some w."""
    w = np.atleast_1d(np.asarray(doubled, dtype=np.int64))
    first, second, nonzero = (np.full((w.size, 1), size) for size in (n1, n2, n1 + n2 if A is None else A))
    return log_u_tails(first, second, nonzero, w, bound=bound, halves=False, top=top)


def doubled_u(values: tuple[int, ...], n1: int) -> np.ndarray:
    """2U of the first group, half a tie, over all ways to deal ``values`` to n₁ rows and the others."""
    x = np.array(values)
    deals = np.array(list(combinations(range(x.size), n1)))
    first = np.zeros((len(deals), x.size), dtype=bool)
    np.put_along_axis(first, deals, values=True, axis=1)
    signs = 1 + np.sign(x[:, np.newaxis] - x)
    return np.einsum("ki,ij,kj->k", first.astype(int), signs, (~first).astype(int))


@pytest.mark.parametrize(("n1", "n2"), SIZES)
def test_ranks_by_counting_every_arrangement(n1: int, n2: int) -> None:
    """Without zeros and with any number of them: above the middle the tail is exact, up to it 1."""
    for zeros in range(n1 + n2):
        u = doubled_u((*[0] * zeros, *range(1, n1 + n2 - zeros + 1)), n1)
        w = np.arange(n1 * n2 + 1, u.max() + 2)
        found, expected = tails(n1, n2, w, A=n1 + n2 - zeros), np.log([np.mean(u >= value) or 1e-320 for value in w])
        assert found[-1] == -np.inf
        assert (np.abs(found[:-1] - expected[:-1]) <= EXACT).all()
        assert (found[:-1] >= expected[:-1] - 1e-12).all()
        np.testing.assert_array_equal(tails(n1, n2, np.arange(n1 * n2 + 1), A=n1 + n2 - zeros), 0.0)


@pytest.mark.parametrize(("n1", "n2"), SIZES)
def test_the_bound_holds_for_every_smaller_number_of_values(n1: int, n2: int) -> None:
    for most in range(1, n1 + n2 + 1):
        w = np.arange(n1 * n2 + 1, 2 * n1 * n2 + 1)
        bound = tails(n1, n2, w, A=most, bound=True)
        for A in range(most + 1):
            assert (tails(n1, n2, w, A=A) <= bound + EXACT).all()


@pytest.mark.parametrize(("n1", "n2"), [(42, 83), (20, 1100), (8, 2600), (1100, 20)])
def test_ranks_keep_their_digits_far_out(n1: int, n2: int) -> None:
    """The last places have as many orders as there are partitions of what is missing: 1, 2, 4, 7, 12 in all."""
    found = tails(n1, n2, 2 * (n1 * n2 - np.arange(5)))
    expected = [log(ways) - log(comb(n1 + n2, n1)) for ways in (1, 2, 4, 7, 12)]
    assert (np.abs(found - expected) <= EXACT).all()
    assert (found >= expected).all()


@pytest.mark.parametrize(("n1", "n2"), [(20, 1100), (8, 2600)])
def test_unequal_groups_have_exact_tails(n1: int, n2: int) -> None:
    """All the way out, against coefficients of the Gaussian binomial in whole numbers."""
    total = comb(n1 + n2, n1)
    ways = [1] + [0] * (n1 * n2 // 2)  # orders with U = 0, 1, …: ∏ (1 − q^(n₂+i))/(1 − q^i)
    for i in range(1, n1 + 1):
        for u in range(len(ways) - 1, n2 + i - 1, -1):
            ways[u] -= ways[u - n2 - i]
        for u in range(i, len(ways)):
            ways[u] += ways[u - i]
    below, at = 0, {}
    for u, count in enumerate(ways):
        below += count
        at[u] = log(below) - log(total)
    places = np.unique(np.linspace(0, n1 * n2 // 2 - 1, 60).astype(int))
    found, expected = tails(n1, n2, 2 * (n1 * n2 - places)), np.array([at[int(u)] for u in places])
    assert (np.abs(found - expected) <= EXACT).all()
    assert (found >= expected - 1e-12).all()


def test_tails_far_beyond_the_smallest_number() -> None:
    assert tails(5000, 5000, 2 * 5000 * 5000)[0] >= -log(comb(10_000, 5000))
    assert tails(255, 3000, 2 * 255 * 3000)[0] == pytest.approx(-log(comb(3255, 255)), rel=1e-8)


@pytest.mark.parametrize(("n1", "n2"), [(256, 256), (256, 700), (400, 300)])
def test_tails_of_many_rows_are_exact_and_normal_ones_not_too_small(n1: int, n2: int) -> None:
    """Against the other transform, from the middle to where it ends; normal where what is asked is less."""
    sd = float(np.sqrt(n1 * n2 * (n1 + n2 + 1) / 3))
    w = np.unique(np.ceil(n1 * n2 + sd * np.array([0.01, 0.3, 1, 1.7, 2.5, 3.5, 5, 7, 10, 15])).astype(np.int64))
    w = w[w <= 2 * n1 * n2]
    found = tails(n1, n2, w)
    scratch, lanes = np.empty((5, n1 + n2)), np.empty((rank_tails.ROWS_OF_LANES, rank_tails.LANES))
    sizes = [np.array([size]) for size in (n1, n2, n1 + n2)]
    exact = np.array([rank_tails.log_transformed(*sizes, int(place), 1, scratch, lanes) for place in w])
    near = w < n1 * n2 + 8 * sd  # farther out the other one is of a larger function
    np.testing.assert_allclose(found[near], exact[near], atol=1e-6)
    normal = tails(n1, n2, w, top=-1000.0)
    assert (normal >= found).all()
    assert (normal[w < n1 * n2 + 4 * sd] <= found[w < n1 * n2 + 4 * sd] + 0.1).all()


@pytest.mark.parametrize(
    ("n1", "n2", "A"), [(13, 687, 80), (60, 90, 100), (200, 200, 120), (40, 400, 300), (30, 30, 50)]
)
def test_normal_parts_of_lumps_are_never_too_small(n1: int, n2: int, A: int) -> None:
    """Where many values are not zero their U is taken as normal: against the transform of all at once."""
    sd = float(np.sqrt(rank_tails.spread(n1, n2, A)))
    most = int(rank_tails.doubled_end(n1, n2, A, min(n1, A)))
    w = np.unique(np.ceil(n1 * n2 + sd * np.array([0.01, 0.5, 1, 1.4, 1.6, 2.5, 4, 6, 8])).astype(np.int64))
    w = w[w <= most]
    scratch, lanes = np.empty((5, n1 + n2)), np.empty((rank_tails.ROWS_OF_LANES, rank_tails.LANES))
    sizes = [np.array([size]) for size in (n1, n2, A)]
    for power in (1, 2):
        exact = [rank_tails.log_transformed(*sizes, int(place), power, scratch, lanes) for place in w]
        parts = [
            rank_tails.log_lumps(n1, n2, A, int(place), power, False, rank_tails.MANY, scratch, lanes) for place in w
        ]
        assert (np.array(parts) >= np.array(exact) - 1e-6).all()
        bounds = np.array([
            rank_tails.log_lumps(n1, n2, A, int(place), power, False, rank_tails.CLOSED, scratch, lanes) for place in w
        ])  # fmt: skip
        assert (bounds >= np.array(exact) - 1e-6).all()
        assert (bounds <= np.array(exact) + 3.5)[w < n1 * n2 + 5 * sd].all()
    found = tails(n1, n2, w, A=A, top=-1000.0)
    exact = [rank_tails.log_transformed(*sizes, int(place), 1, scratch, lanes) for place in w]
    assert (found >= exact).all()
    np.testing.assert_allclose(tails(n1, n2, w, A=A), exact, atol=2e-6)
    near = w < n1 * n2 + 3 * sd
    assert (found[near] <= np.array(exact)[near] + 0.15).all()


@pytest.mark.parametrize(("n1", "n2", "A"), [(300, 400, 650), (600, 500, 900), (258, 3000, 3100)])
def test_far_ends_of_large_groups_with_zeros_have_room(n1: int, n2: int, A: int) -> None:
    """Nearly all pairs are won: what is worked on fits into its scratch, and no tail is too small."""
    most = int(rank_tails.doubled_end(n1, n2, A, min(n1, A)))
    out = tails(n1, n2, most - np.array([0, 2, 2 * n1, 4 * n2]), A=A)
    a = min(n1, A)
    exact = stats.hypergeom(n1 + n2, A, n1).logpmf(a) - rank_tails.log_choose(A, a)  # one arrangement of the values
    assert out[0] >= exact
    assert (np.diff(out) >= 0).all()
    assert (out < -50).all()


def test_strata_are_sums_of_independent_ranks() -> None:
    one, two = doubled_u((1, 2, 3, 4, 5, 6), 2), doubled_u((0, 0, 0, 1, 2), 3)
    sums = np.add.outer(one, two).ravel()
    w = np.arange(2 * 4 + 3 * 2 + 1, sums.max() + 1)
    n1, n2, A = (np.tile(sizes, (w.size, 1)) for sizes in ((2, 3), (4, 2), (6, 2)))
    found = log_u_tails(n1, n2, A, w, bound=False, halves=False)
    np.testing.assert_allclose(found, np.log([np.mean(sums >= place) for place in w]), atol=EXACT)


@pytest.mark.parametrize("values", [(1, 1, 2, 2, 3, 3, 3), (0, 0, 0, 1, 1, 2, 2), (0, 0, 0, 0, 5, 5, 5), (4,) * 7])
def test_halves_of_ties_cost_a_factor_of_two_at_most(values: tuple[int, ...]) -> None:
    for n1 in range(1, 7):
        u, A = doubled_u(values, n1), 7 - values.count(0)
        w = np.arange(n1 * (7 - n1) + 1, u.max() + 1)
        sizes = (np.full((w.size, 1), size) for size in (n1, 7 - n1, A))
        found = log_u_tails(*sizes, w, bound=False, halves=True)
        assert (found >= np.log([np.mean(u >= place) for place in w]) - 1e-12).all()


@pytest.mark.parametrize(("first", "second"), [((12,), (17,)), ((9, 4), (6, 11)), ((300,), (400,)), ((20,), (1100,))])
@pytest.mark.parametrize("error", [0.3, 0.01, 1e-9])
def test_critical_values_are_the_smallest_that_pass(
    first: tuple[int, ...], second: tuple[int, ...], error: float
) -> None:
    u = critical_rank(first, second, error)
    n1, n2 = np.array([first] * 2), np.array([second] * 2)
    p = np.exp(log_u_tails(n1, n2, n1 + n2, 2 * np.array([u - 1, u]), bound=False, halves=False))
    assert p[0] > error >= p[1]


def test_no_rank_passes_where_all_are_too_likely() -> None:
    assert critical_rank((2,), (2,), 1e-6) == 5


@pytest.mark.parametrize("factor", [0.5, 1, 1.5, 3])
@pytest.mark.parametrize("error", [float(np.nextafter(1, 0)), 0.3, 0.01, 1e-9])
def test_thresholds_divide_what_passes_from_what_does_not(error: float, factor: float) -> None:
    for null, statistic in (
        (SignTestNull(np.array([40, 40], dtype=np.int32)), np.tile(np.arange(42.0), (2, 1))),
        (SignTestNull(np.array([40, 60, 0, 7], dtype=np.int32)), np.tile(np.arange(62.0), (4, 1))),
        (SignTestNull(np.arange(50, dtype=np.int32)), np.tile(np.arange(52.0), (50, 1))),
    ):
        both_sides = null.p_values(statistic, slice(None))
        p = np.where(both_sides < 1, np.minimum(1, factor * both_sides), 1)
        asked = null.threshold(error, factor)
        np.testing.assert_array_equal(p <= error, statistic >= np.atleast_1d(asked)[:, np.newaxis])


def changes(states: tuple[int, int, int], m: int) -> set[tuple[int, int, int]]:
    """All (above, below, neither) that some change of ``m`` buckets leads to; neither: zero, or nothing there."""
    reached = {states}
    for _ in range(m):
        for now, i, j in list(product(reached, range(3), range(3))):
            if now[i]:
                after = list(now)
                after[i] -= 1
                after[j] += 1
                reached.add((after[0], after[1], after[2]))
    return reached


def test_slack_is_the_supremum_over_all_changes_zeros_and_gaps_included() -> None:
    """Turning a sign is the worst that can be done to a bucket: the formula is met, and met exactly, by exhaustion."""

    def plain(above: int, below: int) -> float:
        total, most = above + below, max(above, below)
        tail = sum(comb(total, k) for k in range(most, total + 1)) / 2**total
        return 1.0 if 2 * most <= total else min(1.0, 2 * tail)

    for J in range(1, 13):
        for above in range(J + 1):
            for below in range(J + 1 - above):
                null = SignTestNull(np.array([above + below], dtype=np.int32))
                for m in range(4):
                    p = null.p_values(np.array([[float(max(above, below) - m)]]), slice(None))[0, 0]
                    largest = max(plain(a, b) for a, b, _ in changes((above, below, J - above - below), m))
                    assert p == pytest.approx(largest, rel=1e-12)
