"""The mean itself: p-values by exhaustion, slack and radius, every road, intervals, scales, sides, refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import specification
from scipy import sparse, stats

import sparsemean as sm
from sparsemean._data import as_table, open_file
from sparsemean._evidence import means
from sparsemean._fit.one_sample import fit
from sparsemean._kernels import influence
from sparsemean._stats import nulls, planning
from sparsemean._stats.arrays import on_host
from sparsemean._stats.decision import rejected, rule_of
from sparsemean.errors import InputError

from command import expect
from emulated import needs_compiler
from kinds import written

EXACT = ("support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination", "beta", "bucket_size")
SCALE = math.sqrt((math.e - 1) * math.e)


def problem(n: int = 800, d: int = 40, gaps: bool = False) -> np.ndarray:
    """Lognormal values of mean zero, the first three shifted."""
    rng = np.random.default_rng(1)
    X = rng.lognormal(size=(n, d)) - math.exp(0.5)
    X[:, :3] += np.array([0.6, 1.0, -0.9]) * SCALE
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X.round(4)


def same(found: Any, expected: Any) -> None:
    for name in EXACT:
        np.testing.assert_array_equal(on_host(getattr(found, name)), on_host(getattr(expected, name)), err_msg=name)


def evidence(
    X: np.ndarray, *, contamination: float = 0.0, scale: float = 1.0, d: int | None = None, **options: Any
) -> Any:
    """Return the evidence of plain sums, of ``d`` features as far as the level goes."""
    plan = planning.plan_fit(X.shape[0], d or X.shape[1], contamination=contamination, target="mean", **options)
    test = nulls.mean_test(plan, np.full(X.shape[1], scale))
    centres = means.centres_of(plan, None)[:, : X.shape[1]]
    return means.sum_evidence(plan, test, influence.array_sums(X, centres, test.unit, test.kappa))[0], test


# p-values: exact probabilities of a law on two points.


@pytest.mark.parametrize("q", [0.5, 0.2, 0.05, 0.01])
@pytest.mark.parametrize("n", [20, 60, 400])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_p_values_are_valid_to_the_last_atom_of_a_two_point_law(q: float, n: int, alternative: str) -> None:
    """Every number of hits, its probability and its p-value: P(p ≤ t) ≤ t for every t."""
    hits = np.arange(n + 1)
    column = np.where(np.arange(n)[:, np.newaxis] < hits, 1 - q, -q)  # mean 0, variance q(1 − q)
    found, _ = evidence(column, scale=math.sqrt(q * (1 - q)), d=1, alternative=alternative)
    p, chance = found.p_at(0)[0], stats.binom.pmf(hits, n, q)
    for t in np.unique(p):
        assert chance[p <= t].sum() <= t * (1 + 1e-12)


@pytest.mark.parametrize("q", [0.5, 0.05])
@pytest.mark.parametrize("bad", [1, 3])
def test_replaced_rows_do_not_make_p_values_invalid(q: float, bad: int) -> None:
    """An adversary who sees the data puts the bad rows where p gets smallest: still P(p ≤ t) ≤ t."""
    n, hits = 120, np.arange(121)
    clean = np.where(np.arange(n)[:, np.newaxis] < hits, 1 - q, -q)
    chance, least = stats.binom.pmf(hits, n, q), np.ones(n + 1)
    for rows in (slice(0, bad), slice(n - bad, n)):
        for far in (-1e9, 1e9):
            X = clean.copy()
            X[rows] = far
            found, _ = evidence(X, contamination=bad / n, scale=math.sqrt(q * (1 - q)), d=1)
            least = np.minimum(least, found.p_at(bad)[0])
    for t in np.unique(least):
        assert chance[least <= t].sum() <= t * (1 + 1e-12)


def test_sums_are_those_of_the_formula() -> None:
    X = problem()
    result = sm.sparse_mean(X, target="mean", scale=SCALE, contamination=0.01)
    test = result.mean_test
    assert test is not None
    n, m, d, level = 800, 8, 40, 0.05
    log_odds, largest = math.log(2 * d / level), math.log(4 * test.kappa / (4 * test.kappa - 1))
    a = math.sqrt((log_odds + 2 * m * largest) / (n * test.kappa)) / SCALE
    np.testing.assert_allclose(test.unit, 1 / a, rtol=1e-9)
    sums = specification.influence(a * X, test.kappa).sum(axis=0)
    over = np.abs(sums) - n * test.kappa * a**2 * SCALE**2 - 2 * m * largest
    np.testing.assert_allclose(result.p_values, np.minimum(1, 2 * np.exp(-np.maximum(over, 0))), rtol=1e-5)
    np.testing.assert_allclose(result.beta, sums / (n * largest), atol=1e-8)
    assert np.abs(result.beta).max() <= 1
    assert result.counts is None
    assert (result.bucket_size == 1).all()


@pytest.mark.parametrize(("epsilon", "half_width"), [(0.0, 0.103), (0.01, 0.196), (0.05, 0.369)])
def test_half_widths(epsilon: float, half_width: float) -> None:
    """What is said in docs/guarantees.md, to first order."""
    plan = planning.plan_fit(2000, 1000, contamination=epsilon, target="mean")
    test = nulls.mean_test(plan, np.ones(1000))
    width = nulls.bound(test, plan.level / 1000, plan.bad_rows) * test.unit[0] / 2000
    assert width == pytest.approx(half_width, abs=5e-4)
    others = [k * (math.log(40_000) + 2 * plan.bad_rows * nulls.psi_max(k)) for k in np.linspace(0.5, 4, 500)]
    mine = test.kappa * (math.log(40_000) + 2 * plan.bad_rows * nulls.psi_max(test.kappa))
    assert mine <= min(others) * (1 + 1e-9)


def test_the_threshold_is_the_first_step_that_suffices() -> None:
    null = nulls.InfluenceNull(bias=37.2, factor=2.0)
    for error in (0.9999999, 0.05, 1e-6, 1e-90):
        asked = null.threshold(error)
        p = null.p_values(np.array([asked, asked - 2.0**-32]), slice(None))
        assert p[0] <= error < p[1]


# Slack: what bad rows can do.


@pytest.mark.parametrize("contamination", [0.0, 0.01])
def test_features_survive_fewer_replaced_rows_than_their_radius(contamination: float) -> None:
    X = problem()
    options = {"target": "mean", "scale": SCALE, "contamination": contamination}
    found = sm.certify(X, **options)
    for feature in found.support:
        side = np.sign(found.beta[feature])
        for rows in (int(found.radius[feature]) - 1,):
            Y = X.copy()
            Y[np.argsort(-side * X[:, feature])[:rows], feature] = -side * 1e9
            assert feature in sm.certify(Y, **options).support
    for feature in np.setdiff1d(np.arange(40), found.support)[:5]:
        Y = X.copy()
        Y[: int(found.radius[feature]) - 1, feature] = 1e9
        assert feature not in sm.certify(Y, **options).support


def test_p_values_rise_with_the_slack() -> None:
    found, _ = evidence(problem(), scale=SCALE)
    p = np.stack([found.p_at(slack)[0] for slack in range(400)], axis=1)
    assert (np.diff(p, axis=1) >= 0).all()
    assert (p[:, -1] == 1).all()


@pytest.mark.parametrize("selection", ["fwer", "fdr", "fdr_by"])
def test_the_last_slack_is_that_of_the_p_values(selection: str) -> None:
    X = problem()
    found = sm.certify(X, target="mean", scale=SCALE, contamination=0, selection=selection)
    last = np.where(np.isnan(found.max_contamination), -1, np.round(found.max_contamination * 800))
    rule, (sums, _), expected = rule_of(selection, 0.05, 40), evidence(X, scale=SCALE), np.full(40, -1)
    for slack in range(120):
        expected[rejected(rule, sums.p_at(slack)[0], 40)] = slack
    np.testing.assert_array_equal(last, expected)


# Every road.


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("scale", [SCALE, None])
def test_every_road_decides_alike(gaps: bool, scale: float | None, tmp_path: Path) -> None:
    da = pytest.importorskip("dask.array")
    X = problem(n=2000, gaps=gaps)
    options: dict[str, Any] = {"target": "mean", "scale": scale, "contamination": 0.0, "random_state": 3}
    options["missing"] = "omit" if gaps else "raise"
    expected = sm.sparse_mean(X, **options)
    assert set(expected.support) <= {0, 1, 2}
    assert expected.support.size > 1
    roads = [
        np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], sparse.csr_array(X), pd.DataFrame(X),
        da.from_array(X, chunks=(97, 11)), written("parquet", tmp_path, X), written("zarr", tmp_path, X),
    ]  # fmt: skip
    for road in roads:
        found = fit(open_file(road) if isinstance(road, Path) else as_table(road), **options)
        same(found, expected)
        np.testing.assert_array_equal(found.intervals, expected.intervals)
        np.testing.assert_array_equal(found.mean, expected.mean)
    same(sm.certify(X, **options), expected)


@needs_compiler
def test_a_device_decides_alike(cupy: Any) -> None:
    X = problem()
    options: dict[str, Any] = {"target": "mean", "scale": SCALE, "contamination": 0.01}
    expected = sm.sparse_mean(X, **options)
    for found in (sm.sparse_mean(cupy.asarray(X), **options), sm.sparse_mean(X, device="gpu", **options)):
        same(found, expected)
        np.testing.assert_array_equal(found.intervals, expected.intervals)
    certified = sm.certify(cupy.asarray(X), **options)
    assert type(certified.p_values).__module__ == "cupy"
    same(certified, expected)


def test_single_precision_is_that_of_its_values() -> None:
    X = problem().astype(np.float32)
    options: dict[str, Any] = {"target": "mean", "scale": SCALE, "contamination": 0.01}
    same(sm.sparse_mean(X, **options), sm.sparse_mean(X.astype(np.float64), **options))


def test_subjects_count_once_by_their_mean() -> None:
    X, subjects = problem(n=900), np.random.default_rng(0).integers(0, 300, 900)
    names, first, units = np.unique(subjects.astype(str), return_index=True, return_inverse=True)
    order = np.argsort(first)
    by_subject = np.stack([X[units == k].mean(axis=0) for k in order])
    options: dict[str, Any] = {"target": "mean", "scale": SCALE, "contamination": 0.01}
    found, expected = sm.sparse_mean(X, groups=subjects, **options), sm.sparse_mean(by_subject, **options)
    same(found, expected)
    np.testing.assert_allclose(found.intervals, expected.intervals, atol=1e-9)
    np.testing.assert_allclose(found.interval([0, 9]), expected.interval([0, 9]), atol=1e-9)
    assert found.plan.n_units == names.size


# Values and intervals.


def test_values_lie_inside_and_ends_are_where_the_test_turns() -> None:
    X = problem()
    options: dict[str, Any] = {"target": "mean", "scale": SCALE, "contamination": 0.01}
    result = sm.sparse_mean(X, **options)
    low, high = result.intervals[result.support].T
    value = result.mean[result.support]
    assert (low < value).all()
    assert (value < high).all()
    unit, kappa = result.mean_test.unit[0], result.mean_test.kappa  # type: ignore[union-attr]
    assert np.abs(specification.influence((X[:, result.support] - value) / unit, kappa).sum(axis=0)).max() < 1e-4
    ends = result.interval([0, 7], level=0.9)
    fitted = result.mean_test
    limit = nulls.bound(fitted, 0.1, 8)  # type: ignore[arg-type]
    for by, sign in ((-1e-6, 1), (1e-6, -1)):
        sums = influence.array_sums(X[:, [0, 7]], ends.T + by, np.full(2, unit), kappa) / influence.GRID
        beyond = np.array([sums[0] >= limit, -sums[1] >= limit])
        np.testing.assert_array_equal(beyond, [[sign > 0] * 2, [sign < 0] * 2])


def test_ends_are_infinite_where_bad_rows_outweigh_the_rest() -> None:
    X = problem(n=40)
    result = sm.sparse_mean(X, target="mean", scale=SCALE, contamination=0.2)
    assert np.isinf(result.interval([0])).all()
    assert result.status.messages[0].startswith("40 rows cannot show another mean of any feature")


@pytest.mark.parametrize("seed", range(20))
def test_crossings_are_found_in_any_column(seed: int) -> None:
    """Ties, far values, gaps, few values, units far below their spacing."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 200))
    X = np.column_stack((
        rng.integers(0, 3, n), rng.standard_cauchy(n) * 1e6, np.full(n, 7.5), rng.standard_normal(n) + 1e12,
        np.where(rng.random(n) < 0.3, np.nan, rng.standard_normal(n)), np.where(rng.random(n) < 0.1, 1e300, 0.0),
    )).astype(float)  # fmt: skip
    plan = planning.plan_fit(n, 6, contamination=0.02, target="mean")
    test = nulls.mean_test(plan, np.array([1, 1, 0.1, 1e-9, 1, 1.0]))

    def sums_of(centres: np.ndarray) -> np.ndarray:
        return np.asarray(influence.array_sums(X, centres, test.unit, test.kappa))

    root, low, high = means.invert(X, test.unit, sums_of, test=test, error=0.05, plan=plan)
    limit = nulls.bound(test, 0.05, plan.bad_rows) * influence.GRID
    near = np.maximum(2e-9 * test.unit, 2 * np.spacing(np.abs(root)))
    at = sums_of(np.stack((low, high, low + near, high - near, root - near, root + near)))
    finite = np.isfinite(low)
    present = np.sum(~np.isnan(X), axis=0)
    np.testing.assert_array_equal(
        finite, np.ceil(0.5 * (present + limit / influence.largest_step(test.kappa))) <= present
    )
    assert (at[0] >= limit)[finite].all()
    assert (at[1] <= -limit)[finite].all()
    assert (at[2] < limit)[finite].all()
    assert (at[3] > -limit)[finite].all()
    assert (at[4] >= 0).all()
    assert (at[5] <= 0).all()


