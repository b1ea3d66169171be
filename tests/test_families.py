"""Directions, references, families of tests, strata, subjects and pairs: what can be asked of groups, and told."""

from __future__ import annotations

import pickle
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from compared import fit
from scipy import stats

from sparsemean import InputError, SparseMeanDifference, certify, load, sparse_mean
from sparsemean._data import as_table
from sparsemean._evidence import groups
from sparsemean._evidence.groups import RankEvidence
from sparsemean._evidence.ranks import EACH, REST, Contrast
from sparsemean._fit.two_sample import compare
from sparsemean._stats.decision import decide, rule_of
from sparsemean._util.plans import BadRows, Shares
from sparsemean.result.comparison import Comparison

from agreeing import same_tables

LABELS = np.array(["a"] * 20 + ["b"] * 35)
X = np.random.default_rng(0).standard_normal((55, 30))
X[LABELS == "b", :3] += 2.5
THREE = np.repeat(["x", "y", "z"], [30, 40, 50])
SPREAD = np.random.default_rng(3).standard_normal((120, 12))
SPREAD[THREE == "z", 0] += 3.0
SPREAD[THREE == "y", 1] -= 3.0


def test_direction_is_label_minus_reference() -> None:
    one, other = (SparseMeanDifference(0.02, reference=name).fit(X, LABELS) for name in ("a", "b"))
    assert (one.mean_[:3] > 1).all()
    np.testing.assert_allclose(other.mean_, -one.mean_)
    np.testing.assert_allclose(other.result_.beta, -one.result_.beta)
    np.testing.assert_allclose(other.result_.p_values, one.result_.p_values)
    np.testing.assert_allclose(other.result_.intervals, -one.result_.intervals[:, ::-1])
    assert [list(est.results_) for est in (one, other)] == [["b"], ["a"]]
    assert "b minus a" in one.result_.summary()
    assert "a minus b" in other.result_.summary()
    table = other.result_.table().set_index("feature")
    assert table["mean_1"][0] == pytest.approx(X[LABELS == "a", 0].mean())
    assert table["difference"][0] == pytest.approx(table["mean_1"][0] - table["mean_0"][0])
    assert table["auc"][0] == pytest.approx(np.mean(X[LABELS == "a", 0][:, np.newaxis] > X[LABELS == "b", 0]))


@pytest.mark.parametrize(
    ("reference", "keys"),
    [
        (None, ["x", "y", "z"]),
        ("rest", ["x", "y", "z"]),
        ("y", ["x", "z"]),
        ("pairs", [("y", "x"), ("z", "x"), ("z", "y")]),
    ],
)
def test_more_labels_are_one_family_of_tests(reference: str | None, keys: list[Any]) -> None:
    """Keys, shifts and p-values of each test are those of a fit of its own; Holm goes over all of them at once."""
    est = SparseMeanDifference(0.0, reference=reference).fit(SPREAD, THREE)
    assert est.classes_.tolist() == ["x", "y", "z"]
    assert list(est.results_) == keys
    assert isinstance(est.result_, Comparison)
    p = np.concatenate([estimate.p_values for estimate in est.results_.values()])
    adjusted = np.concatenate([estimate.p_adjusted for estimate in est.results_.values()])
    order = np.argsort(p)
    holm = np.minimum(1, np.maximum.accumulate((p.size - np.arange(p.size)) * p[order]))
    np.testing.assert_allclose(adjusted[order], holm, rtol=1e-12)
    assert sum(estimate.support.size for estimate in est.results_.values()) == np.sum(adjusted <= 0.05)
    for key, estimate in est.results_.items():
        label, other = key if isinstance(key, tuple) else (key, reference)
        rest = other in (None, "rest")
        rows = np.ones(120, dtype=bool) if rest else np.isin(THREE, [label, other])
        alone = fit(SPREAD[rows], THREE[rows] == label, contamination=0.0)
        np.testing.assert_array_equal(alone.p_values, estimate.p_values)
        both = np.intersect1d(alone.support, estimate.support)
        np.testing.assert_allclose(alone.mean[both], estimate.mean[both])
        assert estimate.class_names.tolist() == ["rest" if rest else other, label]  # type: ignore[union-attr]
    assert est.support_.tolist() == [0, 1]


