"""What is no measurement: columns that name rows, subjects or groups or hold text, numbers for gaps, totals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from shlex import quote
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import Array
from sparsemean._data.table import ReadOptions
from sparsemean._kernels.memory_layout import cut
from sparsemean._util.checks import is_missing, list_names
from sparsemean._util.records import IntArray
from sparsemean.errors import InputError, together

Values = npt.NDArray[Any]
SUBJECTS = (
    "donor", "subject", "patient", "participant", "individual", "person", "volunteer", "respondent", "user",
    "customer", "animal", "mouse", "case", "sample", "replicate", "hashtag", "library",
)  # fmt: skip
"""What subjects are called: first those of whom one may have several of the last."""
SEURATS = ["orig", "ident"]
"""Where Seurat, and files made of its objects, have the sample of each cell."""
NUMBER_WORDS = {"id", "ids", "identifier", "name", "names", "nr", "no", "number", "code", "key"}
ONLY_WITH_NUMBER = {"case"}
"""Words that alone rather name a class, as case and control."""
MOST_NAMES = 0.9
"""Names of rows, as a share of the rows, that are more than a few names given twice by mistake."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def likely(names: Iterable[str]) -> list[str]:
    """Return the names that subjects are called by, the most telling first.

    Examples
    --------
    >>> likely(["age", "sampleID", "Donor_id", "patient group", "case", "userid", "case.no"])
    ['Donor_id', 'userid', 'case.no', 'sampleID']
    """
    found = [(place, name) for name in names if (place := _place(name)) is not None]
    return [name for _, name in sorted(found, key=lambda entry: entry[0])]


def _place(name: str) -> int | None:
    """Return where among ``SUBJECTS`` a name belongs, which must say nothing else."""
    words = [word.lower() for word in WORD.findall(name)]
    said = [word for word in words if word not in NUMBER_WORDS]
    if words == SEURATS:
        return len(SUBJECTS)
    if len(said) != 1:
        return None
    stem = said[0].removesuffix("id") if said[0].removesuffix("id") in SUBJECTS else said[0].removesuffix("s")
    numbered = len(words) > 1 or said[0].endswith("id")
    return None if stem not in SUBJECTS or (stem in ONLY_WITH_NUMBER and not numbered) else SUBJECTS.index(stem)


def repeated(name: str, values: Collection[object], most: float = 0.5) -> tuple[str, int] | None:
    """Return the name of a column and its number of values, unless that is one, or more than a share of the rows."""
    different = len({value for value in values if not is_missing(value)})
    return (name, different) if 1 < different < most * len(values) else None


def subjects_among(columns: Iterable[tuple[str, Callable[[], Collection[object]]]]) -> tuple[str, int] | None:
    """Return the first of some columns that names subjects; one that cannot be read names nobody."""
    for name, read in columns:
        with suppress(Exception):  # of the many kinds that a damaged column makes libraries raise
            if found := repeated(name, read()):
                return found
    return None


def combined(columns: Mapping[str, Array]) -> dict[str, Array]:
    """Return labels of rows, several strata as one: each combination of their labels is one."""
    several = [values.tolist() for option, values in columns.items() if option.startswith("strata")]
    rows = zip(*several, strict=True)
    each = (np.nan if any(map(is_missing, row)) else " / ".join(map(str, row)) for row in rows)
    strata = np.fromiter(each, dtype=object)
    return {**{option: values for option, values in columns.items() if "strata" not in option}, "strata": strata}


NUMBER_OF_ROW = re.compile(r"(?:^|.*[_\s.-])(?:id|ID|Id)s?|.*[a-z]I[dD]s?")
GROUPS = {
    "arm", "group", "treatment", "treated", "variant", "condition", "cohort", "class", "label", "exposed", "sex",
    "gender",
}  # fmt: skip
"""What a column is called that says which of two groups a row is of."""
LEAST_ROWS, SEEN = 20, 16
"""Rows without which whole numbers in order mean nothing, and rows by which most columns are passed over."""