def test_named_methods_and_functions_are_kept_inside_the_interval() -> None:
    X = problem()
    options: dict[str, Any] = {"target": "mean", "scale": SCALE, "contamination": 0.01}
    plain = sm.sparse_mean(X, **options)
    named = sm.sparse_mean(X, refine="trimmed_mean", **options)
    assert (named.mean[named.support] != plain.mean[named.support]).all()
    wild = sm.sparse_mean(X, refine=lambda rows, _: rows.mean(axis=0) + 100, **options)
    np.testing.assert_array_equal(wild.mean[wild.support], wild.intervals[wild.support, 1])
    assert f"{wild.support.size} refined value(s) fell outside" in wild.summary()
    np.testing.assert_array_equal(sm.sparse_mean(X, refine=None, **options).mean, plain.mean)


def test_bad_rows_are_scored_and_stay_in_the_values() -> None:
    X = problem()
    X[:8] = 50.0
    result = sm.sparse_mean(X, target="mean", scale=SCALE, contamination=0.01)
    assert result.rows is not None
    assert set(range(8)) <= set(result.rows.suspects)
    assert "from all rows" in result.status.refinement


# Sides and the smallest effect that matters.


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("delta", [0.0, 0.7])
def test_sides_and_min_effect(alternative: str, delta: float) -> None:
    X = problem()
    options: dict[str, Any] = {"target": "mean", "scale": SCALE, "contamination": 0.01}
    found = sm.sparse_mean(X, alternative=alternative, min_effect=delta, null=0.1, **options)
    test = found.mean_test
    assert test is not None
    upper, lower = (
        specification.influence((X - 0.1 + by) / test.unit, test.kappa).sum(axis=0) for by in (-delta, delta)
    )
    sides = {"two-sided": np.maximum(upper, -lower), "greater": upper, "less": -lower}[alternative]
    slack = test.bias + 2 * 8 * math.log(4 * test.kappa / (4 * test.kappa - 1))
    factor = 2 if alternative == "two-sided" else 1
    np.testing.assert_allclose(found.p_values, np.minimum(1, factor * np.exp(-np.maximum(sides - slack, 0))), rtol=1e-5)
    expected = {"two-sided": {0, 1, 2}, "greater": {0, 1}, "less": {2}}[alternative]
    assert set(found.support) == (expected if delta == 0 else expected & {1, 2})
    low, high = found.intervals[found.support].T
    assert np.isinf(high).all() == (alternative == "greater")
    assert np.isinf(low).all() == (alternative == "less")
    assert ((low > 0.1 + delta) | (high < 0.1 - delta)).all()


