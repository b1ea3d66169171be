"""How often a source is read, in which shape, and that every way of reading gives the same answer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from sparsemean import simulate
from sparsemean._data import as_table, source
from sparsemean._data.source import Along, Array, Dense, Source
from sparsemean._data.table import Table
from sparsemean._evidence.counting import engines
from sparsemean._evidence.signed_ranks import SignedRankEvidence
from sparsemean._fit.one_sample import fit, prepare
from sparsemean._fit.two_sample import compare
from sparsemean._kernels import reference
from sparsemean._stats import signed_ranks
from sparsemean.result import Estimate

DATA = simulate.make_contaminated(1030, 200, [10, -5, -4, 2], random_state=0)
SAME = ("support", "p_values", "p_adjusted", "q_values", "radius", "mean", "intervals", "entry_time", "beta")
CERTIFIED: dict[str, Any] = {"refine": None, "screen_rows": False}


class Spy(Source):
    """Counts the values that are asked for and keeps the shapes."""

    def __init__(self, values: Array, along: Along, grain: int = 1) -> None:
        self.inner, self.shape, self.dtype = Dense(values), values.shape, values.dtype
        self.along, self.grain, self.shapes = along, grain, list[tuple[int, int]]()

    def block(self, rows: slice, columns: slice) -> Array:
        assert rows.step is None
        assert 0 <= rows.start < rows.stop <= self.shape[0]
        assert 0 <= columns.start < columns.stop <= self.shape[1]
        if self.along == "rows" and columns == slice(0, self.shape[1]) and self.grain > 1:
            assert rows.start % self.grain == 0
            assert rows.stop % self.grain == 0 or rows.stop == self.shape[0]
        self.shapes.append((rows.stop - rows.start, columns.stop - columns.start))
        return self.inner.block(rows, columns)

    @property
    def reads(self) -> float:
        """How often all values were asked for, on average."""
        return sum(n * d for n, d in self.shapes) / (self.shape[0] * self.shape[1])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (source, engines):
        monkeypatch.setattr(module, "AT_ONCE", 200_000)
    monkeypatch.setattr(engines, "SWEPT_AT_ONCE", 800_000)


def spied(along: Along, grain: int = 1, dtype: str = "float64") -> tuple[Table, Spy]:
    spy = Spy(DATA.X.astype(dtype), along, grain)
    return Table(spy), spy


@pytest.mark.parametrize("grain", [1, 50, 77, 1000])
@pytest.mark.parametrize("along", ["rows", "columns"])
def test_a_certified_fit_reads_once_and_the_support_again(along: Along, grain: int) -> None:
    table, spy = spied(along, grain)
    found = fit(table, contamination=0.1, random_state=0, test="buckets", **CERTIFIED)
    assert found.support.tolist() == [0, 1, 2, 3]
    assert spy.reads <= 1 + 4 / 200


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_ranks_read_again_what_passes_their_filter_and_nothing_more_for_values(
    along: Along, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is one: a small table is kept as it comes by, and all its features are ranked."""
    table, spy = spied(along)
    found = fit(table, contamination=0.1, random_state=0, **CERTIFIED)
    assert found.plan.test == "ranks"
    assert spy.reads <= 1 + 4 / 200
    monkeypatch.setattr(signed_ranks, "ALL_RANKED", 0)
    table, spy = spied(along)
    filtered = fit(table, contamination=0.1, random_state=0, **CERTIFIED)
    assert isinstance(filtered.decision.evidence, SignedRankEvidence)
    ranked = filtered.decision.evidence.features
    assert 4 <= ranked.size <= 100
    assert spy.reads <= 1 + (ranked.size + 4) / 200
    np.testing.assert_array_equal(filtered.support, found.support)
    np.testing.assert_array_equal(filtered.p_values[[0, 1, 2, 3]], found.p_values[[0, 1, 2, 3]])
    off = np.setdiff1d(np.arange(200), ranked)
    np.testing.assert_array_equal(filtered.p_values[off], 1)


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_screening_reads_once_more_where_rows_were_rejected(along: Along) -> None:
    table, spy = spied(along)
    found = fit(table, contamination=0.1, random_state=0, test="buckets")
    assert found.uncertified is not None
    assert spy.reads <= 2 + 4 / 200
    clean = Spy(np.random.default_rng(0).standard_normal((500, 5000)), along)
    nothing = fit(Table(clean), contamination=0.1, random_state=0, test="buckets")
    assert nothing.uncertified is None
    assert clean.reads == 1


@pytest.mark.parametrize("grain", [1, 50, 64, 1000])
@pytest.mark.parametrize("along", ["rows", "columns"])
def test_no_piece_is_large(along: Along, grain: int) -> None:
    table, spy = spied(along, grain)
    fit(table, contamination=0.1, random_state=0, **CERTIFIED)
    row, column = 200 * 8, 1030 * 8
    allowed = max(1_000_000, grain * (row if along == "rows" else column))
    assert max(n * d * 8 for n, d in spy.shapes) <= allowed
    assert len(spy.shapes) > 2 or grain == 1000


OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "null": {"null": np.where(np.arange(200) < 12, 0.5, 0.0)},
    "paper": {"selection": "paper", "min_selected": 2},
    "one size": {"n_buckets": 100},
    "subjects": {"groups": np.arange(1030) // 3},
    "mean": {"target": "mean", "scale": 4.0, "contamination": 0.01},
    "float32": {},
}


def fitted(table: Table, name: str) -> Estimate:
    return fit(table, **{"contamination": 0.1, "random_state": 3, **OPTIONS[name]})


@cache
def in_memory(name: str) -> Estimate:
    return fitted(as_table(DATA.X.astype("float32" if name == "float32" else "float64")), name)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize(("along", "grain"), [("rows", 1), ("rows", 77), ("columns", 1), ("columns", 50)])
def test_every_way_of_reading_gives_the_same_answer(along: Along, grain: int, name: str) -> None:
    expected = in_memory(name)
    found = fitted(spied(along, grain, "float32" if name == "float32" else "float64")[0], name)
    assert_same(found, expected)
    np.testing.assert_array_equal(found.rows.suspects, expected.rows.suspects)
    assert (found.uncertified is None) == (expected.uncertified is None)


SUBSETS: dict[str, dict[str, Any]] = {
    "rows": {},
    "null": {"null": 0.5},
    "sizes": {"bucket_sizes": (2, 8)},
    "subjects": {"groups": np.arange(1030) // 3},
    "gaps": {"missing": "omit"},
    "float32": {},
}


@pytest.mark.parametrize("name", SUBSETS)
@pytest.mark.parametrize("share", [0.002, 0.03, 0.3])
@pytest.mark.parametrize(("along", "grain"), [("rows", 1), ("rows", 50), ("rows", 77), ("columns", 1)])
def test_counts_of_the_rows_left_are_those_of_their_buckets(along: Along, grain: int, share: float, name: str) -> None:
    """Of memory, and of a source that is read in pieces."""
    rng = np.random.default_rng(5)
    X = rng.integers(-3, 4, size=(1030, 40)).astype("float32" if name == "float32" else float)
    X[rng.random(X.shape) < 0.2] = np.nan if name == "gaps" else -0.0
    options = {"random_state": 3, "n_jobs": 1, "device": None, **SUBSETS[name]}
    data, _ = prepare(as_table(X), **options)
    kept = np.flatnonzero(rng.random(data.plan.n_units) >= share)
    rows = kept.size if data.units is None else int(np.isin(data.units, kept).sum())
    subset = data.subset(replace(data.plan, n_rows=rows, n_units=kept.size), kept)
    found, _ = subset.count()
    expected = reference.count_signs(X, subset.buckets.partition, null=data.buckets.null, missing=name == "gaps")
    pieces, _ = prepare(Table(Spy(X, along, grain)), **options)
    streamed, _ = pieces.subset(subset.plan, kept).count()
    for counts in (found, streamed):
        np.testing.assert_array_equal(counts.positive, expected.positive)
        np.testing.assert_array_equal(counts.negative, expected.negative)
        assert counts.n_buckets == expected.n_buckets
        if expected.present is not None:
            np.testing.assert_array_equal(counts.present, expected.present)
            np.testing.assert_array_equal(counts.missing, np.isnan(X[subset.buckets.partition.order]).sum(axis=0))


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_two_groups_give_the_same_answer(along: Along) -> None:
    labels = np.arange(1030) % 2
    found, expected = (compare(table, labels).results[1] for table in (spied(along)[0], as_table(DATA.X)))
    assert_same(found, expected)


def assert_same(found: Estimate, expected: Estimate) -> None:
    for name in SAME:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_the_place_of_a_value_that_is_not_finite_is_named(along: Along) -> None:
    X = DATA.X.copy()
    X[700, 150] = np.inf
    table = replace(Table(Spy(X, along)), feature_names=np.array([f"f{i}" for i in range(200)], dtype=object))
    with pytest.raises(ValueError, match=r"infinity in column 150 \('f150'\), row 700"):
        fit(table, random_state=0)


@pytest.mark.parametrize("along", ["rows", "columns"])
@pytest.mark.parametrize("gap", [False, True])
def test_groups_read_the_support_for_values_and_for_suspects(
    along: Along, gap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "SWEPT_AT_ONCE", 100_000_000)
    labels = np.arange(1030) % 2
    X = DATA.X.copy()
    X[labels == 1, :30] += 5.0
    if gap:
        X[5, :60] = np.nan
    spy = Spy(X, along)
    found = compare(Table(spy), labels, missing="omit").results[1]
    assert found.support.size >= 30
    # One of them, of 200 columns at most, tells counts from logs, one, of 1024 at most, what rows are off.
    assert spy.reads <= 3 + 2 * found.support.size / 200
    spy = Spy(X, along)
    more = compare(Table(spy), np.arange(1030) // 2 % 4, missing="omit", contamination=0.0)
    assert spy.reads <= 3 + 2 * sum(estimate.support.size for estimate in more.results.values()) / 200


def test_many_selected_columns_are_read_a_good_many_at_a_time() -> None:
    spy = Spy(np.random.default_rng(0).standard_normal((1000, 300)) + 1.0, "rows")
    found = fit(Table(spy), random_state=0)
    assert found.support.size == 300
    assert spy.reads <= 3
