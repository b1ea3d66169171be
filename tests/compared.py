"""One test of two groups, and estimates changed by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

from sparsemean import Estimate
from sparsemean._data import as_table
from sparsemean._fit.two_sample import compare


def fit(data: Any, labels: Any, **options: Any) -> Estimate:
    """The estimate of the only test."""
    (estimate,) = compare(as_table(data), labels, **options).results.values()
    return estimate


def changed(estimate: Estimate, **fields: Any) -> Estimate:
    """The same estimate with other fields, of it or of the records in it."""
    inside = {}
    for part in ("located", "sample"):
        record = getattr(estimate, part)
        own = {item.name: fields.pop(item.name) for item in dataclasses.fields(record) if item.name in fields}
        inside[part] = dataclasses.replace(record, **own)
    return dataclasses.replace(estimate, **inside, **fields)
