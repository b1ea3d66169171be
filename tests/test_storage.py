"""Saved estimates: all of them come back, whatever is damaged or forged is refused in one line."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import Comparison, Estimate, load, sketch, sparse_mean
from sparsemean._data import as_table
from sparsemean._fit.two_sample import compare
from sparsemean._fit.write import write
from sparsemean.errors import InputError

from agreeing import same_tables
from fuzzed import damaged

RNG = np.random.default_rng(0)
X = RNG.standard_t(3, (300, 12))
X[:, :3] += 2
X[:20, 5:] += 50
GAPS = np.where(RNG.random(X.shape) < 0.02, np.nan, X)
HALVES = X + np.arange(300)[:, np.newaxis] // 150
LABELS = np.array(["ä", "b"]).repeat(150)
MAKERS: dict[str, Callable[[], Estimate]] = {
    "plain": lambda: sparse_mean(X, random_state=0),
    "names and gaps": lambda: sparse_mean(
        GAPS, random_state=0, missing="omit", feature_names=list("abcdefghijkl"), null=1.0
    ),
    "subjects": lambda: sparse_mean(X, random_state=0, groups=np.arange(300) // 2),
    "without rows": lambda: sketch(X).estimate(contamination=0),
    "two groups": lambda: compare(as_table(HALVES), LABELS).results["ä"],
    "groups and strata": lambda: compare(as_table(HALVES), LABELS, strata=np.arange(300) % 3, min_effect=0.1).results[
        "ä"
    ],
    "one against the rest": lambda: compare(
        as_table(HALVES), np.arange(300) // 50 % 3, contamination=(0.0, 0.1)
    ).results[2],
    "subjects of groups": lambda: compare(as_table(HALVES), LABELS, groups=np.arange(300) // 2, missing="omit").results[
        "ä"
    ],
    "pairs": lambda: compare(as_table(HALVES), LABELS, pairs=np.arange(300) % 150).results["ä"],
    "paper": lambda: sparse_mean(X, random_state=0, selection="paper"),
    "means": lambda: sparse_mean(X, target="mean", scale=3.0),
    "means of groups": lambda: compare(as_table(HALVES), LABELS, target="mean", scale=3.0).results["ä"],
}


@cache
def made(kind: str) -> Estimate:
    """An estimate of one kind; made when it is asked for, as every process collects all tests."""
    return MAKERS[kind]()


def content(estimate: Estimate | Comparison, path: Path) -> bytes:
    estimate.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", MAKERS)
def test_every_kind_comes_back(kind: str, tmp_path: Path) -> None:
    estimate = made(kind)
    said = estimate.summary()  # with what is left without the suspects, which is kept once it was told
    estimate.save(tmp_path / "x.npz")
    back = load(tmp_path / "x.npz")
    assert back.summary() == said
    same_tables(back, estimate)
    pd.testing.assert_frame_equal(back.table(certified=False), estimate.table(certified=False))


SEVERAL: dict[str, dict[str, Any]] = {
    "rest": {"y": np.array(["ä", "b", "c"])[np.arange(300) // 50 % 3]},
    "reference": {"y": np.arange(300) // 50 % 3, "reference": 1, "groups": np.arange(300) // 2},
    "pairs of groups": {"y": np.arange(300) // 50 % 3 / 2, "reference": "pairs", "strata": np.arange(300) % 3},
    "one of them": {"y": np.array(["ä", "b", "c"])[np.arange(300) // 50 % 3], "only": ("c",)},
    "truths": {"y": np.arange(300) % 4 > 1},
}


@cache
def compared(kind: str) -> Comparison:
    frame = pd.DataFrame(HALVES, columns=list("abcdefghijkl"), index=[f"u{k}" for k in range(300)])
    return compare(as_table(frame), SEVERAL[kind]["y"], **{k: v for k, v in SEVERAL[kind].items() if k != "y"})


@pytest.mark.parametrize("kind", SEVERAL)
def test_comparisons_come_back(kind: str, tmp_path: Path) -> None:
    result = compared(kind)
    said = result.summary()
    result.save(tmp_path / "x.npz")
    back = load(tmp_path / "x.npz")
    assert isinstance(back, Comparison)
    assert list(back.results) == list(result.results)
    assert [type(key) for key in back.results] == [type(key) for key in result.results]
    np.testing.assert_array_equal(back.classes, result.classes)
    assert back.summary() == said
    same_tables(back, result)
    pd.testing.assert_frame_equal(back.curve(), result.curve())
    np.testing.assert_array_equal(back.rows.suspects, result.rows.suspects)
    for of, other in zip(back.results.values(), result.results.values(), strict=True):
        assert of.plan == other.plan


def test_a_comparison_is_not_saved_with_labels_that_cannot_be(tmp_path: Path) -> None:
    days = np.array([np.datetime64("2024-01-01") + k for k in range(3)])[np.arange(300) // 50 % 3]
    with pytest.raises(InputError, match=r"^classes must be names or numbers to be saved: got type") as refused:
        compare(as_table(HALVES), days).save(tmp_path / "x.npz")
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="path must not end in that of another kind of file"):
        compared("rest").save(tmp_path / "x.csv")
    assert not list(tmp_path.iterdir())


SUSPECTS = 20
FORGERIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "keys swapped": lambda header, _: header["keys"].reverse(),
    "a key beyond": lambda header, _: header["keys"].__setitem__(0, [7]),
    "a key less": lambda header, _: header["keys"].pop(),
    "one test twice": lambda header, _: header["keys"].__setitem__(1, header["keys"][0]),
    "no test": lambda header, arrays: (header.update(keys=[], results=[]), arrays.clear()),
    "an array more": lambda _, arrays: arrays.update({"9.mean": np.zeros(12)}),
    "classes alike": lambda _, arrays: arrays.update(classes=np.array(["b", "b", "c"])),
    "other labels": lambda _, arrays: arrays.update(classes=np.array(["x", "y", "z"])),
    "another number of features": lambda header, _: header["results"][1]["plan"].update(n_features=11),
    "rows not judged": lambda _, arrays: [arrays.pop(name) for name in list(arrays) if name.startswith("1.rows.")],
    "arms cut": lambda _, arrays: arrays.update({"0.arms.nobody.moments": np.zeros((2, 3, 5))}),
    "a name too many": lambda _, arrays: arrays.update({"0.suspect_names": np.array(["u"] * 77)}),
    "a reason beyond": lambda header, _: header["results"][0]["rows"].update(reasons=[[12]] * SUSPECTS),
    "a kind too many": lambda header, _: header["results"][0]["rows"]["kinds"].append("few"),
    "one group": lambda header, _: header["results"][0]["plan"].update(bad_by_group=[1]),
    "groups without names": lambda _, arrays: arrays.pop("0.sample.class_names"),
    "a checksum of few columns": lambda _, arrays: arrays.update({"0.checksum.columns": np.zeros(5, dtype=int)}),
    "a checksum of text": lambda header, _: header["results"][0]["checksum"].update(whole="x"),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_forged_comparisons_do_not_load(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    compared("rest").save(path)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays.pop("header")))
    change(header, arrays)
    np.savez_compressed(path, header=np.array(json.dumps(header)), **arrays)
    with pytest.raises(InputError, match=r"^path must be a complete file written by save") as refused:
        load(path)
    assert "\n" not in str(refused.value)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def other(value: Any, rng: np.random.Generator) -> Any:
    """Return something else in the place of a part of what a header says."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.8:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        out, key = value.copy(), keys[rng.integers(len(keys))]
        if rng.random() < 0.2:
            del out[key]
        else:
            out[key] = other(value[key], rng)
        return out
    choices = [None, -1, 0, 10**12, 2**70, 1.5, True, "x", "", [], [1], [None, 2], {}, {"a": 1}]
    return choices[rng.integers(len(choices))]


