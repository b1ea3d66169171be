"""Every compared method keeps the same promises, whoever wrote it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from sparsemean import baselines
from sparsemean.baselines import BaselineWarning
from sparsemean.errors import InputError

Rows = npt.NDArray[np.float64]
NAMES = baselines.names()
DRAWS = {"median_of_means", "geometric_median_of_means", "stability_filter"} | {
    "sparse_directions", "sparse_sdp", "sparse_sos",
}  # fmt: skip
"""Methods that deal rows at random: another order of rows is another deal."""
CLIPS = {"sparse_sdp", "sparse_sos"}
"""Methods whose weights are those of rows that were clipped first."""
WIDEST = {"sparse_sos": 24}
"""Most columns of methods that refuse more."""
ASSUME_ZEROS = {name for name in NAMES if name.startswith("sparse_")}
"""Methods that compare the rows with a sparse mean of known scale: neither shifts nor scales go through them."""
every = pytest.mark.parametrize("name", NAMES)


def options(name: str, **given: Any) -> dict[str, Any]:
    """What this method must be told, and a seed."""
    told = {"contamination": 0.1, "random_state": 3}
    return told | ({"k": 3} if "k" in baselines.get(name).facts.told else {}) | given


def located(name: str, X: Any, **given: Any) -> Rows:
    """Call a method; what it warns of in its own name is allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BaselineWarning)
        return baselines.get(name)(X, **options(name, **given))


