"""What the slider shows at another share of bad rows is what a fit at that share says; values are those of the data."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import Estimate, SparseMeanDifference, load, sparse_mean
from sparsemean._util.checks import Bunch
from sparsemean._util.records import FloatArray
from sparsemean.result._report import page
from sparsemean.result._report.plot_data import MOST_STOPS, MOST_VALUES, stops_of
from sparsemean.result._report.verdict import Family, verdict
from sparsemean.result._report.wording import wordings_of
from sparsemean.result.comparison import Comparison


def content_of(estimate: Estimate) -> dict[str, Any]:
    return page.page_data(page.page_wordings(estimate)[0])


def numbers(values: list[Any]) -> FloatArray:
    return np.array([np.nan if value is None else float(value) for value in values])


def family() -> tuple[FloatArray, FloatArray, dict[Any, Estimate]]:
    """Return three groups that differ in three features each, more and less clearly."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 25)), np.repeat([0, 1, 2], 40)
    for k in range(3):
        X[np.ix_(y == k, range(3 * k, 3 * k + 3))] += [4, 2, 1.2]
    return X, y, SparseMeanDifference(contamination=0.02).fit(X, y).result_.results


def check_stops(estimate: Estimate) -> None:
    """Compare every stop with what the estimate says when asked."""
    content = content_of(estimate)
    listed = np.array(content["index"])
    (fit,) = [stop for stop in content["shares"] if stop["fit"]]
    assert fit["n"] == estimate.support.size
    for stop in content["shares"]:
        if stop["fit"]:
            continue
        decided = estimate.at(stop["share"])
        np.testing.assert_array_equal(
            decided.support, np.flatnonzero(estimate.max_contamination >= stop["share"] - 1e-12)
        )
        assert stop["n"] == decided.support.size
        selected = np.isin(listed, decided.support)
        stop["p_value"] = 10.0 ** numbers(stop["log10_p"])
        for key in ("p_value", "p_adjusted", "q_value"):
            asked = decided.table(all=True).set_index("feature")[key].loc[estimate.names(listed)].to_numpy()
            np.testing.assert_allclose(numbers(stop[key])[selected], asked[selected], rtol=6e-3, err_msg=key)


def test_stops_of_one_sample_are_decided_again(estimate: Estimate, attacked: Estimate) -> None:
    check_stops(estimate)
    check_stops(attacked)


@pytest.mark.parametrize("rule", ["fwer", "fdr", "fdr_by"])
def test_stops_of_groups_are_decided_again(rule: str) -> None:
    X, y, _ = family()
    for each in SparseMeanDifference(contamination=0.02, selection=rule).fit(X, y).result_.results.values():
        check_stops(each)


