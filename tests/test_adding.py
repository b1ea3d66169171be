"""A test that someone adds: what CONTRIBUTING names is all that it takes, and what it has no answer for is refused."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

from sparsemean import certify, load, plan, sparse_mean
from sparsemean._stats import planning
from sparsemean._stats.decision import OfRows, Rule, probabilities, rejected
from sparsemean._util.plans import BadRows
from sparsemean.errors import InputError
from sparsemean.result._report import wording

SHARE = 0.25
"""Of values above the quantile that is tested."""


@dataclass(frozen=True, eq=False)
class QuantileEvidence(OfRows):
    """How many values lie above the null value: at most Binomial(n, ¼) where that is the upper quartile or more."""

    xp: ClassVar[ModuleType] = np
    leaves_out_zeros: ClassVar[bool] = False
    above: Any
    n_rows: int
    start: int = 0

    @staticmethod
    def from_data(data: Any, counts: Any) -> Any:  # noqa: ARG004
        if data.plan.question.min_effect:
            raise InputError("min_effect", "be 0 for a test of quantiles", data.plan.question.min_effect)
        above = np.sum(data.values(np.arange(data.plan.n_features)) > 0, axis=0)
        return QuantileEvidence(above, data.plan.n_units), data

    @staticmethod
    def intervals(levels: Any, wanted: Any, plan: Any, *, error: float) -> Any:  # noqa: ARG004
        ordered, n = np.sort(levels[0], axis=0), plan.n_units
        critical = int(stats.binom.isf(error, n, SHARE)) + 1 + plan.bad_rows
        low = ordered[n - critical] if critical <= n else np.full(ordered.shape[1], -np.inf)
        return np.stack((low, np.full(ordered.shape[1], np.inf)))

    @property
    def n_hypotheses(self) -> int:
        return int(self.above.size)

    def log_p(self, steps: Any, at: Any) -> Any:
        return stats.binom.logsf(self.above[at] - steps - 1, self.n_rows, SHARE)

    def p_values(self, allowed: tuple[BadRows, ...], some: Any = None) -> Any:
        at = np.arange(self.n_hypotheses) if some is None else some
        log_p = self.log_p(self.step_of(allowed), at)
        return at, probabilities(log_p), log_p

    def selected_first(self, rule: Rule) -> Any:
        return rejected(rule, probabilities(self.log_p(0, np.arange(self.n_hypotheses))), self.n_hypotheses)

    def along(self, steps: Any, at: Any) -> Any:
        return probabilities(self.log_p(self.start + steps, at))

    def last(self, error: float, at: Any, above: Any = None) -> Any:  # noqa: ARG002
        steps = np.arange((self.n_rows - 1) // 2 + 1 - self.start)
        p = self.along(steps[:, np.newaxis], at[np.newaxis])
        return np.sum(np.logical_and.accumulate(p <= error), axis=0) - 1

    def beyond(self, allowed: tuple[BadRows, ...]) -> QuantileEvidence:
        return QuantileEvidence(self.above, self.n_rows, start=self.step_of(allowed))


@pytest.fixture
def quantiles(monkeypatch: pytest.MonkeyPatch) -> None:
    file: Any = SimpleNamespace(QuantileEvidence=QuantileEvidence)
    monkeypatch.setitem(sys.modules, "sparsemean._evidence.quantiles", file)
    monkeypatch.setitem(
        planning.TESTS, "quantile", planning.KnownTest("quantiles.QuantileEvidence", "numbers above a quantile")
    )
    words = wording.CENTRES._replace(
        null="A feature counts as false where its upper quartile is at most the null value."
    )
    monkeypatch.setitem(wording.TESTS, ("quantile", False), words)


@pytest.fixture(name="X")
def table() -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(200, 30))
    X[:, :5] += 0.5
    X[:, 5:] -= 0.8  # the upper quartile of the others is below 0
    return X


@pytest.mark.usefixtures("quantiles")
@pytest.mark.parametrize("bad", [0.0, 0.05])
def test_a_test_is_reached_by_its_name(X: np.ndarray, bad: float, tmp_path: Path) -> None:
    found = sparse_mean(X, test="quantile", contamination=bad)
    above, m = np.sum(X > 0, axis=0), round(bad * 200)
    np.testing.assert_allclose(found.p_values, stats.binom.sf(above - m - 1, 200, SHARE))
    assert found.support.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(certify(X, test="quantile", contamination=bad).p_values, found.p_values)
    assert (found.intervals[found.support, 0] > 0).all()
    assert np.isinf(found.intervals[found.support, 1]).all()
    assert found.status.test == "numbers above a quantile"
    assert "its upper quartile is at most the null value" in found.summary()
    for feature in found.support:  # that many values that are turned, and no fewer, take it off
        changed = X.copy()
        rows = np.flatnonzero(X[:, feature] > 0)[: int(found.radius[feature]) - 1]
        changed[rows, feature] = -1.0
        assert feature in sparse_mean(changed, test="quantile", contamination=bad).support
    assert found.at(0.1).support.size <= 5
    found.save(tmp_path / "fit.npz")
    np.testing.assert_array_equal(load(tmp_path / "fit.npz").p_values, found.p_values)


@pytest.mark.usefixtures("quantiles")
def test_what_a_test_has_no_answer_for_is_one_line(X: np.ndarray) -> None:
    nothing = sparse_mean(X - 5, test="quantile", contamination=0)
    assert nothing.support.size == 0
    assert nothing.summary()
    with pytest.raises(InputError, match="min_effect must be 0 for a test of quantiles"):
        sparse_mean(X, test="quantile", contamination=0, min_effect=0.1)
    with pytest.raises(InputError, match="test must be one whose power is known: ranks, sums, buckets"):
        plan(200, 30, test="quantile")


def test_no_name_is_taken_for_another(X: np.ndarray) -> None:
    with pytest.raises(InputError, match="test must be one of 'auto', 'ranks', 'buckets'"):
        sparse_mean(X, test="quantile")
    with pytest.raises(InputError, match="selection must be one of"):
        certify(X, selection="bonferroni")
