"""What decides is written once: arrays of a device go through without touching the host, and give the same bits."""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from sparsemean._evidence import signs
from sparsemean._evidence.signs import SlackEvidence, of_signs
from sparsemean._stats import arrays, nulls, path
from sparsemean._stats.decision import Holm, decide, rule_of
from sparsemean._stats.nulls import InfluenceNull
from sparsemean._util.plans import BadRows
from sparsemean._util.records import Counts

import fakecupy
from emulated import needs_compiler
from fakecupy import moved

pytestmark = [needs_compiler, pytest.mark.usefixtures("cupy")]


def same(a: Any, b: Any) -> None:
    """Two records hold the same bits, of the same types."""
    for item in fields(a):
        here, there = getattr(a, item.name), getattr(b, item.name)
        if isinstance(here, np.ndarray):
            assert here.dtype == there.dtype, item.name
            np.testing.assert_array_equal(here, there, err_msg=item.name)


def counts_of(seed: int, zeros: float) -> Counts:
    rng = np.random.default_rng(seed)
    buckets = (128, 64, 32, 16, 8)
    share = np.where(rng.random(50) < 0.2, 0.9, 0.5)
    nonzero = [rng.binomial(J, 1 - zeros, 50) for J in buckets]
    positive = np.stack([rng.binomial(N, share) for N in nonzero]).astype(np.int32)
    return Counts(positive, np.stack(nonzero).astype(np.int32) - positive, np.full(50, np.inf), buckets)


def test_arrays_and_records_come_back_as_they_went() -> None:
    counts = counts_of(0, 0.1)
    there = moved(counts)
    assert arrays.on_device(there.positive)
    assert not arrays.on_device(counts.positive)
    assert arrays.namespace(counts.nearest, there.positive) is sys.modules["cupy"]
    assert arrays.namespace(counts.nearest, 3) is np
    back = arrays.on_host(there)
    assert isinstance(back, Counts)
    same(counts, back)
    assert arrays.on_host(counts) is counts
    assert arrays.on_host((1, "a")) == (1, "a")
    evidence = of_signs(there, 128)
    assert not any(arrays.on_device(null.nonzero) for null in arrays.on_host(evidence).nulls)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="array of the host"):
        there.positive + counts.positive
    with pytest.raises(TypeError, match="behind one's back"):
        np.asarray(there.positive)


@pytest.mark.parametrize("bad_rows", [0, 3, 20])
@pytest.mark.parametrize("rule", ["fwer", "fdr", "fdr_by"])
@pytest.mark.parametrize("zeros", [0.0, 0.002, 0.3])
@pytest.mark.parametrize("kind", ["signs", "sums"])
@pytest.mark.parametrize("few", [0, 100_000])
def test_decisions_are_the_same_bits(
    few: int, kind: str, zeros: float, rule: str, bad_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signs, "FEW", few)
    monkeypatch.setattr(nulls, "FEW_VALUES", few)
    here = counts_of(1, zeros)
    there = moved(here)
    found = []
    for counts in (here, there):
        evidence = of_signs(counts, 128)
        if kind == "sums":
            statistic = (counts.positive[:1] - counts.negative[:1]) / 8.0
            evidence = SlackEvidence(abs(statistic), (InfluenceNull(4.0, 2.0),), (0.5,), 128)
        found.append(decide(evidence, rule_of(rule, 0.05, 50), (BadRows(0, bad_rows),)))
    chosen, chosen_there = found
    names = ("support", "p_values", "log_p", "p_adjusted", "q_values", "last", "max_contamination", "radius")
    for name in names:
        assert arrays.on_device(getattr(chosen_there, name))
        np.testing.assert_array_equal(getattr(chosen, name), arrays.on_host(getattr(chosen_there, name)), err_msg=name)


@pytest.mark.parametrize("zeros", [0.0, 1e-6])
def test_the_host_waits_for_the_device_a_few_times_only(zeros: float) -> None:
    """However many features there are: launches and waits cost more than the work there."""
    rng, d, buckets = np.random.default_rng(0), 20_000, (2000, 1000, 500)
    share = np.where(np.arange(d) < 50, 0.7, 0.5)
    nonzero = np.stack([rng.binomial(J, 1 - zeros, d) for J in buckets]).astype(np.int32)
    positive = rng.binomial(nonzero, share).astype(np.int32)
    counts = moved(Counts(positive, nonzero - positive, np.full(d, np.inf), buckets))
    fakecupy.CALLS.clear()
    assert decide(of_signs(counts, 2000), Holm(0.05), (BadRows(0, 100),)).radius.size == d
    assert fakecupy.CALLS["to host"] <= 30
    assert fakecupy.CALLS.total() <= 90


@pytest.mark.parametrize("zeros", [0.0, 0.05])
@pytest.mark.parametrize("gaps", [False, True])
def test_the_free_path_is_the_same_bits(zeros: float, gaps: bool) -> None:
    scales: dict[str, Any] = {"alpha": 1e-5, "eta": 0.05}
    rng = np.random.default_rng(5)
    nonzero = rng.binomial(64, 1 - zeros, (1, 300)).astype(np.int32)
    positive = rng.binomial(nonzero, rng.uniform(0.3, 1, 300)).astype(np.int32)
    here = Counts(positive, nonzero - positive, 10.0 ** rng.uniform(-8, 0, 300), (64,))
    if gaps:
        here = replace(here, present=np.maximum(nonzero, rng.integers(50, 65, nonzero.shape)).astype(np.int32))
    there = moved(here)

    def answers(counts: Counts) -> list[Any]:
        counted = counts.positive[0], counts.negative[0], counts.buckets(0)
        mu = path.closed_form_path(*counted, t=200, **scales)
        settled = path.needs_iteration(counts, mu, **scales), path.entry_unsettled(counts, alpha=1e-5)
        return [mu, path.free_entry(*counted, **scales), *settled, path.contenders(mu, 7)]

    for a, b in zip(answers(here), answers(there), strict=True):
        assert arrays.on_device(b)
        np.testing.assert_array_equal(a, arrays.on_host(b))


def test_values_are_asked_for_once() -> None:
    asked: list[int] = []

    def rule(values: Any) -> Any:
        assert isinstance(values, np.ndarray)
        asked.extend(values)
        return values / 2

    values = np.array([[3, 1], [3, 7]])
    for array in (values, moved(values)):
        for most in (None, 7, 1000):
            asked.clear()
            np.testing.assert_array_equal(arrays.on_host(arrays.map_unique(rule, array, most=most)), values / 2)
            assert asked == [1, 3, 7]