@pytest.mark.parametrize("bad", [0, 20, 100])
def test_sums_are_tuned_for_the_smallest_p_that_is_asked_for(bad: int) -> None:
    """κ and the unit make intervals at level/d as short as any would: 2σ√(κ(L + 2mM)/n), L = log(2d/level)."""
    n, d, level = 2000, 1000, 0.05
    X = np.random.default_rng(0).standard_normal((n, d))
    options: dict[str, Any] = {"target": "mean", "scale": 1.0, "refine": None, "screen_rows": False}
    test = sm.sparse_mean(X, contamination=bad / n, level=level, **options).mean_test
    assert test is not None

    def half_width(kappa: float, unit: float) -> float:
        log_odds = math.log(2 * d / level)
        return (n * kappa / unit**2 + log_odds + 2 * bad * nulls.psi_max(kappa)) * unit / n

    units = np.geomspace(3, 60, 200)
    best = min(half_width(kappa, unit) for kappa in np.geomspace(0.5, 3, 40) for unit in units)
    assert half_width(test.kappa, float(test.unit[0])) <= 1.001 * best


# Scales.


def test_scales_of_every_form() -> None:
    X = problem(n=2000)
    options: dict[str, Any] = {"target": "mean", "contamination": 0.01}
    same(sm.sparse_mean(X, scale=np.full(40, SCALE), **options), sm.sparse_mean(X, scale=SCALE, **options))
    each = np.geomspace(1, 3, 40) * SCALE
    found = sm.sparse_mean(X, scale=each, **options)
    np.testing.assert_allclose(found.p_values, sm.sparse_mean(X / each, scale=1.0, **options).p_values, rtol=1e-6)
    earlier = problem(n=3000)[1000:] * 2 - 5
    for given in (earlier, pd.DataFrame(earlier)):
        found = sm.sparse_mean(X, scale=given, **options)
        pairs = earlier[np.random.default_rng(0).permutation(2000)].reshape(-1, 2, 40)
        variance = ((pairs[:, 1] - pairs[:, 0]) ** 2 / 2).mean(axis=0)
        bound = np.sqrt(variance / (1 - math.sqrt(46 * math.log(40 / 0.005) / 2000)))
        assert found.mean_test is not None
        unit = sm.sparse_mean(X, scale=bound, level=0.045, **options).mean_test
        assert unit is not None
        np.testing.assert_allclose(found.mean_test.unit, unit.unit, rtol=1e-9)
        same_support = sm.sparse_mean(X, scale=bound, level=0.045, **options).support
        np.testing.assert_array_equal(found.support, same_support)
        assert found.plan.scale_rows == 2000
        assert "kurtosis of at most 20" in found.summary()


