"""Every situation has its verdict, word for word as it is printed 80 columns wide: ``verdicts.txt``.

``python tests/report/test_verdicts.py`` writes that file anew. Read what has changed as somebody who knows none of this.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean import Estimate, SparseMean, SparseMeanDifference, datasets, simulate, sketch, sparse_mean
from sparsemean._util.checks import Bunch
from sparsemean.experiments import scorecard
from sparsemean.result.comparison import Comparison, called

GOLDEN = Path(__file__).with_name("verdicts.txt")
PROTEINS = [f"P{k:05d}" for k in range(2000)]


@cache
def swapped() -> Bunch:
    """Forty cases and forty controls, thirty proteins 2.2 deviations higher in cases, one pair of samples swapped."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 500)), np.repeat(["control", "case"], 40)
    X[40:, :30] += 2.2
    y[[3, 50]] = y[[50, 3]]
    return Bunch(X=X, y=y)


@cache
def small() -> Bunch:
    """Twenty and twenty, one pair swapped: being sure of that costs most of what is there."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 1000)), np.repeat(["control", "case"], 20)
    X[20:, :30] += 2.0
    y[[3, 30]] = y[[30, 3]]
    return Bunch(X=X, y=y)


@cache
def three() -> Bunch:
    """Three cell types of 150 cells with markers of their own, two cells with the wrong label."""
    rng = np.random.default_rng(0)
    y = np.repeat(["B", "NK", "T"], 150)
    X = rng.poisson(1.0, (450, 200)) + 0.01 * rng.random((450, 200))
    for k, label in enumerate("B NK T".split()):
        X[np.ix_(y == label, np.arange(12 - 3 * k) + 20 * k)] += 4
    y[[0, 400]] = ["NK", "B"]
    return Bunch(X=X, y=y)


def moved(n: int = 600, bad: int = 30) -> np.ndarray[Any, Any]:
    """Rows of which some lie off together, in the same direction."""
    return simulate.make_contaminated(n, 100, [10, -5, -4, 2], contamination=bad / n, random_state=0).X


def normal(n: int, d: int, *means: float, seed: int = 0) -> np.ndarray[Any, Any]:
    X = np.random.default_rng(seed).standard_normal((n, d))
    X[:, : len(means)] += means
    return X


def arms(shift: float, bots: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    arm = np.repeat(["control", "new"], 1500)
    X = rng.poisson(3.0, (3000, 12)).astype(float) + rng.poisson(shift, (3000, 12)) * (
        (arm == "new")[:, None] & (np.arange(12) < 3)
    )
    X[:bots] += 60
    return X, arm


def compared(X: Any, y: Any, **options: Any) -> Estimate | Comparison:
    fit = {name: options.pop(name) for name in ("pairs", "groups", "strata") if name in options}
    return SparseMeanDifference(**options).fit(X, y, **fit).result_


def all_sex(**options: Any) -> Estimate | Comparison:
    data = datasets.load_all_sex()
    import pandas as pd

    X = pd.DataFrame(data.X, index=data.samples, columns=data.features)
    return called(compared(X, data.y, **options), "sample", "probe")


def walk(n: int) -> np.ndarray[Any, Any]:
    """Neighbouring rows are alike."""
    X = np.cumsum(np.random.default_rng(0).standard_normal((n, 20)), axis=0) / 5
    return np.asarray(X - X.mean(axis=0) + np.where(np.arange(20) < 4, 2.0, 0.0))


def skewed() -> np.ndarray[Any, Any]:
    X = np.random.default_rng(0).standard_normal((400, 30))
    X[:, :4] += 1
    X[:, 4:7] = np.random.default_rng(1).exponential(size=(400, 3)) - 1
    return X


def named(X: Any, prefix: str = "f") -> Any:
    import pandas as pd

    return pd.DataFrame(X, index=[f"s{k}" for k in range(len(X))], columns=[f"{prefix}{k}" for k in range(X.shape[1])])


def donor() -> np.ndarray[Any, Any]:
    X = normal(120, 60, 1.2, 1.0, -1.1)
    X[7] *= 6
    X[[11, 12], 20:32] += 30
    X[12, 31:40] -= 30
    return X


SITUATIONS: dict[str, Callable[[], Any]] = {
    "two groups, one pair of samples swapped": lambda: compared(swapped().X, swapped().y, reference="control"),
    "the same of twenty and twenty": lambda: compared(small().X, small().y, reference="control"),
    "men and women, four samples that look like the other sex": all_sex,
    "the same with a share that is named": lambda: all_sex(contamination=0.05),
    "nothing suspicious, few samples": lambda: compared(
        normal(38, 60, seed=2) + 2.5 * np.outer(np.arange(38) % 2, np.arange(60) < 5), np.arange(38) % 2
    ),
    "nothing suspicious, many rows": lambda: sparse_mean(normal(600, 100, 1.0, -0.5, -0.4, 0.3)),
    "one sample, 30 of 600 rows off together": lambda: sparse_mean(moved()),
    "one sample, few rows, all of them named": lambda: sparse_mean(named(moved(60, 4))),
    "none wrong, as asked": lambda: sparse_mean(moved(), contamination=0.0),
    "nothing selected": lambda: sparse_mean(named(normal(60, 20))),
    "nothing selected of two groups, bad rows assumed": lambda: compared(
        normal(60, 20) + 1.1 * np.outer(np.arange(60) % 2, np.arange(20) < 2), np.arange(60) % 2, contamination=0.1
    ),
    "a design that can show nothing": lambda: called(
        compared(named(normal(12, 2000), "P"), np.arange(12) % 2), None, "protein"
    ),
    "a design that can show nothing if so many are bad": lambda: compared(
        normal(18, 600) + 9.0 * np.outer(np.arange(18) % 2, np.arange(600) < 100), np.arange(18) % 2, contamination=0.1
    ),
    "dependent rows": lambda: sparse_mean(walk(400)),
    "skewed columns": lambda: sparse_mean(skewed()),
    "three cell types, two cells with wrong labels": lambda: called(
        compared(named(three().X), three().y), "cell", "gene"
    ),
    "three labels, nothing differs": lambda: compared(normal(90, 40), np.repeat(["a", "b", "c"], 30)),
    "means": lambda: sparse_mean(normal(500, 40, 1.0, -0.8), target="mean", scale=1.5),
    "means of two groups, scale from the rows": lambda: compared(
        normal(2000, 10) + np.outer(np.arange(2000) % 2, np.arange(10) < 2), np.arange(2000) % 2, target="mean"
    ),
    "an experiment with bots": lambda: scorecard(compared(*arms(0.3, 30))).result,
    "an experiment without effect": lambda: scorecard(compared(*arms(0.0))).result,
    "the paper's rule": lambda: SparseMean.paper(contamination=0.05, random_state=0).fit(moved()).result_,
    "a sketch": lambda: sketch(moved()).estimate(contamination=0.05),
    "false discovery rate": lambda: sparse_mean(moved(), selection="fdr"),
    "pairs": lambda: compared(
        normal(60, 30) + 2.0 * np.outer(np.arange(60) % 2, np.arange(30) < 3),
        np.arange(60) % 2,
        pairs=np.arange(60) // 2,
    ),
    "subjects": lambda: SparseMean().fit(moved(600, 0), groups=np.arange(600) // 3).result_,
    "one row is large, two have a few far values": lambda: sparse_mean(donor()),
    "rows were not screened": lambda: sparse_mean(moved(), screen_rows=False),
    "decided again for another share": lambda: sparse_mean(moved()).at(0.2),
    "without the suspects": lambda: sparse_mean(moved()).without_suspects(),
    "data that are gone": lambda: replace(sparse_mean(moved()), source=None),
}


def printed(result: Any) -> str:
    """Return the verdict as it is printed: what stands before the first empty line."""
    return str(result).partition("\n\n")[0].replace("\N{NO-BREAK SPACE}", " ")


def everything() -> str:
    return "\n\n".join(f"# {name}\n{printed(make())}" for name, make in SITUATIONS.items()) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(everything(), encoding="utf-8")
    sys.stdout.write(GOLDEN.read_text(encoding="utf-8"))
