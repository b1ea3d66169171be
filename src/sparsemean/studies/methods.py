"""What studies run: settings and sweeps of them, the estimators and attacks that they compare, one trial of these."""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeAlias, TypedDict

import numpy as np

from sparsemean import baselines
from sparsemean._fit.one_sample import sparse_mean
from sparsemean._stats.descent import largest_weight, project_capped_simplex
from sparsemean._stats.planning import PRESET, paper_buckets
from sparsemean._util.checks import Bunch
from sparsemean._util.records import FloatArray, IntArray, LocationEstimate
from sparsemean.errors import InputError
from sparsemean.simulate import make_contaminated
from sparsemean.simulate._protocols import Attack

DEFAULT_MEAN = (10.0, -5.0, -4.0, 2.0)
"""The paper's default; its other figures use k twos."""
Noise = tuple[str, float]


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything that one data set is simulated from but its seed.

    Attributes
    ----------
    distribution : str
        Name of the noise.
    shape : float
        Its tail index, degrees of freedom or log-scale.
    attack : str
        Name of the attack.
    n : int
        Rows.
    d : int
        Features.
    mean : tuple of float
        The mean of the first features; it is zero on the rest.
    contamination : float
        Share of rows that are corrupted.
    told_k : int
        The sparsity that estimators are given, right or wrong.
    """

    distribution: str
    shape: float
    attack: str
    n: int
    d: int
    mean: tuple[float, ...]
    contamination: float
    told_k: int

    def seed(self, study_seed: int, trial: int) -> int:
        """Return the seed of one trial: the same whatever else is run, and by however many workers."""
        text = json.dumps([study_seed, trial, asdict(self)], sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class Sweep:
    """Distributions × attacks × estimators over a grid of one quantity.

    Attributes
    ----------
    over : {"shape", "contamination", "k", "told_k", "n", "d"}
        What varies; "k" is that many means of 2.
    grid : tuple of float
        The values that it takes.
    distributions : tuple of pairs
        Names of distributions, each with a shape.
    estimators : tuple of str
        Names of ``studies.methods()``.
    attacks : tuple of str, default=("constant_bias",)
        Names of ``simulate.attacks.available()``.
    n : int, default=600
        Rows.
    d : int, default=100
        Features.
    mean : tuple of float, default=(10, -5, -4, 2)
        The mean of the first features; it is zero on the rest.
    contamination : float, default=0.1
        Share of rows that are corrupted.
    rows_per_k : int, optional
        With ``over="k"``: n is this many times k at every point, in place of ``n``.
    trials : int, default=10
        Data sets drawn for every point.
    seed : int, default=0
        What the seeds of all trials follow from.
    """

    over: str
    grid: tuple[float, ...]
    distributions: tuple[Noise, ...]
    estimators: tuple[str, ...]
    attacks: tuple[str, ...] = ("constant_bias",)
    n: int = 600
    d: int = 100
    mean: tuple[float, ...] = DEFAULT_MEAN
    contamination: float = 0.1
    rows_per_k: int | None = None
    trials: int = 10
    seed: int = 0

    def points(self) -> Iterator[tuple[float, Setting]]:
        """Yield every value of the grid with each of its settings."""
        for distribution, shape in self.distributions:
            for attack in self.attacks:
                base = Setting(
                    distribution, float(shape), attack, self.n, self.d, tuple(map(float, self.mean)),
                    float(self.contamination), max(1, int(np.count_nonzero(self.mean))),
                )  # fmt: skip
                for x in self.grid:
                    yield float(x), self._sized(_at(base, self.over, float(x)))

    def _sized(self, setting: Setting) -> Setting:
        """Return the setting with as many rows as its sparsity asks for."""
        if self.rows_per_k is None:
            return setting
        if self.over != "k":
            raise InputError("rows_per_k", 'be given with over="k" only', repr(self.over))
        return replace(setting, n=self.rows_per_k * setting.told_k)

    def describe(self) -> dict[str, object]:
        """Return the configuration as plain data."""
        return asdict(self)


def _at(base: Setting, over: str, x: float) -> Setting:
    """Return the setting in which the varied quantity is ``x``."""
    if over == "k":
        return replace(base, mean=(2.0,) * int(x), told_k=int(x))
    if over not in ("shape", "contamination", "told_k", "n", "d"):
        raise InputError("over", "be one of shape, contamination, k, told_k, n, d", repr(over))
    return Setting(**asdict(base) | {over: x if over in ("shape", "contamination") else int(x)})


GROUPS = (10, 50, 100, 150, 200)
OLD_GROUPS = (1, 2, 4, 5, 10, 20)
"""Those of the older run behind the t panel of Fig 2c."""


def oracle(data: Bunch, k: int, groups: tuple[int, ...] = GROUPS) -> FloatArray:
    """Return, of the mean and of medians of means over consecutive groups of the clean rows, the one nearest the truth.

    Each candidate is cut to its k largest entries first.
    """
    clean = np.delete(data.X, data.corrupted, axis=0)
    candidates = [clean.mean(axis=0)]
    for count in groups:
        parts = np.array_split(clean, min(count, clean.shape[0]))
        candidates.append(np.median([part.mean(axis=0) for part in parts], axis=0))
    cut = [LocationEstimate(np.asarray(candidate)).cut(k).mean for candidate in candidates]
    return min(cut, key=lambda estimate: float(np.linalg.norm(estimate - data.mean)))


# Attacks that only studies need: as strong as theory lets them be before they show in a variance.


def find_attack(name: str) -> str | Attack:
    """Return the attack called ``name``: one of this file, else the name, which the library knows or refuses."""
    return _ATTACKS.get(name, name)


def root_shift(X: FloatArray, mean: FloatArray, _rng: np.random.Generator, corrupted: IntArray, /) -> FloatArray:
    """Move the corrupted rows by −1/√ε in every coordinate of the support.

    Each coordinate's variance grows by about one and its mean moves by √ε: what a fixed shift does for one ε only, this
    does for all. Together the coordinates show: along the support the variance grows by k.
    """
    return X[corrupted] + np.where(mean != 0, -1.0, 0.0) / math.sqrt(corrupted.size / len(X))


def root_shift_one(X: FloatArray, mean: FloatArray, _rng: np.random.Generator, corrupted: IntArray, /) -> FloatArray:
    """Move the corrupted rows by −1/√ε in the first coordinate of the support, as the lower bound's adversary does."""
    shift = np.zeros(mean.size)
    shift[np.flatnonzero(mean)[:1]] = -1.0 / math.sqrt(corrupted.size / len(X))
    return X[corrupted] + shift


