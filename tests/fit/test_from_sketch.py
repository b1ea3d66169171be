"""What is concluded of sketches is what one fit of all rows finds."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sparsemean import Estimate, InputError, Sketch, load, load_sketch, merge, simulate, sketch, sparse_mean
from sparsemean._data import open_file
from sparsemean._data.source import Array, Dense, Source
from sparsemean._data.table import Table
from sparsemean._fit.write import as_json
from sparsemean._stats import decision
from sparsemean._stats.decision import Holm

import kinds
from agreeing import same_tables

DATA = simulate.make_contaminated(1030, 120, [10, -5, -4, 2], random_state=0)
DECIDED = (
    "support", "p_values", "p_adjusted", "q_values", "radius", "max_contamination", "beta", "bucket_size", "entry_time",
)  # fmt: skip
SEVEN = (0, 1, 130, 256, 300, 301, 900, 1030)


def cut(X: Any, ends: tuple[int, ...] = SEVEN, **options: Any) -> list[Sketch]:
    """Sketch the pieces of X between ``ends``, the last first."""
    return [sketch(X[a:b], first_row=a, **options) for a, b in zip(ends[-2::-1], ends[:0:-1], strict=True)]


def same_decisions(found: Estimate, expected: Estimate) -> None:
    for name in DECIDED:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def same_values(found: Estimate, expected: Estimate, atol: float = 1e-10) -> None:
    same_decisions(found, expected)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=atol)
    np.testing.assert_allclose(found.intervals, expected.intervals, rtol=0, atol=atol)
    np.testing.assert_array_equal(found.skewed, expected.skewed)
    assert found.rows is not None
    assert expected.rows is not None
    np.testing.assert_array_equal(found.rows.suspects, expected.rows.suspects)
    np.testing.assert_array_equal(found.bucket_of_row, expected.bucket_of_row)


def with_oddities() -> Any:
    """Ties, zeros, a column of one value and one without any sign."""
    X = np.round(DATA.X, 1)
    X[:, 50], X[:, 51], X[::2, 52] = 3.0, 0.0, 0.0
    return X


def with_gaps() -> Any:
    X = DATA.X.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    X[:, 60] = np.nan
    return X


CASES: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "plain": (DATA.X, {}, {}),
    "ties, zeros and constants": (with_oddities(), {}, {}),
    "missing": (with_gaps(), {"missing": "omit"}, {}),
    "float32": (DATA.X.astype(np.float32), {}, {}),
    "null": (DATA.X, {"null": 2.0}, {}),
    "other sizes": (DATA.X, {"bucket_sizes": (2, 8)}, {}),
    "fdr": (DATA.X, {}, {"selection": "fdr", "level": 0.2}),
    "not refined": (DATA.X, {}, {"refine": None, "screen_rows": False}),
    "sparse": (sparse.csr_array(np.where(np.abs(DATA.X) > 1, DATA.X, 0.0)), {}, {}),
    "frame": (kinds.frame(DATA.X), {}, {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_seven_pieces_and_five_files_decide_like_one_fit(case: Any, tmp_path: Path) -> None:
    X, counting, deciding = case
    deciding = {"contamination": 0.1, **deciding}
    expected = sparse_mean(X, random_state=0, test="buckets", **counting, **deciding)
    files = []
    for k, part in enumerate(cut(X, (0, 64, 65, 700, 999, 1030), **counting)):
        files.append(tmp_path / f"{k}.sketch")
        part.save(files[-1])
    whole = sparse.csc_array(X) if sparse.issparse(X) else X
    for together in (merge(cut(X, **counting)), merge(files)):
        assert together.ranges == ((0, 1030),)
        found = together.estimate(**deciding)
        same_decisions(found, expected)
        assert np.isnan(found.mean[found.support]).all()
        assert np.isnan(found.intervals).all()
        assert (found.skewed == -1).all()
        assert found.rows is None
        assert found.bucket_of_row is None
        np.testing.assert_array_equal(np.delete(found.mean, found.support), np.delete(expected.mean, found.support))
        same_values(together.estimate(whole, **deciding), expected)


@pytest.mark.parametrize("rows", ["none", "memory", "pieces", "chunks"])
def test_selection_runs_once(rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read of the rows is known from the selection that the estimate then has."""
    calls, decide = [], decision.decide

    def counted(*given: Any, **options: Any) -> Any:
        calls.append(given[1])
        return decide(*given, **options)

    monkeypatch.setattr(decision, "decide", counted)
    pieces = [DATA.X[:700], DATA.X[700:]]
    X = {"none": None, "memory": DATA.X, "pieces": pieces, "chunks": iter(pieces)}[rows]
    assert merge(cut(DATA.X)).estimate(X, contamination=0.1).support.size
    assert calls == [Holm(0.05)]


