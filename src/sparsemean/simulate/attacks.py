"""Attacks by name: ``attacks.far_rows`` or ``get("far_rows")``; an option is bound with ``partial``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparsemean._util import checks
from sparsemean.simulate._adaptive import adaptive
from sparsemean.simulate._protocols import FloatArray, IntArray, Replacement, how_many, off_support

__all__ = [
    "adaptive",
    "available",
    "cauchy_rows",
    "constant_bias",
    "describe",
    "fake_support",
    "far_rows",
    "get",
    "linear_hiding",
    "mimic",
    "replaced_rows",
    "signed_support_shift",
    "support_shift",
    "tail_flipping",
]


def available() -> list[str]:
    """List the names that ``attack=`` accepts.

    Examples
    --------
    >>> "constant_bias" in available()
    True
    """
    return list(_ATTACKS)


def describe() -> dict[str, str]:
    """Say in one line what each attack does.

    Examples
    --------
    >>> print(describe()["mimic"])
    Take the mean away from the corrupted rows: x → x − mean, clean noise about zero.
    """
    return checks.summaries(_ATTACKS)


def get(name: str) -> Callable[..., Any]:
    """Return the attack called ``name``; its options are keywords.

    Examples
    --------
    >>> from functools import partial
    >>> from sparsemean.simulate import make_contaminated
    >>> attack = partial(get("replaced_rows"), location=40.0)
    >>> make_contaminated(20, 3, [5.0], attack=attack, random_state=0).corrupted
    array([18, 19])
    """
    otherwise = "None, or a function of X, mean, rng and corrupted"
    return checks.find(_ATTACKS, name, argument="attack", otherwise=otherwise)


# Dense heavy noise about zero in place of the corrupted rows.


def cauchy_rows(
    X: FloatArray,
    mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    scale: float = 10.0,
) -> FloatArray:
    """Replace the corrupted rows by scale·C, with C standard Cauchy, independent in every entry.

    Meant to defeat second moments and anything that trusts them, spectral filters among them: a few entries are
    arbitrarily large and no direction is preferred. The paper's `replaced_rows` is the same with a location, which
    makes its rows vote for a positive mean everywhere; these are centred at zero and vote for none.
    """
    return replaced_rows(X, mean, rng, corrupted, location=0.0, scale=scale)


# The attack of the paper's experiments: every corrupted row is moved by the same constant.


def constant_bias(
    X: FloatArray,
    _mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    bias: float = -2.0,
) -> FloatArray:
    """Add ``bias`` to every coordinate of the corrupted rows: x → x + bias·(1, …, 1).

    A corrupted row keeps its own noise, so it looks plausible in each coordinate; only the common shift of
    all coordinates tells. The paper uses −2 in every figure but the first.
    """
    return X[corrupted] + bias


# Features without a mean that the corrupted rows pretend to have one.


def fake_support(
    X: FloatArray,
    mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    n_features: int | None = None,
    shift: float = 10.0,
) -> FloatArray:
    """Add ``shift`` to a few coordinates outside the true support, the same ones in every corrupted row.

    Meant to get them selected, above all by methods that keep the k largest of something: with a fraction ε of the
    rows the ordinary mean of a fake feature is ε·shift. There are ``n_features`` of them, by default as many as true
    ones and at least one, drawn at random; fewer if there are not so many outside the support. Where every coordinate
    is in the support, they are drawn from it.
    """
    count = how_many(n_features, mean, argument="n_features")
    rows = X[corrupted]
    rows[:, off_support(mean, rng, count)] += shift
    return rows


# Gross outliers that agree with each other: every corrupted row is the same far point.


def far_rows(
    X: FloatArray,
    _mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    distance: float = 1e3,
) -> FloatArray:
    """Put all corrupted rows at one far point, ``distance`` away from zero in every coordinate, signs at random.

    Meant to defeat whatever averages, and estimators whose bounds grow with the diameter of the data. The point
    is √d·distance away in a dense direction, so the rows are easy to see for anyone who looks at rows. The
    textbook outlier; it has no source of its own.
    """
    point = np.where(rng.random(X.shape[1]) < 0.5, -distance, distance)
    return np.tile(point, (corrupted.size, 1))


# A false sparse mean in half of the corrupted rows, its variance hidden by the other half.

NORMAL_QUARTILE = 0.6744897501960817
"""The median of |Z| for a standard normal Z."""


def linear_hiding(
    X: FloatArray,
    mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    k: int | None = None,
    scale: float | None = None,
) -> FloatArray:
    """Draw half of the corrupted rows from scale·N(f, I) and half from scale·N(0, 2I − diag(f)).

    f is 1 on ``k`` coordinates outside the true support, by default as many as the support has and at least one. Meant
    to defeat filters that look for coordinates or directions of large variance: over both halves every coordinate has
    the second moment 3/2, on f and off it, so the coordinates with the false mean do not stand out. Neither half
    carries the true mean. An odd row goes to the first half.

    The source has Gaussian inliers of unit variance, ``scale=1.0``. Others may have no variance, so by default
    ``scale`` is measured as median |x − mean| / 0.6745 over all clean entries, which is 1 (up to sampling) for a
    standard normal. Where every coordinate is in the support, f is drawn from it.

    Source: experiments of Diakonikolas, Kane, Karmalkar, Price and Stewart, "Outlier-robust high-dimensional sparse
    estimation via iterative filtering", NeurIPS 2019.
    """
    f = np.zeros(mean.size)
    f[off_support(mean, rng, how_many(k, mean, argument="k"))] = 1.0
    unit = float(np.median(np.abs(X - mean))) / NORMAL_QUARTILE if scale is None else scale
    rows = rng.standard_normal((corrupted.size, mean.size))
    first = corrupted.size - corrupted.size // 2
    rows[:first] += f
    rows[first:] *= np.sqrt(2.0 - f)
    return unit * rows


# Rows of perfect noise that deny the mean.


def mimic(X: FloatArray, mean: FloatArray, _rng: np.random.Generator, corrupted: IntArray, /) -> FloatArray:
    """Take the mean away from the corrupted rows: x → x − mean, clean noise about zero.

    Meant to defeat every look at single rows: each coordinate has the law of the noise, off the support
    nothing is changed at all, and on it the rows say with one voice that there is no mean. Only a second cluster
    on the support tells. With an empty support the rows stay clean.
    """
    return X[corrupted] - mean


# The attack of the paper's first figure: gross outliers without a mean in place of the corrupted rows.


def replaced_rows(
    X: FloatArray,
    _mean: FloatArray,
    rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    location: float = 20.0,
    scale: float = 50.0,
) -> FloatArray:
    """Replace the corrupted rows by location + scale·C, with C standard Cauchy, independent in every entry.

    The median of a replaced entry is ``location``, its quartiles are ``location ± scale``; it has no
    expectation. The paper's nonconvex run has location 20, its convex run 40, both scale 50.
    """
    return location + scale * rng.standard_cauchy((corrupted.size, X.shape[1]))


# A shift that draws every true mean towards zero, and shows on the support only.


def signed_support_shift(
    X: FloatArray,
    mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    shift: float = -2.0,
) -> FloatArray:
    """Add shift·sign(mean) to the corrupted rows: towards zero if ``shift`` is negative, away from it if positive.

    Meant to defeat the screening of rows off the support, as `support_shift`, and to bias all true means at once:
    a common shift makes the means of one sign look smaller and those of the other sign larger, this one
    shrinks (or stretches) them all. With an empty support the rows stay clean.
    """
    return X[corrupted] + shift * np.sign(mean)


# A shift that shows on the support only.


def support_shift(
    X: FloatArray,
    mean: FloatArray,
    _rng: np.random.Generator,
    corrupted: IntArray,
    /,
    *,
    shift: float = -2.0,
) -> FloatArray:
    """Add ``shift`` to the coordinates of the true support and leave the others as they are.

    Meant to defeat the screening of rows off the support: nothing shows there. It is the paper's constant bias, and
    its −2, where it hurts and nowhere else. With an empty support the rows stay clean.
    """
    return X[corrupted] + np.where(mean != 0, shift, 0.0)


# The tail of a sparse direction, turned over.


def tail_flipping(
    X: FloatArray, mean: FloatArray, rng: np.random.Generator, corrupted: IntArray, /, *, k: int | None = None
) -> Replacement:
    """Negate the rows that lie lowest along a random k-sparse direction v: x → −x where x·v is smallest.

    Meant to defeat filters by moving the mean along a sparse direction without a row that is further out than some
    clean row was. It chooses its own rows, as many as it is allowed. v has normal entries on ``k`` coordinates
    drawn from all, by default as many as the true support has and at least one. Whole rows are negated, about zero,
    so on the support the signal of those rows is negated too.

    Source: experiments of Diakonikolas, Kane, Karmalkar, Price and Stewart, "Outlier-robust high-dimensional sparse
    estimation via iterative filtering", NeurIPS 2019.
    """
    d = X.shape[1]
    columns = rng.choice(d, size=min(how_many(k, mean, argument="k"), d), replace=False)
    along = X[:, columns] @ rng.standard_normal(columns.size)
    lowest = np.argsort(along, kind="stable")[: corrupted.size]
    return Replacement(-X[lowest], lowest)


_ATTACKS: dict[str, Callable[..., Any]] = {
    name: globals()[name] for name in __all__ if name not in ("available", "describe", "get")
}
