"""A pool of threads for kernels that release the GIL: made for a call and gone after it.

Nothing outlives the call, so it is safe after a fork and from several threads at once.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sparsemean.checks import integer
from sparsemean.errors import InputError

T = TypeVar("T")
R = TypeVar("R")
_blas: list[Any] = []
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
