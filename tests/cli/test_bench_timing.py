from __future__ import annotations

from collections.abc import Callable

import pytest

from sparsemean._cli.benchmarks import timing
from sparsemean._cli.benchmarks.timing import best_times


class FakeClock:
    """Time stands still until a side is called; each call takes the next of its durations."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def side(self, name: str, *durations: float) -> Callable[[], None]:
        left = list(durations)

        def call() -> None:
            self.calls.append(name)
            self.now += left.pop(0)

        return call


def test_sides_take_turns_and_the_best_of_each_counts() -> None:
    clock = FakeClock()
    times = best_times(clock.side("a", 5.0, 2.0, 3.0), clock.side("b", 1.0, 4.0, 0.5), repeat=3, clock=clock)
    assert clock.calls == ["a", "b"] * 3
    assert times == pytest.approx((2.0, 0.5))


def test_three_sides() -> None:
    clock = FakeClock()
    sides = [clock.side(name, duration) for name, duration in (("a", 1.0), ("b", 2.0), ("c", 3.0))]
    assert best_times(*sides, repeat=1, clock=clock) == pytest.approx((1.0, 2.0, 3.0))


def test_what_is_done_before_takes_no_part() -> None:
    clock = FakeClock()
    side, before = clock.side("a", 2.0, 1.0), clock.side("cold", 7.0, 9.0)
    assert best_times(side, repeat=2, clock=clock, before=before) == pytest.approx((1.0,))
    assert clock.calls == ["cold", "a"] * 2


def test_a_ratio_says_what_it_is_of() -> None:
    row = timing.ratio("a / b", 0.091, 0.164, 0.5)
    assert (row.value, row.unit, row.met) == (pytest.approx(0.555, abs=1e-3), "×", False)
    assert row.detail == "91 ms against 164 ms"


def test_words() -> None:
    assert timing.against(0.091, 0.164) == "91 ms against 164 ms"
    assert timing.size(9999) == "9999"
    assert timing.size(100_000) == "100,000"
