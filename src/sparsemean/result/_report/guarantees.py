"""What is guaranteed, what is assumed for it and what is not guaranteed: of every rule, and in one very fit.

The tables here, and that of the rules next door, are the one place where promises are worded. The summary, the page and
its columns read them, pictures take the names of the rules from `SELECTIONS`, and docs/guarantees.md is checked against
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sparsemean._fit.messages import AT_NULL, NOT_GUARANTEED
from sparsemean._stats.decision import error_after_selection, harmonic
from sparsemean._stats.nulls import KURTOSIS
from sparsemean._util.checks import pluralize
from sparsemean._util.plans import Plan, Side
from sparsemean.result import Estimate
from sparsemean.result._report.wording import EACH, SIDES, TESTS, Wording, percent

SHOPPED = 0.23
"""Family-wise error at level .05 of whoever takes the best of 20 seeds."""


SAME = (
    "A feature that does not differ has the same distribution in both groups, of any form. A difference in spread "
    "alone breaks this too, and may be noticed."
)
"""Which features of two groups count as false."""
SHIFTED = (
    "For shifts and their intervals, not for the selection: a feature that differs has the same distribution in both "
    "groups but for a shift by a constant."
)
"""What is assumed of features that differ."""
TOGETHER = (
    "Where no {unit} is bad, features are false as a whole: in one sample a row of all their values is as likely as "
    "its mirror image; in groups such rows have one distribution, dependence and missing values included. The "
    "seed, which draws flips or permutations, was not chosen after seeing what it selects."
)
"""What is assumed of features together where flips and permutations decide."""
SPLIT = (
    "The seed, which deals rows between those that give the scale and those that are tested, was not chosen after "
    "seeing what it selects."
)
"""What is assumed where half of the rows gave the scale."""
REST_MEAN = "The mean of the rest is that of all its rows, and so is their standard deviation."
"""What a rest of several labels is, where means are compared."""
REST_ALIKE = "Against the rest a feature that does not differ has one distribution under all labels."
EACH_ALIKE = "A feature that does not differ has one distribution under the label and under some other label."
STRATA = (
    "strata: a feature that does not differ has the same distribution in both groups of each stratum; from stratum to "
    "stratum it may be another."
)
"""What a rest of several labels and strata add to the null."""
SEED = (
    "The seed, which deals rows into buckets, was not chosen after seeing what it selects: at a level of "
    f"{percent(0.05)} the best of 20 seeds selects a false feature with probability {SHOPPED:g}."
)
"""What is assumed where the seed decides what is selected."""
MEANS = (
    "Means of the groups, their difference, lift and fold change: the table shows them because readers ask for them, "
    "but one bad {unit} can move them without limit."
)
"""What is not guaranteed wherever two groups are compared."""
MIXTURE = (
    "A feature in which the other labels differ among themselves and {label} is like all of them mixed: that it is not "
    "listed is not proved."
)
"""What is not guaranteed against a rest of several labels."""
UNSEEN = (
    "That all bad {units} are detected: those with plausible values are not. Where there may be some, read up to how "
    "many bad {units} a feature is selected, or name a contamination."
)
"""What is not guaranteed where as many bad rows are allowed for as look bad."""
SUSPECTS = "Which {units} are bad: a suspect may be good, and a bad one may be missed."
"""What is not guaranteed where there are suspects."""
APART = (
    "listed as not certified, which only the {units} left after screening show: their p-values ignore that those "
    "{units} were chosen by looking."
)
"""What is not guaranteed of features that are not certified."""
NOTHING = "Nothing: suspects were taken out by looking at the values, which makes chance look like signal."
"""What is guaranteed of the rows that are left without suspects."""
MISSING = "A value is missing for reasons that have nothing to do with what it would have been."
"""What is assumed of missing values."""
P_VALUES = "Every p-value is the largest that bad {units} could have left: it holds {replaced}."
INTERVALS = (
    "Intervals are {intervals}: each one misses with probability at most {alone} if its feature is named in advance, "
    "and on average at most {level} of those that are shown miss.¹"
)
"""Each interval's own promise; what is proved of all that are shown is in the footnote."""
FOOTNOTE = "¹ For independent features, if no one chose by replacing {units} which are selected; else {otherwise}"
FOOTNOTE_AFTER_LOOKING = (
    "¹ For independent features, and a number of bad {units} that is named in advance. Here it was chosen by looking: "
    "at most {worst} is proved, level·(1 + 1/2 + … + 1/d), where {no_more}."
)
SURVIVES = (
    "With the same probability, for all features at once: a listed feature is real, or a larger share of the {one} is "
    "bad than its column “Survives” says. This holds whatever share was assumed."
)
RADIUS = (
    "Radius: a feature stays selected whatever is done to fewer than that many further {units}, as long as the same "
    "number of bad ones is assumed (a new fit may find more suspects, and assume more). It is a lower bound."
)


