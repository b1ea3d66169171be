"""Table 1, measured: how errors, rows and times grow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparsemean._util.files import replacing
from sparsemean.studies import engine
from sparsemean.studies.figures import Options, Outcome, PaperFigure, lower_bound
from sparsemean.studies.figures.lower_bound import Panel, Slope, draw, far_end, log_log
from sparsemean.studies.settings import DEFAULT_MEAN, Sweep

if TYPE_CHECKING:
    import pandas as pd

FACTOR = 2.0
"""Rows are enough when the error is below this many times its limit."""


def worst_errors(trials: pd.DataFrame) -> pd.DataFrame:
    """Return for each estimator and x the largest, over attacks, of the median errors; columns estimator, x, value."""
    medians = trials.groupby(["estimator", "x", "attack"], sort=False)["error"].median().reset_index()
    worst = medians.groupby(["estimator", "x"], sort=False)["error"].max().reset_index()
    return worst.rename(columns={"error": "value"})


def best_seconds(trials: pd.DataFrame) -> pd.DataFrame:
    """Return for each estimator and x the shortest time; columns estimator, x, value."""
    best = trials.groupby(["estimator", "x"], sort=False)["seconds"].min().reset_index()
    return best.rename(columns={"seconds": "value"})


def enough_rows(trials: pd.DataFrame, *, of_zero: float = math.inf) -> dict[str, float]:
    """Return for each estimator of a sweep over n the smallest n from which on its error is at most twice its limit.

    The limit is its error at the largest n. NaN where that is none: zero, or half of what the answer zero would err
    (``of_zero``) and more.
    """
    errors = worst_errors(trials)
    return {
        str(name): _enough(part.sort_values("x"), of_zero) for name, part in errors.groupby("estimator", sort=False)
    }


def _enough(errors: pd.DataFrame, of_zero: float) -> float:
    n, error = errors.x.to_numpy(), errors.value.to_numpy()
    if not 0 < error[-1] < of_zero / FACTOR:
        return math.nan
    enough = len(n) - 1
    while enough > 0 and error[enough - 1] <= FACTOR * error[-1]:
        enough -= 1
    return float(n[enough])


# Table 1 as measured: how errors, rows needed and times grow with ε, k, n and d, beside what the paper states.

TITLE = "Table 1 · measured growth of errors, rows and times"
NOISE = (("t", 3.1),)
ATTACKS = ("constant_bias", "root_shift", "root_shift_one")
OURS = ("stage_1", "full_GD", "full_filter", "default")
COMPARED = ("sparse_GD", "sparse_filter", "median_of_means")
ALL = (*OURS, *COMPARED)
MEAN = (2.0,) * 4
ROWS = {"stage_1": "Ours (Stage 1)", "full_GD": "Ours (full)", "full_filter": "Ours (full)"}
ELSEWHERE = "not in Table 1"
CLAIMS: dict[tuple[str, str], tuple[float, float]] = {
    ("error", "ε"): (0.5, 0.5), ("error", "k"): (0.5, 0.0), ("error", "n"): (0.0, 0.0), ("error", "d"): (0.0, 0.0),
    ("rows needed", "k"): (0.0, 1.0), ("rows needed", "d"): (0.0, 0.0), ("rows needed", "ε"): (-1.0, -1.0),
    ("time", "d"): (1.0, 1.0), ("time", "n"): (1.0, 1.0),
}  # fmt: skip
"""Exponents stated for Stage 1 and for the full method, logarithms left out; upper bounds."""
ABSENT = {
    "Depersin and Lecué 2020; Prasad et al. 2020": "time exp(d): a cover of all sparse directions; nobody runs it",
    "Diakonikolas, Kane, Lee, Pensia 2022": "ellipsoid method over a relaxation of sparse directions; not in the "
    "library, whose relatives by the same line of work are sparse_filter and sparse_GD",
    "Diakonikolas, Kane, Karmalkar, Pensia, Pittas 2022": "sums of squares of degree 4; not in the library",
}
FAR = {("time", "d"): 10_000.0, ("time", "n"): 4000.0}
"""From where on slopes of times are read: below, what does not grow still shows."""
BOUND_GRID = (0.01, 0.02, 0.05, 0.1, 0.2)
BOUND_ESTIMATORS = (*ALL, "mean")


def make(options: Options) -> Outcome:
    """Run all sweeps and write ``table1.csv``, its points, the lower bound and ``table1.png``."""
    import pandas as pd

    options.out.mkdir(parents=True, exist_ok=True)
    tables = _run(sweeps(options.quick, options.trials, options.seed), options)
    points = _points(tables)
    bound = _lower_bound(options)
    growth = pd.DataFrame(_growth(points, bound))
    written = {
        "table1": growth,
        "table1-points": pd.concat([p.assign(quantity=q, over=o) for (q, o), p in points.items()], ignore_index=True),
        "table1-lower-bound": bound,
    }
    for name, table in written.items():
        with replacing(options.out / f"{name}.csv") as temporary:
            table.to_csv(temporary, index=False)
    image = options.out / "table1.png"
    draw(_panels(points, bound), image)
    return Outcome("table1", TITLE, _readable(growth), (image,), notes=_notes(bound, tables))


def sweeps(quick: bool, trials: int | None, seed: int) -> dict[str, Sweep]:
    """Return everything that is run: errors and times over one quantity, and sweeps over n for the rows needed."""
    n, few = (1500, 2) if quick else (8000, 10)
    many = trials or few
    base = Sweep("n", (), NOISE, ALL, ATTACKS, n=n, d=64, mean=MEAN, trials=many, seed=seed)
    plain = replace(base, attacks=ATTACKS[:1], trials=trials or (2 if quick else 3))
    pair = replace(base, attacks=ATTACKS[1:], trials=trials or (2 if quick else 6), estimators=(*OURS, "sparse_filter"))
    contaminations = (0.02, 0.1) if quick else (0.01, 0.02, 0.05, 0.1, 0.2)
    rows = _doubling(25, 1600, 4.0) if quick else _doubling(25, 6400, math.sqrt(2))
    found = {
        "error/ε": replace(base, over="contamination", grid=contaminations),
        "floor": replace(base, over="contamination", grid=contaminations, attacks=ATTACKS[:1], mean=DEFAULT_MEAN,
                         estimators=("stage_1", "median_of_means")),
        "error/k": replace(base, over="k", grid=(4, 16) if quick else (2, 4, 8, 16, 32)),
        "n": replace(plain, over="n", grid=(500, 2000) if quick else (1000, 4000, 16000, 64000)),
        "d": replace(plain, over="d", grid=(100, 1000) if quick else (100, 316, 1000, 3162), n=600),
        "wide": replace(plain, over="d", grid=(3162,) if quick else (10_000, 31_623, 100_000), n=600, estimators=OURS),
    }  # fmt: skip
    for k in (4, 16) if quick else (2, 4, 8, 16, 32):
        found[f"rows/k/{k}"] = replace(pair, grid=rows, mean=(2.0,) * k)
    for d in () if quick else (64, 256, 1024):
        found[f"rows/d/{d}"] = replace(pair, grid=rows[:-2], d=d)
    for contamination in () if quick else (0.025, 0.05, 0.1, 0.2):
        found[f"rows/ε/{contamination}"] = replace(pair, grid=rows, contamination=contamination)
    return found


def _doubling(first: int, last: int, ratio: float) -> tuple[int, ...]:
    steps = round(math.log(last / first) / math.log(ratio))
    return tuple(round(first * ratio**step) for step in range(steps + 1))


def _run(todo: dict[str, Sweep], options: Options) -> dict[str, pd.DataFrame]:
    """Run the sweeps one after the other; progress counts the trials of all of them."""
    sizes = {name: sum(1 for _ in sweep.points()) * sweep.trials for name, sweep in todo.items()}
    total, before, tables = sum(sizes.values()), 0, {}
    for name, sweep in todo.items():
        tell = _shifted(options.progress, before + sizes[name], total)
        tables[name] = engine.run(sweep, out=options.out / "trials", n_jobs=options.n_jobs, progress=tell)
        before += sizes[name]
    return tables


def _shifted(progress: engine.Progress | None, end: int, total: int) -> engine.Progress | None:
    """Report as if all trials of all sweeps were one run; what was on disk counts as done."""
    if progress is None:
        return None
    report: Callable[[int, int], None] = progress
    return lambda done, missing: report(end - missing + done, total)


def _points(tables: dict[str, pd.DataFrame]) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the points (estimator, x, value) of every quantity over every variable."""
    import pandas as pd

    growing_d = pd.concat([tables["d"], tables["wide"]], ignore_index=True)
    points = {
        ("error", "ε"): worst_errors(tables["error/ε"]),
        ("error", "k"): worst_errors(tables["error/k"]),
        ("error", "n"): worst_errors(tables["n"]),
        ("error", "d"): worst_errors(growing_d),
        ("time", "d"): best_seconds(growing_d),
        ("time", "n"): best_seconds(tables["n"]),
    }
    for over in ("k", "d", "ε"):
        named = {float(name.split("/")[2]): t for name, t in tables.items() if name.startswith(f"rows/{over}/")}
        needed = [
            {"estimator": estimator, "x": x, "value": n}
            for x, table in named.items()
            for estimator, n in enough_rows(table, of_zero=_size(table)).items()
        ]
        if needed:
            points["rows needed", over] = pd.DataFrame(needed)
    return points


