"""The problem and the call that the tests of screening and refinement share."""

from __future__ import annotations

from typing import Any

from sparsemean import Estimate, simulate, sparse_mean

MEAN = [10, -5, -4, 2]
DATA = simulate.make_contaminated(400, 60, MEAN, contamination=0.1, random_state=0)
NEITHER: dict[str, Any] = {"refine": None, "screen_rows": False}


def fit(X: Any = DATA.X, **options: Any) -> Estimate:
    return sparse_mean(X, **{"contamination": 0.1, "random_state": 1, **options})
