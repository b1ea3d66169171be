"""What words are about: who is compared, by which rule, which side, what may be bad. Each is answered here, once.

`Wording` is made of an estimate; verdict, summary, guarantees and page read it in place of the plan. What a rule, a
side, or what is tested is called stands in one table each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from sparsemean._stats.effects import PAIRS
from sparsemean._stats.planning import bad_rows
from sparsemean._stats.row_scores import count_by_group
from sparsemean._util.checks import pluralize, unit_name
from sparsemean._util.plans import EACH_NAME, Plan, Side
from sparsemean._util.records import FloatArray, RowScores
from sparsemean.errors import InputError, visible
from sparsemean.result import Estimate
from sparsemean.result.comparison import Comparison, tests_of

Names: TypeAlias = tuple[str, str]
"""Of the reference and of the label, in this order, as `Plan.sizes` has them."""
FEW_ROWS = 100
"""Rows below which they are called samples, and counted in words where more are told in percent."""
REST, EACH = "the rest", "each other label"
"""What the reference is called where a label is compared with all others."""


def percent(share: float) -> str:
    """Return a share in percent, without needless digits, that no line break parts from its sign.

    Examples
    --------
    >>> [percent(share).split() for share in (0.05, 0.125, 0.001)]
    [['5', '%'], ['12.5', '%'], ['0.1', '%']]
    """
    return f"{100 * share:.3g}\u00a0%"


class Compared(NamedTuple):
    """What a rule compares with the level."""

    name: str
    heading: str
    column: str


ADJUSTED, Q = Compared("adjusted p", "p adjusted", "p_adjusted"), Compared("q", "q", "q_value")


@dataclass(frozen=True, slots=True)
class RuleWords:
    """What one rule of selection promises."""

    error: str
    """The kind of error it bounds."""
    promise: str = ""
    """With ``confidence``, ``level`` and what may have been ``replaced``."""
    after_looking: str = ""
    """The same where as many bad rows are allowed for as look bad (``contamination="auto"``), with ``level``,
    ``worst``, which is level·H_d, and that ``no_more`` are bad."""
    not_promised: str = ""
    """With ``units`` and ``level``."""
    compared: Compared = ADJUSTED
    drawn: bool = False
    """Whether flips or permutations decide where no row is bad, which asks for more of features together."""
    paper: bool = False
    """Whether it is the paper's, of which no p-value, and no number of bad rows, is a part."""
    all_shares: bool = False
    """Whether a feature is real or more rows are bad, for all shares of bad rows at once."""
    adversary: bool = True
    """Whether the promise holds for whoever replaces rows, and not only where no one hides true signals."""


RULES = {
    "fwer": RuleWords(
        error="family-wise error",
        promise="With probability at least {confidence} not a single selected feature is false, however the features "
        "depend on each other, and {replaced}.",
        after_looking="In at most {level} of studies is a false feature selected although {no_more}; however the "
        "features depend on each other and whatever the bad {units} are. It is the probability of both together, not "
        "of the first given the second.",
        all_shares=True,
    ),
    "fdr": RuleWords(
        error="false discovery rate",
        promise="On average at most {level} of the selected features are false, for features that are independent or "
        "positively dependent, as long as no one hides true signals.",
        after_looking="On average at most {worst} of the selected features are false, counted where "
        "{no_more}: the number of bad {units} was chosen by looking, so that only level·(1 + 1/2 + … + 1/d) is proved. "
        "The rules “fwer” and “fdr_by” hold in full.",
        not_promised="The share of false features once {units} have been replaced: hiding true signals can raise it "
        "above {level}. The rules “fwer” and “fdr_by” withstand that.",
        compared=Q,
        adversary=False,
    ),
    "fdr_by": RuleWords(
        error="false discovery rate",
        promise="On average at most {level} of the selected features are false, however the features depend on each "
        "other, and {replaced}.",
        after_looking="On average at most {level} of the selected features are false, counted where "
        "{no_more}, however the features depend on each other.",
        compared=Q,
    ),
    "maxt": RuleWords(
        error="family-wise error",
        promise="With probability at least {confidence} not a single selected feature is false, as long as whole rows "
        "of false features are symmetric, or exchangeable between groups, and {replaced}.",
        after_looking="In at most {level} of studies is a false feature selected although {no_more}; as long as whole "
        "rows of false features are symmetric, or exchangeable between groups, and whatever the bad {units} are. It is "
        "the probability of both together, not of the first given the second.",
        not_promised="How many further {units} must be replaced before a selected feature drops out: a single one can "
        "undo a t. The rule “fwer” has such a number.",
        all_shares=True,
        drawn=True,
    ),
    "paper": RuleWords(
        error="no error rate",
        paper=True,
        not_promised="How many selected features are false: the paper’s rule has no error rate, and far rows on one "
        "side can hide a mean of the other sign. Adjusted p-values say which of them Holm would have selected.",
    ),
}


