"""Errors of the default estimator under noise with common factors, beside those of every compared method.

n = 600, d = 200, 20 means between 3 and 6 in size, noise of variance about one of which a share of 0.6 is common to all
columns: one factor or three with normal loadings, or one with equal loadings. The compared methods are told that 20
means are not zero; the paper's full methods find them. What is compared is the error of values, so only runs count in
which the default selects every mean: at ε = 0.2 a column with a large loading may be too noisy to be certified.

`mimic` and `one_row_again` hold bad rows that look like good ones in every way but for their mean: they are measured,
but not held to the bar. `turned_regression` is meant against the regression on factors: it is asked not to do harm.

The short version takes 2 runs of an attack for each noise, in which the best of 17 methods may be lucky, and only asks
for what holds with a wide margin.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest

from sparsemean import SparseMean, baselines, simulate, sparse_mean
from sparsemean._fit import screening
from sparsemean._stats.factors import Factors
from sparsemean._util.checks import Bunch
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.simulate import attacks

from conftest import Claims
from problems import FOR_FEW_FEATURES

N, D, K = 600, 200, 20
WITHOUT = [("t", 3.1), ("t", 1.3), ("fisk", 2.0), ("pareto", 3.1), ("pareto", 1.3)]
"""The noises without a factor that errors are compared under elsewhere (test_estimation_error.py)."""
SHARE = 0.6
BAR = 1.1
Rng = np.random.Generator


def factor_noise(rng: Rng, size: tuple[int, int], *, count: int, equal: bool = False) -> FloatArray:
    loadings = np.ones((count, size[1])) if equal else rng.standard_normal((count, size[1]))
    common = math.sqrt(SHARE / count) * rng.standard_normal((size[0], count)) @ loadings
    return common + math.sqrt(1 - SHARE) * rng.standard_normal(size)


NOISES = {
    "1 factor": partial(factor_noise, count=1),
    "3 factors": partial(factor_noise, count=3),
    "equicorrelated": partial(factor_noise, count=1, equal=True),
}


def negated_rows(X: FloatArray, _mean: FloatArray, _rng: Rng, corrupted: IntArray, /) -> FloatArray:
    """Turn rows over, noise and mean."""
    return -X[corrupted]


def shifted_block(X: FloatArray, _mean: FloatArray, _rng: Rng, corrupted: IntArray, /) -> FloatArray:
    """Shift half of the support and as many columns off it."""
    return X[corrupted] + np.where((np.arange(D) >= K // 2) & (np.arange(D) < 3 * K // 2), 3.0, 0.0)


def one_row_again(X: FloatArray, mean: FloatArray, _rng: Rng, corrupted: IntArray, /) -> FloatArray:
    """Repeat the noise of one row, without the mean."""
    return np.tile(X[corrupted[0]] - mean, (corrupted.size, 1))


def own_direction(X: FloatArray, mean: FloatArray, rng: Rng, corrupted: IntArray, /) -> FloatArray:
    """Shift rows along a direction of their own off the support, and towards zero on it."""
    return X[corrupted] + np.where(mean != 0, -2 * np.sign(mean), 1.2 * rng.standard_normal(D))


def turned_regression(X: FloatArray, mean: FloatArray, rng: Rng, corrupted: IntArray, /) -> FloatArray:
    """Put rows three deviations out along the leading direction off the support, and on it as far to the other side."""
    noise = X - mean
    leading = np.linalg.svd(noise, full_matrices=False)[2][0]
    far = 3 * np.std(noise @ leading) * leading
    around = 0.6 * rng.standard_normal((corrupted.size, D))
    return mean + np.where(mean != 0, -far, far + around)


ATTACKS: dict[str, Callable[..., FloatArray]] = {
    **{name: attacks.get(name) for name in attacks.available()},
    "far to one side": partial(attacks.constant_bias, bias=20.0),
    "bias upwards": partial(attacks.constant_bias, bias=2.0),
    "support upwards": partial(attacks.support_shift, shift=2.0),
    "support, a little": partial(attacks.support_shift, shift=0.5),
    "negated_rows": negated_rows,
    "shifted_block": shifted_block,
    "own_direction": own_direction,
    "one_row_again": one_row_again,
    "turned_regression": turned_regression,
}
NOT_HELD = ("mimic", "one_row_again", "turned_regression")
SHORT = ("fake_support", "support_shift")


def draw(noise: str, attack: str | None, epsilon: float, seed: int) -> Bunch:
    rng = np.random.default_rng((7, seed))
    mean = 3 * rng.choice([-1, 1], K) * (1 + rng.random(K))
    adversary = None if attack is None else ATTACKS[attack]
    return simulate.make_contaminated(
        N, D, mean, distribution=NOISES[noise], contamination=epsilon, random_state=seed,
        attack=partial(ATTACKS["adaptive"], seed=seed) if attack == "adaptive" else adversary,
    )  # fmt: skip


def compared(X: FloatArray, epsilon: float, seed: int) -> dict[str, FloatArray]:
    """Estimates of all methods that are told k, and of the paper's."""
    made = {
        name: baselines.get(name)(X, contamination=epsilon, k=K, random_state=seed)
        for name in baselines.names()
        if name not in FOR_FEW_FEATURES
    }
    for name, refine in (("stage_1", None), ("full_GD", "gd"), ("full_filter", "filter")):
        made[name] = SparseMean.paper(epsilon, refine=refine, random_state=seed).fit(X).mean_
    return made


