"""The radius against every possible attack on small problems."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from sparsemean import certify, sparse_mean
from sparsemean._fit.power import CANNOT

from conftest import Claims

VALUES = (-1e3, 0.0, 1e3)


def selected(X: np.ndarray, sizes: tuple[int, ...], epsilon: float, level: float = 0.1) -> np.ndarray:
    result = certify(X, contamination=epsilon, bucket_sizes=sizes, level=level, random_state=4)
    flags = np.zeros(X.shape[1], dtype=bool)
    flags[result.support] = True
    return flags


def can_change(X: np.ndarray, feature: int, rows: int, sizes: tuple[int, ...], epsilon: float) -> bool:
    """Whether some replacement of ``rows`` rows moves ``feature`` across: every subset, every sign."""
    before = selected(X, sizes, epsilon)[feature]
    for chosen in combinations(range(X.shape[0]), rows):
        for values in product(VALUES, repeat=rows):
            other = X.copy()
            other[list(chosen)] = np.array(values)[:, np.newaxis]
            if selected(other, sizes, epsilon)[feature] != before:
                return True
    return False


@pytest.mark.parametrize("sizes", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("epsilon", [0.0, 1 / 12])
@pytest.mark.parametrize("positive", [12, 11, 10, 8])
def test_fixed_threshold_is_exact(
    sizes: tuple[int, ...], epsilon: float, positive: int, long_version: bool, claims: Claims
) -> None:
    """One feature: never with r − 1 rows; if it is selected always with r (as long as r rows can be searched: 3, or 2
    in `make test`)."""
    X = np.abs(np.random.default_rng(3).standard_normal((12, 1))) + 0.1
    X[positive:] *= -1
    result = sparse_mean(X, contamination=epsilon, bucket_sizes=sizes, level=0.1, random_state=4)
    radius = int(result.radius[0])
    assert radius >= 1
    searched = 3 if long_version else 2
    for rows in range(1, min(radius, searched + 1)):
        assert not can_change(X, 0, rows, sizes, epsilon)
    hopeless = any(CANNOT in message for message in result.status.messages)
    name = f"radius by exhaustion, sizes {sizes}, ε = {epsilon:.2g}, {positive} of 12 rows above zero"
    claims.add(name, f"r = {radius}: no change with fewer rows", "never with r − 1", "3")
    if radius <= searched and not hopeless and result.support.size:
        assert can_change(X, 0, radius, sizes, epsilon)


@pytest.mark.parametrize("seed", range(3))
def test_holm_never_changes_with_fewer_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.abs(rng.standard_normal((12, 3))) + 0.1
    X[rng.integers(10, 12) :, 0] *= -1
    X[rng.random(12) < 0.4, 1] *= -1
    result = sparse_mean(X, contamination=0.0, bucket_sizes=(1,), level=0.1, random_state=4)
    for feature, radius in enumerate(result.radius):
        for rows in range(1, min(int(radius), 3)):
            assert not can_change(X, feature, rows, (1,), 0.0)


def test_max_contamination_is_where_selection_ends(claims: Claims) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30)) + np.where(np.arange(30) < 5, 0.9, 0.0)
    result = sparse_mean(X, contamination=0.0, random_state=1)
    for feature in range(30):
        share = result.max_contamination[feature]
        if np.isnan(share):
            assert feature not in result.support
            continue
        at, beyond = (certify(X, contamination=share + step, random_state=1).support for step in (0.0, 1 / 200))
        assert feature in at
        assert feature not in beyond
    claims.add("max_contamination is where selection ends", "30 of 30 features", "all", "0")