def row_numbers(names: list[str], values: Values | None) -> list[str]:
    """Return the names of features that number rows: called id and whole, or all of 1 … n (0 … n − 1) once.

    Examples
    --------
    >>> row_numbers(["user_id", "paid", "k"], np.array([[7, 2, k] for k in range(30)]))
    ['user_id', 'k']
    """
    ends = ("id", "ids", "ID", "IDs", "Id", "Ids")
    called = [k for k, name in enumerate(names) if name.endswith(ends) and NUMBER_OF_ROW.fullmatch(name)]
    if values is None:
        return [names[k] for k in called]
    n, head, counted = len(values), np.sort(values[:SEEN], axis=0), list[int]()
    if n >= LEAST_ROWS:
        rising = (head[1:] >= head[:-1] + 1).all(axis=0) & (head[0] >= 0) & (head[-1] <= n)
        ranked = ((k, np.sort(values[:, k])) for k in np.flatnonzero(rising).tolist())
        counted = [k for k, column in ranked if column[0] in (0, 1) and (np.diff(column) == 1).all()]
    whole = [k for k in called if not np.mod(values[: 1000 * SEEN, k], 1).any()]  # not of NaN
    return [names[k] for k in sorted({*whole, *counted})]


def says_groups(name: str) -> bool:
    """Whether a column is called as groups are."""
    return not GROUPS.isdisjoint(word.lower() for word in WORD.findall(name))


def named_as_groups(names: list[str], values: Values) -> list[str]:
    """Return the names of features with two values, gaps not counted, that are called as groups are.

    Examples
    --------
    >>> named_as_groups(["is treated", "clicks", "sex"], np.array([[0, 3, 1], [1, 4, 2], [0, 3, 3]]))
    ['is treated']
    """
    joined = "\n".join(names).lower()  # most tables have no such name, and some very many names
    called = [k for k, name in enumerate(names) if says_groups(name)] if any(map(joined.__contains__, GROUPS)) else []
    each = ((k, np.unique(values[:, k])) for k in called)
    return [names[k] for k, found in each if np.count_nonzero(found == found) == 2]


NINES = np.array([
    77, 88, 97, 98, 99, 777, 888, 997, 998, 999, 7777, 8888, 9998, 9999, 99999, 999999, 99999999, 99.9, 99.99, 999.9,
    999.99, 9999.9, 9999.99, 1e20, 1e30, 1e35, 1e36, 9.96921e36, 32767, 2147483647,
])  # fmt: skip
GAP_CODES = np.unique([*NINES, *-NINES, 65535, -32768, -2147483648])
GAP_CODES = np.union1d(GAP_CODES, GAP_CODES.astype(np.float32))
"""Numbers that are written where a value is missing."""
MOST_SHOWN = 6
NO_ROWS = re.compile(
    r"(grand|sub)?[ -]?totals?|sums?|summe|gesamt|somme|means?|average|avg\.?|mittelwert|moyenne|medians?"
    r"|st(d|andard)[. ]*(dev(iation)?\.?)?|(#|//).*",
    re.I | re.DOTALL,
)
"""What a row is called that sums up others, or that is a comment."""
AT_AN_END = re.compile(r"sd|s\.d\.|min(imum)?|max(imum)?|n|counts?|all|overall", re.I)
"""What it may be called where it is the first, or one of the last: elsewhere Max is a person."""
ENDS = 8
"""How many of the last."""
NO_ROW = "{} may be a total of the others, or a comment; it was read as data: if it is one, delete it"
COPIES = "{:,} of {:,} rows are exact copies of others: if a part of the file was pasted twice, delete one of the two"
LEAST_SUMMED = 3
"""Values other than zero without which a sum says nothing."""
MOST_DIGITS = 8
"""Digits behind the point that are looked for."""
MOST_CHANCE, BEYOND_ALL = 0.01, 0.001
"""Chance below which a sum is no accident, and that of a value to lie as far out as the sum of values of one sign."""
FAR_OUT = 2
"""Times as far from the nearest other value as that one is from the median."""
FAR_FROM_ONE = 9999
"""How large a number is that stands for gaps beside one single value, if it is not below zero."""
AT_ONCE = 2**17
"""Values that are looked at together: no table is held twice for a note."""
FIRST_COLUMNS = 8, 512
"""Columns after which a row is known not to be a total, of nearly all tables."""
MOST_COMPARED, SOME_COPIES, MIXING = 2**21, 4, np.uint64(0x9E3779B97F4A7C15)
"""Rows of which copies are looked for, of how many one should be another's at least, and what spreads bits of keys."""
SOME = 1000
"""Rows by which most columns are passed over whose least or largest value is a number for gaps."""


