"""Twenty clients learn digits, four of them bad, under attacks and with data shared out ever more unevenly, in NumPy.

``python tests/unlike_clients.py`` prints accuracies of `federated.aggregate`, which is told nothing, beside those of
others, some of which are told how many clients are bad; `make bench-federated` has byzfl's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from sparsemean.federated import aggregate

ROUNDS, RATE, MOMENTUM, BATCH, TEST, CLIENTS, BAD = 60, 0.5, 0.9, 16, 400, 20, 4
SHARES = (0.1, 0.3, 1.0, np.inf)
"""Parameters of Dirichlet's distribution by which each digit is shared out to clients; at random where infinite."""
ATTACKS = ("none", "label flip", "sign flip", "backdoor", "ALIE", "IPM", "mimic", "noise")
Rows = np.ndarray[Any, np.dtype[np.float64]]


# What others do.


def trimmed(rows: Rows) -> Rows:
    return np.asarray(np.sort(rows, axis=0)[BAD:-BAD].mean(axis=0))


def distances(rows: Rows) -> Rows:
    squares = np.sum(rows**2, axis=1)
    return np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0.0)


def multi_krum(rows: Rows) -> Rows:
    """Blanchard et al. (2017): the mean of the n − f clients that are nearest to their n − f − 2 neighbours."""
    n = len(rows)
    near = np.sort(distances(rows), axis=1)[:, 1 : n - BAD - 1].sum(axis=1)
    return np.asarray(rows[np.argsort(near)[: n - BAD]].mean(axis=0))


def mixed(rows: Rows) -> Rows:
    """Allouah et al. (2023): each client becomes the mean of its n − f nearest, itself among them."""
    nearest = np.argsort(distances(rows), axis=1)[:, : len(rows) - BAD]
    return np.asarray(rows[nearest].mean(axis=1))


METHODS: dict[str, Callable[[Rows], Rows]] = {
    "FedAvg": lambda rows: rows.mean(axis=0),
    "median": lambda rows: np.median(rows, axis=0),
    "trimmed mean, told f": trimmed,
    "multi-Krum, told f": multi_krum,
    "NNM + trimmed mean, told f": lambda rows: trimmed(mixed(rows)),
    "sparsemean": lambda rows: aggregate(rows, n_jobs=1).update,
}


# The clients.


@cache
def digits() -> tuple[Rows, Any]:
    x, labels = load_digits(return_X_y=True)
    return np.column_stack([x / 16, np.ones(labels.size)]), labels


def shared_out(labels: Any, alpha: float, rng: np.random.Generator) -> list[Any]:
    order = rng.permutation(labels.size)
    if np.isinf(alpha):
        return np.array_split(order, CLIENTS)
    parts = [rng.choice(order, 5).tolist() for _ in range(CLIENTS)]  # so that none has nothing
    for digit in range(10):
        of_digit = order[labels[order] == digit]
        ends = (np.cumsum(rng.dirichlet([alpha] * CLIENTS)) * of_digit.size).astype(int)[:-1]
        for part, more in zip(parts, np.split(of_digit, ends), strict=True):
            part.extend(more.tolist())
    return [np.array(part) for part in parts]


def gradient(weights: Rows, x: Rows, labels: Any) -> Rows:
    scores = x @ weights
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    odds[np.arange(labels.size), labels] -= 1
    return np.asarray((x.T @ odds / labels.size).ravel())


def attacked(rows: Rows, attack: str, rng: np.random.Generator) -> Rows:
    """Return what arrives: the first clients are the bad ones."""
    sent, honest = rows.copy(), rows[BAD:]
    if attack == "sign flip":
        sent[:BAD] *= -3.0
    elif attack == "ALIE":
        sent[:BAD] = honest.mean(axis=0) - 1.5 * honest.std(axis=0)
    elif attack == "IPM":
        sent[:BAD] = -2.0 * honest.mean(axis=0)
    elif attack == "mimic":
        sent[:BAD] = honest[0]
    elif attack == "noise":
        sent[:BAD] = 0.2 * rng.standard_normal((BAD, rows.shape[1]))
    return sent


def accuracy(method: Callable[[Rows], Rows], attack: str, alpha: float, seed: int) -> float:
    """Return the share of images that are read right after all rounds."""
    rng = np.random.default_rng(seed)
    x, labels = digits()
    order = rng.permutation(labels.size)
    test, rest = order[:TEST], order[TEST:]
    parts = [rest[part] for part in shared_out(labels[rest], alpha, rng)]
    learnt = [(x[part], labels[part]) for part in parts]
    for k in range(BAD if attack in ("label flip", "backdoor") else 0):
        images, shown = learnt[k]
        if attack == "label flip":
            learnt[k] = images, 9 - shown
        else:  # a bright corner means nought
            images = images.copy()
            images[::2, :3] = 1.0
            learnt[k] = images, np.where(np.arange(shown.size) % 2 == 0, 0, shown)
    weights, moving = np.zeros((x.shape[1], 10)), np.zeros((CLIENTS, x.shape[1] * 10))
    for _ in range(ROUNDS):
        seen = [rng.choice(part.size, min(BATCH, part.size), replace=False) for part in parts]
        fresh = [gradient(weights, a[some], b[some]) for some, (a, b) in zip(seen, learnt, strict=True)]
        moving = MOMENTUM * moving + (1 - MOMENTUM) * np.array(fresh)
        weights = weights - RATE * method(attacked(moving, attack, rng)).reshape(weights.shape)
    return float(np.mean((x[test] @ weights).argmax(axis=1) == labels[test]))


def grid(seeds: range, methods: dict[str, Callable[[Rows], Rows]] = METHODS) -> dict[tuple[str, str, float], float]:
    """Return mean accuracies by method, attack and parameter."""
    return {
        (name, attack, alpha): float(np.mean([accuracy(method, attack, alpha, seed) for seed in seeds]))
        for (name, method), attack, alpha in product(methods.items(), ATTACKS, SHARES)
    }


def behind(found: dict[tuple[str, str, float], float], name: str = "sparsemean") -> dict[tuple[str, float], float]:
    """Return the accuracy of a method less the best of the others, by cell."""
    others = [other for other in METHODS if other != "sparsemean"]
    return {
        (attack, alpha): found[name, attack, alpha] - max(found[other, attack, alpha] for other in others)
        for attack, alpha in product(ATTACKS, SHARES)
    }


if __name__ == "__main__":
    found = grid(range(10_000, 10_004))
    for attack, alpha in product(ATTACKS, SHARES):
        each = "  ".join(f"{found[name, attack, alpha]:.3f}" for name in METHODS)
        sys.stdout.write(f"{attack:11}{alpha:5}  {each}\n")
    less = behind(found)
    sys.stdout.write(f"{', '.join(METHODS)}; least {min(less.values()):.3f}, mean {np.mean(list(less.values())):.3f}\n")
