"""Dask workers: started on this machine or asked at an address, and work that runs on them; nothing here knows rows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from sparsemean import __version__
from sparsemean.errors import InputError, require

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

T = TypeVar("T")

# One way to compute dask's graphs, whatever they run on: threads, processes, a cluster.

VERSION = "__import__('sparsemean._counts.engines.dask').__version__"
RETRIES = 2
"""Times that a task which failed is tried again: a disk that does not answer may do so the next time."""
Heard = Callable[[int, T], None]
"""Is told the number of something that was watched, and its value."""
_checked: WeakKeyDictionary[Client, set[str]] = WeakKeyDictionary()
"""Workers of a client whose version is known to be the same."""


def run(watched: Sequence[Delayed], others: Sequence[Delayed], heard: Heard[T]) -> list[Any]:
    """Compute delayed values; tell ``heard`` each of ``watched`` as soon as it is known, and return the ``others``.

    What ``heard`` raises ends everything; what has not begun by then is cancelled.
    """
    client = _client_of([*watched, *others])
    return _in_place(watched, others, heard) if client is None else _on_cluster(client, watched, others, heard)


def ask(values: Sequence[Delayed]) -> list[Any]:
    """Compute delayed values, in their order."""
    out: list[Any] = [None] * len(values)
    run(values, [], out.__setitem__)
    return out


def hold(values: Sequence[Delayed]) -> list[Delayed]:
    """Return the same delayed values, computed once and kept where they were as long as somebody refers to them.

    A worker that needs its memory for something else puts them on its disk; those of one that dies are computed again.
    """
    import dask

    client = _client_of(values)
    if client is None:
        return list(dask.persist(*values))
    with _lost(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return list(client.persist(list(values), retries=RETRIES))


def _client_of(values: Sequence[Delayed]) -> Client | None:
    """Return the client whose workers compute delayed values; None where this process does."""
    import dask.base

    client = getattr(dask.base.get_scheduler(collections=values), "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


def _in_place(watched: Sequence[Delayed], others: Sequence[Delayed], heard: Heard[T]) -> list[Any]:
    """Compute on threads or processes of this machine; those schedulers tell of every task that is done."""
    import dask
    from dask.callbacks import Callback

    numbers: dict[object, int] = {value.key: number for number, value in enumerate(watched)}

    def done(key: object, value: T, *_: object) -> None:
        if key in numbers:
            heard(numbers.pop(key), value)

    with Callback(posttask=done):
        values = dask.compute(*watched, *others)
    for number in numbers.values():  # of which a scheduler of somebody else's did not tell
        heard(number, values[number])
    return list(values[len(watched) :])


def _on_cluster(client: Client, watched: Sequence[Delayed], others: Sequence[Delayed], heard: Heard[T]) -> list[Any]:
    """Compute on the workers of ``client``; what was heard is forgotten there."""
    from distributed import KilledWorker, as_completed

    rest: dict[int, Any] = {}
    waiting: dict[int, Future] = {}
    try:
        with _lost(), _seceded():
            _check_versions(client)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
                waiting = dict(enumerate(client.compute([*watched, *others], retries=RETRIES)))
            numbers = {future.key: number for number, future in waiting.items()}
            for future, value in as_completed(list(waiting.values()), loop=client.loop, with_results=True):
                number = numbers[future.key]
                if isinstance(value, BaseException):
                    raise value
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


def _check_versions(client: Client) -> None:
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


# Workers for one command: started on this machine and gone after it, or those of a scheduler that runs already.

PATIENCE = 8
"""Seconds after which a scheduler that does not answer is given up."""
FOR_WORKERS = 60
"""Seconds that a scheduler without workers is given to find one."""
MANY = 20
"""Workers that may die over one task before it is given up: each of them may have been killed for another reason."""
LEAST = 320_000_000
"""Bytes below which a worker that has counted once, which takes about 240 MB, is killed at every task."""
SETTINGS = {
    "distributed.scheduler.allowed-failures": MANY,
    "distributed.comm.timeouts.connect": f"{PATIENCE}s",
    # who waits at half-full memory may wait for ever: spilled to disk, or killed and started again, it goes on
    "distributed.worker.memory.pause": False,
    # a worker that dies twice within this time would not be started again
    "distributed.deploy.lost-worker-timeout": "1 day",
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 65536,
    "distributed.admin.log-length": 0,
    "distributed.admin.low-level-log-length": 0,
    # pages in HTTP ask nobody who they are
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
SILENT = logging.CRITICAL + 1
TALKING = ("distributed", "tornado", "asyncio")
"""Loggers of the cluster."""


@contextlib.contextmanager
def cluster_client(where: str, *, workers: int | None = None, memory: str | None = None) -> Iterator[Client]:
    """Yield a client of ``where``: "local", or the address of a scheduler. Nothing started here outlives the block.

    Parameters
    ----------
    where : str
        "local" starts workers on this machine.
    workers : int, optional
        How many of them; one for each core by default.
    memory : str, optional
        How much each may use, such as "1GB"; an equal share of the machine's by default.
    """
    require("dask", extra="dask", purpose="--dask")
    require("distributed", extra="dask", purpose="--dask")
    import dask

    with quiet(), dask.config.set(SETTINGS):
        if where == "local":
            with local(workers, memory) as client:
                yield client
            return
        for flag, value in (("--workers", workers), ("--worker-memory", memory)):
            if value is not None:
                raise InputError(flag, "be left out where a scheduler has workers of its own", value)
        with _connected(where) as client:
            yield client


@contextlib.contextmanager
def local(workers: int | None = None, memory: str | None = None) -> Iterator[Client]:
    """Yield a client of processes started for it, one thread each unless cores are left over.

    They talk TLS with a key that only they have: on a bare port any user of this machine could run code as this one.
    """
    require("cryptography", extra="dask", purpose="--dask local")
    import dask
    from distributed import Client, LocalCluster

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers is not None and workers < 1:
        raise InputError("--workers", "be at least 1", workers)
    n = workers or cores
    limit = _bytes(memory)
    with tempfile.TemporaryDirectory(prefix="sparsemean-", ignore_cleanup_errors=True) as folder:
        with _uninterrupted(), dask.config.set({"temporary-directory": folder}):
            cluster = LocalCluster(
                n_workers=n,
                threads_per_worker=max(1, cores // n),
                memory_limit=limit,
                processes=True,
                security=True,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                local_directory=folder,
                silence_logs=SILENT,
            )
        try:
            with Client(cluster, timeout=f"{PATIENCE}s", set_as_default=True) as client:
                yield client
        finally:
            with _uninterrupted():
                cluster.close()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait; threads and processes that are started here never hear of it: they are ended by who did."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # it lets the signal through to the thread that starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _ended_later():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _ended_later() -> Iterator[None]:
    """Let SIGTERM and SIGHUP wait where this process handles them: blocked, workers would never hear of them either."""
    late: list[int] = []
    ours = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    if threading.current_thread() is not threading.main_thread():
        ours = {}
    ours = {number: handler for number, handler in ours.items() if callable(handler)}
    for number in ours:
        signal.signal(number, lambda number, _: late.append(number))
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        if late:
            signal.raise_signal(late[0])


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Client]:
    """Yield a client of a scheduler that runs already and has at least one worker."""
    from distributed import Client

    try:
        asyncio.run(asyncio.wait_for(_answer(address), PATIENCE))
        client = Client(address, timeout=f"{PATIENCE}s", set_as_default=True)
    except Exception as error:  # whatever answers there may say anything
        why = str(error).strip().partition("\n")[0] or f"no answer within {PATIENCE} s"
        advice = "check the address and that the scheduler runs, or use --dask local"
        raise InputError(
            "--dask", "be local or the address of a scheduler that answers", f"{address!r} ({why})", advice
        ) from error
    try:
        try:
            client.wait_for_workers(1, timeout=FOR_WORKERS)
        except TimeoutError as error:
            raise InputError(
                "--dask", "name a scheduler with workers", f"{address!r}, which has none", "start one"
            ) from error
        yield client
    finally:
        client.close(timeout=PATIENCE)


async def _answer(address: str) -> None:
    """Wait for a scheduler to say who it is: something else that listens there may never say anything."""
    from distributed.core import rpc
    from distributed.security import Security

    async with rpc(address, connection_args=Security().get_connection_args("client"), timeout=PATIENCE) as scheduler:
        await scheduler.identity()


def _bytes(memory: str | None) -> str | int:
    """Return a number of bytes."""
    from dask.utils import parse_bytes

    if memory is None:
        return "auto"
    try:
        size = int(parse_bytes(memory))
    except (ValueError, TypeError, AttributeError):
        size = 0
    if size <= 0:
        raise InputError("--worker-memory", "be a number of bytes such as 1GB or 500MiB", repr(memory))
    if size < LEAST:
        rule = f"be at least {LEAST / 1e6:.0f}MB: a worker that does nothing needs most of it"
        raise InputError("--worker-memory", rule, memory, "give each more, or take fewer --workers")
    return size


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what the cluster has to say of itself off the terminal: its log, and warnings of versions that differ."""
    # distributed gives loggers below its own a level and a handler each, so that those above them are never asked
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in TALKING]
    loggers = [logging.getLogger(name) for name in {*TALKING, *names}]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(SILENT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