def test_sizes_are_those_counted_or_some_of_them() -> None:
    together = merge(cut(DATA.X, bucket_sizes=(1, 2, 4, 8, 16, 32)))
    usual = together.estimate(DATA.X, bucket_sizes=(1, 2, 4))
    same_values(usual, sparse_mean(DATA.X, random_state=0, test="buckets"))
    chosen = together.estimate(DATA.X, bucket_sizes=(2, 16))
    same_values(chosen, sparse_mean(DATA.X, random_state=0, bucket_sizes=(2, 16)))
    with pytest.raises(InputError, match="bucket_sizes must need no sizes but those counted"):
        sketch(DATA.X).estimate(bucket_sizes=(1, 64))


class Spy(Source):
    """Counts the values that are asked for."""

    def __init__(self, values: Array) -> None:
        self.inner, self.shape, self.dtype, self.seen = Dense(values), values.shape, values.dtype, 0

    def block(self, rows: slice, columns: slice) -> Array:
        self.seen += (rows.stop - rows.start) * (columns.stop - columns.start)
        return self.inner.block(rows, columns)


def test_only_the_support_and_the_columns_rows_are_judged_by_are_read_again() -> None:
    X = np.random.default_rng(0).standard_normal((300, 5000))
    X[:, [7, 4000]] += 3.0
    together = merge(cut(X, (0, 100, 300)))
    for screen, most in ((False, 2), (True, 1024 + 32 + 2)):
        spy = Spy(X)
        found = together.estimate(Table(spy), screen_rows=screen)
        assert found.support.tolist() == [7, 4000]
        assert spy.seen <= 300 * most
        same_values(found, sparse_mean(X, random_state=0, test="buckets", screen_rows=screen))


def as_iterator(X: Any) -> Iterator[Any]:
    yield X[:500]
    yield X[500:]


@pytest.mark.parametrize(
    "again",
    [as_iterator, lambda X: [X[:10], X[10:]], kinds.as_polars, sparse.csr_array, kinds.frame, np.asfortranarray],
    ids=["iterator", "list", "polars", "CSR", "pandas", "by columns"],
)
def test_rows_may_come_again_in_any_form(again: Any) -> None:
    together = merge(cut(kinds.frame(DATA.X)))
    same_values(
        together.estimate(again(DATA.X), contamination=0.1),
        sparse_mean(DATA.X, contamination=0.1, test="buckets", random_state=0),
    )


def test_rows_may_come_again_from_files(tmp_path: Path) -> None:
    expected = sparse_mean(DATA.X, contamination=0.1, test="buckets", random_state=0)
    for kind in ("zarr", "parquet", "npy", "h5"):
        table = open_file(kinds.written(kind, tmp_path, DATA.X))
        same_values(merge(cut(DATA.X)).estimate(table, contamination=0.1), expected)
        same_values(merge(cut(DATA.X)).estimate([table], contamination=0.1), expected)


def test_what_was_not_looked_for_is_said() -> None:
    found = sketch(DATA.X).estimate(DATA.X, contamination=0.1)
    assert found.uncertified is None
    assert any("that only the trusted rows show were not searched for" in said for said in found.status.messages)
    clean = np.random.default_rng(0).normal(size=(100, 20))
    assert sketch(clean).estimate(clean).status.messages == sparse_mean(clean, random_state=0).status.messages


