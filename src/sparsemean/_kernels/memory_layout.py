"""How an array lies in memory and how precise it is, and how many threads may read it at once."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from sparsemean._util.checks import integer
from sparsemean.errors import InputError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Array = npt.NDArray[np.generic]
S = TypeVar("S", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Strided:
    """Element (i, c) lies at ``memory[start + i * row_step + c * column_step]``."""

    memory: Array
    start: int
    row_step: int
    column_step: int
    shape: tuple[int, int]


def strided(X: Array) -> Strided:
    """Describe the 2-D array ``X`` as flat memory.

    The view is read-only whether or not ``X`` is: numba compiles read-only and writable arrays apart, and one
    compiled kernel is enough.

    Examples
    --------
    >>> view = strided(np.arange(12.0).reshape(3, 4)[::-1, 1:3])
    >>> view.start, view.row_step, view.column_step, view.shape
    (8, -4, 1, (3, 2))
    """
    n, d = X.shape
    if X.flags.c_contiguous or X.flags.f_contiguous:  # as most often: a plain view takes a tenth of the time
        memory = np.asarray(X if X.flags.c_contiguous else X.T).reshape(-1)
        memory.flags.writeable = False
        row_step, column_step = (d, 1) if X.flags.c_contiguous else (1, n)
        return Strided(memory, 0, row_step, column_step, (n, d))
    rows, columns = (step // X.itemsize for step in X.strides)
    lowest = X[:: -1 if rows < 0 else 1, :: -1 if columns < 0 else 1]
    span = (n - 1) * abs(rows) + (d - 1) * abs(columns) + 1
    memory = as_strided(lowest, shape=(span,), strides=(X.itemsize,), writeable=False)
    start = (n - 1) * max(0, -rows) + (d - 1) * max(0, -columns)
    return Strided(memory, start, rows, columns, (n, d))


def frozen(values: npt.NDArray[S]) -> npt.NDArray[S]:
    """Return a read-only view, so that loops are compiled once."""
    view = values.view()
    view.flags.writeable = False
    return view


def precision_of(dtype: np.dtype[Any]) -> float:
    """Return eps of a type; of whole numbers that of doubles, in which they are counted."""
    return max(float(np.finfo(kind).eps) for kind in (dtype if dtype.kind == "f" else np.float64, np.float64))


def is_native(X: Array) -> bool:
    """Whether the compiled kernels can read ``X`` where it lies."""
    return _is_plain(X.dtype) and not any(step % X.itemsize for step in X.strides)


@cache
def _is_plain(dtype: np.dtype[np.generic]) -> bool:
    return dtype.isnative and dtype.kind in "fiub" and dtype.str[1:] not in ("f2", "f16", "f12")


def cut(total: int, width: int, grain: int = 1) -> list[slice]:
    """Cut range(total) into pieces of about ``width``, whole grains each; the last one may be shorter."""
    width = max(grain, width // grain * grain)
    return [slice(a, min(a + width, total)) for a in range(0, total, width)]


# A pool of threads for kernels that release the GIL: made for a call and gone after it.

T = TypeVar("T")
R = TypeVar("R")
_blas: list[ThreadpoolController] = []
_limited = threading.Lock()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep NumPy's linear algebra on one thread: for many small products a second one costs more than it brings.

    On a busy machine, where the second one waits for its turn in every product, it can cost ten times as much.
    Of fits that run at once only the first sets the limit, which is the process's: another would find it set, and put
    that back for good if it ends last.
    """
    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        if not _blas:
            from threadpoolctl import ThreadpoolController  # comes with scikit-learn

            _blas.append(ThreadpoolController())
        with _blas[0].limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


def count_threads(n_jobs: object) -> int:
    """Return how many threads ``n_jobs`` asks for: None or −1 takes every core this process may use."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return available
    rule = "be None or a nonzero integer (−1: all cores)"
    wanted = integer(n_jobs, argument="n_jobs", least=-available, rule=rule)
    if wanted == 0:
        raise InputError("n_jobs", rule, wanted)
    return wanted if wanted > 0 else available + 1 + wanted


def each(work: Callable[[T], R], tasks: Sequence[T], n_threads: int) -> Iterator[R]:
    """Yield ``work(task)`` in the order of ``tasks``, computed on up to ``n_threads`` threads."""
    if n_threads == 1 or len(tasks) <= 1:
        yield from map(work, tasks)
        return
    pool = ThreadPoolExecutor(min(n_threads, len(tasks)))
    try:
        yield from pool.map(work, tasks)
    finally:
        pool.shutdown(cancel_futures=True)
