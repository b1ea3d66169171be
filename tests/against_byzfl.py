"""byzfl's aggregators and ours under byzfl's attacks; `make bench-federated` runs it, in an environment of its own.

It writes tables into docs/federated.md, between two marks, and what tests/test_federated.py compares with. The share of
an error is that of the mean of the honest clients: 1 is as good as knowing who they are.
"""

from __future__ import annotations

import inspect
import math
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
from sklearn.datasets import load_digits

from sparsemean import __version__
from sparsemean.federated import Aggregator

sys.modules["torchvision"] = MagicMock()  # for data sets that would be downloaded; it loads beside some builds of torch
from byzfl.aggregators import aggregators, preaggregators  # noqa: E402
from byzfl.attacks import attacks  # noqa: E402
from byzfl.fed_framework import RobustAggregator  # noqa: E402

HERE = Path(__file__).parent
PAGE, FIXTURE = HERE.parent / "docs" / "federated.md", HERE / "fixtures" / "federated" / "byzfl.npz"
MARKS = "<!-- tables: make bench-federated -->", "<!-- end of tables -->"
D, REPEATS = 1000, 2
SHAPES = [(n, share) for n in (20, 50, 100) for share in (0.1, 0.2, 0.3)]
LONGEST = 0.05
"""Seconds of a call that ends: CAF, which takes a few milliseconds, has a loop that need not."""
MOST_SUBSETS = 1000
"""SMEA tries every subset of n − f clients."""
THEIRS = ("Average", "Median", "TrMean", "GeometricMedian", "Krum", "MultiKrum", "Meamed", "CAF", "SMEA")
OURS = "sparsemean"
Call = Callable[[Any], Any]


def theirs(name: str, f: int) -> Call:
    kind = getattr(aggregators, name)
    call = kind(f=f) if "f" in inspect.signature(kind).parameters else kind()
    return limited(call) if name == "CAF" else call


def limited(call: Call) -> Call:
    """Return a call that raises TimeoutError where it takes too long."""

    def late(*_: Any) -> None:
        raise TimeoutError

    def within(vectors: Any) -> Any:
        signal.signal(signal.SIGVTALRM, late)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
        try:
            return call(vectors)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    return within


def methods(n: int, f: int, *, sparse: bool = False) -> Iterator[tuple[str, bool, Call]]:
    """Yield every method by name, whether it follows NNM, and its call."""
    for name in THEIRS:
        if name != "SMEA" or math.comb(n, f) <= MOST_SUBSETS:
            call = theirs(name, f)
            yield name, False, call
            yield f"NNM + {name}", True, call
    yield OURS, False, Aggregator()
    yield f"{OURS}, f given", False, Aggregator(f)
    yield f"NNM + {OURS}", True, Aggregator()
    if sparse:
        yield f"{OURS}, sparse", False, Aggregator(sparse=True)
        yield f"{OURS}, sparse, f given", False, Aggregator(f, sparse=True)


# Updates that are drawn.


