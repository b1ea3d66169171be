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

from sparsemean import SparseMean, SparseMeanDifference, certify, simulate, sketch, sparse_mean
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
