from __future__ import annotations

import inspect
import math
import subprocess
import sys

import numpy as np
import pytest

from sparsemean._cli import benchmarks
from sparsemean._cli.benchmarks import speed, timing
from sparsemean.errors import InputError

EXPECTED = {
    "against_median",
    "counting_pass",
    "growth",
    "memory",
    "paper_fit",
    "plain_iteration",
    "small",
    "start",
}
REST = np.zeros(3, dtype=np.intp), np.full((1, 3), -1)


def test_every_benchmark_is_found() -> None:
    assert set(benchmarks.available()) >= EXPECTED


@pytest.mark.parametrize("name", benchmarks.available())
def test_every_benchmark_says_what_it_is(name: str) -> None:
    case = benchmarks.find(name)
    assert case.__doc__


def test_small_problem() -> None:
    told: list[timing.Row] = []
    rows = benchmarks.run(["small"], quick=True, repeat=2, on_row=told.append)
    assert rows == told
    assert len(rows) == 4
    assert all(math.isfinite(row.value) and row.value > 0 and row.unit == "ms" for row in rows)
    assert [row.bar is not None for row in rows] == [True, True, True, False]  # none for the plain default


@pytest.mark.parametrize("name", ["paper_fit", "counting_pass", "against_median", "growth", "plain_iteration"])
def test_quick_ratios_are_positive_and_promise_nothing(name: str) -> None:
    rows = benchmarks.run([name], quick=True, repeat=1)
    assert rows
    assert all(math.isfinite(row.value) and row.value > 0 and row.unit == "×" for row in rows)
    assert all(row.bar is None and row.met is None for row in rows)


def test_groups_without_the_packages_to_compare_with_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed.importlib.util, "find_spec", lambda _: None)
    (row,) = benchmarks.run(["groups"], quick=True, repeat=1)
    assert "pip install illico scanpy" in row.name


def test_the_groups_benchmark_finds_what_differs() -> None:
    for kind in ("CSR", "dense"):
        labels = np.arange(3000) % 3
        X = speed.draw_counts(speed.Shape(kind, 3000, 200, 3), labels)
        assert 0.03 < np.mean((X.toarray() if kind == "CSR" else X) > 0) < 0.15
        found = speed.compare_groups(X, labels).support
        assert found.size
        assert set(found % 200 % 50) == {0}


def test_unknown_name_is_refused_before_anything_runs() -> None:
    told: list[timing.Row] = []
    with pytest.raises(InputError, match=r"names must be among .*small.*: got 'smal'"):
        benchmarks.run(["small", "smal"], quick=True, repeat=1, on_row=told.append)
    assert told == []


def test_repeat_is_checked() -> None:
    with pytest.raises(InputError, match="repeat"):
        benchmarks.run([], quick=True, repeat=0)


def test_import_loads_nothing_heavy() -> None:
    code = (
        "import sys, sparsemean._cli.benchmarks; sparsemean._cli.benchmarks.available();"
        "print([m for m in ('numba', 'sklearn', 'pandas', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_sketches_are_small_and_merged_from_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    from sparsemean._cli.benchmarks import files

    monkeypatch.setattr(files, "FEATURES", {True: 2000})
    monkeypatch.setattr(files, "FILES", {True: 3})
    each, ratio, peak = benchmarks.run(["sketches"], quick=True, repeat=1)
    assert 10 < each.value < 40
    assert ratio.value > 0
    assert peak.value >= 0


def test_the_default_fit_is_called_with_data_and_threads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed is what people call; other options are named in the row."""
    from sparsemean import SparseMean
    from sparsemean._cli.benchmarks import default_fit

    cases = ((600, 100, "float64", 4, 9.0, 15.0), (1000, 200, "float32", 4, 1.0, 1.0))
    asked: list[dict[str, object]] = []
    plain = SparseMean.__init__

    def noted(self: SparseMean, **options: object) -> None:
        asked.append(options)
        plain(self, **options)  # type: ignore[arg-type]

    noted.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
    monkeypatch.setattr(SparseMean, "__init__", noted)
    monkeypatch.setattr(default_fit, "CASES", cases)
    monkeypatch.setattr(default_fit, "ALL_SELECTED", {True: 60})
    monkeypatch.setattr(default_fit, "TALL", {True: (2000, 20)})
    monkeypatch.setattr(default_fit, "WIDE_SHAPE", {True: (200, 300)})
    rows = benchmarks.run(["default_fit"], quick=True, repeat=1)
    assert {tuple(options) for options in asked} == {("n_jobs",)}
    fits = [row for row in rows if row.detail.endswith("ranked")]
    assert [row.unit for row in fits] == ["ms", "ms", "×", "×"]
    for row, bad in zip(fits, (0, 30, 0, 50), strict=True):
        assert f"{bad} bad rows allowed for, 4 selected" in row.detail
    assert sum("printed / not" in row.name for row in rows) == 4
    assert all("contamination" in row.name for row in rows if "bucket" in row.name)
