"""Missing values: what is counted, what is said, and that nothing changes where nothing is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import specification
from scipy import sparse, stats

from sparsemean import Estimate, SparseMean, SparseMeanDifference, load, simulate, sparse_mean
from sparsemean._data import as_table, source
from sparsemean._data.source import Along, Array, Dense, Source
from sparsemean._data.table import Table
from sparsemean._evidence import signs
from sparsemean._evidence.counting import engines
from sparsemean._evidence.worst_case import LOG_2
from sparsemean._fit.one_sample import fit
from sparsemean._fit.refinement import refined
from sparsemean._fit.two_sample import compare
from sparsemean._stats import path
from sparsemean._stats.buckets import assign_block_buckets
from sparsemean._stats.group_ranks import log_u_tails
from sparsemean._stats.planning import PRESET
from sparsemean.errors import InputError

DATA = simulate.make_contaminated(600, 100, [10, -5, -4, 2], contamination=0.1, random_state=0)
CERTIFIED = ("support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination", "intervals", "beta")
ALL = (*CERTIFIED, "mean", "entry_time", "bucket_size", "skewed")


def with_gaps(X: np.ndarray, share: float = 0.2, seed: int = 1) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


GAPS = with_gaps(DATA.X)


def omit(X: Any, **options: Any) -> Estimate:
    return sparse_mean(X, **{"contamination": 0.1, "random_state": 0, "missing": "omit", **options})


def assert_same(one: Estimate, other: Estimate, names: tuple[str, ...] = ALL) -> None:
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize(
    "options",
    [{}, PRESET, {"bucket_sizes": (2, 8)}, {"null": 0.5}, {"groups": np.arange(600) // 3}, {"refine": "gd"}],
    ids=str,
)
def test_complete_data_have_the_same_answer(options: dict[str, Any]) -> None:
    plain = sparse_mean(DATA.X, contamination=0.1, random_state=0, **options)
    other = omit(DATA.X, **options)
    assert_same(other, plain)
    np.testing.assert_array_equal(other.rows.scores, plain.rows.scores)
    assert other.status.messages == plain.status.messages


def test_strong_signals_are_kept_and_values_stay_close() -> None:
    plain, found = sparse_mean(DATA.X, contamination=0.1, random_state=0), omit(GAPS)
    np.testing.assert_array_equal(found.support, plain.support)
    np.testing.assert_allclose(found.mean[:4], plain.mean[:4], atol=0.2)
    low, high = found.intervals[:4].T
    assert ((low <= DATA.mean[:4]) & (DATA.mean[:4] <= high)).all()
    np.testing.assert_array_equal(np.sort(found.rows.suspects), np.sort(DATA.corrupted))


def test_every_layout_and_type_of_the_same_values() -> None:
    single = GAPS.astype(np.float32)
    expected = omit(single.astype(np.float64))
    for X in (single, np.asfortranarray(single), single.astype(np.float64, order="F"), single.astype(">f4")):
        assert_same(omit(X), expected)


class Pieces(Source):
    """An array that is read in pieces."""

    def __init__(self, values: Any, along: Along) -> None:
        self.values, self.shape, self.dtype, self.along = values, values.shape, values.dtype, along
        self.sparse = not isinstance(values, np.ndarray)

    def block(self, rows: slice, columns: slice) -> Array:
        return self.values[rows, columns]  # type: ignore[no-any-return]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (source, engines):
        monkeypatch.setattr(module, "AT_ONCE", 60_000)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("along", ["rows", "columns"])
@pytest.mark.parametrize("options", [{}, {"null": 0.5}, {"bucket_sizes": (4, 16)}, PRESET], ids=str)
def test_pieces_add_up(along: Along, options: dict[str, Any]) -> None:
    X = GAPS.copy()
    X[:300] = DATA.X[:300]  # the first pieces are complete
    X[:, 60:] = DATA.X[:, 60:]
    settings = {"contamination": 0.1, "random_state": 0, "missing": "omit", **options}
    found = fit(Table(Pieces(X, along)), **settings)
    expected = omit(X, **options)
    assert_same(found, expected)
    np.testing.assert_array_equal(found.counts.present, expected.counts.present)
    np.testing.assert_array_equal(found.counts.missing, np.isnan(X).sum(axis=0))


@pytest.mark.usefixtures("small_pieces")
def test_sparse_blocks_with_gaps_are_filled_in_a_few_columns_at_a_time() -> None:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 40)) < 0.7, 0.0, rng.standard_normal((300, 40)) + (np.arange(40) < 2) * 3.0)
    X = with_gaps(X, 0.1)
    found = fit(Table(Pieces(sparse.csc_array(X), "columns")), missing="omit", contamination=0.05, random_state=0)
    assert_same(found, omit(X, contamination=0.05))


def test_counts_follow_what_is_there() -> None:
    """p, β and intervals of a feature with gaps are those of the rows it has, dealt as they are."""
    found = omit(GAPS, refine=None, bucket_sizes=(1,))
    for feature in (0, 3, 50):
        x = GAPS[~np.isnan(GAPS[:, feature]), feature]
        above, below = int(np.sum(x > 0)), int(np.sum(x < 0))
        majority = max(above, below) - 60
        p = 1.0 if 2 * majority <= x.size else min(1.0, 2 * stats.binom.sf(majority - 1, x.size, 0.5))
        assert found.p_values[feature] == pytest.approx(p, rel=1e-10)
        assert found.beta[feature] == (above - below) / x.size
        low, high = signs.one_size(np.sort(x)[:, np.newaxis], error=0.05, bad_rows=60)[:, 0]
        np.testing.assert_array_equal(found.interval(feature)[0], [low, high])
    assert found.mean[0] == np.nanmedian(GAPS[:, 0])


def test_means_of_larger_buckets_are_those_of_the_values_they_have() -> None:
    means = specification.bucket_means(GAPS, assign_block_buckets(600, (1, 2, 4), 0), level=2, missing=True)
    found = omit(GAPS, refine=None, bucket_sizes=(4,), contamination=0.01)
    assert found.mean[0] == pytest.approx(np.nanmedian(means[:, 0]), rel=1e-15)
    np.testing.assert_array_equal(found.counts.present[0], np.sum(~np.isnan(means), axis=0))


def test_paths_have_the_rate_of_the_buckets_there_are() -> None:
    found = omit(GAPS, **{**PRESET, "n_buckets": 300})
    from sparsemean._stats.buckets import assign_buckets

    means = specification.bucket_means(GAPS, assign_buckets(found.plan, found.seed), missing=True)
    walked = specification.subgm(means, alpha=1e-5, eta=0.05, times=(200, 600))
    np.testing.assert_array_equal(found.support, np.flatnonzero(np.abs(walked[0]) >= 1e-5))
    np.testing.assert_allclose(found.mean[found.support], walked[1][found.support], rtol=1e-12)
    np.testing.assert_array_equal(
        found.entry_time[:20], specification.entry_times(means[:, :20], alpha=1e-5, eta=0.05, horizon=100_000)
    )
    np.testing.assert_allclose(found.trajectory([0, 9], n_iter=200)[-1], walked[0][[0, 9]], rtol=1e-9, atol=1e-20)


def test_free_walks_of_features_with_different_numbers_of_buckets() -> None:
    rng = np.random.default_rng(0)
    J = rng.integers(0, 40, 200).astype(np.int32)
    positive = rng.binomial(J, 0.6).astype(np.int32)
    negative = rng.binomial(J - positive, 0.8).astype(np.int32)
    scales = {"alpha": 1e-5, "eta": 0.05}
    walk, entry = (
        path.closed_form_path(positive, negative, J, **scales, t=200),
        path.free_entry(positive, negative, J, **scales),
    )
    for i in range(200):
        one = positive[i : i + 1], negative[i : i + 1], int(J[i])
        assert walk[i] == (path.closed_form_path(*one, **scales, t=200)[0] if J[i] else 0.0)
        assert entry[i] == (path.free_entry(*one, **scales)[0] if J[i] else np.inf)


def test_subjects_have_the_mean_of_the_rows_that_have_a_value() -> None:
    subject = np.repeat(np.arange(150), 4)
    found = omit(GAPS, groups=subject, bucket_sizes=(1,), refine=None, screen_rows=False)
    x = GAPS[:, 3].reshape(150, 4)
    means = np.nansum(x, axis=1)[~np.isnan(x).all(axis=1)]
    assert found.beta[3] == pytest.approx((np.sum(means > 0) - np.sum(means < 0)) / means.size)


def test_columns_without_values_are_left_out_and_named() -> None:
    X = GAPS.copy()
    X[:, 7], X[40:, 8], X[:, 9] = np.nan, np.nan, np.where(np.isnan(X[:, 9]), np.nan, 3.0)
    names = [f"f{i}" for i in range(100)]
    found = omit(X, feature_names=names)
    np.testing.assert_array_equal(found.support, [0, 1, 2, 3])
    assert (found.p_values[7], found.beta[7], found.entry_time[7]) == (1.0, 0.0, np.inf)
    assert found.trajectory("f7").max() == 0
    np.testing.assert_array_equal(found.interval("f7"), [[-np.inf, np.inf]])
    said = " ".join(found.status.messages)
    assert "1 column has no value at all and was left out: f7" in said
    assert "1 column has fewer than half of its values: f8" in said
    assert "1 column holds one value only and was left out: f9" in said
    assert f"{np.isnan(X).mean():.2%} of the values are missing and were left out, most of them in f7 (100%)" in said
    filled_up = omit(np.full((40, 3), np.nan), **PRESET)
    assert filled_up.support.size == 0


def test_missingness_alone_makes_no_row_suspect() -> None:
    """Half of the rows have half of their values, some have nothing, some everything."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, (800, 300))
    X[:780][rng.random((780, 300)) < 0.6] = np.nan
    X[:20] = np.nan
    found = omit(X, contamination=0.1)
    assert found.rows.suspects.size <= 2
    np.testing.assert_array_equal(found.rows.scores[:20], 0.0)


