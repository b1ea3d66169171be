from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError
from sparsemean.simulate import Replacement, attacks, distributions, make_contaminated

N, D, COUNT = 40, 5, 8


def simulate(attack: Any) -> Any:
    return make_contaminated(N, D, [3.0, -1.0], attack=attack, contamination=0.2, random_state=4)


def test_paper_attacks_are_offered() -> None:
    assert {"constant_bias", "replaced_rows"} <= set(attacks.available())


@pytest.mark.parametrize("bias", [-2.0, 0.5])
def test_constant_bias_moves_the_last_rows_by_the_constant(bias: float) -> None:
    clean = simulate(None).X
    data = simulate("constant_bias" if bias == -2 else partial(attacks.get("constant_bias"), bias=bias))
    expected = clean.copy()
    expected[-COUNT:] += bias
    np.testing.assert_array_equal(data.X, expected)


@pytest.mark.parametrize("options", [{}, {"location": 40.0}, {"location": -1.0, "scale": 0.5}])
def test_replaced_rows_are_cauchy(options: dict[str, float]) -> None:
    attack = partial(attacks.get("replaced_rows"), **options)
    data = make_contaminated(1000, 50, [3.0], attack=attack, contamination=0.4, random_state=0)
    law = stats.cauchy(options.get("location", 20.0), options.get("scale", 50.0))
    assert stats.kstest(data.X[data.corrupted].ravel(), law.cdf).pvalue > 1e-4


def test_attack_sees_all_clean_rows_the_truth_and_its_rows() -> None:
    def spy(X: FloatArray, mean: FloatArray, rng: np.random.Generator, corrupted: IntArray) -> FloatArray:
        np.testing.assert_array_equal(X, simulate(None).X)
        np.testing.assert_array_equal(mean, [3, -1, 0, 0, 0])
        np.testing.assert_array_equal(corrupted, np.arange(N - COUNT, N))
        assert not X.flags.writeable
        assert not mean.flags.writeable
        return X[:COUNT][::-1]

    data = simulate(spy)
    np.testing.assert_array_equal(data.X[-COUNT:], simulate(None).X[:COUNT][::-1])


def test_attack_draws_repeat_with_the_seed() -> None:
    np.testing.assert_array_equal(simulate("replaced_rows").X, simulate("replaced_rows").X)


def test_attack_may_choose_its_rows() -> None:
    def flip_largest(X: FloatArray, mean: FloatArray, rng: Any, corrupted: IntArray) -> Replacement:
        chosen = np.argsort(-X[:, 0])[: corrupted.size - 1]
        return Replacement(-X[chosen], chosen)

    clean, data = simulate(None).X, simulate(flip_largest)
    expected = clean.copy()
    chosen = np.argsort(-clean[:, 0])[: COUNT - 1]
    expected[chosen] *= -1
    np.testing.assert_array_equal(data.X, expected)
    np.testing.assert_array_equal(data.corrupted, np.sort(chosen))


def test_attack_may_leave_infinities_and_nan() -> None:
    data = simulate(lambda X, _mean, _rng, corrupted: np.full((corrupted.size, X.shape[1]), np.nan))
    assert np.isnan(data.X[-COUNT:]).all()
    assert np.isfinite(data.X[:-COUNT]).all()


@pytest.mark.parametrize(
    "answer",
    [
        np.zeros((COUNT + 1, D)),
        np.zeros(D),
        None,
        "rows",
        Replacement(np.zeros((COUNT + 1, D)), np.arange(COUNT + 1)),
        Replacement(np.zeros((2, D)), np.array([1, 1])),
        Replacement(np.zeros((2, D)), np.array([1, N])),
        Replacement(np.zeros((2, D)), np.array([-1, 3])),
        Replacement(np.zeros((1, D)), np.array([0.5])),
        Replacement(np.zeros((2, D)), np.array([[1], [2]])),
        Replacement(np.zeros((3, D)), np.array([1, 2])),
    ],
)
def test_bad_answer_of_an_attack_is_refused_in_one_line(answer: Any) -> None:
    with pytest.raises(InputError, match=r"^attack must (return|choose) .*: got .*$") as caught:
        simulate(lambda *_: answer)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("family", [attacks, distributions])
def test_every_name_is_a_documented_function(family: Any) -> None:
    assert family.available() == sorted(family.available())
    for name in family.available():
        assert family.get(name).__name__ == name
        assert family.get(name).__doc__


def test_attacks_are_attributes_too() -> None:
    assert attacks.far_rows is attacks.get("far_rows")
    assert "mimic" in dir(attacks)
    with pytest.raises(AttributeError, match="nonsense"):
        attacks.nonsense  # noqa: B018
