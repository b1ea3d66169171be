"""The GPU's kernel against the specification, run by an ordinary compiler in place of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparsemean._kernels import NotFiniteError, gpu, reference
from sparsemean._stats.buckets import assign_block_buckets, assign_paper_buckets
from sparsemean._util.records import Counts, Partition

from emulated import needs_compiler
from fakecupy import Array

pytestmark = needs_compiler
KINDS = ("float64", "float32", "float16", "bfloat16")


def as_kind(x: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return values of a kind as they lie on a device, and as float64."""
    if kind != "bfloat16":
        return x.astype(kind), x.astype(kind).astype(np.float64)
    bits = (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint32)
    return bits.astype(np.uint16).view(np.int16), (bits << 16).view(np.float32).astype(np.float64)


def agree(found: Counts, expected: Counts) -> None:
    assert found.n_buckets == expected.n_buckets
    for name in ("positive", "negative", "nearest", "present", "missing"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_array_equal(one.get(), other, err_msg=name)


def compare(xp: Any, x: np.ndarray, kind: str, partition: Partition, shift: Any = None, missing: bool = False) -> None:
    raw, plain = as_kind(x, kind)
    moved = None if shift is None else xp.asarray(shift)
    found = gpu.count_signs(xp.asarray(raw), partition, null=moved, missing=missing, kind=kind)
    precision = 2.0 ** gpu.PRECISION[kind]
    agree(found, reference.count_signs(plain, partition, missing=missing, null=shift, precision=precision))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(1, 2, 4), (1,), (2, 8), (1, 2, 4, 8, 16), (64,), (4,)])
def test_counts_are_those_of_the_specification(cupy: Any, kind: str, sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(sum(sizes))
    for n, d in [(1, 8), (3, 4), (64, 520), (100, 3), (199, 8), (260, 64)]:
        x = rng.standard_t(2, size=(n, d))
        compare(cupy, x, kind, assign_block_buckets(n, sizes, seed=n))
        compare(cupy, x.round(), kind, assign_block_buckets(n, sizes, seed=n))  # ties and zeros


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_of_both_signs(cupy: Any, kind: str) -> None:
    x = np.random.default_rng(0).choice([-1.0, -0.0, 0.0, 1.0], size=(200, 64))
    compare(cupy, x, kind, assign_block_buckets(200, (1, 2, 4), seed=0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 7, 8])
def test_what_is_missing_is_left_out(cupy: Any, kind: str, d: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((150, d))
    x[rng.random(x.shape) < 0.3] = np.nan
    compare(cupy, x, kind, assign_block_buckets(150, (1, 2, 4), seed=0), missing=True)


@pytest.mark.parametrize("kind", KINDS)
def test_null_values_are_taken_off(cupy: Any, kind: str) -> None:
    rng = np.random.default_rng(2)
    for d in (8, 5):
        shift = rng.standard_normal(d).round(1)
        compare(
            cupy,
            rng.standard_normal((130, d)).round(1),
            kind,
            assign_block_buckets(130, (1, 2, 4), seed=0),
            shift=shift,
        )


@pytest.mark.parametrize("kind", KINDS)
def test_subjects_and_the_papers_buckets(cupy: Any, kind: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((180, 12))
    units = np.unique(rng.integers(0, 60, 180), return_inverse=True)[1]
    compare(cupy, x, kind, assign_block_buckets(180, (1, 2, 4), seed=0, units=units))
    compare(cupy, x, kind, assign_paper_buckets(180, 50, seed=0))


@pytest.mark.usefixtures("cupy")
def test_rows_that_lie_apart_and_columns_that_do_not_align() -> None:
    rng = np.random.default_rng(4)
    whole = rng.standard_normal((140, 40)).astype(np.float32)
    dealt = assign_block_buckets(70, (1, 2, 4), seed=0)
    for view in (whole[::2, 3:20], whole[:70, 1:17], whole[::2]):
        found = gpu.count_signs(Array(view), dealt)
        agree(found, reference.count_signs(view, dealt))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_noticed(cupy: Any, kind: str, bad: float) -> None:
    x = np.random.default_rng(5).standard_normal((130, 8))
    for row in (0, 100, 129):
        spoiled = x.copy()
        spoiled[row, 3] = bad
        with pytest.raises(NotFiniteError):
            gpu.count_signs(
                cupy.asarray(as_kind(spoiled, kind)[0]), assign_block_buckets(130, (1, 2, 4), seed=0), kind=kind
            )


def test_infinity_is_not_missing(cupy: Any) -> None:
    x = np.ones((70, 4))
    x[3, 1] = np.inf
    with pytest.raises(NotFiniteError):
        gpu.count_signs(cupy.asarray(x), assign_block_buckets(70, (1, 2, 4), seed=0), missing=True)
