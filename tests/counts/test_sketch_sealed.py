"""What cut blocks cost, and that a sealed sketch gives no row away."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean import Estimate, InputError, Sketch, load_sketch, merge, simulate, sketch, sparse_mean
from sparsemean._stats.buckets import assign_ranges, cut_blocks
from sparsemean._util.records import BLOCK

from command import expect

DATA = simulate.make_contaminated(1030, 40, [10, -5, -4, 2], random_state=0)
X = DATA.X


def pieces(*ends: int, gap: int = 0, **options: Any) -> Sketch:
    """Sketch X in pieces between ``ends``, each numbered ``gap`` rows later than without a gap."""
    cut = enumerate(pairwise(ends))
    return merge([sketch(X[a:b], first_row=a + k * gap, noise="skewed", **options) for k, (a, b) in cut])


CUT: dict[str, tuple[Sketch, int]] = {
    "sealed inside blocks": (pieces(0, 100, 500, 1030, sealed=True), 5),
    "rows lack": (pieces(0, 500, 1030, gap=100), 3),
    "tails of institutions": (pieces(0, 500, 1030, gap=12, sealed=True), 2),
    "both ends": (sketch(X, first_row=10, noise="skewed"), 2),
}


@pytest.mark.parametrize("case", CUT.values(), ids=CUT)
def test_skewed_noise_is_refused_where_blocks_are_cut(case: tuple[Sketch, int]) -> None:
    together, cut = case
    said = (
        "noise must be 'symmetric' where pieces were sealed, or rows lack, inside blocks of 64: "
        f"got 'skewed' and {cut} blocks that are cut; cut pieces at multiples of 64"
    )
    for again in (None, X):
        for contamination in (0.0, 0.01):
            with pytest.raises(InputError) as refused:
                together.estimate(again, noise="skewed", contamination=contamination)
            assert str(refused.value) == said
    found = together.estimate(X, contamination=0.01)
    assert found.support.size


def same_answer(found: Estimate, expected: Estimate) -> None:
    for name in ("support", "p_values", "q_values", "radius", "beta", "skewed", "intervals"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("noise", ["symmetric", "skewed"])
def test_one_cut_block_at_the_end_is_one_fit(noise: str, sealed: bool) -> None:
    expected = sparse_mean(X, random_state=0, contamination=0.01, noise=noise)
    found = pieces(0, 640, 1030, sealed=sealed).estimate(X, contamination=0.01, noise=noise)
    same_answer(found, expected)


def test_one_cut_block_elsewhere_will_do() -> None:
    together = merge([sketch(X[:54], first_row=10, noise="skewed"), sketch(X[54:950], first_row=64, noise="skewed")])
    found = together.estimate(X[:950], noise="skewed", contamination=0.01)
    assert set(found.support) <= {0, 1, 2, 3}


@pytest.mark.parametrize("seed", range(20))
def test_cut_blocks_are_those_that_are_dealt_with_fewer_rows(seed: int) -> None:
    """Counted from the dealing itself: the largest buckets, of 64, are the blocks and their parts."""
    rng = np.random.default_rng(seed)
    ends = np.unique(rng.choice(1000, size=12) // (step := rng.choice([1, 64], size=12)) * step).tolist()
    made = [
        sketch(np.ones((b - a, 1)), first_row=a, sealed=b - a >= BLOCK and rng.random() < 0.5)
        for a, b in pairwise(ends)
        if rng.random() < 0.8
    ]
    merged = merge(made)
    dealt = assign_ranges(merged.ranges, merged.sealed, (1, 64), seed)
    whole = dealt.levels[0]
    for level in dealt.levels[1:]:
        whole = whole[level]
    assert cut_blocks(merged.ranges, merged.sealed) == np.sum(np.diff(whole) < BLOCK)


def test_how_rows_are_counted_is_said() -> None:
    said = "rows are counted from 0 in the order of their numbers: the first is row 64"
    late = sketch(X, first_row=64).estimate(X, contamination=0.1)
    assert said in late.status.messages
    assert any("counted from 0" in note for note in pieces(0, 500, 1030, gap=64).estimate(X).status.messages)
    for plain in (sketch(X), pieces(0, 500, 1030, sealed=True)):
        assert not any("counted from 0" in note for note in plain.estimate(X).status.messages)
    assert not any("counted from 0" in note for note in sketch(X, first_row=64).estimate().status.messages)


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
    expected = sparse_mean(X, random_state=0, contamination=0.1)
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
        expect("sketch", tmp_path / f"{k}.npy", "--seal", "--noise", "skewed", "--first-row", str(a), "-q")
    expect("merge", tmp_path / "0.sketch", tmp_path / "1.sketch", "--noise", "skewed", "-q", status=2)
    assert "noise must be 'symmetric' where pieces were sealed" in capsys.readouterr().err.replace("\n", " ")
    expect("merge", tmp_path / "0.sketch", tmp_path / "1.sketch", "-q")
