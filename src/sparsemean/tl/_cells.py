"""Cells that are compared: groups of them, or donors, and donors that are compared with themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sparsemean._data.source import Dense, as_dense
from sparsemean._data.table import Names, Table, as_names
from sparsemean._evidence.ranks import REST, Contrast
from sparsemean._fit import suspects, two_sample
from sparsemean._fit.designs import Labels, alone_in, classes_of, in_order, in_place_of, labels_of, pieces
from sparsemean._kernels.rounding import on_grid
from sparsemean._stats.planning import MIN_ROWS
from sparsemean._util.checks import list_names, pluralize
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array

    from sparsemean._data.source import Block

UNLABELLED = "(no label)"
"""What cells without a label are taken for."""
NAMED = 3
"""Donors or cells that a message names."""
HALF = 0.5
"""Share of donors and cells below which those with both sides are strays, and of cells below which few are used."""


@dataclass(frozen=True, slots=True, eq=False)
class Tests:
    """Which groups are compared: their labels, sorted, the number of each cell's, and the tests that are made."""

    labels: Labels | pd.Series
    classes: Labels
    codes: IntArray
    shown: tuple[int, ...]
    """The groups that are listed, in the order of the categories."""
    reference: int
    contrasts: tuple[Contrast, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, labels: pd.Series, reference: object, groups: str | Iterable[object]) -> Tests:
        """Check what is compared; cells without a label, and labels of one cell, are part of the rest alone."""
        missing = labels.isna().to_numpy()
        given = np.where(missing, UNLABELLED, labels.astype(str)) if missing.any() else labels
        classes, codes = classes_of(given, len(labels), "groupby", needed=())
        places = {str(label): place for place, label in enumerate(classes.tolist()) if label != UNLABELLED}
        sizes = np.bincount(codes)
        several = {name: place for name, place in places.items() if sizes[place] > 1}
        against = REST if reference == two_sample.REST_NAME else _place(several, places, reference, "reference")
        notes = []
        if missing.any():
            rest = "part of the rest, as in scanpy" if against == REST else "left out"
            notes.append(f"{pluralize(int(missing.sum()), 'cell')} without a label: {rest}")
        if not isinstance(groups, str):
            shown = [_place(several, places, label, "groups") for label in groups]
        elif groups == "all":
            categories = getattr(getattr(labels, "cat", None), "categories", classes)
            shown = [several[name] for name in map(str, categories) if name in several]
            if alone := sorted(places.keys() - several.keys()):
                notes.append(f"not tested, as there is one cell of each: {list_names(alone)}")
        else:
            raise InputError("groups", "be 'all' or a list of labels", repr(groups), f"pass [{groups!r}]")
        shown = [place for place in dict.fromkeys(shown) if place != against]
        if not shown:
            raise InputError("groups", "name a group besides the reference", repr(groups))
        order = reference if against == REST else classes[against]
        contrasts = two_sample.contrasts_of(classes, tuple(sizes.tolist()), order, only=classes[shown].tolist())
        return cls(given, classes, codes, tuple(shown), against, contrasts, tuple(notes))

    @property
    def sides(self) -> list[IntArray]:
        """Which side of each test every cell is on, see `suspects.sides_of`."""
        return [suspects.sides_of(self.codes, contrast) for contrast in self.contrasts]

    def name(self, group: int) -> str:
        """Return the name of a group, as scanpy has it."""
        return str(self.classes[group])

    def other(self, group: int) -> IntArray:
        """Return the groups that one is compared with."""
        everything = np.arange(self.classes.size)
        return everything[everything != group] if self.reference == REST else everything[[self.reference]]


def _place(several: dict[str, int], places: dict[str, int], label: object, argument: str) -> int:
    """Return the number of a label, of which there must be ``several`` cells."""
    if str(label) not in places:
        raise InputError(argument, f"name groups ({list_names(list(places))})", repr(label), "check its spelling")
    if str(label) not in several:
        raise InputError(argument, "name groups of two cells or more", f"{label!r} with one", "leave it out")
    return places[str(label)]


