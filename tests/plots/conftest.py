"""Estimates that the plots draw: made data, two groups, nothing selected; no figure outlives its test."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pytest

from sparsemean import Estimate, SparseMeanDifference, simulate, sparse_mean
from sparsemean._stats.planning import PRESET

mpl.use("Agg")
from matplotlib import pyplot as plt

NAMES = [f"$x_{{{i}}}$ <b>{i}</b>_" for i in range(60)]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    settings = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == settings


@pytest.fixture(scope="session")
def made() -> Estimate:
    """Six means among sixty features, one row in ten shifted, names that matplotlib could take for mathematics."""
    data = simulate.make_contaminated(400, 60, [10, -5, -4, 2, 2, 1], contamination=0.1, random_state=0)
    return sparse_mean(data.X, feature_names=NAMES, contamination=0.1, random_state=0)


@pytest.fixture(scope="session")
def groups() -> Estimate:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 40)), np.repeat(["a", "b"], 40)
    X[40:, :3] += [4, -4, 3]
    y[[5, 45]] = ["b", "a"]
    return SparseMeanDifference(contamination=0.04).fit(X, y).result_


@pytest.fixture(scope="session")
def nothing() -> Estimate:
    return sparse_mean(np.random.default_rng(0).standard_normal((60, 20)), random_state=0)


@pytest.fixture(scope="session")
def paper() -> Estimate:
    data = simulate.make_contaminated(400, 60, [10, -5, -4, 2], contamination=0.1, random_state=0)
    return sparse_mean(data.X, contamination=0.1, random_state=0, **PRESET)
