"""Users of an experiment: what is read of them, and who looks like a bot.

People thin out in the tail of a metric: among the logarithms of its values no window has more users than one further
in. A script does about the same each time. Where, beyond a dip, a window holds more users again than chance explains,
these are a clump of that metric, and users in clumps of several metrics are suspects. Arms and earlier values play no
part, so the same users are found in every comparison. Too few for a clump (some 30) are found by the gap between them
and all others, see `score_rows`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from sparsemean._data import open_file
from sparsemean._data.repeats import row_numbers
from sparsemean._data.source import Dense
from sparsemean._data.table import ReadOptions, Table, as_names
from sparsemean._fit.arms import Flags, Labels, Users
from sparsemean._stats.arrays import medians, some_rows
from sparsemean._stats.row_scores import TOGETHER, score_rows, screening_columns
from sparsemean._util.checks import is_missing, list_names, pluralize
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError, require, restored, together

if TYPE_CHECKING:
    import pandas as pd

CONTROLS = ("control", "ctrl", "baseline", "placebo", "off", "a")
"""Arms that are taken for the control by their names, in this order."""
COLUMNS = {"--group": "arm", "--id": "user", "--strata": "by", "--pairs": "day"}
"""What readers of files call the columns that are named here."""
OPTION = re.compile("|".join(COLUMNS))
DATABASES = (".duckdb", ".ddb")
MOST_ARMS = 20
NUMERIC = ("boolean", "decimal", "integer", "floating", "mixed-integer-float")
"""Kinds of objects that are numbers."""


# Reading.


def read_users(table: object, *, arm: str, user: str | None, by: str | None, day: str | None, sure: bool) -> Table:
    """Read a file or a data frame; where nobody is ``sure`` of the column with the users, there may be none."""
    path = Path(table) if isinstance(table, (str, Path)) else Path()
    if not path.name or path.suffix.lower() in DATABASES:
        named = {"arm": arm, "user": user, "by": by, "day": day}
        frame: pd.DataFrame = _database(path) if path.name else table  # type: ignore[assignment]
        return _of_frame(frame, named, sure=sure)
    of_rows = {"id": user, "group": arm, "strata": () if by is None else (by,), "pairs": day}
    wanted = ReadOptions(**of_rows, drop_text=True, drop_empty=True)  # type: ignore[arg-type]
    try:
        return open_file(path, wanted)
    except InputError as error:
        said = str(error)
        if not sure and said.startswith("--id must name"):
            if "\n" not in said:
                return open_file(path, replace(wanted, id=None))
            said = said.partition("\n")[2]
        said = OPTION.sub(lambda option: COLUMNS[option[0]], said.partition("; if samples are columns")[0])
        raise restored(COLUMNS.get(error.argument, error.argument), said) from None


def _database(path: Path) -> pd.DataFrame:
    """Return the only table of a database of DuckDB's, which is Arrow's."""
    duckdb = require("duckdb", extra="tea-tasting", purpose="reading a database")
    if not path.is_file():
        raise InputError("FILE", "be an existing file", repr(str(path)), "check the path")
    with duckdb.connect(str(path), read_only=True) as connection:
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        if len(names) != 1:
            advice = "pass duckdb.connect(FILE).table(NAME) to experiments.analyze, or write the table as .parquet"
            raise InputError("FILE", "hold one table", list_names(names) or "none", advice)
        table: pd.DataFrame = connection.table(names[0]).to_arrow_table()
    return table


def _of_frame(table: pd.DataFrame, named: Mapping[str, str | None], *, sure: bool) -> Table:
    """Tell the columns of a data frame of any kind apart: numbers are metrics, text is set aside."""
    from pandas.api.types import infer_dtype

    for convert in ("to_arrow_table", "to_pyarrow", "collect"):  # of DuckDB, of Ibis, of polars
        table = getattr(table, convert)() if hasattr(table, convert) else table
    names = getattr(table, "column_names", None) or list(getattr(table, "columns", ()))
    if not names:
        advice = "pass a path, or a data frame of pandas, polars or Arrow"
        raise InputError("table", "be a file or a data frame", type(table).__name__, advice)
    columns = {str(name): np.asarray(table[name].to_numpy()) for name in names}
    named = {option: name for option, name in named.items() if name in columns or option != "user" or sure}
    known = f"it has {list_names(list(columns))}"
    faults = [InputError(option, "name a column of the table", repr(name), known)
              for option, name in named.items() if name is not None and name not in columns]  # fmt: skip
    if faults:
        raise together(faults)
    labels = {option: columns.pop(name) for option, name in named.items() if name is not None and name in columns}
    numeric = [n for n, x in columns.items() if x.dtype.kind in "iufb" or infer_dtype(x, skipna=True) in NUMERIC]
    text = [name for name in columns if name not in numeric]
    values = np.empty((len(labels["arm"]), len(numeric)), order="F")
    for k, name in enumerate(numeric):
        x = columns[name]
        values[:, k] = x if x.dtype.kind != "O" else [np.nan if is_missing(one) else float(one) for one in x]
    return Table(
        Dense(values) if numeric else Dense(np.full((len(values), 1), np.nan)), as_names(numeric or ["none"]),
        (f"{pluralize(len(text), 'column')} that hold no numbers set aside: {list_names(text)}",) if text else (),
        row_names=as_names(labels["user"]) if "user" in labels else None, groups=labels["arm"],
        columns={at: labels[option] for at, option in (("strata", "by"), ("pairs", "day")) if option in labels},
    )  # fmt: skip


def users_of(
    table: Table, *, control: object, metrics: Sequence[str] | None, ratios: Mapping[str, tuple[str, str]],
    pre: str | tuple[str, ...], events: bool,
) -> Users:  # fmt: skip
    """Return who is compared, and what of them; what is set aside is said."""
    import pandas as pd

    assert table.groups is not None
    assert table.feature_names is not None
    if not table.shape[0]:
        raise InputError("table", "have rows", "none")
    values, names = np.asarray(table.values, dtype=np.float64), table.feature_names.tolist()
    parts = [column for pair in ratios.values() for column in pair]
    if unknown := [name for name in (*(metrics or ()), *parts) if name not in names and name not in ratios]:
        raise InputError("metrics", f"be of the columns {list_names(names)}", list_names(unknown), "check the spelling")
    low, high = np.fmin.reduce(values), np.fmax.reduce(values)
    aside = {
        "numbers of users or rows": [] if metrics else row_numbers(names, values),
        "without a value": [name for name, least in zip(names, low, strict=True) if np.isnan(least)],
        "with one value only": [name for name, *ends in zip(names, low, high, strict=True) if ends[0] == ends[1]],
    }
    ends = [end for end in ([pre] if isinstance(pre, str) else pre) if end]
    before = [{n.removesuffix(end): k for k, n in enumerate(names) if n.endswith(end) and n != end} for end in ends]
    earlier = {names[k]: name for of in before for name, k in of.items()}
    aside["from before the experiment, of no metric,"] = [n for n, of in earlier.items() if of not in names]
    wanted = [name for name in dict.fromkeys((*(metrics or names), *parts)) if name not in ratios]
    out = {name for those in aside.values() for name in those} - {*parts}
    chosen = [name for name in wanted if name not in out and name not in earlier]
    if not chosen:
        raise InputError("table", "have a column of numbers that differ", list_names(names))
    said = [note for note in table.notes if "looks like the number of a row" not in note]
    said += [f"{pluralize(len(those), 'column')} {why} set aside: {list_names(those)}"
             for why, every in aside.items() if (those := [name for name in every if name in wanted])]  # fmt: skip

    code, found = pd.factorize(np.asarray(table.groups, dtype=object))
    labels = [str(label).strip() for label in found]
    arms, note = _arms(sorted({*labels} - {""}), control)
    arm = np.array([*(arms.index(label) if label else -1 for label in labels), -1])[code]
    rows = np.flatnonzero(arm >= 0)
    said += [f"{pluralize(arm.size - rows.size, 'row')} without an arm left out"] if rows.size < arm.size else []
    if table.row_names is not None:
        values, rows, told = _of_users(values, rows, arm, table.row_names, events=events)
        said += told

    def taken(columns: Sequence[str]) -> FloatArray:
        own = values if list(columns) == names else values.T[[names.index(name) for name in columns]].T
        own = own if rows.size == len(own) else np.take(own.T, rows, axis=1).T
        return np.where(np.isinf(own), np.nan, own) if np.isinf(high).any() else own

    own, at = taken(chosen), dict(zip(chosen, range(len(chosen)), strict=True))
    if gaps := int(np.isnan(own).any(axis=0).sum()):
        said.append(f"{pluralize(gaps, 'metric')} with gaps: users without a value are left out of it, in every arm")
    known = [name for name in chosen if before and all(name in of for of in before)]
    stretches = [Table(Dense(taken([f"{name}{end}" for name in known])), as_names(known)) for end in ends if known]
    totals = np.stack([own[:, [at[pair[side]] for pair in ratios.values()]] for side in (0, 1)])
    totals[:, np.isnan(totals).any(axis=0)] = np.nan
    called = rows.astype(object) if table.row_names is None else np.asarray(table.row_names, dtype=object)[rows]
    of_rows = {option: given.astype(object)[rows] for option, given in table.columns.items()}
    return Users(
        own, tuple(chosen), arm[rows], tuple(arms), called, tuple(stretches), tuple(ratios), totals,
        of_rows.get("strata"), of_rows.get("pairs"), (*note, *said),
    )  # fmt: skip


def _of_users(
    values: FloatArray, rows: IntArray, arm: IntArray, called: Labels, *, events: bool
) -> tuple[FloatArray, IntArray, list[str]]:
    """Return values and the rows that count: the first of each user where events are summed; and what to say of it."""
    import pandas as pd

    number, names = pd.factorize(called[rows])
    if len(names) == rows.size:
        return values, rows, []
    first = rows[np.flatnonzero(~pd.Series(number).duplicated())]
    both = np.unique(number[arm[rows] != arm[first][number]])
    if not events:
        more = f", {both.size:,} of them in several arms" if both.size else ""
        return values, rows, [
            f"{rows.size - first.size:,} rows are of users who are there already{more}: rows of one user depend on "
            "each other, and no interval below holds; --events (events=True) adds them up, else keep one row a user"
        ]  # fmt: skip
    values, own = values.copy(), values[rows]
    values[first] = pd.DataFrame(own).groupby(number, sort=False).sum(min_count=1).to_numpy()
    said = [f"{rows.size:,} rows were added up to {pluralize(first.size, 'user')}"]
    said += [f"{pluralize(both.size, 'user')} in several arms left out"] if both.size else []
    return values, np.delete(first, both), said


def _arms(found: list[str], control: object) -> tuple[list[str], list[str]]:
    """Return the arms, the control first, and how it was told if nobody named it."""
    if not 2 <= len(found) <= MOST_ARMS:
        rule = f"name two arms or more, {MOST_ARMS} at most"
        raise InputError("arm", rule, f"{len(found)}: {list_names(found)}", "name the column with the arms")
    note = []
    if control is None:
        lower = [label.lower() for label in found]
        named = [found[lower.index(name)] for name in CONTROLS if name in lower]
        control, how = (named[0], "by its name") if named else (found[0], "as the first in the alphabet")
        note = [f"{control!r} was taken for the control {how}; --control (control=) names another"]
    if str(control) not in found:
        raise InputError("control", f"be one of the arms {list_names(found)}", repr(control), "check the spelling")
    return [str(control), *(label for label in found if label != str(control))], note


# Who looks like a bot.

Window: TypeAlias = tuple[int, float, float]
"""A metric, and from where to where its values clump."""
SAMPLED = 50_000
"""Users among whom clumps are looked for; then all users are held against them."""
BIN, WIDTHS = 0.05, (2, 4, 8, 16)
"""Of logarithms: what is counted together, and windows in so many of these."""
ERROR = 0.01
"""Probability of a clump where counts do not rise."""
RISE, MORE, DIP = 1.25, 10, 0.1
"""A clump has so many times as many users as the dip before it, and so many more; the dip this share of the crowd."""
EDGE = 0.1
"""Share of its densest window at which a clump ends."""
METRICS, LEAST, ROUNDS = 2, 5, 4
"""Metrics in whose clumps a suspect is, suspects that are worth another look, and looks."""
FEWEST, TAIL, BODY, WIDEST = 200, 60, 0.2, 4000
"""Values above 0, and those without the lowest share of them, that are needed; and bins of these, at most."""
CAPPED = 5
"""Users at the largest value from which on it is a ceiling, and no clump."""
LARGEST, HALF = 0.2, 0.5
"""Share of all users, and of those above 0, beyond which nothing is a clump; and of those who have one value there."""
FEW = 50
"""Suspects who are found by a gap alone, at most."""
TIED_AMONG = 2000
"""Values that tell whether many are equal."""


class Clump(NamedTuple):
    """Users who are alike and unlike all others, and the metrics that show it."""

    users: IntArray
    metrics: IntArray


def logarithms(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return logarithms of positive values; those that many share are spread evenly between their neighbours.

    Whole numbers, and amounts that were rounded, would leave bins empty beside full ones.
    """
    import pandas as pd

    some = x[:: 1 + x.size // TIED_AMONG]
    if np.unique(some).size > HALF * some.size:
        return np.asarray(np.log(x))
    at, value = pd.factorize(x, sort=True)
    count = np.bincount(at)
    gap = np.diff(value, prepend=0.0, append=2 * value[-1]) / 2
    whole = np.minimum(gap, 0.5) if (value == np.rint(value)).all() else np.zeros_like(gap)
    wide = np.where(count >= CAPPED, np.stack((gap[:-1], gap[1:])), np.stack((whole[:-1], whole[1:])))
    low, high = np.log(value - wide[0]), np.log(value + wide[1])
    return np.asarray(low[at] + (high - low)[at] * rng.random(x.size))


def window_of(x: FloatArray, error: float, rng: np.random.Generator) -> tuple[float, float] | None:
    """Return where the surest clump in the upper tail of some values begins and ends, None where there is none.

    Of all pairs of windows of equal width those count of which the inner one, as empty as any on the way, has fallen
    to a share `DIP` of the crowd. Were the outer one no fuller than `RISE` times that, the number of users in it,
    given both, would be binomial; ``error`` is shared by all pairs.
    """
    import pandas as pd
    from scipy.special import bdtrc

    positive = x[x > 0]
    if positive.size < FEWEST:
        return None
    lowest, half = np.quantile(positive, (BODY, 0.5), method="lower").tolist()
    top = positive[positive >= lowest]
    top = top[top < top.max()] if np.count_nonzero(top == top.max()) >= CAPPED else top
    if top.size < TAIL:
        return None
    y = logarithms(top, rng)
    first = float(y.min())
    bins = ((y - first) / BIN).astype(np.int64)
    if bins.max() > WIDEST:
        return None
    total = np.concatenate(([0], np.cumsum(np.bincount(bins, minlength=int(bins.max()) + 1 + 2 * max(WIDTHS)))))
    # The crowd is in the lower half: bots may be as many as the users above it.
    middle, smooth = max(0, int((np.log(half) - first) / BIN)), total[8:] - total[:-8]
    crowd = int(np.argmax(smooth[: middle - 3])) + 4 if middle > 8 else 0
    pairs, found = 0, []
    for width in WIDTHS:
        inside = (total[width:] - total[:-width])[crowd:]
        if inside.size <= width:
            continue
        least, most, outer = np.minimum.accumulate(inside), np.maximum.accumulate(inside)[:-width], inside[width:]
        pairs += outer.size * (outer.size + 1) // 2
        at = np.flatnonzero((outer >= RISE * least[:-width] + MORE) & (least[:-width] <= DIP * most))
        if at.size:
            chance = bdtrc(outer[at] - 1, least[at] + outer[at], RISE / (1 + RISE))
            evidence = -np.log10(np.maximum(chance, 1e-300)) + (outer[at] - least[at]) * 1e-9
            best = int(np.argmax(evidence))
            found.append((float(evidence[best]), width, int(at[best]) + width, int(least[at[best]]), inside))
    evidence_of_best, width, peak, before, inside = max(found, default=(0.0, 0, 0, 0, top), key=lambda each: each[0])
    if evidence_of_best <= -np.log10(error / max(1, pairs)):
        return None
    below = np.flatnonzero(inside[:peak] <= max(EDGE * inside[peak], 2 * before))
    above = np.flatnonzero(inside[peak:] <= EDGE * inside[peak])
    start, end = below[-1] + 1 if below.size else 0, peak + above[0] - 1 if above.size else inside.size - 1
    low, high = np.exp(first + (crowd + np.array([start, end + width])) * BIN).tolist()
    within = top[(top >= low) & (top <= high)]
    alike = within.size > 0 and np.bincount(pd.factorize(within)[0]).max() > HALF * within.size
    return None if within.size > min(LARGEST * x.size, HALF * positive.size) or alike else (low, high)


def _caught(values: FloatArray, windows: Sequence[Window]) -> tuple[Flags, Flags]:
    """Say which users are in many of the windows, and of each window which users it holds."""
    held = np.zeros((len(windows), len(values)), dtype=bool)
    for (metric, low, high), row in zip(windows, held, strict=True):
        row[:] = (values[:, metric] >= low) & (values[:, metric] <= high)
    number = np.count_nonzero(held, axis=0)
    counts = np.bincount(number, minlength=METRICS + 1)[METRICS:]
    # People are in some by chance, ever fewer in more: those who are in most windows come behind a dip.
    peak = int(counts.argmax())
    return number >= METRICS + peak - int(counts[peak::-1].argmin()), held


def find_clumps(values: FloatArray) -> tuple[list[Clump], dict[str, IntArray]]:
    """Return clumps of users, the largest first, and those who are unusual in other ways, by what they show.

    Rows of ``values`` are users, columns are metrics; what is missing is NaN.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people = rng.poisson(rng.gamma(0.8, 3, (4000, 1)) * rng.gamma(2, 0.5, (4000, 6))).astype(float)
    >>> people[:100, :3] = rng.poisson(120, (100, 3))
    >>> (clump,), _ = find_clumps(people)
    >>> clump.users.size, int(clump.users.max()), clump.metrics.tolist()
    (100, 99, [0, 1, 2])
    """
    (n, d), rng = values.shape, np.random.default_rng(0)
    some = some_rows(n, 1, values=SAMPLED)
    sample = left = values[some] if isinstance(some, slice) else np.take(values.T, some, axis=1).T
    windows = list[Window]()
    caught, held = np.zeros(n, dtype=bool), np.zeros((0, n), dtype=bool)
    for _ in range(ROUNDS):  # looked for again among the users who are left
        ends = [window_of(np.ascontiguousarray(left[:, j]), ERROR / d, rng) for j in range(d)]
        look = [(j, *both) for j, both in enumerate(ends) if both is not None]
        seen, _ = _caught(left, look)
        if np.count_nonzero(seen) < LEAST:
            break
        also, inside = _caught(values, look)
        left, windows, caught, held = left[~seen], windows + look, caught | also, np.concatenate((held, inside))
    unusual: dict[str, list[int]] = {}
    clumps, columns = _parted(np.flatnonzero(caught), windows, held), screening_columns(values.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        away = values.T[columns].T  # a copy
        away -= medians(sample[:, columns])
        judged = score_rows(away, features=columns)
    each = zip(judged.suspects.tolist(), judged.kinds, judged.reasons, strict=True)
    left_over = [(row, kind, why) for row, kind, why in each if not caught[row]]
    many = sum(kind == TOGETHER for _, kind, _ in left_over) > FEW  # they would clump: something else is common to them
    for row, kind, why in left_over:
        if kind != TOGETHER:
            unusual.setdefault(kind, []).append(row)
        elif many:
            continue
        elif alike := next((users for users, metrics in clumps if 2 * len({*why} & {*metrics}) >= len(why)), None):
            alike.append(row)
        else:  # no rest of many
            clumps.append(([row], list(why)))
    clumps.sort(key=lambda clump: (-len(clump[0]), clump[0]))
    return [Clump(*map(np.array, clump)) for clump in clumps], {k: np.array(rows) for k, rows in unusual.items()}


def _parted(users: IntArray, windows: Sequence[Window], held: Flags) -> list[tuple[list[int], list[int]]]:
    """Part suspects into clumps, users and metrics: windows that share most of the users of one of them are of one."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    if not users.size:
        return []
    inside = held[:, users].astype(np.float32)
    shared, sizes = inside @ inside.T, inside.sum(axis=1)
    near = shared >= HALF * np.maximum(1, np.minimum.outer(sizes, sizes))
    number, group = connected_components(csr_array(near), directed=False)
    home = np.stack([inside[group == each].sum(axis=0) for each in range(number)]).argmax(axis=0)
    own = np.array([metric for metric, *_ in windows])
    return [
        (users[home == each].tolist(), list(dict.fromkeys(own[group == each].tolist())))
        for each in np.unique(home).tolist()
    ]
