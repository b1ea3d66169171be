"""A table: values with names, which columns are wanted of it, what its file was, and how bad files are refused."""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import Array, Dense, NonFiniteValue, Source, as_dense
from sparsemean._util.checks import list_names, pluralize
from sparsemean.errors import MORE_MEMORY, InputError, lacks_memory

MOST_COMPRESSED = 1000
"""Bytes of values that a byte on disk may stand for: zeros alone reach 1030 by deflate, 0.1 % other values 700."""
MOST_HELD = 400
"""The same of what is unpacked and held at once: counts of which 1 % are not zero reach 360 as .csv.gz."""
NOT_WORTH_CHECKING = 100_000_000
SOUND = "if it is sound, write it uncompressed or as a sparse matrix"
UNWRITTEN = 10
"""Times as much as a file that a folder may claim to hold: what is not there is read and counted all the same."""
A_ROW, A_COLUMN = 16, 256
"""Bytes, at least, that a row or a column takes while it is looked at."""
MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError)
"""What a slip in a program raises; libraries raise them for damaged files as well."""


@dataclass(frozen=True, slots=True)
class FileContext:
    """What to call a file in a message, and its bytes on disk where they are known."""

    name: str
    kind: str
    size: float = math.inf
    argument: str = "FILE"
    longest: int = 0
    """Bytes of a string that lies in the file once and may stand for any number of rows."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what a damaged file makes a library raise, of which there are many kinds, into one line.

        What our own code raises by mistake stays what it is: nobody's file is at fault.
        """
        try:
            yield
        except (InputError, ImportError):
            raise
        except (FileNotFoundError, PermissionError, BlockingIOError) as error:
            raise InputError(self.argument, "be readable", f"{self.name} ({_first_line(error)})") from error
        except Exception as error:
            if lacks_memory(error):
                rule = "have pieces that fit into memory"
                raise InputError(self.argument, rule, f"{self.name} ({_first_line(error)})", MORE_MEMORY) from error
            if isinstance(error, MISTAKES) and _is_ours(error):
                raise
            raise self.broken(_first_line(error)) from error

    @contextmanager
    def parsing(self) -> Iterator[None]:
        """Blame the file for slips as well: only around what takes apart what a file says of itself."""
        try:
            yield
        except MISTAKES as error:
            raise self.broken(_first_line(error)) from error

    def broken(self, why: str, advice: str = "write it again") -> InputError:
        """Say that the file is not what its ending promises."""
        return InputError(self.argument, f"be a complete {self.kind}", f"{self.name} ({why})", advice)

    def choose(self, names: Sequence[str], wanted: str | None, kind: str, rule: str) -> str:
        """Return which of several parts of a ``kind`` is meant by --dataset, the only one if it is not given."""
        if wanted is None and len(names) == 1:
            return names[0]
        if wanted is None or wanted not in names:
            rule, got = ("name one of several " + kind, "none") if wanted is None else (rule, repr(wanted))
            raise InputError("--dataset", rule, got, f"{self.name} has {list_names(names) or 'none'}")
        return wanted

    def check_size(self, shape: tuple[int, ...], itemsize: int) -> None:
        """Refuse a shape that so few bytes cannot hold: a damaged one would ask for all memory.

        Chunks of a folder that were never written are not there and hold one value, so folders may claim more, but not
        along one side, which costs memory.
        """
        values = math.prod(shape)
        claimed = (max((values // UNWRITTEN, *shape)) if self.kind.endswith("folder") else values) * itemsize
        if claimed > max(NOT_WORTH_CHECKING, MOST_COMPRESSED * self.size):
            raise self.broken(f"shape {shape} in {self.size:,.0f} bytes", f"write it again; {SOUND}")

    def check_held(self, size: float) -> None:
        """Refuse to hold, or to unpack, more than a file of honest values comes to: see SECURITY.md."""
        if size > max(NOT_WORTH_CHECKING, MOST_HELD * self.size):
            got = f"{self.name} ({size:,.0f} bytes out of {self.size:,.0f})"
            raise InputError(self.argument, f"unpack to at most {MOST_HELD} times its size", got, SOUND)

    def check_lines(self, shape: tuple[int, ...]) -> None:
        """Refuse more rows or columns than so few bytes can tell of: each costs memory, even if nothing is in it."""
        n, *d = shape
        if max((A_ROW * n, *(A_COLUMN * size for size in d))) > max(NOT_WORTH_CHECKING, MOST_COMPRESSED * self.size):
            raise self.broken(f"shape {shape} in {self.size:,.0f} bytes")


def unreadable(path: Path, error: OSError) -> InputError:
    """Say why the system does not let a file be read."""
    why, advice = error.strerror or error, MORE_MEMORY if lacks_memory(error) else ""
    return InputError("FILE", "be readable", f"{path.name} ({why})", advice)


def _is_ours(error: Exception) -> bool:
    """Whether an error was raised in this package, not in a library that was called."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and str(at.tb_frame.f_globals.get("__name__")).partition(".")[0] == "sparsemean"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# What a user asks of a file: which columns name rows and groups, and which are features.


OF_ROWS = ("id", "group", "trend", "subject", "strata", "pairs")
"""Options that name a column which is no feature."""


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How a text is written; None is judged by what stands in it.

    Attributes
    ----------
    header
        Whether the first line of a text, or row of a sheet, names the columns.
    sep, decimal, encoding
        What stands between the columns of a text, its decimal mark and its encoding.
    na
        Cells that stand for missing values, besides those that are known.
    """

    header: bool | None = None
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadOptions(TextOptions):
    """Choices on a file; empty where there are none.

    Attributes
    ----------
    id
        Column with the name of each row.
    group
        Column with the group of each row.
    trend
        Column with the number of each row that values are held against.
    subject, strata, pairs
        Columns with the subject, the stratum and the pair of each row; of several strata each combination is one.
    select, drop
        Names of feature columns to keep or to leave out; ``*`` and ``?`` stand for any characters.
    layer
        Layer of an .h5ad file, in place of X.
    dataset
        Array inside an .h5, .zarr or .npz file, sheet of an .xlsx file (None: the first).
    drop_text
        Whether columns that hold no numbers are left out rather than refused.
    drop_empty
        Whether columns without any value are left out, of tables in memory.
    transpose
        Whether features lie in rows: ``id``, ``select`` and ``drop`` are of columns as they lie, the others name rows.
    """

    id: str | None = None
    group: str | None = None
    trend: str | None = None
    subject: str | None = None
    strata: tuple[str, ...] = ()
    pairs: str | None = None
    select: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    layer: str | None = None
    dataset: str | None = None
    drop_text: bool = False
    drop_empty: bool = False
    transpose: bool = False

    @property
    def of_rows(self) -> dict[str, str]:
        """Columns that say something of rows, by the option that names each."""
        strata = {f"strata {k}" if k > 1 else "strata": name for k, name in enumerate(self.strata, 1)}
        return {option: value for option in OF_ROWS if isinstance(value := getattr(self, option), str)} | strata

    @property
    def independent(self) -> bool:
        """Whether rows are taken for independent: no column says which of them belong together."""
        return self.subject is None and not self.strata and self.pairs is None

    def refuse(self, *fields: str, kind: str) -> None:
        """Refuse choices that a kind of file has no meaning for."""
        for option in fields:
            if value := getattr(self, option):
                raise InputError(
                    f"--{option}",
                    f"be left out for {kind}",
                    repr(" ".join(value) if isinstance(value, tuple) else value),
                )


NOTHING = ReadOptions()


# What a file was when it was opened: one that changes while it is read, or is another elsewhere, gives no answer.

ENDS = 65_536
"""Bytes at the beginning, and at the end, that are looked at."""
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The size of a file, or of all in a folder, when it was last written to in nanoseconds, and a checksum."""

    path: Path
    size: int
    time: int
    digest: str

    def difference(self, other: Fingerprint) -> str:
        """Say what is different about a file elsewhere; copies keep times to the second only."""
        if self.size != other.size:
            return f"one of {other.size:,} bytes in place of {self.size:,}"
        if self.digest != other.digest:
            return "one with another checksum"
        return "one written at another time" if self.time // SECOND != other.time // SECOND else ""


def fingerprint_of(path: Path) -> Fingerprint:
    """Look at a file, or at every file in a folder and at the ends of the first and the last of them."""
    files = sorted(_inside(path)) if path.is_dir() else [("", path.stat())]
    digest = hashlib.blake2b(digest_size=16)
    for name, found in files:
        digest.update(f"{name}\0{found.st_size}\0".encode(errors="surrogateescape"))
    for ended in (path / name for name, _ in (*files[:1], *files[-1:])):
        if not ended.is_dir():  # as what a link leads to
            with ended.open("rb") as file:
                digest.update(file.read(ENDS))
                file.seek(max(0, file.seek(0, os.SEEK_END) - ENDS))
                digest.update(file.read(ENDS))
    size = sum(found.st_size for _, found in files)
    return Fingerprint(path, size, max((found.st_mtime_ns for _, found in files), default=0), digest.hexdigest())


def _inside(folder: Path, below: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield the name and the state of every file in a folder, and of links to folders, which may lead back or far."""
    with os.scandir(folder / below) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _inside(folder, f"{below}{entry.name}/")
            elif entry.is_file() or entry.is_dir():  # a pipe would make who looks at it wait
                yield f"{below}{entry.name}", entry.stat()


# What every reader yields: a source, and the names of its features and rows.

Names = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows by features, with names where there are any and labels of rows where columns say them."""

    source: Source
    feature_names: Names | None = None
    notes: tuple[str, ...] = ()
    row_names: Names | None = None
    groups: npt.NDArray[np.generic] | None = None
    file: Fingerprint | None = None
    """What the file was when it was opened, where it is one."""
    columns: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    """The subject, the stratum and the pair of each row, by the name of the option that asked for them."""
    repeated: tuple[str, int] | None = None
    """A column that names subjects, if nobody asked for it and there are many rows a subject; and their number."""
    two_valued: tuple[str, ...] = ()
    """Columns left out that have two values: they may say which of two groups a row is of."""
    theta: npt.NDArray[np.float64] | None = None
    """What was taken off each column: so many times its values from before, where any was adjusted for them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.source.shape

    @property
    def values(self) -> Array:
        """Everything as one dense array: where it lies if it is one, read whole if not."""
        n, d = self.shape
        return as_dense(self.source.block(slice(0, n), slice(0, d)))

    def check_unchanged(self) -> None:
        """Refuse what was read of a file that was written to meanwhile: some of its values may be old and some new."""
        if self.file is None:
            return
        try:
            now = fingerprint_of(self.file.path)
        except OSError:
            now = None
        if now != self.file:
            rule, advice = "stay as it is while it is read", "run again once nothing writes to it, or copy it first"
            raise InputError("FILE", rule, f"{self.file.path.name}, which changed meanwhile", advice)

    def non_finite_error(self, place: NonFiniteValue | None, *, skip_missing: bool) -> InputError:
        """Name a value that is not finite; where there is none it is sums that are not."""
        if place is None:
            advice = "divide the values by a constant"
            return InputError("X", "have bucket sums below 1.8e308", "sums that overflow", advice)
        kind = "NaN" if np.isnan(place.value) else "infinity"
        rule = "not contain infinity" if skip_missing else "not contain NaN or infinity"
        advice = "drop or fill such values first"
        advice += ", or count without them: missing='omit', --missing omit" if kind == "NaN" else ""
        return InputError("X", rule, f"{kind} in {self.label(place.column)}, row {place.row}", advice)

    def label(self, column: int) -> str:
        """Name a column in a message."""
        return f"column {column}" + (f" ({self.feature_names[column]!r})" if self.feature_names is not None else "")


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
    """Refuse what is not a real-valued matrix with something in it."""
    if dtype.kind == "c":
        raise InputError(
            "X", "be real", "complex values", "Complex data not supported: take real parts or magnitudes first"
        )
    if len(shape) != 2:
        raise InputError(
            "X", "be 2-D, rows by features", f"{len(shape)}-D",
            "Reshape your data: X.reshape(-1, 1) if it is one feature",
        )  # fmt: skip
    n, d = shape
    if d < 1:
        raise InputError("X", "have features", f"{d} feature(s) (shape={shape}) while a minimum of 1 is required.")
    if n < 1:
        raise InputError("X", "have rows", f"{n} sample(s) (shape={shape}) while a minimum of 1 is required.")
    if dtype.kind not in "fiub":
        raise InputError("X", "be numeric", f"dtype {dtype}", "convert it to numbers first")


def check_feature_names(names: object, d: int, advice: str = "") -> Names | None:
    """Return one name for each of ``d`` features, or None; where ``advice`` says what to do about it no two are alike.

    Others are made unique where a table is complete.
    """
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sized) or not isinstance(names, Iterable) or len(names) != d:
        size = len(names) if isinstance(names, Sized) and not isinstance(names, str) else type(names).__name__
        raise InputError("feature_names", f"be a sequence of {d} names, one for each column of X", size)
    found = as_names(names)
    if advice and len(set(found)) < d:
        twice = next(name for name, count in Counter(found.tolist()).items() if count > 1)
        raise InputError("feature names", "differ from each other", f"{twice!r} more than once", advice)
    return found


def with_unique_names(table: Table) -> Table:
    """Return a table no two names of whose features are alike, or empty, with a note on those that were changed."""
    given = [] if table.feature_names is None else table.feature_names.tolist()
    if "" not in given and len({*given}) == len(given):
        return table
    names = [name or f"column {k}" for k, name in enumerate(given)]
    taken, seen, last = {*names}, set[str](), Counter[str]()
    for k, name in enumerate(names):
        while name in seen and names[k] in taken:
            last[name] += 1
            names[k] = f"{name}.{last[name]}"
        seen.add(name)
        taken.add(names[k])
    changed = [k for k, name in enumerate(given) if name != names[k]]
    shown = list_names([f"{given[k]!r} in column {k} is {names[k]!r}" for k in changed], 3)
    note = f"feature names that were empty or taken were made unique: {shown}"
    return replace(table, feature_names=as_names(names), notes=(*table.notes, note))


def without_empty(table: Table) -> Table:
    """Return a table without columns that have no value, unless all are such, with a note."""
    keep = ~np.isnan(table.values).all(axis=0)
    if keep.all() or not keep.any():
        return table
    names = table.feature_names
    out = [str(k) if names is None else repr(names[k]) for k in np.flatnonzero(~keep).tolist()]
    note = f"{pluralize(len(out), 'column')} without any value left out: {list_names(out)}"
    return replace(
        table, source=Dense(table.values[:, keep]), feature_names=None if names is None else names[keep],
        notes=(*table.notes, note),
    )  # fmt: skip


def as_names(names: Any) -> Names:
    """Return names as an array of str."""
    return np.fromiter(map(as_text, names), dtype=object)


def as_text(name: object) -> str:
    r"""Return a name as text that can be written in UTF-8: bytes and halves of characters are spelled out.

    Examples
    --------
    >>> as_text(b"m\xc3\xa4n"), as_text("\ud800"), as_text(7)
    ('män', '\\ud800', '7')
    """
    if isinstance(name, bytes):
        return name.decode(errors="backslashreplace")
    text = str(name)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


# NumPy arrays and memory maps, and anything NumPy can view as one.


def from_array(X: object, feature_names: object = None) -> Table:
    """Take ``X`` as it lies in memory; only lists and arrays of Python objects are converted."""
    if isinstance(X, np.ma.MaskedArray):
        raise InputError("X", "have no mask", "a masked array", "fill it first, for example X.filled(numpy.nan)")
    try:
        values: Array = np.asarray(X)
        if values.dtype.kind == "O":
            if text := [value for value in values.flat if isinstance(value, (str, bytes))]:
                raise ValueError(f"text, {text[0][:40]!r}, which is to be converted first")  # float() would take 1_0
            values = values.astype(np.float64)
    except TypeError as error:  # scikit-learn's own wording ("argument must be a string or a number") passes through
        raise TypeError(f"X must be numeric: {error}; convert it to numbers first") from error
    except (ValueError, RuntimeError) as error:
        raise InputError("X", "be a matrix of numbers", f"{type(X).__name__} ({error})") from error
    check_matrix(values.shape, values.dtype)
    return Table(Dense(values), check_feature_names(feature_names, values.shape[1]))