class SideWords(NamedTuple):
    """What is looked for on one side only; empty words where both sides count."""

    above: str = ""
    """Where a mean lies to the null value."""
    higher: str = ""
    """What the label is to the reference."""


SIDES = {Side.BOTH: SideWords(), Side.UP: SideWords("above", "higher"), Side.DOWN: SideWords("below", "lower")}


class TestWords(NamedTuple):
    """What is estimated and tested: of groups with their ``direction`` and the ``label``."""

    effect: str
    """What an estimate is."""
    lean: str
    """What β is called."""
    lean_meaning: str
    estimator: str
    """What makes the estimates, where nothing refines them."""
    estimates: str = ""
    """What the estimates are, in a sentence."""
    means: bool = False
    """Whether means are tested, and not centres."""
    ranked: bool = False
    """Whether groups are compared by ranks, which have shares of pairs."""
    null: str = ""
    """Which features of one sample count as false."""
    direction: str = ""
    """What is taken from what: ``new minus control``."""
    pairs: str = ""
    """Of which pairs an estimate is a share where it is one."""


PAIRS_WON = "in which {label} is larger, less the share in which it is smaller"
PAIRS_ABOVE = "with a mean above the null value, less the share below"
PAIRS_RISING = "that rise with {y}, less the share that fall"
SYMMETRIC = (
    "A feature without a mean has noise that is symmetric about the null value; tails may be as heavy as they like, "
    "and differ from row to row. Under skewed noise a feature may be selected for a centre that is no mean."
)
CENTRES = TestWords(
    "Mean",
    "β",
    "Share of bucket means above the null value less the share below, from −1 to 1, at the best bucket size",
    "a median of bucket means",
    null=SYMMETRIC,
    pairs=PAIRS_ABOVE,
)
TESTS = {
    ("ranks", False): CENTRES,
    ("buckets", False): CENTRES,
    ("sums", False): TestWords(
        "Mean",
        "β",
        "The influence sum as a share of the largest there can be, from −1 to 1",
        "the root of the influence sum",
        "Estimates are means, whatever the skew.",
        means=True,
        pairs=PAIRS_ABOVE,
    ),
    ("trend", False): TestWords(
        "Slope by {y}",
        "Kendall’s τ",
        "Share of pairs of rows with another {y} that rise with it less those that fall, from −1 to 1",
        "the median of all slopes",
        "Estimates are Theil–Sen slopes, the change for each unit of {y}.",
        null="A feature counts as false where its values have the same distribution whatever y is.",
        pairs=PAIRS_RISING,
    ),
    ("ranks", True): TestWords(
        "Shift, {direction}",
        "Cliff’s delta",
        "Share of pairs in which {label} is larger less those with it smaller, from −1 to 1",
        "the median of all differences",
        "Estimates are shifts, {direction}; a difference of means, a lift or a fold change carries no guarantee.",
        ranked=True,
        pairs=PAIRS_WON,
    ),
    ("sums", True): TestWords(
        "Difference of means, {direction}",
        "β",
        "The influence sum as a share of the largest there can be, from −1 to 1",
        "the difference of two roots of influence sums",
        "Estimates are differences of means, {direction}, whatever the skew; plain means, their difference, a lift or "
        "a fold change carry no guarantee.",
        means=True,
        pairs=PAIRS_WON,
    ),
}
"""By the name of the test, and whether groups are compared."""


