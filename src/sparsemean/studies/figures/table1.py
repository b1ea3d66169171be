"""Table 1, measured: what every method errs and costs, and how errors, rows needed and times grow."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from sparsemean import baselines
from sparsemean._util.files import replacing
from sparsemean.errors import InputError
from sparsemean.studies import engine
from sparsemean.studies.figures import Options, Outcome, PaperFigure, TableRow, lower_bound, write_table
from sparsemean.studies.figures.lower_bound import (
    Panel,
    best_seconds,
    draw,
    enough_rows,
    far_end,
    log_log,
    reach,
    worst_errors,
)
from sparsemean.studies.methods import DEFAULT_MEAN, Sweep

# What is run: every method at sizes that it can be paid for.

NOISE = (("t", 3.1),)
ATTACKS = ("constant_bias", "root_shift", "root_shift_one")
OURS = ("stage_1", "full_GD", "full_filter", "full_stability", "default")
COMPARED = ("sparse_GD", "sparse_filter", "median_of_means")
ALL = (*OURS, *COMPARED)
MEAN = (2.0,) * 4
SIZES = (10, 20, 100, 400)
"""Features at which seconds are told."""
REFUSED = {"sparse_directions": (400,), "sparse_sos": (100, 400)}
"""Sizes that are asked for only to hear why not."""
MOST = {"sparse_directions": 235, "sparse_sos": 24}
"""The most features, at k = 4, that are not refused."""
NEEDS = {"sparse_sos": "scs"}
"""Packages without which a method cannot run."""
Key: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """Methods, and the grids over which each of them is run; a grid may be empty.

    Errors grow over ``contamination`` and ``k`` under three attacks with n rows of d features, over ``grid_n`` and
    ``grid_d`` (600 rows) under one. ``attacked`` are the d at which errors under each attack are told. ``rows`` are the
    n tried for each k, d and contamination of ``rows_k``, ``rows_d`` and ``rows_contamination``. A quick run leaves out
    what is ``costly``.
    """

    estimators: tuple[str, ...]
    costly: bool = False
    trials: int = 10
    n: int = 8000
    d: int = 64
    contamination: tuple[float, ...] = ()
    k: tuple[int, ...] = ()
    grid_n: tuple[int, ...] = ()
    grid_d: tuple[int, ...] = ()
    attacked: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    rows_k: tuple[int, ...] = ()
    rows_d: tuple[int, ...] = ()
    rows_contamination: tuple[float, ...] = ()

    def quick(self) -> Scale:
        """Return a look at it: the first and the middle of every grid, fewer rows and trials."""
        grids = {name: getattr(self, name) for name in GRIDS}
        thin: dict[str, Any] = {name: grid[:: max(1, len(grid) // 2)][:2] for name, grid in grids.items()}
        return replace(self, n=min(self.n, 1500), trials=-(-self.trials // 5), rows=self.rows[::3], **thin)

    def sweeps(self, trials: int | None, seed: int) -> dict[Key, Sweep]:
        """Return its sweeps by what they measure."""
        base = Sweep("n", (), NOISE, self.estimators, ATTACKS, n=self.n, d=self.d, mean=MEAN, seed=seed,
                     trials=trials or self.trials)  # fmt: skip
        plain = replace(base, attacks=ATTACKS[:1], trials=trials or -(-3 * self.trials // 10))
        pair = replace(base, grid=self.rows, attacks=ATTACKS[1:], trials=trials or -(-6 * self.trials // 10))
        default = replace(plain, over="d", n=600, mean=DEFAULT_MEAN)
        found: dict[Key, Sweep] = {
            ("growth", "ε"): replace(base, over="contamination", grid=self.contamination),
            ("growth", "k"): replace(base, over="k", grid=self.k),
            ("growth", "n"): replace(plain, grid=self.grid_n),
            ("growth", "d"): replace(default, grid=self.grid_d),
            ("attacks",): replace(default, grid=self.attacked, attacks=ATTACKS, trials=base.trials),
        }
        found |= {("rows", "k", str(k)): replace(pair, mean=MEAN[:1] * k) for k in self.rows_k}
        found |= {("rows", "d", str(d)): replace(pair, d=d) for d in self.rows_d}
        found |= {("rows", "ε", str(c)): replace(pair, contamination=c) for c in self.rows_contamination}
        return {key: sweep for key, sweep in found.items() if sweep.grid and sweep.estimators}


GRIDS = ("contamination", "k", "grid_n", "grid_d", "attacked", "rows_k", "rows_d", "rows_contamination")


def _doubling(first: int, last: int, ratio: float) -> tuple[int, ...]:
    steps = round(math.log(last / first) / math.log(ratio))
    return tuple(round(first * ratio**step) for step in range(steps + 1))


CONTAMINATIONS, SPARSITIES = (0.01, 0.02, 0.05, 0.1, 0.2), (2, 4, 8, 16, 32)
SCALES = (
    Scale(ALL, contamination=CONTAMINATIONS, k=SPARSITIES, grid_n=(1000, 4000, 16000, 64000),
          grid_d=(*SIZES, 1000, 3162), attacked=(10, 100)),
    Scale(OURS, grid_d=(10_000, 31_623, 100_000)),
    Scale((*OURS, "sparse_filter"), rows=_doubling(25, 6400, math.sqrt(2)), rows_k=SPARSITIES, rows_d=(64, 256, 1024),
          rows_contamination=(0.025, 0.05, 0.1, 0.2)),
    Scale(("sparse_directions",), trials=10, n=2000, d=20, contamination=CONTAMINATIONS, k=(1, 2, 3, 4, 5),
          grid_n=(250, 1000, 4000), grid_d=(10, 20, 50, 100), attacked=(10, 100),
          rows=_doubling(25, 1600, math.sqrt(2)), rows_k=(1, 2, 4), rows_d=(10, 20, 40),
          rows_contamination=(0.05, 0.1, 0.2)),
    Scale(("sparse_directions",), costly=True, trials=1, grid_d=(150, 200)),
    Scale(("sparse_sdp",), trials=10, contamination=CONTAMINATIONS, k=SPARSITIES, grid_n=(1000, 4000, 16000, 64000),
          grid_d=(10, 20, 50, 100), attacked=(10, 100), rows=_doubling(25, 3200, 2.0), rows_k=SPARSITIES,
          rows_d=(16, 32, 64), rows_contamination=(0.05, 0.1, 0.2)),
    Scale(("sparse_sdp",), costly=True, trials=1, grid_d=(200, 400)),
    Scale(("sparse_sos",), trials=5, n=1000, d=8, contamination=CONTAMINATIONS[1:], k=(2, 3, 4),
          grid_n=(250, 1000, 4000), grid_d=(6, 8, 10, 12), attacked=(10,), rows=_doubling(50, 800, 2.0), rows_k=(2, 4),
          rows_d=(6, 8, 10), rows_contamination=(0.05, 0.1, 0.2)),
    Scale(("sparse_sos",), costly=True, trials=1, grid_d=(16, 20)),
)  # fmt: skip


def sweeps(quick: bool, trials: int | None, seed: int) -> dict[Key, Sweep]:
    """Return everything that is run but the lower bound, by what it measures and the number of its scale."""
    found: dict[Key, Sweep] = {}
    for at, scale in enumerate(SCALES):
        if quick and scale.costly:
            continue
        there = replace(scale, estimators=tuple(name for name in scale.estimators if name not in lacking()))
        of = (there.quick() if quick else there).sweeps(trials, seed)
        found |= {(*key, f"#{at}"): sweep for key, sweep in of.items()}
    floor = replace(found["growth", "ε", "#0"], attacks=ATTACKS[:1], mean=DEFAULT_MEAN)
    return found | {("floor",): replace(floor, estimators=("stage_1", "median_of_means"))}


def lacking() -> dict[str, str]:
    """Return the methods that cannot be run here, and why."""
    return {
        name: f"not run, for want of {package}: pip install 'sparsemean[sos]'"
        for name, package in NEEDS.items()
        if importlib.util.find_spec(package) is None
    }


def refusals() -> dict[tuple[str, int], str]:
    """Return what methods say at sizes that they refuse."""
    said: dict[tuple[str, int], str] = {}
    for name, d in ((name, d) for name, sizes in REFUSED.items() if name not in lacking() for d in sizes):
        try:
            baselines.get(name)(np.zeros((600, d)), contamination=0.1, k=len(DEFAULT_MEAN))
        except InputError as error:
            said[name, d] = str(error)
    return said


# What is stated, and what is measured beside it.

TITLE = "Table 1 · measured errors, rows and times"
QUICK = "A quick look, no measurement: two trials on coarse grids; exponents are noise.\n\n"
LIMITS = {"10 s": 10.0, "10 min": 600.0}
"""Seconds for which the largest d is told."""
BOUND_GRID = (0.01, 0.02, 0.05, 0.1, 0.2)
BOUND_ESTIMATORS = (*ALL, "sparse_directions", "sparse_sdp", "mean")
ROWS = {
    "sparse_directions": "Depersin 2020; Prasad et al. 2020",
    "sparse_sdp": "Diakonikolas, Kane, Lee, Pensia 2022",
    "sparse_sos": "Diakonikolas, Kane, Karmalkar, Pensia, Pittas 2022 *",
    "stage_1": "Ours (Stage 1)",
    "full_GD": "Ours (full)",
    "full_filter": "Ours (full)",
    "full_stability": "Ours (full), its own proposition on buckets",
}
BOUND, ELSEWHERE = "Lower bound", "not in Table 1"
METHODS = (*ROWS, "default", *COMPARED)
What: TypeAlias = tuple[str, str]
EVERY: dict[What, str] = {
    ("error", "ε"): "0.5", ("error", "k"): "0", ("error", "n"): "0", ("error", "d"): "0", ("rows needed", "d"): "0",
    ("rows needed", "ε"): "-1",
}  # fmt: skip
LINEAR: dict[What, str] = {("time", "d"): "1", ("time", "n"): "1"}
STATED: dict[str, dict[What, str]] = {
    "sparse_directions": {("rows needed", "k"): "1", ("time", "d"): "exp"},
    "sparse_sdp": {("rows needed", "k"): "2", ("time", "d"): "poly"},
    "sparse_sos": {("rows needed", "k"): "poly", ("time", "d"): "poly"},
    "stage_1": LINEAR | {("error", "k"): "0.5", ("rows needed", "k"): "0"},
    **dict.fromkeys(("full_GD", "full_filter", "full_stability"), LINEAR | {("rows needed", "k"): "1"}),
}
"""Exponents that Table 1 states beside those of ``EVERY`` row, logarithms left out; upper bounds."""
FAR = {("time", "d"): 10_000.0, ("time", "n"): 4000.0}
"""From where on slopes of times are read: below, what does not grow still shows."""
FOOTNOTE = (
    "* sparse_sos: listed as a result for heavy tails, stated for certifiably bounded moments and sufficiently light "
    "tails; moments of order t = 2 give the row's √ε"
)


def make(options: Options) -> Outcome:
    """Run all sweeps and write ``table1.csv``, ``table1.txt``, the points, the lower bound and ``table1.png``."""
    todo = sweeps(options.quick, options.trials, options.seed)
    bound = _lower_bound(options)  # before anything is counted, so that a bar at its end is the end
    tables = engine.run_all(todo, out=options.out / "trials", n_jobs=options.n_jobs, progress=options.progress)
    points = _points(tables)
    records = pd.DataFrame([_bound_record(bound), *_growth(points), *_sizes(tables, points["time", "d"])])
    text = (QUICK if options.quick else "") + as_text(records)
    written = {
        "table1": records,
        "table1-points": pd.concat([p.assign(quantity=q, over=o) for (q, o), p in points.items()], ignore_index=True),
        "table1-lower-bound": bound,
    }
    for name, table in written.items():
        write_table(table, options.out / f"{name}.csv")
    with replacing(options.out / "table1.txt") as temporary:
        temporary.write_text(text, encoding="utf-8")
    image = options.out / "table1.png"
    draw(_panels(points, bound), image)
    return Outcome("table1", TITLE, _lines(records), (image,), notes=_notes(bound, tables), text=text)


def _joined(tables: Mapping[Key, pd.DataFrame], *begin: str) -> pd.DataFrame:
    """Return the trials of all sweeps whose key begins so."""
    return pd.concat([t for key, t in tables.items() if key[: len(begin)] == begin], ignore_index=True)


def _points(tables: Mapping[Key, pd.DataFrame]) -> dict[What, pd.DataFrame]:
    """Return the points (estimator, x, value) of every quantity over every variable."""
    grown = {over: _joined(tables, "growth", over) for over in ("ε", "k", "n", "d")}
    points = {("error", over): worst_errors(trials) for over, trials in grown.items()}
    points |= {
        (f"error under {attack}", over): worst_errors(grown[over][grown[over].attack == attack])
        for over in ("ε", "k")
        for attack in ATTACKS
    }
    points |= {("time", over): best_seconds(grown[over]) for over in ("d", "n", "k")}
    for over in ("k", "d", "ε"):
        needed = [
            {"estimator": name, "x": float(key[2]), "value": n}
            for key, trials in tables.items()
            if key[:2] == ("rows", over)
            for name, n in enough_rows(trials, of_zero=_size(trials)).items()
        ]
        if needed:
            points["rows needed", over] = pd.DataFrame(needed)
    return points


def _size(trials: pd.DataFrame) -> float:
    """Return the norm of the mean behind a sweep that has one k: that many twos."""
    return MEAN[0] * math.sqrt(float(trials["k"].iloc[0]))


def _lower_bound(options: Options) -> pd.DataFrame:
    """Simulate the paper's construction, bare and with half of the variance in common noise."""
    n, trials = (2000, 2) if options.quick else (20_000, 5)
    tables = [
        lower_bound.simulate(
            BOUND_GRID[::4] if options.quick else BOUND_GRID, BOUND_ESTIMATORS, n=n, d=20,
            trials=options.trials or trials, noise=noise, seed=options.seed,
        )
        for noise in (0.0, 0.5)
    ]  # fmt: skip
    return pd.concat(tables, ignore_index=True)


