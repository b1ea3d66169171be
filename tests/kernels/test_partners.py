"""What is done without machine code: the same bits as compiled kernels give, and numba is never loaded for little."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sparsemean import _kernels
from sparsemean._data import open_file
from sparsemean._kernels import NotFiniteError, compiling, cpu, groups, plain_tails, rank_tails
from sparsemean._kernels.centres import border, pair_median
from sparsemean._kernels.columns import level_means
from sparsemean._kernels.compiling import Kernel
from sparsemean._stats.buckets import assign_block_buckets, assign_paper_buckets
from sparsemean._util.records import Partition
from sparsemean.errors import InputError

from command import expect as run

Arguments = tuple[Any, ...]
MODULES = (
    "cells", "centres", "columns", "cpu", "groups", "influence", "loops",
    "rank_tails", "rank_transforms", "rounding", "signed_ranks", "sparse", "tied_tails",
)  # fmt: skip


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do without machine code, as a process does that has just begun."""
    monkeypatch.setattr(compiling.Plainness, "ended", False)
    monkeypatch.setattr(compiling.Plainness, "spent", -np.inf)


def values_of(rng: np.random.Generator, n: int, kind: str) -> npt.NDArray[np.float64]:
    x = rng.standard_t(2, n)
    if kind == "ties":
        x = np.round(x)
    elif kind == "signed zeros":
        x = np.where(rng.random(n) < 0.3, np.copysign(0.0, x), x)
    elif kind == "large":
        x *= 1e300
    elif kind == "subnormal":
        x *= 5e-322
    elif kind == "single":
        x = x.astype(np.float32).astype(np.float64)
    return np.asarray(x)


KINDS = ("normal", "ties", "signed zeros", "large", "subnormal", "single")


