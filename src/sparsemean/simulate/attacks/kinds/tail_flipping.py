"""The tail of a sparse direction, turned over."""

from __future__ import annotations

import numpy as np

from sparsemean.simulate.protocols import FloatArray, IntArray, Replacement
from sparsemean.simulate.targets import how_many

__all__ = ["tail_flipping"]


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