def test_a_comparison_is_shown_as_one(tmp_path: Path) -> None:
    found = SparseMeanDifference(0.01).fit(SPREAD, THREE).result_
    table = found.table()
    assert table.columns[:3].tolist() == ["group", "reference", "feature"]
    assert set(zip(table["group"], table["feature"], strict=True)) >= {("z", 0), ("y", 1)}
    assert (table["reference"] == "rest").all()
    assert len(found.table(all=True)) == 3 * 12
    assert "3 tests" in repr(found)
    assert "rest" in found.summary()
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("x", "y", "z", "rest"))
    assert found._repr_html_()
    assert found.mean.shape == (3, 12)
    assert found.rows.scores.shape == (120,)


def test_each_group_has_its_own_share_of_bad_rows() -> None:
    """Of the reference first, then of the label; of a rest it is that of each label in it."""
    pair = fit(X, LABELS, contamination=(0.1, 0.02))
    assert (pair.plan.sizes, pair.plan.bad_by_group) == ((20, 35), (2, 1))
    swapped = fit(X, LABELS, contamination=(0.02, 0.1), reference="b")
    assert (swapped.plan.sizes, swapped.plan.bad_by_group) == ((35, 20), (1, 2))
    np.testing.assert_array_equal(pair.p_values, swapped.p_values)
    rest = compare(as_table(SPREAD), THREE, contamination=(0.03, 0.0)).results["x"]
    assert rest.plan.bad_by_group == (2 + 2, 0)
    assert "one wrong label: it costs one sample in each group" in pair.summary()


def test_one_side_is_half_of_both() -> None:
    both, more, less = (
        fit(X, LABELS, contamination=0.0, alternative=side) for side in ("two-sided", "greater", "less")
    )
    np.testing.assert_array_equal(more.support, [0, 1, 2])
    np.testing.assert_allclose(more.p_values[:3], both.p_values[:3] / 2, rtol=1e-9)
    assert less.support.size == 0
    assert (less.p_values[:3] == 1).all()
    assert np.isinf(more.intervals[:3, 1]).all()
    np.testing.assert_array_equal(fit(-X, LABELS, contamination=0.0, alternative="less").support, [0, 1, 2])


def test_effects_that_do_not_matter_are_not_selected() -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 200)
    data = rng.standard_normal((400, 6))
    data[labels == 1] += np.array([0.5, 2.0, -0.5, -2.0, 0.0, 0.8])
    plain, none, least = (fit(data, labels, contamination=0.0, min_effect=effect) for effect in (0.0, 0.0, 1.0))
    np.testing.assert_array_equal(plain.support, [0, 1, 2, 3, 5])
    np.testing.assert_array_equal(none.p_values, plain.p_values)
    np.testing.assert_array_equal(least.support, [1, 3])
    assert (least.p_values >= plain.p_values).all()
    for feature, sign in ((1, 1), (3, -1)):  # twice the smaller of two tests of one side, and twice for ties
        moved = data[:, feature] - sign * labels
        expected = stats.mannwhitneyu(moved[labels == 1], moved[labels == 0], method="exact").pvalue
        assert 2 * expected * (1 - 1e-9) <= least.p_values[feature] <= 2.04 * expected
    np.testing.assert_array_equal(fit(data, labels, min_effect=1.0, alternative="greater").support, [1])


