"""Methods are timed as far as they may go, and power laws are recovered."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sparsemean.studies.figures import Options, runtime
from sparsemean.studies.figures.lower_bound import log_log
from sparsemean.studies.figures.runtime import Allowance, Climb


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 2.0])
def test_slope_of_a_power_law_is_its_exponent(exponent: float) -> None:
    x = np.array([1e2, 1e3, 5e3, 1e6])
    slope = log_log(x, 3 * x**exponent)
    assert slope.value == pytest.approx(exponent, abs=1e-12)
    assert slope.error == pytest.approx(0, abs=1e-7)
    assert slope.points == 4


def test_slope_and_its_standard_error_are_those_of_least_squares() -> None:
    from scipy.stats import linregress

    rng = np.random.default_rng(0)
    x = np.geomspace(1, 100, 9)
    y = x**0.5 * np.exp(0.1 * rng.standard_normal(9))
    expected = linregress(np.log(x), np.log(y))
    slope = log_log([*x, 5.0, 7.0], [*y, math.nan, 0.0])
    assert (slope.value, slope.error) == pytest.approx((expected.slope, expected.stderr))
    assert str(log_log([1, 10], [1, 100])) == "2.00"
    assert str(log_log([1], [1])) == str(log_log([2, 2], [1, 3])) == "n/a"


def test_wide_data_have_the_law_of_the_paper() -> None:
    from scipy.stats import kstest, t

    setting = replace(runtime.BASE, d=5000)
    data = runtime.draw(setting, seed=0)
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.corrupted, np.arange(540, 600))
    residual = data.X - data.mean
    residual[data.corrupted] += 2
    for part in (residual[:540, 4:404], residual[540:, :]):
        assert kstest(part.ravel()[:100_000].astype(float), t(3.1).cdf).pvalue > 1e-3
    np.testing.assert_allclose(np.median(residual, axis=0)[:4], 0, atol=0.3)
    np.testing.assert_array_equal(runtime.draw(setting, seed=0).X, data.X)


def test_a_method_stops_when_its_allowance_is_spent() -> None:
    climb = Climb(Allowance(seconds=1.0, repeating=0.0))
    climb.times = {10: 0.01, 100: 0.1}
    assert climb.expected() == pytest.approx(1.0)
    assert climb.may_try(1000, 1e6)
    climb.times[1000] = 0.9
    assert not climb.may_try(10_000, 1e6)
    assert climb.stopped == "10,000 features would take about 8 s"
    assert not Climb(Allowance()).may_try(10, runtime.MOST_BYTES * 2)
    slow = Climb(Allowance(seconds=0.0))
    assert slow.time(5, lambda: 3) == 3
    assert slow.stopped.startswith("5 features took")


def test_best_of_takes_the_shortest_and_keeps_the_answer() -> None:
    calls = iter(range(100))
    seconds, answer = runtime.best_of(lambda: next(calls), Allowance(repeats=3))
    assert answer == 2
    assert 0 <= seconds < 0.1


def test_it_is_made_and_reports_slopes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    monkeypatch.setattr(runtime, "QUICK_GRID", (100, 316))
    monkeypatch.setattr(runtime, "TAIL", 100)
    monkeypatch.setattr(runtime, "QUICK_ALLOWANCE", Allowance(seconds=5.0, repeating=0.0))
    outcome = runtime.make(Options(tmp_path, quick=True))
    assert list(outcome.table.method) == list(runtime.COLOURS)
    assert (outcome.table.largest_d == 316).all()
    times = pd.read_csv(tmp_path / "runtime.csv")
    part = times[(times.part == "wide") & (times.method == "stage_1")]
    assert outcome.table.slope_tail[0] == pytest.approx(log_log(part.d, part.seconds).value)
    published = times[(times.part == "published grid") & (times.method == "stage_1") & (times.d == 300)]
    assert published.published_seconds.item() == pytest.approx(1.522, abs=5e-4)
    assert outcome.images[0].stat().st_size > 10_000
