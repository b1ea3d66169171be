"""How much the code of a commit finds, in numbers by cell: `against.py` runs this with two commits and divides.

``one`` and ``groups`` are effects that 80 % of columns are found with at a threshold, where Holm's rule begins. Values
are quantiles of draws that stay the same: p of a column falls as its effect grows, and both commits see the same.
``exact`` is ``groups`` by the test given all ties. ``tables`` are features that are found in real data.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import expit, logit, pdtr
from validity import test_groups_data, test_rank_power

from sparsemean import certify
from sparsemean._kernels.compiling import end_plainness

Floats = npt.NDArray[np.float64]
Law = Callable[[float], Floats]
POWER, STEPS, EFFECTS = 0.8, 13, (1 / 64, 32.0)
THRESHOLDS = (5e-5, 2.5e-3)
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000


def detectable(p_at: Callable[[Floats, float], Floats], threshold: float, draws: Floats) -> float:
    """Return the effect that 80 % of columns, the last axis, are found with; infinity where the largest will not do.

    After each halving only those columns are asked again whose own effect can be the one that is looked for.
    """
    low, high = EFFECTS
    rank = int(np.ceil(POWER * draws.shape[-1]))
    for _ in range(STEPS):
        middle = math.sqrt(low * high)
        found = p_at(draws, middle) <= threshold
        enough = np.sum(found) >= rank
        low, high = (low, middle) if enough else (middle, high)
        rank -= 0 if enough else int(np.sum(found))
        draws = draws[..., found == enough]
    return high if high < EFFECTS[1] else math.inf


def one() -> dict[str, float]:
    """75 cells of one sample, at two thresholds."""
    out = {}
    laws, sizes = test_rank_power.NOISES.items(), (30, 100, 300, 1000, 3000)
    for (law, draw), n, threshold in product(laws, sizes, THRESHOLDS):
        noise = draw(np.random.default_rng(SEED), (n, 240))
        for m in (1, 3, max(5, n // 20)):

            def p_at(X: Floats, mean: float, share: float = (m - 0.5) / n, level: float = threshold) -> Floats:
                options = {"contamination": share, "level": level * X.shape[1], "test": "ranks", "n_jobs": 1}
                return np.asarray(certify(X + mean, **options).p_values)

            name = f"m {'≥' if m >= 5 else '<'} 5: {law}, n = {n}, m = {m}, p = {threshold}"
            out[name] = detectable(p_at, threshold, noise)
    return out


# Two groups of few values: the chance of being no larger than each of them, given the effect.


def shares(share: float, effect: float) -> Floats:
    return np.array([expit(-logit(share) - effect)])


def ratings(effect: float) -> Floats:
    weights = np.array([0.05, 0.05, 0.05, 0.1, 0.75]) * np.exp(-effect * np.arange(5))
    return np.asarray(np.cumsum(weights / weights.sum())[:-1])


def counts(rate: float, effect: float) -> Floats:
    return np.asarray(pdtr(np.arange(40), rate * np.exp(effect)))


LAWS: dict[str, tuple[Law, int]] = {
    **{f"0/1, {share:.0%}": (partial(shares, share), 0) for share in (0.02, 0.1, 0.5)},
    "1/2, 10%": (partial(shares, 0.1), 1),
    "ratings, mostly 5": (ratings, 1),
    **{f"Poisson {rate:g}": (partial(counts, rate), 0) for rate in (0.3, 1.0, 2.0)},
    "1 + Poisson 0.3": (partial(counts, 0.3), 1),
}
"""With the smallest value."""
KINDS = {"0 %": 0.0, "1 %": 0.01, "1 % attacked": 0.01}


def attacked(X: Floats, m: int) -> None:
    """Replace the largest values of the higher group by the smallest, and the smallest of the other by the largest."""
    X.sort(axis=1)
    up = X[0].mean(axis=0) >= X[1].mean(axis=0)
    bottom, top = X.min(axis=(0, 1)), X.max(axis=(0, 1))
    for values, higher in zip(X, (up, ~up), strict=True):
        values[-m:], values[:m] = np.where(higher, bottom, values[-m:]), np.where(higher, values[:m], top)


def certified(X: Floats, share: float, threshold: float) -> Floats:
    y = np.repeat([1, 0], X.shape[1])
    found = certify(np.vstack(tuple(X)), y, contamination=share, level=threshold * X.shape[2], n_jobs=1)
    return np.asarray(found.p_values)


def given_all_ties(X: Floats, *_: float) -> Floats:
    """Return twice the smaller tail of the rank sum over all ways to deal these values."""
    from sparsemean._kernels.tied_tails import log_tied_tail  # tests hold it against counting

    n, log_p = X.shape[1], np.zeros(X.shape[2])
    for column in range(log_p.size):
        _, level, times = np.unique(X[..., column], return_inverse=True, return_counts=True)
        scores = 2 * np.cumsum(times) - times - 2 * n  # their mean is 0
        place = scores[level.reshape(2, n)[0]].sum()
        if place:
            turned = slice(None, None, int(np.sign(place)))
            at, times = np.abs(scores[turned] - scores[turned][0]), times[turned]
            unit, lowest = np.gcd.reduce(at), np.sign(place) * scores[turned][0]
            tail = log_tied_tail(
                at / unit, times * 1.0, np.array([0, at.size]), np.array([float(n)]), (abs(place) - n * lowest) / unit
            )
            log_p[column] = np.log(2) + tail
    return np.asarray(np.minimum(1.0, np.exp(log_p)))


def groups(test: Callable[[Floats, float, float], Floats] = certified, *kinds: str) -> dict[str, float]:
    out = {}
    for n, (law, (chances, least)), threshold in product((30, 100, 1000), LAWS.items(), THRESHOLDS):
        draws = np.random.default_rng(SEED).random((2, n, 40))
        for kind in kinds or KINDS:

            def p_at(draws: Floats, effect: float, given: Any = (chances, least, kind, threshold)) -> Floats:
                bounds, kind = [given[0](each) for each in (effect, 0.0)], given[2]
                X = np.array(
                    [given[1] + np.searchsorted(*each) for each in zip(bounds, draws, strict=True)], dtype=float
                )
                if kind.endswith("attacked"):
                    attacked(X, int(np.ceil(KINDS[kind] * X.shape[1])))
                return test(X, KINDS[kind], given[3])

            out[f"{kind}: {law}, {n} + {n}, p = {threshold}"] = detectable(p_at, threshold, draws)
    return out


def tables() -> dict[str, float]:
    """Features of each label, of all data that are there."""
    out = {}
    for name, read in test_groups_data.TABLES.items():
        try:
            X, labels = read()
        except pytest.skip.Exception as missing:
            sys.stderr.write(f"{name} is left out: {missing}\n")
            continue
        several = {"reference": "rest"} if np.unique(labels).size > 2 else {}
        for share in (0.0, 0.01, 0.02, 0.05, "auto"):
            found = certify(X, labels, contamination=share, **several)
            for label, each in found.items() if several else [("", found)]:
                out[f"{share}: {name} {label}"] = float(each.support.size)
    return out


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    end_plainness()
    if sys.argv[1] == "groups":  # how many bad rows a feature bears, and its radius, take their time
        from sparsemean._stats import decision

        decision._last_selected = lambda *asked: np.zeros(asked[2].size, dtype=np.intp)
    made = {"one": one, "groups": groups, "exact": partial(groups, given_all_ties, "0 %"), "tables": tables}
    sys.stdout.write(json.dumps(made[sys.argv[1]]()))
