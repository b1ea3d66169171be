"""Values as large and as small as doubles go, and columns of one value: an answer or one line, and nothing of NumPy's.

Warnings are errors here as everywhere in tests.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from sparsemean import InputError, SparseMean, SparseMeanDifference, sketch, sparse_mean

from command import expect

N, D = 80, 12
RNG = np.random.default_rng(0)
BASE = RNG.standard_normal((N, D)) + 2 * np.eye(D)[0]
LARGEST, SINGLE = np.finfo(np.float64).max, np.finfo(np.float32).max
WITH = np.where(np.arange(N) % 2, "b", "a")
GAPS = RNG.random((N, D)) < 0.03


def scaled(factor: float, columns: slice = slice(None)) -> Any:
    X = BASE.copy()
    with np.errstate(over="ignore"):
        X[:, columns] = np.clip(X[:, columns] * factor, -LARGEST, LARGEST)
    return X


def first_rows(*values: float) -> Any:
    X = BASE.copy()
    X[: len(values)] = np.array(values)[:, np.newaxis]
    return X


TABLES: dict[str, Any] = {
    **{f"all times {factor:g}": scaled(factor) for factor in (1e150, 1e300, 1.7e308, 1e-300, 5e-324)},
    **{f"two times {factor:g}": scaled(factor, slice(2)) for factor in (1e150, 1e300, 1.7e308, 1e-300)},
    "a few huge rows": first_rows(*[1.7e308] * 5),
    "opposite rows": first_rows(1.7e308, -1.7e308),
    "one value a column": np.where(np.arange(D) < 2, np.arange(D) * 3.0, BASE),
    "one value": np.full((N, D), 7.0),
    "zeros": np.zeros((N, D)),
    "one huge value": np.full((N, D), 1.7e308),
    "alternating": np.where(np.arange(D) == 4, np.where(WITH == "a", 1e308, -1e308)[:, np.newaxis], BASE),
    "single precision, large": (SINGLE * np.clip(BASE / 5, -1, 1)).astype(np.float32),
    "single precision, largest rows": first_rows(*[SINGLE] * 4).astype(np.float32),
}
FITS: dict[str, Callable[[Any], Any]] = {
    "one sample": lambda X: sparse_mean(X),
    "buckets": lambda X: sparse_mean(X, test="buckets", random_state=0, contamination=0.05),
    "means": lambda X: sparse_mean(X, target="mean", scale=3.0),
    "an effect that matters": lambda X: sparse_mean(X, min_effect=0.5),
    "a null value": lambda X: sparse_mean(X, null=1.5),
    "gaps": lambda X: sparse_mean(np.where(GAPS, np.nan, X), missing="omit"),
    "subjects": lambda X: sparse_mean(X, groups=np.arange(N) // 2),
    "paper": lambda X: SparseMean.paper().fit(X).result_,
    "sketch": lambda X: sketch(X).estimate(contamination=0),
    "sparse": lambda X: sparse_mean(sp.csr_array(np.where(np.arange(D) % 2, X, 0))),
    "groups": lambda X: SparseMeanDifference().fit(X, WITH).result_,
    "means of groups": lambda X: SparseMeanDifference(target="mean", scale=3.0).fit(X, WITH).result_,
    "strata": lambda X: SparseMeanDifference().fit(X, WITH, strata=np.arange(N) // 4 % 3).result_,
    "pairs": lambda X: SparseMeanDifference().fit(X, WITH, pairs=np.arange(N) // 2).result_,
    "the rest": lambda X: SparseMeanDifference(reference="rest").fit(X, np.arange(N) % 3).results_[0],
}


@pytest.mark.parametrize("fit", FITS)
def test_an_answer_or_one_line_and_no_warning(fit: str) -> None:
    answers = 0
    for X in TABLES.values():
        with suppress(InputError):  # of sums that overflow
            estimate = FITS[fit](X)
            answers += 1
            str(estimate), estimate.summary(), estimate.table(all=True)
            if estimate.plan.selection != "paper":
                estimate.at(0.1)
    assert answers >= 12


def test_no_word_of_a_library_reaches_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for k, X in enumerate(TABLES.values()):
        np.save(tmp_path / f"{k}.npy", X)
        expect("fit", tmp_path / f"{k}.npy", status=2 if k in (2, 7, 14, 15) else 0)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said] == ["sparsemean"] * 4
    assert all("X must have bucket sums below 1.8e308" in line for line in said)
