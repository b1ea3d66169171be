"""A file fitted by workers beside one process, and by workers that are killed; to be used in a process of its own."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from sparsemean.bench.peak import peak_memory
from sparsemean.clusters.starting import working
from sparsemean.estimate import Estimate
from sparsemean.fitting import fit
from sparsemean.sources import open_file
from sparsemean.sources.spread import spread
from sparsemean.sources.wanted import NOTHING

WORKERS = 2
MEMORY = "1GB"


def here(path: Path) -> Estimate:
    """Fit the file in this process, without judging rows."""
    return fit(open_file(path), refine=None, screen_rows=False, random_state=0)


def there(path: Path) -> Estimate:
    """Fit the file by the workers of the current client, without judging rows."""
    table = spread(open_file(path), path, NOTHING)
    return fit(table, refine=None, screen_rows=False, random_state=0)


def times(path: Path, repeat: int) -> tuple[float, float, float, float]:
    """Return seconds in one process, seconds by workers and those until they had started, and their peak memory.

    Workers are started anew each time, which is part of their time. The best of ``repeat`` counts; the peak, in bytes,
    is the largest of any worker.
    """
    alone, spread_out, started, peak = [], [], [], 0
    for _ in range(repeat):
        began = time.perf_counter()
        expected = here(path)
        alone.append(time.perf_counter() - began)
        began = time.perf_counter()
        with working("local", workers=WORKERS, memory=MEMORY) as client:
            started.append(time.perf_counter() - began)
            found = there(path)
            spread_out.append(time.perf_counter() - began)
            peak = max(peak, *client.run(peak_memory).values())
        assert same(found, expected)
    return min(alone), min(spread_out), min(started), float(peak)


def killed(path: Path, kills: int) -> tuple[int, int]:
    """Kill one worker at a random moment of each of ``kills`` fits; return how many were hit, and gave the same."""
    expected, rng = here(path), np.random.default_rng(0)
    hit = right = 0
    with working("local", workers=WORKERS, memory=MEMORY) as client:
        began = time.perf_counter()
        there(path)
        takes = time.perf_counter() - began
        while hit < kills:
            found, hits = _with_a_kill(client, path, float(rng.uniform(0, takes)), rng)
            hit += hits
            right += hits and same(found, expected)
    return hit, right


def _with_a_kill(client: Any, path: Path, moment: float, rng: np.random.Generator) -> tuple[Estimate, bool]:
    """Fit the file and kill a worker after so many seconds, unless all is done by then."""
    client.wait_for_workers(WORKERS)
    victim = int(rng.choice(list(client.run(os.getpid).values())))
    done = threading.Event()
    hits: list[int] = []

    def kill() -> None:
        if not done.wait(moment):
            os.kill(victim, signal.SIGKILL)
            hits.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = there(path)
    finally:
        done.set()
        killer.join()
    return found, bool(hits)


def same(found: Estimate, expected: Estimate) -> bool:
    """Whether all counts, decisions and values are the same to the last bit."""
    assert found.counts is not None
    assert expected.counts is not None
    pairs: list[tuple[Any, Any]] = [
        (found.counts.positive, expected.counts.positive),
        (found.counts.negative, expected.counts.negative),
        (found.counts.nearest, expected.counts.nearest),
        (found.p_values, expected.p_values),
        (found.mean, expected.mean),
    ]
    return all(np.array_equal(a, b) for a, b in pairs)
