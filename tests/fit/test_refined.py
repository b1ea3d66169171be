"""Refinements by name and by function: what is accepted, what it equals, and what is refused in one line."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from sparsemean import baselines
from sparsemean._fit.refinement import PUBLISHED, auto, check, refined
from sparsemean._util.records import FloatArray, LocationEstimate
from sparsemean.errors import InputError

X = np.random.default_rng(0).standard_t(3, (60, 4)) + np.array([9.0, -5, 4, 2])


def made_by(refine: Any, rows: FloatArray = X, contamination: float = 0.1) -> LocationEstimate:
    return refined(refine, rows, contamination=contamination, random_state=7)


@pytest.mark.parametrize("name", baselines.names())
def test_a_name_is_that_method_with_every_column_kept(name: str) -> None:
    expected = baselines.get(name).detailed(X, contamination=0.1, k=4, random_state=7)
    found = made_by(name)
    np.testing.assert_array_equal(found.mean, expected.mean)
    assert (found.how, found.iterations, found.converged) == (name, expected.iterations, expected.converged)
    assert found.notes == expected.notes


def test_published_names_and_auto() -> None:
    assert PUBLISHED == {"gd": "dense_gd", "filter": "sparse_filter"}
    for short, name in PUBLISHED.items():
        np.testing.assert_array_equal(made_by(short).mean, made_by(name).mean)
        assert made_by(short).how == name
    np.testing.assert_array_equal(made_by("auto").mean, auto(X, 0.1).mean)


def test_a_function_is_given_a_copy_and_the_share() -> None:
    seen: list[Any] = []

    def mean_of(rows: FloatArray, contamination: float) -> list[float]:
        seen.append((rows.copy(), contamination))
        rows[:] = np.nan
        return [1, 2, 3, 4]

    before = X.copy()
    found = made_by(mean_of, contamination=0.25)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(seen[0][0], X)
    assert seen[0][1] == 0.25
    np.testing.assert_array_equal(found.mean, [1.0, 2, 3, 4])
    assert found.mean.dtype == np.float64
    assert found.how == "the function mean_of"


def fails(error: Exception) -> Any:
    def broken(rows: FloatArray, contamination: float) -> FloatArray:
        raise error

    return broken


@pytest.mark.parametrize(
    ("refine", "said"),
    [
        (lambda rows, _: rows, "shape (60, 4)"),
        (lambda rows, _: rows.mean(), "shape ()"),
        (lambda rows, _: rows.mean(axis=0)[:3], "shape (3,)"),
        (lambda rows, _: rows.mean(axis=0) * np.nan, "NaN or infinity"),
        (lambda *_: [np.inf, 1, 2, 3], "NaN or infinity"),
        (lambda *_: None, "shape ()"),
        (lambda *_: ["a", 1, 2, 3], "ValueError"),
        (lambda *_: [[1], [2, 3], 4, 5], "ValueError"),
        (lambda rows: rows.mean(axis=0), "TypeError"),
        (fails(ValueError("several\nlines")), "ValueError from broken: several lines"),
        (fails(TypeError("of another kind")), "TypeError from broken: of another kind"),
    ],
)
def test_a_function_that_fails_is_one_line(refine: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        made_by(refine)
    assert str(caught.value).startswith("refine must return 4 finite numbers, one for each column of X: got ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_errors_of_a_function_are_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        made_by(fails(ZeroDivisionError()))


@pytest.mark.parametrize("refine", [None, "auto", "gd", "filter", "median", max, partial(max)])
def test_what_is_accepted(refine: Any) -> None:
    assert check(refine)[0] is refine


@pytest.mark.parametrize("refine", ["", "Auto", "none", "nonsense", 3, ("gd",), True, b"gd", np.array(["gd"])])
def test_what_is_refused(refine: Any) -> None:
    with pytest.raises(InputError) as caught:
        check(refine)
    text = str(caught.value)
    assert text.startswith("refine must be one of ")
    assert "'auto', 'gd', 'filter', None or a function of X and contamination" in text
    assert all(name in text for name in baselines.names())
    assert "\n" not in text


def test_names_in_a_plan() -> None:
    class Method:
        def __call__(self, rows: FloatArray, contamination: float) -> FloatArray:
            return rows.mean(axis=0) * (contamination < 1)

    assert [check(r)[1] for r in (None, "gd", max, Method(), partial(max))] == ["", "gd", "max", "Method", "partial"]
