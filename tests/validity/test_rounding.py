"""Values on a lattice about a null value that is no binary number: rounding must select nothing.

Each table has 20 columns of values symmetric about the null value in the numbers that were meant, .1·k or k/3, and in
either precision what a computer makes of them. At level 0.05 a cell may select anything in so many of its tables that a
rate of 0.05 exceeds it with probability 1e-4; all cells of a road together in no more than 0.05 + 2 standard errors.
The short version has tables of a few cells. Seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

import sparsemean as sm

from conftest import Claims

Draw = Callable[[np.random.Generator], np.ndarray]
SHAPE = (2000, 20)


def few(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-1, 2, SHAPE)


def wide(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-50, 51, SHAPE)


def heavy(rng: np.random.Generator) -> np.ndarray:
    return np.rint(3 * rng.standard_t(1.5, SHAPE)).clip(-1e4, 1e4)


LATTICES: dict[str, tuple[float, Draw, Callable[[np.ndarray], np.ndarray]]] = {
    "tenths about .3": (0.3, few, lambda k: np.round(0.3 + 0.1 * k, 10)),
    "tenths about .3, computed": (0.3, few, lambda k: 0.1 * (3 + k)),
    "tenths about .1, wide": (0.1, wide, lambda k: np.round(0.1 + 0.1 * k, 10)),
    "tenths about −2.9": (-2.9, wide, lambda k: np.round(-2.9 + 0.1 * k, 10)),
    "tenths about 1000000.3": (1e6 + 0.3, few, lambda k: np.round(1e6 + 0.3 + 0.1 * k, 10)),
    "hundredths about .7": (0.7, wide, lambda k: np.round(0.7 + 0.01 * k, 10)),
    "twentieths about 5.55, heavy tails": (5.55, heavy, lambda k: np.round(5.55 + 0.05 * k, 10)),
    "cents about 19.99": (19.99, heavy, lambda k: np.round(19.99 + 0.01 * k, 10)),
    "thirds about 1/3": (1 / 3, few, lambda k: (1 + k) / 3),
    "sevenths about 1/7, wide": (1 / 7, wide, lambda k: (1 + k) / 7),
    "1e-7 about 3e-7": (3e-7, few, lambda k: (3 + k) * 1e-7),
    "halves about 2.5": (2.5, wide, lambda k: 2.5 + 0.5 * k),
}
ROADS: dict[str, Callable[[np.ndarray, float], Any]] = {
    "buckets": lambda X, null: sm.sparse_mean(X, null=null, test="buckets", screen_rows=False, refine=None),
    "ranks": lambda X, null: sm.sparse_mean(X, null=null, test="ranks", screen_rows=False, refine=None),
    "sketch": lambda X, null: sm.sketch(X, null=null).estimate(contamination=0),
    "sparse": lambda X, null: sm.sparse_mean(
        sparse.csr_array(X), null=null, test="buckets", screen_rows=False, refine=None
    ),
}
SHORT = [("tenths about .3", "float64"), ("tenths about 1000000.3", "float64"), ("thirds about 1/3", "float32")]


def alarms_of(lattice: str, kind: str, road: str, runs: int) -> int:
    null, draw, values = LATTICES[lattice]
    found = 0
    for seed in range(runs):
        k = draw(np.random.default_rng((70, seed, *map(ord, lattice[-3:]))))
        found += ROADS[road](values(k).astype(kind), null).support.size > 0
    return found


@pytest.mark.parametrize("road", ROADS)
def test_lattices_about_their_null_values(road: str, long_version: bool, claims: Claims) -> None:
    cells = [*product(LATTICES, ("float64", "float32"))] if long_version else SHORT
    runs = 200 if long_version else 3
    most = int(stats.binom.ppf(1 - 1e-4, runs, 0.05))
    found = {cell: alarms_of(*cell, road, runs) for cell in cells}
    worst = max(found, key=lambda cell: found[cell])
    rate, name = sum(found.values()) / (runs * len(cells)), f"lattices about null values, {road}, family-wise error"
    bar = 0.05 + 2 * math.sqrt(0.05 * 0.95 / (runs * len(cells)))
    claims.add(f"{name}: all {len(cells)}", f"{rate:.4f}", f"≤ {bar:.4f}", "(70, 0…)")
    claims.add(f"{name}: {', '.join(worst)}, the worst", f"{found[worst]} of {runs}", f"≤ {most}", "(70, 0…)")
    assert found[worst] <= most, found
    assert rate <= bar


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("design", ["groups", "subjects", "pairs", "strata"])
def test_groups_computed_in_two_ways(design: str, kind: str, long_version: bool, claims: Claims) -> None:
    """.1·k in one group and round(.1·k, 1) in the other: the same numbers, in another last bit."""
    runs = 400 if long_version else 12
    y, alarms = np.repeat([0, 1], 400), 0
    given = {
        "groups": {}, "pairs": {"pairs": np.tile(np.arange(400), 2)}, "strata": {"strata": np.arange(800) % 4},
        "subjects": {"groups": np.arange(800) // 4},
    }[design]  # fmt: skip
    for seed in range(runs):
        k = np.random.default_rng((71, seed)).integers(-5, 10, (800, 20))
        tenth, third = np.array([0.1, 3]).astype(kind)
        written = np.round(0.1 * k, 1).astype(kind)
        X = np.where(y[:, np.newaxis] == 0, k.astype(kind) * tenth, written / third * third)
        found = sm.SparseMeanDifference().fit(X, y, **given)
        alarms += found.support_.size > 0
    most = int(stats.binom.ppf(1 - 1e-4, runs, 0.05))
    claims.add(
        f"groups computed in two ways, {design}, {kind}: family-wise error",
        f"{alarms} of {runs}",
        f"≤ {most}",
        "(71, 0…)",
    )
    assert alarms <= most
