"""Means of two groups: p-values by exhaustion and on a grid of centres, intervals, skew, bad rows, scales, roads."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import specification
from scipy import sparse, stats

import sparsemean as sm
from sparsemean import SparseMeanDifference, certify
from sparsemean._evidence import means
from sparsemean._evidence.means import LOG_ALONE, LOG_JOINT, MeanContrast, slack_of_sums
from sparsemean._evidence.ranks import Contrast
from sparsemean._evidence.worst_case import WorstCase
from sparsemean._kernels import influence
from sparsemean._stats import nulls
from sparsemean._util.plans import BadRows, Side
from sparsemean._util.records import FloatArray, MeanDifferenceTest
from sparsemean.errors import InputError

from command import expect

SIDES = ("two-sided", "greater", "less")
LEVELS = {"two-sided": 2.0, "greater": 1.0, "less": 1.0}


def rows(bad: tuple[int, int]) -> BadRows:
    """Bad rows of the label and of the reference."""
    return BadRows(label=bad[0], reference=bad[1])


def contrast_of(
    first: np.ndarray,
    second: np.ndarray,
    *,
    scale: float,
    bad: tuple[int, int] = (0, 0),
    alternative: str = "two-sided",
    min_effect: float = 0.0,
    error: float = 0.05,
) -> MeanContrast:
    """Test the columns of two groups, each as if it were the only one."""
    sizes, d = (first.shape[0], second.shape[0]), first.shape[1]
    test = means.difference_test(
        np.full((2, d), scale), sizes=sizes, bad=rows(bad), sides=LEVELS[alternative], error=error
    )
    parts = first, second

    def sums_of(group: int) -> means.GroupSums:
        return lambda some, centres: influence.array_sums(
            parts[group][:, some], centres, test.unit[group, some], test.kappa
        )

    groups = means.GroupColumns(parts, np.arange(d), (sums_of(0), sums_of(1)), test)
    found = means.look(groups, side=Side(alternative), min_effect=min_effect)
    contrast = Contrast(reference=0, label=1, sizes=(sizes[1], sizes[0]))
    return MeanContrast(contrast, test, missing=np.zeros(d, dtype=np.int32), **found._asdict())


def largest_p(
    first: np.ndarray,
    second: np.ndarray,
    test: MeanDifferenceTest,
    *,
    bad: tuple[int, int],
    alternative: str,
    min_effect: float,
) -> float:
    """Return p of one column from its definition, the largest on a fine grid of centres."""
    (u1, u2), (b1, b2), (w1, w2) = test.unit[:, 0], test.bias[:, 0], test.weights
    low, high = min(first.min(), second.min()), max(first.max(), second.max())
    slack, out = slack_of_sums(test, rows(bad)), []
    for sign in (1, -1):
        least = np.inf
        for centre in np.linspace(low - 1, high + 1, 4001):
            s1 = sign * specification.influence((first - centre - sign * min_effect) / u1, test.kappa).sum()
            s2 = sign * specification.influence((second - centre) / u2, test.kappa).sum()
            joint = w1 * s1 - w2 * s2 - w1 * b1 - w2 * b2 - slack.joint + LOG_JOINT
            alone = max(s1 - b1 - slack.alone[0], -s2 - b2 - slack.alone[1]) + LOG_ALONE
            least = min(least, max(joint, alone))
        out.append(math.exp(-max(least, 0.0)))
    p = {"two-sided": 2 * min(out), "greater": out[0], "less": out[1]}[alternative]
    return min(1.0, p)


# p-values.


@pytest.mark.parametrize(("q", "n"), [(0.5, (20, 30)), (0.2, (40, 25)), (0.05, (45, 45)), (0.1, (15, 90))])
@pytest.mark.parametrize("alternative", SIDES)
def test_p_values_are_valid_to_the_last_atom_of_two_point_laws(q: float, n: tuple[int, int], alternative: str) -> None:
    """Two laws of one mean and variance, one skewed to the left and one to the right: P(p ≤ t) ≤ t for every t."""
    pairs = list(product(range(n[0] + 1), range(n[1] + 1)))
    hits = np.array(pairs).T
    first = np.where(np.arange(n[0])[:, np.newaxis] < hits[0], 1 - q, -q)
    second = np.where(np.arange(n[1])[:, np.newaxis] < hits[1], q - 1, q)
    found = contrast_of(first, second, scale=math.sqrt(q * (1 - q)), alternative=alternative)
    p = np.exp(found.log_p(WorstCase(rows((0, 0)))))
    chance = stats.binom.pmf(hits[0], n[0], q) * stats.binom.pmf(hits[1], n[1], q)
    assert p.min() < 0.5
    for t in np.unique(p):
        assert chance[p <= t].sum() <= t * (1 + 1e-12)


@pytest.mark.parametrize("alternative", SIDES)
@pytest.mark.parametrize(("bad", "min_effect"), [((0, 0), 0.0), ((2, 3), 0.0), ((0, 4), 0.3)])
def test_p_is_the_largest_of_all_centres(alternative: str, bad: tuple[int, int], min_effect: float) -> None:
    """Never below the largest on a grid, and hardly above it."""
    rng, seen = np.random.default_rng(3), 0
    for shift in (0.8, -1.2, 2.0, 8.0, -40.0):
        first, second = rng.exponential(size=(90, 1)) + shift, 1 + rng.standard_normal((140, 1))
        options: dict[str, Any] = {"alternative": alternative, "min_effect": min_effect}
        found = contrast_of(first, second, scale=1.0, bad=bad, **options)
        expected = largest_p(first, second, found.mean_test, bad=bad, **options)
        log_p = float(found.log_p(WorstCase(rows(bad)))[0])
        if expected > means.FILTER:
            assert log_p > math.log(means.FILTER)
            continue
        seen += 1
        assert math.log(expected) - 1e-6 <= log_p <= math.log(expected) + 0.02 * abs(math.log(expected))
    assert seen >= 2


def said_at(test: MeanDifferenceTest, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return what sums say at the centres where they were taken, from the definition: D, S₁, −S₂ at their prices."""
    (b1, b2), (w1, w2) = test.bias[:, 0], test.weights
    joint = w1 * first - w2 * second - w1 * b1 - w2 * b2 + LOG_JOINT
    return np.maximum(joint, np.maximum(first - b1 + LOG_ALONE, -second - b2 + LOG_ALONE))


