"""The verdict claims what the numbers say, on the condition under which they say it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sparsemean import Estimate, SparseMean, SparseMeanDifference, simulate, sparse_mean
from sparsemean._stats.decision import harmonic
from sparsemean._stats.row_scores import FEW, LARGE, TOGETHER
from sparsemean._util.records import RowScores
from sparsemean.result._report.closest import needed
from sparsemean.result._report.guarantees import guarantees_of, terms
from sparsemean.result._report.summary import closest
from sparsemean.result._report.verdict import verdict
from sparsemean.result._report.wording import percent, wording_of

CLEAN = simulate.make_contaminated(600, 100, [1, -0.5, -0.4, 0.3], contamination=0.0, random_state=0).X
NOISE = np.random.default_rng(0).standard_normal((60, 20))
ARMS = np.random.default_rng(0).standard_normal((150, 30))
LABELS = np.repeat(["a", "b", "c"], 50)
ARMS[LABELS == "b", :3] += 1.5
ARMS[LABELS == "c", 5] -= 2


def lines(result: Any) -> list[str]:
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in verdict(result)]


@pytest.fixture(scope="module")
def clean() -> Estimate:
    return sparse_mean(CLEAN)


def judged(estimate: Estimate, kinds: tuple[str, ...], reasons: tuple[tuple[int, ...], ...] = ()) -> Estimate:
    """Return an estimate whose first rows are suspects of those kinds, and allowed for where they are off together."""
    k, n = len(kinds), estimate.plan.n_rows
    together = kinds.count(TOGETHER)
    rows = RowScores(np.ones(n), np.ones(n), np.arange(k), together, reasons, kinds)
    plan = replace(estimate.plan, bad_rows=together, contamination=together / n)
    return replace(estimate, rows=rows, plan=plan)


def test_numbers_are_those_of_the_curve(clean: Estimate) -> None:
    left = {share: clean.at(share).support.size for share in (0.01, 0.05, 0.1)}
    assert left == {0.01: 4, 0.05: 3, 0.1: 1}
    assert lines(clean) == [
        "4 of 100 features have a mean other than 0 (2 above, 2 below).",
        "This assumes that no row is wrong; none looks suspicious.",
        "If any 5 % of the rows are wrong: 3.",
    ]
    assert lines(sparse_mean(CLEAN, contamination=0.05))[1] == (
        "If no row is wrong: 4.   If any 10 % of the rows are wrong: 1."
    )
    weak = sparse_mean(CLEAN[:, 3:])  # the strongest of these is gone at 5 %
    last = percent(float(weak.max_contamination[weak.support].max())).replace("\N{NO-BREAK SPACE}", " ")
    assert lines(weak)[2] == f"If any 5 % of the rows are wrong: none (the strongest holds up to {last})."


NONE_LOOKS = "This assumes that no row is wrong; none looks suspicious."
NONE_BAD = "This assumes that no row is wrong, as asked; none looks suspicious."
ANY_30 = ", even if any 30 of the 600 rows are wrong, as asked."
SIDES = "a mean other than 0 (2 above, 2 below)"
THREE = "(1 above, 2 below)"


@pytest.mark.parametrize(
    ("options", "claim", "condition"),
    [
        ({"contamination": 0.05}, f"3 of 100 features have a mean other than 0 {THREE}", ANY_30),
        ({"contamination": 0.0}, f"4 of 100 features have {SIDES}.", NONE_BAD),
        ({"screen_rows": False}, f"4 of 100 features have {SIDES}.", "This assumes that no row is wrong; rows were not "
         "checked for suspicious ones."),
        ({"alternative": "greater", "min_effect": 0.1}, "1 of 100 features has a mean above 0 by more than 0.1.",
         NONE_LOOKS),
        ({"min_effect": 0.1, "contamination": 0.0}, f"3 of 100 features have a mean more than 0.1 away from 0 {THREE}.",
         NONE_BAD),
        ({"selection": "fdr", "contamination": 0.05}, "3 of 100 features have a mean other than 0 with q ≤ 0.05 "
         f"by Benjamini–Hochberg {THREE}", ", with 30 of the 600 rows assumed wrong, as asked."),
        ({"selection": "fdr_by", "contamination": 0.05}, "3 of 100 features have a mean other than 0 with q ≤ 0.05 "
         f"by Benjamini–Yekutieli {THREE}", ANY_30),
        ({"target": "mean", "scale": 3.0}, "1 of 100 features has a mean other than 0 (above).", NONE_LOOKS),
        ({"null": 0.3, "alternative": "less", "contamination": 0.0}, "98 of 100 features have a mean below 0.3.",
         NONE_BAD),
    ],
)  # fmt: skip
def test_what_is_claimed_and_when(options: dict[str, Any], claim: str, condition: str) -> None:
    estimate = sparse_mean(CLEAN, **options)
    assert claim.startswith(f"{estimate.support.size} of 100")
    said = lines(estimate)
    assert [f"{claim}{condition}"] == said[:1] or [claim, condition] == said[:2]
    assert str(estimate).replace("\n", " ").replace("\N{NO-BREAK SPACE}", " ").startswith(" ".join(said[:2]))
    assert tuple(estimate.summary().splitlines()[:2]) == verdict(estimate)[:2]


def test_false_discovery_rates_claim_no_survival(clean: Estimate) -> None:
    assert lines(sparse_mean(CLEAN, selection="fdr"))[2].startswith("With 5 % of the rows assumed wrong: ")
    assert lines(clean)[2].startswith("If any 5 % of the rows are wrong: ")


def test_kinds_of_suspects_are_told_apart(clean: Estimate) -> None:
    _, assumed, _, rows = lines(judged(clean, (TOGETHER, TOGETHER, LARGE, FEW), ((7, 3), (7,), (), (11, 12, 13))))
    assert assumed == "This holds even if the 2 suspicious rows below are wrong."
    assert rows == (
        "Suspicious rows: 0, 1 (counted from 0) — they deviate in the same direction, mainly in features 7, 3. "
        "Unusual row: 3 (in 11, 12, …) (counted from 0) — it is far off in a few features. "
        "Unusual row: 2 (counted from 0) — it is large in most features and was kept."
    )
    _, assumed, _, rows = lines(judged(clean, (LARGE,) * 5))
    assert assumed == ("This assumes that no row is wrong. The 5 below are unusual, but were not counted as wrong.")
    assert rows.startswith("Unusual rows: 0, 1, 2, 3, 4 (counted")
    assert lines(judged(clean, (TOGETHER,)))[1] == "This holds even if the suspicious row below is wrong."
    assert lines(judged(clean, (TOGETHER,) * 6))[-1].startswith("6 suspicious rows: 0, 1, 2, 3, 4, … (counted")


def test_more_that_look_bad_than_are_allowed_for_are_not_hidden(clean: Estimate) -> None:
    some = judged(clean, (TOGETHER,) * 6)
    capped = replace(some, plan=replace(some.plan, bad_rows=4))
    assert lines(capped)[1] == ("This assumes that at most 4 of the 600 rows are wrong, although more look suspicious.")
    none = replace(some, plan=replace(some.plan, bad_rows=0))
    assert lines(none)[1] == "This assumes that no row is wrong, although more look suspicious."
    assert "More look suspicious." in " ".join(guarantees_of(wording_of(capped)).assumed)


def test_rows_that_were_not_screened_are_said_to_be_so() -> None:
    estimate = sparse_mean(CLEAN, screen_rows=False)
    assert lines(estimate)[1] == "This assumes that no row is wrong; rows were not checked for suspicious ones."
    assert "5 %" in lines(estimate)[2]
    assert "chosen by looking" not in " ".join(guarantees_of(wording_of(estimate)).guaranteed)


def test_the_papers_rule_claims_nothing() -> None:
    estimate = SparseMean.paper(contamination=0.05, random_state=0).fit(CLEAN).result_
    assert lines(estimate) == [
        "2 of 100 features were selected (1 above, 1 below) by the paper’s rule, which controls no error rate.",
        "Holm’s rule, which controls one, would select 1 of them even if any 30 of the 600 rows are wrong.",
    ]


def test_two_groups_subjects_and_pairs() -> None:
    two, labels = ARMS[:100], LABELS[:100]
    estimate = SparseMeanDifference(contamination=0.0).fit(two, labels).result_
    assert lines(estimate)[:3] == [
        "3 of 30 features differ between b and a (3 higher in b).",
        "This assumes that no row is wrong, as asked; none looks suspicious.",
        "If any 5 % of each group are wrong: 1.",
    ]
    assert [estimate.at(share).support.size for share in (0.01, 0.05, 0.1)] == [3, 1, 0]
    given = SparseMeanDifference(contamination=0.02, alternative="greater").fit(two, labels).result_
    assert lines(given)[0] == (
        "3 of 30 features are higher in b than in a, even if any 1 of 50 rows in each group is wrong, as asked."
    )
    means = SparseMeanDifference(contamination=0.0, target="mean", scale=2.0).fit(two, labels).result_
    assert lines(means)[0] == "1 of 30 features differs in the mean between b and a (higher in b)."
    pairs = SparseMeanDifference(contamination=0.02).fit(two, labels, pairs=np.tile(np.arange(50), 2)).result_
    assert lines(pairs)[0] == (
        "3 of 30 features differ between b and a, within pairs (3 higher in b), even if any 2 of the 50 pairs are "
        "wrong, as asked."
    )
    subjects = SparseMean(contamination=0.05).fit(CLEAN, groups=np.arange(600) // 2).result_
    assert "even if any 15 of the 300 subjects are wrong, as asked" in lines(subjects)[0]


def test_several_tests_have_one_verdict() -> None:
    result = SparseMeanDifference(reference="a").fit(ARMS, LABELS).result_
    assert lines(result) == [
        "4 of 30 features differ between groups, each against a (b: 3, c: 1).",
        "This assumes that no row is wrong; none looks suspicious.",
        "If any 5 % of each group are wrong: 1, 1.",
    ]
    assert [test.support.size for test in result.at(0.05).results.values()] == [1, 1]
    printed = str(result)
    assert max(map(len, printed.splitlines())) <= 80
    assert "b against a  50 / 50         3  0, 2, 1" in printed


def test_nothing_selected_is_an_answer() -> None:
    estimate = sparse_mean(CLEAN[:60] / 2, contamination=0.1)
    assert estimate.support.size == 0
    found, needs, otherwise, _ = lines(estimate)
    assert found == (
        "No feature clearly has a mean other than 0 if any 6 of the 60 samples may be wrong, as asked (100 tested; "
        f"strongest: feature 0, adjusted p {estimate.p_adjusted[0]:.2g})."
    )
    assert needs == lines_of_needed(estimate)
    assert otherwise == "If no sample is wrong: 2."
    assert estimate.at(0.0).support.size == 2
    assert estimate.at(4 / 60).support.tolist() == [0]
    rows = closest(wording_of(estimate)).rows
    assert len(rows) == 10
    clean = estimate.at(0.0)
    for name, side, p, adjusted, passes in rows:
        feature = int(name)
        assert (p, adjusted) == (f"{clean.p_values[feature]:.2g}", f"{clean.p_adjusted[feature]:.2g}")
        assert passes.split() == {0: ["6.67", "%"], 1: ["0", "%"]}.get(feature, ["never"])
        assert side == ("up" if np.median(CLEAN[:60, feature]) > 0 else "down") or abs(clean.beta[feature]) < 0.2
    assert [float(row[2]) for row in rows] == sorted(float(row[2]) for row in rows)
    printed = str(estimate)
    assert max(map(len, printed.splitlines())) <= 80
    assert printed.splitlines()[-1] == "summary() has the details."


def lines_of_needed(estimate: Estimate) -> str:
    return needed(wording_of(estimate)).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize("contamination", [0.0, 0.05])
def test_what_is_needed_is_what_a_plan_says(contamination: float) -> None:
    from sparsemean import plan

    said = needed(wording_of(sparse_mean(NOISE, contamination=contamination)))
    effect = plan(60, 20, contamination=contamination).detectable_effect
    assert effect is not None
    assert said.startswith(f"With 60 samples a mean of about {effect:.2g} standard deviations is found with 80")
    outlook = plan(60, 20, contamination=contamination, effect=effect / 2, test="ranks").outlook
    assert outlook is not None
    assert outlook.rows_needed is not None
    assert f"half of it takes about {float(f'{outlook.rows_needed:.2g}'):,.0f} samples." in said
    groups = SparseMeanDifference(contamination=contamination).fit(NOISE, np.arange(60) % 2).result_
    shift = plan((30, 30), 20, contamination=contamination).detectable_effect
    assert f"With 30 against 30 samples a shift of about {shift:.2g} standard deviation" in needed(wording_of(groups))


def test_where_nothing_is_possible_the_note_says_what_is_needed() -> None:
    estimate = sparse_mean(NOISE[:8], contamination=0.0)
    assert verdict(estimate)[0] == "8 samples cannot show an effect in any of 20 features, whatever the data."
    assert verdict(estimate)[1].startswith("The smallest p they can give is ")
    assert "standard deviations" not in " ".join(verdict(estimate))


def test_after_looking_only_what_is_proved_is_promised(clean: Estimate) -> None:
    said = " ".join(guarantees_of(wording_of(clean)).guaranteed).replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "In at most 5 % of studies is a false feature selected although no more rows are bad than were assumed" in said
    )
    assert "It is the probability of both together, not of the first given the second." in said
    assert terms(wording_of(clean))["worst"] == percent(0.05 * harmonic(100))
    alone = percent(0.05 * clean.support.size / 100).replace("\N{NO-BREAK SPACE}", " ")
    assert f"95 % intervals, widened for selection: each one misses with probability at most {alone}" in said
    assert "at most 25.9 % is proved, level·(1 + 1/2 + … + 1/d)" in said
    assert "not a single selected feature is false" not in said
    assert "That all bad rows are detected" in " ".join(guarantees_of(wording_of(clean)).not_guaranteed)
    hochberg = sparse_mean(CLEAN, selection="fdr")
    assert "at most 25.9\N{NO-BREAK SPACE}% of the selected features are false" in " ".join(
        guarantees_of(wording_of(hochberg)).guaranteed
    )
    yekutieli = sparse_mean(CLEAN, selection="fdr_by")
    assert "at most 5\N{NO-BREAK SPACE}% of the selected features are false" in " ".join(
        guarantees_of(wording_of(yekutieli)).guaranteed
    )
    assert "level·(1 + 1/2 + … + 1/d)" in hochberg.summary()
    assert "of both together" in clean.summary()


def test_details_come_last(clean: Estimate) -> None:
    *first, last = clean.summary().splitlines()
    assert last.startswith("Details: In at most 5\N{NO-BREAK SPACE}% of studies is a false feature selected although ")
    for word in ("probability", "symmetric", "alues on the support"):
        assert word not in " ".join(first)


def test_a_list_of_estimates_stays_short(clean: Estimate) -> None:
    assert repr([clean]) == "[<Estimate: 4 of 100 features selected from 600 rows, seed 0>]"