def scores(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    for keep, dtype in product((0, 2, 1), (np.float64, np.float32)):
        with np.errstate(over="ignore"):
            x = np.abs(np.stack([values_of(rng, n, kind) for _ in range(3)])).astype(dtype)
        codes = x.view(f"u{x.itemsize}") << 1 | ((rng.random(x.shape) < 0.5) & (x > 0))
        codes.sort(axis=1)
        gone = np.minimum(np.maximum((codes == 0).sum(axis=1), keep), n)
        caps = np.array(sorted({1, max(1, n // 3), n}))
        room = np.zeros((2, 2, caps.size, 3), dtype=np.int64)
        yield codes, gone, caps, np.zeros(3, dtype=np.int64), room[0], room[1]
        zeros = np.minimum((codes == 0).sum(axis=1), 1)
        yield codes, zeros, caps, np.zeros(3, dtype=np.int64), *np.zeros_like(room)


def ends(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    x = np.sort(np.stack([values_of(rng, n, kind) for _ in range(2)]), axis=1)
    x[1, n // 2 :] = np.nan
    there, caps = np.array([n, n // 2]), np.array(sorted({1, max(1, n // 3), n}))
    needed = np.array([[int(0.7 * cap * number) for cap in caps.tolist()] for number in there.tolist()])
    yield x, there, caps, needed, np.array([1, -1]), np.zeros((2, caps.size, 2))


def above(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    x = 0.5 * np.sort(values_of(rng, n, kind))
    for value in (*x[:3].tolist(), 0.0, x[0] + x[-1], x[-1] + x[-1]):
        for cap in (1, max(1, n // 3), n):
            yield x, value, cap


def differences(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    a, b = np.sort(values_of(rng, n, kind)), np.sort(values_of(rng, n + 2, kind))
    for value in (0.0, a[0] - b[0], a[-1] - b[0], a[n // 2] - b[n // 2], np.nextafter(a[0] - b[-1], -np.inf)):
        yield a, b, value


def ordered(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    a, b = np.sort(values_of(rng, n, kind)), np.sort(values_of(rng, n + 1, kind))
    for k in (1, a.size * b.size // 2 + 1, a.size * b.size):
        yield a, b, np.array([[a.size], [b.size]]), k, np.nan, np.nan
        yield a, a, np.empty((2, 0), dtype=np.int64), min(k, a.size**2), 0.0, 1.0


def nested(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    X = values_of(rng, 5 * n, kind).reshape(n, 5)
    columns = np.array([4, 0, 2])
    for offsets in (np.arange(n + 1), np.array([0, n]), np.unique(np.append(rng.integers(1, n + 1, 3), (0, n)))):
        buckets = [offsets.size - 1]
        levels = []
        while buckets[-1] > 1 and len(levels) < 3:
            levels.append(np.append(np.arange(0, buckets[-1], 2), buckets[-1]))
            buckets.append(levels[-1].size - 1)
        above, ends = np.concatenate((*levels, offsets[:0])), np.cumsum([0, *(level.size for level in levels)])
        for dtype in (np.float64, np.float32):
            for missing in (False, True):
                with np.errstate(over="ignore"):
                    memory = X.astype(dtype).reshape(-1)
                if missing:
                    memory[rng.random(memory.size) < 0.3] = np.nan
                rest = (rng.permutation(n), offsets, above, ends, columns, missing)
                for at in ((0, 5, 1), (0, 1, n), (memory.size - 5, -5, 1)):
                    # counts and what is turned are overwritten, and no answer
                    room = np.zeros((3, sum(buckets))), np.full((2, n), np.nan), np.zeros(sum(buckets))
                    yield (memory, *at, *rest, *room)


def evidence(rng: np.random.Generator, n: int, _: str) -> Iterator[Arguments]:
    number = 6 if n < 10 else 2  # in Python large groups take long
    for strata in (1, 2):
        n1, n2 = rng.integers(1, n + 2, (2, number, strata))
        for A in (n1 + n2, n1 + n2 - rng.integers(0, n1 + n2)):
            w = (n1 * n2).sum(axis=1) + rng.integers(0, (n1 * n2).sum(axis=1) + 1)
            for bound in (False, True):
                for halves in (False, True):
                    for goal, top in ((-np.inf, 0.0), (-6.0, -2.0)):
                        asked = np.full(number, goal), np.full(number, top)
                        yield n1, n2, A, w, bound, halves, *asked, np.zeros(number)
    if n == 1:  # once
        asked = np.full(1, -3.0), np.full(1, -2.0)
        yield (
            np.array([[400]]), np.array([[300]]), np.array([[650]]), np.array([140_000]), True, False, *asked,
            np.zeros(1),
        )  # fmt: skip


def weights(rng: np.random.Generator, n: int, _: str) -> Iterator[Arguments]:
    for n1, n2 in ((n, 3 * n), (n + 1, n)):
        for A in (n1 + n2, int(rng.integers(1, n1 + n2))):
            room = np.zeros((5, min(n1, n2) + 2))
            yield from ((n1, n2, A, t, room[:3].copy(), *room[3:].copy()) for t in (1e-3, 0.1))


def inversions(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    for n1, n2, A, t, *room in weights(rng, n, kind):
        parts = [np.concatenate((room[0], room[1:])) for _ in range(2)]
        for part in parts:
            plain_tails.weigh(n1, n2, A, t, part[:3], *part[3:])
        for strata in (1, 2):  # alike
            sizes = [np.full(strata, size) for size in (n1, n2, A)]
            start, period = strata * n1 * n2 + int(rng.integers(0, n1 * n2 + 1)), 4 * int(rng.integers(4, 10 * n + 5))
            scratch, lanes = np.concatenate(parts[:strata]), np.zeros((rank_tails.ROWS_OF_LANES, rank_tails.LANES))
            for power, (band, last) in product((1, 2), ((0, period // 4), (0, 3), (50, 49))):
                yield *sizes, start, power, t, period, band, last, scratch, lanes


def places(rng: np.random.Generator, n: int, _: str) -> Iterator[Arguments]:
    for a, b in ((20, 20 + n), (30 * n, 25), (200, 250)):
        yield from ((a, b, place) for place in rng.integers(a * b, 2 * a * b - 4 * max(a, b), 5).tolist())


def lumps(rng: np.random.Generator, n: int, _: str) -> Iterator[Arguments]:
    room = np.zeros((5, 300)), np.zeros((rank_tails.ROWS_OF_LANES, rank_tails.LANES))
    for n1, n2 in ((n, n + 1), (20 + n, 25), (30, 90 + n)):
        for A in rng.integers(1, n1 + n2, 3).tolist():
            place = n1 * n2 + int(rng.integers(1, n1 * n2 + 1))
            yield n1, n2, A, place, 1 + A % 2, n % 2 == 0, 20, *room


def choices(rng: np.random.Generator, n: int, _: str) -> Iterator[Arguments]:
    for k in rng.integers(0, n + 1, 5).tolist():
        yield n, k


def pair_sums(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    y = np.sort(values_of(rng, n, kind))
    with np.errstate(over="ignore"):
        places = np.array([0.0, 2 * y[0], 2 * y[-1], y[0] + y[-1], y[n // 2] + y[n // 3], np.nextafter(2 * y[0], -9)])
    yield from ((y, value) for value in places)


def sorted_rows(rng: np.random.Generator, n: int, kind: str) -> Iterator[npt.NDArray[np.float64]]:
    block = np.stack([values_of(rng, n, kind) for _ in range(4)])
    block[1] = block[1, 0]
    for share in (0.0, 0.3, 1.0):
        block[2:][rng.random((2, n)) < share] = np.nan
        yield np.sort(block, axis=1)


def spreads(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            rows = np.sort(np.stack([np.clip(values_of(rng, n, kind), -1e30, 1e30) for _ in range(4)]), axis=1)
        yield rows.astype(dtype), rows[:, n // 2].astype(dtype), np.zeros(4, dtype=dtype)


def starts(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    for block in sorted_rows(rng, n, kind):
        yield from ((block, np.zeros(4), by_median) for by_median in (False, True))


def centres(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    for block in sorted_rows(rng, n, kind):
        middle = np.array([x[np.isfinite(x)][x.size // 3 : x.size // 3 + 1].sum() for x in block])
        for kinds in (np.full(4, -1), np.array([0, 1, 2, 1])):
            yield (block, middle, kinds, np.zeros((4, 3)), np.zeros((4, 3)), np.zeros(4, dtype=np.int8),
                   np.array([1.0, 3.0]), np.array([1.4826, 10.0, 0.3]), 8)  # fmt: skip


def likelihoods(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    z = np.clip(values_of(rng, n + 1, kind), -1e50, 1e50)
    yield from ((z, n, centre, scale, 3.0) for centre in (0.0, 0.7) for scale in (1.0, 1e-3))


def meetings(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    for share in (0.0, 0.2, 1.0):
        row, column = np.nonzero(rng.random((n, 7)) < share)
        with np.errstate(over="ignore"):
            value = values_of(rng, row.size, kind).astype(np.float32)
        first = np.searchsorted(row, np.arange(n + 1))
        yield value, column, first, rng.random(n) < 0.7, np.zeros((7, 7), dtype=np.float32)


def looks(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    v = values_of(rng, n, kind)
    yield from ((v, theta, cap) for theta in (-0.25, 0.0, 1e-320) for cap in (0.5, 1 / n, 3.0))


def follows(rng: np.random.Generator, n: int, kind: str) -> Iterator[Arguments]:
    with np.errstate(over="ignore"):
        along = values_of(rng, 5 * n, kind).reshape(5, n).astype(np.float32)
    centre, rates, shifts = rng.random((3, 5)).astype(np.float32)
    yield along, centre, rates, shifts, rng.random(n).astype(np.float32)


LINES = (
    "1,2.5,-3\n4,5,6\n", "a,1,2\r\nb,,NA\r\n\r\nc,true,FALSE\r\n", '"x","1.5"," 2 "\n"y""z",3,4\n', " 1 , 2e5 ,.5\n",
    "1,2,3\n4,5\n", "1,2,3,4\n", '"a" b,1,2\n', '1,2,"open\n', "1.234,100,0.5\n2,-7.,+1e-3\n", "12%,$3,1_000\n",
    "\n \n1,2,3\n\n", "1e400,1e-400,4.9e-324\n", "123456789012345678901234567890,0.1,9007199254740993\n",
    "nan,None,#N/A N/A\n", "1,2,e5\n1.5.2,+,-\n", "-0,0.0,-0.000e7\n", "inf,Infinity,0x10\n", "1\n\n2\n\n",
)  # fmt: skip


def texts(rng: np.random.Generator, n: int, _: str) -> Iterator[Arguments]:
    made = "".join(
        ",".join(rng.choice(["1", "2.25", " 7", "x y ", "", "NA", '"3"', '"a,b"', "-1e9", "1.000"], 3)) + "\n"
        for _ in range(n)
    )
    for text in (*LINES, made):
        for separator, roles in ((44, (0, 1, 2)), (44, (-2, 0, -1)), (44, (1, -3, -2)), (44, (0,)), (9, (0, 1))):
            shown = text.replace(",", "\t") if separator == 9 else text
            held = np.array(roles)
            values = np.zeros((n + 3, 3), dtype=np.uint64)
            yield (
                np.frombuffer(shown.encode(), dtype=np.uint8), separator, held, values,
                np.zeros((n + 3, 2, 2), dtype=np.int64), np.zeros((12, 4), dtype=np.int64),
                np.zeros(held.size, dtype=np.uint8),
            )  # fmt: skip


def levels(rng: np.random.Generator, n: int, _: str) -> Iterator[Arguments]:
    for strata in (1, 2):
        for most in (1, 5):
            times = rng.integers(1, most + 1, (strata, n + 1)).astype(np.float64)
            scores = 2 * np.cumsum(times, axis=1) - times + 1
            drawn = np.maximum(1.0, np.rint(times.sum(axis=1) * rng.uniform(0.1, 0.6, strata)))
            mean = float(np.sum(drawn * np.sum(scores * times, axis=1) / times.sum(axis=1)))
            ends = (n + 1) * np.arange(strata + 1)
            yield scores.ravel(), times.ravel(), ends, drawn, np.rint(mean) + float(rng.integers(1, 3 * n + 2))


CASES: dict[str, Callable[[np.random.Generator, int, str], Iterator[Arguments]]] = {
    "cells.read_lines": texts,
    "centres.count_sums": pair_sums,
    "centres.locate_rows": centres,
    "centres.start_rows": starts,
    "centres.student_sums": likelihoods,
    "columns.nested_means": nested,
    "columns.meet": meetings,
    "centres.median_distances": spreads,
    "centres.order_statistic": ordered,
    "centres.scores_lost": above,
    "centres.split_differences": differences,
    "rank_transforms.log_choose": choices,
    "rank_tails.log_tails": evidence,
    "rank_tails.log_lumps": lumps,
    "rank_tails.saddle": places,
    "rank_transforms.summed": inversions,
    "rank_transforms.weigh": weights,
    "signed_ranks.add_scores": scores,
    "signed_ranks.score_ends": ends,
    "tied_tails.log_tied_tail": levels,
    "columns.follow": follows,
    "columns.look": looks,
}
"""Arguments for every kernel with a partner that is called from outside, or whose partner is another function."""


def kernels() -> dict[str, Kernel]:
    """Return the kernels that have a partner."""
    found = {
        f"{module}.{name}": kernel
        for module in MODULES
        for name, kernel in vars(importlib.import_module(f"{_kernels.__name__}.{module}")).items()
        if isinstance(kernel, Kernel) and kernel.home is not None
    }
    return {name: kernel for name, kernel in found.items() if kernel.__module__.endswith("." + name.partition(".")[0])}


def test_every_partner_is_compared_with_its_kernel() -> None:
    files = {path.stem for path in Path(_kernels.__file__).parent.glob("*.py") if "@compiled" in path.read_text()}
    assert files - {"compiling"} == set(MODULES)
    others = {name for name, kernel in kernels().items() if kernel.home != "itself"}
    assert others <= CASES.keys()
    assert CASES.keys() <= kernels().keys()


SCRATCH = {"columns.nested_means": (11, 12), "rank_tails.log_lumps": (7, 8), "rank_transforms.summed": (10,)}
"""Places of arguments that are overwritten with what is nobody's."""
PLAIN_NUMBERS = (
    "cells.read_lines",
    "rank_transforms.log_choose",
    "rank_tails.log_tails",
    "rank_tails.log_lumps",
    "rank_tails.saddle",
    "rank_transforms.summed",
    "rank_transforms.weigh",
    "tied_tails.log_tied_tail",
)
"""Kernels that are not given values of any kind."""


@pytest.mark.parametrize(("name", "kind"), [
    (name, kind) for name in CASES for kind in KINDS if kind == KINDS[0] or name not in PLAIN_NUMBERS
])  # fmt: skip
@pytest.mark.usefixtures("plain")
def test_a_partner_gives_the_same_bits(name: str, kind: str) -> None:
    kernel = kernels()[name]
    for n in (1, 2, 3, 10, 41):
        for arguments in CASES[name](np.random.default_rng(n), n, kind):
            ours, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in arguments] for _ in range(2))
            with np.errstate(all="ignore"):
                answers = kernel(*ours), kernel.machine(*theirs)
            if name == "cells.read_lines":
                agree(answers, ours, theirs)
                continue
            if name in ("centres.student_sums", "tied_tails.log_tied_tail"):
                np.testing.assert_allclose(*answers, rtol=1e-12, atol=1e-12)
                continue
            if name == "centres.locate_rows":
                agree_on_centres(ours, theirs)
                continue
            np.testing.assert_array_equal(*answers)
            scratch = SCRATCH.get(name, ())
            for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
                if place in scratch:
                    continue
                np.testing.assert_array_equal(mine, other)
                np.testing.assert_array_equal(np.signbit(mine), np.signbit(other))


def agree(answers: tuple[Any, Any], ours: list[Any], theirs: list[Any]) -> None:
    """A partner may decide what kernels leave to others: numbers with more digits than they look at."""
    assert answers[0] == answers[1] or answers[0][2] < answers[1][2]
    lines, _, n_odd, _ = answers[0]
    if answers[0] == answers[1]:
        np.testing.assert_array_equal(ours[3][:lines], theirs[3][:lines])
        np.testing.assert_array_equal(ours[5][:n_odd], theirs[5][:n_odd])
        np.testing.assert_array_equal(ours[6], theirs[6])
    np.testing.assert_array_equal(ours[4][:lines], theirs[4][:lines])


def agree_on_centres(ours: list[Any], theirs: list[Any]) -> None:
    """Student-t centres come of sums in any order; Hodges–Lehmann ones have the same bits."""
    for mine, other in zip(ours[3:6], theirs[3:6], strict=True):
        np.testing.assert_array_equal(mine.T[0], other.T[0])
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)


# Functions around kernels that ask whether a problem is small.


def hostile(rng: np.random.Generator, n: int, d: int) -> npt.NDArray[np.float64]:
    return np.stack([values_of(rng, n, KINDS[j % len(KINDS)]) for j in range(d)], axis=1)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n", [1, 3, 64, 200])
def test_a_small_count_is_that_of_the_loops(n: int, missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(n)
    X = hostile(rng, n, 9)
    X[:, 3] *= 1e-290  # in single precision as well
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    shift = rng.standard_normal(9)
    for partition in (assign_block_buckets(n, (1, 2, 4), 0), assign_paper_buckets(n, max(1, n // 3), 0)):
        for values in (X, np.asfortranarray(X), X.astype(np.float32), X[::-1, ::-1]):
            for null in (None, shift):
                found = [
                    small_count(values, partition, null, missing=missing, ended=ended, monkeypatch=monkeypatch)
                    for ended in (False, True)
                ]
                for plainly, compiled in zip(*found, strict=True):
                    np.testing.assert_array_equal(plainly, compiled)


def small_count(
    values: npt.NDArray[Any],
    partition: Partition,
    shift: npt.NDArray[np.float64] | None,
    *,
    missing: bool,
    ended: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Any]:
    """Return counts and means; how far a mean is from zero is compared with a guard, and may be rounded either way."""
    monkeypatch.setattr(compiling.Plainness, "ended", ended)
    done: list[float] = []
    counts = cpu.count_signs(values, partition, null=shift, missing=missing, progress=done.append)
    every = np.arange(values.shape[1])
    levels = level_means(
        values, partition, every, depth=partition.depth, null=shift, precision=2.0**-23, missing=missing
    )
    assert done[-1] == 1.0
    nearest = (counts.nearest * (1 + 2.0**-40)).astype(np.float32)
    return [counts.positive, counts.negative, nearest, counts.present, counts.missing, *levels]


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_is_refused(value: float) -> None:
    X = np.ones((8, 2))
    X[3, 1] = value
    with pytest.raises(NotFiniteError):
        cpu.count_signs(X, assign_block_buckets(8, (1, 2), 0))
    comparisons = groups.Comparisons.of(np.arange(8) % 2, np.zeros(2, dtype=int), np.array([[1, 0]]))
    with pytest.raises(NotFiniteError):
        list(groups.count_pairs(X, comparisons, comparisons.blank(2)))


def test_a_small_comparison_is_that_of_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = hostile(rng, 60, 6)
    X[rng.random(X.shape) < 0.1] = np.nan
    cells_of_rows = rng.integers(-1, 4, 60)
    for against in ([[1, 0, 3, 2]], [[-1, -1, -1, -1], [1, -2, 3, -2]]):
        comparisons = groups.Comparisons.of(cells_of_rows, np.array([0, 0, 1, 1]), np.array(against))
        found = []
        for ended in (False, True):
            monkeypatch.setattr(compiling.Plainness, "ended", ended)
            out = comparisons.blank(6)
            assert list(groups.count_pairs(X, comparisons, out, skip_missing=True))[-1] == 6
            found.append(out)
        np.testing.assert_array_equal(found[0].own, found[1].own)
        np.testing.assert_array_equal(found[0].pairs, found[1].pairs)


def read(path: Path) -> tuple[Any, ...] | str:
    """Return what is read of a file, or why it is refused."""
    try:
        table = open_file(path)
    except InputError as error:
        return str(error)
    return table.values.tobytes(), str(table.feature_names), table.notes


@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_small_file_is_read_as_a_large_one_is(
    lines: str, separator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(("p,q,r\n" + 3 * lines).replace(",", separator).encode())
    found = []
    for ended in (False, True):
        monkeypatch.setattr(compiling.Plainness, "ended", ended)
        found.append(read(path))
    assert found[0] == found[1]


# A process of its own.

SCRIPT = """
import json, sys
from sparsemean._cli import main
try:
    main(sys.argv[1:])
finally:
    print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize("options", [(), ("--group", "arm"), ("--test", "buckets", "--contamination", "0.05")])
def test_a_small_file_takes_no_compiler(
    options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    X, arm = rng.standard_t(4, (600, 20)), np.repeat(["a", "b"], 300)
    X[:300, :3] += 1.0
    path = tmp_path / "small.csv"
    header = ",".join([*(f"f{j}" for j in range(20)), *(["arm"] if "--group" in options else [])])
    rows = [
        ",".join([*map(repr, x), *([a] if "--group" in options else [])]) for x, a in zip(X.tolist(), arm, strict=True)
    ]
    path.write_text("\n".join([header, *rows]) + "\n")
    wanted = [str(path), *options, "--json", "-", "--all"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "fit", *wanted], capture_output=True, text=True, check=True, env=environment
    )
    answer, _, modules = done.stdout.rstrip().rpartition("\n")
    assert not {"numba", "llvmlite", "sklearn"} & set(json.loads(modules))
    assert not compiling.plainly()  # in this process
    run("fit", *wanted)
    found, expected = json.loads(capsys.readouterr().out), json.loads(answer)
    selected = {row["feature"] for row in expected.get("selected", ())}
    for own, other in zip(found.get("features", ()), expected.get("features", ()), strict=True):
        if own["feature"] not in selected:  # its value, refined for the table alone, is a sum in another order
            assert own.pop("estimate") == pytest.approx(other.pop("estimate"), rel=1e-12)
    assert found == expected


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.Plainness, "ended", False)
    monkeypatch.setattr(compiling.Plainness, "spent", 0.0)
    monkeypatch.setattr(compiling, "PATIENCE", 0.0)
    a = np.arange(4.0)
    assert pair_median(a, a, np.array([[4], [4]]), np.nan, np.nan) == 0.0
    assert not compiling.plainly()


def test_a_kernel_without_a_partner_and_a_large_problem_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.Plainness, "ended", False)
    assert compiling.plainly(compiling.SMALL)
    assert not compiling.plainly(compiling.SMALL + 1)
    assert border(np.arange(4.0), 2.5, 2) == 1
    assert not compiling.plainly()
