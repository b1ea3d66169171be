"""Screening and refinement at the level of a fit: what they change, and what they never do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import Estimate, SparseMean, baselines, simulate, sparse_mean
from sparsemean._fit.refinement import auto
from sparsemean._stats.buckets import assign_buckets
from sparsemean._stats.planning import PRESET
from sparsemean._util.records import FloatArray
from sparsemean.errors import InputError

from improved import DATA, MEAN, NEITHER, fit
from problems import FOR_FEW_FEATURES


@pytest.fixture(scope="module")
def default() -> Estimate:
    return fit()


CERTIFIED = ("support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination", "intervals", "beta",
             "entry_time", "bucket_size", "skewed", "bucket_of_row")  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"selection": "fdr"},
        {"selection": "paper"},
        {"target": "mean", "scale": 4.0, "contamination": 0.01},
        {"null": 1.5},
        {"groups": np.arange(400) // 2},
        {"n_buckets": 150},
        {"bucket_sizes": (2, 8)},
        {"contamination": 0.3},
        {"contamination": 0.0},
    ],
    ids=lambda options: ", ".join(options) or "default",
)
def test_what_is_certified_comes_from_all_rows(options: dict[str, Any]) -> None:
    plain = fit(**options, **NEITHER)
    for change in ({}, {"refine": "median"}, {"refine": None}, {"screen_rows": False}, {"refine": "gd"}):
        improved = fit(**options, **change)
        for name in CERTIFIED:
            np.testing.assert_array_equal(getattr(improved, name), getattr(plain, name))
        if "noise" not in options:
            np.testing.assert_array_equal(improved.interval([0, 7]), plain.interval([0, 7]))
        off = np.setdiff1d(np.arange(60), plain.support)
        np.testing.assert_array_equal(improved.mean[off], plain.mean[off])


def test_without_both_the_values_are_medians_of_bucket_means() -> None:
    result = fit(**NEITHER)
    for feature in result.support:
        groups = pd.Series(DATA.X[:, feature]).groupby(result.bucket_of_row // int(result.bucket_size[feature])).mean()
        assert result.mean[feature] == pytest.approx(groups.median(), rel=1e-12)
    assert result.rows is not None
    assert result.uncertified is None
    assert result.rows.suspects.size == 0
    assert (result.status.screening, result.status.refinement) == ("", "")
    np.testing.assert_array_equal(fit(refine=None).mean, result.mean)


def test_the_default_finds_the_bad_rows_and_comes_closer(default: Estimate) -> None:
    assert default.rows is not None
    assert set(default.rows.suspects) == set(DATA.corrupted)
    before, after = (np.linalg.norm(r.mean - DATA.mean) for r in (fit(**NEITHER), default))
    assert after < 0.6 * before
    assert default.plan.question.refine == "auto"
    assert "on 56 features off the support and were left out of the values" in default.status.screening
    assert "smallest standard error" in default.status.refinement


def kept_rows(result: Estimate) -> FloatArray:
    """Rows that were left after judging by features off the support, which here is all of the judging."""
    assert result.rows is not None
    assert "on the support itself" not in result.status.screening
    return DATA.X[np.flatnonzero(result.rows.weights == 1)]


@pytest.mark.parametrize("name", [*baselines.names(), "gd", "filter"])
@pytest.mark.parametrize("screen_rows", [True, False])
def test_a_name_is_that_method_on_the_rows_left(name: str, screen_rows: bool) -> None:
    result = fit(refine=name, screen_rows=screen_rows)
    rows = DATA.X
    left = 0.1
    if screen_rows:
        rows = kept_rows(result)
        left = (40 - (400 - len(rows))) / len(rows)
    method = baselines.get({"gd": "dense_gd", "filter": "sparse_filter"}.get(name, name))
    expected = method.detailed(rows[:, :4], contamination=left, k=4, random_state=1)
    if "on the support itself" not in result.status.screening:
        np.testing.assert_allclose(result.mean[:4], expected.mean, rtol=1e-12)
    assert result.status.refinement == method.facts.name
    assert (result.status.iterations, result.status.converged) == (expected.iterations, expected.converged)
    assert all(note in result.status.messages for note in expected.notes)


def test_auto_is_auto_on_the_rows_left(default: Estimate) -> None:
    np.testing.assert_allclose(default.mean[:4], auto(kept_rows(default)[:, :4], 0.0).mean, rtol=1e-12)
    alone = fit(screen_rows=False)
    np.testing.assert_allclose(alone.mean[:4], auto(DATA.X[:, :4], 0.1).mean, rtol=1e-12)


def test_a_function_is_given_the_rows_left_and_the_share_of_bad_ones_among_them() -> None:
    seen: list[tuple[FloatArray, float]] = []
    before = DATA.X.copy()

    def spy(rows: FloatArray, contamination: float) -> FloatArray:
        seen.append((rows.copy(), contamination))
        rows[:] = 0
        return np.array([1.0, 2.0, 3.0, 4.0])

    result = fit(refine=spy)
    np.testing.assert_array_equal(DATA.X, before)
    np.testing.assert_array_equal(seen[0][0], np.delete(DATA.X, DATA.corrupted, axis=0)[:, :4])
    assert seen[0][1] == 0.0
    np.testing.assert_array_equal(result.mean[:4], [1, 2, 3, 4])  # a method of one's own is not held to the intervals
    assert result.plan.question.refine == "spy"
    fit(refine=spy, screen_rows=False)
    np.testing.assert_array_equal(seen[-1][0], DATA.X[:, :4])
    assert seen[-1][1] == 0.1


@pytest.mark.parametrize("refine", [lambda X, _: X, lambda *_: np.full(4, np.nan), lambda *_: int("x"), "odd"])
def test_a_refinement_that_cannot_be_is_one_line(refine: Any) -> None:
    with pytest.raises(InputError, match=r"^refine must [^\n]*$"):
        fit(refine=refine)


def bucket_means(result: Estimate, X: FloatArray) -> FloatArray:
    partition = assign_buckets(result.plan, result.seed)
    bucket = result.bucket_of_row
    if result.plan.walk.dealing == "blocks":
        bucket = bucket // (result.plan.bucket_sizes[-1] // result.plan.bucket_sizes[0])
    assert partition.order.size == len(X)
    return pd.DataFrame(X).groupby(bucket).mean().to_numpy()


@pytest.mark.parametrize("name", ["gd", "filter", "sparse_gd", "median"])
def test_on_buckets_of_the_paper(name: str) -> None:
    result = SparseMean.paper(0.1, refine=name, refine_on="buckets", random_state=1).fit(DATA.X).result_
    means = bucket_means(result, DATA.X[:, result.support])
    assert result.plan.walk.n_buckets == len(means) == 200
    method = baselines.get({"gd": "dense_gd", "filter": "sparse_filter"}.get(name, name))
    expected = method.detailed(means, contamination=40 / 200, k=result.support.size, random_state=1)
    np.testing.assert_allclose(result.mean[result.support], expected.mean, rtol=1e-9)
    assert all(note in result.status.messages for note in expected.notes)


def test_on_buckets_of_the_default_plan() -> None:
    result = fit(refine="median", refine_on="buckets")
    means = bucket_means(result, DATA.X[:, :4])
    assert len(means) == 100
    np.testing.assert_allclose(result.mean[:4], np.median(means, axis=0), rtol=1e-12)
    assert "left out of the values" not in result.summary()  # bucket means are of all rows


@pytest.mark.parametrize("refine", ["auto", "gd", "mean", lambda X, _: X.mean(axis=0)])
def test_more_bad_rows_than_half_the_buckets_is_one_line(refine: Any) -> None:
    with pytest.raises(InputError) as caught:
        fit(contamination=0.2, refine=refine, refine_on="buckets")
    line = "refine_on must leave most buckets without a bad row: got 80 bad rows for 100 buckets; refine on rows"
    assert str(caught.value) == line


def test_no_refinement_asks_nothing_of_buckets() -> None:
    X = simulate.make_contaminated(600, 100, MEAN, contamination=0.3, random_state=0).X
    result = fit(X, contamination=0.3, refine=None, refine_on="buckets")
    assert len(result.table(certified=False)) == 1


@pytest.mark.parametrize("name", ["auto", None, *(name for name in baselines.names() if name not in FOR_FEW_FEATURES)])
def test_a_support_larger_than_the_number_of_rows(name: str | None) -> None:
    X = np.random.default_rng(0).standard_normal((30, 60)) + 1000
    for options in ({"contamination": 0.0}, {"selection": "paper"}):
        result = fit(X, refine=name, **options)
        assert result.support.size == 60
        np.testing.assert_allclose(result.mean, 1000, atol=2)
        assert "rows were not judged off the support, where there are 0 features" in result.status.screening


@pytest.mark.parametrize("d", [1, 2, 4, 5])
def test_few_columns(d: int) -> None:
    X = np.random.default_rng(0).standard_normal((200, d))
    X[:, 0] += 5
    result = fit(X, contamination=0.05)
    np.testing.assert_array_equal(result.support, [0])
    assert result.mean[0] == pytest.approx(5, abs=0.3)
    assert ("not judged off the support" in result.status.screening) == (d - 1 < 4)


def test_nothing_selected() -> None:
    X = np.random.default_rng(0).standard_normal((300, 40))
    X[:10] += 30
    result = fit(X, contamination=0.05)
    assert result.support.size == 0
    assert result.rows is not None
    np.testing.assert_array_equal(np.sort(result.rows.suspects), np.arange(10))
    assert result.status.refinement == "nothing to refine: no feature was selected"
    assert "left out of the values" not in result.summary()
    assert not result.mean.any()
    called: list[int] = []
    fit(X, contamination=0.05, refine=lambda *_: called.append(1))
    assert called == []


def test_clean_rows_off_and_on_the_support_are_rarely_suspected() -> None:
    """24 tables of heavy and light tails; about 3 % of such have a suspect, so at most 4 here (99.9 %)."""
    with_suspects = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        for X in (rng.standard_t(1.5, (300, 50)), rng.standard_normal((300, 50))):
            X[:, :4] += MEAN
            rows = fit(X, random_state=seed).rows
            assert rows is not None
            with_suspects += rows.suspects.size > 0
    assert with_suspects <= 4


@pytest.mark.parametrize("n", [60, 100, 300])
def test_one_heavy_tailed_feature_does_not_make_suspects(n: int) -> None:
    """12 tables each; about 3 % have a suspect off the support, so at most 3 (99.9 %)."""
    with_suspects = 0
    for seed in range(12):
        X = np.random.default_rng(seed).standard_t(1.5, (n, 50))
        X[:, 0] += 10
        result = fit(X, random_state=seed)
        assert result.rows is not None
        with_suspects += result.rows.suspects.size > 0
        assert "on the support itself" not in result.status.screening
    assert with_suspects <= 3


def test_rows_that_contradict_on_the_support_only_are_named_but_not_said_to_be_left_out() -> None:
    X = np.random.default_rng(0).standard_normal((400, 60))
    X[:, :10] += 5
    X[:20, :10] -= 4
    result = fit(X, contamination=0.05)
    assert result.rows is not None
    assert np.isin(result.rows.suspects, np.arange(20)).sum() >= 15
    assert result.rows.suspects.size <= 20
    assert "contradict the rest on the support itself." in result.summary()
    named = ", ".join(map(str, result.rows.suspects[:5]))
    assert f": {named}, … (counted from 0)" in result.summary().splitlines()[2]
    assert "were left out of the values" not in result.summary()
    np.testing.assert_allclose(result.mean[:10], 5, atol=0.25)


SUBJECTS = np.random.default_rng(5).permutation(np.repeat(np.arange(150), [1, 2, 3] * 50))


def of_subjects() -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(6)
    centre = rng.standard_normal((150, 40))
    centre[:, :3] += [6, -5, 4]
    centre[:9] -= 4
    rows = centre[SUBJECTS] + 0.2 * rng.standard_normal((300, 40))
    return rows, pd.DataFrame(rows).groupby(SUBJECTS).mean().to_numpy()


def test_subjects_are_judged_and_counted_as_such() -> None:
    X, means = of_subjects()
    result = fit(X, contamination=0.06, groups=[f"s{s}" for s in SUBJECTS])
    rows = result.rows
    assert rows is not None
    assert rows.scores.shape == rows.weights.shape == (300,)
    for subject in range(150):
        assert np.unique(rows.scores[subject == SUBJECTS]).size == 1
        assert np.unique(rows.weights[subject == SUBJECTS]).size == 1
    assert set(SUBJECTS[rows.suspects]) == set(range(9))
    assert "9 of 150 subjects contradict the rest" in result.status.screening
    assert "from 300 rows; 9 of the 150 subjects may be wrong" in result.summary()
    np.testing.assert_allclose(result.mean[:3], auto(means[9:, :3], 0.0).mean, rtol=1e-6)
    alone = fit(X, contamination=0.06, groups=SUBJECTS, screen_rows=False, refine="median")
    np.testing.assert_allclose(alone.mean[:3], np.median(means[:, :3], axis=0), rtol=1e-9)


def test_subjects_are_rejected_for_what_they_show_not_up_to_an_allowance() -> None:
    X, _ = of_subjects()
    result = fit(X, contamination=0.02, groups=SUBJECTS)
    assert result.rows is not None
    assert result.plan.bad_rows == 3
    assert result.rows.aligned == 9
    assert set(SUBJECTS[result.rows.suspects]) == set(range(9))


def test_null_values_are_added_again(default: Estimate) -> None:
    shift = np.linspace(-3, 3, 60)
    moved = fit(DATA.X + shift, null=shift)
    assert moved.rows is not None
    assert default.rows is not None
    np.testing.assert_array_equal(moved.support, default.support)
    np.testing.assert_array_equal(moved.rows.suspects, default.rows.suspects)
    np.testing.assert_allclose(moved.mean, default.mean + shift, atol=1e-6)
    X = simulate.make_contaminated(600, 100, MEAN, contamination=0.3, random_state=0).X
    extra = fit(X + 7, contamination=0.3, null=7.0).uncertified
    assert extra is not None
    np.testing.assert_array_equal(extra.features, [3])
    np.testing.assert_allclose(extra.estimate, [9], atol=0.3)


def same(one: Estimate, other: Estimate) -> None:
    assert one.rows is not None
    assert other.rows is not None
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.rows.scores, other.rows.scores)
    np.testing.assert_array_equal(one.rows.suspects, other.rows.suspects)
    assert one.status.refinement == other.status.refinement
    pd.testing.assert_frame_equal(one.table(certified=False), other.table(certified=False))


def wider(X: FloatArray) -> FloatArray:
    wide = np.zeros((2 * X.shape[0], X.shape[1] + 7), dtype=X.dtype)
    wide[::2, 3:-4] = X
    return wide[::2, 3:-4]


@pytest.mark.parametrize("change", [np.asfortranarray, wider, lambda X: X[::-1].copy()[::-1], pd.DataFrame, np.float64])
@pytest.mark.parametrize("kind", ["float64", "float32", "int16"])
def test_layout_does_not_matter(change: Callable[[Any], Any], kind: str) -> None:
    X = (DATA.X * 10).clip(-3e4, 3e4).astype(kind)
    same(fit(change(X), feature_names=list(range(60))), fit(X.astype(np.float64), feature_names=list(range(60))))


def test_a_memory_map_is_the_same(tmp_path: Path, default: Estimate) -> None:
    np.save(tmp_path / "x.npy", DATA.X)
    same(fit(np.load(tmp_path / "x.npy", mmap_mode="r")), default)


def test_the_same_seed_and_any_number_of_threads_give_the_same(default: Estimate) -> None:
    for n_jobs in (1, 2, None):
        same(fit(n_jobs=n_jobs), default)
    X = np.random.default_rng(0).standard_normal((200, 3000))
    X[:, 5] += 3
    X[:10] += 2
    wide = fit(X, contamination=0.05, n_jobs=1)
    same(fit(X, contamination=0.05, n_jobs=2), wide)
    assert wide.rows is not None
    assert set(wide.rows.suspects) == set(range(10))
    assert "on 993 features off the support" in wide.status.screening  # 1024 less those of runs that meet


def test_scale_of_columns_does_not_matter(default: Estimate) -> None:
    factor = 2.0 ** np.random.default_rng(0).integers(-30, 30, 60)
    scaled = fit(DATA.X * factor)
    np.testing.assert_array_equal(scaled.mean, default.mean * factor)
    assert scaled.rows is not None
    assert default.rows is not None
    np.testing.assert_array_equal(scaled.rows.scores, default.rows.scores)


def test_iterations_and_convergence_are_told() -> None:
    status = fit(refine="dense_gd", screen_rows=False).status
    assert status.refinement == "dense_gd"
    assert 0 < status.iterations <= 100
    assert status.converged is True
    assert fit(refine="median").status.iterations == 0


def test_refined_values_stay_within_their_intervals() -> None:
    for seed in range(6):
        X = simulate.make_contaminated(
            400, 40, MEAN, distribution="t", attack="support_shift", contamination=0.1, random_state=seed
        ).X
        result = fit(X, random_state=seed)
        low, high = result.intervals[result.support].T
        assert (low <= result.mean[result.support]).all()
        assert (result.mean[result.support] <= high).all()
    # a skewed column: the median of large buckets and the pseudomedian of rows differ by more than the interval allows
    X = np.random.default_rng(0).standard_normal((3000, 20))
    X[:, 0] = np.random.default_rng(0).lognormal(0, 1.2, 3000) - 0.05
    result = fit(X, contamination=0.0)
    assert result.intervals[0, 0] <= result.mean[0] <= result.intervals[0, 1]


def test_a_value_outside_its_interval_is_put_on_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from sparsemean._fit import screening
    from sparsemean._util.records import LocationEstimate

    monkeypatch.setattr(
        screening, "refined", lambda *_, **__: LocationEstimate(np.array([99.0, -5, -4, -99.0]), how="test")
    )
    result = fit()
    assert result.mean[0] == result.intervals[0, 1]
    assert result.mean[3] == result.intervals[3, 0]
    assert "2 refined value(s) fell outside their interval and were put on its end" in result.status.messages
    assert "2 refined value(s) fell outside" in result.summary()
    np.testing.assert_array_equal(fit(refine="mean").mean[:4], [99, -5, -4, -99])


@pytest.mark.parametrize("n", [5, 6, 7, 8, 9, 11, 20])
def test_nearly_half_of_a_handful_of_rows_may_be_bad(n: int) -> None:
    X = np.random.default_rng(n).standard_normal((n, 40))
    X[0] += 1000
    for options in ({}, {"selection": "paper"}, {"selection": "paper", "n_buckets": n}):
        result = fit(X, contamination=0.49, **options)
        assert result.rows is not None
        assert result.rows.suspects.size <= result.plan.bad_rows


@pytest.mark.parametrize("options", [{}, {"selection": "paper"}, {"selection": "fdr"}])
def test_as_many_buckets_as_rows(options: dict[str, Any]) -> None:
    result = fit(n_buckets=400, **options)
    assert result.rows is not None
    assert result.rows.suspects.size == 40
    np.testing.assert_array_equal(result.support, [0, 1, 2, 3])


def test_huge_and_tiny_values_go_through() -> None:
    X = DATA.X * 10.0 ** np.linspace(-250, 250, 60).round()
    result = fit(X)
    np.testing.assert_array_equal(result.support, fit().support)
    assert result.rows is not None
    assert set(result.rows.suspects) == set(DATA.corrupted)
    X = DATA.X.copy()
    X[DATA.corrupted] = 1e300
    result = fit(X)
    np.testing.assert_allclose(result.mean[:4], MEAN, atol=0.5)


def test_stage_1_of_the_paper_is_untouched() -> None:
    est = SparseMean.paper(0.1, random_state=1).fit(DATA.X)
    np.testing.assert_array_equal(est.mean_, sparse_mean(DATA.X, contamination=0.1, random_state=1, **PRESET).mean)
    assert est.suspects_.size == 0
    assert est.result_.status.refinement == ""


def test_rows_that_are_large_as_a_whole_do_not_use_up_the_contamination() -> None:
    """Elliptical noise: where good rows are rejected for their size, the bad ones on the support still count."""

    def noise(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
        return rng.standard_normal(size) / np.sqrt(rng.chisquare(1.3, (size[0], 1)) / 1.3)

    errors: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(4):
        data = simulate.make_contaminated(
            600, 100, [10, -5, -4, 2], distribution=noise, attack="mimic", random_state=seed
        )
        for screened, found in errors.items():
            mean = fit(data.X, contamination=0.1, refine="gd", screen_rows=screened, random_state=seed).mean
            found.append(float(np.linalg.norm(mean - data.mean)))
    assert np.mean(errors[True]) <= np.mean(errors[False])