def forged(saved: bytes, rng: np.random.Generator) -> bytes:
    """Return a file whose checksums are right but whose header or arrays are not what was saved."""
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = list(members)[rng.integers(len(members))]
    array = np.load(io.BytesIO(members[name]))
    if name == "header.npy" or rng.random() < 0.4:
        said = json.loads(str(np.load(io.BytesIO(members["header.npy"]))))
        members["header.npy"] = npy(json.dumps(other(said, rng)))
    elif rng.random() < 0.2:
        del members[name]
    else:
        number = array.dtype.kind != "U"
        shapes = (array[:-1], np.concatenate((array, array)), array[..., np.newaxis], np.zeros(0), np.array(3))
        changes = (*shapes, array.astype("U5"), array * 1000 - 5 if number else array[:1], array.T)
        members[name] = npy(changes[rng.integers(len(changes))])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, held in members.items():
            archive.writestr(member, held)
    return file.getvalue()


def test_what_is_damaged_or_forged_is_one_line_or_an_estimate(tmp_path: Path, long_version: bool) -> None:
    path, rng = tmp_path / "x.npz", np.random.default_rng(1)
    saved = [content(made(kind), path) for kind in MAKERS] + [content(compared("rest"), path)]
    refused, trials = 0, 3000 if long_version else 120
    for trial in range(trials):
        path.write_bytes((forged if trial % 2 else damaged)(saved[trial // 2 % len(saved)], rng))
        try:
            back = load(path)
            back.table(all=True)
            back.summary()
            back.save(tmp_path / "again.npz")
        except InputError as error:
            assert str(error).startswith("path must ")  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
            refused += 1
    assert refused > 0.8 * trials


def arrays_like(array: Any) -> Iterator[Any]:
    """Arrays of the same shape with another type, or with numbers that may not be."""
    if array.dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf, -1.0, 0.0, 2.0, 1e308, 5e-324):
            yield np.full_like(array, value)
            yield np.where(np.arange(array.size).reshape(array.shape) == 0, value, array)
        yield from (array.astype(kind) for kind in ("f4", "f2", ">f8"))
    elif array.dtype.kind in "iu":
        for value in (-1, -(10**9), 0, 1, 2, 10**9, 2**62, -(2**63), 2**63 - 1):
            yield np.full(array.shape, value)
            yield np.where(np.arange(array.size).reshape(array.shape) == 0, value, array)
        yield from (array.astype(kind) for kind in ("u1", "i1", "u8", ">i4"))
    elif array.ndim:
        yield from (np.full(array.shape, text) for text in ("x", "", "y" * 3000, "\x1b\u202e", "\ud800"))


ENTRIES = [
    None, -1, 0, 1, 2, 10**12, 2**70, -(2**70), 1.5, -0.5, 1e308, float("nan"), float("inf"), True, "x", "",
    "auto", "ranks", "buckets", "sums", "mean", "fdr", "paper", "omit", "greater", "pairs", "blocks", "any",
    "y" * 10**5, [], [1], [0], [-1], [1, 2], [2, 1], [10**12] * 2, {}, {"a": 1}, [[0, 1]], [[10**9]], [["x"]], ["x"],
]  # fmt: skip
"""What is put in the place of every entry of a header."""


def entries_of(said: Any, *at: Any) -> Iterator[tuple[Any, ...]]:
    """The places of what a header holds, of lists the whole and the first two entries."""
    if at and not isinstance(said, dict):
        yield at
    for key in said if isinstance(said, dict) else range(min(len(said), 2)) if isinstance(said, list) else ():
        yield from entries_of(said[key], *at, key)


def tampered(saved: bytes) -> Iterator[Callable[[], dict[str, bytes]]]:
    """Makers of the members of every file that differs from ``saved`` in one array or in one entry of its header."""
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    said = json.loads(str(np.load(io.BytesIO(members["header.npy"]))))

    def put(place: tuple[Any, ...], value: Any) -> dict[str, bytes]:
        header = json.loads(json.dumps(said))
        inner = header
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        return {**members, "header.npy": npy(json.dumps(header))}

    for name in members.keys() - {"header.npy"}:
        yield lambda name=name: {other: held for other, held in members.items() if other != name}
        for array in arrays_like(np.load(io.BytesIO(members[name]))):
            yield lambda name=name, array=array: {**members, name: npy(array)}
    for place in entries_of(said):
        for value in ENTRIES:
            yield lambda place=place, value=value: put(place, value)


def use(estimate: Estimate, folder: Path) -> None:
    """Ask an estimate for all that needs no rows; what cannot be asked of it is refused in one line."""
    str(estimate), estimate.summary(), estimate._repr_html_(), estimate.table(all=True), estimate.table(certified=False)
    for ask in (lambda: estimate.at(0.0), lambda: estimate.at(0.02), estimate.curve):
        with suppress(InputError):
            ask()
    estimate.save(folder / "again.npz")


@pytest.mark.parametrize("kind", MAKERS)
def test_an_estimate_that_loads_can_be_used(kind: str, tmp_path: Path, long_version: bool) -> None:
    path = tmp_path / "x.npz"
    cases = list(tampered(content(made(kind), path)))
    loaded = 0
    for k in np.random.default_rng(0).permutation(len(cases))[: None if long_version else 40]:
        with zipfile.ZipFile(path, "w") as archive:
            for name, held in cases[k]().items():
                archive.writestr(name, held)
        try:
            back = load(path)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
            continue
        use(back, tmp_path)
        loaded += 1
    assert loaded


@pytest.mark.parametrize(
    ("kind", "entry", "value"),
    [
        ("plain", "walk.dealing", "pairs"),
        ("plain", "plan.sizes", [1]),
        ("plain", "question.test", "auto"),
        ("plain", "question.level", 2.0),
        ("plain", "plan.bad_rows", 10**12),
        ("plain", "rows.reasons", [[0, 1]]),
        ("plain", "rows.kinds", ["x"] * 20),
        ("two groups", "plan.bad_by_group", []),
        ("two groups", "plan.contamination", 1e308),
        ("two groups", "walk.dealing", "blocks"),
        ("two groups", "plan.sizes", [0, 150]),
    ],
)
def test_what_failed_in_a_summary_does_not_load(kind: str, entry: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    content(made(kind), path)
    with np.load(path) as file:
        arrays = dict(file)
    said = json.loads(str(arrays["header"]))
    part, _, name = entry.partition(".")
    said[part][name] = value
    np.savez(path, **{**arrays, "header": np.array(json.dumps(said))})
    with pytest.raises(InputError, match=r"path must be a complete file written by save"):
        load(path)


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("located.mean", np.zeros(11), r"mean has shape \(11,\)"),
        ("located.mean", np.zeros(12, dtype=int), "mean has shape .* and type int64"),
        ("counts.positive", np.zeros((12, 3), dtype=int), "counts.positive has shape"),
        ("located.support", np.array([0, 1, 12]), "support is not among 12"),
        ("located.support", np.array([2, 1, 0]), "support is in disorder"),
        ("decision.p_values", np.full(12, np.inf), "decision.p_values is not between 0 and 1"),
        ("rows.suspects", np.array([300]), "rows.suspects is not among 300"),
        ("colour", np.zeros(12), "colour"),
    ],
)
def test_forged_shapes_do_not_load(name: str, array: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    content(made("plain"), path)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, name: array})
    with pytest.raises(InputError, match=rf"path must be a complete file written by save: got .*{said}"):
        load(path)