@pytest.mark.parametrize("name", ["gd", "median", lambda X, _: np.median(X, axis=0)])
def test_other_refinements_get_a_matrix_without_gaps(name: Any) -> None:
    found = omit(GAPS, refine=name)
    gaps = np.isnan(GAPS[:, :4])[found.rows.weights > 0].sum()
    assert f"{gaps} of {4 * 540:,} values were missing and filled" in found.status.refinement
    np.testing.assert_allclose(found.mean[:4], [10, -5, -4, 2], atol=0.5)


def test_auto_takes_the_centre_of_what_is_there() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, (400, 2)) + np.array([5.0, -3.0])
    gaps = with_gaps(X, 0.3)
    how: dict[str, Any] = {"contamination": 0.0, "random_state": 0}
    together = refined("auto", gaps, **how).mean
    for column, value in zip(gaps.T, together, strict=True):
        assert value == refined("auto", column[~np.isnan(column), np.newaxis], **how).mean[0]
    nothing = np.column_stack((X[:, 0], np.full(400, np.nan)))
    assert refined("auto", nothing, **how, centre=np.array([1.0, 7.0])).mean[1] == 7.0


def test_skewness_is_seen_where_values_are_missing() -> None:
    X = np.random.default_rng(0).lognormal(size=(1000, 2))
    X[::5, 0] = np.nan
    assert omit(X).skewed.tolist() == [1, 1]


