"""Data that are given again are those of the fit, or refused in one line."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sparsemean import InputError, SparseMean, SparseMeanDifference, load, plots, sketch, sparse_mean
from sparsemean._data import source

RNG = np.random.default_rng(0)
X = RNG.standard_t(3, (240, 6)).round(3)
X[:, 0] += 2
LABELS = np.arange(240) % 2
X[LABELS == 1, 1] += 2
BEFORE = X + RNG.standard_normal(X.shape)
NAMES = list("abcdef")


def of_groups(**params: Any) -> Any:
    return SparseMeanDifference(**params).fit(X, LABELS).result_


MAKERS: dict[str, Callable[[], Any]] = {
    "one sample": lambda: sparse_mean(X),
    "names": lambda: sparse_mean(pd.DataFrame(X, columns=NAMES)),
    "null and gaps": lambda: sparse_mean(X, null=0.3, missing="omit"),
    "paper": lambda: sparse_mean(X, selection="paper"),
    "means": lambda: sparse_mean(X, target="mean", scale=3.0, contamination=0.0),
    "two groups": of_groups,
    "strata": lambda: SparseMeanDifference().fit(X, LABELS, strata=np.arange(240) // 60).result_,
    "means of groups": lambda: of_groups(target="mean", scale=3.0, contamination=0.0),
    "covariate": lambda: SparseMeanDifference().fit(X, LABELS, covariate=BEFORE).result_,
    "of a sketch": lambda: sketch(X).estimate(contamination=0),
    "of a sketch and rows": lambda: sketch(X).estimate(X),
}
OF_ONE_SAMPLE = ("one sample", "names", "null and gaps", "paper", "means", "of a sketch", "of a sketch and rows")


@cache
def kept(kind: str) -> Any:
    return MAKERS[kind]()


@cache
def alone(kind: str) -> Any:
    """An estimate without its data."""
    return pickle.loads(pickle.dumps(kept(kind)))


def one(row: int, column: int, value: float) -> Any:
    changed = X.copy()
    changed[row, column] = value
    return changed


OTHERS: dict[str, Any] = {
    "rows reversed": X[::-1],
    "rows sorted": X[np.argsort(X[:, 0])],
    "two rows swapped": X[[1, 0, *range(2, 240)]],
    "columns reversed": X[:, ::-1],
    "twice": 2 * X,
    "negated": -X,
    "a gap": one(3, 4, np.nan),
    "infinity": one(200, 0, np.inf),
    "one value": one(100, 5, 7.25),
    "clipped": np.clip(X, -1.5, 1.5),
    "a column filled in": np.where(np.arange(6) == 2, 0.0, X),
    "other precision": X.astype(np.float32),
    "whole numbers": X.round().astype(int),
    "a frame, reordered": pd.DataFrame(X, columns=NAMES)[NAMES[::-1]],
    "fewer rows": X[:-1],
    "more columns": np.hstack((X, X[:, :1])),
    "transposed": X.T,
    "one column": X[:, 0],
    "text": np.full(X.shape, "a"),
    "a number": 5,
}
SAME: dict[str, Any] = {
    "itself": X,
    "by columns": np.asfortranarray(X),
    "backwards in memory": X[::-1].copy()[::-1],
    "a list": X.tolist(),
    "a frame": pd.DataFrame(X, columns=NAMES),
    "sparse": sparse.csc_array(X),
    "longer": X.astype(np.longdouble),
}
ASK: dict[str, Callable[..., Any]] = {
    "interval": lambda estimate, **data: estimate.interval([0, 1], **data),
    "trajectory": lambda estimate, **data: estimate.trajectory([0, 1], n_iter=20, **data),
    "plot_path": lambda estimate, **data: plots.plot_path(estimate, n_iter=20, **data).lines[-1].get_ydata(),
}


@pytest.fixture(autouse=True)
def drawn_nowhere() -> Any:
    with mpl.rc_context({"backend": "Agg"}):
        yield
    plt.close("all")


def given(kind: str, data: Any) -> dict[str, Any]:
    return {"X": data, **({"covariate": BEFORE} if kind == "covariate" else {})}


@pytest.mark.parametrize(
    ("kind", "method"), [*((kind, "interval") for kind in MAKERS), *((kind, "trajectory") for kind in OF_ONE_SAMPLE)]
)
def test_other_data_are_refused_in_one_line(kind: str, method: str) -> None:
    for estimate in (alone(kind), kept(kind))[: 1 + (method == "interval")]:
        for name, other in OTHERS.items():
            if kind == "of a sketch" and name in ("clipped", "other precision", "one value"):
                continue  # its counts are signs of sums: these change none
            with pytest.raises((InputError, TypeError), match=r"^X must|^covariate must") as refused:
                ASK[method](estimate, **given(kind, other))
            assert "\n" not in str(refused.value), name


@pytest.mark.parametrize("kind", MAKERS)
def test_the_same_data_give_the_same_answer(kind: str) -> None:
    for method, ask in list(ASK.items())[: 3 if kind == "names" else 1 + (kind in OF_ONE_SAMPLE)]:
        expected = ask(kept(kind), **({"X": X} if kind == "of a sketch" else {}))
        for name, data in SAME.items() if method == "interval" else list(SAME.items())[:1]:
            np.testing.assert_array_equal(ask(alone(kind), **given(kind, data)), expected, err_msg=name)


def test_names_must_be_those_of_the_fit() -> None:
    frame = pd.DataFrame(X, columns=NAMES)
    kept("names").interval("a", X=frame)
    for other in (frame[NAMES[::-1]], frame.rename(columns={"b": "B"})):
        with pytest.raises(
            InputError, match=r"X must have the feature names of the fit: got '[fB]' in place of '[ab]'"
        ):
            kept("names").interval("a", X=other)


def test_another_covariate_is_refused() -> None:
    estimate = alone("covariate")
    for other in (BEFORE[::-1], 2 * X[::-1], BEFORE + RNG.standard_normal(X.shape), 5, "a", BEFORE[:-1]):
        with pytest.raises(InputError, match=r"^(X|covariate) must"):
            estimate.interval(0, X=X, covariate=other)
    with pytest.raises(InputError, match="covariate must come with the X of the fit: got covariate alone"):
        kept("covariate").interval(0, covariate=BEFORE)
    for plain in (kept("two groups"), alone("one sample")):
        with pytest.raises(InputError, match=r"^covariate must be a table like X, or a pair of them: got int"):
            plain.interval(0, X=X, covariate=5)
        with pytest.raises(InputError, match="X must be the data of the fit"):
            plain.interval(0, X=X, covariate=BEFORE)


def test_data_that_change_in_memory_are_noticed() -> None:
    mine, frame = X.copy(), pd.DataFrame(X.copy())
    for data, change in (
        (mine, lambda: np.negative(mine, out=mine)),
        (frame, lambda: frame.iloc.__setitem__((3, 4), 9.0)),
    ):
        estimate = SparseMeanDifference().fit(data, LABELS).result_
        change()
        with pytest.raises(InputError, match="X must stay as it was when it was fitted: got other values; fit again"):
            estimate.interval(0)
        with pytest.raises(InputError, match="X must be the data of the fit"):
            pickle.loads(pickle.dumps(estimate)).interval(0, X=data)


def test_many_values_are_told_by_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "CHECKED", 1400)
    estimate = pickle.loads(pickle.dumps(sparse_mean(X)))
    for name in ("rows reversed", "rows sorted", "columns reversed", "twice", "negated", "clipped", "other precision"):
        with pytest.raises(InputError, match="X must be the data of the fit"):
            estimate.interval(0, X=OTHERS[name])
    for data in SAME.values():
        np.testing.assert_array_equal(estimate.interval(0, X=data), sparse_mean(X).interval(0))


def test_a_file_that_is_closed_is_known_no_more(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        estimate = of_file = sparse_mean(file.create_dataset("X", data=X))
        known = pickle.loads(pickle.dumps(of_file))
    np.testing.assert_array_equal(known.interval(0, X=X), sparse_mean(X).interval(0))
    with pytest.raises(InputError, match="X must be the data of the fit"):
        known.interval(0, X=2 * X)
    bare = pickle.loads(pickle.dumps(estimate))
    np.testing.assert_array_equal(bare.interval(0, X=X), known.interval(0, X=X))  # by its counts
    with pytest.raises(InputError, match="X must be the data of the fit"):
        bare.interval(0, X=2 * X)


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in ("other precision", "clipped", "one value")])
def test_a_sketch_takes_its_own_rows_only(name: str) -> None:
    frame = pd.DataFrame(X, columns=NAMES)
    stream = SparseMean().partial_fit(frame[:100]).partial_fit(frame[100:])
    for ask in (sketch(frame).estimate, partial(sketch(frame).estimate, test="ranks"), stream.complete):
        with pytest.raises((InputError, TypeError), match=r"^X must") as refused:
            ask(OTHERS[name])
        assert "\n" not in str(refused.value)


# What is compared of large tables, of sketches, and what pickling does not do.


@pytest.mark.parametrize("kind", ["array", "file"])
def test_selected_columns_of_large_tables_are_told_by_every_value(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(source, "CHECKED", 2000)  # stretches of 62 values each
    rng = np.random.default_rng(4)
    wide = rng.standard_normal((400, 60))
    wide[:, [7, 50]] += 1
    with h5py.File(tmp_path / "x.h5", "w") as file:
        fitted = sparse_mean(wide if kind == "array" else file.create_dataset("X", data=wide))
        assert fitted.support.tolist() == [7, 50]
        fitted.save(tmp_path / "x.npz")
        again = pickle.loads(pickle.dumps(fitted))
    assert again.checksum.whole == sparse_mean(wide).checksum.whole
    for estimate in (again, load(tmp_path / "x.npz")):
        for change in (np.negative, np.sort, lambda values: values[::-1]):
            other = wide.copy()
            other[200:, 50] = change(other[200:, 50])
            for ask in (estimate.interval, partial(estimate.trajectory, n_iter=3)):
                with pytest.raises(InputError, match="X must be the data of the fit"):
                    ask([50, 3], X=other)
        np.testing.assert_array_equal(estimate.interval([50, 3, 50], X=wide), sparse_mean(wide).interval([50, 3, 50]))


def test_columns_of_any_test_of_several_groups_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "CHECKED", 2000)
    mine = np.random.default_rng(5).standard_normal((300, 40))
    groups = np.arange(300) % 3
    mine[groups == 1, 5] += 2
    mine[groups == 2, 30] += 2
    result = SparseMeanDifference(reference=0).fit(mine, groups).result_
    assert {tuple(each.support) for each in result.results.values()} == {(5,), (30,)}
    mine[20:40, 30] *= -1  # where no stretch is
    for each in result.results.values():
        assert np.isfinite(each.interval(5)).all()
        with pytest.raises(InputError, match="X must stay as it was when it was fitted"):
            each.interval(30)


def test_rows_of_a_sketch_may_come_in_a_longer_type_after_loading_as_before(tmp_path: Path) -> None:
    short = X.astype(np.float32)
    of_rows = sketch(short, null=0.3)
    of_rows.estimate(contamination=0).save(tmp_path / "x.npz")
    for estimate in (of_rows.estimate(contamination=0), load(tmp_path / "x.npz")):
        expected = estimate.interval([0, 2], X=short)
        np.testing.assert_array_equal(estimate.interval([0, 2], X=short.astype(float)), expected)
        np.testing.assert_array_equal(of_rows.estimate(short.astype(float)).interval([0, 2]), expected)
        with pytest.raises(InputError, match=r"X must be the data of the fit, .*: got other values in column 0"):
            estimate.interval(2, X=2 * short)


def test_results_of_workers_that_are_gone_are_saved_and_pickled_all_the_same(tmp_path: Path) -> None:
    gone: list[str] = []

    def block(values: Any) -> Any:
        if gone:
            raise ValueError(*gone)
        return values

    users = np.random.default_rng(1).poisson(4.0, (600, 8)) * 1.0
    lazy = da.from_array(users, chunks=200).map_blocks(block, dtype=float)
    result = SparseMeanDifference().fit(lazy, np.arange(600) % 2).result_
    gone.append("lost")
    assert pickle.loads(pickle.dumps(result)).checksum is None
    result.save(tmp_path / "x.npz")
    with pytest.raises(InputError, match=r"result must have a checksum, .* whose data were gone when it was saved"):
        load(tmp_path / "x.npz").interval(0, X=users)
