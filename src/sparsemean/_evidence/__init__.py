"""Evidence: what data say of hypotheses if so many rows are bad, one file a kind, and intervals by inversion."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from sparsemean._stats.planning import TESTS

if TYPE_CHECKING:
    from sparsemean._stats.decision import Evidence
    from sparsemean._util.plans import Plan
    from sparsemean._util.records import Counts, FloatArray


class OneSampleTest(Protocol):
    """What the file of a test of centres of one sample has; `planning.TESTS` names the file."""

    LEAVES_OUT_ZEROS: bool
    """Whether it speaks of the values that are not the null value, where many are."""

    def from_data(self, data: Any, counts: Counts) -> tuple[Evidence, Any]:
        """Return the evidence of a ``FitData`` and its counts of signs, and the data, with what was read for it.

        What the test has no answer for, of all that ``data.plan.question`` may ask, is refused here.
        """
        ...

    def intervals(self, levels: list[FloatArray], wanted: Sequence[int], plan: Plan, *, error: float) -> FloatArray:
        """Return the null values that are not rejected, as two rows.

        ``levels`` are means of nested buckets, the first of them the values; those that are ``wanted`` are sorted.
        """
        ...


def one_sample_test(name: str) -> OneSampleTest:
    """Return the file of a test."""
    return cast("OneSampleTest", import_module(f"{__name__}.{TESTS[name].file}"))