def batches(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A batch that shifts everything and holds 70 of 100 rows of one group, 30 of the other."""
    labels = np.repeat([0, 1], n)
    batch = np.concatenate((np.arange(n) < 0.3 * n, np.arange(n) < 0.7 * n)).astype(int)
    data = np.random.default_rng(5).standard_normal((2 * n, 20)) + 2.0 * batch[:, np.newaxis]
    data[labels == 1, 0] += 1.5
    return data, labels, batch


def test_a_batch_that_leans_to_one_group_is_compared_within() -> None:
    data, labels, batch = batches(100)
    assert fit(data, labels, contamination=0.0).support.size == 20
    within = fit(data, labels, contamination=0.0, strata=batch)
    np.testing.assert_array_equal(within.support, [0])
    differences = [
        np.subtract.outer(data[(labels == 1) & (batch == h), 0], data[(labels == 0) & (batch == h), 0]).ravel()
        for h in (0, 1)
    ]
    assert within.mean[0] == pytest.approx(np.median(np.concatenate(differences)), rel=1e-12)
    assert within.beta[0] == pytest.approx(np.mean(np.sign(np.concatenate(differences))))
    assert within.plan.n_strata == 2
    assert fit(data, labels, contamination=0.02, strata=batch).support.tolist() == [0]


def test_subjects_count_once() -> None:
    rng = np.random.default_rng(2)
    subject = np.repeat(np.arange(24), 20)
    labels = subject % 2
    data = rng.standard_normal((480, 30)) + rng.standard_normal((24, 30))[subject]
    data[labels == 1, 0] += 6.0
    assert fit(data, labels, contamination=0.0).support.size > 5
    found = fit(data, labels, contamination=0.0, groups=subject)
    np.testing.assert_array_equal(found.support, [0])
    assert found.plan.sizes == (12, 12)
    means = np.array([data[subject == s].mean(axis=0) for s in range(24)])
    np.testing.assert_allclose(found.p_values, fit(means, np.arange(24) % 2, contamination=0.0).p_values)
    assert any("subjects are compared, not rows" in note for note in found.status.messages)


def test_pairs_are_one_sample_of_differences() -> None:
    rng = np.random.default_rng(4)
    pair, labels = np.tile(np.arange(60), 2), np.repeat(["before", "after"], 60)
    data = 5 * rng.standard_normal((60, 10))[pair] + rng.standard_normal((120, 10))
    data[labels == "after", 0] += 2.0
    assert fit(data, labels).support.size == 0
    found = fit(data, labels, reference="before", pairs=pair, contamination=0.02)
    np.testing.assert_array_equal(found.support, [0])
    assert found.mean[0] == pytest.approx(2.0, abs=0.7)
    expected = sparse_mean(data[60:] - data[:60], contamination=4 / 60, random_state=0)
    np.testing.assert_array_equal(found.p_values, expected.p_values)
    np.testing.assert_allclose(fit(data, labels, reference="after", pairs=pair).mean[0], -found.mean[0], atol=0.2)


def test_p_is_never_0_and_its_logarithm_goes_on() -> None:
    labels = np.repeat([0, 1], 3000)
    data = np.stack((labels + np.linspace(0, 0.5, 6000), np.linspace(-1, 1, 6000) * (-1) ** np.arange(6000)), axis=1)
    result = fit(data - 0.75, labels, contamination=0.0)
    assert (result.p_values > 0).all()
    log10 = result.table(all=True).set_index("feature")["log10_p"]
    assert log10[0] < -400
    assert np.log10(result.p_values[1]) == pytest.approx(log10[1])


def test_features_off_the_support_have_values_in_the_table_of_all_and_intervals_if_asked_for() -> None:
    est = SparseMeanDifference(0.02).fit(X, LABELS)
    table = est.result_.table(all=True).set_index("feature").sort_index()
    np.testing.assert_array_equal(est.mean_[3:], 0.0)
    assert table["ci_low"][:3].notna().all()
    assert table["ci_low"][3:].isna().all()
    np.testing.assert_allclose(table["estimate"][:3], est.mean_[:3])
    one, zero = (X[np.asarray(LABELS) == label] for label in sorted(set(LABELS))[::-1])
    np.testing.assert_allclose(table["mean_1"], one.mean(axis=0))
    np.testing.assert_allclose(table["difference"], one.mean(axis=0) - zero.mean(axis=0))
    shifts = [np.median(a[:, None] - b) for a, b in zip(one.T, zero.T, strict=True)]
    np.testing.assert_allclose(table["estimate"], shifts)
    wide = est.result_.table(all=True, intervals=True).set_index("feature").sort_index()
    assert ((wide["ci_low"] < wide["estimate"]) & (wide["estimate"] < wide["ci_high"])).all()
    assert ((wide["ci_low"][3:] < 0) & (wide["ci_high"][3:] > 0)).all()
    assert wide["ci_low"][:3].equals(table["ci_low"][:3])
    gone = pickle.loads(pickle.dumps(est.result_))
    assert gone.table(all=True)["estimate"].notna().sum() == 3
    pd.testing.assert_frame_equal(gone.table(all=True, X=X), est.result_.table(all=True))
    assert table["log10_p"].notna().all()


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_wrong_labels_are_suspects_with_reasons(epsilon: float) -> None:
    rng = np.random.default_rng(6)
    truth = np.repeat([0, 1], 100)
    data = rng.standard_normal((200, 60))
    data[truth == 1, :25] += 2.0
    labels = truth.copy()
    labels[[3, 50, 120]] ^= 1
    est = SparseMeanDifference(epsilon).fit(data, labels)
    assert set(est.suspects_.tolist()) == {3, 50, 120}
    reasons = est.result_.rows.reasons
    assert len(reasons) == 3
    assert all(reason and set(reason) <= set(range(25)) for reason in reasons)
    assert np.flatnonzero(est.row_weights_ == 0).tolist() == [3, 50, 120]
    right = SparseMeanDifference(epsilon).fit(data, truth)
    assert right.suspects_.size == 0


def test_replacing_fewer_rows_than_the_radius_drops_no_selected_feature() -> None:
    """By exhaustion: any one row, and any two, sent anywhere that matters; every feature stays selected."""
    rng = np.random.default_rng(8)
    labels = np.repeat([0, 1], [8, 9])
    data = rng.standard_normal((17, 2)) + np.outer(labels, [8.0, 0.0])
    options: dict[str, Any] = {"contamination": 0.0, "level": 0.3}
    found = fit(data - 4, labels, **options)
    assert found.support.tolist() == [0]
    assert 2 <= found.radius[0] <= 3
    for rows in combinations(range(17), int(found.radius[0]) - 1):
        for values in product((-1e3, 4.0, 0.0, 1e3), repeat=len(rows)):
            changed = data - 4
            changed[list(rows), 0] = values
            assert 0 in fit(changed, labels, **options).support


def test_a_complete_column_has_the_answer_of_its_rows() -> None:
    """Without bad rows ``missing="omit"`` is what dropping the rows of each feature gives."""
    gaps = np.where(np.random.default_rng(9).random(X.shape) < 0.2, np.nan, X - X.mean(axis=0))
    omitted = fit(gaps, LABELS, contamination=0.0, missing="omit")
    signs = np.minimum((gaps > 0).sum(axis=0), (gaps < 0).sum(axis=0)) * 4 >= 55
    assert signs.sum() > 5
    for feature in np.flatnonzero(signs):
        there = ~np.isnan(gaps[:, feature])
        alone = fit(gaps[there, feature : feature + 1], LABELS[there], contamination=0.0)
        assert omitted.p_values[feature] == pytest.approx(alone.p_values[0], rel=1e-9)
        assert omitted.beta[feature] == pytest.approx(alone.beta[0])


def test_effects_and_strata_come_back_from_a_file(tmp_path: Path) -> None:
    data, labels, batch = batches(60)
    found = fit(data, labels, strata=batch, contamination=0.0)
    found.save(tmp_path / "x.npz")
    copy = load(tmp_path / "x.npz")
    same_tables(copy, found)
    np.testing.assert_array_equal(copy.interval([0, 3], X=data), found.interval([0, 3]))
    assert copy.plan == found.plan


def test_an_effect_of_just_the_least_size_is_not_selected_for_its_rounding() -> None:
    labels = np.repeat([0, 1], 30)
    for low, least in ((0.7, 0.1), (0.3, 0.2), (1.1, 0.1)):
        data = np.where(labels == 1, low + least, low)[:, np.newaxis]
        for alternative in ("greater", "two-sided"):
            assert fit(data, labels, contamination=0.0, min_effect=least, alternative=alternative).p_values[0] == 1


def test_several_tests_select_columns_as_scikit_learn_wants() -> None:
    data, labels = np.random.default_rng(0).standard_normal((60, 6)), np.repeat(list("abc"), 20)
    data[labels == "a", 2] += 5
    model = SparseMeanDifference(0).fit(data, labels)
    np.testing.assert_array_equal(model.get_support(), np.arange(6) == 2)
    np.testing.assert_array_equal(model.transform(data), data[:, [2]])


def test_what_is_selected_survives_at_least_what_was_allowed_for() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(4001) % 2
    data = rng.standard_normal((4001, 5)) + np.outer(labels, [0.55, 0.57, 0.6, 0.0, 0.0])
    found = fit(data, labels, contamination=0.0511)
    assert found.support.size
    assert (found.max_contamination[found.support] >= 0.0511).all()


def test_a_label_called_rest_is_not_the_rest() -> None:
    data, labels = np.random.default_rng(0).standard_normal((60, 2)), np.repeat(["a", "b", "rest"], 20)
    with pytest.raises(InputError, match="reference must not be 'rest' where a label has that name"):
        SparseMeanDifference(reference="rest").fit(data, labels)
    tests = compare(as_table(data), labels, vs="rest").results
    assert [estimate.plan.sizes for estimate in tests.values()] == [(40, 20)] * 3


def test_half_of_the_pairs_may_not_be_bad() -> None:
    with pytest.raises(InputError, match="contamination must leave more than half of the pairs good: got 24 of 40"):
        fit(np.zeros((80, 1)), np.tile([0, 1], 40), contamination=0.3, pairs=np.repeat(np.arange(40), 2))


def test_complete_columns_do_not_pay_for_the_gaps_of_others() -> None:
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1], 100)
    data = rng.standard_normal((200, 4)) + np.outer(labels, [0.0, 1.0, 2.0, 2.0])
    plain = fit(data, labels, contamination=0.05)
    data[7, 3] = np.nan
    omitted = fit(data, labels, contamination=0.05, missing="omit")
    np.testing.assert_array_equal(omitted.p_values[:3], plain.p_values[:3])
    np.testing.assert_array_equal(omitted.intervals[:3], plain.intervals[:3])
    assert omitted.p_values[3] > plain.p_values[3]


def test_what_survives_is_the_same_whether_it_is_searched_again_or_not() -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 3, 150)
    counts = rng.poisson(0.7, (150, 40)) + 1.0 * (codes[:, np.newaxis] == np.arange(40) % 5)
    contrasts = [Contrast(reference=REST, label=label, sizes=tuple(np.bincount(codes).tolist())) for label in range(3)]
    evidence = RankEvidence(tuple(groups.count(as_table(counts), codes, contrasts)))
    for name in ("fwer", "fdr"):
        rule = rule_of(name, evidence.level, evidence.n_hypotheses)
        before = decide(evidence, rule, evidence.at_share(Shares(0.0, 0.0)))
        shares = [evidence.at_share(Shares(reference, 0.08)) for reference in (0.031, 0.08)]
        for allowed in ((BadRows(3, 2), BadRows(4, 1), BadRows(9, 5)), *shares):
            again, kept = decide(evidence, rule, allowed), before.at(allowed)
            assert np.unique(again.last[again.last >= 0]).size > 3
            for item in ("last", "max_contamination", "support", "p_adjusted"):
                np.testing.assert_array_equal(getattr(kept, item), getattr(again, item), err_msg=item)


def test_p_within_strata_does_not_fall_where_bad_rows_are_allowed_for() -> None:
    """The bound with bad rows is near the tail at its end.

    200 rows of one label and one of the other in each of 12 strata, 60 ones among the 200 and zeros: sums next to the
    largest are far from it, much farther than a bad row of the larger label can move one.
    """
    strata, labels = np.repeat(np.arange(12), 201), np.tile([0] + [1] * 200, 12)
    data = np.tile([0.0] + [1.0] * 60 + [0.0] * 140, 12)[:, np.newaxis]
    found = [fit(data, labels, strata=strata, contamination=(0.0, m / 2400), alternative="greater") for m in range(4)]
    p = [float(each.p_values[0]) for each in found]
    assert (141 / 201) ** 12 <= p[0] <= 1.005 * (141 / 201) ** 12
    assert p == sorted(p)


# Each single other label.


def every(data: Any, labels: Any, **options: Any) -> Comparison:
    return compare(as_table(data), labels, **options)


@pytest.mark.parametrize("share", [0, 0.05])
@pytest.mark.parametrize("options", [{}, {"alternative": "greater"}, {"min_effect": 0.3}])
def test_each_has_the_largest_p_of_the_single_other_labels(share: float, options: dict[str, Any]) -> None:
    tied = np.column_stack((SPREAD[:, :8], np.round(SPREAD[:, 8:])))
    found = every(tied, THREE, contamination=share, reference="each", **options)
    assert list(found.results) == ["x", "y", "z"]
    single = {name: every(tied, THREE, contamination=share, reference=name, **options).results for name in "xyz"}
    for label, estimate in found.results.items():
        parts = [single[other][label] for other in "xyz" if other != label]
        largest = np.max([part.log10_p for part in parts], axis=0)
        reached = np.max([part.log10_p for part in parts], axis=0) > -3  # bounds do for what is smaller
        np.testing.assert_allclose(estimate.log10_p[reached], largest[reached], rtol=1e-9)
        assert (estimate.log10_p[~reached] <= -3).all()
        assert estimate.plan.bad.reference == sum(part.plan.bad.reference for part in parts)
    lower = [] if options.get("alternative") else [1]
    assert {name: each.support.tolist() for name, each in found.results.items()} == {"x": [], "y": lower, "z": [0]}


def test_each_shows_the_nearest_other_label() -> None:
    X = SPREAD.copy()
    X[THREE == "x", 2] += 5.0
    X[THREE == "y", 2] += 2.0
    found = every(X, THREE, contamination=0.02, reference="each")
    near = every(X, THREE, contamination=0.02, reference="y").results["x"]
    estimate = found.results["x"]
    assert estimate.support.tolist() == [2]
    assert estimate.mean[2] == near.mean[2]
    assert estimate.beta[2] == near.beta[2]
    row, other = estimate.table().iloc[0], near.table().set_index("feature").loc[2]
    assert row["n_0"] == 40
    assert row["mean_0"] == other["mean_0"]
    assert estimate.intervals[2, 0] < near.mean[2] < estimate.intervals[2, 1]
    assert any("nearest other label" in note for note in estimate.status.messages)
    again = found.at(0.02).results["x"]
    np.testing.assert_array_equal(again.p_values, estimate.p_values)
    assert sorted(found.without_suspects().results) == ["x", "y", "z"]


def test_each_is_named_kept_and_refuses_what_it_has_not(tmp_path: Path) -> None:
    found = every(SPREAD, THREE, contamination=0.02, reference="each")
    assert "each against every other one" in " ".join(str(found).split())
    assert (found.table()["reference"] == "each").all()
    found.save(tmp_path / "x.npz")
    assert str(load(tmp_path / "x.npz")) == str(found)
    found.report(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "each other label" in page
    assert "one distribution under the label and under some other label" in page
    certified = certify(SPREAD, THREE, contamination=0.02, reference="each")
    assert isinstance(certified, dict)
    for label, estimate in found.results.items():
        np.testing.assert_array_equal(certified[label].p_values, estimate.p_values)
    for options in ({"target": "mean", "scale": 2.0}, {"selection": "maxt"}):
        with pytest.raises(InputError, match="be another one with each single other label"):
            every(SPREAD, THREE, reference="each", **options)
    with pytest.raises(InputError, match="be against one reference"):
        found.results["y"].interval([1])
    with pytest.raises(InputError, match="not be 'each' where a label has that name"):
        every(X, np.where(LABELS == "a", "each", "b"), reference="each")


def test_each_of_two_labels_is_the_other() -> None:
    each, usual = (SparseMeanDifference(0.02, reference=name).fit(X, LABELS).result_ for name in ("each", None))
    np.testing.assert_array_equal(each.p_values, usual.p_values)
    np.testing.assert_array_equal(each.intervals, usual.intervals)


def test_what_looks_bad_is_allowed_for_against_each_single_label() -> None:
    values = SPREAD.copy()
    values[:3] = values[80:83]  # rows of z that are listed in x
    values[THREE == "z", 3:] += 5.0
    values[:3, 3:] += 5.0
    estimate = every(values, THREE, reference="each").results["z"]
    assert estimate.plan.bad == BadRows(3 + 4, 3)  # 3 of the 30 of x, as large a share of the 40 of y
    assert [
        bad.reference for bad in Contrast(reference=EACH, label=2, sizes=(30, 40, 50)).bad_of_singles(BadRows(7, 3))
    ] == [3, 4]


@pytest.mark.parametrize("share", [0, 0.05])
def test_a_label_that_equals_one_other_is_hardly_ever_selected_against_each(share: float, long_version: bool) -> None:
    labels, seeds, false, rest = np.repeat([0, 1, 2], [40, 20, 20]), 100 if long_version else 20, 0, 0
    for seed in range(10_000, 10_000 + seeds):
        values = np.random.default_rng(seed).standard_normal((80, 4))
        values[labels == 0] += 3.0
        if share:  # one row of twenty: the largest value of label 1 is gone
            values[40 + np.argmax(values[40:60, 0])] = -9.0
        found = certify(values, labels, contamination=share, reference="each")
        assert isinstance(found, dict)
        false += bool(found[1].support.size or found[2].support.size)
        assert found[0].support.size == 4
        if seed < 10_010:
            against_rest = certify(values, labels, contamination=share, reference="rest")
            assert isinstance(against_rest, dict)
            rest += bool(against_rest[1].support.size)
    assert false <= stats.binom.ppf(0.999, seeds, 0.05)
    assert rest == 10  # where some other label differs, and that is label 0