def _record(method: str, what: What, measured: float, **more: object) -> TableRow:
    row = BOUND if method == BOUND else ROWS.get(method, ELSEWHERE)
    return {"row": row, "method": method, "quantity": what[0], "over": what[1], "measured": measured, **more}


def _bound_record(bound: pd.DataFrame) -> TableRow:
    """Return the exponent of the least error, over estimators, in the worse of two worlds."""
    worst = lower_bound.summary(bound)
    least = worst[worst.noise == 0].groupby("contamination").worst.min()
    return _growth_record(BOUND, ("error", "ε"), dict(zip(least.index, least, strict=True)), "0.5")


def _growth(points: Mapping[What, pd.DataFrame]) -> Iterator[TableRow]:
    """Yield a record for every exponent: the row of Table 1, the method, what grows in what, stated and measured."""
    for what, table in points.items():
        for name, part in table.groupby("estimator", sort=False):
            values = dict(zip(part.x, part.value, strict=True))
            yield _growth_record(str(name), what, values, stated(str(name), what))


def stated(method: str, what: What) -> str:
    """Return the exponent that Table 1 states for a method, or nothing."""
    return (EVERY | STATED[method]).get(what, "") if method in STATED else ""


def _growth_record(method: str, what: What, values: dict[float, float], claim: str) -> TableRow:
    far = far_end(values, FAR.get(what, -math.inf))
    slope = log_log(far.keys(), far.values())
    return _record(
        method, (f"{what[0]} exponent", what[1]), slope.value, se=slope.error, points=slope.points, stated=claim,
        text=str(slope).replace(" ± ", "±") + (f" [{claim}]" if claim else ""),
    )  # fmt: skip


