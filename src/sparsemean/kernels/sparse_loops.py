"""The compiled loops behind ``sparse``: one column after the other, its stored entries only.

A column becomes a short list of keys and values: the places of its entries in dealt order with the entries, or the
entries as integers of the same order with the group each belongs to.
"""
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import Any

import numpy as np

from sparsemean.kernels.compiling import compiled
from sparsemean.kernels.loops import MAGNITUDE, bits, is_bad

Arr = Any


@compiled
def sort_pairs(keys: Arr, values: Arr, n: int, run: int, more_keys: Arr, more_values: Arr) -> None:
    """Sort the first n keys and move the values with them; equal keys stay in order.

    Runs are sorted by insertion, quick where little is out of place, and then merged two by two.
    """
    for first in range(0, n, run):
        for k in range(first + 1, min(first + run, n)):
            key, value = keys[k], values[k]
            at = k
            while at > first and keys[at - 1] > key:
                keys[at], values[at] = keys[at - 1], values[at - 1]
                at -= 1
            keys[at], values[at] = key, value
    while run < n:
        for first in range(0, n, 2 * run):
            middle, last = min(first + run, n), min(first + 2 * run, n)
            i, j = first, middle
            for k in range(first, last):
                if j >= last or (i < middle and keys[i] <= keys[j]):
                    more_keys[k], more_values[k] = keys[i], values[i]
                    i += 1
                else:
                    more_keys[k], more_values[k] = keys[j], values[j]
                    j += 1
        for k in range(n):
            keys[k], values[k] = more_keys[k], more_values[k]
        run *= 2


@compiled
def gather(keys: Arr, sums: Arr, n: int, above: Arr, base: int) -> Any:
    """Add up neighbours in one bucket, ``above[base + key]``; return how many buckets are left, N₊ and N₋ of them.

    Sums of exactly zero are dropped: further up they change nothing.
    """
    left = positive = negative = k = 0
    while k < n:
        bucket, total = above[base + keys[k]], sums[k]
        k += 1
        while k < n and above[base + keys[k]] == bucket:
            total += sums[k]
            k += 1
        positive += total > 0.0
        negative += total < 0.0
        keys[left], sums[left] = bucket, total
        left += total != 0.0
    return left, positive, negative


@compiled
def dealt_entries(data: Arr, indices: Arr, first: int, last: int, place: Arr, keys: Arr, values: Arr) -> int:
    """Write the entries first … last − 1 that are not zero, with the places of their rows; return how many."""
    n = 0
    for k in range(first, last):
        at, x = place[indices[k]], np.float64(data[k])
        if at >= 0 and x != 0.0:
            keys[n], values[n] = at, x
            n += 1
    return n


@compiled
def count_columns(
    data: Arr, indices: Arr, indptr: Arr, place: Arr, above: Arr, bases: Arr, sizes: Arr, run: int,
    keys: Arr, values: Arr, more_keys: Arr, more_values: Arr, positive: Arr, negative: Arr, nearest: Arr,
) -> bool:  # fmt: skip
    """Count signs of any nest of buckets in neighbouring columns; True if a sum is not finite.

    ``place`` is the place of each row in dealt order, −1 for a row that is not dealt; ``above[bases[h] :]`` the bucket
    of level h that each place (bucket of level h − 1) goes into; ``sizes`` the rows of the buckets of the last level.
    """
    depth, width = positive.shape
    bad = False
    for c in range(width):
        n = dealt_entries(data, indices, indptr[c], indptr[c + 1], place, keys, values)
        sort_pairs(keys, values, n, run, more_keys, more_values)
        for h in range(depth):
            n, positive[h, c], negative[h, c] = gather(keys, values, n, above, bases[h])
        for k in range(n):
            nearest[c] = min(nearest[c], abs(values[k] / sizes[keys[k]]))
            bad |= is_bad(values[k])
    return bad


