"""Signed ranks: tails and sums by recursion and plain loops, p-values by exhaustion, with bad rows and without."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sparsemean import certify, sparse_mean
from sparsemean._evidence.signed_ranks import DOWN, UP, SignedRankEvidence, larger_side, rank_sums
from sparsemean._stats.decision import Stage
from sparsemean._stats.signed_ranks import REPEAT_SHARE, caps_of, log_tails, rank_stages, score_sums, slack_of
from sparsemean._util.plans import BadRows
from sparsemean._util.records import NO_END

SIDED = ("two-sided", "greater", "less")
RULES = ("fwer", "fdr", "fdr_by")


def exact_tails(number: int, cap: int) -> np.ndarray:
    """P(Σ Bᵢ·min(i, C) ≥ t) for all t from 0 on, one coin after the other."""
    chance = np.ones(1)
    for rank in range(1, number + 1):
        with_it = np.concatenate((np.zeros(min(rank, cap)), chance))
        without = np.concatenate((chance, np.zeros(min(rank, cap))))
        chance = (with_it + without) / 2
    return np.cumsum(chance[::-1])[::-1]


def test_tails_are_never_too_small_and_hardly_too_large(long_version: bool) -> None:
    numbers = range(1, 301) if long_version else (*range(1, 20), 50, 100, 127, 128, 129, 130, 171, 300)
    for number in numbers:
        for cap in {1, max(1, number // 10), max(1, 2 * number // 5), number, 2 * number}:
            exact = exact_tails(number, cap)
            sums = np.arange(-2, exact.size + 2)
            p = np.exp(log_tails(np.full(sums.size, number), cap, sums))
            np.testing.assert_array_equal(p[:2], 1)
            np.testing.assert_array_equal(p[-2:], 0)
            ratio = p[2:-2] / exact
            assert ratio.min() >= 1 - 1e-13  # a logarithm is rounded
            assert ratio[exact < 0.4].max(initial=1) <= 1 + 1e-8


@pytest.mark.parametrize("cap", [30, 200, 700, 4000])
def test_features_with_numbers_of_values_of_their_own_have_exact_tails(cap: int) -> None:
    """They share tilts and nodes; each alone has the same bits."""
    rng = np.random.default_rng(cap)
    values = rng.integers(200, 1400, 30)
    most = score_sums(values, cap)
    sums = (most * (0.5 + 0.5 * rng.random(30) ** 3)).astype(np.int64) + 2
    found = log_tails(values, cap, sums)
    for value, least, log_p in zip(values.tolist(), sums.tolist(), found.tolist(), strict=True):
        assert log_p == log_tails(np.array([value]), cap, np.array([least]))[0]
        if log_p > -600:  # else doubles underflow
            truth = np.log(exact_tails(value, cap)[least])
            assert truth <= log_p < truth + 1e-8


def plain_sums(column: np.ndarray, caps: tuple[int, ...], *, keep_zeros: bool) -> tuple[Any, ...]:
    """Values, repeats, low and doubled sums of one column, a block of equal sizes after the other."""
    values = [value for value in column.tolist() if value == value and (keep_zeros or value != 0)]
    low, doubled, rank = np.zeros((2, len(caps)), int), np.zeros((2, len(caps)), int), 0
    sizes = sorted({abs(value) for value in values})
    for size in sizes:
        block = [value for value in values if abs(value) == size]
        for place, cap in enumerate(caps):
            scores = [min(rank + 1 + i, cap) for i in range(len(block))]
            for sign, own in enumerate(([v for v in block if v > 0], [v for v in block if v < 0])):
                low[sign, place] += sum(scores[: len(own)])
                both_ways = sorted(one + other for one, other in zip(scores, scores[::-1], strict=True))
                doubled[sign, place] += sum(both_ways[: len(own)])
        rank += len(block)
    return len(values), len(values) - len(sizes), low, doubled


def columns_of(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((n, 12))
    if kind != "distinct":
        X = np.round(X * {"ties": 8, "zeros": 2}[kind if kind in ("ties", "zeros") else "zeros"])
    if kind == "missing":
        X[rng.random(X.shape) < 0.2] = np.nan
        X[:, 3] = np.nan
        X[:, 4] = 0
    return X


@pytest.mark.parametrize("keep_zeros", [False, True])
@pytest.mark.parametrize("kind", ["distinct", "ties", "zeros", "missing"])
@pytest.mark.parametrize("n", [1, 2, 9, 10, 63])
def test_sums_are_those_of_a_plain_loop_in_any_layout(kind: str, n: int, keep_zeros: bool) -> None:
    rng = np.random.default_rng(n)
    X, caps = columns_of(kind, n, rng), caps_of(n)
    wide = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)
    for same in (X, np.asfortranarray(X), wide[::2, ::3], X[::-1]):
        found = rank_sums(same, caps, keep_zeros=keep_zeros)
        for column in range(X.shape[1]):
            values, repeats, low, doubled = plain_sums(X[:, column], caps, keep_zeros=keep_zeros)
            assert (found.values[column], found.repeats[column]) == (values, repeats)
            np.testing.assert_array_equal(found.low[..., column], low)
            np.testing.assert_array_equal(found.doubled[..., column], doubled)


def test_small_floats_are_ranked_as_what_they_are() -> None:
    X = (np.random.default_rng(0).standard_normal((101, 6)) + 0.6).astype(np.float32)
    few, many = certify(X), certify(X.astype(np.float64))
    np.testing.assert_array_equal(few.p_values, many.p_values)
    assert few.support.size > 3
    np.testing.assert_array_equal(few.radius, many.radius)


def replacements(clean: np.ndarray, m: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All columns that differ from those of ``clean`` in up to m rows, and which column each was."""
    changed = []
    for rows in combinations(range(clean.shape[0]), m):
        for new in product(values, repeat=m):
            other = clean.copy()
            other[list(rows)] = np.array(new)[:, np.newaxis]
            changed.append(other)
    return np.concatenate(changed, axis=1), np.tile(np.arange(clean.shape[1]), len(changed))