def test_intervals_at_a_stop_are_those_of_a_fit(estimate: Estimate, made: Bunch) -> None:
    content = content_of(estimate)
    stops = [stop for stop in content["shares"] if not stop["fit"]]
    assert len(stops) >= 3
    for stop in stops[:: len(stops) // 3]:
        refit = sparse_mean(made.X, contamination=stop["share"], random_state=0)
        for side, key in enumerate(("ci_low", "ci_high")):
            known = np.isin(content["index"], refit.support)
            there = numbers(stop[key])
            np.testing.assert_allclose(there[known], refit.intervals[content["index"], side][known], rtol=1e-4)
            assert np.isnan(there[~known]).all()


def test_intervals_of_groups_at_a_stop_are_those_of_a_fit() -> None:
    X, y, results = family()
    content = content_of(results[1])
    stop = next(each for each in content["shares"] if not each["fit"] and each["share"] > 0.02)
    refit = SparseMeanDifference(contamination=stop["share"]).fit(X, y).result_.results[1]
    known = np.isin(content["index"], refit.support)
    assert known.any()
    for side, key in enumerate(("ci_low", "ci_high")):
        there = refit.intervals[content["index"], side][known]
        np.testing.assert_allclose(numbers(stop[key])[known], there, rtol=1e-4)


def test_stops_are_few_and_begin_at_none(estimate: Estimate) -> None:
    stops = stops_of([estimate], MOST_STOPS)
    assert stops[0] == 0.0
    assert stops[-1] == np.nanmax(estimate.max_contamination)
    assert len(stops_of([estimate], 4)) == 4
    shares = [stop["share"] for stop in content_of(estimate)["shares"]]
    assert shares == sorted({*shares, 0.05})


def test_tests_of_one_family_are_decided_once() -> None:
    _, _, results = family()
    result = Comparison(np.array(list(results)), results)
    tests, stops = wordings_of(result), stops_of(list(results.values()), 5)
    again = Family(result, tests, stops)
    for wording in tests:
        page.page_data(wording, tests=3, family=again)
    assert set(again.known) <= {*stops, 0.0, 0.05, 0.1, 0.2}


def test_the_verdict_follows_the_slider(estimate: Estimate) -> None:
    shares = content_of(estimate)["shares"]
    (fit,) = (stop for stop in shares if stop["fit"])
    assert tuple(fit["verdict"]) == verdict(estimate)
    for stop in shares:
        again = estimate if stop["fit"] else estimate.at(stop["share"])
        assert stop["verdict"][0].startswith(f"{again.support.size} of 40 features ")
        assert again.support.size == stop["n"]
        if not stop["fit"]:
            assert list(stop["verdict"][:-1]) == list(verdict(again))[:-1]  # the last line is of suspects
    assert len({stop["verdict"][0] for stop in shares}) > 3


def test_where_none_is_selected_the_strongest_are_listed(nothing: Estimate) -> None:
    content = content_of(nothing)
    assert content["n_selected"] == 0
    assert len(content["index"]) >= 10
    last = nothing.max_contamination[content["index"]]
    assert (np.diff(np.nan_to_num(last, nan=-1.0)) <= 0).all()
    assert {stop["share"] for stop in content["shares"]} >= {0.0, 0.05}


def test_a_saved_estimate_knows_what_survives_and_no_more(estimate: Estimate, tmp_path: Any) -> None:
    estimate.save(tmp_path / "x.npz")
    content, whole = content_of(load(tmp_path / "x.npz")), content_of(estimate)
    assert [stop["n"] for stop in content["shares"]] == [stop["n"] for stop in whole["shares"]]
    assert [stop["words"] for stop in content["shares"]] == [stop["words"] for stop in whole["shares"]]
    assert not any("log10_p" in stop for stop in content["shares"])
    assert content["values"] == []


def test_values_are_those_of_the_data(estimate: Estimate, made: Bunch) -> None:
    content = content_of(estimate)
    assert estimate.rows is not None
    for feature, shown in zip(content["index"], content["values"], strict=True):
        column = np.sort(np.delete(made.X[:, feature], estimate.rows.suspects))
        (values,), (box,) = shown["values"], shown["boxes"]
        assert len(values) == MOST_VALUES
        np.testing.assert_allclose([values[0], values[-1]], column[[0, -1]], rtol=1e-3)
        np.testing.assert_allclose(box, np.quantile(made.X[:, feature], (0.25, 0.5, 0.75)), rtol=1e-3)
        rows = estimate.rows.suspects[[place for place, _, _ in shown["suspects"]]]
        np.testing.assert_allclose([value for *_, value in shown["suspects"]], made.X[rows, feature], rtol=1e-3)
    assert content_of(estimate)["values"] == content["values"]


def test_values_of_groups_are_those_of_each(groups: tuple[Estimate, Bunch]) -> None:
    estimate, bunch = groups
    content = content_of(estimate)
    assert content["values"][0]["n"] == [42, 83]
    assert estimate.labels is not None
    assert estimate.rows is not None
    good = np.setdiff1d(np.flatnonzero(estimate.labels == 0), estimate.rows.suspects)
    expected = np.sort(bunch.X[good, content["index"][0]])
    np.testing.assert_allclose(content["values"][0]["values"][0], expected, rtol=1e-3)
    assert len(content["values"][0]["suspects"]) == estimate.rows.suspects.size


def test_another_share_shows_values_of_what_the_fit_did_not_select() -> None:
    """What `at` selects besides has the values of a fit at that share, while the data are there."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 40)), np.repeat([0, 1], 60)
    X[60:, :4] += [2.0, 1.2, 1.0, 0.9]
    fit = SparseMeanDifference(contamination=0.1).fit(X, y).result_
    clean, told = fit.at(0.0), SparseMeanDifference(contamination=0.0).fit(X, y).result_
    assert fit.support.size < clean.support.size == told.support.size
    ends = ["ci_low", "ci_high"]
    pd.testing.assert_frame_equal(clean.table().drop(columns=ends), told.table().drop(columns=ends))
    assert str(clean).count(" – ") == clean.support.size  # intervals alone
    assert pickle.loads(pickle.dumps(clean)).table()["estimate"].notna().sum() == fit.support.size
    one = sparse_mean(X[60:], contamination=0.2)
    table = one.at(0.0).table()
    expected = sparse_mean(X[60:], contamination=0.0).table()
    assert table["feature"].tolist() == expected["feature"].tolist()
    assert one.support.tolist() == [0]  # the others are valued again, about as by a fit that has all four
    np.testing.assert_allclose(table["estimate"][1:], expected["estimate"][1:], atol=0.1)
