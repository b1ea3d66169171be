"""The compiled search for slacks against the readable one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sparsemean._kernels import compiling
from sparsemean._stats import selection
from sparsemean._stats.compiled_search import CompiledSlackSearch
from sparsemean._stats.nulls import of_signs, sign_test_eras
from sparsemean._stats.selection import Holm, SlackSearch
from sparsemean._util.records import Counts, Evidence

BUCKETS = (200, 100, 50)


def evidence_of(d: int, zeros: str, eras: bool, seed: int = 0) -> Evidence:
    rng = np.random.default_rng(seed)
    share = np.where(np.arange(d) % 20 == 0, rng.uniform(0.5, 1.0, d), 0.5)
    positive = np.stack([rng.binomial(J, share) for J in BUCKETS]).astype(np.int32)
    negative = np.array(BUCKETS, dtype=np.int32)[:, np.newaxis] - positive
    if zeros == "some":
        negative[:, d // 2 :: 997] //= 2
    elif zeros == "many":
        negative -= rng.binomial(negative, 0.3).astype(np.int32)
    elif zeros == "none at all":
        positive[:, 1::7], negative[:, 1::7] = 0, 0
    signs = of_signs(Counts(positive, negative, np.ones(d), BUCKETS))
    return replace(signs, eras=sign_test_eras(BUCKETS, error=0.05 / d, sides=2)) if eras else signs


@pytest.mark.parametrize("d", [1, 2, 300, 2048, 7001])
@pytest.mark.parametrize("zeros", ["", "some", "many", "none at all"])
@pytest.mark.parametrize("eras", [False, True])
def test_looks_and_slacks_are_those_of_the_readable_search(d: int, zeros: str, eras: bool) -> None:
    evidence = evidence_of(d, zeros, eras)
    for low, high in ((-1, 100), (-251, 100)):
        plain, fast = SlackSearch(evidence, low), CompiledSlackSearch(evidence, low, high)
        for error in (1e-9, 0.05 / d, 0.01, selection.BELOW_ONE):
            for slack in (0, 5, 30):
                np.testing.assert_array_equal(fast.reaching(error, slack), plain.reaching(error, slack))
            assert fast.raise_to(error, high) == plain.raise_to(error, high)
            np.testing.assert_array_equal(fast.slack, plain.slack)
            for than in {0, d // 2, d - 1}:
                assert fast.reached_by_more(than) == plain.reached_by_more(than)
        rule = Holm(0.05)
        np.testing.assert_array_equal(
            selection._step_down(CompiledSlackSearch(evidence, low, high), rule, high),
            selection._step_down(SlackSearch(evidence, low), rule, high),
        )


def test_many_features_are_searched_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = evidence_of(3000, "some", eras=True)
    found = []
    for ended in (False, True):
        monkeypatch.setattr(compiling.Plainness, "ended", ended)
        chosen = selection.select(evidence, selection="fwer", level=0.05, bad_rows=4, n_rows=200)
        found.append((chosen, selection.radius(evidence, chosen, Holm(0.05), bad_rows=4, n_rows=200)))
        assert isinstance(selection._looks(evidence, -1, 100), CompiledSlackSearch) == ended
    (one, radius), (other, other_radius) = found
    np.testing.assert_array_equal(radius, other_radius)
    for name in ("support", "p_values", "p_adjusted", "q_values", "best", "last_slack"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
