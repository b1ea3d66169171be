from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from sparsemean._cli.benchmarks import files, timing
from sparsemean._cli.benchmarks.timing import measure


def test_last_number_is_returned() -> None:
    assert measure("print('words'); print(1.5)") == 1.5


def test_bytecode_and_cache_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    code = "import os, sys; print(float(sys.dont_write_bytecode), os.environ['NUMBA_CACHE_DIR'] == {!r} and 7.0)"
    assert measure(code.format(str(tmp_path)), cache=tmp_path) == 7.0
    assert measure("import sys; print(float(sys.dont_write_bytecode))") == 0.0


def test_functions_of_their_own_process_return_a_number_or_several() -> None:
    (peak,) = timing.apart(timing.peak_memory)
    assert 10e6 < peak < 1e12
    assert timing.apart(timing.at_least, 3.5) == [3.5, math.inf]


def test_failure_is_told() -> None:
    with pytest.raises(RuntimeError, match="no such thing"):
        measure("raise SystemExit('no such thing')")


def test_peak_of_a_known_allocation_despite_a_larger_parent() -> None:
    ballast = np.ones(40_000_000)
    imports = "import numpy; from sparsemean._cli.benchmarks import timing"
    code = f"{imports}; print(timing.peak_above(lambda: numpy.ones(5_000_000)))"
    assert measure(code) == pytest.approx(40, abs=2)
    assert ballast[-1] == 1


def test_peak_falls_back_on_getrusage(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resource")
    monkeypatch.setattr(Path, "exists", lambda _: False)
    assert 10e6 < timing.peak_memory() < 1e12


def test_memory_and_import_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SHAPE", {True: (500, 2000)})
    monkeypatch.setattr(files, "COMPARED_SHAPE", {True: (1000, 40)})
    values = [row.value for row in files.memory(quick=True, repeat=1)]
    assert len(values) == 3
    assert all(0 <= value < 100 for value in values)
    first = next(files.start(quick=True, repeat=1))
    assert first.name.startswith("import")
    assert 0 < first.value < 60
