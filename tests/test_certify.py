"""Decisions without estimates are those of the fit, bit for bit, wherever the counts lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparsemean
from sparsemean import InputError, simulate, sparse_mean
from sparsemean._fit.certifying import Certified, certify
from sparsemean._fit.data import FitData
from sparsemean._stats import arrays, nulls

import fakecupy

SHARED = ("p_values", "p_adjusted", "q_values", "radius", "max_contamination", "beta", "bucket_size", "support")
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"contamination": 0.1, "level": 0.2},
    {"selection": "fdr"},
    {"selection": "fdr_by", "contamination": 0},
    {"bucket_sizes": (2, 8)},
    {"null": 0.3},
    {"missing": "omit"},
)


def data_of(seed: int, options: dict[str, Any]) -> Any:
    X = simulate.make_contaminated(500, 40, [3, -2, 1], contamination=0.02, random_state=seed).X
    X[:, 30:] = np.round(X[:, 30:])  # ties, and bucket means at zero
    if "missing" in options:
        X[np.random.default_rng(seed).random(X.shape) < 0.05] = np.nan
        X[:, 35] = np.nan
    return X


@pytest.fixture
def on_device(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every pass leaves its counts on a device."""
    count = FitData.count

    def counted(self: FitData, keep: Any = None, progress: Any = None) -> Any:
        counts, kept = count(self, keep, progress)
        return fakecupy.moved(counts), kept

    monkeypatch.setattr(FitData, "count", counted)
    yield
    nulls._table_on.cache_clear()


def same(found: Certified, estimate: sparsemean.Estimate) -> None:
    for name in SHARED:
        np.testing.assert_array_equal(getattr(found, name), getattr(estimate, name), err_msg=name)
        assert getattr(found, name).dtype == getattr(estimate, name).dtype
    assert found.seed == estimate.seed


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_decisions_are_those_of_the_fit(options: dict[str, Any]) -> None:
    X = data_of(1, options)
    found = certify(X, random_state=7, **options)
    same(found, sparse_mean(X, random_state=7, refine=None, **options))
    assert repr(found).startswith(f"<Certified: {found.support.size} of 40 features")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.usefixtures("on_device")
def test_decisions_stay_on_the_device(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    X = data_of(2, options)
    found = certify(X, random_state=7, **options)
    assert all(arrays.on_device(getattr(found, name)) for name in SHARED)
    here = arrays.on_host(found)
    monkeypatch.undo()
    same(here, sparse_mean(X, random_state=7, refine=None, **options))


PAPER: dict[str, Any] = {"selection": "paper", "n_buckets": 50, "n_iter": (200, 600), "min_selected": 6}


@pytest.mark.parametrize("options", [{}, {"missing": "omit"}, PAPER], ids=str)
def test_a_fit_of_counts_on_a_device_goes_on_where_the_rows_are(
    options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    X = data_of(3, options)
    here = sparse_mean(X, random_state=3, **options)
    request.getfixturevalue("on_device")
    there = sparse_mean(X, random_state=3, **options)
    for name in (*SHARED, "mean", "intervals", "entry_time"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name), err_msg=name)
    assert here.status.messages == there.status.messages
    assert not arrays.on_device(there.counts.positive)  # type: ignore[union-attr]


def test_names_and_seeds_are_kept() -> None:
    frame = pd.DataFrame(data_of(4, {}), columns=[f"gene {i}" for i in range(40)])
    found = certify(frame)
    assert found.feature_names is not None
    assert found.feature_names[0] == "gene 0"
    again = certify(frame, random_state=found.seed)
    np.testing.assert_array_equal(again.p_values, found.p_values)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"selection": "paper"}, "selection must be one of 'fwer', 'fdr', 'fdr_by'"),
        ({"level": 2}, "level"),
        ({"contamination": "a"}, "contamination"),
        ({"null": [1, 2]}, "null"),
    ],
)
def test_bad_input_is_one_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        certify(np.eye(20), **options)
    assert "\n" not in str(caught.value)


def test_missing_values_are_refused_unless_left_out() -> None:
    with pytest.raises(InputError, match="NaN"):
        certify(np.full((20, 3), np.nan))


@pytest.mark.parametrize(
    "given", [{"bucket_sizes": np.array([1, 2])}, {"device": "auto"}, {"test": "ranks"}, {"null": np.ones(5)}], ids=str
)
def test_what_is_for_one_sample_is_refused_where_groups_are_compared(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(InputError, match=f"{name} must be left out where groups are compared"):
        certify(np.random.default_rng(0).standard_normal((60, 5)), np.arange(60) % 2, **given)