class Guarantees(NamedTuple):
    """Three lists of sentences."""

    guaranteed: list[str]
    assumed: list[str]
    not_guaranteed: list[str]


def guarantees_of(wording: Wording) -> Guarantees:
    """Return the sentences that hold for an estimate, in its words."""
    filled, lists = terms(wording), (_guaranteed(wording), _assumed(wording), _not_guaranteed(wording))
    noun = wording.feature
    return Guarantees(*([s.replace("feature", noun).format(**filled) for s in each if s] for each in lists))


def promise(tests: Sequence[Wording]) -> str:
    """Say in a summary of a test, or of several, what the rule promises and on which assumptions: the first ones."""
    first, filled = tests[0], terms(tests[0])
    if len(tests) > 1:  # each has its own number of bad rows
        filled["replaced"] = "with as many {units} replaced by anything as are assumed bad".format(**filled)
        filled["no_more"] = NO_MORE.format(**filled)
    rule, gaps = _guaranteed(first)[0], MISSING if first.plan.question.missing == "omit" else ""
    said = (part.replace("feature", first.feature) for part in (rule, *_assumed(first)[:2], gaps) if part)
    return " ".join(part.format(**filled) for part in said)


def chosen_by_looking(plan: Plan) -> bool:
    """Whether the number of bad rows was chosen by looking at the rows; where none were screened it is 0 anyway."""
    return plan.question.looked or (plan.auto and (plan.question.screen_rows or bool(plan.sizes)))


def false_features(plan: Plan) -> list[str]:
    """Say which features count as false under a plan, and what else is assumed of features."""
    side, more = plan.question.side, plan.question.min_effect
    if plan.question.target == "mean":
        return _of_means(plan)
    if not plan.sizes:
        return [TESTS[plan.question.test, False].null]
    if not more:
        return [SAME, SHIFTED]
    down = f"the values of the label, less {more:g}, are stochastically no larger than those of the reference"
    up = f"the values of the label, plus {more:g}, are stochastically no smaller than those of the reference"
    said = side.pick(f"{down}, and, plus {more:g}, no smaller", down, up)
    return [f"A feature counts as false where {said}.", SHIFTED]


def _of_means(plan: Plan) -> list[str]:
    """Say which means, or differences of means, count as none, and what is assumed of their scale."""
    more, side, groups = plan.question.min_effect, SIDES[plan.question.side], bool(plan.sizes)
    by, s = f"by more than {more:g} " if more else "", "s" if groups else ""
    if not side.above and not more:
        null = "the same in both groups" if groups else "the null value"
    elif groups:
        null = f"not {by}{side.higher or 'other'} in the label than in the reference"
    else:
        null = f"not {by}{side.above or 'off'} the null value"
    alike = " The two distributions may differ in everything else." if groups else ""
    false = f"A feature counts as false where its mean is {null}, "
    if not plan.scale_rows:
        scale = "A feature has a standard deviation of at most the scale that was given"
        noise = ". Its noise may be as skewed as it likes, and differ from row to row."
        noise = f" in either group, and may be as skewed as it likes.{alike}" if groups else noise
        return [f"{false}whatever the distribution{s}.", f"{scale}{noise}"]
    return [
        f"{false}of any distribution{s} with a kurtosis of at most {KURTOSIS:g}.",
        f"Bounds of the standard deviations were taken from {plan.scale_rows:,} rows, all of them good and of the "
        f"distribution{s} of those tested: that they are large enough, but for a tenth of the level, assumes a "
        f"kurtosis of at most {KURTOSIS:g}.{alike}",
    ]


