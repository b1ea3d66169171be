"""The numbers of each plot, and what of them travels with the page: little enough for mail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from sparsemean._fit.afterwards import intervals_of, numbers_of, strongest_first
from sparsemean._stats.decision import error_after_selection
from sparsemean._stats.planning import bad_rows
from sparsemean._stats.row_scores import limit
from sparsemean._util.checks import pluralize
from sparsemean._util.plans import Plan
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.result import Estimate
from sparsemean.result._report.columns import plain
from sparsemean.result._report.verdict import Family, features_against, lines_of
from sparsemean.result._report.wording import EACH, Wording, percent

# What follows bounds the data of a plot whatever n and d are, so that pages stay small enough to be sent by mail.
CELLS = (64, 32)


def count_on_grid(x: FloatArray, y: FloatArray, cells: tuple[int, int] = CELLS) -> dict[str, object]:
    """Count points on a grid over their range; only cells with points are listed, as column, row, count in turn.

    Examples
    --------
    >>> count_on_grid(np.array([0.0, 1.0, 1.0]), np.array([0.0, 2.0, 2.0]), (2, 2))
    {'x': [0.0, 1.0, 2], 'y': [0.0, 2.0, 2], 'cells': [0, 0, 1, 1, 1, 2], 'total': 3, 'most': 2}
    """
    if not x.size:
        return {"x": [0.0, 1.0, 1], "y": [0.0, 1.0, 1], "cells": [], "total": 0, "most": 0}
    histogram, *edges = np.histogram2d(x, y, bins=cells)
    i, j = np.nonzero(histogram)
    listed = np.column_stack((i, j, histogram[i, j].astype(np.int64))).ravel()
    across, up = ([float(edge[0]), float(edge[-1]), edge.size - 1] for edge in edges)
    most = int(histogram.max())
    return {"x": across, "y": up, "cells": listed.tolist(), "total": int(x.size), "most": most}


# How many features are left as more rows may be bad.


def steps(lost: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the shares at which features are lost, 0 before them, and how many are left from each on.

    Examples
    --------
    >>> shares, left = steps(np.array([0.05, np.nan, 0.05, 0.08]))
    >>> shares.tolist(), left.tolist()
    ([0.0, 0.05, 0.08], [3, 1, 0])
    """
    ends, number = np.unique(lost[~np.isnan(lost)], return_counts=True)
    left = np.concatenate(([number.sum()], number.sum() - np.cumsum(number)))
    return np.concatenate(([0.0], ends)), left.astype(np.intp)


def lost_at(estimate: Estimate) -> FloatArray:
    """Return the smallest share of bad rows at which each feature is no longer selected; NaN where it never is.

    That is the next share that allows for one bad row more, of either group where there are two.
    """
    sizes, last = estimate.plan.sizes or (estimate.plan.n_units,), estimate.max_contamination
    return np.asarray(np.min([(np.floor(last * n + 1e-9) + 1) / n for n in sizes], axis=0))


def planned_share(plan: Plan) -> float | None:
    """Return the share that allows for as many bad rows as the plan does; None where none does for both groups."""
    share = min(plan.bad_shares)
    same = plan.sizes is None or tuple(bad_rows(n, share) for n in plan.sizes) == plan.bad_by_group
    return share if same else None


MOST_STEPS = 500
IN_WORDS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
"""Shares of bad rows in the table beside the picture."""


def robustness_data(wording: Wording) -> dict[str, object]:
    """Return shares of bad rows from which on fewer features are left, each followed by how many.

    ``planned`` is the share that was planned for, None where no share of each group is. ``table`` has shares, how many
    rows of each group that is, the features left, and whether it is what was planned for.
    """
    estimate, skipped = wording.estimate, wording.estimate.decision.skipped
    last = np.delete(estimate.max_contamination, skipped)
    at, left = steps(np.delete(lost_at(estimate), skipped))
    if at.size > MOST_STEPS:  # a step of less than a pixel cannot be seen
        kept = np.unique(np.linspace(0, at.size - 1, MOST_STEPS).round().astype(np.intp))
        at, left = at[kept], left[kept]
    planned = planned_share(wording.plan)
    rows: list[list[object]] = []
    for share in sorted({*IN_WORDS} | ({planned} if planned is not None else set())):
        number = int(np.sum(last >= share - 1e-12))
        rows.append([share, [bad_rows(n, share) for n in wording.sizes], number, share == planned])
        if not number and share >= (planned or 0):
            break
    steps_listed = [number for pair in zip(at.tolist(), left.tolist(), strict=True) for number in pair]
    return {"steps": steps_listed, "planned": planned, "table": rows}


