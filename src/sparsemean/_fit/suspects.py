"""Rows of groups that look bad: labels that are contradicted, and rows that lie off from their own group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparsemean._evidence.groups import GroupTest
from sparsemean._evidence.ranks import EACH, Contrast
from sparsemean._stats import label_scores, row_scores
from sparsemean._stats.arrays import group_indices, medians
from sparsemean._stats.decision import Decision, MaxT, adjusted_by_holm
from sparsemean._stats.planning import MOST_ALLOWED
from sparsemean._stats.row_scores import screening_columns
from sparsemean._stats.standardized import StandardizedRows
from sparsemean._util.plans import BadRows, Shares
from sparsemean._util.records import FloatArray, IntArray, RowScores

if TYPE_CHECKING:
    from sparsemean._fit.two_sample import Design

MOST_LABELS = 12
"""Labels up to which rows are held against the medians of all of them, and not of their own alone."""
FARTHEST = 6.0
"""In median deviations: farther than that a column says no more of which label is near."""
ROWS_AT_ONCE = 64
"""Their values, some hundred kilobytes, stay in the cache while they are held against every label."""
TELLING = 0.2
"""Largest q-value of features that labels are judged by where few pass Holm's rule."""
ELSEWHERE = 2
"""Labels rows that a test does not look at."""


def sides_of(codes: IntArray, contrast: Contrast) -> IntArray:
    """Return 1 for rows of the label of a test, 0 for those of its reference and `ELSEWHERE` for all others."""
    reference = codes != contrast.label if contrast.reference < 0 else codes == contrast.reference
    return np.where(codes == contrast.label, 1, np.where(reference, 0, ELSEWHERE))


def rows_off(design: Design) -> RowScores:
    """Judge rows by how they lie about the medians of a label, in the columns that one sample is judged by.

    It is the label whose medians are nearest: a row with a wrong label is at home in another group, and not off.
    """
    columns = screening_columns(design.table.shape)
    values = design.table.source.take(columns)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too far is infinite; infinite units say nothing
        away = values - _nearest_medians(values, design.codes)
    return row_scores.judge_rows(StandardizedRows(away, features=columns), most=(design.codes.size - 1) // 2)


def _nearest_medians(values: FloatArray, codes: IntArray) -> FloatArray:
    """Return for each row the medians of its label, or of that whose medians it is nearest to, column by column."""
    centres = np.stack([medians(values[rows]) for _, rows in group_indices(codes)])
    if centres.shape[0] > MOST_LABELS:
        return centres[codes]
    unit = medians(np.abs(values - centres[codes]))
    telling = np.flatnonzero(unit > 0)  # of columns that are mostly zeros there are many, and they say nothing
    scaled = centres[:, telling] / unit[telling]
    away = np.empty((centres.shape[0], codes.size))
    for first in range(0, codes.size, ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        block = values[rows, telling] / unit[telling]
        for centre, out in zip(scaled, away[:, rows], strict=True):
            out[:] = np.nansum(np.minimum(np.abs(block - centre), FARTHEST), axis=1)
    nearest = np.argmin(away, axis=0)
    everyone = np.arange(codes.size)
    nearer = away[nearest, everyone] < away[codes, everyone]
    return np.asarray(centres[np.where(nearer, nearest, codes)])


def suspects_of(design: Design, test: GroupTest, decision: Decision, off: RowScores) -> RowScores:
    """Return the scores of labels in one test, and its suspects: contradicted labels first, then rows that are off."""
    labels = sides_of(design.codes, test.contrast)
    judged, features = _labels_judged(design, test, decision, labels)
    strange = {int(row) for row, kind in zip(off.suspects, off.kinds, strict=True) if kind != row_scores.LARGE}
    wrong = [at for at, row in enumerate(judged.suspects) if int(row) not in strange]  # at home in the other group
    named = set(judged.suspects[wrong].tolist())
    others = [at for at, row in enumerate(off.suspects) if labels[row] != ELSEWHERE and int(row) not in named]
    suspects = np.concatenate((judged.suspects[wrong], off.suspects[others])).astype(np.intp)
    weights = np.ones(labels.size)
    weights[suspects] = 0.0
    return RowScores(
        judged.scores,
        weights,
        suspects,
        aligned=sum(off.kinds[at] == row_scores.TOGETHER for at in others),
        reasons=(
            *(tuple(features[list(judged.against[at])].tolist()) for at in wrong),
            *(off.reasons[at] for at in others),
        ),
        kinds=(*((row_scores.LABEL,) * len(wrong)), *(off.kinds[at] for at in others)),
    )


def _labels_judged(
    design: Design, test: GroupTest, decision: Decision, labels: IntArray
) -> tuple[label_scores.LabelScores, IntArray]:
    """Judge the labels of rows by the features that differ where no row is bad; return these features too."""
    clean, n = np.flatnonzero(decision.last >= 0), labels.size
    # How many bad rows are allowed for may follow from this, not from the rule.
    if not any(bad.total for bad in decision.allowed):
        p = adjusted_by_holm(decision) if isinstance(decision.rule, MaxT) else decision.p_adjusted
        clean = np.flatnonzero(p <= decision.rule.level)
        # One wrong label among few rows takes most features below Holm's threshold, and still leaves many that tell.
        q = decision.q_values / decision.rule.scale
        if clean.size < label_scores.FEWEST_FEATURES <= np.sum(q <= TELLING):
            clean = np.flatnonzero(q <= TELLING)
    if not clean.size:
        return label_scores.LabelScores(np.zeros(n), np.empty(0, dtype=np.intp), ()), clean
    clean = np.sort(clean[label_scores.strongest(test.strength[clean], n)])
    classes = design.codes if test.contrast.reference < 0 else None
    side = np.where(labels == ELSEWHERE, -1, labels)
    values = design.table.source.take(clean)
    return label_scores.judge_labels(values, side, classes=classes, strata=design.strata), clean


def looking_bad(design: Design, contrast: Contrast, judged: RowScores) -> BadRows:
    """Return how many rows of either group look bad, a fifth at most; of each other label the largest share."""
    found = row_scores.count_by_group(sides_of(design.codes, contrast)[judged.suspects], judged.kinds)
    rows = contrast.rows
    bad = BadRows(
        min(found.reference, int(MOST_ALLOWED * rows.reference)), min(found.label, int(MOST_ALLOWED * rows.label))
    )
    if contrast.reference != EACH:
        return bad
    shares = [looking_bad(design, single, judged).shares(single.rows).reference for single in contrast.singles]
    return contrast.bad(Shares(max(shares), bad.label / rows.label))