BAD = [
    ({"missing": "drop"}, "missing must be one of 'raise', 'omit': got 'drop'"),
    ({"missing": None}, "missing must be one of 'raise', 'omit': got None"),
    ({"missing": "raise"}, "X must not contain NaN or infinity: got NaN in column 0, row "),
]


@pytest.mark.parametrize(("options", "line"), BAD, ids=[line[:60] for _, line in BAD])
def test_one_line_each(options: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        omit(GAPS, **options)
    assert str(caught.value).startswith(line)
    if options["missing"] == "raise":
        assert str(caught.value).endswith("or count without them: missing='omit', --missing omit")


def test_infinity_is_refused_and_named_beside_gaps() -> None:
    X = GAPS.copy()
    X[17, 5] = -np.inf
    line = "X must not contain infinity: got infinity in column 5, row 17"
    with pytest.raises(InputError, match=line):
        omit(X)
    with pytest.raises(InputError, match=line):
        compare(as_table(X), np.arange(600) % 2, missing="omit")


def test_saved_and_read_again(tmp_path: Path) -> None:
    found = omit(GAPS)
    found.save(tmp_path / "fit.npz")
    copy = load(tmp_path / "fit.npz")
    assert_same(copy, found)
    assert (copy.plan, copy.status) == (found.plan, found.status)
    np.testing.assert_array_equal(copy.counts.present, found.counts.present)
    np.testing.assert_array_equal(copy.interval([0, 3], X=GAPS), found.interval([0, 3]))
    assert "A value is missing for reasons that have nothing to do with what it would have been." in copy.summary()


def test_estimators_say_that_they_take_gaps() -> None:
    est = SparseMean(0.1, missing="omit", random_state=0).fit(GAPS)
    assert est.transform(GAPS).shape == (600, 4)
    assert est.__sklearn_tags__().input_tags.allow_nan
    assert not SparseMean().__sklearn_tags__().input_tags.allow_nan


LABELS = np.repeat([0, 1], [250, 350])
SHIFTED = with_gaps(DATA.X[:, 10:40] + np.outer(LABELS - 0.5, np.arange(30) < 2) * 3.0)


def test_two_groups_compare_the_rows_that_have_a_value() -> None:
    X = SHIFTED[::8]
    labels = LABELS[::8]
    found = compare(as_table(X), labels, contamination=0.0, missing="omit").results[1]
    signs = np.sign(X)
    both = np.flatnonzero(np.minimum(np.sum(signs > 0, axis=0), np.sum(signs < 0, axis=0)) >= X.shape[0] / 4)
    assert both.size > 20  # all others are compared on one side of zero
    for feature in both:
        a, b = (X[(labels == g) & ~np.isnan(X[:, feature]), feature] for g in (0, 1))
        expected = stats.mannwhitneyu(b, a, method="exact")
        p = min(1.0, expected.pvalue)
        assert p * (1 - 1e-12) <= found.p_values[feature] <= p * (1 + 2e-6)
        assert found.beta[feature] == pytest.approx(2 * expected.statistic / (a.size * b.size) - 1)
    np.testing.assert_array_equal(found.support, [0, 1])
    a, b = (X[(labels == g) & ~np.isnan(X[:, 0]), 0] for g in (0, 1))
    assert found.mean[0] == pytest.approx(np.median(np.subtract.outer(b, a)), rel=1e-12)
    low, high = found.intervals[0]
    assert low < 3.0 < high


def test_two_groups_with_bad_rows_and_empty_columns() -> None:
    X = SHIFTED.copy()
    X[:, 5], X[:, 6], X[LABELS == 0, 7] = np.nan, 1.5, np.nan
    est = SparseMeanDifference(0.05, missing="omit").fit(X, LABELS)
    np.testing.assert_array_equal(est.support_, [0, 1])
    np.testing.assert_array_equal(est.result_.p_values[[5, 6, 7]], 1.0)
    np.testing.assert_array_equal(est.result_.interval([5, 7]), [[-np.inf, np.inf]] * 2)
    said = " ".join(est.result_.status.messages)
    assert "1 column has no value at all and was left out: 5" in said
    assert "1 column holds one value only and was left out: 6" in said
    for feature in (0, 20):
        n = np.array([[np.sum(~np.isnan(X[g == LABELS, feature]))] for g in (1, 0)])
        u = round((abs(est.result_.beta[feature]) + 1) / 2 * n.prod())
        u -= int(18 * (n[1, 0] + 13) + 13 * n[0, 0])  # 18 bad rows of 350, 13 of 250; any of them may have been hidden
        nonzero, twice = n.sum(axis=0)[np.newaxis], np.array([2 * u])
        log_p = LOG_2 + log_u_tails(*n[..., np.newaxis], nonzero, twice, bound=False, halves=False)[0]
        assert est.result_.table(all=True)["log10_p"][feature] == pytest.approx(min(0.0, log_p / np.log(10)), rel=1e-12)
    assert np.isfinite(est.row_scores_).all()


def test_two_complete_groups_have_the_same_answer() -> None:
    X = DATA.X[::6, :30]
    labels = np.arange(100) % 2
    plain, other = (
        compare(as_table(X), labels, contamination=0.0, missing=missing).results[1] for missing in ("raise", "omit")
    )
    assert_same(other, plain)
    np.testing.assert_array_equal(other.rows.scores, plain.rows.scores)
    plain, other = (compare(as_table(X), labels, missing=missing).results[1] for missing in ("raise", "omit"))
    assert (other.p_values >= plain.p_values).all()  # a bad row may have been put where there was none


def test_dense_source_is_read_where_it_lies() -> None:
    assert isinstance(as_table(GAPS).source, Dense)
    before = GAPS.copy()
    omit(GAPS)
    np.testing.assert_array_equal(GAPS, before)
