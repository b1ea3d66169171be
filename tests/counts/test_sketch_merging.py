"""Which sketches add up, and which do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean import InputError, merge, sketch
from sparsemean._evidence.counting import merging, sketch_file

X = np.random.default_rng(0).normal(size=(200, 4))
NAMES = ["a", "b", "c", "d"]


def test_objects_and_files_add_up_in_any_order(tmp_path: Path) -> None:
    whole = sketch(X, feature_names=NAMES)
    parts: list[Any] = [sketch(X[a : a + 40], first_row=a, feature_names=NAMES) for a in range(0, 200, 40)]
    for k in (0, 3):
        parts[k].save(tmp_path / f"{k}.sketch")
        parts[k] = tmp_path / f"{k}.sketch"
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1]):
        together = merge(parts[k] for k in order)
        assert together.ranges == whole.ranges
        assert list(together.feature_names) == NAMES
        np.testing.assert_array_equal(together.counts.positive, whole.counts.positive)
        assert together.rows_kept == whole.rows_kept == 200 % 64
    pairs = merge([merge(parts[:2]), merge(parts[2:])])
    np.testing.assert_array_equal(pairs.counts.negative, whole.counts.negative)


def test_merging_leaves_the_sketches_as_they_were() -> None:
    first, second, third = (sketch(X[a:b], first_row=a) for a, b in ((0, 64), (64, 128), (128, 200)))
    before = first.counts.positive.copy()
    assert merge([first]).n_rows == 64
    together = merge([first, second, third])
    again = merge([together, sketch(X, first_row=200)])
    np.testing.assert_array_equal(first.counts.positive, before)
    np.testing.assert_array_equal(together.counts.positive, merge([third, first, second]).counts.positive)
    assert again.n_rows == 400


WIDE = np.random.default_rng(1).standard_t(3, size=(300, 20))


@pytest.mark.parametrize("first_row", [300, 320, 1_000_000, 777])
@pytest.mark.parametrize("options", [{}, {"sealed": True}, {"null": 0.3}, {"missing": "omit"}], ids=str)
def test_the_same_rows_under_another_first_row_are_refused(first_row: int, options: Any, tmp_path: Path) -> None:
    sketch(WIDE, **options).save(tmp_path / "monday.sketch")
    copy = sketch(WIDE.astype(np.float64, order="F"), first_row=first_row, **options)
    said = (
        r"no rows in common: got .*monday.sketch and sketch 3 of the list, in which every feature has the same signs;"
    )
    other = sketch(WIDE[::-1] + 0.1, first_row=5000, **options)
    with pytest.raises(InputError, match=said):
        merge([tmp_path / "monday.sketch", other, copy])
    assert merge([tmp_path / "monday.sketch", other]).n_rows == 600


def test_other_rows_are_not_taken_for_the_same() -> None:
    """Few features, or many that are alike, may well agree: 64 rows of 4 features do so about once in 20,000."""
    rng = np.random.default_rng(0)
    for columns in (lambda x: x, lambda x: np.repeat(x, 30, axis=1), lambda x: np.zeros_like(x), lambda x: x + 50):
        X = columns(rng.standard_normal((64, 1)))
        assert merge([sketch(X), sketch(X, first_row=64)]).n_rows == 128
    signs = rng.binomial(300, 0.5, (3000, 6))  # independent pieces, agreeing where the rule says once in 1e9
    assert merging._agree_by_chance(np.stack((signs[0], 300 - signs[0])), 300) <= 1e-7
    assert np.unique(signs, axis=0).shape[0] == 3000
    agree = [np.sum(np.bincount(rng.binomial(n, p, 4000)) ** 2) / 4000**2 for n, p in ((300, 0.5), (1000, 0.01))]
    for share, (n, p) in zip(agree, ((300, 0.5), (1000, 0.01)), strict=True):
        number = np.array([[round(n * p)], [0]])
        assert share == pytest.approx(merging._agree_by_chance(number, n), rel=0.15)


def test_two_sealed_sketches_that_differ_by_one_row_give_its_signs() -> None:
    """What the page warns of: were it mended, the page would have to say so."""
    one, other = (sketch(WIDE[:n], sealed=True).counts for n in (128, 129))
    net = (other.positive[0] - other.negative[0]) - (one.positive[0] - one.negative[0])
    np.testing.assert_array_equal(net, np.sign(WIDE[128]))


DIFFER: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "seed": ({}, {"random_state": 7}, r"same seed: got 0 in A and 7 in B"),
    "sizes": ({}, {"bucket_sizes": (1, 2)}, r"same bucket sizes: got \(1, 2, 4\) in A and \(1, 2\) in B"),
    "missing": ({}, {"missing": "omit"}, r"same way with missing values: got raise in A and omit in B"),
    "null": ({}, {"null": 0.5}, r"same null value: got 0.0 \(column 0\) in A and 0.5 in B"),
    "nulls": ({"null": [1, 2, 3, 4]}, {"null": [1, 2, 5, 4]}, r"got 3.0 \(column 2\) in A and 5.0 in B"),
    "names": (
        {"feature_names": NAMES}, {"feature_names": list("abXd")},
        r"same feature names: got 'c' \(column 2\) in A and 'X' in B",
    ),
    "no names": ({}, {"feature_names": NAMES}, r"same feature names: got no names in A and 'a', … in B"),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFER.values(), ids=DIFFER)
def test_sketches_that_differ_are_refused_with_both_values(case: Any, tmp_path: Path) -> None:
    ours, theirs, said = case
    first, second = sketch(X, **ours), sketch(X, first_row=200, **theirs)
    first.save(tmp_path / "first.sketch")
    second.save(tmp_path / "second.sketch")
    files = (tmp_path / "first.sketch", tmp_path / "second.sketch")
    in_files = said.replace("in A", f"in {files[0]}").replace("in B", f"in {files[1]}")
    with pytest.raises(InputError, match=in_files) as refused:
        merge(files)
    assert "\n" not in str(refused.value)
    in_memory = said.replace("in A", "in sketch 1 of the list").replace("in B", "in sketch 2 of the list")
    with pytest.raises(InputError, match=in_memory):
        merge([first, second])


def test_other_features_are_refused() -> None:
    with pytest.raises(InputError, match="same number of features: got 4 in sketch 1 of the list and 3 in sketch 2"):
        merge([sketch(X), sketch(X[:, 1:], first_row=200)])


def test_rows_seen_twice_are_refused(tmp_path: Path) -> None:
    sketch(X).save(tmp_path / "a.sketch")
    sketch(X, first_row=150).save(tmp_path / "b.sketch")
    a, b = tmp_path / "a.sketch", tmp_path / "b.sketch"
    with pytest.raises(InputError, match=f"no rows in common: got rows 150 to 199 in {a} and {b}"):
        merge([b, a])
    with pytest.raises(InputError, match=f"no rows in common: got rows 0 to 199 in {a}, given twice"):
        merge([a, a])


def test_files_are_compared_before_any_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k, seed in enumerate((0, 0, 1)):
        sketch(X, first_row=200 * k, random_state=seed).save(tmp_path / f"{k}.sketch")
    monkeypatch.setattr(sketch_file, "read_counts", lambda _: pytest.fail("arrays were read"))
    with pytest.raises(InputError, match="same seed"):
        merge(sorted(tmp_path.iterdir()))


def test_few_files_at_a_time_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gc
    import weakref

    for k in range(8):
        sketch(X, first_row=200 * k).save(tmp_path / f"{k}.sketch")
    alive: list[Any] = []
    most, read = [0], sketch_file.read_counts

    def watched(path: Path) -> Any:
        piece = read(path)
        alive.append(weakref.ref(piece.counts.positive))
        gc.collect()
        most[0] = max(most[0], sum(ref() is not None for ref in alive))
        return piece

    monkeypatch.setattr(sketch_file, "read_counts", watched)
    assert merge(sorted(tmp_path.iterdir())).n_rows == 1600
    assert most[0] <= merging.AHEAD + 3  # the first, the one being added, the one before it, and those ahead


@pytest.mark.parametrize("bad", ["a.sketch", 3, None, [], [3], sketch(X)])
def test_what_is_no_list_of_sketches_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match="sketches must be"):
        merge(bad)
