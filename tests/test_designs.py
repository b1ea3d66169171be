"""Classes, strata, subjects and pairs: means and differences against plain loops, and bad designs in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sparsemean._data import as_table, open_file
from sparsemean._data.table import Table
from sparsemean._fit import designs
from sparsemean.errors import InputError

import kinds

RNG = np.random.default_rng(0)
SUBJECTS = np.repeat([f"s{k:02}" for k in range(12)], [5, 9, 7, 6, 5, 8, 11, 5, 6, 7, 8, 9])[RNG.permutation(86)]
CODES = np.array([int(name[1:]) % 2 for name in SUBJECTS])
X = np.where(RNG.random((86, 11)) < 0.4, RNG.lognormal(size=(86, 11)), 0.0).round(10)
"""Of ten decimals, which doubles hold: what is made of them is rounded to no more."""


def order_of(labels: np.ndarray) -> list[str]:
    return list(dict.fromkeys(labels.tolist()))


def expected_means(values: np.ndarray) -> np.ndarray:
    out = []
    for name in order_of(SUBJECTS):
        rows, total = values[np.asarray(SUBJECTS) == name], np.zeros(values.shape[1])
        for row in rows:
            total = total + row
        out.append(total / len(rows))
    return np.array(out)


def one_line(error: pytest.ExceptionInfo[InputError], line: str) -> None:
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)
    assert ";" in str(error.value)  # the way out


def test_classes_are_sorted_and_numbered() -> None:
    classes, codes = designs.classes_of(pd.Series(["b", "a", "c", "a", "b", "c"]), 6)
    assert classes.tolist() == ["a", "b", "c"]
    assert codes.tolist() == [1, 0, 2, 0, 1, 2]
    assert designs.classes_of([True, False, True, False], 4)[0].tolist() == [False, True]
    assert designs.classes_of(np.array([0.5, 1.5, 0.5, 1.5]), 4)[0].tolist() == [0.5, 1.5]
    assert designs.classes_of(np.repeat(np.arange(30.0), 2), 60)[0].size == 30


MEASURED = np.random.default_rng(0).normal(size=60)
BAD_CLASSES = [
    (["a"] * 60, "y must have two classes or more: got one class (a)"),
    (["a"] * 59 + ["b"], "y must have two rows or more of each class: got one row of class 'b'; drop such rows"),
    (["a"] * 57 + ["b", "c", "d"], "y must have two rows or more of each class: got one row of classes 'b', 'c', 'd'"),
    (["a"] * 30, "y must have one label for each of the 60 rows of X: got 30 labels"),
    (["a"] * 30 + ["b"] * 29 + [None], "y must have no missing labels: got a missing one at row 59; drop such rows"),
    (MEASURED, "y must be labels, each shared by several rows: got 60 different values in 60 rows"),
    (np.tile(MEASURED[:25], 3)[:60], "y must be labels, each shared by several rows: got 25 different values in 60"),
    (
        np.arange(60),
        "y must be labels, each shared by several rows: got 60 different values in 60 rows (0, 1, 2, 3, …)",
    ),
    (np.zeros((60, 2)), "y must have one label for each of the 60 rows of X: got another shape"),
]


@pytest.mark.parametrize(("y", "line"), BAD_CLASSES, ids=range(len(BAD_CLASSES)))
def test_bad_classes_get_one_line(y: Any, line: str) -> None:
    with pytest.raises(InputError) as error:
        designs.classes_of(y, 60)
    one_line(error, line)


def test_strata_are_numbered_and_need_two_classes_each() -> None:
    codes = np.array([0, 1, 2, 0, 1, 1])
    assert designs.check_strata(["n", "n", "s", "s", "s", "n"], codes).tolist() == [0, 0, 1, 1, 1, 0]
    with pytest.raises(InputError) as error:
        designs.check_strata(["n", "n", "s", "s", "w", "w"], codes, "--strata site")
    one_line(
        error, "--strata site must have rows of two classes or more in each stratum: got rows of one class only in "
        "stratum 'w'; drop those rows, or merge strata",
    )  # fmt: skip
    with pytest.raises(InputError, match="strata must have no missing labels: got a missing one at row 2"):
        designs.check_strata(["n", "n", None, "s", "w", "w"], codes)
    with pytest.raises(InputError, match="strata must have one label for each of the 6 rows of X: got 2 labels"):
        designs.check_strata(["n", "n"], codes)


@pytest.mark.parametrize("kind", kinds.OBJECTS)
def test_means_of_subjects_are_those_of_a_loop_for_every_object(kind: str) -> None:
    table, codes, notes, draws = designs.subject_means(as_table(kinds.OBJECTS[kind](X)), CODES, SUBJECTS)
    np.testing.assert_array_equal(table.values, expected_means(X))
    assert table.row_names is not None
    assert table.row_names.tolist() == order_of(SUBJECTS)
    assert codes.tolist() == [int(name[1:]) % 2 for name in table.row_names]
    assert notes == ["subjects are compared, not rows: the means of all rows of 12 subjects, 5 to 11 rows of each"]
    assert draws == ()


@pytest.mark.parametrize("kind", ["npy", "npy by columns", "parquet", "h5ad CSR", "h5ad CSC", "zarr", "csv"])
def test_means_of_subjects_of_files(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(designs, "AT_ONCE", 8 * 86 * 3)
    table, *_ = designs.subject_means(open_file(kinds.written(kind, tmp_path, X)), CODES, SUBJECTS)
    np.testing.assert_array_equal(table.values, expected_means(X))
    if kind == "parquet":
        assert table.feature_names is not None
        assert table.feature_names.tolist() == kinds.names(11)


def test_means_and_differences_of_dask() -> None:
    import dask.array

    array = dask.array.from_array(X, chunks=(20, 4))
    table, *_ = designs.subject_means(as_table(array), CODES, SUBJECTS)
    np.testing.assert_array_equal(table.values, expected_means(X))
    table, *_ = designs.pair_differences(as_table(array), *paired())
    np.testing.assert_array_equal(table.values, differences(X))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_mean_is_of_the_values_there_are(form: Any) -> None:
    gappy = X.copy()
    gappy[RNG.random(X.shape) < 0.2] = np.nan
    gappy[SUBJECTS == "s03", 4] = np.nan
    table, _, notes, _ = designs.subject_means(as_table(form(gappy)), CODES, SUBJECTS, missing="omit")
    sums, there = expected_means(np.nan_to_num(gappy)), expected_means(~np.isnan(gappy) * 1.0)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(table.values, sums / there, rtol=1e-15)
    assert np.flatnonzero(np.isnan(table.values[:, 4])).tolist() == [order_of(SUBJECTS).index("s03")]
    assert any("values are missing" in note for note in notes)
    with pytest.raises(InputError, match=r"X must not contain NaN or infinity: got NaN in column 0, row \d+"):
        designs.subject_means(as_table(form(gappy)), CODES, SUBJECTS)
    gappy[7, 2] = np.inf
    with pytest.raises(InputError, match="X must not contain infinity: got infinity in column 2, row 7"):
        designs.subject_means(as_table(form(gappy)), CODES, SUBJECTS, missing="omit")


def test_drawing_takes_each_row_of_a_subject_as_often() -> None:
    units = np.repeat([0, 1], [4, 10])[np.random.default_rng(1).permutation(14)]
    taken = np.zeros(14)
    for seed in range(2000):
        rows = designs.drawn(units, 4, seed)
        assert (units[rows] == [[0], [1]]).all()
        taken[rows.ravel()] += 1
    assert (taken[units == 0] == 2000).all()
    np.testing.assert_allclose(taken[units == 1], 800, atol=5 * np.sqrt(2000 * 0.24))


def test_numbers_of_rows_that_differ_between_classes_are_said_and_made_equal() -> None:
    counts = [5] * 10 + [200] * 10
    subjects, codes = np.repeat(np.arange(20), counts), np.repeat([0, 1], [50, 2000])
    values = np.random.default_rng(0).poisson(3.0, (2050, 4)).astype(float)
    found = designs.subject_means(as_table(values), codes, subjects, classes=np.array(["old", "new"]))
    assert found.notes[0].startswith("THE NUMBER OF ROWS A SUBJECT HAS DIFFERS between the classes (Mann–Whitney p = 1")
    assert "medians 5 in 'old', 200 in 'new'" in found.notes[0]
    assert len(found.draws) == designs.DRAWS
    each = np.array([np.asarray(draw.source.take(np.arange(4))) for draw in found.draws])
    assert (each[:, :10] == found.table.values[:10]).all()  # all five rows of the small ones
    assert (each[:, 10:].std(axis=0) > 0).all()
    assert set(np.round(5 * each, 9).ravel() % 1) == {0.0}
    three = np.where(subjects > 14, 2, codes)
    assert any("Kruskal–Wallis" in note for note in designs.subject_means(as_table(values), three, subjects).notes)
    mixed = np.repeat(np.arange(20) % 2, counts)
    assert designs.subject_means(as_table(values), mixed, subjects).draws == ()


def test_counts_are_pooled_and_thinned_where_totals_differ() -> None:
    rng = np.random.default_rng(1)
    subjects, codes = np.repeat(np.arange(40), 10), np.repeat([0, 1], 200)
    values = rng.poisson(2.0, (400, 30)).astype(float)
    found = designs.subject_means(as_table(values), codes, subjects, counts=True)
    sums = np.array([values[subjects == k].sum(axis=0) for k in range(40)])
    np.testing.assert_allclose(found.table.values, np.log2(1 + 1e6 * sums / sums.sum(axis=1, keepdims=True)))
    assert "of the counts of all rows of 40 subjects, 10 rows of each" in found.notes[0]
    assert found.draws == ()
    deep = values * np.where(codes == 1, 3, 1)[:, None]
    thinned = designs.subject_means(as_table(deep), codes, subjects, counts=True)
    assert thinned.notes[0].startswith("THE NUMBER OF COUNTS THAT A SUBJECT HAS IN ALL DIFFERS between the classes")
    assert len(thinned.draws) == designs.DRAWS


def test_bad_subjects_get_one_line() -> None:
    table = as_table(X)
    both = CODES.copy()
    both[np.flatnonzero(SUBJECTS == "s03")[0]] = 0
    with pytest.raises(InputError) as error:
        designs.subject_means(table, both, SUBJECTS, argument="--subject donor")
    one_line(
        error, "--subject donor must have all rows of a subject in one class: got rows of subject 's03' in several"
    )
    assert "pairs=" in str(error.value)
    with pytest.raises(InputError) as error:
        designs.subject_means(table, (SUBJECTS == "s03") * 1, SUBJECTS, classes=np.array(["a", "b"]))
    one_line(error, "groups must name two subjects or more of each class: got one subject of class 'b'; drop")
    with pytest.raises(InputError, match="groups must have one label for each of the 86 rows of X: got 3 labels"):
        designs.subject_means(table, CODES, ["a", "b", "c"])
    with pytest.raises(InputError, match="groups must have no missing labels: got a missing one at row 5"):
        designs.subject_means(table, CODES, [None if row == 5 else name for row, name in enumerate(SUBJECTS)])


def test_a_subject_lies_in_one_stratum() -> None:
    strata = np.array([int(name[1:]) // 6 for name in SUBJECTS])
    own = designs.strata_of_subjects(strata, SUBJECTS)
    assert own.tolist() == [int(name[1:]) // 6 for name in order_of(SUBJECTS)]
    strata[np.flatnonzero(SUBJECTS == "s03")[0]] = 1
    with pytest.raises(InputError) as error:
        designs.strata_of_subjects(strata, SUBJECTS)
    one_line(error, "strata must have all rows of a subject in one stratum: got rows of subject 's03' in several; drop")


PERMUTED = np.random.default_rng(5).permutation(86)


def paired() -> tuple[np.ndarray, np.ndarray]:
    """Return the classes and the pairs of 86 rows in any order."""
    return np.repeat([0, 1], 43)[PERMUTED], np.tile(np.arange(43), 2)[PERMUTED]


def differences(values: np.ndarray) -> np.ndarray:
    codes, pairs = paired()
    rows = [[np.flatnonzero((codes == code) & (pairs == pair))[0] for code in (0, 1)] for pair in order_of(pairs)]
    return np.array([values[second] - values[first] for first, second in rows]).round(10)


@pytest.mark.parametrize("kind", kinds.OBJECTS)
def test_differences_of_pairs_are_label_minus_reference(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(designs, "AT_ONCE", 8 * 86 * 3)
    codes, pairs = paired()
    table, notes = designs.pair_differences(as_table(kinds.OBJECTS[kind](X)), codes, pairs)
    np.testing.assert_array_equal(table.values, differences(X))
    assert table.row_names is not None
    assert table.row_names.tolist() == [str(pair) for pair in order_of(pairs)]
    assert notes == ["differences within 43 pairs are tested: a pair is bad if either of its rows is"]
    assert table.source.sparse == (kind in ("CSR", "CSC", "COO", "AnnData CSR"))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_difference_with_a_missing_member_is_missing(form: Any) -> None:
    gappy = X.copy()
    gappy[RNG.random(X.shape) < 0.2] = np.nan
    table, *_ = designs.pair_differences(as_table(form(gappy)), *paired(), missing="omit")
    np.testing.assert_array_equal(table.values, differences(gappy))
    with pytest.raises(InputError, match="X must not contain NaN or infinity"):
        designs.pair_differences(as_table(form(gappy)), *paired())


def test_integers_do_not_wrap_round() -> None:
    table: Table = as_table(np.array([[200], [100]], dtype=np.uint8))
    out, *_ = designs.pair_differences(table, np.array([0, 1]), ["p", "p"])
    assert out.values.tolist() == [[-100.0]]


def test_bad_pairs_get_one_line() -> None:
    table, (codes, pairs) = as_table(X), paired()
    single = np.where(pairs == 7, np.where(codes == 1, 99, 7), pairs)
    triple = np.where((pairs == 9) & (codes == 0), 8, np.where((pairs == 9) & (codes == 1), 100, pairs))
    for wrong, line in (
        (single, "pairs must have two rows a pair, one of each class: got 1 row of pair "),
        (triple[triple != 100], "pairs must have two rows a pair, one of each class: got 3 rows of pair 8; average"),
    ):
        rows = np.isin(np.arange(86), np.flatnonzero(triple != 100)) if wrong.size < 86 else np.ones(86, dtype=bool)
        with pytest.raises(InputError) as error:
            designs.pair_differences(as_table(X[rows]), codes[rows], wrong)
        one_line(error, line)
    alike = codes.copy()
    alike[pairs == 4] = 1
    with pytest.raises(InputError) as error:
        designs.pair_differences(table, alike, pairs)
    one_line(error, "pairs must have two rows a pair, one of each class: got both rows of pair 4 in one class; drop")
    three = np.where(pairs == 4, 2, codes)
    with pytest.raises(InputError) as error:
        designs.pair_differences(table, three, pairs, classes=np.array(["a", "b", "c"]))
    one_line(error, "pairs must come with two classes: got 3 classes (a, b, c); keep the rows of two classes")
