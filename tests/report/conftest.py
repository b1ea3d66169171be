"""Estimates that pages are made of."""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean import Estimate, SparseMeanDifference, datasets, simulate, sparse_mean
from sparsemean._util.checks import Bunch

BAD_NAMES = [
    "</script><script>alert(1)</script>",
    "<!--<img src=x onerror=alert(1)>",
    "a\"b'c,d\ne",
    "日本語 \u202eabc\u202c",
    "x" * 300,
    "=1+1 & &amp;",
    "\ud800half",
    *(f"plain {k}" for k in range(33)),
]


@pytest.fixture(scope="session")
def made() -> Bunch:
    """Forty features, seven of them with a mean, under attack."""
    return simulate.make_contaminated(400, 40, [6, -5, 4, -3, 3, 2, 1.5], contamination=0.05, random_state=1)


@pytest.fixture(scope="session")
def estimate(made: Bunch) -> Estimate:
    return sparse_mean(made.X, contamination=0.05, random_state=0, feature_names=[f"metric {k}" for k in range(40)])


@pytest.fixture(scope="session")
def named_badly(made: Bunch) -> Estimate:
    return sparse_mean(made.X, contamination=0.05, random_state=0, feature_names=BAD_NAMES)


@pytest.fixture(scope="session")
def nothing() -> Estimate:
    return sparse_mean(np.random.default_rng(0).normal(size=(100, 30)), contamination=0.05, random_state=0)


@pytest.fixture(scope="session")
def attacked() -> Estimate:
    """A fit some of whose features show only after screening."""
    mean = [5, 4, 3, 2.2, 1.8, 1.5, 1.5]
    data = simulate.make_contaminated(200, 100, mean, contamination=0.2, random_state=0)
    return sparse_mean(data.X, contamination=0.2, random_state=0)


@pytest.fixture(scope="session")
def groups() -> tuple[Estimate, Bunch]:
    data = datasets.load_all_sex()
    return SparseMeanDifference(contamination=0.05).fit(data.X, data.y).result_, data