@pytest.mark.parametrize("cells", [1, 2, 3, 5])
def test_what_sums_say_between_centres_is_never_overstated(cells: int) -> None:
    """However wide cells are: where most of the label lies below and a few rows far above, D sags between centres."""
    sizes, none = (70, 70), means.Slack(0.0, (0.0, 0.0))
    test = means.difference_test(np.ones((2, 1)), sizes=sizes, bad=rows((0, 0)), sides=2.0, error=0.05)
    sags = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        values = [  # in units: a third far off on the side where the mean is, the others on the other side
            sign * np.where(rng.random(n) < 0.35, 3.0, -rng.uniform(0.1, 0.6)) + 0.1 * rng.standard_normal(n)
            for n, sign in zip(sizes, (1.0, -1.0), strict=True)
        ]

        def sums(centres: FloatArray, values: list[FloatArray] = values) -> list[FloatArray]:
            each = [(v[:, np.newaxis] - centres) for v in values]
            return [specification.influence(away, test.kappa).sum(axis=0) for away in each]

        ends, fine = np.linspace(-2, 2, cells + 1), np.linspace(-2, 2, 2001)
        first, second = (each[np.newaxis] for each in sums(ends))
        step = test.unit[0] * 4 / cells  # both groups have one unit
        found = float(means.least_evidence(first, second, step, means.SumBounds.of(test, none))[0])
        least = float(said_at(test, *sums(fine)).min())
        assert found <= least + 1e-9
        sags += bool(least < said_at(test, *sums(ends)).min() - 0.1)
    assert sags  # or nothing would have been shown


