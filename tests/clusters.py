"""Dask workers of this machine, as tests ask them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sparsemean._util.cluster import quiet

MANY = 20
"""Workers that may die over one task before it is given up."""


@contextmanager
def local_workers(number: int = 2) -> Iterator[Any]:
    """Yield a client of processes of 1 GB and one thread each; one that dies is started again."""
    import dask
    from distributed import Client, LocalCluster

    settings = {"distributed.scheduler.allowed-failures": MANY, "distributed.deploy.lost-worker-timeout": "1 day"}
    each: Any = {"n_workers": number, "threads_per_worker": 1, "memory_limit": "1GB"}
    with (
        quiet(),
        dask.config.set(settings),
        LocalCluster(dashboard_address="127.0.0.1:0", **each) as cluster,
        Client(cluster) as client,
    ):
        yield client
