"""Rows that are not those of a sketch, and files that contradict themselves, are refused in one line."""

from __future__ import annotations

import io
import json
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean import InputError, SparseMean, load_sketch, merge, sketch

import kinds
from command import expect

RNG = np.random.default_rng(0)
NOISE = RNG.standard_normal((300, 60))
ONE_SIDED = NOISE + np.where(np.arange(60) < 2, 50.0, 0.0)
"""The selected columns have one sign only, in any order of rows."""
OTHER = RNG.standard_normal((300, 60))
GAPS = np.where(RNG.random(NOISE.shape) < 0.1, np.nan, NOISE)
ROUNDED = np.round(NOISE, 1)


@pytest.mark.parametrize("X", [NOISE, ONE_SIDED], ids=["empty support", "one-sided support"])
def test_other_rows_are_refused_whatever_was_selected(X: Any) -> None:
    made = sketch(X)
    other = OTHER + (X - NOISE)
    shuffled = X[np.random.default_rng(1).permutation(300)]
    for again in (other, X[::-1], shuffled, iter([X[150:], X[:150]]), [X[1:], X[:1]]):
        with pytest.raises(InputError, match="X must be the rows of the sketch, in the same order: got other values"):
            made.estimate(again)


RIGHT: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (NOISE, {}),
    "float32": (NOISE.astype(np.float32), {}),
    "float32 by columns, null": (np.asfortranarray(NOISE.astype(np.float32)), {"null": 0.1}),
    "integers": (np.round(3 * NOISE).astype(np.int8), {}),
    "missing": (GAPS, {"missing": "omit"}),
    "missing, null": (np.round(GAPS, 1).astype(np.float32), {"missing": "omit", "null": 0.3}),
    "ties with the null": (ROUNDED, {"null": 0.1}),
    "cancelling": (ROUNDED, {"bucket_sizes": (1, 2, 4, 8, 64)}),
    "one-sided": (ONE_SIDED, {"null": np.linspace(-1, 1, 60)}),
    "frame": (kinds.frame(NOISE), {}),
}


@pytest.mark.parametrize("case", RIGHT.values(), ids=RIGHT)
def test_the_same_rows_are_taken_in_every_form(case: Any) -> None:
    X, options = case
    pieces = merge([sketch(X[a:b], first_row=a, **options) for a, b in ((100, 300), (0, 7), (7, 100))])
    gapped = merge([sketch(X[:90], sealed=True, **options), sketch(X[90:], first_row=100, sealed=True, **options)])
    for made in (sketch(X, **options), pieces, gapped):
        expected = made.estimate(X)
        for again in ([X[:10], X[10:]], iter([X[:200], X[200:]]), np.asfortranarray(np.asarray(X, dtype=np.float64))):
            np.testing.assert_array_equal(made.estimate(again).p_values, expected.p_values)


class Chunks:
    """Chunks that can be gone through, and nothing else."""

    def __iter__(self) -> Iterator[Any]:
        yield NOISE[:100]
        yield NOISE[100:]