def signed(sizes: np.ndarray) -> np.ndarray:
    """Columns of these sizes with all signs."""
    places = np.flatnonzero(sizes)
    X = np.zeros((sizes.size, 2**places.size))
    X[places] = np.array(list(product((-1, 1), repeat=places.size))).T * sizes[places, np.newaxis]
    return X


@pytest.mark.parametrize("m", [1, 2])
def test_slack_is_attained(m: int, long_version: bool) -> None:
    """Of all replacements of m of n rows, none moves a sum by more than the formula says, and one by as much."""
    for n in range(m, 9 if long_version or m == 1 else 7):
        clean = signed(np.arange(1.0, n + 1))
        sizes = np.arange(1, 2 * n + 2) / 2
        changed, of = replacements(clean, m, np.concatenate((sizes, -sizes)))
        caps = tuple(range(1, n + 1))
        moved = np.abs(rank_sums(changed, caps).low[0] - rank_sums(clean, caps).low[0][:, of]).max(axis=1)
        np.testing.assert_array_equal(moved, [int(slack_of(m, np.array([n]), cap)[0]) for cap in caps])


def evidence_of(X: np.ndarray, *, alternative: str = "two-sided", error: float = 1.0) -> SignedRankEvidence:
    """Ranks of all columns, none of which a filter keeps out."""
    n, d = X.shape
    sides = {"two-sided": (UP, DOWN), "greater": (UP,), "less": (DOWN,)}[alternative]
    sums = larger_side([rank_sums(X, caps_of(n))] * len(sides), sides, -(-n // REPEAT_SHARE))
    stages = rank_stages(n, error=error, sides=len(sides))
    return SignedRankEvidence(n, d, stages, np.arange(d), np.full(d, n), sums, len(sides))


def with_places(evidence: SignedRankEvidence, places: tuple[int, ...]) -> SignedRankEvidence:
    """The same with some caps, for any number of bad rows."""
    return replace(evidence, stages=(Stage(NO_END, places),))


def patterns(n: int) -> list[np.ndarray]:
    """Sizes of n values up to what ranks see of them: how many are zero, and which of the others are equal."""
    return [
        np.concatenate((np.zeros(zeros), np.cumsum((1, *steps))))
        for zeros in range(n)
        for steps in product((0, 1), repeat=n - zeros - 1)
    ]


@pytest.mark.parametrize("alternative", SIDED)
def test_without_bad_rows_p_is_valid_whatever_is_tied(alternative: str, long_version: bool) -> None:
    """P(p ≤ t) ≤ t over all signs of given sizes, by exhaustion."""
    for n in range(1, 9 if long_version else 8):
        for sizes in patterns(n):
            for error in (1.0, 0.1):
                p = np.exp(evidence_of(signed(sizes), alternative=alternative, error=error).log_p(0))
                for t in np.unique(p):
                    assert np.mean(p <= t * (1 + 1e-12)) <= t * (1 + 1e-9)


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
@pytest.mark.parametrize("error", [1.0, 0.2, 0.05])
def test_with_bad_rows_p_is_valid_whatever_they_are(alternative: str, error: float, long_version: bool) -> None:
    """By exhaustion: P(p ≤ t) ≤ t over the signs of clean sizes, though rows are then replaced so that p is smallest.

    Sizes are 0, 1 and 2 in any number, so that zeros and ties are among them; new values lie between and beyond, too.
    """
    others = np.arange(-5, 6) / 2
    for n in range(2, 7 if long_version else 6):
        for sizes in combinations_with_replacement((0.0, 1.0, 2.0), n):
            clean = signed(np.array(sizes))
            for m in (1, 2):
                changed, of = replacements(clean, m, others)
                smallest = np.ones(clean.shape[1])
                p = np.exp(evidence_of(changed, alternative=alternative, error=error).log_p(m))
                np.minimum.at(smallest, of, p)
                for t in np.unique(smallest):
                    assert np.mean(smallest <= t * (1 + 1e-12)) <= t * (1 + 1e-9)


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
def test_with_bad_rows_p_is_no_smaller_than_that_of_clean_rows(alternative: str, long_version: bool) -> None:
    """By exhaustion where no sizes are tied: of all replacements of two rows or fewer, for each set of caps."""
    for n in range(2, 7 if long_version else 6):
        clean = signed(np.arange(1.0, n + 1))
        sizes = np.arange(1, 2 * n + 2, 2) / 2
        for m in (1, 2):
            changed, of = replacements(clean, m, np.concatenate((sizes, -sizes)))
            for error in (1.0, 0.2, 0.05):
                observed = evidence_of(changed, alternative=alternative, error=error)
                places = next(places for last, places in observed.stages if m <= last)
                before = with_places(evidence_of(clean, alternative=alternative, error=error), places).log_p(0)
                assert (observed.log_p(m) >= before[of] - 1e-12).all()


@pytest.mark.parametrize("effect", [0.0, 1.0])
def test_the_side_with_the_smaller_sum_has_no_p_below_one(effect: float) -> None:
    """Two sides have twice the p-value of the one that is looked at: of all values from a grid, ties and zeros too."""
    for n in range(1, 8):
        X = np.array(list(combinations_with_replacement(np.arange(-3.0, 4), n))).T
        every = np.arange(X.shape[1])
        sums = [rank_sums(X - by, caps_of(n), keep_zeros=effect > 0) for by in (effect, -effect)]
        for error in (1.0, 0.2):
            both, up, down = (
                SignedRankEvidence(
                    n, every.size, rank_stages(n, error=error, sides=2), every, np.full(every.size, n),
                    larger_side(parts, sides, -(-n // REPEAT_SHARE)), len(sides), ties_against=effect > 0,
                )
                for parts, sides in ((sums, (UP, DOWN)), (sums[:1], (UP,)), (sums[1:], (DOWN,)))
            )  # fmt: skip
            for evidence in (lambda e: e, lambda e: e.beyond((BadRows(0, 1),))):
                for m in range(1, n // 2 + 1):
                    each = evidence(up).log_p(m), evidence(down).log_p(m)
                    assert (np.maximum(*each) == 0).all()
                    expected = np.minimum(0.0, np.minimum(*each) + np.log(2))
                    np.testing.assert_array_equal(evidence(both).log_p(m), expected)


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
@pytest.mark.parametrize("error", [1.0, 0.2, 0.05])
def test_p_stays_within_bounds_once_rows_are_replaced(alternative: str, error: float, long_version: bool) -> None:
    """By exhaustion, zeros and ties among the values: what the radius rests on."""
    grid, others = np.arange(-2.0, 3), np.arange(-5, 6) / 2
    for n in range(2, 7 if long_version else 6):
        X = np.array(list(combinations_with_replacement(grid, n))).T
        before = evidence_of(X, alternative=alternative, error=error)
        for r in (0, 1, 2):
            changed, of = replacements(X, r, others)
            after = evidence_of(changed, alternative=alternative, error=error)
            for m in range(n // 2 + 1):
                above = before.log_p(m) if r == 0 else before.beyond((BadRows(0, m),)).log_p(m + r)
                assert (after.log_p(m) <= above[of] + 1e-12).all()


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
@pytest.mark.parametrize("error", [0.2, 0.05])
def test_p_stays_within_bounds_where_caps_are_left_out(alternative: str, error: float) -> None:
    """Twenty rows, of which the most telling are replaced: up to two caps are left out on the way."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((20, 400)) + rng.uniform(0, 2, 400)
    X[:, ::3] = np.round(2 * X[:, ::3])
    X = np.take_along_axis(X, np.argsort(-X, axis=0, kind="stable"), axis=0)
    before = evidence_of(X, alternative=alternative, error=error)
    assert [len(places) for _, places in before.stages] == [1, 3, 2, 1]  # the uncapped sum alone where no row is bad
    for r in range(1, 6):
        for value, rows in ((-50.0, slice(None, r)), (-0.01, slice(None, r)), (50.0, slice(20 - r, None))):
            changed = X.copy()
            changed[rows] = value
            after = evidence_of(changed, alternative=alternative, error=error)
            for m in range(11):
                assert (after.log_p(m) <= before.beyond((BadRows(0, m),)).log_p(m + r) + 1e-12).all()


def test_a_row_moves_no_sum_of_tied_values_by_more_than_its_slack() -> None:
    """Nineteen values of one size and a smaller one: it is replaced, and all of the others have lower ranks."""
    X = np.ones((20, 1))
    X[0] = 0.5
    found = certify(X, contamination=0.0, level=0.01)
    assert found.support.tolist() == [0]
    for rows in range(1, int(found.radius[0])):
        for values in combinations_with_replacement((-2.0, -1.0, -0.25), rows):
            Y = X.copy()
            Y[:rows, 0] = values
            assert certify(Y, contamination=0.0, level=0.01).support.tolist() == [0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("m", [0, 2, 6])
def test_no_feature_drops_out_with_fewer_rows_than_its_radius(rule: str, m: int, long_version: bool) -> None:
    """Rows with the worst values there are, against a feature, in the place of those most for it."""
    if m and rule != "fwer" and not long_version:
        pytest.skip("one rule, in the short version")
    X = samples(4)
    before = certify(X, contamination=m / 40, selection=rule)
    radii = before.radius.tolist()
    assert max(radii) > (2 if m < 6 else 1)
    assert (np.delete(before.radius, before.support) == 1).all()
    for feature in before.support:
        radius, side = radii[feature], 1 if X[:, feature].sum() > 0 else -1
        order = np.argsort(-side * X[:, feature], kind="stable")
        for rows in {1, radius - 1} if radius > 1 else ():
            for value in (-100 * side, -0.01 * side):
                Y = X.copy()
                Y[order[:rows], feature] = value
                after = sparse_mean(Y, contamination=m / 40, selection=rule, refine=None, screen_rows=False)
                assert feature in after.support


def test_p_is_the_largest_for_so_many_bad_rows_or_fewer() -> None:
    """And caps share the error that can reject, as their shares are to each other: by one cap at a time."""
    rng = np.random.default_rng(5)
    X = np.concatenate((rng.standard_normal((40, 8)) + 1, np.round(2 * rng.standard_normal((40, 8)) + 1)), axis=1)
    shares, sides = np.array([1, 4, 4]) / 9, 2
    for error in (0.05, 1e-4, 1e-9):
        evidence = evidence_of(X, error=error)
        p, tried = {}, (0, 1, 2)
        for place in range(3):
            alone = with_places(evidence_of(X, error=error), (place,))
            p[place] = [np.exp(alone.log_p(m)) for m in range(21)]
        largest = np.minimum(1, p[2][0])  # the uncapped sum alone
        np.testing.assert_allclose(np.exp(evidence.log_p(0)), largest, rtol=1e-9)
        for m in range(1, 21):
            able = tuple(
                place for place, cap in enumerate((4, 16, 40))
                if sides * exact_tails(40, cap)[sum(min(i, cap) for i in range(1, 41 - m))] <= error
            )  # fmt: skip
            tried = able or tried
            least = np.min([p[place][m] * shares[list(tried)].sum() / shares[place] for place in tried], axis=0)
            largest = np.maximum(largest, np.minimum(1, least))
            np.testing.assert_allclose(np.exp(evidence.log_p(m)), largest, rtol=1e-9)


def test_bad_rows_may_have_led_to_either_way_with_ties() -> None:
    """A quarter of the rows are tied, of which bad rows may have made so many that clean ones were not."""
    x = np.arange(1.0, 101)
    x[:25] = 0.5
    x[:12] *= -1
    evidence = with_places(evidence_of(x[:, np.newaxis]), (2,))
    (found,), (clean,) = np.exp(evidence.log_p(15)), np.exp(evidence.log_p(0))
    slack, tails = sum(range(86, 101)), exact_tails(100, 100)
    low, mean = (sum(range(26, 101)) + block - slack for block in (sum(range(1, 14)), 13 * 13))
    assert tails[low] > 2 * tails[mean]
    assert found == pytest.approx(2 * tails[low], rel=1e-6, abs=0)
    assert clean == pytest.approx(2 * 2 * tails[mean + slack], rel=1e-6, abs=0)  # two sides, and 2 for mean scores


def samples(seed: int) -> np.ndarray:
    """Forty rows: normal values, ties, many zeros; some features have a mean."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 30))
    X[:, ::2] += rng.uniform(0, 2, 15)
    X[:, 10:20] = np.round(2 * X[:, 10:20])
    X[:, 20:] = np.where(rng.random((40, 10)) < 0.5, 0, X[:, 20:])
    return X


@pytest.mark.parametrize("options", [{}, {"alternative": "greater"}, {"min_effect": 0.2}], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_p_rises_with_the_bad_rows_and_last_slacks_are_those_of_refits(
    rule: str, options: dict[str, Any], long_version: bool
) -> None:
    """All numbers of bad rows that can be allowed for, one fit each."""
    for seed in range(2 if long_version else 1):
        X = samples(seed)
        fits = [certify(X, contamination=m / 40, selection=rule, **options) for m in range(20)]
        p = np.stack([fit.p_values for fit in fits])
        assert (np.diff(p, axis=0) >= 0).all()
        selected = np.stack([np.isin(np.arange(30), fit.support) for fit in fits])
        assert selected[0].sum() > 4
        last = selected.sum(axis=0) - 1
        np.testing.assert_array_equal(np.diff(selected.astype(int), axis=0) <= 0, True)
        for fit in fits:
            found = fit.max_contamination * 40
            np.testing.assert_array_equal(np.where(np.isnan(found), -1, np.minimum(np.round(found), 19)), last)


def test_calls_without_a_seed_agree() -> None:
    """Calls of defaults and of ``random_state=None``: one p, one support, one interval of each feature."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((125, 60)) + np.concatenate((rng.uniform(0.2, 0.7, 30), np.zeros(30)))
    first = sparse_mean(X)
    assert first.plan.test == "ranks"
    assert 0 < first.support.size < 40
    for _ in range(3):
        other = sparse_mean(X, random_state=None)
        np.testing.assert_array_equal(other.p_values, first.p_values)
        np.testing.assert_array_equal(other.support, first.support)
        np.testing.assert_array_equal(other.intervals, first.intervals)
        np.testing.assert_array_equal(other.radius, first.radius)


def test_one_side_has_half_the_p_value() -> None:
    X = np.random.default_rng(2).standard_normal((80, 20)) + 0.7
    X[:, :3] *= -1
    both = certify(X, selection="fdr", contamination=0.02)
    greater, less = (certify(X, selection="fdr", contamination=0.02, alternative=side) for side in ("greater", "less"))
    np.testing.assert_allclose(2 * greater.p_values[3:], both.p_values[3:], rtol=1e-12)
    np.testing.assert_allclose(2 * less.p_values[:3], both.p_values[:3], rtol=1e-12)
    np.testing.assert_array_equal(greater.p_values[:3], 1)
    np.testing.assert_array_equal(less.p_values[3:], 1)


@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize("alternative", SIDED)
def test_means_up_to_a_smallest_effect_are_found_no_more_often_than_stated(alternative: str, share: float) -> None:
    """Means at its very end, the worst of all that do not matter; bad rows all speak for more.

    Of 3000 independent features no more have p ≤ t than is exceeded with a chance of 1e-6, at each of three t.
    """
    rng, d, n = np.random.default_rng(7), 3000, 60
    mean = {"two-sided": 0.5 * np.where(np.arange(d) % 2, 1, -1), "greater": 0.5, "less": -0.5}[alternative]
    X = rng.standard_normal((n, d)) + mean
    X[: round(share * n)] = 100 * np.sign(mean)
    p = certify(X, contamination=share, min_effect=0.5, alternative=alternative, selection="fdr").p_values
    for t in (0.05, 0.01, 0.001):
        assert np.sum(p <= t) <= stats.binom.ppf(1 - 1e-6, d, t)
    inside = certify(X - 0.9 * np.asarray(mean), min_effect=0.5, alternative=alternative, contamination=share)
    assert inside.support.size == 0


def test_joined_sums_are_those_of_all_columns() -> None:
    X, caps = samples(3), caps_of(40)
    whole = rank_sums(X, caps)
    parts = [rank_sums(X[:, :7], caps), rank_sums(X[:, 7:], caps)]
    for *some, every in zip(*parts, whole, strict=True):
        np.testing.assert_array_equal(np.concatenate(some, axis=-1), every)


@pytest.mark.parametrize("null", [0.3, 0.7, 1.1, 20.1])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_rounding_does_not_break_ties_by_sign(null: float, kind: type) -> None:
    """Decimals about a null value that is no binary fraction: each |x − null| occurs with either sign."""
    steps = np.random.default_rng(0).integers(-1, 2, (1000, 50))
    X = np.round(null + steps / 10, 1).astype(kind)
    found, whole = certify(X, null=null, contamination=0), certify(steps.astype(float), contamination=0)
    np.testing.assert_allclose(found.p_values, whole.p_values, rtol=1e-12)
    assert not certify(X, alternative="greater", min_effect=null, contamination=0).support.size
