"""What things are called on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparsemean.errors import InputError

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Labels:
    """Title, names of rows and groups, and the words that depend on the kind of fit."""

    title: str
    row_names: tuple[str, ...] | None
    first_group: str
    second_group: str
    pairs: bool
    unit: str
    """``rows``, or ``subjects`` where rows come in groups."""

    @property
    def effect(self) -> str:
        """What the estimate is, in words."""
        return f"Shift, {self.second_group} minus {self.first_group}" if self.pairs else "Mean"

    @property
    def beta(self) -> str:
        """What β is, in words."""
        return "Cliff’s delta" if self.pairs else "β"

    def row(self, index: int) -> str:
        """Return the name of a row, its number counted from 0 where it has none."""
        return str(index) if self.row_names is None else self.row_names[index]


def labels_of(
    estimate: Estimate,
    *,
    title: str | None = None,
    row_names: Sequence[Any] | None = None,
    group_names: Sequence[Any] | None = None,
) -> Labels:
    """Take names as given, else from the data where the estimate still holds them."""
    n, pairs = estimate.plan.n_rows, estimate.labels is not None
    if row_names is None and estimate.source is not None and estimate.source.row_names is not None:
        row_names = estimate.source.row_names.tolist()
    if row_names is not None and (isinstance(row_names, str) or len(row_names) != n):
        raise InputError("row_names", f"have one name for each of the {n} rows", len(row_names))
    if group_names is not None and (len(group_names) != 2 or not pairs):
        rule = "have the names of the two groups" if pairs else "be left out where there is one group"
        raise InputError("group_names", rule, repr(group_names))
    if group_names is None:
        group_names = ("first group", "second group") if estimate.class_names is None else estimate.class_names.tolist()
    first, second = map(str, group_names)
    if title is None:
        title = f"What differs between {first} and {second}" if pairs else "Which features have a mean"
    return Labels(
        title=str(title),
        row_names=None if row_names is None else tuple(str(name) for name in row_names),
        first_group=first,
        second_group=second,
        pairs=pairs,
        unit="rows" if estimate.units is None else "subjects",
    )