@compiled
def ordered_entries(data: Arr, indices: Arr, first: int, last: int, labels: Arr, keys: Arr, values: Arr) -> Any:
    """Write the entries that are not zero as integers of the same order, with their labels.

    Return how many, how many of them are labelled 1, and whether one is not finite.
    """
    n = ones = 0
    bad = False
    for k in range(first, last):
        x, label = np.float64(data[k]), labels[indices[k]]
        if x != 0.0:
            whole = bits(x)
            keys[n], values[n] = whole ^ ((whole >> 63) & MAGNITUDE), label
            ones += label
            n += 1
            bad |= is_bad(x)
    return n, ones, bad


@compiled
def compare_columns(
    data: Arr, indices: Arr, indptr: Arr, labels: Arr, n_first: int, n_second: int, run: int,
    keys: Arr, values: Arr, more_keys: Arr, more_values: Arr, out: Arr,
) -> bool:  # fmt: skip
    """Write #{first > second} and #{first < second} over all pairs of rows labelled 1 and 0; True if not finite.

    Values are taken in rising order, ties together; all zeros of a column, stored or not, are one tie.
    """
    bad = False
    for c in range(indptr.size - 1):
        n, ones, odd = ordered_entries(data, indices, indptr[c], indptr[c + 1], labels, keys, values)
        bad |= odd
        sort_pairs(keys, values, n, run, more_keys, more_values)
        greater = less = below_first = below_second = k = 0
        zeros_come = True
        while k < n or zeros_come:
            first = second = 0
            if zeros_come and (k == n or keys[k] > 0):
                first, second = n_first - ones, n_second - (n - ones)
                zeros_come = False
            else:
                key = keys[k]
                while k < n and keys[k] == key:
                    first += values[k] == 1.0
                    second += values[k] == 0.0
                    k += 1
            greater += first * below_second
            less += second * below_first
            below_first += first
            below_second += second
        out[0, c], out[1, c] = greater, less
    return bad


@compiled
def find(indices: Arr, first: int, last: int, column: int) -> int:
    """Return where ``column`` or the first one after it lies between ``first`` and ``last`` in sorted indices."""
    while first < last:
        middle = (first + last) >> 1
        if indices[middle] < column:
            first = middle + 1
        else:
            last = middle
    return first


@compiled
def take_columns(data: Arr, indices: Arr, indptr: Arr, start: int, slot: Arr, out: Arr) -> None:
    """Write the entries of rows in columns from ``start`` on to ``out[row, slot[column − start]]``, none where −1."""
    stop = start + slot.size
    for row in range(indptr.size - 1):
        last = indptr[row + 1]
        k = find(indices, indptr[row], last, start)
        while k < last and indices[k] < stop:
            at = slot[indices[k] - start]
            if at >= 0:
                out[row, at] = data[k]
            k += 1


@compiled
def entries_of_columns(indices: Arr, indptr: Arr, start: int, ends: Arr) -> None:
    """Write how many entries come before each column from ``start`` on, and before the end of the last one."""
    stop = start + ends.size - 1
    for row in range(indptr.size - 1):
        last = indptr[row + 1]
        k = find(indices, indptr[row], last, start)
        while k < last and indices[k] < stop:
            ends[indices[k] - start + 1] += 1
            k += 1
    for c in range(1, ends.size):
        ends[c] += ends[c - 1]


@compiled
def turn(data: Arr, indices: Arr, indptr: Arr, start: int, free: Arr, turned: Arr, rows: Arr) -> None:
    """Write the entries of columns from ``start`` on column by column, from ``free[column − start]`` on each."""
    stop = start + free.size
    for row in range(indptr.size - 1):
        last = indptr[row + 1]
        k = find(indices, indptr[row], last, start)
        while k < last and indices[k] < stop:
            c = indices[k] - start
            turned[free[c]], rows[free[c]] = data[k], row
            free[c] += 1
            k += 1