@cache
def cell(noise: str, attack: str | None, epsilon: float, runs: int) -> dict[str, float]:
    """Mean errors of all methods over the runs in which the default selects every mean; of too few of them none."""
    errors: dict[str, list[float]] = {}
    for seed in range(runs):
        data = draw(noise, attack, epsilon, seed)
        ours = sparse_mean(data.X, contamination=epsilon, random_state=seed)
        if not set(data.support) <= set(ours.support):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", baselines.BaselineWarning)  # filters that remove every row say so
            made = {"default": ours.mean, **compared(data.X, epsilon, seed)}
        for name, mean in made.items():
            errors.setdefault(name, []).append(float(np.linalg.norm(mean - data.mean)))
    if len(errors.get("default", [])) <= runs / 2:
        return {}
    return {name: float(np.mean(values)) for name, values in errors.items()}


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("noise", NOISES)
def test_against_every_compared_method(noise: str, epsilon: float, long_version: bool, claims: Claims) -> None:
    if not long_version and (noise, epsilon) != ("3 factors", 0.1):
        pytest.skip("one noise and share of bad rows, in the short version")
    runs = 10 if long_version else 2
    short = SHORT[list(NOISES).index(noise) % len(SHORT)]
    names: list[str | None] = [*(ATTACKS if long_version else (short,))] if epsilon else [None]
    ratios, lost = {}, []
    for attack in names:
        if not (measured := cell(noise, attack, epsilon, runs)):
            lost.append(attack)
            continue
        best = min(error for name, error in measured.items() if name != "default")
        ratios[attack or "no attack"] = measured["default"] / best
    shown = ", ".join(f"{attack}: {ratio:.2f}" for attack, ratio in ratios.items())
    shown += f"; means are lost in half of the runs: {', '.join(map(str, lost))}" if lost else ""
    assert not lost or epsilon == 0.2
    if long_version:
        bar = f"≤ {BAR} each but {', '.join(NOT_HELD)}" if epsilon else f"≤ {BAR}"
        claims.add(f"error over the best compared method, {noise}, ε = {epsilon}", shown, bar, f"0–{runs - 1}")
    assert max(ratio for attack, ratio in ratios.items() if attack not in NOT_HELD) <= (BAR if long_version else 1.6), (
        shown
    )


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("attack", ["own_direction", "turned_regression"])
def test_an_attack_on_the_factors_does_no_harm(
    noise: str, attack: str, long_version: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = 10 if long_version else 1
    errors = []
    for seed in range(runs):
        data = draw(noise, attack, 0.2, seed)
        both = [sparse_mean(data.X, contamination=0.2, random_state=seed)]
        with monkeypatch.context() as patch:
            patch.setattr(screening.factors, "common_factors", lambda values, **_: Factors(values[:][:, :0], 0))
            both.append(sparse_mean(data.X, contamination=0.2, random_state=seed))
        errors.append([np.linalg.norm((fitted.mean - data.mean)[fitted.support]) for fitted in both])
    adjusted, raw = np.mean(errors, axis=0)
    assert adjusted <= raw


@pytest.mark.parametrize("attack", simulate.attacks.available())
def test_independent_noise_has_no_factor(attack: str, long_version: bool) -> None:
    """Where none is taken out, the values are those of the rest of the refinement, to the last bit."""
    first = simulate.attacks.available().index(attack)
    for distribution, shape in WITHOUT if long_version else [WITHOUT[2 * first % len(WITHOUT)]]:
        for seed in range(50 if long_version else 1):
            adversary = partial(ATTACKS["adaptive"], seed=seed) if attack == "adaptive" else attack
            data = simulate.make_contaminated(
                600, 100, [10, -5, -4, 2], distribution=distribution, shape=shape, contamination=0.1, attack=adversary,
                random_state=seed,
            )  # fmt: skip
            result = sparse_mean(data.X, contamination=0.1, random_state=seed)
            assert "common factor" not in result.status.refinement