NO_MORE = "no more {units} are bad than were assumed after looking"
"""On which condition what holds whose number of bad rows was chosen by looking: chance has a part in it."""


def terms(wording: Wording) -> dict[str, str]:
    """Return what the sentences of the tables are filled in with."""
    plan, whole, units = wording.plan, wording.estimate.decision.whole, f"{wording.noun}s"
    lost, whole = whole is None and plan.n_tests > 1, whole or wording.estimate.decision  # of all tests, in files
    worst = plan.question.level * harmonic(plan.n_hypotheses)  # whatever chose, or depends on, the features
    no_more = f"{NO_MORE.format(units=units)} (here {wording.bad if plan.bad_rows else 'none'})"
    # Nothing is dealt between groups, so there is no seed to know.
    known = "the data and the seed" if plan.question.test == "buckets" and not wording.names else "the data"
    replaced = f"even if someone who knows {known} replaced any {wording.bad} by anything"
    if chosen_by_looking(plan):
        replaced = f"where {no_more}"
    elif not plan.bad_rows:
        replaced = f"if none of the {plan.n_units:,} {units} is bad"
    return {
        "unit": wording.noun,
        "units": units,
        "each": wording.each,
        "one": f"{units} of one of the groups" if wording.names else units,
        "bad": wording.bad,
        "shares": wording.shares,
        "replaced": replaced,
        "no_more": no_more,
        "worst": percent(min(1.0, worst)),
        "otherwise": f"at most {percent(worst)}." if worst < 1 else "no such share is promised.",
        "level": percent(plan.question.level),
        "intervals": f"{percent(1 - plan.question.level)} intervals, widened for selection",
        "alone": "level·selected/tested" if lost else percent(error_after_selection(plan, max(1, whole.support.size))),
        "confidence": percent(1 - plan.question.level),
        "label": wording.label,
        "reference": wording.reference,
    }


def _guaranteed(wording: Wording) -> list[str]:
    question, rule, some = wording.plan.question, wording.rule, wording.k > 0
    touched = "none of it" if wording.test.means and question.refine == "auto" else "estimates only"
    screened = f"Selection, p-values, radius and intervals use all {{units}}: leaving suspects out changes {touched}."
    footnote = FOOTNOTE_AFTER_LOOKING if chosen_by_looking(wording.plan) else FOOTNOTE
    if NOT_GUARANTEED in "".join(wording.estimate.status.messages):
        return [NOTHING]
    return [
        rule.after_looking if chosen_by_looking(wording.plan) else rule.promise,
        P_VALUES,
        f"That covers {wording.wrong_labels}." if wording.names and wording.plan.bad_rows else "",
        *((_intervals(wording), footnote) if some and wording.estimate.has_values else ()),
        SURVIVES if some and rule.all_shares else "",
        RADIUS if some and not (wording.rule.paper or wording.rule.drawn) else "",
        screened if some and question.screen_rows else "",
    ]


def _intervals(wording: Wording) -> str:
    """Say what each interval promises, and which have no ends."""
    plan, ends = wording.plan, wording.estimate.intervals[wording.estimate.support]
    sentence = INTERVALS
    if unknown := int(np.sum(np.isnan(ends[:, 0]))):
        sentence += f" {unknown:,} of them have none, {AT_NULL}."
    open_ends = np.isinf(ends).any(axis=1) if plan.question.side is Side.BOTH else np.isinf(ends).all(axis=1)
    if infinite := int(np.sum(open_ends)):
        sentence += f" {infinite:,} of them end at infinity, as the sample is too small for that many bad {{units}}."
    return sentence