@dataclass(frozen=True, slots=True, eq=False)
class CellDesign:
    """The cells that are compared: their numbers, labels by argument, and what there is to say of those left out."""

    labels: dict[str, pd.Series]
    asked: tuple[object, str | Iterable[object]]
    kept: IntArray
    tests: Tests
    crossed: bool = False
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, labels: dict[str, pd.Series], asked: tuple[object, str | Iterable[object]], names: Names, min_cells: int
    ) -> CellDesign:
        """Leave out the cells that donors and batches are not compared by; ``asked`` is the reference and groups."""
        design = cls(labels, asked, np.arange(names.size), Tests.of(labels["groupby"], *asked))
        if len(labels) > 1:
            design = design._without_others()
        if "donors" not in labels:
            return design._without_lone_batches()
        tests = design.tests
        if are_crossed(design.labels["donors"], tests.codes, tests.sides, names[design.kept]):
            return replace(design, crossed=True)
        small, note = small_donors(design.labels["donors"], min_cells)
        return design._without(small, note, "min_cells")._without_lone_batches()

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of cells that are not compared, or not tested."""
        return (*self.left_out, *self.tests.notes)

    def _without(self, out: npt.NDArray[np.bool_], note: str, argument: str) -> CellDesign:
        """Leave some of the cells out, and say so unless ``note`` is empty."""
        if not out.any():
            return self
        if out.all():
            raise InputError(argument, "leave cells to compare", f"none: {note}", f"leave out {argument}=")
        labels = {name: column[~out] for name, column in self.labels.items()}
        tests = Tests.of(labels["groupby"], *self.asked)
        return replace(
            self, labels=labels, kept=self.kept[~out], tests=tests, left_out=(*self.left_out, *([note] if note else []))
        )

    def _without_others(self) -> CellDesign:
        """Leave out labels that are in no test, and cells of donors without any, which are on neither side."""
        tests = self.tests
        needed = np.full(tests.classes.size, tests.reference == REST)
        needed[[*tests.shown, *([] if tests.reference == REST else [tests.reference])]] = True
        unlabelled = tests.classes[tests.codes] == UNLABELLED
        out = ~needed[tests.codes] | (unlabelled & ("donors" in self.labels))
        number = int(np.sum(unlabelled & out))
        return self._without(out, f"{pluralize(number, 'cell')} without a label: left out" if number else "", "groups")

    def _without_lone_batches(self) -> CellDesign:
        """Leave out batches with cells of one group, within which there is nothing to compare."""
        if "batch" not in self.labels:
            return self
        names, numbers = labels_of(self.labels["batch"], self.kept.size, "batch")
        alone = alone_in(numbers, self.tests.codes)
        of_all = f"{int(alone.sum()):,} of {names.size:,} values of batch ({list_names(names[alone], 3)})"
        have = "has" if alone.sum() == 1 else "have"
        return self._without(alone[numbers], f"{of_all} {have} cells of one group only: left out", "batch")


# Donors: whether they have cells on both sides.


def are_crossed(donors: object, codes: IntArray, sides: Sequence[IntArray], cells: Names) -> bool:
    """Whether donors have cells on both sides of a test, which most of them must have, or none.

    A few cells of the wrong label would else turn groups of donors into donors compared with themselves, and leave out
    all donors but those who own these cells.
    """
    names, units = in_order(*labels_of(donors, codes.size, "donors"))
    both: npt.NDArray[np.bool_] = np.asarray(_both(sides, units).any(axis=0))
    if not both.any() or (both.mean() >= HALF and both[units].mean() >= HALF):
        return bool(both.any())
    counts = np.zeros((names.size, int(codes.max()) + 1), dtype=np.intp)
    np.add.at(counts, (units, codes), 1)
    stray = cells[both[units] & (codes != counts.argmax(axis=1)[units])]
    received = (
        f"{int(both.sum()):,} of {pluralize(names.size, 'donor')} with cells of several groups "
        f"({list_names(names[both], NAMED)}), by {pluralize(stray.size, 'cell')} off their donor's main group "
        f"({list_names(stray, NAMED)})"
    )
    advice = (
        f"drop {'this cell' if stray.size == 1 else 'these cells'} to compare groups of donors, or the "
        f"{pluralize(int(np.sum(~both)), 'donor')} of one group to compare donors with themselves"
    )
    raise InputError("donors", "have one group each, or both sides in half of all donors and cells", received, advice)


def _both(sides: Sequence[IntArray], units: IntArray) -> npt.NDArray[np.bool_]:
    """Return whether each donor has cells on both sides, a row for each test."""
    n = int(units.max()) + 1
    low, high = ([np.bincount(units[side == which], minlength=n) > 0 for side in sides] for which in (0, 1))
    return np.array(low) & np.array(high)


def small_donors(donors: pd.Series, min_cells: int) -> tuple[npt.NDArray[np.bool_], str]:
    """Return the cells of donors that have fewer than ``min_cells``, and a note on these donors."""
    names, units = in_order(*labels_of(donors, len(donors), "donors"))
    small = np.bincount(units) < min_cells
    return small[units], f"{_listed(names[small])} fewer than {min_cells:,} cells: left out"


# Donors with cells on both sides: they are compared with themselves.


def differences_within(
    table: Table,
    sides: Sequence[IntArray],
    donors: object,
    *,
    batch: object = None,
    seed: int = 0,
    missing: str = "raise",
    min_cells: int = 1,
) -> tuple[Table, list[str], list[str]]:
    """Return a row a donor, for one test after the other the mean of its label less that of its reference; and notes.

    ``sides`` has for each test 1 for cells of the label, 0 for those of the reference and 2 for others. Both means are
    of as many cells, in each batch of a donor, drawn by ``seed``: where nothing differs the two sides may then be
    exchanged, and their difference is symmetric about zero, whatever else is peculiar to the donor. It is NaN for
    donors that have fewer than ``min_cells`` of a side. Features have no names: there are those of the table for every
    test. The second list of notes is of those that are worth a warning.
    """
    n, d = table.shape
    names, units = in_order(*labels_of(donors, n, "donors"))
    blocks = units
    if batch is not None:
        batches = labels_of(batch, n, "batch")[1]
        blocks = np.unique(units * (batches.max() + 1) + batches, return_inverse=True)[1].astype(np.intp)
    weights, numbers = _balanced(sides, units, blocks, seed)
    enough = numbers >= min_cells
    some = enough.any(axis=0)
    if some.sum() < MIN_ROWS:
        least = "" if min_cells == 1 else f"{min_cells:,} "
        rule = f"name at least {MIN_ROWS} donors with {least}cells on both sides"
        lower = "lower min_cells=, " if min_cells > 1 else ""
        advice = f"{lower}pass the column as batch= in place of donors= to speak of these donors alone, or add donors"
        raise InputError("donors", rule, int(some.sum()), advice)
    out = np.empty((len(sides), names.size, d))
    for first, block in pieces(table, skip_missing=missing == "omit"):
        within = _means_apart(weights, numbers.ravel(), on_grid(block, table.source.grid))
        out[:, :, first : first + block.shape[1]] = within.reshape(len(sides), names.size, -1)
    out[~enough] = np.nan
    values = out[:, some].swapaxes(0, 1).reshape(int(some.sum()), -1)
    found = replace(in_place_of(table, Dense(values), as_names(names[some].tolist())), feature_names=None)
    used = int((numbers * enough).sum(axis=1).max())
    notes = [
        f"{int(some.sum()):,} donors are compared with themselves: the means of as many cells of either side, "
        f"{2 * used:,} of {n:,} cells at most in one test, drawn by the seed; a mean other than 0 is a difference"
    ]
    small = (numbers > 0).any(axis=0) & ~some
    if small.any():
        notes.append(f"{_listed(names[small])} fewer than {min_cells:,} cells on a side: left out")
    return found, notes, [*_one_sided(names, numbers), *_few_used(sides, units, numbers)]


def _listed(names: Labels) -> str:
    """Name donors, as the beginning of what they have."""
    return f"{pluralize(names.size, 'donor')} ({list_names(names, NAMED)}) {'has' if names.size == 1 else 'have'}"


def _one_sided(names: Labels, numbers: FloatArray) -> list[str]:
    """Say which donors cannot be compared with themselves."""
    out = names[~(numbers > 0).any(axis=0)]
    paired = names.size - out.size
    return [f"{_listed(out)} cells on one side only: left out, as {paired:,} others are compared with themselves"] * (
        out.size > 0
    )


def _few_used(sides: Sequence[IntArray], units: IntArray, numbers: FloatArray) -> list[str]:
    """Say so where donors have so uneven sides that little of the smaller one is used."""
    pairs = zip(sides, numbers[:, units] > 0, strict=True)
    smaller = np.array([np.bincount(side[there], minlength=2)[:2].min() for side, there in pairs])
    used = numbers.sum(axis=1)
    worst = int(np.argmin(used / np.maximum(smaller, 1)))
    if used[worst] >= HALF * smaller[worst]:
        return []
    return [
        f"{int(used[worst]):,} of {smaller[worst]:,} cells of the smaller side are used, as donors have many cells on "
        "one side and few on the other: check that these few are not mislabelled; min_cells= leaves such donors out"
    ]


def _means_apart(weights: csr_array, numbers: FloatArray, block: Block) -> FloatArray:
    """Return the mean of rows of weight 1 less that of rows of weight −1, of the values that are there; NaN without."""
    missing = np.isnan(block if isinstance(block, np.ndarray) else block.data).any()
    with np.errstate(invalid="ignore", divide="ignore"):
        if missing:
            values = as_dense(block).astype(np.float64)
            there, values = ~np.isnan(values), np.nan_to_num(values, nan=0.0)
            high, low = ((half @ values) / (half @ there) for half in (weights.maximum(0.0), (-weights).maximum(0.0)))
            return np.asarray(high - low)
        sums = weights @ block.astype(np.float64)
        dense = sums if isinstance(sums, np.ndarray) else sums.toarray()
        return np.asarray(dense / np.where(numbers > 0, numbers, np.nan)[:, np.newaxis])


def _balanced(sides: Sequence[IntArray], units: IntArray, blocks: IntArray, seed: int) -> tuple[csr_array, FloatArray]:
    """Return 1 and −1 for as many rows of either side in every block, a line for each subject in each test.

    The second array has how many rows of a side a subject has, a row for each test.
    """
    from scipy.sparse import csr_array, vstack

    n, n_units, n_blocks = units.size, int(units.max()) + 1, int(blocks.max()) + 1
    lottery, weights, numbers = np.random.default_rng(seed).random(n), [], []
    for side in sides:
        rows = np.flatnonzero(side < 2)
        cell = 2 * blocks[rows] + side[rows]
        order = np.lexsort((lottery[rows], cell))
        counts = np.bincount(cell, minlength=2 * n_blocks)
        place = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
        fewer = counts.reshape(-1, 2).min(axis=1)
        drawn_rows = np.sort(rows[order[place < np.repeat(fewer, 2).repeat(counts)]])
        at = units[drawn_rows], drawn_rows
        weights.append(csr_array((2.0 * side[drawn_rows] - 1.0, at), shape=(n_units, n)))
        numbers.append(np.bincount(units[drawn_rows], minlength=n_units) / 2.0)
    return vstack(weights, format="csr"), np.stack(numbers)
