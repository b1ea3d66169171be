"""What cut blocks cost, and that a sealed sketch gives no row away."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean import Estimate, InputError, Sketch, load_sketch, merge, simulate, sketch, sparse_mean

from command import expect

DATA = simulate.make_contaminated(1030, 40, [10, -5, -4, 2], random_state=0)
X = DATA.X


def pieces(*ends: int, gap: int = 0, **options: Any) -> Sketch:
    """Sketch X in pieces between ``ends``, each numbered ``gap`` rows later than without a gap."""
    cut = enumerate(pairwise(ends))
    return merge([sketch(X[a:b], first_row=a + k * gap, **options) for k, (a, b) in cut])


def same_answer(found: Estimate, expected: Estimate) -> None:
    for name in ("support", "p_values", "q_values", "radius", "beta", "skewed", "intervals"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("sealed", [False, True])
def test_one_cut_block_at_the_end_is_one_fit(sealed: bool) -> None:
    expected = sparse_mean(X, random_state=0, contamination=0.01, test="buckets")
    found = pieces(0, 640, 1030, sealed=sealed).estimate(X, contamination=0.01)
    same_answer(found, expected)


def test_how_rows_are_counted_is_said() -> None:
    said = "rows are counted from 0 in the order of their numbers: the first is row 64"
    late = sketch(X, first_row=64).estimate(X, contamination=0.1)
    assert said in late.status.messages
    assert any("counted from 0" in note for note in pieces(0, 500, 1030, gap=64).estimate(X).status.messages)
    for plain in (sketch(X), pieces(0, 500, 1030, sealed=True)):
        assert not any("counted from 0" in note for note in plain.estimate(X).status.messages)
    later = sketch(X, first_row=64).estimate(contamination=0)
    assert not any("counted from 0" in note for note in later.status.messages)


def test_fewer_than_a_block_of_rows_cannot_be_sealed() -> None:
    said = "sealed must be left out for fewer than 64 rows, whose counts would give them away: got 63 rows"
    with pytest.raises(InputError) as refused:
        sketch(X[:63], first_row=64, sealed=True)
    assert str(refused.value) == said
    assert sketch(X[:64], first_row=30, sealed=True).rows_kept == 0
    assert sketch(X[:63]).rows_kept == 63


def with_gaps() -> Any:
    """Columns of one value: one whole, and those of which 1, 63 and 64 values are there."""
    rows = X[:200].copy()
    for column, known in enumerate((200, 1, 63, 64)):
        rows[:, column] = np.nan
        rows[:known, column] = 7.25 + column
    return rows


def numbers_in(path: Path) -> set[float]:
    """All numbers that are no integers, in the arrays of a file."""
    with np.load(path) as arrays:
        members = [arrays[name] for name in arrays.files if not name.endswith(".json")]
    floats = np.concatenate([array.ravel() for array in members if array.dtype.kind == "f"])
    return set(floats[~np.isnan(floats)].tolist())


@pytest.mark.parametrize("first_row", [0, 63, 70])
def test_a_sealed_file_has_counts_and_values_that_64_rows_share(first_row: int, tmp_path: Path) -> None:
    made = sketch(with_gaps(), first_row=first_row, missing="omit", sealed=True, bucket_sizes=(1, 64))
    made.save(tmp_path / "a.sketch")
    assert numbers_in(tmp_path / "a.sketch") == {7.25, 10.25}
    back = load_sketch(tmp_path / "a.sketch")
    assert back.constant.features.tolist() == [0, 3]
    assert np.isnan(back.counts.nearest).all()
    sketch(X[:64], sealed=True, bucket_sizes=(64,)).save(tmp_path / "b.sketch")
    assert numbers_in(tmp_path / "b.sketch") == set()


def test_a_value_that_few_rows_have_may_stay_and_others_are_taken_off() -> None:
    """The price of the above: column 1 has one value in 90 rows, of which no piece has 64."""
    rows = X[:640].copy()
    rows[:, 0] = 3.0
    rows[:, 1] = np.nan
    rows[290:380, 1] = 3.0
    ends = ((0, 320), (320, 640))
    parts = [sketch(rows[a:b], first_row=a, missing="omit", sealed=True) for a, b in ends]
    whole = sparse_mean(rows, random_state=0, missing="omit", contamination=0.0)
    found = merge(parts).estimate(contamination=0.0)
    assert not {0, 1} & set(whole.support.tolist())
    assert set(found.support.tolist()) - set(whole.support.tolist()) == {1}
    assert merge(parts).estimate(rows, contamination=0.0).support.tolist() == whole.support.tolist()


def test_sealed_files_merge_with_others_and_decide_like_one_fit(tmp_path: Path) -> None:
    """An unknown nearest mean stays unknown, and nothing that a sketch decides asks for it."""
    expected = sparse_mean(X, random_state=0, contamination=0.1, test="buckets")
    paths = []
    for a, b, sealed in ((0, 192, True), (192, 700, False), (700, 704, False), (704, 1030, True)):
        paths.append(tmp_path / f"{a}.sketch")
        sketch(X[a:b], first_row=a, sealed=sealed).save(paths[-1])
    for order in (paths, paths[::-1]):
        together = merge(order)
        assert np.isnan(together.counts.nearest).all()
        together.save(tmp_path / "all.sketch")
        for found in (together, load_sketch(tmp_path / "all.sketch")):
            same_answer(found.estimate(X, contamination=0.1), expected)
            np.testing.assert_array_equal(found.estimate(contamination=0.1).entry_time, expected.entry_time)


def test_the_command_refuses_what_gives_rows_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", X[:63])
    expect("sketch", tmp_path / "x.npy", "--seal", status=2)
    said = capsys.readouterr().err
    assert "sealed must be left out for fewer than 64 rows" in said.replace("\n", " ")
    assert not (tmp_path / "x.sketch").exists()
    for k, (a, b) in enumerate(((0, 100), (100, 300))):
        np.save(tmp_path / f"{k}.npy", X[a:b])
        expect("sketch", tmp_path / f"{k}.npy", "--seal", "--first-row", str(a), "-q")
    expect("merge", tmp_path / "0.sketch", tmp_path / "1.sketch", "-q", "-e", "0")
