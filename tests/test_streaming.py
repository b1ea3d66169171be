"""`SparseMean.partial_fit`: rows as they arrive, decided when asked, completed when the rows can be read again."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sparsemean import InputError, SparseMean, merge, simulate, sketch

import kinds

DATA = simulate.make_contaminated(700, 30, [6, -5, 0, 4], random_state=0)
ENDS = (0, 1, 2, 65, 128, 300, 301, 700)
DECIDED = ("p_values", "p_adjusted", "q_values", "radius", "max_contamination", "beta", "bucket_size", "entry_time")


def streamed(est: SparseMean, X: Any = DATA.X) -> SparseMean:
    for a, b in pairwise(ENDS):
        assert est.partial_fit(X[a:b]) is est
    return est


@pytest.mark.parametrize("as_chunk", [np.asarray, np.asfortranarray, sparse.csr_array, kinds.as_polars, kinds.frame])
def test_seven_chunks_are_one_fit(as_chunk: Any) -> None:
    one = SparseMean(contamination=0.1, test="buckets", random_state=3).fit(DATA.X)
    est = SparseMean(contamination=0.1, random_state=3)
    for a, b in pairwise(ENDS):
        est.partial_fit(as_chunk(DATA.X[a:b]))
    assert est.n_samples_seen_ == 700
    np.testing.assert_array_equal(est.support_, one.support_)
    for name in DECIDED:
        np.testing.assert_array_equal(getattr(est.result_, name), getattr(one.result_, name), err_msg=name)
    assert np.isnan(est.mean_[est.support_]).all()
    np.testing.assert_array_equal(est.get_support(), one.get_support())
    if as_chunk is np.asarray:
        np.testing.assert_array_equal(est.transform(DATA.X), one.transform(DATA.X))
    assert est.complete(DATA.X) is est
    np.testing.assert_allclose(est.mean_, one.mean_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(est.result_.intervals, one.result_.intervals, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(est.suspects_, one.suspects_)
    np.testing.assert_array_equal(est.row_scores_, one.row_scores_)


def test_float32_chunks() -> None:
    X = DATA.X.astype(np.float32)
    one = SparseMean(test="buckets", random_state=0).fit(X)
    est = streamed(SparseMean(random_state=0), X).complete(iter([X[:100], X[100:]]))
    np.testing.assert_array_equal(est.support_, one.support_)
    np.testing.assert_allclose(est.mean_, one.mean_, rtol=0, atol=1e-5)


def test_results_are_made_when_asked_for_and_again_after_more_rows() -> None:
    est = streamed(SparseMean(contamination=0, random_state=0))
    assert "result_" not in vars(est)
    first = est.result_
    assert est.result_ is first
    est.partial_fit(DATA.X)
    assert "result_" not in vars(est)
    assert est.result_.plan.n_rows == 1400
    est.complete([DATA.X, DATA.X])
    assert est.suspects_.size >= 0
    est.partial_fit(DATA.X)
    with pytest.raises(NotFittedError, match=r"suspects_ needs the rows again: complete\(X\)"):
        _ = est.suspects_


def test_the_state_is_counts_and_at_most_63_rows() -> None:
    est = SparseMean(random_state=0)
    for row in range(200):
        est.partial_fit(DATA.X[row : row + 1])
        assert est.sketch_.rows_kept <= 63
    assert est.sketch_.ranges == ((0, 200),)
    assert len(pickle.dumps(est)) < 63 * 30 * 8 + 20_000


def test_sketches_of_estimators_merge_and_travel(tmp_path: Any) -> None:
    est = SparseMean(contamination=0, random_state=0).partial_fit(DATA.X[:300])
    est.sketch_.save(tmp_path / "a.sketch")
    rest = sketch(DATA.X[300:], first_row=300)
    expected = SparseMean(test="buckets", screen_rows=False, random_state=0).fit(DATA.X).result_
    np.testing.assert_array_equal(
        merge([tmp_path / "a.sketch", rest]).estimate(contamination=0).p_values, expected.p_values
    )
    copied = pickle.loads(pickle.dumps(est)).partial_fit(DATA.X[300:])
    np.testing.assert_array_equal(copied.result_.p_values, expected.p_values)


def test_fit_starts_afresh_and_so_does_a_stream_after_it() -> None:
    est = streamed(SparseMean(contamination=0, random_state=0)).fit(DATA.X[:100])
    assert "sketch_" not in vars(est)
    assert est.result_.plan.n_rows == 100
    est.partial_fit(DATA.X)
    assert est.n_samples_seen_ == 700
    assert np.isnan(est.mean_[est.support_]).all()
    assert not hasattr(clone(est), "sketch_")


def test_a_seed_is_drawn_once() -> None:
    est = SparseMean(contamination=0).partial_fit(DATA.X[:10])
    seed = est.sketch_.seed
    assert est.partial_fit(DATA.X[10:]).sketch_.seed == seed
    one = SparseMean(test="buckets", screen_rows=False, random_state=seed).fit(DATA.X)
    np.testing.assert_array_equal(est.result_.p_values, one.result_.p_values)


CHANGES: dict[str, dict[str, Any]] = {
    "random_state": {"random_state": 8},
    "bucket_sizes": {"bucket_sizes": (1, 2)},
    "missing": {"missing": "omit"},
    "null": {"null": 1.0},
}


@pytest.mark.parametrize("name", CHANGES)
def test_parameters_that_deal_rows_must_stay(name: str) -> None:
    est = SparseMean(random_state=0).partial_fit(DATA.X)
    est.set_params(**CHANGES[name])
    with pytest.raises(InputError, match=f"{name} must stay as it was when the first rows were counted: .*fit starts"):
        est.partial_fit(DATA.X)
    assert est.n_samples_seen_ == 700


def test_parameters_that_decide_may_change() -> None:
    est = streamed(SparseMean(random_state=0)).set_params(contamination=0.2, level=0.01, selection="fdr_by")
    one = SparseMean(0.2, level=0.01, selection="fdr_by", test="buckets", random_state=0).fit(DATA.X)
    np.testing.assert_array_equal(est.support_, one.support_)
    np.testing.assert_array_equal(est.result_.q_values, one.result_.q_values)


def test_counts_alone_do_not_tell_how_many_rows_look_bad() -> None:
    est = streamed(SparseMean(random_state=0))
    for name in ("support_", "result_", "mean_"):
        with pytest.raises(NotFittedError, match="contamination must be named where counts alone decide: got 'auto'"):
            getattr(est, name)
        assert not hasattr(est, name)
    expected = SparseMean(test="buckets", random_state=0).fit(DATA.X)
    assert est.complete(DATA.X).result_.plan.bad_rows == expected.result_.plan.bad_rows > 0
    np.testing.assert_array_equal(est.support_, expected.support_)
    assert est.set_params(contamination=0).partial_fit(DATA.X).result_.plan.bad_rows == 0


def test_what_comes_too_early_or_is_not_there_is_said() -> None:
    est = SparseMean(contamination=0, random_state=0)
    with pytest.raises(NotFittedError, match="complete must come after partial_fit"):
        est.complete(DATA.X)
    est.partial_fit(DATA.X[:3])
    with pytest.raises(NotFittedError, match=r"X must have at least 4 rows: got n_samples = 3"):
        _ = est.support_
    est.partial_fit(DATA.X[3:4])
    assert est.support_.size == 0
    with pytest.raises(AttributeError, match="partial_fit must be used without n_buckets and selection='paper'"):
        SparseMean.paper().partial_fit(DATA.X)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense_'"):
        est.nonsense_  # noqa: B018


def test_chunks_that_do_not_fit_are_refused_and_change_nothing() -> None:
    frame = pd.DataFrame(DATA.X, columns=[f"f{i}" for i in range(30)])
    named, plain = (SparseMean(random_state=0).partial_fit(X[:100]) for X in (frame, DATA.X))
    bad = DATA.X[:70].copy()
    bad[69, 2] = np.nan
    for est, chunk, said in (
        (plain, DATA.X[:, :29], "X has 29 features, but SparseMean is expecting 30"),
        (plain, DATA.X[:0], "minimum of 1 is required"),
        (plain, bad, "NaN in column 2, row 69"),
        (named, frame.rename(columns={"f3": "g"}), "feature names should match"),
        (
            named,
            kinds.anndata_of(DATA.X),
            "X must have the feature names of the rows before: got 'feature 0' in place of 'f0' in column 0",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            est.partial_fit(chunk)
        assert est.n_samples_seen_ == 100
        assert est.sketch_.n_rows == 100
