from __future__ import annotations

import math

import numpy as np

from sparsemean._cli import benchmarks
from sparsemean._cli.benchmarks import scale
from sparsemean._evidence.counting.merging import add_sketches


def test_quick_rows_are_measured_and_promise_nothing() -> None:
    rows = benchmarks.run(["far"], quick=True, repeat=1)
    assert all(math.isfinite(row.value) and row.value > 0 for row in rows)
    assert all(row.bar is None for row in rows)
    assert [row.unit for row in rows] == [
        "GB/s", "GB/s", "million features a second", "B a feature", "ms", "ms", "s", "s", "ms", "ms", "ms",
        "ms", "ns a row",
    ]  # fmt: skip
    (pickled,) = (row.value for row in rows if row.unit == "B a feature")
    assert 32 < pickled < 33  # six counts of 4 bytes, a distance of 8, and a little around them


def test_made_up_counts_are_those_of_fair_signs_but_for_a_few() -> None:
    made = scale.made(5000, 6400)
    counts = made.counts
    np.testing.assert_array_equal((counts.positive + counts.negative).max(axis=1), [6400, 3200, 1600])
    rest = np.arange(5000) % 1000 != 0
    z = (2 * counts.positive[0, rest] - 6400) / 80
    assert abs(z.mean()) < 0.1
    assert 0.9 < z.std() < 1.1
    assert ((counts.positive[0] - counts.negative[0])[~rest] == 0.8 * 6400).all()


def test_very_many_are_selected_with_means_of_every_size() -> None:
    selected, radius, whole, number = scale.deciding(2000, 20, "fwer", 1)
    assert min(selected, radius, whole) > 0
    assert 80 <= number <= 100  # the weakest of a hundred are not found
    counts = scale.made(2000, 2000, every=20, weakest=56).counts
    shares = counts.positive[0, ::20] / counts.n_buckets[0]
    assert (shares.min(), shares.max()) == (0.56, 0.9)


def test_copies_are_of_other_rows_and_add_up() -> None:
    made = scale.made(100, 640)
    both = add_sketches((made, scale.moved(made, 640)))
    assert both.ranges == ((0, 1280),)
    np.testing.assert_array_equal(both.counts.positive, 2 * made.counts.positive)