def test_what_a_sum_is_between_centres_is_never_overstated() -> None:
    """By its values at two centres and its largest bend, of all rows where ψ becomes constant among others."""
    for kappa, seed in product((0.5, 0.7, 1.5), range(20)):
        rng = np.random.default_rng(seed)
        x = rng.choice([-1.0, 1.0]) / (2 * kappa) * rng.uniform(0.5, 1.2) + 0.02 * rng.standard_normal(50)
        bend = 50 * 8 * kappa**2 / (4 * kappa - 1)
        for step, share in product((0.05, 0.3, 1.0), (0.0, 0.25, 0.5, 0.9, 1.0)):
            near, far, between = (
                float(specification.influence(x - centre * step, kappa).sum()) for centre in (0.0, 1.0, share)
            )
            given = (np.array([value]) for value in (near, far, share, bend * step**2))
            found = float(means.least_between(*given)[0])
            assert found <= between + 1e-9
            assert found >= far


@pytest.mark.parametrize("bad", [(0, 0), (2, 0), (5, 20)])
def test_groups_are_tuned_for_the_smallest_p_that_is_asked_for(bad: tuple[int, int]) -> None:
    """κ, the unit and weights make intervals at level/d about as short as any would, d = 1000."""
    sizes, d, level = (400, 900), 1000, 0.05
    X, labels = np.random.default_rng(0).standard_normal((1300, d)), np.repeat([1, 0], sizes)
    shares = tuple(m / n for m, n in zip(reversed(bad), reversed(sizes), strict=True))
    found = SparseMeanDifference(shares, target="mean", scale=1.0, level=level).fit(X, labels)
    test = found.result_.decision.evidence.tests[0].mean_test  # type: ignore[union-attr]

    def half_width(kappa: float, weights: tuple[float, float], slope: float) -> float:
        """(κs²V + L + 2M·Σλm)/s, V = Σσ²/(λn)."""
        moved = 2 * nulls.psi_max(kappa) * sum(w * m for w, m in zip(weights, bad, strict=True))
        V = sum(1 / (w * n) for w, n in zip(weights, sizes, strict=True))
        return (kappa * slope**2 * V + math.log(2 * d / level) - LOG_JOINT + moved) / slope

    own = half_width(test.kappa, test.weights, test.weights[0] * sizes[0] / test.unit[0, 0])
    best = min(
        half_width(kappa, weights, slope)
        for kappa in np.geomspace(0.5, 3, 12)
        for weights in [(1.0, w) for w in (0.1, 0.3, 0.6, 1.0)] + [(w, 1.0) for w in (0.1, 0.3, 0.6)]
        for slope in np.geomspace(10, 400, 60)
    )
    assert own <= 1.005 * best


def test_the_difference_finds_less_than_two_intervals_would() -> None:
    """Half widths, to first order: √2 shorter for groups of one size without bad rows, hardly ever longer with them."""
    for sizes, bad in (
        ((1000, 1000), (0, 0)),
        ((1000, 1000), (50, 50)),
        ((100, 5000), (5, 250)),
        ((100, 5000), (0, 0)),
    ):
        error = 0.05 / 1000
        test = means.difference_test(np.ones((2, 1)), sizes=sizes, bad=rows(bad), sides=2.0, error=error)
        slope = test.weights[0] * sizes[0] / test.unit[0, 0]
        bias = np.array(test.weights) @ test.bias[:, 0]
        half = (bias + slack_of_sums(test, rows(bad)).joint - LOG_JOINT + math.log(2 / error)) / slope
        log_odds, alone = math.log(4 / error), 0.0
        for n, m in zip(sizes, bad, strict=True):
            kappa = nulls.kappa_of(log_odds, m)
            alone += 2 * math.sqrt(kappa * (log_odds + 2 * m * nulls.psi_max(kappa)) / n)
        assert half < 1.02 * alone  # two intervals have a κ each, which groups of other sizes can use
        if sizes == (1000, 1000) and not any(bad):
            assert half == pytest.approx(alone / math.sqrt(2), rel=0.03)