def test_signs_whose_sum_is_no_number_do_not_load(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    content(made("plain"), path)
    with np.load(path) as file:
        arrays = dict(file)
    many = arrays["counts.positive"].astype(np.int64)
    many.flat[arrays["counts.negative"].argmax()] = 2**63 - 1
    np.savez(path, **{**arrays, "counts.positive": many})
    with pytest.raises(InputError, match="its counts of signs cannot be"):
        load(path)


def test_names_that_no_text_can_hold_are_spelled_out(tmp_path: Path) -> None:
    y = np.array(["männlich".encode("latin-1"), "weiblich ☺".encode()]).repeat(150)
    groups = compare(as_table(HALVES, [*"abcdefghijk", "\ud800"]), y).result
    assert isinstance(groups, Estimate)
    assert groups.class_names is not None
    assert groups.class_names.tolist() == ["m\\xe4nnlich", "weiblich ☺"]
    assert groups.feature_names is not None
    assert groups.feature_names[11] == "\\ud800"
    for ending in ("csv", "json", "parquet"):
        write(groups, tmp_path / f"x.{ending}")
    groups.save(tmp_path / "x.npz")
    assert load(tmp_path / "x.npz").feature_names.tolist() == groups.feature_names.tolist()  # type: ignore[union-attr]
