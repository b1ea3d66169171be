from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparsemean._util.records import FloatArray
from sparsemean.errors import InputError
from sparsemean.simulate import attacks, distributions, make_contaminated


def test_mean_sits_on_the_first_coordinates() -> None:
    data = make_contaminated(12, 6, [3, 0, -2], random_state=0)
    np.testing.assert_array_equal(data.mean, [3, 0, -2, 0, 0, 0])
    np.testing.assert_array_equal(data.support, [0, 2])
    assert data.X.shape == (12, 6)
    assert data.X.dtype == np.float64
    assert list(data) == ["X", "mean", "support", "corrupted"]


def test_mean_may_be_empty_or_full() -> None:
    assert make_contaminated(5, 3, [], random_state=0).support.size == 0
    assert make_contaminated(5, 3, (1, 2, 3), random_state=0).support.size == 3


def test_row_is_the_mean_plus_its_noise() -> None:
    def ramp(rng: np.random.Generator, size: tuple[int, int]) -> FloatArray:
        return np.arange(size[0] * size[1], dtype=float).reshape(size)

    data = make_contaminated(4, 3, [100.0], distribution=ramp, attack=None)
    np.testing.assert_array_equal(data.X, [[100, 1, 2], [103, 4, 5], [106, 7, 8], [109, 10, 11]])


@pytest.mark.parametrize(
    ("n", "contamination", "count"),
    [
        (600, 0.1, 60),
        (600, 0.05, 30),
        (605, 0.1, 61),
        (10, 0.01, 1),
        (10, 0.0, 0),
        (1000, 0.07, 70),
        (3, 0.49, 2),
    ],
)
def test_last_rows_are_corrupted(n: int, contamination: float, count: int) -> None:
    data = make_contaminated(n, 2, [1.0], contamination=contamination, random_state=0)
    np.testing.assert_array_equal(data.corrupted, np.arange(n - count, n))


def test_no_attack_corrupts_nothing() -> None:
    data = make_contaminated(20, 2, [1.0], attack=None, contamination=0.3, random_state=0)
    assert data.corrupted.size == 0
    assert data.corrupted.dtype.kind == "i"


@pytest.mark.parametrize("name", distributions.available())
def test_same_seed_same_data_other_seed_other_data(name: str) -> None:
    first, again, other = (make_contaminated(30, 4, [1], distribution=name, random_state=s).X for s in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)


def test_no_seed_draws_afresh() -> None:
    assert not np.any(make_contaminated(9, 3, [1]).X == make_contaminated(9, 3, [1]).X)


def test_generator_is_advanced_and_repeatable() -> None:
    rng, twin = np.random.default_rng(3), np.random.default_rng(3)
    first, second = (make_contaminated(9, 3, [1], random_state=rng).X for _ in range(2))
    assert not np.any(first == second)
    np.testing.assert_array_equal(first, make_contaminated(9, 3, [1], random_state=twin).X)


def test_generators_in_different_states_give_different_data() -> None:
    rng, advanced = np.random.default_rng(3), np.random.default_rng(3)
    advanced.random()
    pair = [make_contaminated(9, 3, [1], random_state=g).X for g in (rng, advanced)]
    assert not np.any(pair[0] == pair[1])


@pytest.mark.parametrize("attack", attacks.available())
@pytest.mark.parametrize("contamination", [0.1, 0.3])
def test_clean_rows_do_not_depend_on_the_attack(attack: str, contamination: float) -> None:
    clean = make_contaminated(50, 4, [2.0], attack=None, random_state=8)
    data = make_contaminated(50, 4, [2.0], attack=attack, contamination=contamination, random_state=8)
    inliers = np.setdiff1d(np.arange(50), data.corrupted)
    np.testing.assert_array_equal(data.X[inliers], clean.X[inliers])
    assert np.all(np.any(data.X[data.corrupted] != clean.X[data.corrupted], axis=1))


BAD = [
    ({"n": 0}, "n must be a positive integer: got 0"),
    ({"n": 2.5}, "n must be a positive integer: got 2.5"),
    ({"d": True}, "d must be a positive integer: got True"),
    ({"mean": [1, 2, 3, 4]}, "mean must have at most d = 3 entries: got 4; raise d or shorten mean"),
    ({"mean": [1.0, np.nan]}, "mean must be finite: got nan"),
    ({"mean": 4.0}, "mean must be a sequence of numbers: got an array of shape ()"),
    ({"mean": "ab"}, "mean must be a sequence of numbers: got an array of <U2"),
    ({"mean": [[1], [2, 3]]}, "mean must be a sequence of numbers: got rows of different lengths"),
    ({"shape": 0}, "shape must be a positive finite number: got 0"),
    ({"shape": np.inf}, "shape must be a positive finite number: got inf"),
    ({"shape": "3"}, "shape must be a positive finite number: got '3'"),
    ({"contamination": 0.5}, "contamination must be a number in [0, 0.5): got 0.5"),
    ({"contamination": -0.1}, "contamination must be a number in [0, 0.5): got -0.1"),
    ({"contamination": None}, "contamination must be a number in [0, 0.5): got None"),
    ({"distribution": "cauchy"}, "distribution must be one of exponential_one_sided, fisk, "),
    ({"distribution": None}, "distribution must be one of exponential_one_sided, fisk, "),
    ({"attack": "bribe"}, "attack must be one of adaptive, "),
    ({"attack": ["constant_bias"]}, "attack must be one of adaptive, "),
    ({"random_state": -1}, "random_state must be None, an integer of at least 0 or a NumPy generator: got -1"),
    (
        {"random_state": "0"},
        "random_state must be None, an integer of at least 0 or a NumPy generator: got '0'",
    ),
    ({"distribution": lambda *_: np.zeros(3)}, "distribution must return finite numbers in an array"),
    ({"distribution": lambda _, size: np.full(size, np.nan)}, "distribution must return finite numbers in"),
    ({"distribution": lambda *_: None}, "distribution must return finite numbers in an array"),
]


@pytest.mark.parametrize(("change", "line"), BAD)
def test_bad_argument_is_refused_in_one_line(change: dict[str, Any], line: str) -> None:
    arguments: dict[str, Any] = {"n": 10, "d": 3, "mean": [1.0], "random_state": 0} | change
    with pytest.raises(InputError) as caught:
        make_contaminated(arguments.pop("n"), arguments.pop("d"), arguments.pop("mean"), **arguments)
    message = str(caught.value)
    assert message.startswith(line)
    assert len(message.splitlines()) == 1
    assert caught.value.argument == next(iter(change))
