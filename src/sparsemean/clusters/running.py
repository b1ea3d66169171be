"""One way to compute dask's graphs, whatever they run on: threads, processes, a cluster."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparsemean.errors import InputError

RETRIES = 2
"""Times that a task which failed is tried again: a disk that does not answer may do so the next time."""
Heard = Callable[[int, Any], None]
"""Is told the number of something that was watched, and its value."""


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
    from distributed import KilledWorker, as_completed

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        futures = client.compute([*watched, *others], retries=RETRIES)
    rest = futures[len(watched) :]
    awaited = {future.key: number for number, future in enumerate(futures[: len(watched)])}
    try:
        with _lost():
            for future, value in as_completed(futures[: len(watched)], loop=client.loop, with_results=True):
                if isinstance(value, BaseException):
                    raise value
                heard(awaited[future.key], value)
                del awaited[future.key]
                future.release()
            return list(client.gather(rest))
    except Exception as error:
        if _says(error, "No module named 'sparsemean"):
            rule, advice = "have sparsemean installed, as its scheduler must", "install it there, the same version"
            raise InputError("workers", rule, "some without it", advice) from error
        if not isinstance(error, KilledWorker):
            raise
        rule, advice = "lie in pieces that fit into the memory of a worker", "smaller chunks, or more memory a worker"
        raise InputError("X", rule, "one on which every worker died that tried", advice) from error
    finally:
        with contextlib.suppress(Exception):
            client.cancel([*rest, *(future for future in futures[: len(watched)] if future.key in awaited)])


def _says(error: BaseException | None, text: str) -> bool:
    """Whether an error, or one that led to it, says this."""
    while error is not None:
        if text in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    """Say in one line that the scheduler is gone."""
    from distributed import CancelledError
    from distributed.comm import CommClosedError

    try:
        yield
    except (CancelledError, CommClosedError) as error:
        raise ConnectionError("the scheduler is gone, and what it was asked for with it") from error
