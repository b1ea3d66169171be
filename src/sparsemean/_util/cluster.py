"""Dask workers: asked at an address, and work that runs on them; nothing here knows rows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from sparsemean import __version__
from sparsemean.errors import InputError, require

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

T = TypeVar("T")

# One way to compute dask's graphs, whatever they run on: threads, processes, a cluster.

VERSION = "__import__('sparsemean._evidence.counting.engines.dask').__version__"
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
    return run([], values, lambda *_: None)


def hold(values: Sequence[Delayed]) -> list[Delayed]:
    """Return the same delayed values, computed once and kept where they were as long as somebody refers to them.

    A worker that needs its memory for something else puts them on its disk; those of one that dies are computed again.
    """
    import dask

    client = _client_of(values)
    if client is None:
        return list(dask.persist(*values))
    with _in_words():
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
        with _in_words(), _seceded():
            _check_versions(client)
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
def _in_words() -> Iterator[None]:
    """Say in one line that the scheduler is gone, and nothing of graphs that are large."""
    from distributed import CancelledError
    from distributed.comm import CommClosedError

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            yield
    except (CancelledError, CommClosedError) as error:
        raise ConnectionError("the scheduler is gone, and what it was asked for with it") from error


# Workers for one command: those of a scheduler that runs already.

PATIENCE = 8
"""Seconds after which a scheduler that does not answer is given up."""
FOR_WORKERS = 60
"""Seconds that a scheduler without workers is given to find one."""


@contextlib.contextmanager
def cluster_client(address: str) -> Iterator[Client]:
    """Yield a client of a scheduler that runs already and has at least one worker."""
    require("dask", extra="dask", purpose="--dask")
    require("distributed", extra="dask", purpose="--dask")
    import dask
    from distributed import Client

    timeout = dask.config.set({"distributed.comm.timeouts.connect": f"{PATIENCE}s"})
    with quiet(), timeout, contextlib.ExitStack() as stack:
        try:
            asyncio.run(asyncio.wait_for(_answer(address), PATIENCE))
            client = Client(address, timeout=f"{PATIENCE}s", set_as_default=True)
            stack.callback(client.close, timeout=PATIENCE)
            client.wait_for_workers(1, timeout=FOR_WORKERS)
        except Exception as error:  # whatever answers there may say anything
            why = str(error).strip().partition("\n")[0] or f"no answer within {PATIENCE} s"
            rule, advice = "be the address of a scheduler that answers, with workers", "check both, or leave --dask out"
            raise InputError("--dask", rule, f"{address!r} ({why})", advice) from error
        yield client


async def _answer(address: str) -> None:
    """Wait for a scheduler to say who it is: something else that listens there may never say anything."""
    from distributed.core import rpc
    from distributed.security import Security

    async with rpc(address, connection_args=Security().get_connection_args("client"), timeout=PATIENCE) as scheduler:
        await scheduler.identity()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what the cluster has to say of itself off the terminal: all logs, and warnings of versions that differ."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
