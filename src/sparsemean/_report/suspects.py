"""Rows that look bad, in words: how many there are, of which kinds, and what speaks against them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean._report import groups
from sparsemean._report.groups import Names
from sparsemean._stats.row_scores import FEW, LABEL, LARGE, TOGETHER, count_by_group
from sparsemean._util.checks import list_names, pluralize, unit_name
from sparsemean._util.plans import BadRows
from sparsemean._util.records import IntArray

if TYPE_CHECKING:
    from sparsemean.result import Estimate


def unit_of(estimate: Estimate) -> str:
    """Return what may be bad: a row, a subject, or a pair of rows."""
    return "pair" if estimate.paired else unit_name(estimate.units)


def judged(estimate: Estimate) -> bool:
    """Whether rows were looked at for bad ones."""
    rows = estimate.rows
    return rows is not None and (bool(estimate.plan.sizes) or bool(rows.scores.any()))


def looking_bad(estimate: Estimate) -> BadRows:
    """Return the number of rows (subjects) that "auto" takes for bad."""
    rows, labels = estimate.rows, estimate.labels
    if rows is None:
        return BadRows(0, 0)
    if labels is None or not estimate.plan.sizes:
        return BadRows(0, int(rows.aligned))
    return count_by_group(labels[rows.suspects], kinds_of(estimate))


def kinds_of(estimate: Estimate) -> tuple[str, ...]:
    """Return what each suspect is listed for; empty words in estimates that were saved before there were kinds."""
    rows = estimate.rows
    if rows is None or len(rows.kinds) == rows.suspects.size:
        return () if rows is None else rows.kinds
    return (LABEL if estimate.plan.walk.dealing == "pairs" else "",) * rows.suspects.size


def more_look_bad(estimate: Estimate) -> bool:
    """Whether more rows look bad than are allowed for: a fifth at most, and none where the same rows give the scale."""
    allowed, looks = estimate.plan.bad, looking_bad(estimate)
    return looks.reference > allowed.reference or looks.label > allowed.label


def suspected(estimate: Estimate, row_names: Sequence[Any] | None) -> str:
    """Name the suspects, kind by kind."""
    rows, unit = estimate.rows, unit_of(estimate)
    if rows is None or not judged(estimate):
        return ""
    if not rows.suspects.size:
        return "" if estimate.plan.auto else f"No {unit} looks bad."
    kinds = np.array(kinds_of(estimate))
    sentences = []
    for kind in ("", TOGETHER, LABEL, FEW, LARGE):
        which = np.flatnonzero(kinds == kind)
        if which.size:
            sentences.append(_of_kind(estimate, kind, which, row_names))
    return " ".join(sentences)


def _of_kind(estimate: Estimate, kind: str, which: IntArray, row_names: Sequence[Any] | None) -> str:
    """Name the suspects of one kind, and what speaks against them."""
    assert estimate.rows is not None
    suspects, reasons, unit = estimate.rows.suspects[which], estimate.rows.reasons, unit_of(estimate)
    number, of = suspects.size, ""
    if estimate.units is not None and estimate.labels is None:  # the rows of subjects
        number = np.unique(estimate.units[suspects]).size
        of = f" ({pluralize(suspects.size, 'row')})"
    one = number == 1
    counted = f"{pluralize(number, unit)}{of}"
    shown, note = called(estimate, suspects, row_names)
    if kind == LARGE:
        return (
            f"{counted} {'is' if one else 'are'} large throughout, as good {unit}s with a scale of their own may be, "
            f"and not counted as bad: {_stop(list_names(shown) + note)}"
        )
    if kind == FEW:
        told = [
            f"{name} ({list_names(groups.reasons(estimate, reasons[place], 3), 2)})" if reasons else str(name)
            for name, place in zip(shown, which.tolist(), strict=True)
        ]
        return f"{counted} {'is' if one else 'are'} far off in a few columns: {_stop(list_names(told) + note)}"
    if kind == LABEL:
        against = "contradicts its label" if one else "contradict their label"
        return f"{counted} {against}: {_stop(list_names(shown) + note)}"
    said = {"": ("contradicts the rest", "contradict the rest"), TOGETHER: ("lies off", "lie off together")}[kind]
    speaking = Counter(feature for place in which.tolist() for feature in (reasons[place] if reasons else ()))
    most = tuple(feature for feature, _ in speaking.most_common(4))
    where = f", most of all in {list_names(groups.reasons(estimate, most, 4), 3)}" if most else ""
    return f"{counted} {said[not one]}: {_stop(list_names(shown) + note + where)}"


def _stop(sentence: str) -> str:
    """Return a sentence with its full stop; three dots are one."""
    return sentence if sentence.endswith("…") else f"{sentence}."


def called(estimate: Estimate, rows: IntArray, row_names: Sequence[Any] | None = None) -> tuple[list[str | int], str]:
    """Return what rows are called, and what there is to say of numbers."""
    if row_names is not None:
        return [str(row_names[row]) for row in rows.tolist()], ""
    names = estimate.row_names(rows.tolist())
    return names, " (counted from 0)" if any(isinstance(name, int) for name in names) else ""


# Of several tests of groups.


def names_of_tests(estimates: Sequence[Estimate]) -> list[Names]:
    """Return the reference and the label of every test."""
    names = [groups.names_of(estimate) for estimate in estimates]
    return [each for each in names if each is not None]


def suspects_of_tests(estimates: Sequence[Estimate], row_names: Sequence[Any] | None = None) -> str:
    """Name rows that look like another group than their own, each where it looks worst, and rows off from their own."""
    found: dict[int, tuple[float, str]] = {}
    others: dict[str, set[int]] = {}
    for each, (_, label) in zip(estimates, names_of_tests(estimates), strict=True):
        if each.rows is None or each.labels is None:
            continue
        for row, kind in zip(each.rows.suspects.tolist(), kinds_of(each), strict=True):
            if kind != LABEL:
                others.setdefault(kind, set()).add(row)
                continue
            like = f"unlike {label}" if each.labels[row] == 1 else f"like {label}"
            found[row] = max(found.get(row, (-np.inf, "")), (float(each.rows.scores[row]), like))
    unit, sentences = unit_name(estimates[0].units), []
    if found:
        worst = np.array(sorted(found, key=lambda row: -found[row][0]), dtype=np.intp)
        shown, note = called(estimates[0], worst, row_names)
        told = [f"{name} ({found[row][1]})" for name, row in zip(shown, worst.tolist(), strict=True)]
        verb = "contradicts its label" if len(told) == 1 else "contradict their label"
        sentences.append(f"{pluralize(len(told), unit)} {verb}: {_stop(list_names(told) + note)}")
    for kind in (TOGETHER, FEW):
        if rows := sorted(others.get(kind, set()) - set(found)):
            shown, note = called(estimates[0], np.array(rows, dtype=np.intp), row_names)
            sentences.append(f"{pluralize(len(rows), unit)} {kind}: {_stop(list_names(shown) + note)}")
    return " ".join(sentences)