class Wrong(NamedTuple):
    """What one of some rows may be, and several, and this said of as many as may be."""

    one: str
    several: str
    so_many: str


@dataclass(frozen=True, slots=True, eq=False)
class Wording:
    """What an estimate is about, and what its groups and rows are called."""

    estimate: Estimate
    plan: Plan
    k: int
    """Number of selected features."""
    names: Names | None
    """The names of the two groups; None for one sample."""
    reference: str
    label: str
    """The same, and of groups whose rows come in pairs, of which the differences are one sample; else empty."""
    noun: str
    """What is counted as one observation: a row, below a hundred a sample, or a subject; a cell where so named."""
    unit: str
    """What may be bad: one of them, or a pair."""
    feature: str
    """What a column is called."""
    rule: RuleWords
    side: SideWords
    test: TestWords
    rows: RowScores
    """How far rows contradict the rest, and which look bad; of no rows where they were not at hand."""
    row_names: Sequence[object] | None

    # Who is compared, and what is counted.

    @property
    def contrast(self) -> str:
        """What the test is called: ``new against control``."""
        return f"{self.label} against {self.reference}"

    @property
    def wrong(self) -> Wrong:
        """What some of them may be: wrong, or of users bots."""
        one, several = ("a bot", "bots") if self.unit == "user" else ("wrong", "wrong")
        return Wrong(one, several, f"is {one}" if {*self.allowed} == {1} else f"are {several}")

    @property
    def each(self) -> str:
        """What a share of bad rows is a share of."""
        return f"{self.noun}s of each group" if self.names else f"{self.noun}s"

    # By which rule, on which side, and what of.

    @property
    def adjusted(self) -> FloatArray:
        """What the rule compares with the level."""
        return self.estimate.q_values if self.rule.compared is Q else self.estimate.p_adjusted

    @property
    def null(self) -> str:
        """The one null value of all features; empty where each has its own."""
        null = self.estimate.shift
        if null is None:
            return "0"
        return f"{null[0]:g}" if (null == null[0]).all() else ""

    @property
    def strata(self) -> str:
        """Within what groups are compared, where there are strata."""
        return f" within {self.plan.n_strata:,} strata" if self.plan.n_strata > 1 else ""

    # How many may be bad, and how many look it.

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of the label and of the reference; of one sample all."""
        sizes = self.plan.sizes
        return (self.plan.n_units,) if sizes is None else (sizes.label, sizes.reference)

    @property
    def allowed(self) -> tuple[int, ...]:
        """How many of them may be bad."""
        bad = self.plan.bad
        return (bad.label,) if self.plan.sizes is None else (bad.label, bad.reference)

    @property
    def bad(self) -> str:
        """How many may be bad: ``5 of the 83 rows of M and 3 of the 42 of F``, or ``2 of 20 rows in each group``."""
        if len({*self.allowed}) == len({*self.sizes}) == 1 and self.names:
            return f"{self.allowed[0]:,} of {pluralize(self.sizes[0], self.noun)} in each group"
        number, *others = (f"{bad:,} of the" for bad in self.allowed)
        if self.names is None:
            return f"{number} {self.plan.n_units:,} {self.unit}s"
        n_label, n_reference = self.sizes
        of_label = f"{number} {pluralize(n_label, self.noun)} of {self.label}"
        return f"{of_label} and {others[0]} {n_reference:,} of {self.reference}"

    @property
    def groups(self) -> str:
        """How large the groups are: ``83 rows of M and 42 of F``."""
        n_label, n_reference = self.sizes
        return f"{pluralize(n_label, self.noun)} of {self.label} and {n_reference:,} of {self.reference}"

    @property
    def shares(self) -> str:
        """Which share of each group may be bad: ``5 % of each group``, or one for each where they differ."""
        plan, share = self.plan, percent(self.plan.contamination)
        if self.names is None:
            return share
        of_label, of_reference = self.allowed
        as_label, as_reference = (bad_rows(n, plan.contamination) for n in self.sizes)
        # Of a rest the numbers of all its labels, each rounded up, add up to a little more.
        if of_label == as_label and (of_reference == as_reference or (plan.rest and of_reference > as_reference)):
            return f"{share} of each group"
        of_each = plan.bad_shares
        return f"{percent(of_each.label)} of {self.label} and {percent(of_each.reference)} of {self.reference}"

    @property
    def wrong_labels(self) -> str:
        """How many wrong labels that covers."""
        covered = min(self.allowed)
        if not covered:
            return f"no wrong label: each would cost one {self.noun} in each group"
        labels = "one wrong label: it" if covered == 1 else f"up to {covered:,} wrong labels: each"
        return f"{labels} costs one {self.noun} in each group"

    @property
    def judged(self) -> bool:
        """Whether rows were looked at for bad ones."""
        return bool(self.rows.scores.size) and (self.names is not None or bool(self.rows.scores.any()))

    @property
    def more_look_bad(self) -> bool:
        """Whether more rows look bad, as "auto" takes them, than are allowed for.

        That is a fifth at most, and none where the same rows give the scale.
        """
        labels = self.estimate.labels
        if labels is None:
            return int(self.rows.aligned + self.rows.unnamed) > self.plan.bad_rows
        look, allowed = count_by_group(labels[self.rows.suspects], self.rows.kinds), self.plan.bad
        return look.reference > allowed.reference or look.label > allowed.label


NO_ROWS = RowScores(np.empty(0), np.empty(0), np.empty(0, dtype=np.intp))


def wording_of(
    estimate: Estimate,
    names: Names | None = None,
    *,
    row_names: Sequence[object] | None = None,
    shown: Callable[[object], str] = visible,
) -> Wording:
    """Answer each question about an estimate; groups and rows are called by the names given, else by their own."""
    plan, groups = estimate.plan, bool(estimate.plan.sizes)
    reference, label = names or ("", "")
    if not names and estimate.class_names is not None and (groups or estimate.paired):
        reference, label = map(shown, estimate.class_names)
        reference = (EACH if reference == EACH_NAME else REST) if plan.rest else reference
    direction = f"{label} minus {reference}"
    called = {"direction": direction, "label": label, "y": shown(estimate.sample.y_name)}
    test = TESTS[plan.question.test, groups]
    effect = f"Difference within pairs, {direction}" if estimate.paired else test.effect.format(**called)
    effect += ", or share of pairs" if (estimate.measure == PAIRS).any() else ""
    words = {name: getattr(test, name).format(**called) for name in ("lean_meaning", "estimates", "pairs")}
    few = "sample" if plan.n_rows < FEW_ROWS else "row"
    noun = estimate.sample.unit or (few if estimate.units is None else unit_name(estimate.units))
    return Wording(
        estimate=estimate, plan=plan, k=int(estimate.support.size), names=(reference, label) if groups else None,
        reference=reference, label=label, noun=noun, unit="pair" if estimate.paired else noun,
        feature=estimate.sample.feature or "feature", rule=RULES[plan.question.selection],
        side=SIDES[plan.question.side], rows=estimate.rows or NO_ROWS, row_names=row_names,
        test=test._replace(direction=direction, effect=effect, **words),
    )  # fmt: skip


def wordings_of(result: Estimate | Comparison, row_names: Sequence[object] | None = None) -> list[Wording]:
    """Return one for each test, in their order; an estimate is one test."""
    return [wording_of(estimate, row_names=row_names) for estimate in tests_of(result)]


def check_row_names(names: Sequence[object] | None, n: int, argument: str) -> None:
    """Refuse names that are not one for each row."""
    if names is not None and (isinstance(names, str) or len(names) != n):
        received = "one name" if isinstance(names, str) else f"{len(names):,} names"
        raise InputError(argument, f"have one name for each of the {n:,} rows", received)