# How far rows contradict the rest; suspects by name, very many others counted on a grid.


def why_not_judged(estimate: Estimate) -> str:
    """Say why rows have no scores; empty where they have."""
    if estimate.rows is not None and estimate.rows.scores.any():
        return ""
    if estimate.plan.sizes:
        return "no feature tells the groups apart"
    if estimate.rows is None:
        return "the rows were not at hand"
    if not estimate.plan.question.screen_rows:
        return "screening was off"
    return estimate.status.screening or "no feature is fit to judge them by"


MOST_POINTS = 3_000
MOST_SUSPECTS = 2_000
MOST_TOLD, MOST_REASONS = 200, 6
"""Suspects in the table of the page, and features that are named against each."""


def rows_data(wording: Wording, *, most: int = MOST_POINTS) -> dict[str, object]:
    """Return scores of rows drawn one by one, the suspects first and of them the worst, and a grid of the others.

    More than ``most`` rows are not drawn one by one, but for the suspects.
    """
    rows, labels, suspects = wording.estimate.rows, wording.estimate.labels, wording.rows.suspects
    if rows is None or not rows.scores.any():
        nothing: dict[str, object] = {"index": [], "scores": [], "n_suspects": 0, "n_shown": 0, "mass": None}
        return {
            **nothing, "names": None, "groups": None, "reasons": [], "kinds": [], "n_kinds": {}, "limit": None,
            "why_not": why_not_judged(wording.estimate),
        }  # fmt: skip
    n, shown = rows.scores.size, suspects[:MOST_SUSPECTS]
    judged = np.arange(n) if labels is None else np.flatnonzero(labels >= 0)
    others = np.setdiff1d(judged, shown)
    # Suspects come first: `n_shown` says where they end, and marks are drawn by that.
    single = np.concatenate((shown, others)) if n <= most else shown
    rest = others if n > most else others[:0]
    return {
        "index": single.tolist(),
        "scores": plain(rows.scores[single], 4),
        "names": None if wording.row_names is None else [str(wording.row_names[row]) for row in single.tolist()],
        "groups": None if labels is None else labels[single].tolist(),
        "reasons": [
            features_against(wording, features[:MOST_REASONS]) for features in wording.rows.reasons[:MOST_TOLD]
        ],
        "kinds": list(rows.kinds[:MOST_TOLD]),
        "n_kinds": dict(Counter(rows.kinds)),
        "n_shown": int(shown.size),
        "n_suspects": int(suspects.size),
        "mass": count_on_grid(rest.astype(np.float64), rows.scores[rest]) if rest.size else None,
        "limit": 0 if wording.names else round(limit(wording.plan.n_units), 3),
        "why_not": "",
    }


# Effect against evidence: selected features are in the table, the others are counted on a grid.


def rejection_p(estimate: Estimate) -> float | None:
    """Return a p-value that parts the features the rule rejects from the others; None where no p-value does.

    With R of d rejected, Holm's next p-value is above level/(d − R) and the R before are not; those of Benjamini and
    Hochberg are parted by R·level/d (one that could have been rejected alone, where none is).
    """
    plan, rule = estimate.plan, estimate.decision.rule
    if plan.question.selection in ("paper", "maxt"):
        return None
    rejected = estimate.support.size if plan.sizes else int(np.sum(estimate.decision.last >= plan.bad_rows))
    line = rule.next_error(rejected if rule.step_down else max(1, rejected), plan.n_hypotheses)
    # Features that other tests of the family reject let this one reject more: up to the largest p-value selected.
    return max(line, float(estimate.p_values[estimate.support].max(initial=0.0))) if plan.sizes else line


MOST_FOLDS = 10.0
"""Doublings that are shown: where a mean is 0 there is no end of them."""


