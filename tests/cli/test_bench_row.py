from __future__ import annotations

import math

import pytest

from sparsemean._cli.benchmarks.timing import Bar, Row, at_least


def row(value: float, bar: Bar | None) -> Row:
    return Row("what", value, "×", bar=bar)


@pytest.mark.parametrize(
    ("value", "bar", "met"),
    [
        (0.5, None, None),
        (0.8, 0.8, True),
        (0.81, 0.8, False),
        (200.0, at_least(200), True),
        (1e9, at_least(200), True),
        (199.9, at_least(200), False),
        (1.7, (1.7, 2.3), True),
        (2.31, (1.7, 2.3), False),
        (1.69, (1.7, 2.3), False),
        (math.nan, 0.8, False),
    ],
)
def test_met(value: float, bar: Bar | None, met: bool | None) -> None:
    assert row(value, bar).met is met


@pytest.mark.parametrize(
    ("bar", "text"), [(None, ""), (0.8, "≤ 0.8"), (at_least(200), "≥ 200"), ((1.7, 2.3), "1.7 – 2.3")]
)
def test_bar_text(bar: Bar | None, text: str) -> None:
    assert row(1.0, bar).bar_text == text


def test_rows_are_frozen() -> None:
    with pytest.raises(AttributeError):
        row(1.0, None).value = 2.0  # type: ignore[misc]
