"""Some four hundred fits of every kind, to be compared with what an earlier commit made of them.

``make corpus BASE=<commit>`` records them by the code of that commit and by the present one, in turn, and says what
differs: decisions must be equal, log p agree to 1e-12 and intervals to four units in the last place.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import sparsemean as sm

Cases = Iterator[tuple[str, Callable[[], Any]]]
EXACT = ("support", "last", "radius", "suspects", "bad_rows")
LOG_P, ULPS = 1e-12, 4
SIDES = ("two-sided", "greater", "less")
RULES = ("fwer", "fdr", "fdr_by")


# Data: each has features that are found, whatever is asked.


def noise(name: str, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return noise about zero: smooth, heavy, with zeros or with ties."""
    if name == "t":
        return rng.standard_t(1.5, shape)
    if name == "zeros":
        return np.where(rng.random(shape) < 0.5, 0.0, rng.standard_normal(shape))
    if name == "ties":
        return np.round(2 * rng.standard_normal(shape)) / 2
    return rng.standard_normal(shape)


def one_sample(name: str = "normal", n: int = 240, d: int = 24, bad: int = 0, seed: int = 0) -> np.ndarray:
    """Return rows of which six columns have means, ±1.5 and less; ``bad`` of them are moved by −4 in all columns."""
    rng = np.random.default_rng((seed, n, d))
    X = noise(name, rng, (n, d))
    X[:, :6] += np.array([1.5, -1.5, 1.0, -1.0, 2.5, -2.5]) * (X[:, :6] != 0 if name == "zeros" else 1)
    X[:bad] -= 4.0
    return X


