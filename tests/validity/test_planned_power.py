"""The power of signed ranks that plans promise, against 2000 fits of normal noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sparsemean as sm
from sparsemean._stats.one_sample_power import power_of
from sparsemean._stats.planning import plan_fit

DRAWS = 2000


@pytest.mark.slow
@pytest.mark.parametrize("n", [125, 600, 2000])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.05, 0.15])
def test_the_power_of_ranks(n: int, epsilon: float) -> None:
    """Two effects, bad rows silent and opposed, within .01 and 3 standard errors: false alarms 1 in 8 runs."""
    plan, rng = plan_fit(n, DRAWS, contamination=epsilon), np.random.default_rng(n)
    test = power_of(plan)
    for opposed in (False, True)[: 1 + (plan.bad_rows > 0)]:
        for wanted in (0.5, 0.8):
            effect = test.smallest(wanted, opposed=opposed)
            if math.isinf(effect):
                continue
            X = rng.standard_normal((n, DRAWS)) + effect
            if opposed:
                X[: plan.bad_rows] = -1e6 - np.arange(plan.bad_rows)[:, np.newaxis]
            found = np.mean(sm.certify(X, contamination=epsilon).p_values <= plan.level / DRAWS)
            error = math.sqrt(wanted * (1 - wanted) / DRAWS)
            assert abs(test.chance(effect, opposed=opposed) - wanted) < 0.002
            assert abs(found - wanted) <= 0.01 + 3 * error
