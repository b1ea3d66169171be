"""What is guaranteed, what is assumed for it and what is not guaranteed: of every rule, and in one very fit.

The tables here are the one place where promises are worded. The summary, the page and its columns read them, pictures
take the names of the rules from `SELECTIONS`, and docs/guarantees.md is checked against them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparsemean._fit.messages import AT_NULL
from sparsemean._report import groups
from sparsemean._report.groups import Names, percent
from sparsemean._report.suspects import judged, more_look_bad
from sparsemean._stats.decision import harmonic
from sparsemean._stats.nulls import KURTOSIS
from sparsemean._util.checks import unit_name
from sparsemean._util.plans import Plan, Side

if TYPE_CHECKING:
    from sparsemean.result import Estimate

SHOPPED = 0.23
"""Family-wise error at level .05 of whoever takes the best of 20 seeds."""


@dataclass(frozen=True, slots=True)
class RuleGuarantee:
    """What one rule of selection promises, in the lengths in which it is said."""

    error: str
    """The kind of error it bounds."""
    promise: str
    """In a summary, after the assumptions."""
    after_looking: str
    """The same where as many bad rows are allowed for as look bad (``contamination="auto"``)."""
    caption: str
    """Below the error rate, where that stands as a number."""
    sentence: str = ""
    """On the page, with ``confidence``, ``level`` and what may have been ``replaced``."""
    after_looking_sentence: str = ""
    """On the page, with ``level``, ``worst``, which is level·H_d, and that ``no_more`` are bad."""
    not_promised: str = ""
    """On the page, with ``units`` and ``level``."""


RULES = {
    "fwer": RuleGuarantee(
        error="family-wise error",
        promise="with probability 1 − level no false feature is listed, whatever m rows an adversary replaced",
        after_looking="the probability that both happen, a false feature is listed and no more rows are bad than were "
        "allowed for by looking, is at most level, whatever those rows are (of both together, not of the first given "
        "the second)",
        caption="chance at most that any selected feature is false",
        sentence="With probability at least {confidence} not a single selected feature is false, however the features "
        "depend on each other, and {replaced}.",
        after_looking_sentence="With probability at most {level} both happen: {no_more}, and a selected feature is "
        "false; however the features depend on each other and whatever the bad {units} are. It is the probability of "
        "both together, not of the second given the first.",
    ),
    "fdr": RuleGuarantee(
        error="false discovery rate",
        promise="expected share of false features at most level, for independent or positively dependent features and "
        "no adversary",
        after_looking="expected share of false features, counted where no more rows are bad than were allowed for "
        "by looking, at most level·(1 + 1/2 + … + 1/d): at a number that was chosen by looking level itself is not "
        "proved",
        caption="of the selected features false at most, on average, without an adversary",
        sentence="On average at most {level} of the selected features are false, for features that are independent or "
        "positively dependent, as long as no one hides true signals.",
        after_looking_sentence="On average at most {worst} of the selected features are false, counted where "
        "{no_more}: the number of bad {units} was chosen by looking, so that only level·(1 + 1/2 + … + 1/d) is proved. "
        "The rules “fwer” and “fdr_by” hold in full.",
        not_promised="The share of false features once {units} have been replaced: hiding true signals can raise it "
        "above {level}. The rules “fwer” and “fdr_by” withstand that.",
    ),
    "fdr_by": RuleGuarantee(
        error="false discovery rate",
        promise="expected share of false features at most level, whatever m rows were replaced",
        after_looking="expected share of false features, counted where no more rows are bad than were allowed for "
        "by looking, at most level",
        caption="of the selected features false at most, on average",
        sentence="On average at most {level} of the selected features are false, however the features depend on each "
        "other, and {replaced}.",
        after_looking_sentence="On average at most {level} of the selected features are false, counted where "
        "{no_more}, however the features depend on each other.",
    ),
    "paper": RuleGuarantee(
        error="no error rate",
        promise="no error rate",
        after_looking="no error rate",
        caption="stated error rate: the paper’s rule",
        not_promised="How many selected features are false: the paper’s rule has no error rate, and far rows on one "
        "side can hide a mean of the other sign. Adjusted p-values say which of them Holm would have selected.",
    ),
}


@dataclass(frozen=True, slots=True)
class NullGuarantee:
    """Which features count as false: in a summary, and as the assumptions that the page states."""

    features: str
    assumptions: tuple[str, ...]


NULLS = {
    "pairs": NullGuarantee(
        "features that have the same distribution in both groups",
        (
            "A feature that does not differ has the same distribution in both groups, of any form. A difference in "
            "spread alone breaks this too, and may be noticed.",
            "For estimates and intervals, not for the selection: a feature that differs has the same distribution in "
            "both groups but for a shift by a constant.",
        ),
    ),
    "symmetric": NullGuarantee(
        "features whose noise is symmetric about the null value",
        (
            "A feature without a mean has noise that is symmetric about the null value; tails may be as heavy as they "
            "like, and differ from row to row. Under skewed noise a feature may be selected for a centre that is no "
            "mean.",
        ),
    ),
}
SPLIT = (
    "The seed, which deals rows between those that give the scale and those that are tested, was not chosen after "
    "seeing what it selects."
)
"""What is assumed where half of the rows gave the scale."""
REST_MEAN = "The mean of the rest is that of all its rows, and so is their standard deviation."
"""What a rest of several labels is, where means are compared."""
MEANS = (
    "Means of the groups, their difference, lift and fold change: they stand in the table because they are asked for. "
    "One bad row moves them as far as anyone likes."
)
"""What is not guaranteed wherever two groups are compared."""
MIXTURE = (
    "A feature in which the other labels differ among themselves and {label} is like all of them mixed: that it is not "
    "listed is not proved."
)
"""What is not guaranteed against a rest of several labels."""
UNSEEN = (
    "That all bad {units} look bad: those whose values are plausible are not seen and not allowed for. Where there may "
    "be some, read how many a feature survives, or name a contamination."
)
"""What is not guaranteed where as many bad rows are allowed for as look bad."""
MISSING = (
    "values missing for reasons of their own",
    "A value is missing for reasons that have nothing to do with what it would have been.",
)
"""What is assumed of missing values: in a summary, and on the page."""


@dataclass(frozen=True, slots=True)
class ColumnGuarantee:
    """What one column of the table means, and what is guaranteed of it."""

    meaning: str
    sentence: str


COLUMNS = {
    "p_value": ColumnGuarantee(
        "p-value, valid with {bad} replaced by anything; not adjusted for the number of features",
        "Every p-value is the largest that bad {units} could have left: it holds {replaced}.",
    ),
    "interval": ColumnGuarantee(
        "end of the interval after selection, at level {level}",
        "Of the intervals of the selected features at most {level} are expected to miss, if features are independent "
        "and no one chose by replacing {units} which of them are selected; else ",
    ),
    "interval_after_looking": ColumnGuarantee(
        "end of the interval after selection, at level {level}",
        "Of the intervals of the selected features at most {worst} are expected to miss, counted where {no_more}: as "
        "that number was chosen by looking, the level is multiplied by 1 + 1/2 + … + 1/d.",
    ),
    "max_contamination": ColumnGuarantee(
        "Largest share of bad {each} at which it is still selected",
        "With the same probability, for all features at once: a listed feature is real, or a larger share of the "
        "{one} is bad than its column “Survives” says. This holds whatever share was planned for.",
    ),
    "radius": ColumnGuarantee(
        "So many {units} beyond those allowed for must be replaced, at least, before the feature can drop out",
        "Radius: a feature stays selected whatever is done to fewer than that many further {units}, with as many bad "
        "ones allowed for as here (a new fit may allow for more, if more look bad). It is a lower bound.",
    ),
}


@dataclass(frozen=True, slots=True)
class Guarantees:
    """Three lists of sentences."""

    guaranteed: list[str]
    assumed: list[str]
    not_guaranteed: list[str]


def of_fit(estimate: Estimate, names: Names | None = None) -> Guarantees:
    """Return the sentences that hold for this estimate, groups by the ``names`` given, else by their own."""
    names = names or groups.names_of(estimate)
    return Guarantees(_guaranteed(estimate, names), _assumed(estimate, names), _not_guaranteed(estimate, names))


def chosen_by_looking(plan: Plan) -> bool:
    """Whether the number of bad rows was chosen by looking at the rows; where none were screened it is 0 anyway."""
    return plan.question.looked or (plan.auto and (plan.question.screen_rows or plan.walk.dealing == "pairs"))


def of_null(plan: Plan) -> NullGuarantee:
    """Return which features count as false under a plan."""
    if plan.question.target == "mean":
        return _of_means(plan) if plan.sizes else _of_mean(plan)
    if plan.walk.dealing != "pairs":
        return NULLS["symmetric"]
    if not plan.question.min_effect:
        return NULLS["pairs"]
    return NullGuarantee(groups.null_features(plan), (groups.null_assumption(plan), NULLS["pairs"].assumptions[1]))


def _of_mean(plan: Plan) -> NullGuarantee:
    """Return which means count as none, and what is assumed of their scale."""
    away = f" by no more than {plan.question.min_effect:g}" if plan.question.min_effect else ""
    side = plan.question.side.pick("off", "above", "below")
    plain = plan.question.side is Side.BOTH and not plan.question.min_effect
    null = (
        "is the null value" if plain else f"is {side} the null value{away}" if away else f"is not {side} the null value"
    )
    if not plan.scale_rows:
        return NullGuarantee(
            f"features whose mean {null}, whatever their distribution,",
            (
                "A feature has a standard deviation of at most the scale that was given. Its noise may be as skewed as "
                "it likes, and differ from row to row.",
            ),
        )
    return NullGuarantee(
        f"features whose mean {null}, of any distribution with a kurtosis of at most {KURTOSIS:g},",
        (
            f"Bounds of the standard deviations were taken from {plan.scale_rows:,} rows, all of them good and of the "
            "distribution of those tested: that they are large enough, but for a tenth of the level, assumes a "
            f"kurtosis of at most {KURTOSIS:g}.",
        ),
    )


def _of_means(plan: Plan) -> NullGuarantee:
    """Return which differences of means count as none, and what is assumed of the scale in both groups."""
    more = f"by more than {plan.question.min_effect:g} " if plan.question.min_effect else ""
    side = plan.question.side.pick("other", "higher", "lower")
    plain = plan.question.side is Side.BOTH and not plan.question.min_effect
    null = "the same in both groups" if plain else f"not {more}{side} in the label than in the reference"
    alike = "The two distributions may differ in everything else."
    if not plan.scale_rows:
        return NullGuarantee(
            f"features whose mean is {null}, whatever their distributions,",
            (
                "A feature has a standard deviation of at most the scale that was given in either group, and may be as "
                f"skewed as it likes. {alike}",
            ),
        )
    return NullGuarantee(
        f"features whose mean is {null}, of any distributions with a kurtosis of at most {KURTOSIS:g},",
        (
            f"Bounds of the standard deviations were taken from {plan.scale_rows:,} rows, all of them good and of the "
            "distributions of those tested: that they are large enough, but for a tenth of the level, assumes a "
            f"kurtosis of at most {KURTOSIS:g}. {alike}",
        ),
    )


def terms(plan: Plan, names: Names | None, unit: str) -> dict[str, str]:
    """Return what the sentences of the tables are filled in with."""
    units = unit + "s"
    return {
        "units": units,
        "each": f"{units} of each group" if plan.sizes else units,
        "one": f"{units} of one of the groups" if plan.sizes else units,
        "bad": f"{plan.bad_rows} of {plan.n_units} {units}" if names is None else groups.bad(plan, names, unit),
        "replaced": _replaced(plan, names, unit),
        "no_more": _no_more(plan, names, unit),
        "worst": percent(min(1.0, worst_share(plan))),
        "level": percent(plan.question.level),
        "confidence": percent(1 - plan.question.level),
    }


def worst_share(plan: Plan) -> float:
    """Return level·(1 + 1/2 + … + 1/d), which holds whatever chose, or depends on, the features."""
    return plan.question.level * harmonic(plan.n_hypotheses)


def _no_more(plan: Plan, names: Names | None, unit: str) -> str:
    """Say that no more rows are bad than were allowed for after looking: a number that chance has a part in."""
    bad = f"{plan.bad_rows:,} of the {plan.n_units:,} {unit}s" if names is None else groups.bad(plan, names, unit)
    return f"no more {unit}s are bad than were allowed for by looking (here {bad if plan.bad_rows else 'none'})"


def _replaced(plan: Plan, names: Names | None, unit: str) -> str:
    """Say what an adversary may have done."""
    if chosen_by_looking(plan):
        return f"where {_no_more(plan, names, unit)}"
    if plan.bad_rows == 0:
        return f"if none of the {plan.n_units:,} {unit}s is bad"
    if names is not None:  # nothing is dealt between groups, so there is no seed to know
        return f"even if someone who knows the data replaced any {groups.bad(plan, names, unit)} by anything"
    which = f"any {plan.bad_rows:,}" if plan.bad_rows > 1 else "any one"
    known = "the data and the seed" if plan.question.test == "buckets" else "the data"
    return f"even if someone who knows {known} replaced {which} of the {plan.n_units:,} {unit}s by anything"


def _guaranteed(estimate: Estimate, names: Names | None) -> list[str]:
    plan, k = estimate.plan, estimate.support.size
    rule = RULES[plan.question.selection]
    sentences = [said] if (said := rule.after_looking_sentence if chosen_by_looking(plan) else rule.sentence) else []
    sentences.append(COLUMNS["p_value"].sentence)
    if plan.sizes and plan.bad_rows:
        sentences.append(f"That covers {groups.wrong_labels(plan, unit_name(estimate.units))}.")
    if k and estimate.has_values:
        sentences.append(_intervals(estimate))
    if k and plan.question.selection == "fwer":  # only Holm's steps hold for every number of bad rows at once
        sentences.append(COLUMNS["max_contamination"].sentence)
    if k and plan.question.selection != "paper":
        sentences.append(COLUMNS["radius"].sentence)
    if k and plan.question.screen_rows:
        touched = "nothing of them" if plan.target == "mean" and plan.question.refine == "auto" else "the values only"
        sentences.append(f"Selection, p-values, radius and intervals come from all rows: screening touches {touched}.")
    filled = terms(plan, names, unit_name(estimate.units))
    return [sentence.format(**filled) for sentence in sentences]


def _intervals(estimate: Estimate) -> str:
    """Say what share may miss under dependence or attack, and which intervals have no ends."""
    ends = estimate.intervals[estimate.support]
    plan = estimate.plan
    worst = worst_share(plan)
    sentence = COLUMNS["interval_after_looking"].sentence
    if not chosen_by_looking(plan):
        otherwise = f"at most {percent(worst)}." if worst < 1 else "no such share is promised."
        sentence = COLUMNS["interval"].sentence + otherwise
    if unknown := int(np.sum(np.isnan(ends[:, 0]))):
        sentence += f" {unknown:,} of them have none, {AT_NULL}."
    open_ends = np.isinf(ends).any(axis=1) if plan.question.side is Side.BOTH else np.isinf(ends).all(axis=1)
    if infinite := int(np.sum(open_ends)):
        sentence += f" {infinite:,} of them end at infinity, as the sample is too small for that many bad {{units}}."
    return sentence


def _assumed(estimate: Estimate, names: Names | None) -> list[str]:
    plan, unit = estimate.plan, unit_name(estimate.units)
    sentences = [f"{unit.capitalize()}s are independent of each other. Several rows of one subject are not."]
    if names is not None and unit == "subject":
        sentences = ["Subjects are independent of each other; each is compared by one mean, of equally many rows."]
    looked = f" {'More' if more_look_bad(estimate) else 'As many'} look bad." if plan.auto else ""
    if plan.bad_rows and names is not None:
        sentences.append(f"No more than {groups.bad(plan, names, unit)} are bad: {groups.shares(plan, names)}.{looked}")
    elif plan.bad_rows:
        share = percent(plan.contamination)
        sentences.append(f"No more than {plan.bad_rows:,} of the {plan.n_units:,} {unit}s are bad ({share}).{looked}")
    elif plan.auto:
        why = "none looks it" if judged(estimate) else f"{unit}s were not screened, so none is allowed for"
        sentences.append(f"No {unit} is bad: {why}.")
    sentences += of_null(plan).assumptions
    if plan.question.target == "mean":
        test = estimate.mean_test or estimate.difference_test
        sentences += [SPLIT] if test is not None and test.rows is not None else []
        sentences += [REST_MEAN] if plan.rest else []
    elif names is not None:
        sentences += _of_groups(plan)
    elif seed_decides(estimate):  # ranks are those of any seed
        sentences.append(_seed())
    if plan.question.missing == "omit":
        sentences.append(MISSING[1])
    return sentences


def _of_groups(plan: Plan) -> list[str]:
    """Say what strata and a rest of several labels add to the null."""
    sentences = []
    if plan.rest:
        sentences.append("Against the rest a feature that does not differ has one distribution under all labels.")
    if plan.n_strata > 1:
        sentences.append(
            f"{plan.n_strata:,} strata: a feature that does not differ has the same distribution in both groups of "
            "each stratum; from stratum to stratum it may be another."
        )
    return sentences


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


def _seed() -> str:
    return (
        "The seed, which deals rows into buckets, was not chosen after seeing what it selects: at a level of "
        f"{percent(0.05)} the best of 20 seeds selects a false feature with probability {SHOPPED:g}."
    )


def _not_guaranteed(estimate: Estimate, names: Names | None) -> list[str]:
    plan, sentences = estimate.plan, []
    filled = terms(plan, names, unit_name(estimate.units))
    units, not_promised = filled["units"], RULES[plan.question.selection].not_promised
    if not_promised:
        sentences.append(not_promised.format(**filled))
    if plan.auto:
        sentences.append(UNSEEN.format(**filled))
    if filled_up := estimate.decision.filled_up:
        sentences.append(f"{filled_up} feature(s) did not pass the rule and only fill the support up.")
    verb = "have a mean" if names is None else "differ"
    sentences.append(
        f"That all is found: a feature not listed may {verb}, too little to be told from noise and bad {units}."
    )
    if estimate.support.size:
        sentences.append(_values(estimate))
    if estimate.support.size and names is not None:
        sentences.append(MEANS)
    if names is not None and plan.rest and plan.question.target != "mean":
        sentences.append(MIXTURE.format(label=names[1]))
    if estimate.rows is not None and estimate.rows.suspects.size:
        sentences.append(f"Which {units} are bad: the list of suspects may hold a good one and miss a bad one.")
    uncertified = estimate.uncertified
    if uncertified is not None and uncertified.features.size:
        sentences.append(
            f"The {uncertified.features.size:,} feature(s) listed apart, which only the rows left after screening "
            "show: their p-values treat those rows as if nobody had chosen them by looking."
        )
    sentences.append(f"Anything, once more {units} are bad than a feature survives.")
    return sentences


def _values(estimate: Estimate) -> str:
    plan = estimate.plan
    if not estimate.has_values:
        return "How large a mean is: estimates and intervals need the rows, which were not at hand."
    if plan.question.target == "mean" and plan.question.refine in ("", "auto"):
        which = "the difference of two roots of influence sums" if plan.sizes else "the root of the influence sum"
        return f"The estimate itself, {which}, is robust, but only its interval has a bound."
    if plan.walk.dealing == "pairs" or not plan.question.refine:
        which = "the median of all differences" if plan.walk.dealing == "pairs" else "a median of bucket means"
        return f"The estimate itself, {which}, is robust, but only its interval has a bound."
    bounded = plan.question.target == "mean" or plan.question.refine == "auto"
    but = ", but it is kept inside its interval, which has one" if bounded else ""
    return f"The estimate itself: it is robust and was measured against many attacks, without a bound of its own{but}."
