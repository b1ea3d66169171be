"""Rows that are not those of a sketch, and files that contradict themselves, are refused in one line."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
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
        with pytest.raises(InputError, match="X must be the rows of the sketch, in the same order: got other signs"):
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
    expect("merge", tmp_path / "a.sketch", tmp_path / "b.sketch", "--out", target, *more, status=2)
    out, err = capsys.readouterr()
    assert "X must have at least 4 rows" in err
    assert f"Written: {target}" in {"": out, "--json": err, "-q": f"Written: {target}"}["".join(more)]
    assert load_sketch(target).ranges == ((0, 3),)


def test_merge_says_what_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sketch(NOISE).save(tmp_path / "a.sketch")
    for name in ("a.xlsx", "a.h5ad", "a"):
        expect("merge", tmp_path / "a.sketch", "--out", tmp_path / name, status=2)
        assert "--out must end in .sketch, .csv, .json or .parquet: got" in capsys.readouterr().err