def effect_data(wording: Wording, known: Mapping[str, FloatArray], others: IntArray) -> dict[str, object] | None:
    """Return which column of what is ``known`` has effects, what they are, and where those of ``others`` are on a grid.

    Counts and logarithms of counts have fold changes, else it is the estimate; None where estimates have no one unit.
    """
    size, key, title = known["estimate"], "estimate", wording.test.effect
    if np.isfinite(known.get("log2_fold_change", np.nan)).any():
        key, title = "log2_fold_change", f"log₂ fold change, {wording.test.direction}"
        size = np.clip(known[key], -MOST_FOLDS, MOST_FOLDS)  # as the script of the page does
    elif len(kinds := {*known["measure"][: size.size - others.size].tolist()} - {""}) != 1:
        return None
    else:  # those of another kind have no place
        size = np.where(np.isin(known["measure"], [*kinds]), size, np.nan)
    size = size[size.size - others.size :]  # they come last
    if key == "estimate" and wording.estimate.shift is not None:
        size = size - wording.estimate.shift[others]
    there = np.isfinite(size)
    mass = count_on_grid(size[there], np.abs(wording.estimate.log10_p[others][there]))
    return {"key": key, "title": title, "mass": mass}


# Of several tests the strongest features of each, in all of them.

MOST_DOTS = 24
"""Features, and tests, up to which there is a picture of all of them."""