def drawn(kind: str, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return what honest clients send, and the mean of all clients there could be."""
    mean, noise = 0.5 * rng.standard_normal(D), rng.standard_normal((n, D))
    if kind == "heavy tails":
        noise = rng.standard_t(2.5, (n, D))
    elif kind == "dependent":
        noise = 0.3 * noise + 0.3 * rng.standard_normal((n, 10)) @ rng.standard_normal((10, D))
    elif kind == "uneven":
        noise *= np.exp(0.7 * rng.standard_normal((n, 1)))
    elif kind == "sparse":
        mean = np.where(np.arange(D) < 10, 1.5, 0.0)
    return mean + noise, mean


KINDS = ("Gaussian", "heavy tails", "dependent", "uneven", "sparse")
FIXED: dict[str, Any] = {
    "SignFlipping": attacks.SignFlipping(),
    "IPM": attacks.InnerProductManipulation(tau=2.0),
    "ALIE": attacks.ALittleIsEnough(tau=1.5),
    "Mimic": attacks.Mimic(),
    "Gaussian noise": attacks.Gaussian(sigma=10.0),
}
FITTED = {"IPM fitted": "Optimal_InnerProductManipulation", "ALIE fitted": "Optimal_ALittleIsEnough"}
"""The attacker knows the aggregator and searches for the factor that harms it most; where n is 20."""


def attacked(honest: Any, attack: Any, f: int) -> Any:
    """Add what attackers send: one vector for all of them, or one each where it is drawn."""
    sent = [attack(honest) for _ in range(f if isinstance(attack, attacks.Gaussian) else 1)]
    return np.concatenate([honest, np.broadcast_to(sent, (f, honest.shape[1]))])


Errors = dict[tuple[str, str, str, int, float], list[float]]


def synthetic() -> Errors:
    """Return log errors, by method, attack, kind, n and share."""
    errors: Errors = defaultdict(list)
    for kind, (n, share), repeat in product(KINDS, SHAPES, range(REPEATS)):
        print(f"\r{kind}, {n} clients, {share:.0%} attackers ", end="", flush=True)  # noqa: T201
        f = round(share * n)
        nnm = preaggregators.NNM(f)
        rng = np.random.default_rng([repeat, n, f])
        np.random.seed(repeat)  # noqa: NPY002  byzfl draws from it
        everyone, mean = drawn(kind, n, rng)
        honest = everyone[f:]
        unit = np.linalg.norm(honest.mean(axis=0) - mean)
        sets = {"none": everyone} | {name: attacked(honest, attack, f) for name, attack in FIXED.items()}
        mixed = {name: nnm(vectors) for name, vectors in sets.items()}
        for method, after, call in methods(n, f, sparse=kind == "sparse"):
            for attack, vectors in (mixed if after else sets).items():
                errors[method, attack, kind, n, share].append(log_error(lambda c=call, v=vectors: c(v), mean, unit))
            if n > 20 or method.endswith("SMEA") or ", sparse" in method:
                continue
            for attack, fitted in FITTED.items():
                search = getattr(attacks, fitted)(agg=call, pre_agg_list=[nnm] if after else [], f=f)

                def defended(search: Any = search, call: Call = call, first: Any = nnm if after else None) -> Any:
                    vectors = attacked(honest, search, f)  # noqa: B023
                    return call(vectors if first is None else first(vectors))

                errors[method, attack, kind, n, share].append(log_error(defended, mean, unit))
    return errors


def log_error(update: Callable[[], Any], mean: Any, unit: float) -> float:
    """Return the logarithm of an error; infinity for an update that never comes."""
    try:
        return math.log(max(np.linalg.norm(update() - mean) / unit, 1e-9))
    except TimeoutError:
        return math.inf


# A model that is trained.

ROUNDS, RATE, MOMENTUM, BATCH, TEST = 60, 0.5, 0.9, 16, 400
SETTINGS = {"alike": (None, 6), "unlike": (0.3, 4), "very unlike": (0.1, 4)}
"""Of 20 clients: the parameter of Dirichlet's distribution by which digits go to clients, and attackers."""
IN_TRAINING = {
    **{name: attack for name, attack in FIXED.items() if name not in ("IPM", "Gaussian noise")},
    "IPM": attacks.InnerProductManipulation(tau=5.0),
    "Gaussian noise": attacks.Gaussian(sigma=0.2),
}


def shared_out(labels: Any, clients: int, alpha: float | None, rng: np.random.Generator) -> list[Any]:
    """Share images out to clients: at random, or each digit in shares that differ from client to client."""
    order = rng.permutation(labels.size)
    if alpha is None:
        return np.array_split(order, clients)
    parts: list[list[int]] = [rng.choice(order, 5).tolist() for _ in range(clients)]  # so that none has nothing
    for digit in range(10):
        of_digit = order[labels[order] == digit]
        ends = (np.cumsum(rng.dirichlet([alpha] * clients)) * of_digit.size).astype(int)[:-1]
        for part, more in zip(parts, np.split(of_digit, ends), strict=True):
            part.extend(more.tolist())
    return [np.array(part) for part in parts]


@cache
def digits() -> tuple[Any, Any]:
    """Return images, with a constant beside, and what they show."""
    x, labels = load_digits(return_X_y=True)
    return np.column_stack([x / 16, np.ones(labels.size)]), labels


def gradient(weights: Any, x: Any, labels: Any) -> Any:
    """Return the gradient of the loss of multinomial logistic regression."""
    scores = x @ weights
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    odds[np.arange(labels.size), labels] -= 1
    return (x.T @ odds / labels.size).ravel()


def accuracy(call: Call, attack: Any, alpha: float | None, f: int, seed: int) -> float:
    """Train with 20 clients and return the share of images that the model then gets right."""
    rng, n = np.random.default_rng(seed), 20
    np.random.seed(seed)  # noqa: NPY002
    x, labels = digits()
    order = rng.permutation(labels.size)
    test, rest = order[:TEST], order[TEST:]
    parts = [rest[part] for part in shared_out(labels[rest], n - f if attack else n, alpha, rng)]
    weights, moving = np.zeros((x.shape[1], 10)), np.zeros((len(parts), x.shape[1] * 10))
    for _ in range(ROUNDS):
        seen = [rng.choice(part, min(BATCH, part.size), replace=False) for part in parts]
        fresh = np.array([gradient(weights, x[some], labels[some]) for some in seen])
        moving = MOMENTUM * moving + (1 - MOMENTUM) * fresh
        weights = weights - RATE * call(attacked(moving, attack, f) if attack else moving).reshape(weights.shape)
    return float(np.mean((x[test] @ weights).argmax(axis=1) == labels[test]))


def training() -> dict[tuple[str, str, str], float]:
    """Return accuracies at the end, by method, setting and attack."""
    found = {}
    for setting, (alpha, f) in SETTINGS.items():
        nnm = preaggregators.NNM(f)
        for method, after, call in methods(20, f):
            whole = (lambda vectors, nnm=nnm, call=call: call(nnm(vectors))) if after else call
            for name, attack in {"none": None, **IN_TRAINING}.items():
                try:
                    runs = [accuracy(whole, attack, alpha, f, seed) for seed in range(REPEATS)]
                except TimeoutError:
                    runs = [math.nan]
                found[method, setting, name] = float(np.mean(runs))
    return found


def speed() -> str:
    """Say how long a million weights of 50 clients take, beside NumPy's median of a tenth of them, times ten."""
    rows = np.random.default_rng(0).standard_normal((50, 1_000_000), dtype=np.float32)
    rows[:10] = -1

    def seconds(call: Call, vectors: Any) -> float:
        began = time.process_time()
        call(vectors)
        return time.process_time() - began

    ours = min(seconds(Aggregator(), rows) for _ in range(3))
    median = min(seconds(lambda x: np.median(x, axis=0), rows[:, ::10].copy()) for _ in range(3))
    return (
        f"**Time**: 50 clients with a million weights in float32 take {ours:.1f} s of processor time, "
        f"{ours / (10 * median):.1f} times that of `np.median`; it grows as n²d."
    )


# What is written.


def table(head: list[str], rows: dict[str, list[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())])


def ratio(logs: list[float], *, worst: bool = False) -> str:
    """Return an average of ratios, or the largest; – where there are none."""
    if not logs:
        return "–"
    value = math.exp(max(logs) if worst else np.mean(logs))
    if value == math.inf:
        return "∞"
    return f"{value:.3g}" if value >= 10 else f"{value:.2f}"


def tables(errors: Errors, accuracies: dict[tuple[str, str, str], float]) -> str:
    """Return all tables, with their captions."""
    names = list(dict.fromkeys(key[0] for key in errors))
    dense = [name for name in names if not name.endswith(("sparse", "sparse, f given", "SMEA"))]

    def logs(method: str, **where: Any) -> list[float]:
        fields = ("method", "attack", "kind", "n", "share")
        wanted = {"method": method, **where}
        keys = [key for key in errors if all(dict(zip(fields, key, strict=True))[w] == v for w, v in wanted.items())]
        return [float(np.mean(errors[key])) for key in keys if key[2] != "sparse" or where.get("kind") == "sparse"]

    kinds_of_attack = ["none", *FIXED, *FITTED]
    by_attack = {
        name: [*(ratio(logs(name, attack=attack)) for attack in kinds_of_attack), ratio(logs(name), worst=True)]
        for name in dense
    }
    by_kind = {name: [ratio(logs(name, kind=kind)) for kind in KINDS] for name in names if not name.endswith("SMEA")}
    by_shape = {
        name: [ratio(logs(name, n=n, share=share)) for n, share in SHAPES] for name in names if ", sparse" not in name
    }
    trained = list(dict.fromkeys(key[0] for key in accuracies))
    columns = ["none", *IN_TRAINING]
    by_setting = {
        setting: {name: [f"{accuracies[name, setting, attack]:.2f}" for attack in columns] for name in trained}
        for setting in SETTINGS
    }
    versions = ", ".join(f"{name} {version(name)}" for name in ("byzfl", "torch", "numpy"))
    parts = [
        f"Versions: {versions}, sparsemean {__version__}. Updates are drawn, {D:,} coordinates; digits are "
        "scikit-learn's.",
        "**Error by attack**, in that of the mean of the honest clients, averages (geometric) over dense kinds of "
        "updates, n = 20, 50, 100 and 10, 20, 30 % attackers; fitted attacks at n = 20 only; last the worst of all. "
        f"∞ and nan: a call did not end within {LONGEST:g} s.",
        table(["method", *kinds_of_attack, "worst"], by_attack),
        "**Error by kind of updates**, average over attacks.",
        table(["method", *KINDS], by_kind),
        "**Error by number of clients and share of attackers**, average over attacks and dense kinds.",
        table(["method", *(f"{n}, {share:.0%}" for n, share in SHAPES)], by_shape),
        f"**Digits**: accuracy after {ROUNDS} rounds with 20 clients. Clients are *alike*, 6 of them attackers; or "
        "digits are shared out by Dirichlet's distribution, 0.3 for *unlike* and 0.1 for *very unlike*, 4 attackers.",
        *(table([f"clients {setting}", *columns], by_setting[setting]) for setting in SETTINGS),
        speed(),
    ]
    return "\n\n".join(parts)


def write_page(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(MARKS[0])
    _, mark, after = rest.partition(MARKS[1])
    assert mark, f"{PAGE.name} has no place for the tables"
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")


def record() -> None:
    """Store some vectors, byzfl's answers and ours, to be compared with where there is no byzfl."""
    n, f, d = 20, 4, 40
    honest = np.random.default_rng(0).standard_normal((n - f, d)) + 0.5
    np.random.seed(0)  # noqa: NPY002
    stored: dict[str, Any] = {"versions": f"byzfl {version('byzfl')}, torch {version('torch')}", "f": f}
    for name, attack in FIXED.items():
        vectors = attacked(honest, attack, f)
        mixed = preaggregators.NNM(f)(vectors)
        ours, after = Aggregator()(vectors), Aggregator(f)(mixed)
        told = Aggregator(f)(torch.from_numpy(vectors))  # a tensor comes back, of the same type
        assert isinstance(told, torch.Tensor)
        assert told.dtype == torch.float64
        np.testing.assert_allclose(told.numpy(), Aggregator(f)(vectors), rtol=1e-12)
        np.testing.assert_array_equal(Aggregator(f)(list(torch.from_numpy(vectors))).numpy(), told.numpy())
        key = name.replace(" ", "_")
        stored |= {f"{key}.vectors": vectors, f"{key}.NNM": mixed, f"{key}.ours": ours, f"{key}.ours_after_NNM": after}
        stored |= {f"{key}.{other}": theirs(other, f)(vectors) for other in THEIRS if other != "SMEA"}
    aggregators.SparseMean = Aggregator  # as the page has it
    pipeline = RobustAggregator(
        {"name": "SparseMean", "parameters": {"f": f}}, [{"name": "NNM", "parameters": {"f": f}}]
    )
    np.testing.assert_array_equal(pipeline.aggregate_vectors(vectors), after)
    np.savez_compressed(FIXTURE, **stored)


if __name__ == "__main__":
    torch.set_num_threads(1)
    began = time.monotonic()
    record()
    print(f"vectors recorded: {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    found = synthetic()
    print(f"updates that are drawn: {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    write_page(tables(found, training()))
    print(f"digits, tables written: {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