def problem(n: int = 80, d: int = 6, *, bad: int = 6) -> Rows:
    """Gaussian rows with a sparse mean, a few of them a cluster elsewhere; all exact in float32."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((n, d))
    X[:, 0] += 2.0
    X[:bad] = rng.standard_normal((bad, d)) + 7.0
    return X.astype(np.float32).astype(np.float64)


@every
def test_returns_one_finite_float_for_each_feature(name: str) -> None:
    X = problem()
    before = X.copy()
    mean = located(name, X)
    assert mean.shape == (6,)
    assert mean.dtype == np.float64
    assert np.isfinite(mean).all()
    np.testing.assert_array_equal(X, before)


@every
def test_same_seed_same_answer(name: str) -> None:
    X = problem()
    np.testing.assert_array_equal(located(name, X), located(name, X))


@every
@pytest.mark.parametrize("kind", ["float32", "Fortran", "strided", "frame", "list", "read-only"])
def test_the_kind_of_input_does_not_matter(name: str, kind: str) -> None:
    X = problem()
    frozen = X.copy()
    frozen.flags.writeable = False
    wide = np.zeros((X.shape[0], 12))
    wide[:, ::2] = X
    same = {
        "float32": X.astype(np.float32),
        "Fortran": np.asfortranarray(X),
        "strided": wide[:, ::2],
        "frame": pd.DataFrame(X, columns=list("abcdef")),
        "list": X.tolist(),
        "read-only": frozen,
    }
    np.testing.assert_array_equal(located(name, same[kind]), located(name, X))


@every
def test_integers_are_numbers(name: str) -> None:
    X = np.round(4 * problem())
    np.testing.assert_array_equal(located(name, X.astype(np.int16)), located(name, X))


@every
def test_k_cuts_to_the_k_largest_entries(name: str) -> None:
    X = problem()
    mean = located(name, X, k=2)
    assert np.count_nonzero(mean) == 2
    if "k" not in baselines.get(name).facts.told:
        full = located(name, X)
        kept = np.argsort(-np.abs(full))[:2]
        np.testing.assert_array_equal(mean[kept], full[kept])


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("X", {"X": [[1.0, np.nan], [1.0, 2.0]]}),
    ("X", {"X": [[1.0, np.inf], [1.0, 2.0]]}),
    ("X", {"X": [1.0, 2.0]}),
    ("X", {"X": np.empty((0, 3))}),
    ("X", {"X": np.empty((3, 0))}),
    ("X", {"X": np.array([["a"]])}),
    ("contamination", {"contamination": 0.5}),
    ("contamination", {"contamination": -0.1}),
    ("contamination", {"contamination": "many"}),
    ("contamination", {"contamination": float("nan")}),
    ("k", {"k": 0}),
    ("k", {"k": 7}),
    ("k", {"k": 1.5}),
    ("k", {"k": True}),
    ("random_state", {"random_state": "seed"}),
]


@every
@pytest.mark.parametrize(("argument", "given"), WRONG, ids=lambda value: repr(value)[:40])
def test_wrong_input_is_refused_in_one_line(name: str, argument: str, given: dict[str, Any]) -> None:
    told = options(name, **given)
    X = told.pop("X", problem())
    with pytest.raises(InputError, match=f"^{argument} must ") as refused:
        baselines.get(name)(X, **told)
    assert refused.value.argument == argument
    assert "\n" not in str(refused.value)


def test_an_unknown_name_is_refused_with_the_list() -> None:
    with pytest.raises(InputError) as refused:
        baselines.get("middle")
    assert str(refused.value) == f"name must be one of {', '.join(baselines.names())}: got 'middle'"


@every
def test_k_must_be_given_to_those_who_need_it(name: str) -> None:
    if "k" in baselines.get(name).facts.told:
        with pytest.raises(InputError, match=r"^k must be given"):
            baselines.get(name)(problem(), contamination=0.1)


@every
def test_another_order_of_rows_is_the_same_problem(name: str) -> None:
    if name in DRAWS:
        pytest.skip("deals rows at random")
    X = problem()
    order = np.random.default_rng(0).permutation(X.shape[0])
    np.testing.assert_allclose(located(name, X[order]), located(name, X), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", sorted(set(NAMES) - ASSUME_ZEROS))
def test_follows_a_shift_and_a_change_of_units(name: str) -> None:
    X = problem()
    mean = located(name, X)
    shift = np.linspace(-30, 50, 6)
    np.testing.assert_allclose(located(name, X + shift), mean + shift, rtol=0, atol=1e-7)
    for unit in (1e-100, -0.25, 1e3):
        np.testing.assert_allclose(located(name, unit * X) / unit, mean, rtol=0, atol=1e-7)


def edge_cases() -> dict[str, Rows]:
    rng = np.random.default_rng(5)
    constant = rng.standard_normal((40, 5))
    constant[:, [1, 3]] = (0.0, 7.0)
    huge = rng.standard_normal((40, 5))
    huge[:3] = (1e150, -1e150, 1e150, 0.0, -1e150)
    halves = np.ones((40, 4))
    halves[:20] = -1.0
    return {
        "constant columns": constant,
        "one row": np.array([[1.0, -2.0, 3.0]]),
        "two rows": np.array([[1.0, -2.0, 3.0], [2.0, 5.0, -1.0]]),
        "three rows": rng.standard_normal((3, 3)),
        "one column": rng.standard_normal((30, 1)),
        "one number": np.array([[2.5]]),
        "all rows equal": np.full((20, 4), -1.25),
        "all zero": np.zeros((20, 4)),
        "all but one row equal": np.vstack([np.ones((19, 4)), np.full((1, 4), 9.0)]),
        "two points": halves,
        "few rows": rng.standard_normal((12, 40)),
        "few rows, some far": np.vstack([rng.standard_normal((12, 40)), 1e6 * np.ones((1, 40))]),
        "unit rows": np.eye(10),
        "some huge": huge,
        "all huge": 1e150 * rng.standard_normal((40, 5)),
        "all tiny": 1e-150 * rng.standard_normal((40, 5)),
        "mostly zeros": rng.standard_normal((60, 5)) * (rng.random((60, 5)) < 0.2),
    }


SHARES = (0.0, 1e-9, 0.1, 0.3, 0.49)


@every
def test_answers_lie_among_the_values_at_every_edge(name: str) -> None:
    """Between the smallest and the largest value of each column, whatever the share of bad rows; without a warning."""
    for case, X in edge_cases().items():
        if X.shape[1] > WIDEST.get(name, X.shape[1]):
            continue
        k = min(2, X.shape[1])
        low, high = X.min(axis=0), X.max(axis=0)
        slack = 1e-9 * np.maximum(abs(low), abs(high))
        for contamination in SHARES:
            with np.errstate(all="warn", under="ignore"):
                mean = located(name, X, contamination=contamination, k=k)
            kept = mean != 0
            assert kept.sum() <= k, case
            assert (low - slack <= mean)[kept].all(), (case, contamination)
            assert (mean <= high + slack)[kept].all(), (case, contamination)


@pytest.mark.parametrize("name", sorted(set(NAMES) - ASSUME_ZEROS))
def test_columns_of_one_value_have_that_mean_and_units_of_any_size_are_units(name: str) -> None:
    cases = edge_cases()
    for contamination in SHARES:
        mean = located(name, cases["constant columns"], contamination=contamination)
        np.testing.assert_allclose(mean[[1, 3]], [0.0, 7.0], rtol=1e-9, atol=1e-9)
        for case, unit in (("all huge", 1e150), ("all tiny", 1e-150)):
            one = located(name, cases[case] / unit, contamination=contamination)
            np.testing.assert_allclose(located(name, cases[case], contamination=contamination) / unit, one, atol=1e-7)


@pytest.mark.parametrize("name", sorted(set(NAMES) - ASSUME_ZEROS - {"mean"}))
def test_one_row_among_twenty_does_not_matter(name: str) -> None:
    X = edge_cases()["all but one row equal"]
    for contamination in (0.1, 0.3, 0.49):
        np.testing.assert_allclose(located(name, X, contamination=contamination), 1.0, atol=1e-6)


@pytest.mark.parametrize("name", sorted(set(NAMES) - ASSUME_ZEROS))
@pytest.mark.parametrize("contamination", [0.0, 0.1, 0.49])
def test_rows_that_agree_are_believed(name: str, contamination: float) -> None:
    row = np.array([3.0, -1.25, 1e150, 1e-150])
    np.testing.assert_allclose(located(name, np.tile(row, (20, 1)), contamination=contamination), row, rtol=1e-12)
    np.testing.assert_allclose(located(name, row[np.newaxis], contamination=contamination), row, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(set(NAMES) - ASSUME_ZEROS - {"mean"}))
def test_rows_beyond_measure_do_not_matter(name: str) -> None:
    rng = np.random.default_rng(8)
    X = 5.0 + rng.standard_normal((400, 4))
    X[:20] = 1e150
    assert np.linalg.norm(located(name, X) - 5.0) < 1.0


@every
def test_weights_add_up_to_one_and_make_the_mean(name: str) -> None:
    X = problem()
    found = baselines.get(name).detailed(X, **options(name))
    if found.weights is None:
        pytest.skip("gives no weights")
    assert found.weights.shape == (80,)
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)
    if name in CLIPS:
        return
    kept = found.mean != 0
    np.testing.assert_allclose((found.weights @ X)[kept], found.mean[kept], atol=1e-10)


@every
def test_notes_are_warned_of(name: str) -> None:
    rng = np.random.default_rng(5)
    X = np.where(rng.random((60, 5)) < 0.2, rng.standard_normal((60, 5)), 0.0)
    notes = baselines.get(name).detailed(X, **options(name)).notes
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        baselines.get(name)(X, **options(name))
    assert [str(warning.message) for warning in caught] == [f"{name}: {note}" for note in notes]
    assert all(warning.category is BaselineWarning for warning in caught)


@every
def test_facts_are_complete(name: str) -> None:
    method = baselines.get(name)
    facts = method.facts
    assert facts.name == name == method.__name__  # type: ignore[attr-defined]
    assert set(facts.told) <= {"ε", "k", "σ"}
    assert facts.assumes
    assert facts.cost
    assert any(character.isdigit() for character in facts.reference)
    text = method.__doc__ or ""
    assert facts.summary == text.splitlines()[0].strip()
    assert facts.summary.endswith(".")
    assert "References\n" in text
    year = next(word for word in facts.reference.replace(",", " ").split() if word.isdigit() and len(word) == 4)
    assert f"({year})" in text


def test_the_table_has_a_row_for_each_method_and_no_gaps() -> None:
    table = baselines.available()
    assert list(table.index) == NAMES
    assert list(table.columns) == ["summary", "told", "assumes", "cost", "reference"]
    assert table.map(lambda text: isinstance(text, str) and text.strip() != "").all(axis=None)
    assert table.loc["trimmed_mean", "told"] == "ε"
    assert table.loc["agnostic_filter", "told"] == "nothing"