def test_a_sorted_file_has_the_scale_of_any_order() -> None:
    """Neighbours of a sorted file differ by next to nothing: a scale from them would select nearly any column."""
    for seed in range(5):
        X = np.random.default_rng(seed).standard_normal((2000, 4))
        X = X[np.argsort(X[:, 0])]
        assert sm.sparse_mean(X, target="mean").support.size == 0
        found = sm.sparse_mean(X, target="mean", contamination=0.01, scale=X).mean_test
        assert found is not None
        assert np.ptp(found.unit) < 0.2 * found.unit.mean()


def test_without_a_scale_half_of_the_rows_give_it() -> None:
    X = problem(n=4000)
    X[:, 5] = 2.5
    found = sm.sparse_mean(X, target="mean", contamination=0, random_state=4)
    assert found.mean_test is not None
    assert found.mean_test.rows is not None
    assert found.mean_test.rows.size == 2000
    assert found.support.tolist() == [0, 1, 2]
    assert found.p_values[5] == 1
    said = " ".join(found.status.messages)
    assert "2,000 rows, drawn by the seed, gave the scale; the other 2,000 were tested" in said
    assert "1 column(s) do not vary where the scale comes from and were not tested: 5" in said
    assert (found.radius == 1).all()
    assert np.nanmax(found.max_contamination) == 0
    assert np.isfinite(found.interval([0])).all()
    assert np.isinf(found.interval([5])).all()
    again = sm.sparse_mean(X, target="mean", contamination=0, random_state=5)
    assert not np.array_equal(found.p_values, again.p_values)


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"contamination": 0.05}, "scale must be given with target='mean' and contamination above 0"),
    ({"scale": 0.0}, "scale must be a positive number"),
    ({"scale": -1.0}, "scale must be a positive number"),
    ({"scale": "large"}, "scale must be a finite number"),
    ({"scale": [1.0, 2.0]}, "scale must be a finite number"),
    ({"scale": np.ones((49, 40))}, "scale must be 50 rows or more of earlier data with the same 40 columns"),
    ({"scale": np.ones((60, 3))}, "scale must be 50 rows or more"),
    ({"scale": np.ones((60, 40))}, "scale must have at least 414 rows"),
    ({"contamination": 0.0}, "X must have at least 828 rows for a scale to be taken from half of them"),
    ({"scale": 1.0, "test": "ranks"}, "test must be left out with target='mean'"),
    ({"scale": 1.0, "bucket_sizes": (1, 2)}, "bucket_sizes must be left out with target='mean'"),
    ({"scale": 1.0, "selection": "paper"}, "target must be left out"),
]