def groups(
    name: str = "normal", sizes: tuple[int, ...] = (90, 70), d: int = 24, bad: int = 0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels, six columns of which differ between labels; ``bad`` rows have the wrong one."""
    rng = np.random.default_rng((seed, *sizes, d))
    y = np.repeat(np.arange(len(sizes)), sizes)
    rng.shuffle(y)
    shift = np.zeros((len(sizes), d))
    shift[:, :6] = np.arange(len(sizes))[:, np.newaxis] * np.array([1.5, -1.5, 1.2, -1.2, 2.0, -2.0])
    if name == "counts":
        X = rng.poisson(np.exp(0.5 * shift[y] - 0.7)).astype(float)
    elif name == "conversion":
        X = (rng.random((y.size, d)) < 1 / (1 + np.exp(1.0 - shift[y]))).astype(float)
    else:
        X = noise(name, rng, (y.size, d)) + shift[y]
    y[np.flatnonzero(y == 0)[:bad]] = 1
    return X, y


# What is fitted.


def of_one_sample() -> Cases:
    """One sample by ranks and by buckets: rules, sides, null values, subjects, gaps, bad rows."""
    for test, rule, side in product(("ranks", "buckets"), RULES, SIDES):
        options = {"test": test, "selection": rule, "alternative": side}
        yield f"one {test} {rule} {side}", lambda o=options: sm.sparse_mean(one_sample(), **o)
    for test, law, share in product(("ranks", "buckets"), ("normal", "t", "zeros", "ties"), ("auto", 0.0, 0.02, 0.1)):
        options = {"test": test, "contamination": share}
        yield f"one {test} {law} {share}", lambda o=options, w=law: sm.sparse_mean(one_sample(w, 400), **o)
    for test, bad, rule in product(("ranks", "buckets"), (5, 15), RULES):
        options = {"test": test, "selection": rule}
        yield (
            f"one {test} {bad} bad {rule}",
            lambda o=options, b=bad: sm.sparse_mean(one_sample("normal", 400, 60, b), **o),
        )
    for test, side, share in product(("ranks", "buckets"), SIDES, ("auto", 0.05)):
        least: dict[str, Any] = {"test": test, "alternative": side, "min_effect": 0.5, "contamination": share}
        yield f"one {test} least {side} {share}", lambda o=least: sm.sparse_mean(one_sample(n=400), **o)
        null: dict[str, Any] = {"test": test, "alternative": side, "null": 0.3, "contamination": share}
        yield f"one {test} null {side} {share}", lambda o=null: sm.sparse_mean(one_sample("ties", 400), **o)
        gaps: dict[str, Any] = {"test": test, "alternative": side, "missing": "omit", "contamination": share}
        yield f"one {test} gaps {side} {share}", lambda o=gaps: sm.sparse_mean(with_gaps(one_sample(n=400)), **o)
    for test, share in product(("ranks", "buckets"), ("auto", 0.0, 0.05)):
        options = {"test": test, "contamination": share}
        units = np.arange(480) // 2
        yield (
            f"one {test} subjects {share}",
            lambda o=options, u=units: sm.sparse_mean(one_sample(n=480), groups=u, **o),
        )
        yield f"one {test} single {share}", lambda o=options: sm.sparse_mean(one_sample().astype("f4"), **o)
        yield (
            f"one {test} sparse {share}",
            lambda o=options: sm.sparse_mean(sparse.csr_array(one_sample("zeros", 400)), **o),
        )
    for wide, rule in product((9000, 40_000), RULES):  # beyond what is ranked without a filter
        options = {"selection": rule, "contamination": 0.01}
        yield (
            f"one filter {wide} {rule}",
            lambda o=options, w=wide: sm.sparse_mean(one_sample(n=480, d=w), screen_rows=False, **o),
        )
    for refine, share in product((None, "auto", "gd", "huber"), ("auto", 0.05)):
        options = {"refine": refine, "contamination": share}
        yield f"one refined {refine} {share}", lambda o=options: sm.sparse_mean(one_sample("t", 300, 40, 12), **o)
    for theory in (None, "gd", "filter"):
        yield (
            f"paper {theory}",
            lambda r=theory: sm.SparseMean.paper(refine=r, random_state=0).fit(one_sample()).result_,
        )


def with_gaps(X: np.ndarray) -> np.ndarray:
    return np.where(np.random.default_rng(9).random(X.shape) < 0.1, np.nan, X)


def of_means() -> Cases:
    """Means of one sample and of groups, with a scale and without."""
    for rule, side, share in product(RULES, SIDES, (0.0, 0.02)):
        options = {"selection": rule, "alternative": side, "contamination": share, "target": "mean", "scale": 1.5}
        yield f"mean {rule} {side} {share}", lambda o=options: sm.sparse_mean(one_sample(n=600), **o)
        yield f"means {rule} {side} {share}", lambda o=options: compared(groups(sizes=(400, 300)), **o)
    for least, share in product((0.2, 0.5), ("auto", 0.0)):
        options = {"min_effect": least, "contamination": share, "target": "mean", "scale": 1.5}
        yield f"mean least {least} {share}", lambda o=options: sm.sparse_mean(one_sample(n=900), **o)
        yield f"means least {least} {share}", lambda o=options: compared(groups(sizes=(400, 300)), **o)
    yield "mean half gives the scale", lambda: sm.sparse_mean(one_sample(n=2400), target="mean", contamination=0.0)
    yield "means half give the scale", lambda: compared(groups(sizes=(2400, 2400)), target="mean", contamination=0.0)
    yield (
        "mean subjects",
        lambda: sm.sparse_mean(one_sample(n=1200), groups=np.arange(1200) // 2, target="mean", scale=2),
    )
    yield (
        "mean gaps",
        lambda: sm.sparse_mean(with_gaps(one_sample(n=900)), target="mean", scale=1.5, missing="omit"),
    )
    yield "mean earlier", lambda: sm.sparse_mean(one_sample(n=900), target="mean", scale=one_sample(n=1800, seed=3))


def compared(data: tuple[Any, np.ndarray], **options: Any) -> Any:
    design = {name: options.pop(name) for name in ("groups", "strata", "pairs", "covariate") if name in options}
    return sm.SparseMeanDifference(**options).fit(*data, **design).result_


def of_groups() -> Cases:
    """Groups by ranks: rules, sides, ties and zeros, sizes, strata, subjects, pairs, covariates, labels."""
    for rule, side in product(RULES, SIDES):
        options = {"selection": rule, "alternative": side}
        yield f"groups {rule} {side}", lambda o=options: compared(groups(), **o)
        yield f"groups least {rule} {side}", lambda o=options: compared(groups(), min_effect=0.3, **o)
        yield f"labels {rule} {side}", lambda o=options: compared(groups(sizes=(60, 50, 40)), **o)
    for law, share in product(
        ("normal", "t", "zeros", "ties", "counts", "conversion"), ("auto", 0.0, 0.02, (0.0, 0.05))
    ):
        options = {"contamination": share}
        yield f"groups {law} {share}", lambda o=options, w=law: compared(groups(w, (260, 190)), **o)
        if not isinstance(share, tuple):
            yield (
                f"strata {law} {share}",
                lambda o=options, w=law: compared(groups(w, (260, 190)), strata=np.arange(450) % 3, **o),
            )
    for sizes, bad, rule in product(((40, 400), (150, 150)), (0, 4, 10), RULES):
        options = {"selection": rule}
        yield (
            f"groups {sizes} {bad} bad {rule}",
            lambda o=options, s=sizes, b=bad: compared(groups("normal", s, 40, b), **o),
        )
    for reference, share in product((None, 0, "rest", "pairs"), ("auto", 0.02)):
        options = {"reference": reference, "contamination": share}
        yield f"labels against {reference} {share}", lambda o=options: compared(groups(sizes=(90, 80, 70)), **o)
    for share in ("auto", 0.0, 0.03):
        options = {"contamination": share}
        X, y = groups(sizes=(200, 200))
        order = np.argsort(y, kind="stable")
        pairs, before = np.empty(400, dtype=int), X + np.random.default_rng(4).standard_normal(X.shape)
        pairs[order] = np.tile(np.arange(200), 2)
        units = np.empty(400, dtype=int)
        units[order] = np.arange(400) // 2
        for name, design in (
            ("pairs", {"pairs": pairs}), ("subjects", {"groups": units}), ("before", {"covariate": before}),
        ):  # fmt: skip
            yield f"{name} {share}", lambda o=options, g=design, data=(X, y): compared(data, **g, **o)
        yield f"groups gaps {share}", lambda o=options, X=X, y=y: compared((with_gaps(X), y), missing="omit", **o)
        yield f"groups single {share}", lambda o=options, X=X, y=y: compared((X.astype("f4"), y), **o)
        yield (
            f"groups sparse {share}",
            lambda o=options: compared((sparse.csr_array(groups("counts")[0]), groups("counts")[1]), **o),
        )
    for side, share in product(SIDES, ("auto", 0.02)):
        options = {"alternative": side, "contamination": share}
        yield f"pairs {side} {share}", lambda o=options: paired(**o)


def of_trends() -> Cases:
    """Trends: rules, sides, ties of values and of y, strata, gaps, bad rows."""
    for rule, side in product(RULES, SIDES):
        yield f"trend {rule} {side}", lambda o={"selection": rule, "alternative": side}: trend(**o)
    for law, levels, share in product(("normal", "t", "zeros", "ties"), (4, 1000), ("auto", 0.0, 0.02)):
        yield f"trend {law} {levels} {share}", lambda o=(law, levels, share): trend(*o[:2], contamination=o[2])
    for share in ("auto", 0.02):
        yield f"trend strata {share}", lambda s=share: trend(strata=np.arange(160) % 3, contamination=s)
        yield f"trend gaps {share}", lambda s=share: trend(missing="omit", contamination=s)
        yield f"trend bad {share}", lambda s=share: trend(bad=6, contamination=s)


def trend(law: str = "normal", levels: int = 4, bad: int = 0, strata: Any = None, **options: Any) -> Any:
    rng = np.random.default_rng(5)
    y = rng.integers(0, levels, 160) * (4.0 / levels)
    X = noise(law, rng, (160, 24))
    X[:, :6] += y[:, np.newaxis] * np.array([1.0, -1.0, 0.7, -0.7, 2.0, -2.0])
    X[:bad] -= 6.0
    X = with_gaps(X) if options.get("missing") == "omit" else X
    return sm.SparseTrend(**options).fit(X, y, strata=strata).result_


def paired(**options: Any) -> Any:
    X, y = groups(sizes=(200, 200))
    pairs = np.empty(400, dtype=int)
    pairs[np.argsort(y, kind="stable")] = np.tile(np.arange(200), 2)
    return compared((X, y), pairs=pairs, **options)


def of_engines() -> Cases:
    """The same by Dask, on a device and from sketches, and by `certify`."""
    import dask.array

    from emulated import COMPILER

    def chunked(x: np.ndarray) -> Any:
        return dask.array.from_array(x, chunks=(150, 7))

    for test, share in product(("ranks", "buckets"), (0.0, 0.02, 0.05)):
        options = {"test": test, "contamination": share}
        yield f"dask {test} {share}", lambda o=options: sm.sparse_mean(chunked(one_sample(n=600)), **o)
        yield f"certify {test} {share}", lambda o=options: sm.certify(one_sample(n=600), **o)
        if COMPILER:
            yield f"device {test} {share}", lambda o=options: on_device(one_sample(n=600), sm.sparse_mean, **o)
            yield f"certify there {test} {share}", lambda o=options: on_device(one_sample(n=600), sm.certify, **o)
    for share in (0.0, 0.02, 0.05):
        X, y = groups(sizes=(150, 150))
        yield f"certify groups {share}", lambda s=share, X=X, y=y: sm.certify(X, y=y, contamination=s)
        yield f"dask groups {share}", lambda s=share, X=X, y=y: compared((chunk_rows(X), y), contamination=s)
        if COMPILER:
            yield (
                f"device groups {share}",
                lambda s=share, X=X, y=y: on_device(X, sm.certify, y=y, contamination=s),
            )
        yield f"sketch {share}", lambda s=share: sm.sketch(one_sample(n=600)).estimate(contamination=s)
        yield (
            f"sketch rows {share}",
            lambda s=share: sm.sketch(one_sample(n=600)).estimate(one_sample(n=600), contamination=s),
        )
        yield f"merged {share}", lambda s=share: merged().estimate(contamination=s)


def chunk_rows(x: np.ndarray) -> Any:
    import dask.array

    return dask.array.from_array(x, chunks=(x.shape[0], 5))


def merged() -> Any:
    X = one_sample(n=600)
    return sm.merge([sm.sketch(X[a : a + 128], first_row=a) for a in range(0, 600, 128)])


def on_device(X: np.ndarray, call: Callable[..., Any], **options: Any) -> Any:
    """Call with an array on a device that is emulated; answers are brought back."""
    from emulated import Emulated

    fake = Emulated()
    before = sys.modules.get("cupy")
    sys.modules["cupy"] = fake  # type: ignore[assignment]
    try:
        return recorded(call(fake.asarray(X), **options))
    finally:
        if before is None:
            del sys.modules["cupy"]
        else:
            sys.modules["cupy"] = before


def again() -> Cases:
    """Decided again for other shares."""
    for share in (0.0, 0.01, 0.04, 0.1):
        yield f"one at {share}", lambda s=share: sm.sparse_mean(one_sample("normal", 400, 60, 8)).at(s)
        yield f"buckets at {share}", lambda s=share: sm.sparse_mean(one_sample(n=400), test="buckets").at(s)
        yield f"groups at {share}", lambda s=share: compared(groups("normal", (150, 150), 40, 4)).at(s)
        yield f"labels at {share}", lambda s=share: compared(groups(sizes=(90, 80, 70))).at(s)
        yield f"pairs at {share}", lambda s=share: paired().at(s)
        yield (
            f"means at {share}",
            lambda s=share: compared(groups(sizes=(400, 300)), target="mean", scale=1.5, contamination=0.02).at(s),
        )


def cases() -> dict[str, Callable[[], Any]]:
    """Return all of them by name."""
    found: dict[str, Callable[[], Any]] = {}
    for part in (of_one_sample, of_means, of_groups, of_trends, of_engines, again):
        for name, call in part():
            assert name not in found, name
            found[name] = call
    return found


# Recording and comparing.


def recorded(result: Any) -> dict[str, Any]:
    """Return what is compared: of every test what was decided, p-values and values on the support."""
    if isinstance(result, dict):
        return result if "support" in result else {str(key): recorded(each) for key, each in result.items()}
    if hasattr(result, "results"):
        return {str(key): recorded(each) for key, each in result.results.items()}

    def here(array: Any) -> np.ndarray:
        return np.asarray(array.get() if hasattr(array, "get") else array)

    support = here(result.support)
    rows = getattr(result, "rows", None)
    log_p = getattr(result, "log10_p", None)
    with np.errstate(divide="ignore"):
        log_p = np.log10(here(result.p_values)) if log_p is None else here(log_p)
    out = {
        "support": support,
        "last": here(result.max_contamination),
        "radius": here(result.radius)[support],
        "suspects": np.empty(0, dtype=int) if rows is None else here(rows.suspects),
        "bad_rows": np.array([result.plan.bad_rows, *(result.plan.bad_by_group or ())]),
        "log_p": np.maximum(log_p, -300.0),
        "p_adjusted": here(result.p_adjusted),
        "q_values": here(result.q_values),
    }
    if hasattr(result, "intervals"):
        out |= {"intervals": here(result.intervals)[support], "mean": here(result.mean)[support]}
    return out


def record(path: Path) -> None:
    """Make all fits and write what came out."""
    from sparsemean._kernels.compiling import end_plainness

    end_plainness()
    found: dict[str, Any] = {}
    for name, call in cases().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found[name] = recorded(call())
            except Exception as error:  # what is refused is compared too
                found[name] = f"{type(error).__name__}: {error}"
    path.write_bytes(pickle.dumps(found))


def differences(one: Any, other: Any) -> list[str]:
    """Return what differs between two records of one fit."""
    if isinstance(one, str) or isinstance(other, str):
        said = [each if isinstance(each, str) else "a result" for each in (one, other)]
        return [] if one == other else [" | ".join(said)]
    if "support" not in one or "support" not in other:
        if one.keys() != other.keys():
            return [f"tests {list(one)} | {list(other)}"]
        return [f"{key}: {line}" for key in one for line in differences(one[key], other[key])]
    out = [name for name in EXACT if not np.array_equal(one[name], other[name], equal_nan=True)]
    with np.errstate(invalid="ignore"):
        off = np.abs(one["log_p"] - other["log_p"])
        if one["log_p"].shape != other["log_p"].shape or np.nanmax(off, initial=0.0) > LOG_P * np.log(10):
            out.append(f"log p by {np.nanmax(off):.2e}")
        out += [
            name
            for name in ("p_adjusted", "q_values")
            if not np.allclose(one[name], other[name], rtol=1e-11, atol=0, equal_nan=True)
        ]
        # Refined values are added up along memory, whose place differs from one run to the next.
        for name, close in (("intervals", ULPS * 2.0**-52), ("mean", 1e-9)) if "support" not in out else ():
            if name in one and not np.allclose(one[name], other[name], rtol=close, atol=0, equal_nan=True):
                away = np.nanmax(np.abs(one[name] - other[name]) / np.maximum(np.abs(one[name]), 1e-300), initial=0)
                out.append(f"{name} by {away:.1e}")
    return out


def selects(found: Any) -> bool:
    """Whether anything was selected."""
    if isinstance(found, str):
        return False
    return bool(found["support"].size) if "support" in found else any(map(selects, found.values()))


def compare(before: Path, now: Path) -> int:
    """Print what differs; return 1 if anything does."""
    one, other = (pickle.loads(path.read_bytes()) for path in (before, now))
    wrong = 0
    for name in sorted(one.keys() | other.keys()):
        found = differences(one.get(name, "not there"), other.get(name, "not there"))
        wrong += bool(found)
        if found:
            sys.stdout.write(f"{name}: {'; '.join(found)}\n")
    silent = [name for name, found in other.items() if not selects(found)]
    sys.stdout.write(f"{len(other)} fits, {wrong} differ, {len(silent)} select nothing: {', '.join(silent)}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]))
    else:
        sys.exit(compare(Path(sys.argv[2]), Path(sys.argv[3])))
