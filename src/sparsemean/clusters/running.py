"""One way to compute dask's graphs, whatever they run on: threads, processes, a cluster."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sparsemean import __version__
from sparsemean.errors import InputError

VERSION = "__import__('sparsemean.passes.dask').__version__"
RETRIES = 2
"""Times that a task which failed is tried again: a disk that does not answer may do so the next time."""
STALLED = 30
"""Seconds without a worker that takes tasks after which all is given up: one that was killed is back by then."""
PAUSE = 0.005
"""Seconds between looks at what has come."""
Heard = Callable[[int, Any], None]
"""Is told the number of something that was watched, and its value."""
_checked: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""Workers of a client whose version is known to be the same."""


def run(watched: Sequence[Any], others: Sequence[Any], heard: Heard) -> list[Any]:
    """Compute delayed values; tell ``heard`` each of ``watched`` as soon as it is known, and return the ``others``.

    What ``heard`` raises ends everything; what has not begun by then is cancelled.
    """
    import dask.base

    get = dask.base.get_scheduler(collections=[*watched, *others])
    client = getattr(get, "__self__", None)
    if client is not None and hasattr(client, "scheduler_info"):
        return _on_cluster(client, watched, others, heard)
    return _in_place(watched, others, heard)


def _in_place(watched: Sequence[Any], others: Sequence[Any], heard: Heard) -> list[Any]:
    """Compute on threads or processes of this machine; those schedulers tell of every task that is done."""
    import dask
    from dask.callbacks import Callback

    numbers = {value.key: number for number, value in enumerate(watched)}

    def done(key: Any, value: Any, *_: Any) -> None:
        if key in numbers:
            heard(numbers.pop(key), value)

    with Callback(posttask=done):
        values = dask.compute(*watched, *others)
    for number in numbers.values():  # of which a scheduler of somebody else's did not tell
        heard(number, values[number])
    return list(values[len(watched) :])


def _on_cluster(client: Any, watched: Sequence[Any], others: Sequence[Any], heard: Heard) -> list[Any]:
    """Compute on the workers of ``client``; what was heard is forgotten there."""
    from distributed import KilledWorker

    rest: dict[int, Any] = {}
    waiting: dict[int, Any] = {}
    try:
        with _lost(), _seceded():
            _check_versions(client)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
                waiting = dict(enumerate(client.compute([*watched, *others], retries=RETRIES)))
            for number, value in _as_they_come(client, list(waiting.values())):
                if number < len(watched):
                    heard(number, value)
                else:
                    rest[number] = value
                waiting.pop(number).release()
            _check_versions(client)  # of workers that came meanwhile
            return [rest[number] for number in sorted(rest)]
    except KilledWorker as error:
        rule, advice = "lie in pieces that fit into the memory of a worker", "smaller chunks, or more memory a worker"
        raise InputError("X", rule, "one on which every worker died that tried", advice) from error
    finally:
        with contextlib.suppress(Exception):
            client.cancel(list(waiting.values()))


def _as_they_come(client: Any, futures: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of everything as soon as it is known; give up where no worker works any more."""
    from distributed import as_completed

    numbers = {future.key: number for number, future in enumerate(futures)}
    coming = as_completed(futures, loop=client.loop, with_results=True)
    worked = looked = time.monotonic()
    while not coming.is_empty():
        if coming.has_ready():
            future, value = next(coming)
            if isinstance(value, BaseException):
                raise value
            yield numbers[future.key], value
            worked = looked = time.monotonic()
            continue
        time.sleep(PAUSE)
        if time.monotonic() - looked > STALLED / 10:
            looked = time.monotonic()
            worked = looked if _working(client) else worked
            if looked - worked > STALLED:
                rule, advice = "have memory left to work with", "give each more memory, smaller chunks, or start others"
                raise InputError("workers", rule, f"none that did for {STALLED} s: all are paused or gone", advice)


def _working(client: Any) -> bool:
    """Whether a worker takes tasks or is at one: who uses most of its memory takes none, and may do so for ever."""
    workers = client.sync(client.scheduler.identity)["workers"].values()
    return any(
        worker["status"] == "running" or worker["metrics"].get("task_counts", {}).get("executing", 0) > 0
        for worker in workers
    )


def _check_versions(client: Any) -> None:
    """Refuse a scheduler or workers of another version of this package, which would count or decide otherwise."""
    known = _checked.setdefault(client, set())
    new = set(client.sync(client.scheduler.identity)["workers"]) - known
    if not new:
        return
    told = client.run(eval, VERSION, workers=sorted(new), on_error="return")  # builtins, which every version has
    try:
        told["the scheduler"] = client.run_on_scheduler(eval, VERSION)
    except ImportError as error:
        told["the scheduler"] = error
    for who, version in told.items():
        if version != __version__ and not isinstance(version, OSError):  # which is a worker that is gone
            rule = f"have sparsemean {__version__} installed, as is here, and so must their scheduler"
            raise InputError("workers", rule, f"{version} on {who}", "install the same version everywhere")
    known |= new


@contextlib.contextmanager
def _seceded() -> Iterator[None]:
    """Leave the place of a task on its worker to the tasks it waits for, where this is called from one."""
    from distributed import rejoin, secede

    inside = True
    try:
        secede()
    except Exception:  # this thread is none of a worker's
        inside = False
    try:
        yield
    finally:
        if inside:
            rejoin()


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    """Say in one line that the scheduler is gone."""
    from distributed import CancelledError
    from distributed.comm import CommClosedError

    try:
        yield
    except (CancelledError, CommClosedError) as error:
        raise ConnectionError("the scheduler is gone, and what it was asked for with it") from error
