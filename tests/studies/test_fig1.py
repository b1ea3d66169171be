"""The curves of Fig 1 are those of the specification, in both variants, and end where the published ones do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import specification

from sparsemean.studies.figures import Options, fig1


def bucket_means(J: int = 31, d: int = 5) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    rng = np.random.default_rng(3)
    means = rng.standard_t(2, (J, d)) + np.linspace(-3, 3, d)
    means[:4, 0] = means[4, 0]  # ties, and a mean at the start
    means[0, 1] = 0.0
    return means


def convex_subgradient(
    means: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    *,
    eta: float,
    times: range | tuple[int, ...],
    start: float = 0.0,
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The subgradient method on the convex l1 problem of Fig 1, μ ← μ + ηβ(μ): values at ``times``."""
    J, d = means.shape
    values = [np.full(d, start)]
    for _ in range(max(times)):
        mu = values[-1]
        values.append(mu + eta * (np.sum(means > mu, axis=0) - np.sum(means < mu, axis=0)) / J)
    return np.array(values)[list(times)]


@pytest.mark.parametrize("start", [0.0, 1e-10])
def test_convex_walk_is_the_specification_to_the_last_bit(start: float) -> None:
    means = bucket_means()
    expected = np.abs(convex_subgradient(means, eta=0.07, times=range(1, 301), start=start))
    np.testing.assert_array_equal(fig1.convex(means, 300, eta=0.07, start=start), expected)


def test_convex_subgradient_reaches_the_median_and_moves_everything() -> None:
    means = np.random.default_rng(2).standard_normal((31, 6)) + np.array([4.0, 0, 0, 0, 0, 0])
    values = convex_subgradient(means, eta=0.01, times=(0, 4000))
    np.testing.assert_array_equal(values[0], 0.0)
    np.testing.assert_allclose(values[1], np.median(means, axis=0), atol=0.02)


def test_incremental_learning_against_the_convex_method() -> None:
    """Fig 1: the signals rise while the rest stays at α; the convex method fits noise everywhere."""
    rng = np.random.default_rng(3)
    means = 0.5 * rng.standard_normal((300, 8)) + np.array([5, -2, -1.5, 2, 0, 0, 0, 0])
    steep = np.abs(specification.subgm(means, alpha=1e-10, eta=0.07, times=(1000,))[0])
    flat = np.abs(convex_subgradient(means, eta=0.07, times=(1000,))[0])
    assert steep[:4].min() > 1.0
    assert steep[4:].max() < 1e-8
    assert flat[4:].max() > 1e-3


def test_nonconvex_walk_is_the_specification() -> None:
    means = bucket_means()
    expected = np.abs(specification.subgm(means, alpha=1e-10, eta=0.07, times=range(1, 701)))
    np.testing.assert_allclose(fig1.nonconvex(means, 700, alpha=1e-10, eta=0.07), expected, rtol=1e-12)


def test_first_step_and_the_law_of_the_noise() -> None:
    # After one step |u² − v²| = 4ηα²|β₀|, β₀ a multiple of 2/J up to zeros: the published first point is 220/300 of it.
    first = fig1.one_trial(fig1.NUMBERS, "nonconvex", 1, seed=0)[0] / (4 * fig1.ETA * fig1.ALPHA**2)
    np.testing.assert_allclose(first * fig1.N_BUCKETS, np.round(first * fig1.N_BUCKETS), atol=1e-6)
    assert 180 < first[0] * fig1.N_BUCKETS < 260
    draws = fig1.TEXT.noise(np.random.default_rng(0), (400_000, 1))
    assert draws.var() == pytest.approx(3.3, rel=0.05)


def test_bands_are_the_order_statistics_that_were_published() -> None:
    curves = np.random.default_rng(0).permuted(np.arange(10.0)[:, np.newaxis] + np.zeros((1, 3)), axis=0)
    np.testing.assert_array_equal(fig1.NUMBERS.band(curves)[:, 0], [1, 2, 3])
    np.testing.assert_array_equal(fig1.TEXT.band(curves)[:, 0], [2, 5, 7])


@pytest.mark.parametrize("kind", fig1.KINDS)
def test_ends_are_the_published_ones(kind: str) -> None:
    """Ten trials vary; by how much, eight more runs of ten say: 8 · P(|t| > 6) < 0.005 with 7 degrees of freedom."""
    published = fig1.published()
    assert sorted(published) == sorted((kind, k) for kind in fig1.KINDS for k in range(1, 9))
    ends = fig1.final_values(kind, seed=0, batches=8)
    z = [fig1.z_score(float(published[kind, k].line.iloc[-1]), ends, k) for k in range(1, 9)]
    assert np.abs(z).max() < 6
    assert np.mean(np.square(z)) < 4


def test_it_is_made_and_says_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    monkeypatch.setattr(fig1, "QUICK_ITERATIONS", 300)
    told: list[tuple[int, int]] = []
    options = Options(tmp_path, quick=True, trials=4, progress=lambda done, total: told.append((done, total)))
    outcome = fig1.make(options)
    assert told[-1] == (16, 16)
    assert outcome.images[0].stat().st_size > 10_000
    assert len(outcome.table) == 2 * 2 * 8
    written = pd.read_csv(tmp_path / "fig1.csv")
    assert set(written.x) == {0, 100, 200, 299}
    last = written[(written.x == 299) & (written.variant == "text")].ours.to_numpy()
    np.testing.assert_allclose(last, outcome.table[outcome.table.variant == "text"].ours)
    np.testing.assert_array_equal(*(fig1.one_trial(fig1.TEXT, "convex", 50, seed=5) for _ in range(2)))