CHUNKS = {
    "values of a dictionary": {"a": NOISE[:100], "b": NOISE[100:]}.values(),
    "own class": Chunks(),
    "deque": deque([NOISE[:100], NOISE[100:]]),
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_chunks_come_from_anything_that_can_be_gone_through(chunks: Any) -> None:
    made = sketch(NOISE)
    np.testing.assert_array_equal(made.estimate(chunks).intervals, made.estimate(NOISE).intervals)


@pytest.mark.parametrize(
    "again", [{"a": NOISE}, "rows.csv", {1, 2}, 3.0, []], ids=["dict", "text", "set", "number", "none"]
)
def test_what_has_no_rows_is_refused_in_one_line(again: Any) -> None:
    with pytest.raises(InputError) as refused:
        sketch(NOISE).estimate(again)
    assert "\n" not in str(refused.value)


def test_completing_takes_rows_and_threads_are_checked_without_them() -> None:
    with pytest.raises(InputError, match="X must be given"):
        SparseMean(random_state=0).partial_fit(NOISE).complete(None)
    with pytest.raises(InputError, match="n_jobs must be None or a nonzero integer"):
        sketch(NOISE).estimate(n_jobs="a")


def test_null_values_of_either_zero_are_the_same() -> None:
    one, two = np.zeros(60), np.zeros(60)
    one[:2], two[:2] = (1.0, 0.0), (1.0, -0.0)
    together = merge([sketch(NOISE[:100], null=one), sketch(NOISE[100:], first_row=100, null=two)])
    assert together.ranges == ((0, 300),)
    assert not np.signbit(sketch(NOISE, null=two).null).any()


@pytest.mark.parametrize("name", [".", "/", "", ".."])
def test_a_folder_in_place_of_a_file_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    expect("sketch", name, status=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "FILE must" in err


@pytest.mark.parametrize("more", [(), ("--json",), ("-q",)], ids=["plain", "json", "quiet"])
def test_merged_rows_are_kept_though_there_are_too_few_to_decide(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sketch(NOISE[:2]).save(tmp_path / "a.sketch")
    sketch(NOISE[2:3], first_row=2).save(tmp_path / "b.sketch")
    target = tmp_path / "all.sketch"
    expect("merge", tmp_path / "a.sketch", tmp_path / "b.sketch", "-e", "0", "--out", target, *more, status=2)
    out, err = capsys.readouterr()
    assert "X must have at least 4 rows" in err
    assert f"Written: {target}" in {"": out, "--json": err, "-q": f"Written: {target}"}["".join(more)]
    assert load_sketch(target).ranges == ((0, 3),)


def test_merge_says_what_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sketch(NOISE).save(tmp_path / "a.sketch")
    for name in ("a.xlsx", "a.h5ad", "a"):
        expect("merge", tmp_path / "a.sketch", "--out", tmp_path / name, status=2)
        assert "--out must end in .sketch, .csv, .json or .parquet: got" in capsys.readouterr().err


Members = dict[str, Any]
"""The header as a dictionary, arrays as arrays, and names as bytes."""
FULL: dict[str, Any] = {
    "feature_names": [f"f{i}" for i in range(60)], "null": np.linspace(0.0, 1.0, 60), "missing": "omit",
    "first_row": 100,
}  # fmt: skip


def changed(path: Path, change: Callable[[Members], object]) -> None:
    """Write a file again after some change, its checksums right."""
    with zipfile.ZipFile(path) as archive:
        members: Members = {name: archive.read(name) for name in archive.namelist()}
    for name, content in members.items():
        if name.endswith(".npy"):
            members[name] = np.load(io.BytesIO(content))
    members["header.json"] = json.loads(members["header.json"])
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if isinstance(content, np.ndarray):
                with archive.open(name, "w") as member:
                    np.lib.format.write_array(member, content, version=(1, 0))
            else:
                archive.writestr(name, json.dumps(content) if isinstance(content, dict) else content)


def saying(**entries: Any) -> Callable[[Members], object]:
    return lambda members: members["header.json"].update(entries)


def holding(name: str, make: Callable[[Any], Any]) -> Callable[[Members], object]:
    def change(members: Members) -> None:
        members[f"{name}.npy"] = make(members[f"{name}.npy"])

    return change


def at_first(value: int) -> Callable[[Any], Any]:
    """Put a number in the place of the first of every row."""

    def change(numbers: Any) -> Any:
        wide = numbers.astype(np.uint32)
        wide[..., 0] = value
        return wide

    return change


CONTRADICTIONS: dict[str, Callable[[Members], object]] = {
    "features in words": saying(n_features="60"),
    "features as truth": saying(n_features=True),
    "seed below zero": saying(seed="-1"),
    "seed too large": saying(seed=str(2**128)),
    "seed as a number": saying(seed=0),
    "seed with spaces": saying(seed=" 0"),
    "missing as a number": saying(missing=1),
    "gaps that are not there": saying(gaps=False),
    "gaps where none are allowed": saying(missing=False),
    "gaps as a number": saying(gaps=1),
    "sizes as fractions": saying(sizes=[1.0, 2.0, 4.0]),
    "sizes as a number": saying(sizes=1),
    "digest as a number": saying(shift=1),
    "other null": saying(shift="0" * 64),
    "no null": saying(shift=""),
    "other names": saying(names="0" * 64),
    "no names": saying(names=""),
    "rows as fractions": saying(ranges=[[100.0, 400.0]]),
    "rows below zero": saying(ranges=[[-200, 100]]),
    "rows beyond": saying(ranges=[[2**62, 2**62 + 300]]),
    "rows without end": saying(ranges=[[100]]),
    "rows in words": saying(ranges="rows"),
    "very many rows": saying(ranges=[[100, 2**40]]),
    "more rows": saying(ranges=[[100, 500]]),
    "fewer rows": saying(ranges=[[100, 399]]),
    "other rows": saying(ranges=[[0, 300]]),
    "sealed elsewhere": saying(sealed=[[0, 10]]),
    "sealed across blocks": saying(sealed=[[190, 200]]),
    "part of a block left over": saying(ranges=[[99, 400]], n_buckets=[257, 129, 65]),
    "sealed and kept": saying(sealed=[[390, 395]]),
    "buckets below zero": saying(n_buckets=[256, 128, -64]),
    "buckets as fractions": saying(n_buckets=[256.0, 128, 64]),
    "fewer rows than counted": saying(n_buckets=[255, 128, 64]),
    "too few buckets": saying(n_buckets=[256, 127, 64]),
    "too many buckets": saying(n_buckets=[256, 257, 64]),
    "kept rows in disorder": saying(loose=[384, 100]),
    "kept rows elsewhere": saying(loose=[100, 320]),
    "kept rows across blocks": saying(loose=[101, 384]),
    "fewer kept rows": saying(loose=[100]),
    "more kept rows": saying(loose=[100, 384, 390]),
    "kept rows in words": saying(loose=["100", "384"]),
    "version as a number": saying(written_by=1),
    "a list": lambda members: members.update({"header.json": b"[]"}),
    "another member": lambda members: members.update({"more.npy": np.zeros(3)}),
    "too many positive": holding("positive", at_first(257)),
    "too many negative": holding("negative", at_first(2**32 - 1)),
    "too many together": lambda members: (
        holding("positive", at_first(64))(members), holding("negative", at_first(64))(members)
    ),
    "more present than buckets": holding("present", at_first(257)),
    "fewer present than signs": holding("present", at_first(1)),
    "very many missing": holding("missing", at_first(257)),
    "nearest below zero": holding("nearest", lambda numbers: -numbers),
    "other null values": holding("shift", lambda numbers: numbers + 1.0),
    "constants falling": lambda members: members.update(
        {"same-features.npy": np.array([2, 1], dtype=np.uint8), "same-values.npy": np.ones(2)}
    ),
    "constants beyond": lambda members: members.update(
        {"same-features.npy": np.array([60], dtype=np.uint8), "same-values.npy": np.ones(1)}
    ),
    "constants far beyond": lambda members: members.update(
        {"same-features.npy": np.array([2**64 - 1], dtype=np.uint64), "same-values.npy": np.ones(1)}
    ),
    "constants in a square": lambda members: members.update(
        {"same-features.npy": np.zeros((1, 1), dtype=np.uint8), "same-values.npy": np.ones((1, 1))}
    ),
    "names that are numbers": lambda members: members.update({"feature_names.json": b"[1]"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A sketch with everything a file may hold; rows 100–127 and 384–399 are kept as they are."""
    path = tmp_path_factory.mktemp("full") / "full.sketch"
    sketch(GAPS, **FULL).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("change", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_files_that_contradict_themselves_are_refused(change: Any, written: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.sketch"
    path.write_bytes(written)
    changed(path, lambda members: members)
    assert load_sketch(path).ranges == ((100, 400),)
    changed(path, change)
    with pytest.raises(
        InputError, match=r"FILE must be a complete sketch file: got .*a\.sketch|bucket_sizes"
    ) as refused:
        load_sketch(path)
    assert "\n" not in str(refused.value)
    other = sketch(GAPS[:50], **{**FULL, "first_row": 0})
    if "name" not in str(refused.value):  # those of the first one are read, if they say they are the same
        with pytest.raises(InputError):
            merge([other, path])


def test_sums_of_signs_do_not_overflow(tmp_path: Path) -> None:
    """200 and 200 of 255 buckets are 400, not 144; 255 of 255 are right."""
    made = sketch(NOISE[:255], sealed=True)
    made.save(tmp_path / "a.sketch")
    for k, (positive, negative, right) in enumerate(
        [(200, 200, False), (0, 255, True), (254, 1, True), (1, 255, False)]
    ):
        path = tmp_path / f"{k}.sketch"
        made.save(path)

        def change(members: Members, positive: int = positive, negative: int = negative) -> None:
            for name, value in (("positive", positive), ("negative", negative)):
                members[f"{name}.npy"] = members[f"{name}.npy"].astype(np.uint8)
                members[f"{name}.npy"][0, 0] = value

        changed(path, change)
        if right:
            assert load_sketch(path).counts.positive[0, 0] == positive
        else:
            with pytest.raises(InputError, match="more signs are counted than there are buckets"):
                load_sketch(path)