def doubts(blocks: Callable[[], Iterable[Values]], names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Say which values of a table may be no measurements: numbers for gaps, totals, rows that were pasted twice.

    ``blocks`` yields all rows of some columns after others, ``names`` calls these, ``rows`` has names of the rows.
    """
    found: dict[float, list[str]] = {}
    at, said = 0, list[str]()
    for block in blocks():
        for code, columns in gap_codes(block).items():
            where = [f"{names[at + k]!r} ({count:,} of {len(block):,} rows)" for k, count in columns.items()]
            found.setdefault(code, []).extend(where)
        copies = n_copies(block) if block.shape[1] == len(names) else 0
        said = [COPIES.format(copies, len(block))] if copies else []
        at += block.shape[1]
    gap = "if so, empty these cells and pass --missing omit"
    gaps = [f"{code:g} may stand for missing values in {list_names(w, MOST_SHOWN)}: {gap}" for code, w in found.items()]
    odd = next(filter(None, map(summing_up, rows)), "") or no_row(blocks())
    return [*gaps, *([NO_ROW.format(odd)] if odd else []), *said]


def gap_codes(values: Values) -> dict[float, dict[int, int]]:
    """Return numbers that seem to stand for gaps, and how often each column has them.

    Such a number lies beyond all values of its column that are not in ``GAP_CODES``, is there at least twice, and is
    more than twice as far from the nearest of these as that one from their median. Columns that also have it are listed
    with these if it lies as far out there, by a sample of many rows, or is there twice.

    Examples
    --------
    >>> gap_codes(np.array([[3.5, -9999], [4.1, 20], [-9999, 45], [3.9, 35], [-9999, 99]]))
    {-9999.0: {0: 2, 1: 1}}
    """
    known = np.unique(GAP_CODES.astype(values.dtype)) if values.dtype.kind == "f" else GAP_CODES
    ends, step = np.array((np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0))), len(values) // SOME + 1
    far: dict[int, list[float]] = {}
    for end in ends:
        at_end = np.flatnonzero(np.isin(end, known))
        for part in (at_end[piece] for piece in cut(at_end.size, AT_ONCE // min(len(values), SOME), 1)):
            for k in part[_is_far(end[part], values[::step, part], known, every=False)].tolist():  # few are
                codes = np.intersect1d(values[:, k], known)
                far[k] = codes[[_is_far(code, values[:, [k]], known, every=True)[0] for code in codes]].tolist()
    found: dict[float, dict[int, int]] = {}
    for code in sorted({code for codes in far.values() for code in codes}):
        each = cut(len(values), AT_ONCE // values.shape[1], 1)
        counts = np.sum([np.count_nonzero(values[rows] == code, axis=0) for rows in each], axis=0).tolist()
        if any(counts[k] > 1 for k, codes in far.items() if code in codes):
            found[code] = {k: count for k, count in enumerate(counts) if count > 1 or code in far.get(k, ())}
    return found


def _is_far(code: float | Values, values: Values, known: Values, *, every: bool) -> npt.NDArray[np.bool_]:
    """Whether a number lies far beyond all values of a column that are not known codes, or may, by some of the rows."""
    off = np.where(np.isfinite(values) & ~np.isin(values, known), values - code, np.nan)
    least, largest = np.fmin.reduce(off, axis=0), np.fmax.reduce(off, axis=0)
    nearest = np.fmin(np.abs(least), np.abs(largest))
    count, near = (np.count_nonzero(np.abs(off) < limit, axis=0) for limit in (np.inf, (1 + 1 / FAR_OUT) * nearest))
    is_far: npt.NDArray[np.bool_] = ((least > 0) | (largest < 0)) & (2 * near > count)  # the median is one of these
    likely = (least < largest) | (code < 0) | (code >= FAR_FROM_ONE)
    return np.asarray(is_far & likely if every else is_far | (count == 0))


def summing_up(names: Sequence[str]) -> str:
    """Name a row that is called as totals, means and comments are.

    Examples
    --------
    >>> summing_up(["Max", "Anna", *"abcdefgh", "N"]), summing_up(["Anna", "Max", *"abcdefgh", "Eve"])
    ("row 'Max'", '')
    """
    short = {name for name in (*names[:1], *names[-ENDS:]) if AT_AN_END.fullmatch(name.strip(" :"))}
    once = {name for name, count in Counter(names).items() if count == 1} & short if short else short
    called = [name for name in names if name in once or NO_ROWS.fullmatch(name.strip(" :"))]
    return f"row {called[0]!r}" if 0 < len(called) < len(names) / 2 else ""


def no_row(blocks: Iterable[Values]) -> str:
    """Name a last row, or a first one, that is the sum of the others in most columns: some may hold rates.

    Examples
    --------
    >>> no_row([np.array([[1, 2.5, 0.4], [3, 4, 0.5], [5, 7.5, 0.6], [9, 14, 0.5]])])
    'the last row'
    """
    ways = {"the last row": (-1, 1.0, 0, 0), "the first row": (0, 1.0, 0, 0)}
    for block in (some for values in blocks for some in np.split(values, FIRST_COLUMNS, axis=1) if some.size):
        if len(block) <= LEAST_SUMMED:
            return ""
        some_rows = (block[rows] for rows in cut(len(block), AT_ONCE // block.shape[1], 1))
        pieces = (np.where(np.isnan(rows), 0.0, rows) for rows in some_rows)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = sum(np.array((x.sum(axis=0), np.abs(x).sum(axis=0), np.count_nonzero(x, axis=0))) for x in pieces)
            for name, (at, chance, summed, others) in [*ways.items()]:
                row, rest = np.nan_to_num(block[at]), block[1:] if at == 0 else block[:-1]
                total, size, count = np.asarray(sums) - (row, np.abs(row), row != 0)
                same = ((np.abs(row - total) <= 1e-9 * size) & (size < np.inf)) | np.isnan(block[at])
                telling = np.flatnonzero(same & (count >= LEAST_SUMMED) & ~np.isnan(block[at]))
                for k in telling if chance >= MOST_CHANCE ** FIRST_COLUMNS[0] else ():
                    chance *= _chance_of_sum(np.nan_to_num(rest[:AT_ONCE, k]))
                ways[name] = at, chance, summed + telling.size, others + int(np.count_nonzero(~same))
        ways = {name: way for name, way in ways.items() if not way[3] or way[3] < way[2]}
    return next((name for name, (_, chance, *n) in ways.items() if chance * sum(n) ** n[1] < MOST_CHANCE), "")


def n_copies(values: Values) -> int:
    """Return how many rows are copies of others, where that is half of all and no accident of few different values.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(30, 2))
    >>> n_copies(np.vstack([x, x])), n_copies(np.vstack([x, x[:9]])), n_copies(np.vstack([x, x]) > 0)
    (30, 0, 0)
    """
    n, d = values.shape
    if not LEAST_ROWS <= n <= MOST_COMPARED:
        return 0
    some = values[:, :: d // SEEN + 1]
    for columns in (some, values):
        keys = np.zeros(n, dtype=np.uint64)
        for column in columns.T:
            keys = (keys ^ (column + 0.0).astype(np.float64).view(np.uint64)) * MIXING
            keys ^= keys >> np.uint64(32)
        counts = np.unique(keys, return_counts=True)[1]
        again = counts[counts > 1]
        if 2 * again.sum() < n or 2 * SOME_COPIES * again.size < n:  # most are of one kind, as rows of zeros are
            return 0
    alike = np.prod([np.square(np.unique(each, return_counts=True)[1] / n).sum() for each in some.T])
    every = counts.size >= LEAST_ROWS and np.gcd.reduce(counts) > 1
    return int(again.sum() - again.size) if every or n * alike < 0.1 else 0


def _chance_of_sum(column: Values) -> float:
    """Return about how likely one more value would be the sum of all, by how finely they are written and by signs."""
    near = 1e-9 * np.abs(column).max()
    digits = next((k for k in range(MOST_DIGITS) if np.abs(column - np.round(column, k)).max() <= near), MOST_DIGITS)
    return min(1.0, 10.0**-digits / max(float(column.std()), 1e-300)) * (BEYOND_ALL if column.min() >= 0 else 1.0)


# Which columns are features, and which say something of rows.


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of a file are features, and which are read for what they say of rows.

    ``of_rows`` has the columns that options name, ``watched`` those left out that may name subjects, ``others`` what is
    left.
    """

    names: list[str]
    features: IntArray
    of_rows: dict[str, int]
    watched: list[int]
    others: list[int]