_ATTACKS: dict[str, Attack] = {"root_shift": root_shift, "root_shift_one": root_shift_one}


# The estimators that studies compare, by the names of the paper; each sees a data set, what it is told, and a seed.

Method: TypeAlias = Callable[[Bunch, Setting, int], FloatArray]


def methods() -> list[str]:
    """List the estimators that a study may name: the paper's, the default, and every compared method."""
    return [*_NAMED, *baselines.names()]


def find(name: str) -> Method:
    """Return the estimator called ``name``."""
    if name in _NAMED:
        return _NAMED[name]
    if name in baselines.names():
        return partial(_baseline, name)
    raise InputError("estimators", f"be among {', '.join(methods())}", repr(name))


def _default(data: Bunch, setting: Setting, seed: int, **options: Any) -> FloatArray:
    return sparse_mean(data.X, contamination=setting.contamination, random_state=seed, n_jobs=1, **options).mean


def _paper(data: Bunch, setting: Setting, seed: int, **options: Any) -> FloatArray:
    return _default(data, setting, seed, **{**PRESET, **options})


def _old_paper(data: Bunch, setting: Setting, seed: int, **options: Any) -> FloatArray:
    """Run Algorithm 1 with 2⌈εn⌉ buckets and without a least number of features, as the t panel of Fig 2c did."""
    return _paper(data, setting, seed, n_buckets=_old_buckets(setting), min_selected=0, **options)


def _old_buckets(setting: Setting) -> int:
    return 2 * math.ceil(setting.contamination * setting.n)


def _baseline(name: str, data: Bunch, setting: Setting, seed: int) -> FloatArray:
    return baselines.get(name)(data.X, contamination=setting.contamination, k=setting.told_k, random_state=seed)


def _bucketed_filter(data: Bunch, setting: Setting, seed: int) -> FloatArray:
    """Run the sparse filter on bucket means, told the share of buckets that bad rows may spoil."""
    return _filtered(data.X, setting, paper_buckets(setting.n, setting.contamination), seed, setting.told_k)