def _sizes(tables: Mapping[Key, pd.DataFrame], times: pd.DataFrame) -> list[TableRow]:
    """Return a record for every error under one attack, every time at one size, and every largest size."""
    keys = ["estimator", "x", "attack"]
    errors = _joined(tables, "attacks").groupby(keys, sort=False)["error"].median().reset_index()
    records = [
        _record(name, (f"error, d = {d:g}", attack), error, text=f"{error:.2f}")
        for name, d, attack, error in zip(*(errors[key] for key in (*keys, "error")), strict=True)
    ]
    for name, part in times.groupby("estimator", sort=False):
        seconds = dict(zip(part.x, part.value, strict=True))
        records += [
            _record(str(name), ("seconds", f"d = {d}"), seconds[d], text=_duration(seconds[d]))
            for d in SIZES
            if d in seconds
        ]
        for limit, allowed in LIMITS.items():
            there = reach(seconds, allowed, least=FAR["time", "d"], most=MOST.get(str(name), math.inf))
            records.append(_record(str(name), ("largest d", limit), there.size, text=str(there)))
    return records + [
        _record(name, ("seconds", f"d = {d}"), math.nan, text="n/a", remark=why)
        for (name, d), why in refusals().items()
    ]


def _duration(seconds: float) -> str:
    if seconds < 0.0995:
        return f"{1000 * seconds:.{int(seconds < 0.00095)}f}ms"
    return f"{seconds:.{int(seconds < 9.95)}f}s"


