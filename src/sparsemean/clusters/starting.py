"""Workers for one command: started on this machine and gone after it, or those of a scheduler that runs already."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Any

from sparsemean.errors import InputError, require

PATIENCE = 8
"""Seconds after which a scheduler that does not answer is given up."""
FOR_WORKERS = 60
"""Seconds that a scheduler without workers is given to find one."""
MANY = 20
"""Workers that may die over one task before it is given up: each of them may have been killed for another reason."""
LEAST = 320_000_000
"""Bytes below which a worker that has counted once, which takes about 240 MB, pauses for ever or is killed."""
SETTINGS = {
    "distributed.scheduler.allowed-failures": MANY,
    "distributed.comm.timeouts.connect": f"{PATIENCE}s",
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
def working(where: str, *, workers: int | None = None, memory: str | None = None) -> Iterator[Any]:
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
def local(workers: int | None = None, memory: str | None = None) -> Iterator[Any]:
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
                _check_memory(client, memory)
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
def _connected(address: str) -> Iterator[Any]:
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
        raise _too_little(LEAST, memory)
    return size


def _check_memory(client: Any, memory: str | None) -> None:
    """Refuse workers that would pause, and stay so, with nothing but the counting itself in memory."""
    try:
        told = client.run(_idle).values()
    except Exception as error:  # killed for its memory while it loaded what counts
        raise _too_little(2 * LEAST, memory) from error
    for limit, pauses, idle in told:
        if limit and pauses and idle > pauses * limit:
            raise _too_little(1.1 * idle / pauses, memory or f"{limit / 1e6:.0f}MB, the share of each")


def _idle(dask_worker: Any) -> tuple[int | None, float, int]:
    """Count a few rows; return the memory a worker may use, the share of it at which it pauses, and what it uses."""
    import dask

    importlib.import_module("sparsemean.passes.dask").rehearse()
    limit = getattr(dask_worker.memory_manager, "memory_limit", None)
    return limit, dask.config.get("distributed.worker.memory.pause"), dask_worker.monitor.get_process_memory()


def _too_little(least: float, received: str | None) -> InputError:
    rule = f"be at least {least / 1e6:.0f}MB: a worker that does nothing needs most of it"
    return InputError("--worker-memory", rule, received or "less", "give each more, or take fewer --workers")


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