def dots_data(tests: Sequence[Wording]) -> dict[str, object] | None:
    """Return shares of non-zeros and effects of the strongest features of each test; None where none are ranked."""
    same, each = len({test.reference for test in tests}) == 1, max(1, MOST_DOTS // len(tests))
    if not 1 < len(tests) <= MOST_DOTS or not same or not tests[0].test.ranked or tests[0].reference == EACH:
        return None
    best = [strongest_first(test.estimate, test.estimate.support)[:each] for test in tests]
    features = np.array(list(dict.fromkeys(np.concatenate(best).tolist())), dtype=np.intp)
    known = [numbers_of(test.estimate, features, every=True) for test in tests]
    folds = any(np.isfinite(one["log2_fold_change"]).any() for one in known)
    key, called = ("log2_fold_change", "log₂ fold change") if folds else ("beta", "Cliff’s delta")
    if not features.size or not any(np.isfinite(one["share_nonzero_1"]).any() for one in known):
        return None
    shares, effects = ([plain(one[name], 3) for one in known] for name in ("share_nonzero_1", key))
    names, labels = tests[0].estimate.names(features), [test.label for test in tests]
    return {"features": names, "labels": labels, "shares": shares, "effects": effects, "called": called}


# What other shares of bad rows would leave: the steps of the slider.

MOST_STOPS, STOPS_OF_MANY = 21, 9
"""Shares that the slider stops at, of one test and where several are on the page."""
MOST_CELLS = 20_000
"""Features times shares for which the page has p-values and intervals, the strongest first."""
MOST_AGAIN, FEWEST_AGAIN = 1_000_000, 10
"""Values that are looked at again for intervals at other shares, about three seconds; not for fewer features than so
many: the forest then shows the intervals of the fit, in grey."""
ALIKE = 1e-12


def stops_of(estimates: Sequence[Estimate], most: int) -> list[float]:
    """Return shares of bad rows at which features are lost, 0 the first of them; every so many-th where they are many.

    Features that survive such a share are selected up to it and not beyond.
    """
    last = [np.delete(each.max_contamination, each.decision.skipped) for each in estimates]
    shares = np.unique((0.0, *(share for each in last for share in each[~np.isnan(each)].tolist())))
    kept = np.unique(np.linspace(0, shares.size - 1, min(most, shares.size)).round().astype(np.intp))
    return [float(share) for share in shares[kept]]


def share_data(
    wording: Wording, listed: IntArray, *, family: Family, place: int, said: Sequence[str], tests: int = 1
) -> list[dict[str, object]]:
    """Return for each stop of the slider the share, in words too, how many features are selected, and what is known.

    The stop of the fit itself stands among them; its numbers are in the table. At others p-values are those of the
    first features of ``listed``, intervals those of selected ones among them, where the data are at hand.
    """
    planned = planned_share(wording.plan)
    fit: dict[str, object] = {"fit": True, "n": wording.k, "share": planned, "verdict": said, **_allowed_for(wording)}
    if wording.rule.paper:  # its support is no matter of bad rows
        return [fit]
    stops = [share for share in family.stops if planned is None or abs(share - planned) > ALIKE]
    some = listed[: MOST_CELLS // tests // (1 + len(stops))]
    room = MOST_AGAIN // tests // max(1, wording.plan.n_rows * (1 + len(stops)))
    data = [_stop(family, place, share, some, room=room) for share in stops]
    at = int(np.searchsorted(stops, wording.plan.contamination if planned is None else planned))
    return [*data[:at], fit, *data[at:]]


def _stop(family: Family, place: int, share: float, some: IntArray, *, room: int) -> dict[str, object]:
    wording = family.tests[place]
    estimate = wording.estimate
    last = np.delete(estimate.max_contamination, estimate.decision.skipped)
    stop: dict[str, object] = {"fit": False, "share": share, "n": int(np.sum(last >= share - ALIKE))}
    if not (again := family.at(share)):
        words = f"{percent(share)} bad {wording.each}"
        said = f"{stop['n']:,} of {pluralize(wording.plan.n_features, wording.feature)}, if {words}."
        return {**stop, "words": words, "bar": None, "verdict": [said]}
    told = again[place]
    decided = told.estimate
    known: dict[str, object] = {
        "log10_p": plain(decided.log10_p[some], 7),
        "p_adjusted": plain(decided.p_adjusted[some], 3),
        "q_value": plain(decided.q_values[some], 3),
    }
    room = room if room >= min(FEWEST_AGAIN, some.size) else 0
    bounded = np.intersect1d(decided.support, some[:room])
    if wording.reference != EACH and decided.source is not None and decided.source.source.in_memory and bounded.size:
        error = error_after_selection(decided.plan, (decided.decision.whole or decided.decision).support.size)
        ends = np.full((decided.plan.n_features, 2), np.nan)
        ends[bounded] = intervals_of(decided, bounded, error, decided.source)
        low, high = ends[some[:room]].T
        known |= {"ci_low": plain(low, 5), "ci_high": plain(high, 5)}
    return {**stop, "verdict": lines_of([told], family, [place]), **_allowed_for(told), **known}


def _allowed_for(wording: Wording) -> dict[str, object]:
    """Say how many rows are allowed for, with −log₁₀ of the p-value that a feature must be below to be selected."""
    share, p = percent(min(wording.plan.bad_shares)), rejection_p(wording.estimate)
    return {
        "words": f"{wording.shares} bad" if wording.names else f"{share} bad {wording.noun}s",
        "bar": None if p is None else round(float(-np.log10(p)), 4),
    }


# The values behind a feature, so that a reader can believe it.

MOST_VALUED, MOST_VALUES = 40, 200
"""Features whose values are on the page, the strongest, and how many of each group."""
MOST_READ = 20_000_000
"""Values that are read again for a picture."""


def values_data(estimate: Estimate, listed: IntArray, *, tests: int = 1) -> list[dict[str, object]]:
    """Return the values of the first of ``listed``, of the reference and of the label where there are groups.

    Suspects come apart, with their place among all of them, their group and their value. Of the other values there are
    evenly spaced order statistics, the smallest and the largest among them. Boxes are quartiles of all values.
    """
    shown = listed[: min(max(1, MOST_VALUED // tests), MOST_READ // max(1, estimate.plan.n_rows))]
    if estimate.source is None or not shown.size or (tests > 1 and not estimate.source.source.in_memory):
        return []  # where there are several tests each would read the file again
    columns = estimate.source.source.take(shown)
    rows = estimate.rows
    suspects = [] if rows is None else rows.suspects[:MOST_TOLD].tolist()
    labels = np.zeros(columns.shape[0], dtype=np.intp) if estimate.labels is None else estimate.labels
    sides = [labels == side for side in range(1 if estimate.labels is None else 2)]
    data = list[dict[str, object]]()
    for column in columns.T:
        there, trusted = [column[side & np.isfinite(column)] for side in sides], column.copy()
        trusted[suspects] = np.nan  # they are drawn for themselves
        others = [np.sort(trusted[side & np.isfinite(trusted)]) for side in sides]
        spread = [np.linspace(0, each.size - 1, min(each.size, MOST_VALUES)).round().astype(np.intp) for each in others]
        data.append(
            {
                "values": [plain(each[places], 4) for each, places in zip(others, spread, strict=True)],
                "boxes": [plain(np.quantile(each, (0.25, 0.5, 0.75)), 4) if each.size else [] for each in there],
                "n": [int(each.size) for each in there],
                "suspects": [
                    [k, side, *plain(column[[row]], 4)]
                    for k, row in enumerate(suspects)
                    for side, members in enumerate(sides)
                    if members[row] and np.isfinite(column[row])
                ],
            }
        )
    return data