# The table: one line a method, in parts that fit a terminal.


class Column(NamedTuple):
    """Where a column finds its cells (quantity, over), what stands above it, and how wide it is."""

    quantity: str
    over: str
    heading: str
    width: int


SHORT = dict(zip(ATTACKS, ("bias", "shift", "one"), strict=True))
PARTS: tuple[tuple[tuple[str, tuple[Column, ...]], ...], ...] = (
    (
        *((f"error, d={d}", tuple(Column(f"error, d = {d}", a, SHORT[a], 6) for a in ATTACKS)) for d in (10, 100)),
        ("time at d =", tuple(Column("seconds", f"d = {d}", str(d), 6) for d in SIZES)),
    ),
    (("exponents of the error in", tuple(Column("error exponent", o, o, 15 + (o in "εk")) for o in "εknd")),),
    (("exponents of the rows needed in", tuple(Column("rows needed exponent", o, o, 16) for o in "kdε")),),
    (
        ("exponents of the time in", tuple(Column("time exponent", o, o, 11 if o == "k" else 16) for o in "dnk")),
        ("largest d in", tuple(Column("largest d", limit, limit, 9) for limit in LIMITS)),
    ),
)  # fmt: skip
NAME = max(map(len, METHODS))
LEGEND = """\
n = 600, k = 4, ε = 0.1, Student t noise with 3.1 degrees of freedom, means
(10, -5, -4, 2). Errors are medians (l2): bias moves every feature of a bad row
by -2, shift those with a mean by -1/√ε, one only the first of them. Times are
the processor's. Exponents are slopes of logarithms ± standard error; [ ] what
the paper states, at most.
~ extrapolated, > more than 100 times the largest d timed, ! refuses more,
n/a refused, - not run. * Stated for sufficiently light tails."""


