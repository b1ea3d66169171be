"""One test of two groups."""

from __future__ import annotations

from typing import Any

from sparsemean import Estimate
from sparsemean._data import as_table
from sparsemean._fit.two_sample import compare


def fit(data: Any, labels: Any, **options: Any) -> Estimate:
    """The estimate of the only test."""
    (estimate,) = compare(as_table(data), labels, **options).results.values()
    return estimate