def _size(trials: pd.DataFrame) -> float:
    """Return the norm of the mean behind a sweep that has one k: that many twos."""
    return MEAN[0] * math.sqrt(float(trials["k"].iloc[0]))


def _lower_bound(options: Options) -> pd.DataFrame:
    """Simulate the paper's construction, bare and with half of the variance in common noise."""
    import pandas as pd

    n, trials = (2000, 2) if options.quick else (20_000, 5)
    tables = [
        lower_bound.simulate(
            BOUND_GRID[::4] if options.quick else BOUND_GRID, BOUND_ESTIMATORS, n=n, d=20,
            trials=options.trials or trials, noise=noise, seed=options.seed,
        )
        for noise in (0.0, 0.5)
    ]  # fmt: skip
    return pd.concat(tables, ignore_index=True)


def _growth(points: dict[tuple[str, str], pd.DataFrame], bound: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a record for every exponent: the row of Table 1, the method, what grows in what, stated and measured."""
    records: list[dict[str, Any]] = []
    worst = lower_bound.summary(bound)
    for name, part in worst[worst.noise == 0].groupby("estimator", sort=False):
        slope = log_log(part.contamination, part.worst)
        records.append(_record("Lower bound", str(name), ("error", "ε"), 0.5, slope, part.worst))
    for (quantity, over), table in points.items():
        for name, part in table.groupby("estimator", sort=False):
            row = ROWS.get(str(name), ELSEWHERE)
            stated = math.nan if row == ELSEWHERE else CLAIMS[quantity, over][row == "Ours (full)"]
            far = far_end(dict(zip(part.x, part.value, strict=True)), FAR.get((quantity, over), -math.inf))
            slope = log_log(far.keys(), far.values())
            records.append(_record(row, str(name), (quantity, over), stated, slope, part.value))
    return records + [{"row": row, "remark": f"n/a: {reason}"} for row, reason in ABSENT.items()]


def _record(
    row: str, method: str, what: tuple[str, str], stated: float, slope: Slope, values: pd.Series[float]
) -> dict[str, Any]:
    return {
        "row": row, "method": method, "quantity": what[0], "over": what[1], "stated": stated, "slope": slope.value,
        "slope_se": slope.error, "first": float(values.iloc[0]), "last": float(values.iloc[-1]), "points": slope.points,
    }  # fmt: skip


def _readable(growth: pd.DataFrame) -> pd.DataFrame:
    """Return one line a method: measured exponents, what is stated in brackets; methods that are absent say why."""
    import pandas as pd

    order = {name: i for i, name in enumerate(["Lower bound", *ABSENT, *dict.fromkeys(ROWS.values()), ELSEWHERE])}
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for _, found in growth.iterrows():
        if not isinstance(found["method"], str):
            lines[found["row"], ""] = {"remark": found["remark"]}
            continue
        text = str(Slope(found["slope"], found["slope_se"], int(found["points"])))
        stated = "" if math.isnan(found["stated"]) else f" [{found['stated']:g}]"
        line = lines.setdefault((found["row"], found["method"]), {})
        line[f"{found['quantity']} in {found['over']}"] = text + stated
    table = pd.DataFrame([{"row": row, "method": method, **line} for (row, method), line in lines.items()])
    return table.sort_values("row", key=lambda rows: rows.map(order), kind="stable").fillna("").reset_index(drop=True)


def _by_attack(trials: pd.DataFrame, names: tuple[str, ...]) -> str:
    """Say how errors grow under each attack alone."""
    said = []
    for attack in ATTACKS:
        errors = worst_errors(trials[trials.attack == attack])
        slopes = [log_log(part.x, part.value) for part in (errors[errors.estimator == name] for name in names)]
        said.append(f"{attack} " + ", ".join(f"{slope.value:.2f}" for slope in slopes))
    return "; ".join(said)


def _notes(bound: pd.DataFrame, tables: dict[str, pd.DataFrame]) -> list[str]:
    summary = lower_bound.summary(bound)
    tightest = float((summary.worst / (summary.gap / 2)).min())
    held = bool((bound.worst >= bound.gap / 2 * (1 - 1e-9)).all())
    floor = worst_errors(tables["floor"])
    first = floor[floor.x == floor.x.min()].set_index("estimator")["value"]
    return [
        "exponents are slopes of logarithms, ± their standard error; in brackets what the paper states, an upper bound",
        f"lower bound: in {'every' if held else 'NOT every'} trial every estimator erred by at least half the distance "
        f"of the means in one of the two worlds, the best of them typically by {tightest:.2f} times that; the "
        f"adversary stayed within ⌈εn⌉ rows in {100 * bound.within_budget.mean():.0f} % of the draws (with Q at weight "
        "ε, as the proof has it, in about half of them: its rows are binomial)",
        f"with the paper's default means (10, −5, −4, 2) Stage 1 errs by {first['stage_1']:.2f} at ε = "
        f"{floor.x.min():g}, where the median of means errs by {first['median_of_means']:.2f}; its step "
        "of 0.05 is larger there than the theorem's σ√ε/μ_max, and the values swing about the median",
        f"exponents of {', '.join(ROWS)} under each attack alone: in ε, "
        f"{_by_attack(tables['error/ε'], tuple(ROWS))}; in k, {_by_attack(tables['error/k'], tuple(ROWS))}",
    ]


def _panels(points: dict[tuple[str, str], pd.DataFrame], bound: pd.DataFrame) -> list[Panel]:
    return [
        Panel("error, worst attack", "ε", "l2 error", points["error", "ε"], (("√ε", 0.5),)),
        Panel("error, worst attack, ε = 0.1", "k", "l2 error", points["error", "k"], (("√k", 0.5),)),
        Panel("rows until error ≤ 2 × limit", "k", "n", points["rows needed", "k"], (("∝ k", 1.0),)),
        Panel("time, n = 600", "d", "seconds", points["time", "d"], (("∝ d", 1.0),), FAR["time", "d"]),
        Panel("time, d = 64", "n", "seconds", points["time", "n"], (("∝ n", 1.0),), FAR["time", "n"]),
        Panel("two worlds that look alike", "ε", "larger of both errors / √ε", _over_root(bound)),
    ]


def _over_root(bound: pd.DataFrame) -> pd.DataFrame:
    """Return the worst errors with common noise, over √ε, and the bound itself as one more line."""
    import pandas as pd

    worst = lower_bound.summary(bound[bound.noise > 0]).rename(columns={"contamination": "x"})
    least = worst.drop_duplicates("x").assign(estimator="half the distance", value=lambda t: t.bound_over_root)
    return pd.concat([worst.assign(value=worst.worst_over_root), least], ignore_index=True)


FIGURES = {"table1": PaperFigure(TITLE, make)}