WRONG: dict[str, tuple[Any, str]] = {
    "fewer rows": (DATA.X[:-1], "X must have the 1,030 rows of the sketch, in order: got 1,029 rows"),
    "more rows in chunks": (iter([DATA.X, DATA.X[:3]]), "got 1,033 rows"),
    "fewer features": (DATA.X[:, 1:], "X must have the 120 features of the sketch: got 119 features"),
    "other order": (DATA.X[::-1], "X must be the rows of the sketch, in the same order: got other values in column"),
    "other names": (kinds.frame(DATA.X)[[f"feature {i}" for i in (1, 0, *range(2, 120))]], "X must have the feature"),
    "gaps": (with_gaps(), "X must be the rows of the sketch"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_other_rows_are_refused(case: Any) -> None:
    X, said = case
    with pytest.raises(InputError, match=said) as refused:
        sketch(kinds.frame(DATA.X)).estimate(X)
    assert "\n" not in str(refused.value)


def test_sealed_pieces_with_gaps_keep_their_dealing() -> None:
    X = DATA.X
    first, second = sketch(X[:500], sealed=True), sketch(X[500:], first_row=512, sealed=True)
    assert first.rows_kept == second.rows_kept == 0
    together = merge([second, first])
    assert together.gaps == ((500, 512),)
    bare, full = together.estimate(contamination=0.1), together.estimate(X, contamination=0.1)
    same_decisions(full, bare)
    assert full.support.tolist() == [0, 1, 2, 3]
    assert full.plan.walk.ranges == ((0, 500), (512, 1042))
    inside = (full.intervals[:4, 0] <= full.mean[:4]) & (full.mean[:4] <= full.intervals[:4, 1])
    assert inside.all()
    walked = full.trajectory([0, 3], n_iter=50)
    np.testing.assert_array_equal(bare.trajectory([0, 3], n_iter=50, X=X), walked)
    limit = merge([second, first]).estimate(X, contamination=0.1, refine=None)
    np.testing.assert_array_equal(limit.interval([0, 1]), bare.interval([0, 1], X=X))


def test_a_last_piece_loses_nothing_by_a_seal() -> None:
    expected = sparse_mean(DATA.X, contamination=0.1, test="buckets", random_state=0)
    sealed = [sketch(DATA.X[640:], first_row=640, sealed=True), sketch(DATA.X[:640], sealed=True)]
    assert sum(part.rows_kept for part in sealed) == 0
    found = merge(sealed).estimate(DATA.X, contamination=0.1)
    same_values(found, expected)
    assert found.plan == expected.plan
    same_decisions(sketch(DATA.X, sealed=True).estimate(contamination=0.1), expected)


@pytest.mark.parametrize("first_row", [0, 1, 63, 64, 1000])
def test_p_values_of_sealed_pieces_are_binomial_tails_of_their_buckets(first_row: int) -> None:
    """A piece closed anywhere has whole, disjoint buckets of independent rows: all that the p-value assumes."""
    from scipy.stats import binom

    rng = np.random.default_rng(first_row)
    X = rng.standard_t(2, size=(200, 30)) + np.where(np.arange(30) < 3, 1.0, 0.0)
    pieces = [sketch(X[:77], first_row=first_row, sealed=True), sketch(X[77:], first_row=first_row + 77, sealed=True)]
    found = merge(pieces).estimate(contamination=0.02)
    assert found.counts is not None
    p = np.ones((3, 30))
    for k in range(3):
        positive, negative = found.counts.positive[k].astype(int), found.counts.negative[k].astype(int)
        most, m = np.maximum(positive, negative) - 4, positive + negative
        p[k] = np.where(2 * most <= m, 1.0, np.minimum(1, 2 * binom.sf(most - 1, m, 0.5)))
    np.testing.assert_allclose(found.p_values, np.minimum(1, 3 * p.min(axis=0)), rtol=1e-12)


@pytest.fixture(scope="module")
def bare() -> Estimate:
    return merge(cut(kinds.frame(DATA.X))).estimate(contamination=0.1)


def test_an_estimate_without_values_says_so_everywhere(bare: Estimate, tmp_path: Path) -> None:
    assert not bare.has_values
    assert "need the rows again" in bare.status.messages[-1]
    assert "interval" not in bare.summary().replace("estimates, intervals and suspect rows need the rows", "")
    assert bare.table()["estimate"].isna().all()
    assert bare.table()["skewed"].isna().all()
    said = json.loads(as_json(bare))
    assert [row["estimate"] for row in said["selected"]] == [None] * 4
    assert said["refine"] is None
    assert "feature 0" in bare._repr_html_()
    bare.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for promise in ("intervals of the selected features", "screening touches", "kept inside its interval"):
        assert promise not in page
    assert "estimates and intervals need the rows, which were not at hand" in page
    assert "rows were not judged: the rows were not at hand" in page
    with pytest.raises(InputError, match="X must be given"):
        bare.trajectory(0)


def test_an_estimate_without_values_can_be_kept_and_drawn(bare: Estimate, tmp_path: Path) -> None:
    bare.save(tmp_path / "bare.npz")
    for copy in (load(tmp_path / "bare.npz"), pickle.loads(pickle.dumps(bare))):
        assert copy.plan == bare.plan
        same_tables(copy, bare)
    for draw in (bare.plot_forest, bare.plot_volcano, bare.plot_rows, bare.plot_robustness):
        assert draw().get_title()
    assert "need the rows" in bare.plot_forest().get_title()


def test_an_estimate_with_gaps_in_its_rows_is_kept_whole(tmp_path: Path) -> None:
    found = merge([sketch(DATA.X[:500], sealed=True), sketch(DATA.X[500:], first_row=530)]).estimate(contamination=0)
    found.save(tmp_path / "found.npz")
    copy = load(tmp_path / "found.npz")
    assert copy.plan == found.plan
    np.testing.assert_array_equal(copy.interval(0, X=DATA.X), found.interval(0, X=DATA.X))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "null": ({"null": 1.0}, "null must be left out here: got 1.0; null is fixed when rows are sketched"),
    "seed": ({"random_state": 1}, "random_state must be left out here"),
    "n_buckets": ({"n_buckets": 9}, "n_buckets must be left out here: got 9; sketched rows are dealt one by one"),
    "groups": ({"groups": [1]}, "groups must be left out here"),
    "paper": ({"selection": "paper"}, "selection must be 'fwer', 'fdr' or 'fdr_by': got 'paper'; the paper's dealing"),
    "unknown": ({"nonsense": 1}, "option must be one of"),
    "level": ({"level": 2}, "level must be"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_asked_of_a_sketch_is_refused(case: Any) -> None:
    options, said = case
    with pytest.raises(InputError, match=said):
        sketch(DATA.X).estimate(**options)


def test_too_few_rows_are_refused_when_it_comes_to_deciding() -> None:
    three = sketch(DATA.X[:3])
    assert three.n_rows == 3
    with pytest.raises(InputError, match=r"X must have at least 4 rows: got n_samples = 3"):
        three.estimate()


def test_counts_alone_do_not_tell_how_many_rows_look_bad(tmp_path: Path) -> None:
    counted = sketch(DATA.X)
    counted.save(tmp_path / "all.sketch")
    for alone in (counted, load_sketch(tmp_path / "all.sketch"), merge(cut(DATA.X)), sketch(DATA.X, sealed=True)):
        for options in ({}, {"contamination": "auto"}, {"screen_rows": False}, {"selection": "fdr"}):
            with pytest.raises(InputError, match="contamination must be named where counts alone decide") as refused:
                alone.estimate(**options)
            said = str(refused.value)
            assert "\n" not in said
            for part in (
                "without its rows a sketch cannot tell how many",
                "--contamination",
                "0 if none",
                "estimate(X)",
            ):
                assert part in said
        assert not alone.estimate(contamination=0).plan.bad_rows
        assert alone.estimate(DATA.X).plan.bad_rows == alone.estimate(iter([DATA.X])).plan.bad_rows == 103
