"""Counting some rows: what may be said about them and what not."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from sparsemean import InputError, sketch

import kinds

X = np.random.default_rng(0).normal(size=(100, 6))

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "first row": ({"first_row": -1}, "first_row must be an integer from 0 to"),
    "large first row": ({"first_row": 2**61}, "first_row must be an integer from 0 to"),
    "fraction": ({"first_row": 1.5}, "first_row must be an integer"),
    "sizes": ({"bucket_sizes": (1, 3)}, "bucket_sizes must be rising powers of two"),
    "sealed": ({"sealed": "yes"}, "sealed must be True or False"),
    "missing": ({"missing": "drop"}, "missing must be one of"),
    "null": ({"null": [1.0, 2.0]}, "null must be a finite number or 6 of them"),
    "names": ({"feature_names": ["a"]}, "feature_names must be a sequence of 6 names"),
    "seed": ({"random_state": -1}, "random_state must be"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_arguments_are_refused_in_one_line(case: Any) -> None:
    options, said = case
    with pytest.raises(InputError, match=said) as refused:
        sketch(X, **options)
    assert "\n" not in str(refused.value)


def test_a_sketch_says_what_it_is() -> None:
    made = sketch(X, first_row=100, null=1.0, missing="omit", bucket_sizes=[2, 4])
    assert (made.n_rows, made.n_features, made.seed, made.bucket_sizes) == (100, 6, 0, (2, 4))
    assert (made.ranges, made.gaps, made.missing) == (((100, 200),), ((0, 100),), "omit")
    np.testing.assert_array_equal(made.null, np.ones(6))
    assert made.rows_kept == 28 + 8
    assert repr(made) == "<Sketch: 100 rows (100–199), 6 features, seed 0>"
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        np.testing.assert_array_equal(other.counts.positive, made.counts.positive)


def test_names_come_from_the_data_or_are_given() -> None:
    assert list(sketch(kinds.frame(X)).feature_names) == kinds.names(6)
    assert list(sketch(X, feature_names=list("abcdef")).feature_names) == list("abcdef")
    assert sketch(X).feature_names is None


def test_a_seed_can_be_drawn() -> None:
    assert sketch(X, random_state=None).seed != sketch(X, random_state=None).seed
    assert (
        sketch(X, random_state=np.random.default_rng(0)).seed == sketch(X, random_state=np.random.default_rng(0)).seed
    )
