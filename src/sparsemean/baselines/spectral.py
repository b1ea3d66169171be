"""What the spectral filters share: where they start, how much weight they may take, and when they stop.

Both need the variance of the uncorrupted rows along some directions. Their papers take it as known; here it is the
squared MAD of the rows along the same direction, which a minority of rows cannot move far and which grows with the
direction's own fit to the noise, so that no allowance for d/n is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparsemean.baselines.scales import deviations, lengths
from sparsemean.planning.fits import bad_rows
from sparsemean.records import FloatArray, IntArray, Located

EXCESS = 1.5
"""A variance up to this many squared MADs is left alone: what stays within it moves the mean by about √(ε/2) σ.

Ours, and chosen by trial: of 2 and 1.5, on 2000 Gaussian rows of 50 features with 10 % corrupted, 1.5 lets less through
and still leaves clean rows alone.
"""
REACH = 4.0
"""Rows farther than this over √ε median distances are dropped first; by Chebyshev few others are that far."""


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Rows that are not absurdly far, about the coordinate-wise median and in units of the median distance."""

    kept: IntArray
    rows: FloatArray


def near(X: FloatArray, reach: float) -> Near | None:
    """Return the rows within ``reach`` median distances, or None if half of the rows are at the median.

    With more features than rows, the rows come in coordinates of their own span: inner products are the same.
    """
    away = X - np.median(X, axis=0)
    distance = lengths(away)
    unit = float(np.median(distance))
    if unit == 0:
        return None
    kept = np.flatnonzero(distance <= reach * unit)
    rows = away[kept] / unit
    if rows.shape[1] > rows.shape[0]:
        rows = np.transpose(np.linalg.qr(rows.T)[1])
    return Near(kept, rows)


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """The rows to filter, and the weight that may be taken from them: 2ε of all, less the rows dropped already."""

    near: Near
    budget: float


def begin(X: FloatArray, contamination: float) -> Start | Located:
    """Return where a filter starts, or the answer where there is nothing to filter."""
    n = X.shape[0]
    bad = bad_rows(n, contamination)
    if bad == 0:
        return Located(X.mean(axis=0), weights=np.full(n, 1 / n))
    found = near(X, REACH * math.sqrt(n / bad))
    if found is None:
        return at_median(X)
    dropped = n - found.kept.size
    return Start(found, budget=float(max(min(2 * bad, n - 1) - dropped, 0)))


def at_median(X: FloatArray, why: str = "half of the rows are equal, so no scale can be had from them") -> Located:
    """Return the coordinate-wise median and say why; if all rows are equal there is nothing to say."""
    notes = (f"{why}: took the coordinate-wise median",) if np.any(X[0] != X) else ()
    return Located(np.asarray(np.median(X, axis=0)), notes=notes)


def finish(X: FloatArray, start: Near, w: FloatArray, *, rounds: int, note: str = "") -> Located:
    """Return the weighted mean of all rows."""
    weights = np.zeros(X.shape[0])
    weights[start.kept] = w / w.sum()
    return Located(weights @ X, iterations=rounds, converged=not note, notes=(note,) if note else (), weights=weights)


def centred(rows: FloatArray, w: FloatArray) -> FloatArray:
    """Return the rows about their weighted mean."""
    return np.asarray(rows - (w @ rows) / w.sum())


def covariance(about: FloatArray, w: FloatArray) -> FloatArray:
    """Return Σ wᵢ zᵢ zᵢᵀ / Σ wᵢ."""
    return np.asarray(about.T @ (w[:, np.newaxis] * about) / w.sum())


def top_direction(about: FloatArray, w: FloatArray) -> tuple[float, float, FloatArray]:
    """Return the top eigenvalue of the weighted covariance, the squared MAD along its vector, and the rows along it."""
    values, vectors = np.linalg.eigh(covariance(about, w))
    along = about @ vectors[:, -1]
    return max(float(values[-1]), 0.0), float(deviations(along[:, np.newaxis])[1][0] ** 2), np.asarray(along)


def still_heavy(variance: float, expected: float) -> str:
    """Say that the weight to be taken ran out."""
    ratio = f"{variance / expected:.3g} squared MADs" if expected > 0 else "positive where the MAD is zero"
    return f"took 2ε of the weight, and the variance along one direction is still {ratio}"


def outlying(w: FloatArray, scores: FloatArray) -> FloatArray:
    """Return each row's score as a share of the largest among rows that have weight."""
    return np.asarray(np.minimum(scores / scores[w > 0].max(), 1.0))


def lighten(w: FloatArray, share: FloatArray, budget: float) -> FloatArray:
    """Return w (1 − η share) with η = 1, or less so that no more than ``budget`` is taken in all."""
    return np.asarray(w * (1 - min(1.0, budget / float(w @ share)) * share))
