"""What Table 1 runs: every method at sizes that it can be paid for."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from sparsemean import baselines
from sparsemean.errors import InputError
from sparsemean.studies.settings import DEFAULT_MEAN, Sweep

NOISE = (("t", 3.1),)
ATTACKS = ("constant_bias", "root_shift", "root_shift_one")
OURS = ("stage_1", "full_GD", "full_filter", "full_stability", "default")
COMPARED = ("sparse_GD", "sparse_filter", "median_of_means")
ALL = (*OURS, *COMPARED)
MEAN = (2.0,) * 4
SIZES = (10, 20, 100, 400)
"""Features at which seconds are told."""
REFUSED = {"sparse_directions": (400,), "sparse_sos": (100, 400)}
"""Sizes that are asked for only to hear why not."""
MOST = {"sparse_directions": 235, "sparse_sos": 24}
"""The most features, at k = 4, that are not refused."""
NEEDS = {"sparse_sos": "scs"}
"""Packages without which a method cannot run."""
Key: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """Methods, and the grids over which each of them is run; a grid may be empty.

    Errors grow over ``contamination`` and ``k`` under three attacks with n rows of d features, over ``grid_n`` and
    ``grid_d`` (600 rows) under one. ``attacked`` are the d at which errors under each attack are told. ``rows`` are the
    n tried for each k, d and contamination of ``rows_k``, ``rows_d`` and ``rows_contamination``. A quick run leaves out
    what is ``costly``.
    """

    estimators: tuple[str, ...]
    costly: bool = False
    trials: int = 10
    n: int = 8000
    d: int = 64
    contamination: tuple[float, ...] = ()
    k: tuple[int, ...] = ()
    grid_n: tuple[int, ...] = ()
    grid_d: tuple[int, ...] = ()
    attacked: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    rows_k: tuple[int, ...] = ()
    rows_d: tuple[int, ...] = ()
    rows_contamination: tuple[float, ...] = ()

    def quick(self) -> Scale:
        """Return a look at it: the first and the middle of every grid, fewer rows and trials."""
        grids = {name: getattr(self, name) for name in GRIDS}
        thin: dict[str, Any] = {name: grid[:: max(1, len(grid) // 2)][:2] for name, grid in grids.items()}
        return replace(self, n=min(self.n, 1500), trials=-(-self.trials // 5), rows=self.rows[::3], **thin)

    def sweeps(self, trials: int | None, seed: int) -> dict[Key, Sweep]:
        """Return its sweeps by what they measure."""
        base = Sweep("n", (), NOISE, self.estimators, ATTACKS, n=self.n, d=self.d, mean=MEAN, seed=seed,
                     trials=trials or self.trials)  # fmt: skip
        plain = replace(base, attacks=ATTACKS[:1], trials=trials or -(-3 * self.trials // 10))
        pair = replace(base, grid=self.rows, attacks=ATTACKS[1:], trials=trials or -(-6 * self.trials // 10))
        default = replace(plain, over="d", n=600, mean=DEFAULT_MEAN)
        found: dict[Key, Sweep] = {
            ("growth", "ε"): replace(base, over="contamination", grid=self.contamination),
            ("growth", "k"): replace(base, over="k", grid=self.k),
            ("growth", "n"): replace(plain, grid=self.grid_n),
            ("growth", "d"): replace(default, grid=self.grid_d),
            ("attacks",): replace(default, grid=self.attacked, attacks=ATTACKS, trials=base.trials),
        }
        found |= {("rows", "k", str(k)): replace(pair, mean=MEAN[:1] * k) for k in self.rows_k}
        found |= {("rows", "d", str(d)): replace(pair, d=d) for d in self.rows_d}
        found |= {("rows", "ε", str(c)): replace(pair, contamination=c) for c in self.rows_contamination}
        return {key: sweep for key, sweep in found.items() if sweep.grid and sweep.estimators}


GRIDS = ("contamination", "k", "grid_n", "grid_d", "attacked", "rows_k", "rows_d", "rows_contamination")


def _doubling(first: int, last: int, ratio: float) -> tuple[int, ...]:
    steps = round(math.log(last / first) / math.log(ratio))
    return tuple(round(first * ratio**step) for step in range(steps + 1))


CONTAMINATIONS, SPARSITIES = (0.01, 0.02, 0.05, 0.1, 0.2), (2, 4, 8, 16, 32)
SCALES = (
    Scale(ALL, contamination=CONTAMINATIONS, k=SPARSITIES, grid_n=(1000, 4000, 16000, 64000),
          grid_d=(*SIZES, 1000, 3162), attacked=(10, 100)),
    Scale(OURS, grid_d=(10_000, 31_623, 100_000)),
    Scale((*OURS, "sparse_filter"), rows=_doubling(25, 6400, math.sqrt(2)), rows_k=SPARSITIES, rows_d=(64, 256, 1024),
          rows_contamination=(0.025, 0.05, 0.1, 0.2)),
    Scale(("sparse_directions",), trials=10, n=2000, d=20, contamination=CONTAMINATIONS, k=(1, 2, 3, 4, 5),
          grid_n=(250, 1000, 4000), grid_d=(10, 20, 50, 100), attacked=(10, 100),
          rows=_doubling(25, 1600, math.sqrt(2)), rows_k=(1, 2, 4), rows_d=(10, 20, 40),
          rows_contamination=(0.05, 0.1, 0.2)),
    Scale(("sparse_directions",), costly=True, trials=1, grid_d=(150, 200)),
    Scale(("sparse_sdp",), trials=10, contamination=CONTAMINATIONS, k=SPARSITIES, grid_n=(1000, 4000, 16000, 64000),
          grid_d=(10, 20, 50, 100), attacked=(10, 100), rows=_doubling(25, 3200, 2.0), rows_k=SPARSITIES,
          rows_d=(16, 32, 64), rows_contamination=(0.05, 0.1, 0.2)),
    Scale(("sparse_sdp",), costly=True, trials=1, grid_d=(200, 400)),
    Scale(("sparse_sos",), trials=5, n=1000, d=8, contamination=CONTAMINATIONS[1:], k=(2, 3, 4),
          grid_n=(250, 1000, 4000), grid_d=(6, 8, 10, 12), attacked=(10,), rows=_doubling(50, 800, 2.0), rows_k=(2, 4),
          rows_d=(6, 8, 10), rows_contamination=(0.05, 0.1, 0.2)),
    Scale(("sparse_sos",), costly=True, trials=1, grid_d=(16, 20)),
)  # fmt: skip


def sweeps(quick: bool, trials: int | None, seed: int) -> dict[Key, Sweep]:
    """Return everything that is run but the lower bound, by what it measures and the number of its scale."""
    found: dict[Key, Sweep] = {}
    for at, scale in enumerate(SCALES):
        if quick and scale.costly:
            continue
        there = replace(scale, estimators=tuple(name for name in scale.estimators if name not in lacking()))
        of = (there.quick() if quick else there).sweeps(trials, seed)
        found |= {(*key, f"#{at}"): sweep for key, sweep in of.items()}
    floor = replace(found["growth", "ε", "#0"], attacks=ATTACKS[:1], mean=DEFAULT_MEAN)
    return found | {("floor",): replace(floor, estimators=("stage_1", "median_of_means"))}


def lacking() -> dict[str, str]:
    """Return the methods that cannot be run here, and why."""
    return {
        name: f"not run, for want of {package}: pip install 'sparsemean[sos]'"
        for name, package in NEEDS.items()
        if importlib.util.find_spec(package) is None
    }


def refusals() -> dict[tuple[str, int], str]:
    """Return what methods say at sizes that they refuse."""
    said: dict[tuple[str, int], str] = {}
    for name, d in ((name, d) for name, sizes in REFUSED.items() if name not in lacking() for d in sizes):
        try:
            baselines.get(name)(np.zeros((600, d)), contamination=0.1, k=len(DEFAULT_MEAN))
        except InputError as error:
            said[name, d] = str(error)
    return said
