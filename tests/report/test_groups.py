"""What is said of two groups: by name, of each group, label minus reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared import changed

from sparsemean import Estimate
from sparsemean._stats.effects import group_effects
from sparsemean._stats.planning import of_question
from sparsemean._stats.row_scores import LABEL
from sparsemean._util.checks import Bunch
from sparsemean._util.plans import BadRows, GroupSizes, Side
from sparsemean.result._report.columns import cell_text, described_columns
from sparsemean.result._report.guarantees import guarantees_of
from sparsemean.result._report.page import page_data, page_of, page_wordings
from sparsemean.result._report.summary import fragment, summary
from sparsemean.result._report.verdict import worst_first
from sparsemean.result._report.wording import percent, wording_of

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="session")
def women_and_men(groups: tuple[Estimate, Bunch]) -> Estimate:
    """The shipped data with two suspects, and some words that depend on the plan set by hand."""
    estimate, _ = groups
    assert estimate.rows is not None
    plan = replace(estimate.plan, sizes=GroupSizes(42, 83), bad_by_group=BadRows(3, 5), bad_rows=8, contamination=0.05)
    against = (tuple(estimate.support[:4].tolist()), tuple(estimate.support[1:2].tolist()))
    rows = replace(estimate.rows, suspects=np.array([31, 7]), reasons=against, kinds=(LABEL, LABEL))
    return changed(estimate, plan=plan, rows=rows, class_names=np.array(["F", "M"]))


def planned(estimate: Estimate, **fields: Any) -> Estimate:
    asked = {name: fields.pop(name) for name in ("side", "min_effect") if name in fields}
    return replace(estimate, plan=replace(of_question(estimate.plan, **asked), **fields))


def test_the_summary_has_sizes_shares_labels_and_direction(women_and_men: Estimate) -> None:
    said = summary(women_and_men).replace("\N{NO-BREAK SPACE}", " ")
    assert "M minus F, from 83 rows of M and 42 of F; 5 of the 83 rows of M and 3 of the 42 of F may be wrong" in said
    assert "(5 % of each group; up to 3 wrong labels: each costs one row in each group)" in said
    assert "Estimates are shifts, M minus F; a difference of means, a lift or a fold change carries no" in said
    weakest = women_and_men.max_contamination[women_and_men.support].min()
    assert f"is selected up to {weakest:.2%} bad rows of each group, or more" in said
    assert "women minus" not in fragment(women_and_men)
    assert "M minus F" in fragment(women_and_men)


def test_suspects_come_with_the_features_against_them(women_and_men: Estimate) -> None:
    first, second, third, _ = (str(i) for i in women_and_men.support[:4])
    said = worst_first(wording_of(women_and_men))
    assert said.startswith("Suspects, the worst first (counted from 0), with")
    assert said.endswith(f"31 (in {first}, {second}, {third}, …), 7 (in {second}).")
    assert said in summary(women_and_men)
    content = page_data(*page_wordings(women_and_men))
    assert content["rows"]["reasons"] == [[str(i) for i in row] for row in words_of(women_and_men)]
    page = page_of(women_and_men)
    assert "2 of 125 rows contradict their label or deviate from their own group" in page
    assert "contradicts its label (2)" in page
    assert "Features in which it deviates" in page


def words_of(estimate: Estimate) -> tuple[tuple[int, ...], ...]:
    assert estimate.rows is not None
    return estimate.rows.reasons


def test_no_suspects_is_said(women_and_men: Estimate) -> None:
    assert women_and_men.rows is not None
    none = replace(women_and_men.rows, suspects=np.empty(0, dtype=np.intp), reasons=())
    clean = replace(women_and_men, rows=none)
    assert "look like the other group" not in summary(clean)
    assert "look like the other group" in summary(women_and_men)
    assert "None. Every row agrees with its own group and its label." in page_of(clean)


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ((0, 5), "no wrong label: each would cost one row in each group"),
        ((1, 5), "one wrong label: it costs one row in each group"),
        ((7, 5), "up to 5 wrong labels: each costs one row in each group"),
    ],
)
def test_wrong_labels_cost_one_row_in_each_group(women_and_men: Estimate, bad: tuple[int, int], line: str) -> None:
    assert wording_of(planned(women_and_men, bad_by_group=BadRows(*bad))).wrong_labels == line


def test_shares_that_differ_are_named(women_and_men: Estimate) -> None:
    wording = wording_of(planned(women_and_men, bad_by_group=BadRows(0, 5)), ("the rest", "B"))
    assert wording.shares.replace("\N{NO-BREAK SPACE}", " ") == "6.02 % of B and 0 % of the rest"


@pytest.mark.parametrize(
    ("alternative", "least", "line", "null"),
    [
        (
            "two-sided",
            0.5,
            "9 of 12,625 features differ between M and F by more than 0.5 (",
            "less 0.5, are stochastically no larger than those of the reference, and, plus 0.5, no smaller",
        ),
        ("greater", 0.0, "9 of 12,625 features are higher in M than in F, ", "same distribution"),
        ("greater", 0.5, "are higher in M than in F by more than 0.5, ", "less 0.5, are stochastically no larger"),
        ("less", 0.5, "are lower in M than in F by more than 0.5, ", "plus 0.5, are stochastically no smaller"),
    ],
)
def test_alternatives_and_smallest_effects(
    women_and_men: Estimate, alternative: str, least: float, line: str, null: str
) -> None:
    said = summary(planned(women_and_men, side=Side(alternative), min_effect=least))
    assert line in said
    assert null in said


def test_guarantees_name_the_groups(women_and_men: Estimate) -> None:
    said = guarantees_of(wording_of(women_and_men))
    guaranteed, not_guaranteed = " ".join(said.guaranteed), " ".join(said.not_guaranteed)
    assert "replaced any 5 of the 83 rows of M and 3 of the 42 of F by anything" in guaranteed
    assert "That covers up to 3 wrong labels" in guaranteed
    assert "a larger share of the rows of one of the groups is bad" in guaranteed
    assert "difference, lift and fold change" in not_guaranteed
    assert "all labels" not in " ".join(said.assumed)
    assert "strata" not in " ".join(said.assumed)


def test_the_rest_and_strata_have_sentences_of_their_own(women_and_men: Estimate) -> None:
    named = changed(women_and_men, class_names=np.array(["others", "B"]))
    estimate = planned(named, rest=True, n_strata=3)
    said = guarantees_of(wording_of(estimate))
    assert "B minus the rest within 3 strata, from" in summary(estimate)
    assert "one distribution under all labels" in " ".join(said.assumed)
    assert "3 strata: a feature that does not differ" in " ".join(said.assumed)
    assert "B is like all of them mixed" in " ".join(said.not_guaranteed)


def test_a_family_of_several_tests_widens_the_worst_case_of_intervals(women_and_men: Estimate) -> None:
    few, many = (" ".join(guarantees_of(wording_of(planned(women_and_men, n_tests=n))).guaranteed) for n in (1, 10))
    assert f"else at most {percent(0.05 * np.sum(1 / np.arange(1, 12_626)))}" in few
    assert f"else at most {percent(0.05 * np.sum(1 / np.arange(1, 126_251)))}" in many


@pytest.mark.parametrize("scale", ["counts", "log1p", None])
def test_columns_of_groups_are_described(women_and_men: Estimate, scale: str | None) -> None:
    k = women_and_men.support.size
    values = np.random.default_rng(0).poisson(3.0, (10, k)).astype(float)
    effects = group_effects(values, np.arange(5), np.arange(5, 10), scale=scale)
    estimate = changed(women_and_men, effects=effects)
    sample = replace(estimate.sample, class_names=np.array(["a very long name of a group", "M"]))
    (wording,) = page_wordings(replace(estimate, sample=sample))
    described = {column.key: column for column in described_columns(estimate.table(), wording)}
    assert described["mean_0"].heading == "Mean a very long n…"
    assert described["mean_1"].meaning == "Mean of M; it carries no guarantee"
    assert "in which M is larger; ties count half" in described["auc"].meaning
    assert ("log2_fold_change" in described) == (scale is not None)
    assert scale is None or ("expm1" in described["log2_fold_change"].meaning) == (scale == "log1p")
    assert ("lift" in described) == (scale != "log1p")
    assert described["share_nonzero_0"].kind == "share"
    shown = {column[0] for column in page_data(wording)["columns"]}
    assert ("log2_fold_change" in shown) == (scale is not None)
    assert not {"entry_time", "bucket_size", "beta"} & shown  # they say nothing of groups, or what auc says
    assert page_data(wording)["in_percent"] == (scale != "log1p")


def test_percent_is_written_with_its_sign() -> None:
    assert cell_text(-12.345, "percent") == "−12.3 %"
    assert cell_text(1234.56, "percent") == "1,234.6 %"


def test_features_left_by_share_of_each_group(women_and_men: Estimate) -> None:
    robustness = page_data(*page_wordings(women_and_men))["robustness"]
    last = women_and_men.max_contamination
    for share, (of_label, of_reference), left, is_planned in robustness["table"]:
        assert (of_label, of_reference) == (np.ceil(share * 83 - 1e-9), np.ceil(share * 42 - 1e-9))
        assert left == np.sum(last >= share - 1e-9)
        assert is_planned == ((of_label, of_reference) == (5, 3) and share == 5 / 83)
    assert robustness["planned"] == 5 / 83


def test_differences_within_pairs_are_named(estimate: Estimate) -> None:
    """One sample of differences: the direction is that of the classes."""
    pairs = changed(estimate, class_names=np.array(["before", "after"]))
    assert "Estimates are differences within pairs, after minus before." in summary(pairs)
    assert wording_of(pairs).test.effect == "Difference within pairs, after minus before"
    assert pairs.plot_forest().get_xlabel() == "Difference within pairs, after minus before, in units of the data"