@pytest.mark.parametrize(("options", "said"), REFUSALS)
def test_what_cannot_be_is_refused_in_one_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        sm.sparse_mean(problem(), target="mean", **options)


def test_sketches_and_streams_have_no_means() -> None:
    X = problem()
    said = "target must be left out of sketches and streams: got 'mean'"
    with pytest.raises(InputError, match=said):
        sm.sketch(X).estimate(target="mean")
    with pytest.raises(InputError, match=said):
        sm.SparseMean(target="mean").partial_fit(X)


# Words and files.


def test_saved_and_loaded(tmp_path: Path) -> None:
    X = problem(n=2000)
    for options in ({"scale": SCALE}, {}):
        made = sm.sparse_mean(X, target="mean", contamination=0, **options)
        made.save(tmp_path / "e.npz")
        loaded = sm.load(tmp_path / "e.npz")
        same(loaded, made)
        np.testing.assert_array_equal(loaded.interval([0, 9], X=X), made.interval([0, 9]))
        assert loaded.summary() == made.summary()
        made.report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert "standard deviation" in page
        assert ("kurtosis" in page) == (not options)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X = problem()
    np.save(tmp_path / "x.npy", X)
    fitted = ("fit", tmp_path / "x.npy", "--target", "mean", "--contamination", "0.01")
    expect(*fitted, "--scale", "2.2", "--out", tmp_path / "out.csv", "-q")
    frame = pd.read_csv(tmp_path / "out.csv")
    expected = sm.sparse_mean(X, target="mean", scale=2.2, contamination=0.01).table()
    np.testing.assert_allclose(frame["estimate"], expected["estimate"])
    np.testing.assert_allclose(frame["ci_low"], expected["ci_low"])
    expect(*fitted, "-q", status=2)
    assert "scale must be given with target='mean'" in capsys.readouterr().err.replace("\n", " ")


def test_dependent_rows_are_told_of() -> None:
    X = np.repeat(problem(n=200, d=60), 5, axis=0)
    result = sm.sparse_mean(X, target="mean", scale=SCALE, contamination=0.01)
    assert any("are not independent" in message for message in result.status.messages)


def test_the_summary_speaks_of_means() -> None:
    result = sm.sparse_mean(problem(), target="mean", scale=SCALE, contamination=0.01)
    text = result.summary()
    assert "Estimates are means" in text
    assert "symmetric" not in text
    for draw in (result.plot_forest, result.plot_volcano, result.plot_rows, result.plot_robustness, result.plot_path):
        draw()