def layout_of(names: list[str], wanted: ReadOptions) -> Layout:
    """Tell the columns of a file apart by their names; one that an option names must be the only one of that name."""
    features = chosen(names, wanted)
    for option, name in wanted.of_rows.items():
        if names.count(name) > 1:
            raise InputError(f"--{option}", "name one column of the file", f"{name!r}, {names.count(name)} of them")
    of_rows = {option: names.index(name) for option, name in wanted.of_rows.items()}
    known = {*features.tolist(), *of_rows.values()}
    others = [column for column in range(len(names)) if column not in known]
    called = {names[column]: column for column in others}
    watched = [called[name] for name in likely(called)] if wanted.independent else []
    return Layout(names, features, of_rows, watched, [column for column in others if column not in watched])


def chosen(names: Sequence[str], wanted: ReadOptions) -> IntArray:
    """Return the columns that are features: those selected and not dropped, which say nothing of rows themselves.

    Examples
    --------
    >>> chosen(["user", "clicks", "cost", "age"], ReadOptions(id="user", drop=("c*",)))
    array([3])
    """
    found, one, more = list[npt.NDArray[np.bool_]](), "name a column of the file", "name columns of the file"
    faults = [(f"--{option}", one, name) for option, name in wanted.of_rows.items() if name not in names]
    for argument, patterns in (("--select", wanted.select), ("--drop", wanted.drop)):
        each = [_matching(names, pattern) for pattern in patterns]
        faults += [(argument, more, pattern) for pattern, these in zip(patterns, each, strict=True) if not these.any()]
        found.append(np.any([np.zeros(len(names), dtype=bool), *each], axis=0))
    if faults:
        listed = f"it has {list_names([*filter(None, names)]) or 'none'}"
        if any(argument == "--group" for argument, *_ in faults):
            listed += "; if samples are columns, put their labels into a row of the file and read it with --transpose"
        raise together([InputError(argument, rule, repr(name), listed) for argument, rule, name in faults])
    apart = set(wanted.of_rows.values())
    keep = np.array([name not in apart for name in names], dtype=bool) & ~found[1]
    keep &= found[0] | (not wanted.select)
    if not keep.any():
        raise InputError("FILE", "have columns left to look at", f"none of {len(names)}")
    return np.flatnonzero(keep)


