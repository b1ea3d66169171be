"""From n, d, ε and level to what will be done, before any value is seen; the paper's settings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sparsemean._stats.buckets import check_sizes
from sparsemean._util.checks import AUTO, fraction_of_rows, integer, is_auto, real
from sparsemean._util.plans import Plan, Question, Shares, Side, Walk
from sparsemean.errors import InputError

# The settings of the paper's experiments; its theorems allow others (`sparsemean.plan` lists them).
PAPER_ALPHA = 1e-5
PAPER_ETA = 0.05
PAPER_ITERATIONS = (200, 600)
PAPER_CONTAMINATION = 0.1
LEAST_ALPHA, LEAST_ETA = 1e-100, 1e-6
DEFAULT_ITERATIONS = 400
"""Length of a path that is shown where the values are the walk's limit."""
STAGE_1: dict[str, Any] = {
    "selection": "paper",
    "n_buckets": "paper",
    "step_size": PAPER_ETA,
    "init_scale": PAPER_ALPHA,
    "n_iter": PAPER_ITERATIONS,
    "min_selected": 2,
}
"""What is planned for Algorithm 1, Stage 1, as published."""
PRESET: dict[str, Any] = {**STAGE_1, "refine": None, "screen_rows": False}
"""The options of a fit that is Stage 1 and nothing else."""


