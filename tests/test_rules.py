"""Rules of selection next to each other: how many rows look bad does not depend on them, fdr lists what Holm does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparsemean as sm

RULES = ("fwer", "fdr", "fdr_by")


def swapped(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two groups of which some features differ more or less, and of which two labels are wrong."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 30)
    X = rng.standard_normal((60, 80)) + np.outer(y, np.linspace(0, 3, 80))
    y[[3, 40]] = y[[40, 3]]
    return X, y


def moved(seed: int) -> np.ndarray:
    """One sample with means of all sizes, of which some rows were moved in a few columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (200, 60)) + np.linspace(0, 0.8, 60)
    X[:12, 40:] -= 5.0
    return X


def fits(name: str, seed: int, rule: str) -> Any:
    if name == "groups":
        return sm.SparseMeanDifference(selection=rule).fit(*swapped(seed)).result_
    if name == "means":
        options = {"target": "mean", "scale": 2.0} if seed % 2 else {}
        return sm.sparse_mean(moved(seed), selection=rule, random_state=0, **options)
    return sm.sparse_mean(moved(seed), selection=rule, test=name, random_state=0)


@pytest.mark.parametrize("name", ["groups", "ranks", "buckets", "means"])
def test_rules_see_the_same_bad_rows_and_fdr_selects_what_holm_does(name: str) -> None:
    bad = 0
    for seed in range(4):
        holm, fdr, by = (fits(name, seed, rule) for rule in RULES)
        for other in (fdr, by):
            assert other.plan.bad_rows == holm.plan.bad_rows
            np.testing.assert_array_equal(other.rows.suspects, holm.rows.suspects)
        np.testing.assert_array_equal(fdr.p_values, holm.p_values)
        assert set(fdr.support) >= set(holm.support)
        bad += holm.plan.bad_rows
    assert bad > 0