def _assumed(wording: Wording) -> list[str]:
    plan, noun, groups = wording.plan, wording.noun, wording.names is not None
    false, *besides = false_features(plan)
    independent = f"{noun.capitalize()}s are independent of each other. Several rows of one subject are not."
    if groups and noun == "subject":
        independent = (
            "Subjects are independent of each other, and their numbers of rows distributed alike in both groups."
        )
    sentences = [false, independent, *besides]
    if plan.bad_rows:
        looked = f" {'More' if wording.more_look_bad else 'As many'} look suspicious." if plan.auto else ""
        sentences.append(f"No more than {{bad}} are bad{': {shares}' if groups else ' ({shares})'}.{looked}")
    elif plan.auto:
        why = "None looks suspicious" if wording.judged else f"The {noun}s were not screened"
        sentences.append(f"No {noun} is bad. {why}.")
    if wording.test.means:
        test = wording.estimate.mean_test or wording.estimate.difference_test
        sentences += [SPLIT if test is not None and test.rows is not None else "", REST_MEAN if plan.rest else ""]
    elif groups:
        strata = f"{plan.n_strata:,} {STRATA}" if plan.n_strata > 1 else ""
        alike = EACH_ALIKE if wording.reference == EACH else REST_ALIKE
        sentences += [alike if plan.rest else "", strata]
    elif plan.n_strata > 1:
        sentences.append(f"{plan.n_strata:,} strata: rows are compared within each, and its distribution is its own.")
    elif seed_decides(wording.estimate):  # ranks are those of any seed
        sentences.append(SEED)
    together = TOGETHER if wording.rule.drawn else ""
    return [*sentences, together, MISSING if plan.question.missing == "omit" else ""]


def seed_decides(estimate: Estimate) -> bool:
    """Whether another seed could select other features: by buckets, rows that are set apart, rows drawn of subjects.

    Before ranks of very many values the seed has a part in the filter, which sets p to 1 or leaves it: no seed can then
    make p smaller than that of all ranks.
    """
    if estimate.labels is not None:
        return estimate.units is not None
    if estimate.plan.question.target == "mean":
        return estimate.mean_test is not None and estimate.mean_test.rows is not None
    return estimate.plan.question.test == "buckets"


def _not_guaranteed(wording: Wording) -> list[str]:
    estimate, plan, some = wording.estimate, wording.plan, wording.k > 0
    filled_up, uncertified = estimate.decision.filled_up, estimate.uncertified
    apart = 0 if uncertified is None else uncertified.features.size
    trend = estimate.sample.y is not None
    verb = "have a difference" if wording.names else "have a trend" if trend else "have a mean"
    return [
        wording.rule.not_promised,
        UNSEEN if plan.auto else "",
        f"{pluralize(filled_up, wording.feature)} did not pass and only fill up the list." if filled_up else "",
        f"That everything is found: a {wording.feature} not listed may {verb} that is too small to be seen here.",
        _values(wording) if some else "",
        MEANS if some and wording.names else "",
        MIXTURE if plan.rest and not wording.test.means and wording.reference != EACH else "",
        SUSPECTS if wording.rows.suspects.size else "",
        f"The {pluralize(apart, wording.feature)} {APART}" if apart else "",
        "Anything about a feature, once more {units} are bad than its column “Survives” says.",
    ]


def _values(wording: Wording) -> str:
    plan = wording.plan
    if not wording.estimate.has_values:
        return "How large a mean is: estimates and intervals need the rows, which were not at hand."
    if wording.names or plan.question.refine == "" or (wording.test.means and plan.question.refine == "auto"):
        return f"The estimate itself, {wording.test.estimator}: it is robust, but only its interval has a bound."
    bounded = wording.test.means or plan.question.refine == "auto"
    but = ", but it is kept inside its interval, which has one" if bounded else ""
    return f"The estimate itself: it is robust and was measured against many attacks, without a bound of its own{but}."
