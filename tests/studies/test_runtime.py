"""Methods are timed as far as they may go, and power laws are recovered."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sparsemean.studies.figures import Options, runtime
from sparsemean.studies.figures.lower_bound import log_log


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
    data = runtime.simulated(setting, seed=0)
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.corrupted, np.arange(540, 600))
    residual = data.X - data.mean
    residual[data.corrupted] += 2
    for part in (residual[:540, 4:404], residual[540:, :]):
        assert kstest(part.ravel()[:100_000].astype(float), t(3.1).cdf).pvalue > 1e-3
    np.testing.assert_allclose(np.median(residual, axis=0)[:4], 0, atol=0.3)
    np.testing.assert_array_equal(runtime.simulated(setting, seed=0).X, data.X)


def test_best_of_takes_the_shortest_and_keeps_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "REPEATS", 3)
    calls = iter(range(100))
    seconds, answer = runtime.best_of(lambda: next(calls))
    assert answer == 2
    assert 0 <= seconds < 0.1
    assert runtime.best_of(lambda: next(calls), warm=True)[1] == 6


def test_it_is_made_and_reports_slopes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    monkeypatch.setattr(runtime, "QUICK_GRID", (100, 300, 400))
    monkeypatch.setattr(runtime, "TAIL", 100)
    monkeypatch.setattr(runtime, "REPEATING", 0.0)
    monkeypatch.setattr(runtime, "QUICK_SECONDS", 60.0)
    monkeypatch.setattr(runtime, "MOST_BYTES", runtime.bytes_needed("sparse_GD", 600, 300))
    outcome = runtime.make(Options(tmp_path, quick=True))
    assert list(outcome.table.method) == list(runtime.METHODS)
    stopped = outcome.table.method.isin(runtime.QUADRATIC)
    assert list(outcome.table.largest_d) == [300 if stops else 400 for stops in stopped]
    assert outcome.table.stopped[stopped].str.startswith("400 features would need").all()
    assert not outcome.table.stopped[~stopped].any()
    times = pd.read_csv(tmp_path / "runtime.csv")
    part = times[times.method == "stage_1"]
    assert outcome.table.slope[0] == pytest.approx(log_log(part.d, part.seconds).value)
    assert part[part.d == 300].published_seconds.item() == pytest.approx(1.522, abs=5e-4)
    assert outcome.images[0].stat().st_size > 10_000


def test_a_method_stops_after_a_call_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "QUICK_GRID", (100, 300))
    monkeypatch.setattr(runtime, "METHODS", ("stage_1",))
    monkeypatch.setattr(runtime, "QUICK_SECONDS", 0.0)
    times, stopped = runtime.measure(Options(tmp_path, quick=True))
    assert list(times.d) == [100]
    assert stopped["stage_1"] == "100 features took 0 s"