def as_text(records: pd.DataFrame) -> str:
    """Return the table in parts of at most 80 columns, and what its marks mean."""
    cells = _cells(records)
    told = ROWS | lacking()
    names = _names(records)
    lines = [f"{name:<{NAME}}  {told.get(name, ELSEWHERE)}" for name in METHODS if name in (*names, *lacking())]
    for part in PARTS:
        columns = [column for _, group in part for column in group]
        over = "".join(" " + f" {title} ".center(sum(c.width for c in group) - 1, "-") for title, group in part)
        lines += ["", " " * NAME + over, " " * NAME + "".join(f"{c.heading:>{c.width}}" for c in columns)]
        for name in names:
            found = [cells.get((name, c.quantity, c.over), "-") for c in columns]
            padded = (f"{cell:>{c.width}}" for cell, c in zip(found, columns, strict=True))
            lines += [f"{name:<{NAME}}" + "".join(padded)] if any(cell != "-" for cell in found) else []
    return "\n".join([*lines, "", LEGEND, ""])


def _names(records: pd.DataFrame) -> list[str]:
    there = set(records["method"])
    return [name for name in (BOUND, *METHODS) if name in there]


def _cells(records: pd.DataFrame) -> dict[tuple[str, str, str], str]:
    keys = zip(records["method"], records["quantity"], records["over"], strict=True)
    return dict(zip(keys, records["text"], strict=True))


