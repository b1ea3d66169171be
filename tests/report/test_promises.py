"""What the page promises is what the fit can keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sparsemean import Estimate, SparseMean, simulate, sparse_mean
from sparsemean._stats.nulls import KURTOSIS, SCALE_SHARE
from sparsemean._stats.planning import SELECTIONS, plan_fit
from sparsemean._util.checks import Bunch
from sparsemean.result._report import page
from sparsemean.result._report.columns import cell_text
from sparsemean.result._report.guarantees import MISSING, SAME, SHOPPED, false_features, guarantees_of, terms
from sparsemean.result._report.wording import RULES, SYMMETRIC, percent, wording_of

DOCUMENTED = " ".join((Path(__file__).parents[2] / "docs" / "guarantees.md").read_text(encoding="utf-8").split())
RATES = ("not a single selected feature is false", "of the selected features are false")


def words(estimate: Estimate) -> tuple[str, str, str]:
    said = guarantees_of(wording_of(estimate))
    return " ".join(said.guaranteed), " ".join(said.assumed), " ".join(said.not_guaranteed)


def test_holm_promises_no_false_feature_against_the_planned_bad_rows(estimate: Estimate) -> None:
    guaranteed, assumed, rest = words(estimate)
    assert RATES[0] in guaranteed
    assert "replaced any 20 of the 400 rows by anything" in guaranteed
    assert "symmetric about the null value" in assumed
    assert "kept inside its interval" in rest
    assert "leaving suspects out changes estimates only" in guaranteed


def test_the_seed_is_spoken_of_where_buckets_select(made: Bunch, estimate: Estimate) -> None:
    guaranteed, assumed, _ = words(estimate)
    assert "seed" not in guaranteed + assumed
    assert "Tested: 40 features by signed ranks, from 400 rows; 20 of the 400 rows may be wrong." in estimate.summary()
    by_signs = sparse_mean(made.X, contamination=0.05, test="buckets", random_state=0)
    guaranteed, assumed, _ = words(by_signs)
    assert "someone who knows the data and the seed" in guaranteed
    assert f"the best of 20 seeds selects a false feature with probability {SHOPPED:g}" in assumed
    assert "Tested: 40 features by signs of buckets of 1, 2 and 4 rows, from 400 rows" in by_signs.summary()
    said = dict(page.settings(page.page_wordings(by_signs)[0]))
    assert (said["Test"], said["bucket_sizes"]) == ("signs of buckets of 1, 2 and 4 rows", "1, 2, 4")


@pytest.mark.parametrize("selection", ["fwer", "fdr_by"])
def test_no_seed_changes_what_ranks_say(made: Bunch, selection: str) -> None:
    one, *others = (sparse_mean(made.X, selection=selection, random_state=seed) for seed in range(4))
    for other in others:
        assert np.array_equal(one.support, other.support)
        for name in ("p_values", "p_adjusted", "q_values", "max_contamination", "intervals"):
            assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)


def test_benjamini_and_hochberg_do_not_promise_anything_under_attack(made: Bunch) -> None:
    guaranteed, _, rest = words(sparse_mean(made.X, contamination=0.05, selection="fdr", random_state=0))
    assert RATES[1] in guaranteed
    assert "positively dependent" in guaranteed
    assert "hiding true signals can raise it" in rest
    guaranteed, _, rest = words(sparse_mean(made.X, contamination=0.05, selection="fdr_by", random_state=0))
    assert "replaced any 20 of the 400 rows" in guaranteed
    assert "hiding" not in rest


def test_the_papers_rule_promises_no_error_rate(made: Bunch) -> None:
    estimate = SparseMean.paper(contamination=0.05, random_state=0).fit(made.X).result_
    guaranteed, _, rest = words(estimate)
    assert not any(rate in guaranteed for rate in RATES)
    assert "no error rate" in rest
    filled = SparseMean.paper(contamination=0.05, random_state=0, min_selected=30).fit(made.X).result_
    assert "only fill up the list" in words(filled)[2]


def test_means_rest_on_the_scale_and_not_on_symmetry() -> None:
    data = simulate.make_contaminated(2000, 20, [3.0], contamination=0.0, random_state=0)
    guaranteed, assumed, rest = words(sparse_mean(data.X, contamination=0.01, target="mean", scale=5.0))
    assert "intervals" in guaranteed
    assert "standard deviation of at most the scale that was given" in assumed
    assert "root of the influence sum" in rest
    assert "symmetric" not in assumed
    assert "seed" not in assumed
    _, assumed, _ = words(sparse_mean(data.X, contamination=0.0, target="mean"))
    assert "taken from 1,000 rows" in assumed
    assert "kurtosis of at most 20" in assumed
    assert "The seed, which deals rows between those that give the scale" in assumed


def test_two_groups_compare_distributions(groups: tuple[Estimate, Bunch]) -> None:
    guaranteed, assumed, rest = words(groups[0])
    assert "seed" not in guaranteed
    assert "same distribution in both groups" in assumed
    assert "median of all differences" in rest
    assert "shift by a constant" in assumed
    assert "seed" not in assumed
    assert f"else at most {percent(0.05 * np.sum(1 / np.arange(1, 12626)))}" in guaranteed


def test_missing_values_subjects_and_no_bad_rows(made: Bunch) -> None:
    X = made.X.copy()
    X[::7, 3] = np.nan
    assert "A value is missing for reasons" in words(sparse_mean(X, missing="omit", random_state=0))[1]
    grouped = SparseMean(random_state=0).fit(made.X, groups=np.arange(400) // 2).result_
    assert "Subjects are independent" in words(grouped)[1]
    assert "of the 200 subjects" in words(grouped)[0]
    assert "if none of the 400 rows is bad" in words(sparse_mean(made.X, contamination=0, random_state=0))[0]


def test_features_after_screening_are_not_promised(attacked: Estimate, nothing: Estimate) -> None:
    assert "listed as not certified" in words(attacked)[2]
    assert "listed as not certified" not in words(nothing)[2]
    assert "intervals" not in words(nothing)[0]


def test_all_settings(estimate: Estimate) -> None:
    said = dict(page.settings(page.page_wordings(estimate)[0]))
    assert (said["random_state"], said["level"], said["null"]) == ("0", "0.05", "0")
    assert said["contamination"].startswith("20 of the 400 rows (5")
    assert said["Test"] == estimate.status.test == "signed ranks"
    assert said["bucket_sizes"] == "1, 2, 4"


@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_documentation_promises_what_the_summary_does(selection: str) -> None:
    filled = {"confidence": "1 − level", "level": "level", "replaced": "whatever m rows were replaced"}
    promise = RULES[selection].promise.format(**filled) or "no error rate"
    assert f'| `"{selection}"`, {SELECTIONS[selection]} | {promise} |' in DOCUMENTED


def test_the_documentation_assumes_what_the_summary_does() -> None:
    for words in (SYMMETRIC, SAME, MISSING):
        assert words in DOCUMENTED
    for scale_rows in (0, 500):
        assert false_features(replace(plan_fit(1000, 10, target="mean"), scale_rows=scale_rows))[0] in DOCUMENTED
    assert f"a kurtosis of at most {KURTOSIS:g}**" in DOCUMENTED
    assert SCALE_SHARE == 0.1
    assert "a tenth of the level" in DOCUMENTED
    assert f"family-wise error of {SHOPPED:.2f}".replace("0.", ".") in DOCUMENTED


@pytest.mark.parametrize(
    ("value", "kind", "digits", "expected"),
    [
        (0.0, "p", None, "< 10⁻³⁰⁰"),
        (0.04999, "p", None, "0.050"),
        (9.96e-10, "p", None, "1.0 × 10⁻⁹"),
        (-1234567.0, "number", 2, "−1.235 × 10⁶"),
        (12345.6, "number", None, "12,346"),
        (-0.00012345, "number", None, "−1.234 × 10⁻⁴"),
        (0.001234, "number", None, "0.001234"),
        (0.0, "number", None, "0"),
        ("-inf", "count", None, "−∞"),
    ],
)
def test_numbers_as_shown(value: object, kind: str, digits: int | None, expected: str) -> None:
    assert cell_text(value, kind, digits) == expected


def test_intervals_have_one_name_and_promise_everywhere(estimate: Estimate) -> None:
    from sparsemean.result._report.columns import described_columns

    wording = wording_of(estimate)
    name = terms(wording)["intervals"]
    assert name == "95\N{NO-BREAK SPACE}% intervals, widened for selection"
    assert name in " ".join(estimate.plot_forest().get_title().split(" "))
    described = {column.key: column.meaning for column in described_columns(estimate.table(), wording)}
    assert described["ci_low"] == f"Lower end of the interval ({name})"
    assert page.page_of(estimate).count(name) >= 4  # table, forest, columns, guarantees
    said = guarantees_of(wording).guaranteed
    (at,) = (k for k, sentence in enumerate(said) if sentence.startswith(f"Intervals are {name}: each one misses"))
    assert said[at].endswith("of those that are shown miss.¹")
    assert said[at + 1].startswith("¹ For independent features")
