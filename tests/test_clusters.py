"""Who may ask a cluster and who may answer: no strangers, no other version, nobody who waits for ever."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

from sparsemean import InputError, sparse_mean
from sparsemean._data import as_table
from sparsemean._fit.one_sample import fit
from sparsemean._util import cluster as dask_cluster

X = np.random.default_rng(0).standard_normal((300, 20)) + 2.0 * (np.arange(20) < 2)

SCHEDULER = """
import time
from distributed import LocalCluster
cluster = LocalCluster(n_workers=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0")
print(cluster.scheduler_address, flush=True)
time.sleep(60)
"""


@pytest.fixture
def client() -> Iterator[Any]:
    """A worker with one thread, in this process, that no limit of memory makes run again once it is paused."""
    settings: Any = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": "127.0.0.1:0"}
    with dask_cluster.quiet(), LocalCluster(processes=False, **settings) as cluster, Client(cluster) as client:
        yield client


def fitted() -> list[int]:
    return sparse_mean(da.from_array(X, chunks=(100, 20)), random_state=0).support.tolist()


def test_a_fit_inside_a_task_leaves_its_place_to_the_tasks_it_waits_for(client: Any) -> None:
    expected = sparse_mean(X, random_state=0).support.tolist()
    assert client.submit(fitted).result(timeout=60) == expected
    assert client.submit(abs, -1).result(timeout=10) == 1  # the place is taken up again


def test_a_scheduler_that_dies_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "PATIENCE", 2)
    command = [sys.executable, "-c", SCHEDULER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as scheduler:
        assert scheduler.stdout is not None
        with dask_cluster.cluster_client(scheduler.stdout.readline().strip()):
            table = as_table(da.from_array(X, chunks=(100, 20)))
            with pytest.raises(ConnectionError, match="the scheduler is gone"):
                fit(table, progress=lambda _: scheduler.kill())
            # it has a level and a handler of its own, and would tell of every vain attempt to connect again
            assert not logging.getLogger("distributed.client").isEnabledFor(logging.CRITICAL)


@pytest.mark.parametrize("version", ["'0.0.1'", "__import__('sparsemean.nowhere')"])
def test_workers_of_another_version_are_refused(client: Any, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "VERSION", version)
    with pytest.raises(InputError, match=r"workers must have sparsemean .* installed.*: got .* on inproc:.*the same"):
        fitted()
