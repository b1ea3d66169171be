"""Signed ranks need no seed: calls agree to the last bit, on simulated data and on data that nobody here made.

Beside it stands how many features ranks and buckets select there. Means are tested against those of the first half of
the rows, or differences of pairs of rows against zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from sparsemean import certify, datasets, sparse_mean

from conftest import Claims

EXACT = ("p_values", "p_adjusted", "q_values", "support", "intervals", "radius", "max_contamination")


def halves(X: np.ndarray) -> np.ndarray:
    """The second half of the rows less the means of the first."""
    order = np.random.default_rng(0).permutation(X.shape[0])
    first, second = np.array_split(order, 2)
    return X[second] - X[first].mean(axis=0)


def patients() -> np.ndarray:
    """Men less women, a pair a row: genes on the Y chromosome and XIST differ."""
    data = datasets.load_all_sex()
    women, men = data.X[data.y == "F"], data.X[data.y == "M"]
    return men[: women.shape[0]] - women


def cells() -> np.ndarray:
    """Monocytes less other cells, a pair a row; most values are zeros."""
    scanpy = pytest.importorskip("scanpy")
    data = scanpy.datasets.pbmc68k_reduced()
    X, kind = data.raw.X.toarray().astype(float), data.obs["bulk_labels"].to_numpy()
    own, other = X[kind == "CD14+ Monocyte"], X[kind != "CD14+ Monocyte"]
    return own - other[: own.shape[0]]


def bundled(name: str) -> np.ndarray:
    return np.asarray(getattr(pytest.importorskip("sklearn.datasets"), f"load_{name}")().data, dtype=float)


TABLES: dict[str, Callable[[], np.ndarray]] = {
    "125 leukaemia patients, men less women": patients,
    "pbmc68k_reduced, monocytes less others": cells,
    "breast cancer, malignant less benign": lambda: np.subtract(*tumours()),
    "breast cancer, two halves": lambda: halves(bundled("breast_cancer")),
    "wine, two halves": lambda: halves(bundled("wine")),
    "digits, two halves": lambda: halves(bundled("digits")),
    "digits, ratings less 8": lambda: bundled("digits") - 8,
    "diabetes, two halves": lambda: halves(bundled("diabetes")),
}


def tumours() -> tuple[np.ndarray, np.ndarray]:
    data = pytest.importorskip("sklearn.datasets").load_breast_cancer()
    malignant, benign = data.data[data.target == 0], data.data[data.target == 1]
    return malignant, benign[: malignant.shape[0]]


def by_wilcoxon_and_holm(X: np.ndarray) -> int:
    """Return how many columns are found by Wilcoxon's test, zeros left out and its tail taken as normal."""
    values = [x[x != 0] for x in X.T]
    p = np.sort([stats.wilcoxon(x, method="approx").pvalue if x.size > 5 else 1.0 for x in values])
    return int(np.logical_and.accumulate(p <= 0.05 / np.arange(p.size, 0, -1)).sum())


def same(one: object, other: object, name: str) -> bool:
    return np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name != "support")


def simulated(n: int, d: int) -> np.ndarray:
    X = np.random.default_rng(1).standard_t(3, (n, d))
    X[:, :30] += np.linspace(0.05, 0.5, 30)
    return X


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_calls_agree(epsilon: float, long_version: bool, claims: Claims) -> None:
    X, calls = simulated(600, 200), 20 if long_version else 3
    results = [
        sparse_mean(X, contamination=epsilon, random_state=None, refine=None, screen_rows=False) for _ in range(calls)
    ]
    assert results[0].support.size >= 5
    for name in EXACT:
        assert all(same(results[0], other, name) for other in results[1:]), name
    name = f"p, support, intervals, radius of {calls} calls, random_state=None, ε = {epsilon:g}"
    claims.add(name, "identical", "identical", "1")


def test_seeds_do_not_matter_where_all_features_are_ranked() -> None:
    X = simulated(600, 200)
    results = [
        sparse_mean(X, contamination=0.01, random_state=seed, refine=None, screen_rows=False) for seed in range(3)
    ]
    for name in EXACT:
        assert all(same(results[0], other, name) for other in results[1:]), name


def test_calls_agree_where_features_are_filtered() -> None:
    """More than four million values: buckets say which features are ranked, with a seed that nobody draws."""
    X = simulated(1000, 4200)
    one, other = (certify(X, contamination=0.01, random_state=None) for _ in range(2))
    for name in ("p_values", "p_adjusted", "support", "radius", "max_contamination"):
        assert same(one, other, name), name


@pytest.mark.parametrize("kind", TABLES)
def test_real_data(kind: str, long_version: bool, claims: Claims) -> None:
    X, found = TABLES[kind](), {}
    if not long_version and X.size > 100_000:
        pytest.skip("part of make validate")
    ties = np.mean([np.unique(column).size for column in np.abs(X).T]) < 0.9 * X.shape[0]
    for epsilon in (0.0, 0.01, 0.05) if long_version else (0.0, 0.05):
        options = {"contamination": epsilon, "refine": None, "screen_rows": False, "random_state": None}
        one, other = (sparse_mean(X, **options) for _ in range(2))
        for name in EXACT:
            assert same(one, other, name), name
        low, high = one.intervals[one.support].T
        holding = int(np.sum((low <= 0) & (high >= 0)))
        assert ties or not holding, "intervals of selected features hold the null value"
        buckets = certify(X, contamination=epsilon, test="buckets", random_state=0).support.size
        found[epsilon] = one.support.size, buckets, f" ({holding} intervals hold 0)" if holding else ""
    textbook = by_wilcoxon_and_holm(X)
    assert found[0.0][0] >= (0.85 if ties else 0.99) * textbook - 1  # ties count against rejection, or p is doubled
    text = ", ".join(f"{ranks} and {buckets}{remark}" for ranks, buckets, remark in found.values())
    name = f"selected by ranks and by buckets at ε = 0, 1, 5 %, {kind}, {X.shape[0]} × {X.shape[1]}"
    claims.add(name, text, "no error, calls agree", "0")
