"""Data that are given again are those of the fit, or refused in one line; a scorecard needs none."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import h5py
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sparsemean import Comparison, InputError, SparseMean, SparseMeanDifference, load, plots, sketch, sparse_mean
from sparsemean._data import source
from sparsemean.experiments import scorecard

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
    "of a sketch": lambda: sketch(X).estimate(),
    "of a sketch and rows": lambda: sketch(X).estimate(X),
}


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


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("method", ["interval", "trajectory"])
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
    for method, ask in list(ASK.items())[: 3 if kind in ("names", "covariate") else 2]:
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
        for ask in (lambda of: of.interval(0), scorecard):
            with pytest.raises(
                InputError, match="X must stay as it was when it was fitted: got other values; fit again"
            ):
                ask(estimate)
        with pytest.raises(InputError, match="have kept the arms of its experiment"):
            scorecard(pickle.loads(pickle.dumps(estimate)))
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


# Scorecards.

ARM = np.array(["control", "new", "other"])[np.arange(900) % 3]
USERS = pd.DataFrame(
    np.random.default_rng(1).poisson(4.0, (900, 8)) * np.random.default_rng(2).lognormal(0, 1, (900, 1)),
    columns=[f"metric {k}" for k in range(8)],
    index=[f"u{k}" for k in range(900)],
)
EARLIER = USERS + np.random.default_rng(3).poisson(9.0, USERS.shape)
USERS.loc[ARM == "new", "metric 0"] += 3
USERS.iloc[1:60:3, 2:7] += 300  # bots of "new"
USERS.iloc[100, 3] = 1e6
TWO = np.flatnonzero(ARM != "other")


def arms(**options: Any) -> Any:
    params = {name: options.pop(name) for name in ("target", "scale", "contamination") if name in options}
    users, arm = (USERS.iloc[TWO], ARM[TWO]) if options.pop("two", True) else (USERS, ARM)
    before = {"covariate": EARLIER.iloc[TWO]} if options.pop("cuped", False) else {}
    return SparseMeanDifference(reference="control", **params).fit(users, arm, **before, **options).result_


EXPERIMENTS: dict[str, dict[str, Any]] = {
    "two arms": {},
    "no bots allowed": {"contamination": 0.0},
    "cuped": {"cuped": True},
    "means": {"target": "mean", "scale": 2e3, "contamination": 0.01},
    "strata": {"strata": np.arange(TWO.size) // 2 % 2},
    "subjects": {"groups": np.arange(TWO.size) // 4 * 2 + np.arange(TWO.size) % 2},
    "three arms": {"two": False},
}


@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_a_loaded_result_gives_the_same_scorecard(kind: str, tmp_path: Path) -> None:
    result = arms(**EXPERIMENTS[kind])
    assert isinstance(result, Comparison) == (kind == "three arms")
    expected = {who: scorecard(result, leave_out=who) for who in ("together", "suspects", "nobody")}
    assert len(expected["together"].suspects) > 0 or kind == "subjects"
    result = arms(**EXPERIMENTS[kind])  # nobody has asked this one for a scorecard
    result.save(tmp_path / "result.npz")
    for copy in (
        load(tmp_path / "result.npz"),
        pickle.loads(pickle.dumps(result)),
        pickle.loads(pickle.dumps(load(tmp_path / "result.npz"))),
    ):
        for who, card in expected.items():
            again = scorecard(copy, leave_out=who)
            pd.testing.assert_frame_equal(again.table, card.table)
            pd.testing.assert_frame_equal(again.suspects, card.suspects)
            assert str(again) == str(card)
        if kind == "means":
            with pytest.raises(InputError, match=r"level must be 0.95, for means that do not keep their data: got 0.9"):
                scorecard(copy, level=0.9)
        else:
            pd.testing.assert_frame_equal(scorecard(copy, level=0.9).table, scorecard(result, level=0.9).table)


def test_what_earlier_versions_kept_is_not_enough() -> None:
    old = load(Path(__file__).parent / "fixtures" / "two_groups_0.1.npz")
    with pytest.raises(
        InputError, match="result must have kept the arms of its experiment: got none; fit again"
    ) as refused:
        scorecard(old)
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="X must be data that can be checked: got an estimate of an earlier version"):
        old.interval(0, X=np.zeros((old.plan.n_rows, old.plan.n_features)))


def test_large_results_keep_no_arms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sparsemean._fit.afterwards.KEPT", USERS.size - 1)
    result = SparseMeanDifference().fit(USERS, ARM == "new").result_
    result.save(tmp_path / "large.npz")
    with pytest.raises(InputError, match="fit again: files of earlier versions, or of more than"):
        scorecard(load(tmp_path / "large.npz"))
    assert len(scorecard(result).table) == 8
