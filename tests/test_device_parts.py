"""The parts of a fit on a device, each against what it stands in for; and what an estimate leaves there."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import specification

import sparsemean as sm
from sparsemean._data import as_table
from sparsemean._evidence.signs import of_signs, strongest_signs
from sparsemean._kernels import gpu
from sparsemean._kernels.gpu_blocks import Columns
from sparsemean._kernels.rounding import settled_means
from sparsemean._stats import assumptions
from sparsemean._stats.arrays import any_on_device, on_host
from sparsemean._stats.buckets import assign_block_buckets, assign_paper_buckets
from sparsemean._stats.decision import Holm, decide
from sparsemean._stats.nulls import sign_test_stages
from sparsemean._util.plans import BadRows
from sparsemean._util.records import Counts, Partition
from sparsemean.simulate import make_contaminated

from emulated import needs_compiler
from fakecupy import moved

pytestmark = [needs_compiler, pytest.mark.usefixtures("cupy")]
LEFT = ("counts", "decision")
DECIDED = ("support", "p_values", "log_p", "p_adjusted", "q_values", "last", "max_contamination", "radius")
ANSWERS = ("support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination", "beta", "bucket_size")


def counts_of(seed: int, zeros: float, buckets: tuple[int, ...], d: int = 80) -> Counts:
    rng = np.random.default_rng(seed)
    share = np.where(rng.random(d) < 0.3, rng.uniform(0.6, 1, d), 0.5)
    nonzero = np.stack([rng.binomial(J, 1 - zeros, d) for J in buckets]).astype(np.int32)
    positive = rng.binomial(nonzero, share).astype(np.int32)
    return Counts(positive, nonzero - positive, np.full(d, np.inf), buckets)


@pytest.mark.parametrize("bad_rows", [0, 1, 4, 9, 12, 40])
@pytest.mark.parametrize("zeros", [0.0, 0.004, 0.3])
@pytest.mark.parametrize("buckets", [(128, 64, 32), (128, 64, 32, 16, 8), (97,)])
def test_decisions_where_sizes_drop_out(buckets: tuple[int, ...], zeros: float, bad_rows: int) -> None:
    here = counts_of(3, zeros, buckets)
    stages = sign_test_stages(buckets, error=0.05 / 80, sides=2)
    plain, there = (
        decide(replace(of_signs(counts, buckets[0]), stages=stages), Holm(0.05), (BadRows(0, bad_rows),))
        for counts in (here, moved(here))
    )
    assert any_on_device(there.radius)
    for copied in (there, on_host(there)):
        for name in DECIDED:
            expected, found = getattr(plain, name), on_host(getattr(copied, name))
            np.testing.assert_array_equal(found, expected, err_msg=name)
            assert found.dtype == expected.dtype


def test_more_features_than_come_in_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    here = counts_of(4, 0.1, (128, 64, 32))
    plain = decide(of_signs(here, 128), Holm(0.05), (BadRows(0, 3),))
    monkeypatch.setattr(gpu, "ROWS_TO_HOST", 2)
    there = decide(of_signs(moved(here), 128), Holm(0.05), (BadRows(0, 3),))
    for name in DECIDED:
        np.testing.assert_array_equal(on_host(getattr(there, name)), getattr(plain, name), err_msg=name)
    for one, other in zip(
        of_signs(here, 128).best_size((BadRows(0, 3),)),
        of_signs(moved(here), 128).best_size((BadRows(0, 3),)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, on_host(other))


@pytest.mark.parametrize("gaps", [False, True])
def test_beta_at_the_best_size(gaps: bool) -> None:
    here = counts_of(5, 0.2, (40, 20, 10))
    if gaps:
        present = here.positive + here.negative
        present[:, 0] = here.positive[:, 0] = here.negative[:, 0] = 0
        here = replace(here, present=present)
    plan = as_plan(40, 80)
    expected, found = strongest_signs(plan, here), strongest_signs(plan, moved(here))
    assert np.unique(expected[1]).size > 1
    for a, b in zip(expected, found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, on_host(b))


def as_plan(n: int, d: int) -> Any:
    from sparsemean._stats.planning import plan_fit

    return plan_fit(n, d, test="buckets", bucket_sizes=(1, 2, 4))


PARTITIONS = {
    "blocks": assign_block_buckets(131, (1, 2, 4), 0),
    "one row": assign_block_buckets(1, (1, 2), 0),
    "subjects": assign_block_buckets(131, (1, 2), 0, units=np.arange(131) // 3),
    "paper": assign_paper_buckets(131, 9, 0),
}


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("order", ["C", "F", "apart"])
@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize("partition", PARTITIONS.values(), ids=PARTITIONS)
def test_bucket_means_of_a_few_columns(partition: Partition, null: bool, order: str, kind: str) -> None:
    values, there = laid_out(partition.order.size, kind, order)
    columns = np.array([7, 0, 3])
    shift = np.array([0.5, -3e3, 1e-300]) if null else None
    options = {} if shift is None else {"null": shift, "precision": 2.0 ** gpu.PRECISION[kind]}
    plain = np.asarray(values[:, columns], dtype=np.float64)
    found = Columns(there, kind, columns, shift).level_means(partition, partition.depth)
    assert len(found) == partition.depth
    if shift is None:
        every = [specification.bucket_means(plain, partition, level=level) for level in range(partition.depth)]
    else:  # sums are row by row here, as the specification has it
        away = plain - shift
        means, sizes = (
            [specification.bucket_means(x, partition, level=level) for level in range(partition.depth)]
            for x in (away, np.abs(away))
        )
        every = settled_means(means, sizes, partition, **options)
    for expected, of_level in zip(every, found, strict=True):
        np.testing.assert_array_equal(on_host(of_level).T, expected)


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_skewness_of_groups_of_rows(order: str, kind: str) -> None:
    values, there = laid_out(131, kind, order)
    rows, size = assumptions.dealt_rows(131)
    columns = np.arange(8)
    expected = assumptions._skewness(values[rows].reshape(-1, size, 8))
    np.testing.assert_array_equal(on_host(Columns(there, kind, columns).skewness(rows, size)), expected)


def laid_out(n: int, kind: str, order: str) -> tuple[Any, Any]:
    """Values as doubles, and on the device: ties, zeros of both signs, a constant column, huge and tiny numbers."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 8))
    X[:, 1] = rng.integers(-1, 2, n)
    X[:, 2], X[::2, 3] = 2.5, -0.0
    X[:, 4] *= 1e3 if kind == "float16" else 1e30
    X[:, 5] *= 1e-7 if kind == "float16" else 1e-38
    if kind == "bfloat16":
        bits = (X.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        stored, values = bits.view(np.int16), (bits.astype(np.uint32) << 16).view(np.float32)
    else:
        stored = values = X.astype(kind)
    if order == "apart":
        wide = np.zeros((2 * n, 24), dtype=stored.dtype)
        wide[::2, ::3] = stored
        return values.astype(np.float64), moved(wide)[::2, ::3]
    return values.astype(np.float64), moved(np.asarray(stored, order=order))  # type: ignore[call-overload]


# What an estimate leaves on the device until it is asked for.


@pytest.fixture
def pair() -> tuple[Any, Any]:
    X = make_contaminated(300, 60, [10, -5, -4, 2], contamination=0.05, random_state=0).X
    options: dict[str, Any] = {"test": "buckets", "contamination": 0.05, "random_state": 0, "refine": None}
    return sm.sparse_mean(moved(np.asarray(X)), **options), sm.sparse_mean(X, **options)


def agree(found: Any, expected: Any) -> None:
    for name in (*ANSWERS, "mean", "intervals", "entry_time"):
        here = getattr(found, name)
        assert isinstance(here, np.ndarray), name
        np.testing.assert_array_equal(here, getattr(expected, name), err_msg=name)


def test_an_estimate_moves_what_is_asked_for(pair: tuple[Any, Any]) -> None:
    found, expected = pair
    assert set(found._there) == set(LEFT)
    assert not any(name in vars(found) for name in LEFT)
    assert isinstance(found.beta, np.ndarray)
    assert set(found._there) == set(LEFT) - {"counts"}
    assert found.beta is found.beta
    agree(found, expected)
    assert not any_on_device(found.counts)
    assert not any_on_device(found.decision.evidence)
    with pytest.raises(AttributeError, match="no attribute 'gamma'"):
        _ = found.gamma
    assert "_there" not in vars(expected)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_copies_and_pickles_lie_on_the_host(pair: tuple[Any, Any], again: Any) -> None:
    found, expected = pair
    there = again(found)
    assert "_there" not in vars(there)
    assert not any(map(any_on_device, vars(there).values()))
    agree(there, expected)
    agree(found, expected)


def test_a_changed_estimate_keeps_what_was_left(pair: tuple[Any, Any]) -> None:
    found, expected = pair
    agree(replace(found, seed=5), expected)
    assert replace(found, seed=5).seed == 5


def test_a_saved_estimate_comes_back(pair: tuple[Any, Any], tmp_path: Path) -> None:
    found, expected = pair
    found.save(tmp_path / "found")
    expected.save(tmp_path / "expected")
    first, second = (sm.load(next(tmp_path.glob(f"{name}*"))) for name in ("found", "expected"))
    for name in (*ANSWERS, "mean", "intervals"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


def test_the_source_is_the_array_on_the_device(pair: tuple[Any, Any]) -> None:
    found, expected = pair
    assert type(found.source) is type(as_table(np.zeros((2, 2))))
    same = found.at(0.1)
    np.testing.assert_array_equal(same.p_values, expected.at(0.1).p_values)
