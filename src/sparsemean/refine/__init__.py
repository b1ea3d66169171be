"""Better values on the support, from rows: one method per file; every compared method may serve by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from sparsemean import baselines
from sparsemean.errors import InputError
from sparsemean.records import FloatArray, Located

Refinement: TypeAlias = str | Callable[[FloatArray, float], Any] | None
PUBLISHED = {"gd": "dense_gd", "filter": "sparse_filter"}
"""Names that the paper's full algorithms go by."""


def check(refine: Any) -> Refinement:
    """Return ``refine`` if it is None, "auto", the name of a compared method, or a callable.

    A compared method given as such, ``baselines.median``, is taken by its name.
    """
    if hasattr(refine, "facts"):
        return str(refine.facts.name)
    if refine is None or callable(refine) or (isinstance(refine, str) and refine in ("auto", *PUBLISHED)):
        return refine  # type: ignore[no-any-return]
    otherwise = f"'auto', {', '.join(map(repr, PUBLISHED))}, None or a function of X and contamination"
    baselines.get(refine, argument="refine", otherwise=otherwise)
    return str(refine)


def name_of(refine: Refinement) -> str:
    """Return what a plan calls a refinement; empty for none."""
    if callable(refine):
        return str(getattr(refine, "__name__", type(refine).__name__))
    return refine or ""


def refined(
    refine: Refinement,
    X: FloatArray,
    *,
    contamination: float,
    noise: str,
    random_state: Any,
    progress: Callable[[float], None] | None = None,
    centre: FloatArray | None = None,
) -> Located:
    """Estimate the mean of ``X``, rows by features of the support, of which a share may be wrong.

    "auto" leaves out what is missing (NaN); ``centre`` stands in for a feature of which nothing is left.
    """
    if refine == "auto":
        from sparsemean.refine.auto import auto

        return auto(X, contamination, noise, progress, centre)
    if callable(refine):
        return _called(refine, X, contamination)
    assert isinstance(refine, str)
    name = PUBLISHED.get(refine, refine)
    located = baselines.get(name).detailed(X, contamination=contamination, k=X.shape[1], random_state=random_state)
    if not np.isfinite(located.mean).all():
        raise InputError("refine", "name a method that works on these rows", repr(refine), "its mean is not finite")
    return located.said(name)


def _called(refine: Callable[[FloatArray, float], Any], X: FloatArray, contamination: float) -> Located:
    name = name_of(refine)
    rule = f"return {X.shape[1]} finite numbers, one for each column of X"
    try:
        mean = np.asarray(refine(X.copy(), contamination), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("refine", rule, f"{type(error).__name__} from {name}: {error}") from error
    if mean.shape != (X.shape[1],):
        raise InputError("refine", rule, f"shape {mean.shape} from {name}")
    if not np.isfinite(mean).all():
        raise InputError("refine", rule, f"NaN or infinity from {name}")
    return Located(mean, how=f"the function {name}")
