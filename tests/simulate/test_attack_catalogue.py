"""What every attack keeps to, and what each changes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from sparsemean._util.records import FloatArray
from sparsemean.errors import InputError
from sparsemean.simulate import Replacement, attacks, make_contaminated

MEANS = {"none": [], "some": [3.0, -1.0], "all": [3.0, -1.0, 2.0, 0.5]}
N, D, COUNT = 50, 4, 10


def simulate(attack: Any, mean: Any = (3.0, -1.0), seed: int = 4, **size: Any) -> Any:
    n, d = size.pop("n", N), size.pop("d", D)
    return make_contaminated(n, d, mean, attack=attack, contamination=size.pop("contamination", 0.2), random_state=seed)


def bound(name: str, **options: Any) -> Any:
    return partial(attacks.get(name), **options)


def change(attack: Any, mean: Any = (3.0, -1.0), **size: Any) -> FloatArray:
    """Return what the attack did to the last rows."""
    clean, data = simulate(None, mean, **size), simulate(attack, mean, **size)
    return np.asarray(data.X - clean.X)[data.corrupted]


@pytest.mark.parametrize("name", attacks.available())
@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
@pytest.mark.parametrize("count", [0, 1, COUNT])
def test_every_attack_keeps_to_the_contract(name: str, mean: list[float], count: int) -> None:
    """Finite rows of the right shape, no more than allowed, nothing written to what was handed in."""
    X, truth = simulate(None, mean).X, np.concatenate([mean, np.zeros(D - len(mean))])
    given = X.copy(), truth.copy(), np.arange(N - count, N)
    answer = attacks.get(name)(*given[:2], np.random.default_rng(1), given[2])
    rows, chosen = answer if isinstance(answer, Replacement) else (answer, given[2])
    assert rows.shape == (chosen.size, D)
    assert np.unique(chosen).size == chosen.size <= count
    assert np.isfinite(rows).all()
    for before, after in zip((X, truth, np.arange(N - count, N)), given, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("name", attacks.available())
@pytest.mark.parametrize("mean", [[], [2.0]], ids=["none", "all"])
def test_one_column_is_enough(name: str, mean: list[float]) -> None:
    data = simulate(name, mean, d=1)
    assert data.X.shape == (N, 1)
    assert np.isfinite(data.X).all()
    assert data.corrupted.size <= COUNT


@pytest.mark.parametrize("name", attacks.available())
def test_same_seed_same_rows(name: str) -> None:
    first, again, other = (simulate(name, seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.corrupted, again.corrupted)
    assert not np.array_equal(first.X, other.X)


@pytest.mark.parametrize("name", attacks.available())
def test_clean_rows_stay_clean(name: str) -> None:
    clean, data = simulate(None).X, simulate(name)
    kept = np.delete(np.arange(N), data.corrupted)
    np.testing.assert_array_equal(data.X[kept], clean[kept])


def test_every_attack_is_described_in_one_sentence() -> None:
    lines = attacks.describe()
    assert list(lines) == attacks.available()
    assert all(line.endswith(".") and len(line) > 30 for line in lines.values())
    assert len(set(lines.values())) == len(lines)


@pytest.mark.parametrize(("options", "distance"), [({}, 1e3), ({"distance": 7.5}, 7.5)])
def test_far_rows_share_one_dense_point(options: dict[str, float], distance: float) -> None:
    data = simulate(bound("far_rows", **options), d=200)
    rows = data.X[data.corrupted]
    np.testing.assert_array_equal(np.abs(rows), distance)
    np.testing.assert_array_equal(rows, np.broadcast_to(rows[0], rows.shape))
    # 200 fair signs: fewer than 60 or more than 140 positive ones have probability 2e-8
    assert 60 <= np.sum(rows[0] > 0) <= 140


@pytest.mark.parametrize(("options", "shift"), [({}, -2.0), ({"shift": 0.5}, 0.5)])
def test_support_shift_moves_the_support_only(options: dict[str, float], shift: float) -> None:
    np.testing.assert_allclose(change(bound("support_shift", **options)), [[shift, shift, 0, 0]] * COUNT, atol=1e-14)
    np.testing.assert_array_equal(change(bound("support_shift", **options))[:, 2:], 0)
    np.testing.assert_array_equal(change("support_shift", []), 0)


@pytest.mark.parametrize(("options", "moves"), [({}, [-2, 2, 0, 0]), ({"shift": 1.5}, [1.5, -1.5, 0, 0])])
def test_signed_support_shift_follows_the_signs(options: dict[str, float], moves: list[float]) -> None:
    moved = change(bound("signed_support_shift", **options))
    np.testing.assert_allclose(moved, [moves] * COUNT, atol=1e-14)
    np.testing.assert_array_equal(moved[:, 2:], 0)


def test_mimic_takes_the_mean_and_nothing_else() -> None:
    clean, data = simulate(None), simulate("mimic")
    np.testing.assert_array_equal(data.X[-COUNT:], clean.X[-COUNT:] - clean.mean)
    np.testing.assert_array_equal(data.X[:, 2:], clean.X[:, 2:])


def test_cauchy_rows_are_centred_and_scaled() -> None:
    """Of 40,000 entries half lie within ±scale and half are positive, up to four standard errors."""
    for options, scale in (({}, 10.0), ({"scale": 0.5}, 0.5)):
        data = simulate(bound("cauchy_rows", **options), n=1000, d=100, contamination=0.4)
        rows = data.X[data.corrupted]
        for share in (np.mean(np.abs(rows) < scale), np.mean(rows > 0)):
            assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(rows.size)


@pytest.mark.parametrize(
    ("mean", "options", "count"),
    [([3, -1], {}, 2), ([], {}, 1), ([3], {"n_features": 2}, 2), ([3, 1, 1], {}, 1), ([1, 2, 3, 4], {}, 4)],
)
def test_fake_support_is_outside_as_long_as_there_is_an_outside(
    mean: list[float], options: dict[str, int], count: int
) -> None:
    moved = change(bound("fake_support", **options), mean)
    columns = np.flatnonzero(moved.any(axis=0))
    assert columns.size == count
    assert len(mean) == D or columns.min() >= len(mean)
    np.testing.assert_allclose(moved[:, columns], 10.0, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_tail_flipping_negates_the_lowest_along_a_sparse_direction(seed: int) -> None:
    """One coordinate: the direction is that coordinate or its opposite, so the rows are its lowest or highest."""
    clean, data = simulate(None, seed=seed).X, simulate(bound("tail_flipping", k=1), seed=seed)
    assert data.corrupted.size == COUNT
    np.testing.assert_array_equal(data.X[data.corrupted], -clean[data.corrupted])
    order = np.argsort(clean, axis=0)
    tails = [np.sort(tail[:, c]).tolist() for tail in (order[:COUNT], order[-COUNT:]) for c in range(D)]
    assert data.corrupted.tolist() in tails


@pytest.mark.parametrize(("mean", "k"), [([], 1), ([1.0, 1.0, 1.0], 3), ([1.0] * D, D)])
def test_tail_flipping_uses_as_many_coordinates_as_the_support(mean: list[float], k: int) -> None:
    same = [simulate(attack, mean).corrupted for attack in ("tail_flipping", bound("tail_flipping", k=k))]
    np.testing.assert_array_equal(*same)


def test_linear_hiding_hides_the_variance_of_the_false_mean() -> None:
    """Second moments: 3/2 in every coordinate, false mean or not; its halves have means f and 0.

    20,000 rows a half: the standard errors are at most 0.02, and the 30 statements below allow five of them.
    """
    attack = bound("linear_hiding", scale=1.0)
    data = simulate(attack, [3, -1], n=80_200, d=6, contamination=40_000 / 80_200)
    first, second = np.split(data.X[data.corrupted], 2)
    f = np.round(first.mean(axis=0))
    assert f.tolist().count(1.0) == 2
    np.testing.assert_array_equal(f[:2], 0)
    np.testing.assert_allclose(first.mean(axis=0), f, atol=0.1)
    np.testing.assert_allclose(second.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(first.var(axis=0), 1, atol=0.1)
    np.testing.assert_allclose(second.var(axis=0), 2 - f, atol=0.1)
    np.testing.assert_allclose((data.X[data.corrupted] ** 2).mean(axis=0), 1.5, atol=0.1)


def test_linear_hiding_takes_the_scale_of_the_inliers() -> None:
    clean = simulate(None)
    unit = np.median(np.abs(clean.X - clean.mean)) / 0.6744897501960817
    measured, one = (simulate(attack).X[-COUNT:] for attack in ("linear_hiding", bound("linear_hiding", scale=1.0)))
    np.testing.assert_allclose(measured, unit * one, rtol=1e-12)


def test_linear_hiding_scale_is_one_for_standard_normal_inliers() -> None:
    """The sample median of |Z| over 60,000 entries has standard error 0.005 after scaling."""
    attack, mean = attacks.get("linear_hiding"), np.zeros(100)
    X = np.random.default_rng(0).standard_normal((600, 100))
    measured, one = (attack(X, mean, np.random.default_rng(1), np.arange(2), scale=s) for s in (None, 1.0))
    np.testing.assert_allclose(measured, one, rtol=0.025)


@pytest.mark.parametrize(
    ("name", "option"), [("fake_support", "n_features"), ("tail_flipping", "k"), ("linear_hiding", "k")]
)
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_bad_number_of_coordinates_is_refused(name: str, option: str, value: float) -> None:
    with pytest.raises(InputError, match=f"^{option} must be a positive integer: got {value}$"):
        simulate(bound(name, **{option: value}))