def paper_buckets(n: int, contamination: float) -> int:
    """Return the number of buckets of the paper's experiments, min(⌊1.5⌈εn⌉ + 150⌋, ⌊n/2⌋)."""
    return min(int(1.5 * math.ceil(contamination * n) + 150), n // 2)


def theory_buckets(n: int, contamination: float) -> int:
    """Return J = 100⌈εn⌉ of Algorithm 1, at most n; ε = 0 counts as one bad row."""
    return min(100 * max(1, math.ceil(contamination * n)), n)


def check_share(name: str, value: object, *, least: float = 0.0) -> float:
    """Return a number strictly between 0 and 1, and not below ``least``."""
    rule = "be a number between 0 and 1, both excluded"
    number = real(value, argument=name, rule=rule)
    if not 0 < number < 1 or number < least:
        raise InputError(name, f"be at least {least:g}" if 0 < number < least else rule, value)
    return number


def positive(name: str, value: object) -> float:
    """Return a number above zero."""
    return real(value, argument=name, rule="be a positive number", least=math.ulp(0.0))


def count_buckets(n_buckets: object, n: int, contamination: float) -> int:
    """Return J for 'paper', 'theory' or a number."""
    named = {"paper": paper_buckets, "theory": theory_buckets}
    if isinstance(n_buckets, str) and n_buckets in named:
        return named[n_buckets](n, contamination)
    rule = f"be 'paper', 'theory' or an integer from 1 to the number of rows ({n})"
    return integer(n_buckets, argument="n_buckets", least=1, most=n, rule=rule)


def check_iterations(n_iter: object) -> tuple[int, int | None]:
    """Return the iterations at which the support and the values are read; None: 200, and the walk's limit."""
    if n_iter is None:
        return PAPER_ITERATIONS[0], None
    pair = tuple(n_iter) if isinstance(n_iter, (tuple, list)) else (n_iter, n_iter)
    rule = "be None, a positive integer or a pair (iterations for the support, iterations for the values)"
    if len(pair) != 2:
        raise InputError("n_iter", rule, repr(n_iter))
    select_at, estimate_at = (integer(t, argument="n_iter", least=1, rule=rule) for t in pair)
    return select_at, estimate_at


# The plan of one fit: every argument is checked here.

MIN_ROWS = 4
"""One bucket of the largest default size."""
LEAST_LEVEL = 1e-100
"""Over as many tests as there can be it is still far from the smallest double."""
AUTO_SIZES = (1, 2, 4)
"""No one size is best: single rows are blind where the noise has no mass near its centre, large buckets let few bad
rows spoil many. Three nested ones come out of the same pass."""
SELECTIONS = {
    "fwer": "Holm",
    "fdr": "Benjamini–Hochberg",
    "fdr_by": "Benjamini–Yekutieli",
    "maxt": "Westfall–Young",
    "paper": "the paper’s rule",
}
"""Rules by what ``selection=`` calls them; what each promises is said in `sparsemean.result._report.wording`."""
RULES = tuple(name for name in SELECTIONS if name != "paper")
"""Those with an error rate. The paper's needs walks, and so the data again: that is a fit."""
MISSING = ("raise", "omit")


class KnownTest(NamedTuple):
    """A test of centres of one sample: the file and class of ``_evidence`` that have it, and what it looks at."""

    evidence: str
    called: str


TESTS = {
    "ranks": KnownTest("signed_ranks.SignedRankEvidence", "signed ranks"),
    "buckets": KnownTest("signs.SlackEvidence", "signs of buckets of {sizes}"),
    "trend": KnownTest("trend.TrendEvidence", "Kendall’s S"),
}
"""Tests of centres of one sample by what ``test=`` calls them. Means have one of their own, "sums"."""
TARGETS = ("centre", "mean")
ALTERNATIVES = tuple(side.value for side in Side)
MOST_ALLOWED = 0.2
"""Share of the rows that "auto" allows to be bad: more than that are no strays but another kind of rows."""
MOST_RANKED = 20_000
"""Rows up to which ranks are the default: beyond, buckets find hardly larger means and no column is read again."""


def bad_rows(n: int, contamination: float) -> int:
    """Return m = ⌈εn − 1e-9⌉: 7 % of 1000 rows are 70, whatever floating point makes of it."""
    return max(0, math.ceil(contamination * n - 1e-9))


def of_question(plan: Plan, **changed: Any) -> Plan:
    """Return a plan with some of its question changed."""
    return replace(plan, question=replace(plan.question, **changed))


def bad_pairs(n: int, shares: tuple[float, float]) -> int:
    """Return how many of n pairs may be bad where shares of their rows may be: a pair is bad if either row is."""
    bad = sum(bad_rows(n, share) for share in shares)
    if 2 * bad >= n:
        advice = "a pair is bad if either of its rows is: name smaller shares"
        raise InputError("contamination", "leave more than half of the pairs good", f"{bad} of {n}", advice)
    return bad


def one_of(value: object, names: Any, *, argument: str) -> str:
    """Return ``value`` if it is one of ``names``."""
    if not isinstance(value, str) or value not in names:
        raise InputError(argument, f"be one of {', '.join(map(repr, names))}", repr(value))
    return value


def first_error(plan: Plan) -> float:
    """Return the p-value that a statistic must be able to reach to be looked at: of Holm's first step."""
    return plan.question.level if plan.question.selection.startswith("fdr") else plan.question.level / plan.n_features


def check_question(
    *,
    contamination: object = AUTO,
    selection: object = "fwer",
    level: object = 0.05,
    missing: object = "raise",
    target: object = "centre",
    alternative: object = "two-sided",
    min_effect: object = 0.0,
    scale: object = None,
) -> Question:
    """Check what can be asked of one sample and of groups alike, before any value is looked at."""
    wanted = one_of(target, TARGETS, argument="target")
    if scale is not None and wanted != "mean":
        raise InputError("scale", "come with target='mean'", "a scale", "leave one of them out")
    for name, value, usual in (("target", wanted, "centre"), ("min_effect", min_effect, 0)):
        if selection == "maxt" and value != usual:
            advice = "flips and permutations say nothing of it: 'fwer' does"
            raise InputError("selection", f"be another than 'maxt' with {name}={value!r}", "'maxt'", advice)
    shares = None if is_auto(contamination) else check_shares(contamination, or_auto=True)
    return Question(
        selection=one_of(selection, SELECTIONS, argument="selection"),
        level=check_share("level", level, least=LEAST_LEVEL),
        side=Side(one_of(alternative, ALTERNATIVES, argument="alternative")),
        min_effect=real(min_effect, argument="min_effect", rule="be a number of at least 0", least=0.0),
        target=wanted,
        test="sums" if wanted == "mean" else "ranks",
        missing=one_of(missing, MISSING, argument="missing"),
        shares=shares,
        scale=scale,
    )


def plan_fit(
    n: int,
    d: int,
    *,
    contamination: object = AUTO,
    selection: object = "fwer",
    bucket_sizes: object = "auto",
    n_buckets: object = None,
    step_size: object = PAPER_ETA,
    init_scale: object = PAPER_ALPHA,
    n_iter: object = None,
    min_selected: object = 0,
    test: object = "auto",
    n_units: int | None = None,
    **asked: Any,
) -> Plan:
    """Plan a one-sample fit; ``asked`` is what `check_question` takes besides.

    Examples
    --------
    >>> plan = plan_fit(600, 100, contamination=0.1, selection="paper", n_buckets="paper")
    >>> plan.walk.n_buckets, plan.bucket_sizes, plan.bad_rows
    (240, (2,), 60)
    >>> plan_fit(600, 100).bucket_sizes
    (1, 2, 4)
    """
    if n < MIN_ROWS:
        advice = "buckets of rows cannot be formed from fewer"
        raise InputError("X", f"have at least {MIN_ROWS} rows", f"n_samples = {n}", advice)
    published = one_of(selection, SELECTIONS, argument="selection") == "paper"
    buckets = "paper" if n_buckets is None and published else n_buckets
    if is_auto(contamination) and (published or isinstance(buckets, str)):  # numbers of buckets rest on it
        contamination = PAPER_CONTAMINATION
    epsilon = fraction_of_rows(contamination, or_auto=True)
    question = check_question(contamination=contamination, selection=selection, **asked)
    units = n if n_units is None else n_units
    if n_units is not None and buckets is not None:
        raise InputError("groups", "be None with n_buckets or selection='paper', which deal single rows", "labels")
    J = None if buckets is None else count_buckets(buckets, n, epsilon)
    select_at, estimate_at = check_iterations(n_iter)
    fewest = integer(min_selected, argument="min_selected", least=0, rule="be an integer of at least 0")
    if J is not None:
        _refuse_one_size(question, test)
    sized = not (isinstance(bucket_sizes, str) and bucket_sizes == "auto")
    if sized and question.target == "mean":
        raise InputError("bucket_sizes", "be left out with target='mean', which has no buckets", repr(bucket_sizes))
    return Plan(
        question=replace(
            question, test=_test(test, target=question.target, blocks=J is None and not sized, units=units)
        ),
        walk=Walk(
            dealing="blocks" if J is None else "paper",
            n_buckets=J,
            bucket_sizes=(n // J,) if J is not None else check_bucket_sizes(bucket_sizes) if sized else AUTO_SIZES,
            alpha=check_share("init_scale", init_scale, least=LEAST_ALPHA),
            eta=check_share("step_size", step_size, least=LEAST_ETA),
            select_at=select_at,
            estimate_at=estimate_at,
            min_selected=min(d, fewest),
        ),
        n_rows=n,
        n_features=d,
        n_units=units,
        contamination=epsilon,
        # As published the paper's rule takes the plain ceiling, rounding errors included.
        bad_rows=math.ceil(epsilon * units) if published else bad_rows(units, epsilon),
    )


def _test(test: object, *, target: str, blocks: bool, units: int) -> str:
    """Return which test is meant: ranks, unless rows are many or someone has named buckets."""
    name = one_of(test, ("auto", *TESTS), argument="test")
    if target == "mean":
        if name != "auto":
            raise InputError("test", "be left out with target='mean', which has a test of its own", repr(test))
        return "sums"
    return name if name != "auto" else "ranks" if blocks and units <= MOST_RANKED else "buckets"


def _refuse_one_size(question: Question, test: object) -> None:
    """Refuse what needs more than the one size of buckets that the paper's way has."""
    asked = {"test": (test, ("auto", "buckets")), "target": (question.target, ("centre",)),
             "alternative": (question.side, (Side.BOTH,)), "min_effect": (question.min_effect, (0.0,))}  # fmt: skip
    for name, (value, usual) in asked.items():
        if value not in usual:
            received = repr(getattr(value, "value", value))
            raise InputError(name, "be left out with n_buckets or selection='paper'", received)


def check_bucket_sizes(bucket_sizes: object) -> tuple[int, ...]:
    """Return the sizes of nested buckets."""
    rule = "be 'auto' or rising powers of two between 1 and 64"
    if not isinstance(bucket_sizes, (tuple, list, np.ndarray)):
        raise InputError("bucket_sizes", rule, repr(bucket_sizes))
    sizes = tuple(integer(size, argument="bucket_sizes", least=1, rule=rule) for size in bucket_sizes)
    check_sizes(sizes)
    return sizes


def check_shares(contamination: object, *, or_auto: bool = False) -> Shares:
    """Return the shares of the reference and of the label that may be bad: one number stands for both."""
    if isinstance(contamination, (tuple, list, np.ndarray)) and len(contamination) == 2:
        reference, label = (fraction_of_rows(share) for share in contamination)
        return Shares(reference, label)
    share = fraction_of_rows(contamination, or_auto=or_auto)
    return Shares(share, share)


WITHOUT_BUCKETS = Walk("pairs", None, (1,), PAPER_ALPHA, PAPER_ETA, PAPER_ITERATIONS[0], None, 0)
"""How two groups are walked: on the differences of their values."""