def test_p_rises_with_bad_rows() -> None:
    rng = np.random.default_rng(5)
    found = contrast_of(rng.exponential(size=(200, 6)) + 2, rng.exponential(size=(300, 6)), scale=1.0)
    for steps in ([(m, 0) for m in range(40)], [(0, m) for m in range(40)]):
        assert (np.diff([found.log_p(WorstCase(rows(bad))) for bad in steps], axis=0) >= 0).all()
    assert (np.diff([found.log_p(WorstCase(rows((1, 1)), more=r)) for r in range(40)], axis=0) >= 0).all()
    assert (found.log_p(WorstCase(rows((2, 1)))) <= found.log_p(WorstCase(rows((1, 1)), more=1))).all()


# Skew, bad rows and power, from end to end.


def skewed(rng: np.random.Generator, n: tuple[int, int] = (300, 900), d: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Exponential values and Gaussian ones of the same mean and variance: only their shape differs."""
    X = np.concatenate((rng.exponential(size=(n[0], d)), 1 + rng.standard_normal((n[1], d))))
    return X, np.repeat(["skewed", "even"], n)


def test_groups_of_other_shapes_with_one_mean_are_not_told_apart() -> None:
    """Family-wise error over 200 fits: none expected, as the bound is far from sharp; ranks list them all."""
    rng, wrong = np.random.default_rng(7), 0
    for _ in range(200):
        X, y = skewed(rng, d=20)
        wrong += certify(X, y, target="mean", scale=1.0, contamination=0.0).support.size > 0
    assert wrong <= 2  # P(more | level .05) is near 1: at the nominal rate ten are expected
    assert certify(*skewed(rng, (4000, 4000)), contamination=0.0).support.size == 60


@pytest.mark.parametrize("far", [1e6, -1e6, 3.0])
def test_bad_rows_far_away_do_not_make_features_differ(far: float) -> None:
    X, y = skewed(np.random.default_rng(8))
    X[:15], X[-45:] = far, -far
    result = SparseMeanDifference(0.05, target="mean", scale=1.0).fit(X, y).result_
    assert result.support.size == 0
    clean = certify(X, y, target="mean", scale=1.0, contamination=0.0)
    assert clean.support.size > 20
    assert np.nanmax(clean.max_contamination) < 0.05


def test_differences_are_found() -> None:
    """A difference of .25σ, with 1500 rows in each group and 1000 features: power .98 to first order."""
    rng = np.random.default_rng(9)
    X, y = skewed(rng, (1500, 1500), 1000)
    X[:1500, :10] += 0.25
    X[:1500, 10] -= 1.0
    result = SparseMeanDifference(0.0, target="mean", scale=1.0, reference="even").fit(X, y).result_
    assert np.intersect1d(result.support, np.arange(10)).size >= 8
    assert set(result.support) <= set(range(11))
    assert result.mean[10] == pytest.approx(-1.0, abs=0.15)
    assert (result.beta[:10] > 0).all()
    assert result.beta[10] < 0
    ends = result.intervals[result.support]
    truth = np.where(result.support == 10, -1.0, 0.25)
    assert ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).all()


def test_features_survive_fewer_replaced_rows_than_their_radius() -> None:
    X, y = skewed(np.random.default_rng(10), d=8)
    X[:300, :3] += np.array([1.0, 1.5, -2.0])
    options: dict[str, Any] = {"target": "mean", "scale": 1.0, "contamination": 0.01, "reference": "even"}
    found = certify(X, y, **options)
    assert set(found.support) == {0, 1, 2}
    for feature in found.support:
        side, rows = np.sign(found.beta[feature]), int(found.radius[feature]) - 1
        for turned, group in ((1, np.arange(300)), (-1, np.arange(300, 1200))):
            Y = X.copy()
            Y[group[np.argsort(-turned * side * X[group, feature])[:rows]], feature] = -turned * side * 1e9
            assert feature in certify(Y, y, **options).support


# Intervals.


@pytest.mark.parametrize("alternative", SIDES)
@pytest.mark.parametrize("contamination", [0.0, 0.02])
def test_intervals_are_what_the_test_does_not_refuse(alternative: str, contamination: float) -> None:
    """Moved to just inside of an end a feature is not refused; just outside it is.

    p and ends are safe to either side by steps of their own, which is less than a two-hundredth of the width.
    """
    X, y = skewed(np.random.default_rng(11), (200, 400), 3)
    X[:200] += np.array([0.0, 1.0, -4.0])
    options: dict[str, Any] = {
        "target": "mean", "scale": 1.0, "contamination": contamination, "alternative": alternative, "reference": "even",
    }  # fmt: skip
    ends = SparseMeanDifference(**options).fit(X, y).result_.interval([0, 1, 2], level=0.99)
    width = np.nanmax(np.where(np.isfinite(ends), np.abs(ends - np.array([[0.0], [1.0], [-4.0]])), np.nan))
    for column, end in product(range(3), (0, 1)):
        if not np.isfinite(ends[column, end]):
            assert alternative == ("greater", "less")[1 - end]
            continue
        for outside, share in ((True, 0.005), (False, 0.005)):
            Y = X.copy()
            Y[:200] -= ends[column, end] + (2 * end - 1) * (1 if outside else -1) * share * width
            p = certify(Y, y, **options).p_values[column]
            assert (p <= 0.01) == outside, (column, end, outside, p)


def test_intervals_leave_out_what_the_test_refuses() -> None:
    """Selected features have intervals on one side of the smallest effect that matters."""
    rng = np.random.default_rng(12)
    X, y = skewed(rng, (500, 700), 50)
    X[:500] += np.linspace(-1.5, 1.5, 50)
    result = SparseMeanDifference(0.005, target="mean", scale=1.0, min_effect=0.2, reference="even").fit(X, y).result_
    ends = result.intervals[result.support]
    assert result.support.size > 20
    assert ((ends[:, 0] >= 0.2) | (ends[:, 1] <= -0.2)).all()
    assert ((ends[:, 0] < result.mean[result.support]) & (result.mean[result.support] < ends[:, 1])).all()


# Designs, scales, roads.


def test_several_labels_subjects_and_gaps() -> None:
    rng = np.random.default_rng(13)
    X, y = rng.exponential(size=(900, 12)), np.repeat(["a", "b", "c"], 300)
    X[300:600, 0] += 2.0
    options: dict[str, Any] = {"target": "mean", "scale": 2.0, "contamination": 0.0}
    assert SparseMeanDifference(**options).fit(X, y).results_["b"].support.tolist() == [0]
    paired = SparseMeanDifference(reference="pairs", **options).fit(X, y)
    assert paired.results_["b", "a"].support.tolist() == paired.results_["c", "b"].support.tolist() == [0]
    assert paired.results_["c", "a"].support.size == 0
    assert paired.results_["c", "b"].mean[0] == pytest.approx(-2.0, abs=0.3)
    assert "Estimates are differences of means" in paired.result_.summary()
    subjects = np.arange(900) // 3
    by_subject = SparseMeanDifference(target="mean", scale=1.2, contamination=0.0, reference="a")
    assert by_subject.fit(X, y, groups=subjects).results_["b"].support.tolist() == [0]
    X[rng.random(X.shape) < 0.1] = np.nan
    gaps = SparseMeanDifference(reference="a", missing="omit", **options).fit(X, y).results_["b"]
    assert gaps.support.tolist() == [0]
    assert any("missing" in note for note in gaps.status.messages)


def test_pairs_have_sides_smallest_effects_and_means() -> None:
    rng = np.random.default_rng(14)
    before = rng.lognormal(size=(400, 10))
    after = before + rng.standard_normal((400, 10))
    after[:, 0] += 1.0
    after[:, 1] -= 1.0
    X, y, pairs = np.concatenate((before, after)), np.repeat([0, 1], 400), np.tile(np.arange(400), 2)
    for options in ({}, {"target": "mean", "scale": 1.0}):
        up = SparseMeanDifference(0.0, alternative="greater", **options).fit(X, y, pairs=pairs).result_
        assert up.support.tolist() == [0]
        large = SparseMeanDifference(0.0, min_effect=0.5, **options).fit(X, y, pairs=pairs).result_
        assert large.support.tolist() == [0, 1]
        assert SparseMeanDifference(0.0, min_effect=1.2, **options).fit(X, y, pairs=pairs).support_.size == 0
    assert large.plan.target == "mean"
    assert large.mean[0] == pytest.approx(1.0, abs=0.2)


def test_scales_come_from_numbers_earlier_data_and_half_of_the_rows() -> None:
    rng = np.random.default_rng(15)
    X, y = skewed(rng, (1500, 2500), 10)
    X[:1500, 0] += 1.5
    options: dict[str, Any] = {"target": "mean", "contamination": 0.0, "reference": "even"}
    given = certify(X, y, scale=np.ones(10), **options)
    np.testing.assert_array_equal(given.p_values, certify(X, y, scale=1.0, **options).p_values)
    earlier = SparseMeanDifference(scale=skewed(rng, d=10)[0], **options).fit(X, y).result_
    assert earlier.support.tolist() == [0]
    assert earlier.plan.scale_rows == 1200
    own = SparseMeanDifference(**options).fit(X, y).result_
    assert own.support.tolist() == [0]
    assert own.difference_test is not None
    assert own.difference_test.sizes == (750, 1250)
    assert own.radius[0] == 1
    assert own.max_contamination[0] == 0
    assert any("gave the scale" in note for note in own.status.messages)
    with pytest.raises(InputError, match="rows of each group for a scale"):
        certify(X[1300:1700], y[1300:1700], **options)


def test_the_command_line_compares_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = skewed(np.random.default_rng(17), d=5)
    X[:300, 2] += 2.0
    pd.DataFrame(X, columns=list("abcde")).assign(arm=y).to_csv(tmp_path / "x.csv", index=False)
    asked = ("fit", tmp_path / "x.csv", "--group", "arm", "--reference", "even", "--target", "mean")
    expect(*asked, "--scale", "1.1", "--contamination", "0.01", "-v")
    shown = capsys.readouterr().out
    assert "1 of 5 features differs in the mean between skewed and even (higher in skewed)" in " ".join(shown.split())
    assert "Estimates are differences of means, skewed minus even" in " ".join(shown.split())
    assert "auc" not in shown
    expect(*asked, "-q", "-e", "0.01", status=2)
    assert "scale must be given with target='mean'" in capsys.readouterr().err.replace("\n", " ")


def test_every_road_agrees_and_results_are_kept(tmp_path: Path) -> None:
    X, y = skewed(np.random.default_rng(16), d=30)
    X = np.where(X > 2.5, X, 0.0)
    X[:300, 4] += 2.0
    options: dict[str, Any] = {"target": "mean", "scale": 2.0, "contamination": 0.01}
    expected = SparseMeanDifference(**options).fit(X, y).result_
    assert expected.support.tolist() == [4]
    for other in (sparse.csr_array(X), np.asfortranarray(X)):
        for n_jobs in (1, 2):
            found = SparseMeanDifference(n_jobs=n_jobs, **options).fit(other, y).result_
            for name in ("p_values", "radius", "max_contamination", "beta", "mean", "intervals"):
                np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_array_equal(certify(X, y, **options).radius, expected.radius)
    expected.save(tmp_path / "means.npz")
    loaded = sm.load(tmp_path / "means.npz")
    np.testing.assert_array_equal(loaded.interval([4, 5], X=X), expected.interval([4, 5]))
    assert "auc" not in loaded.table()
    assert "same in both groups" in expected.summary()
    expected.report(tmp_path / "page.html")
    assert "Difference of means" in (tmp_path / "page.html").read_text(encoding="utf-8")