def _lines(records: pd.DataFrame) -> pd.DataFrame:
    """Return the same as one wide table."""
    cells = _cells(records)
    columns = [(title, c) for part in PARTS for title, group in part for c in group]
    lines = [
        {"method": name, "row of Table 1": ROWS.get(name, BOUND if name == BOUND else ELSEWHERE)}
        | {f"{title} {c.heading}": cells.get((name, c.quantity, c.over), "–") for title, c in columns}
        for name in _names(records)
    ]
    return pd.DataFrame(lines)


def _notes(bound: pd.DataFrame, tables: Mapping[Key, pd.DataFrame]) -> list[str]:
    summary = lower_bound.summary(bound)
    tightest = float((summary.worst / (summary.gap / 2)).min())
    held = bool((bound.worst >= bound.gap / 2 * (1 - 1e-9)).all())
    floor = worst_errors(tables["floor",])
    first = floor[floor.x == floor.x.min()].set_index("estimator")["value"]
    return [
        FOOTNOTE,
        *(f"{name}: {why}" for name, why in lacking().items()),
        *(f"{name} at d = {d}: {why}" for (name, d), why in refusals().items()),
        f"lower bound: in {'every' if held else 'NOT every'} trial every estimator erred by at least half the distance "
        f"of the means in one of the two worlds, the best of them typically by {tightest:.2f} times that; the "
        f"adversary stayed within ⌈εn⌉ rows in {100 * bound.within_budget.mean():.0f} % of the draws (with Q at weight "
        "ε, as the proof has it, in about half of them: its rows are binomial)",
        f"with the paper's default means (10, −5, −4, 2) Stage 1 errs by {first['stage_1']:.2f} at ε = "
        f"{floor.x.min():g}, where the median of means errs by {first['median_of_means']:.2f}; its step "
        "of 0.05 is larger there than the theorem's σ√ε/μ_max, and the values swing about the median",
        "exponents are read off means of 2 under the worst of three attacks (each alone: table1.csv), n = 8000 and d = "
        "64 for most methods, n = 2000 and d = 20 for sparse_directions (k up to 5), n = 1000 and d = 8 for sparse_sos "
        "(k up to 4)",
    ]


def _panels(points: Mapping[What, pd.DataFrame], bound: pd.DataFrame) -> list[Panel]:
    beside = "d = 64 (sparse_directions 20, sparse_sos 8)"
    return [
        Panel("error, worst attack", "ε", "l2 error", points["error", "ε"], (("√ε", 0.5),)),
        Panel("error, worst attack, ε = 0.1", "k", "l2 error", points["error", "k"], (("√k", 0.5),)),
        Panel("rows until error ≤ 2 × limit", "k", "n", points["rows needed", "k"], (("∝ k", 1.0),)),
        Panel("time, n = 600", "d", "seconds", points["time", "d"], (("∝ d", 1.0),), FAR["time", "d"]),
        Panel(f"time, {beside}", "n", "seconds", points["time", "n"], (("∝ n", 1.0),), FAR["time", "n"]),
        Panel("two worlds that look alike", "ε", "larger of both errors / √ε", _over_root(bound)),
    ]


def _over_root(bound: pd.DataFrame) -> pd.DataFrame:
    """Return the worst errors with common noise, over √ε, and the bound itself as one more line."""
    worst = lower_bound.summary(bound[bound.noise > 0]).rename(columns={"contamination": "x"})
    least = worst.drop_duplicates("x").assign(estimator="half the distance", value=lambda t: t.bound_over_root)
    return pd.concat([worst.assign(value=worst.worst_over_root), least], ignore_index=True)


FIGURES = {"table1": PaperFigure(TITLE, make)}