def of_columns_and_others(names: Sequence[str], patterns: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the patterns that one of the names matches, and the others."""
    known = tuple(pattern for pattern in patterns if _matching(names, pattern).any())
    return known, tuple(pattern for pattern in patterns if pattern not in known)


def _matching(names: Sequence[str], pattern: str) -> npt.NDArray[np.bool_]:
    """Return which names are meant by a pattern: those that are written so, else those that it stands for."""
    exact = np.array([name == pattern for name in names], dtype=bool)
    return exact if exact.any() else np.array([fnmatchcase(name, pattern) for name in names], dtype=bool)


# Columns that hold no numbers, refused in one line that says what can be done, or left out.

MOST_NAMED = 8
MOST_LOOKED_AT = 20
"""Columns left out that are looked at for two values."""


def not_numeric(argument: str, columns: Mapping[str, str], where: str = "", *, gaps: bool = False) -> InputError:
    """Refuse columns by name and kind, all of them, and say what to do: options in files, code in memory.

    ``where`` shows what stands in the first of them, ``gaps`` says that other columns will be refused for theirs.
    """
    kinds: dict[str, list[str]] = {}
    for name, kind in columns.items():
        kinds.setdefault(kind, []).append(name)
    shown: list[str] = []
    for kind, names in kinds.items():
        first = f" ({where})" if where and not shown else ""
        more = [repr(name) for name in names[1:]]
        number = f"{len(names)} columns: " if more else "column "
        shown.append(f"{kind} in {number}{', '.join([repr(names[0]) + first, *more[: MOST_NAMED - 1]])}")
        shown[-1] += f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    if argument != "FILE":
        return InputError(argument, "have numeric columns only", "; ".join(shown), "leave it out or convert it")
    out = f"leave {'it' if len(columns) == 1 else 'them'} out with --drop-text"
    if len(columns) == 1:
        out += f" or --drop {quote(next(iter(columns)))}"
    out += " and go past gaps in others with --missing omit" if gaps else ""
    advice = f"{out}, or say what one is for: --id, --group, --subject, --strata or --pairs NAME"
    return InputError(argument, "have numeric columns only", "; ".join(shown), advice)


def note_left_out(columns: Mapping[str, str], why: str = ", as asked for") -> str:
    """Say which columns were left out, with what is to be remarked of each."""
    names = [f"{name!r} ({remark})" if remark not in ("", "text") else repr(name) for name, remark in columns.items()]
    number = f"{len(names)} columns" if len(names) > 1 else "a column"
    return f"{number} of text left out{why}: {list_names(names, 3 * MOST_NAMED)}"
