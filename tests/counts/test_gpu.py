"""The GPU's way from array to answer, with a stand-in for the device: the same decisions as on the host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsemean as sm
from sparsemean._data import as_table, open_file
from sparsemean._data.gpu import sent
from sparsemean._evidence.counting.engines import Engine
from sparsemean._evidence.counting.engines import gpu as engine
from sparsemean._fit.one_sample import fit
from sparsemean._stats.arrays import on_device, on_host
from sparsemean._stats.buckets import assign_block_buckets
from sparsemean._util.records import BucketSpec
from sparsemean.errors import InputError
from sparsemean.simulate import make_contaminated

from emulated import Emulated, needs_compiler
from kinds import written

pytestmark = needs_compiler
EXACT = ("p_values", "p_adjusted", "q_values", "radius", "max_contamination", "beta", "bucket_size", "support")


def problem(n: int = 300, d: int = 60) -> np.ndarray:
    return np.asarray(make_contaminated(n, d, [10, -5, -4, 2], contamination=0.05, random_state=0).X)


def same_decisions(found: Any, expected: Any) -> None:
    for name in EXACT:
        np.testing.assert_array_equal(on_host(getattr(found, name)), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int32"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_on_a_device_is_fitted_as_on_the_host(cupy: Any, kind: str, order: str) -> None:
    X = np.asarray(problem().round(3), dtype=kind, order=order)  # type: ignore[call-overload]
    options = {"contamination": 0.05, "random_state": 0}
    found, expected = sm.sparse_mean(cupy.asarray(X), **options), sm.sparse_mean(X, **options)
    same_decisions(found, expected)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.intervals, expected.intervals, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(found.rows.suspects, expected.rows.suspects)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "options",
    [
        {"selection": "fdr"},
        {"selection": "fdr_by"},
        {"target": "mean", "scale": 4.0},
        {"null": 1.0},
        {"bucket_sizes": (1, 4, 16)},
        {"missing": "omit"},
        {"n_buckets": 100},
        {"selection": "paper", "refine": None},
    ],
    ids=lambda options: next(iter(options)),
)
def test_every_rule_decides_alike(cupy: Any, options: dict[str, Any]) -> None:
    X = problem(d=20 if "null" in options else 60)  # all columns are selected there
    if options.get("missing") == "omit":
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    options = {"random_state": 1, **options}
    found, expected = sm.sparse_mean(cupy.asarray(X), **options), sm.sparse_mean(X, **options)
    same_decisions(found, expected)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-10)


def test_subjects(cupy: Any) -> None:
    X, groups = problem(), np.arange(300) // 2
    options = {"groups": groups, "random_state": 0}
    same_decisions(sm.sparse_mean(cupy.asarray(X), **options), sm.sparse_mean(X, **options))


def test_what_is_decided_stays_on_the_device(cupy: Any) -> None:
    X = problem()
    found, expected = sm.certify(cupy.asarray(X), random_state=0), sm.certify(X, random_state=0)
    assert all(on_device(getattr(found, name)) for name in EXACT)
    same_decisions(found, expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["float64", "float32", "int16", ">f4"])
@pytest.mark.parametrize("room", [300 * 8 * 4, 300 * 8 * 64, 10**6])
def test_what_lies_on_the_host_is_sent_in_pieces(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, kind: str, order: str, room: int
) -> None:
    monkeypatch.setattr(engine, "SENT_BYTES", room)
    X = np.asarray(problem(d=150).round(), dtype=kind, order=order)  # type: ignore[call-overload]
    found = sm.sparse_mean(X, random_state=0, device="gpu", n_jobs=2)
    expected = sm.sparse_mean(X, random_state=0)
    same_decisions(found, expected)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["csv", "npz", "zarr", "parquet"])
def test_files_are_sent_the_way_they_like_to_be_read(cupy: Any, tmp_path: Path, name: str) -> None:
    X = problem(n=200, d=20).round(2)
    path = written(name, tmp_path, X)

    same_decisions(fit(open_file(path), random_state=0, device="gpu"), fit(open_file(path), random_state=0))


def test_pieces_of_rows_add_up(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that lies by rows sends stripes of rows, each dealt by its own part of the partition."""
    from scipy import sparse

    monkeypatch.setattr("sparsemean._evidence.counting.engines.AT_ONCE", 64 * 20 * 8)
    X = problem(n=500, d=20).round()
    table = as_table(sparse.csr_array(X))
    dealt = assign_block_buckets(500, (1, 2, 4), seed=0)
    found, kept = engine.GpuEngine().count(sent(table, "gpu"), BucketSpec(dealt), keep=np.array([3, 7]))
    expected, _ = Engine().count(as_table(X), BucketSpec(dealt))
    np.testing.assert_array_equal(on_host(found).positive, expected.positive)
    np.testing.assert_array_equal(on_host(found).nearest, expected.nearest)
    np.testing.assert_array_equal(kept, X[:, [3, 7]])


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_named(cupy: Any, resident: bool, bad: float) -> None:
    X = problem()
    X[17, 40] = bad
    with pytest.raises(
        InputError, match=r"X must not contain NaN or infinity: got (NaN|infinity) in column 40, row 17"
    ):
        sm.sparse_mean(cupy.asarray(X) if resident else X, device=None if resident else "gpu")


