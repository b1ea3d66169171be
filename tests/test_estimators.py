"""The scikit-learn classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsemean import InputError, SparseMean, SparseMeanDifference, certify, simulate, sketch, sparse_mean
from sparsemean._stats.planning import PRESET

DATA = simulate.make_contaminated(300, 30, [6, -5, 0, 4], random_state=0)


@parametrize_with_checks(
    [
        SparseMean(),
        SparseMean(missing="omit"),
        SparseMean.paper(),
        SparseMean.paper(n_buckets="theory"),
        SparseMeanDifference(),
        SparseMeanDifference(missing="omit"),
    ]
)
@pytest.mark.filterwarnings("ignore:No features were selected:UserWarning")
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def test_attributes_are_those_of_the_function() -> None:
    est = SparseMean.paper(contamination=0.1, random_state=7).fit(DATA.X)
    result = sparse_mean(DATA.X, contamination=0.1, random_state=7, **PRESET)
    np.testing.assert_array_equal(est.mean_, result.mean)
    np.testing.assert_array_equal(est.support_, [0, 1, 3])
    np.testing.assert_array_equal(est.get_support(indices=True), est.support_)
    np.testing.assert_array_equal(est.transform(DATA.X), DATA.X[:, est.support_])
    assert list(est.get_feature_names_out()) == ["x0", "x1", "x3"]


def test_data_frames_keep_their_names() -> None:
    frame = pd.DataFrame(DATA.X, columns=[f"probe_{i}" for i in range(30)])
    est = SparseMean(random_state=7).fit(frame)
    assert list(est.get_feature_names_out()) == ["probe_0", "probe_1", "probe_3"]
    assert set(est.result_.table()["feature"]) == {"probe_0", "probe_1", "probe_3"}
    np.testing.assert_array_equal(est.mean_, SparseMean(random_state=7).fit(DATA.X).mean_)


def test_paper_preset_is_the_published_one() -> None:
    params = SparseMean.paper().get_params()
    assert params["contamination"] == 0.1
    assert (params["init_scale"], params["step_size"], params["n_iter"]) == (1e-5, 0.05, (200, 600))
    assert (params["n_buckets"], params["min_selected"], params["selection"]) == ("paper", 2, "paper")
    assert SparseMean.paper(min_selected=0).min_selected == 0
    assert clone(SparseMean.paper(0.2)).contamination == 0.2


def test_in_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(with_mean=False), SparseMean(random_state=0))
    assert pipeline.fit_transform(DATA.X).shape == (300, 3)


def test_unknown_option_is_named() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'buckets'"):
        SparseMean(buckets=3)  # type: ignore[call-arg]


def test_the_seed_is_0_unless_another_is_asked_for() -> None:
    assert SparseMean().random_state == 0
    assert SparseMean().fit(DATA.X).result_.seed == 0
    assert sparse_mean(DATA.X).seed == certify(DATA.X).seed == sketch(DATA.X).seed == 0
    np.testing.assert_array_equal(sparse_mean(DATA.X).p_values, sparse_mean(DATA.X, random_state=0).p_values)
    drawn = [sparse_mean(DATA.X, random_state=None, test="buckets").seed for _ in range(2)]
    assert drawn[0] != drawn[1]
    assert sparse_mean(DATA.X, random_state=None).seed == 0  # ranks need none


def frames() -> dict[str, Any]:
    """Return a frame of every kind that has the groups, the strata and the subjects of its rows."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 8)), columns=[f"f{k}" for k in range(8)])
    frame.insert(3, "arm", ["old", "new"] * 30)
    frame.loc[frame["arm"] == "new", "f2"] += 3
    frame["site"], frame["who"] = np.arange(60) % 20 // 10, np.arange(60) % 20
    return {"pandas": frame, "polars": frame, "pyarrow": frame, "anndata": frame}


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "anndata"])
def test_columns_are_named_in_the_place_of_labels(kind: str) -> None:
    frame = frames()[kind]
    plain = frame[[f"f{k}" for k in range(8)]]
    apart = SparseMeanDifference(contamination=0).fit(plain, frame["arm"], strata=frame["site"], groups=frame["who"])
    X = frame
    if kind == "anndata":
        obs = frame[["arm", "site", "who"]].set_axis(frame.index.map(str))
        X = pytest.importorskip("anndata").AnnData(plain.set_axis(obs.index), obs=obs)
    elif kind != "pandas":
        library = pytest.importorskip(kind)
        X = library.from_pandas(frame) if kind == "polars" else library.Table.from_pandas(frame, preserve_index=False)
    est = SparseMeanDifference(contamination=0).fit(X, "arm", strata="site", groups="who")
    np.testing.assert_array_equal(est.mean_, apart.mean_)
    np.testing.assert_array_equal(est.result_.p_values, apart.result_.p_values)
    assert est.feature_names_in_.tolist() == list(plain.columns)
    if kind == "pandas":
        one = SparseMean(contamination=0).fit(frame.drop(columns=["arm", "site"]), groups="who")
        np.testing.assert_array_equal(one.mean_, SparseMean(contamination=0).fit(plain, groups=frame["who"]).mean_)


def test_a_column_that_is_not_there_is_named() -> None:
    frame = frames()["pandas"]
    with pytest.raises(InputError, match=r"y must be labels, .* or name a column of X, .* got 'am'; it has f0, f1"):
        SparseMeanDifference().fit(frame, "am")
    with pytest.raises(InputError, match=r"groups must be labels, .* got 'who'; pass the labels themselves"):
        SparseMean().fit(np.eye(9), groups="who")


def test_the_reference_of_two_classes_is_the_first_whatever_it_is_called() -> None:
    frame = frames()["pandas"].drop(columns=["site", "who"])
    est = SparseMeanDifference(contamination=0).fit(frame.replace({"old": "control", "new": "case"}), "arm")
    assert est.classes_.tolist() == ["case", "control"]
    assert est.mean_[2] < -2


def test_names_that_are_there_twice_are_made_unique() -> None:
    frame = frames()["pandas"].drop(columns=["arm", "site", "who"]).set_axis([*"abcabcd", ""], axis=1)
    est = SparseMean(contamination=0).fit(frame + 3)
    assert est.feature_names_in_.tolist() == ["a", "b", "c", "a.1", "b.1", "c.1", "d", "column 7"]
    assert est.transform(frame).shape == (60, 8)
    assert any("were made unique" in note for note in est.result_.status.messages)