def descent_as_run(X: FloatArray, contamination: float) -> FloatArray:
    """Return the mean by `baselines.dense_gd` with its moves judged as in the paper's runs.

    A move from w to v is kept there if the top eigenvalue of Σ vᵢxᵢxᵢᵀ − x̄x̄ᵀ, with x̄ still the mean under w, is below
    that of the covariance under w. What is judged is the covariance under v plus ȳȳᵀ − x̄x̄ᵀ, ȳ the mean under v: far
    from zero a move counts for taking the mean towards zero, and is refused for taking it away, whatever the rows say.
    """
    n = X.shape[0]
    w, step, cap = np.full(n, 1 / n), 1 / n, largest_weight(n, contamination)
    for _ in range(100):
        square = np.outer(w @ X, w @ X)
        values, vectors = np.linalg.eigh(X.T @ (w[:, np.newaxis] * X) - square)
        along = X @ vectors[:, -1]
        gradient = along * (along - 2 * (w @ along))
        moved = project_capped_simplex(w - step / np.linalg.norm(gradient) * gradient, cap)
        fell = np.linalg.eigvalsh(X.T @ (moved[:, np.newaxis] * X) - square)[-1] < values[-1]
        w, step = (moved, 2 * step) if fell else (w, step / 4)
    return np.asarray(w @ X)


def _old_full_filter(data: Bunch, setting: Setting, seed: int) -> FloatArray:
    """Run the filter on the selected columns of the old Stage 1's own bucket means."""
    mean = _old_paper(data, setting, seed)
    support = np.flatnonzero(mean)
    if support.size:
        J = _old_buckets(setting)
        mean[support] = _filtered(data.X[:, support], setting, J, seed, support.size)
    return mean


def _filtered(X: FloatArray, setting: Setting, n_buckets: int, seed: int, k: int) -> FloatArray:
    """Filter bucket means as published, also where half of the buckets or more may be bad, which fits refuse.

    At ε = 0.1 that is so from n = 3000 rows on, and for the old number of buckets always.
    """
    from sparsemean._kernels.columns import bucket_means
    from sparsemean._stats.buckets import assign_paper_buckets
    from sparsemean.baselines.sparse_filtering import filter_rows

    share = math.ceil(setting.contamination * setting.n) / n_buckets
    means = bucket_means(np.ascontiguousarray(X), assign_paper_buckets(setting.n, n_buckets, seed))
    kept, _ = filter_rows(means, share, k)
    mean = means[kept].mean(axis=0) if kept.size > 1 else np.zeros(X.shape[1])
    return LocationEstimate(mean).cut(k).mean


def _oracle(data: Bunch, _setting: Setting, _seed: int, groups: tuple[int, ...] = GROUPS) -> FloatArray:
    return oracle(data, max(1, int(np.count_nonzero(data.mean))), groups)


_NAMED: dict[str, Method] = {
    "default": _default,
    "stage_1": _paper,
    "stage_1_plain": partial(_paper, min_selected=0),
    "full_GD": partial(_paper, refine="gd"),
    "full_GD_as_run": partial(_paper, refine=descent_as_run),
    "full_sparse_GD": partial(_paper, refine="sparse_gd"),
    "full_filter": partial(_paper, refine="filter"),
    "full_stability": partial(_paper, refine="stability_filter"),
    "full_filter_buckets": partial(_paper, refine="filter", refine_on="buckets"),
    "sparse_GD": partial(_baseline, "sparse_gd"),
    "sparse_filter_buckets": _bucketed_filter,
    "oracle": _oracle,
    "old_stage_1": _old_paper,
    "old_full_filter_buckets": _old_full_filter,
    "old_oracle": partial(_oracle, groups=OLD_GROUPS),
}


class TrialScore(TypedDict):
    """How an estimator did in one trial."""

    trial: int
    estimator: str
    error: float
    overlap: float
    seconds: float


def run_trial(setting: Setting, study_seed: int, trial: int, estimators: tuple[str, ...]) -> list[TrialScore]:
    """Return a record for each estimator: l2 error, |I ∩ S| / |I ∪ S| and seconds of the processor.

    Trials run beside each other and beside other work: a clock on the wall would time that too.
    """
    seed = setting.seed(study_seed, trial)
    data = make_contaminated(
        setting.n, setting.d, setting.mean, distribution=setting.distribution, shape=setting.shape,
        contamination=setting.contamination, attack=find_attack(setting.attack), random_state=seed,
    )  # fmt: skip
    records: list[TrialScore] = []
    for name in estimators:
        method = find(name)
        began = time.process_time()
        with warnings.catch_warnings():
            # a filter that removes every row is scored as it answers
            warnings.simplefilter("ignore", baselines.BaselineWarning)
            mean = method(data, setting, seed % 2**32)
        seconds = time.process_time() - began
        found, truth = mean != 0, data.mean != 0
        either = int(np.count_nonzero(found | truth))
        records.append(
            {
                "trial": trial,
                "estimator": name,
                "error": float(np.linalg.norm(mean - data.mean)),
                "overlap": float(np.count_nonzero(found & truth) / either) if either else 1.0,
                "seconds": seconds,
            }
        )
    return records