def test_no_gpu_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", Emulated(devices=0))
    with pytest.raises(InputError, match="device must be 'cpu', as there is no GPU here: got 'gpu'"):
        sm.sparse_mean(problem(), device="gpu")


def test_too_little_memory_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", Emulated(limit=1000))
    with pytest.raises(InputError, match="device must have 12,000 bytes free, for 4 columns: got 1,000 bytes"):
        sm.sparse_mean(problem(), device="gpu")


def test_one_column_may_be_more_than_is_sent_at_once(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SENT_BYTES", 100)
    X = problem(d=8)
    same_decisions(sm.sparse_mean(X, random_state=0, device="gpu"), sm.sparse_mean(X, random_state=0))


def test_what_goes_wrong_after_the_counting_is_one_line_too(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class OutOfMemoryError(Exception): ...

    def full(*_: Any, **__: Any) -> Any:
        raise OutOfMemoryError("Out of memory allocating 8,000 bytes")

    monkeypatch.setattr("sparsemean._kernels.gpu.reaching", full)
    for call in (sm.sparse_mean, sm.certify):
        with pytest.raises(InputError, match="device must have enough memory: got Out of memory"):
            call(cupy.asarray(problem()), test="buckets")


def test_a_device_that_is_full_is_said_in_one_line(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class OutOfMemoryError(Exception): ...

    def full(*_: Any, **__: Any) -> Any:
        raise OutOfMemoryError("Out of memory allocating 8,000 bytes")

    monkeypatch.setattr("sparsemean._kernels.gpu.DeviceCounts.add", full)
    with pytest.raises(InputError, match="device must have enough memory: got Out of memory"):
        sm.sparse_mean(cupy.asarray(problem()))


@pytest.mark.parametrize(
    ("device", "match"),
    [
        ("tpu", "device must be None, 'cpu' or 'gpu': got 'tpu'"),
        ("cpu", "device must be that of X: got 'cpu' for data"),
    ],
)
def test_mixed_devices_are_refused(cupy: Any, device: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        sm.sparse_mean(cupy.asarray(problem()), device=device)


def test_null_values_on_a_device_are_refused_for_data_on_the_host(cupy: Any) -> None:
    with pytest.raises(InputError, match="null must lie on the host"):
        sm.sparse_mean(problem(), null=cupy.zeros(60))
    with pytest.raises(InputError, match="groups must lie on the host"):
        sm.sparse_mean(problem(), groups=cupy.zeros(300))


def test_null_values_may_lie_where_the_data_do(cupy: Any) -> None:
    X, null = problem(d=20), np.linspace(-1, 1, 20)
    found = sm.sparse_mean(cupy.asarray(X), null=cupy.asarray(null), random_state=0)
    same_decisions(found, sm.sparse_mean(X, null=null, random_state=0))


def test_estimators_take_arrays_on_a_device(cupy: Any) -> None:
    X = problem()
    est = sm.SparseMean(random_state=0).fit(cupy.asarray(X))
    expected = sm.SparseMean(random_state=0).fit(X)
    np.testing.assert_array_equal(on_host(est.support_), expected.support_)
    np.testing.assert_array_equal(on_host(est.transform(cupy.asarray(X))), expected.transform(X))
    assert est.n_features_in_ == 60
    assert on_device(est.mean_)
    assert on_device(est.transform(cupy.asarray(X)))
    np.testing.assert_array_equal(est.get_support(), expected.get_support())
    assert est.result_.interval([0, 1]).shape == (2, 2)


def test_chunks_may_come_from_a_device(cupy: Any) -> None:
    X = problem()
    est = sm.SparseMean(contamination=0, random_state=0)
    for first in range(0, 300, 70):
        est.partial_fit(cupy.asarray(X[first : first + 70]))
    same_decisions(est.result_, sm.sparse_mean(X, contamination=0, random_state=0, test="buckets"))


def test_the_road_loads_neither_numba_nor_scikit_learn() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests'); import emulated; sys.modules['cupy'] = emulated.Emulated();"
        "import numpy as np, sparsemean as sm; X = np.random.default_rng(0).standard_normal((300, 50)); X[:, 0] += 3;"
        "fake = sys.modules['cupy'];"
        "options = dict(random_state=0, test='buckets'); X = fake.asarray(X);"
        "sm.certify(X, **options); e = sm.sparse_mean(X, **options, {0});"
        "assert 0 in e.support; print(*{{'numba', 'sklearn'}} & set(sys.modules))"
    )
    root = Path(__file__).parents[2]
    for options in ("refine=None", "refine=None, screen_rows=False"):
        done = subprocess.run(
            [sys.executable, "-c", code.format(options)], capture_output=True, text=True, check=True, cwd=root
        )
        assert done.stdout.split() == []
