"""The compiled loops behind ``cpu``: serial, GIL released, no allocation, no knowledge of anything but arrays.

Bucket sums follow the order of additions of ``reference`` exactly. Rows are sliced before the inner loops because an
index that might be negative keeps LLVM from using vector instructions.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Arr = Any
compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@compiled
def nearer(value: float, nearest: float) -> float:
    """Return the smaller of ``nearest`` and |value|; a zero does not count."""
    distance = abs(value)
    distance = distance if distance > 0.0 else np.inf
    return distance if distance < nearest else nearest


@compiled
def row(memory: Arr, start: int, width: int) -> Arr:
    """Return ``width`` neighbouring elements."""
    return memory[start : start + width]


@compiled
def count_buckets(
    memory: Arr,
    start: int,
    step: int,
    order: Arr,
    offsets: Arr,
    blank: Arr,
    acc: Arr,
    pos: Arr,
    neg: Arr,
    near: Arr,
) -> bool:
    """Count signs of one level of buckets in ``blank.size`` neighbouring columns; True if a sum is not finite.

    Rows enter four at a time; a bucket that does not fill its last four is filled up with the ``blank`` row.
    """
    width = blank.size
    bad = 0
    for j in range(offsets.size - 1):
        first, last = offsets[j], offsets[j + 1]
        share = 1.0 / (last - first)
        carried = last - first > 4
        if carried:
            acc[:] = 0.0
        while last - first > 4:
            ra = row(memory, start + order[first] * step, width)
            rb = row(memory, start + order[first + 1] * step, width)
            rc = row(memory, start + order[first + 2] * step, width)
            re = row(memory, start + order[first + 3] * step, width)
            for i in range(width):
                acc[i] = acc[i] + np.float64(ra[i]) + np.float64(rb[i]) + np.float64(rc[i]) + np.float64(re[i])
            first += 4
        ra = row(memory, start + order[first] * step, width)
        rb = row(memory, start + order[first + 1] * step, width) if last - first > 1 else blank
        rc = row(memory, start + order[first + 2] * step, width) if last - first > 2 else blank
        re = row(memory, start + order[first + 3] * step, width) if last - first > 3 else blank
        for i in range(width):
            s = np.float64(ra[i])
            if carried:
                s = acc[i] + s
            s = s + np.float64(rb[i]) + np.float64(rc[i]) + np.float64(re[i])
            pos[i] += np.int32(s > 0.0)
            neg[i] += np.int32(s < 0.0)
            near[i] = nearer(s * share, near[i])
            bad |= (s - s) != 0.0
    return bad != 0


@compiled
def count_quads(
    memory: Arr,
    start: int,
    step: int,
    order: Arr,
    first: int,
    last: int,
    stack: Arr,
    pos: Arr,
    neg: Arr,
    near: Arr,
) -> bool:
    """Count signs of nested buckets of 1, 2, 4, … rows in neighbouring columns; True if a sum is not finite.

    ``order[first:last]`` is a whole number of the largest buckets. Each pass of the inner loop takes four rows and
    settles the three smallest sizes; larger sizes pair up the sums of four that wait on ``stack``. ``near[0]`` is the
    nearest sum of four rows and ``near[1]`` the nearest sum of the largest size.
    """
    depth, width = pos.shape
    nearest = near[0]
    p1, p2, p4 = pos[0], pos[1], pos[2]
    n1, n2, n4 = neg[0], neg[1], neg[2]
    bad = 0
    for quad in range((last - first) // 4):
        k = first + 4 * quad
        ra = row(memory, start + order[k] * step, width)
        rb = row(memory, start + order[k + 1] * step, width)
        rc = row(memory, start + order[k + 2] * step, width)
        re = row(memory, start + order[k + 3] * step, width)
        for i in range(width):
            xa, xb, xc, xe = np.float64(ra[i]), np.float64(rb[i]), np.float64(rc[i]), np.float64(re[i])
            s, t = xa + xb, xc + xe
            q = s + t
            p1[i] += np.int32(xa > 0.0) + np.int32(xb > 0.0) + np.int32(xc > 0.0) + np.int32(xe > 0.0)
            n1[i] += np.int32(xa < 0.0) + np.int32(xb < 0.0) + np.int32(xc < 0.0) + np.int32(xe < 0.0)
            p2[i] += np.int32(s > 0.0) + np.int32(t > 0.0)
            n2[i] += np.int32(s < 0.0) + np.int32(t < 0.0)
            p4[i] += np.int32(q > 0.0)
            n4[i] += np.int32(q < 0.0)
            nearest[i] = nearer(q, nearest[i])
            bad |= (q - q) != 0.0
        if depth > 3:
            quad_sum = stack[0]
            for i in range(width):
                quad_sum[i] = (np.float64(ra[i]) + np.float64(rb[i])) + (np.float64(rc[i]) + np.float64(re[i]))
            bad |= pair_up(quad, stack, pos, neg, near[1])
    return bad != 0


@compiled
def pair_up(quad: int, stack: Arr, pos: Arr, neg: Arr, near: Arr) -> int:
    """Add the sum in ``stack[0]`` to the left-hand sums that wait for it, size after size.

    Sum number ``index`` of a level is a right-hand one when odd; ``stack[level − 2]`` keeps the left-hand one.
    """
    depth, width = pos.shape
    current = stack[0]
    level, index, bad = 3, quad, 0
    while level < depth and index & 1:
        left, p, n = stack[level - 2], pos[level], neg[level]
        top = level == depth - 1
        for i in range(width):
            s = left[i] + current[i]
            p[i] += np.int32(s > 0.0)
            n[i] += np.int32(s < 0.0)
            current[i] = s
            bad |= (s - s) != 0.0
        level, index = level + 1, index >> 1
        if top:
            for i in range(width):
                near[i] = nearer(current[i], near[i])
    if level < depth:
        stack[level - 2][:] = current
    return bad


@compiled
def count_columns(
    memory: Arr, start: int, step: int, across: int, order: Arr, offsets: Arr, bases: Arr, sums: Arr,
    pos: Arr, neg: Arr, near: Arr,
) -> bool:  # fmt: skip
    """Count signs of any nest of buckets, one column after the other, in memory of any layout.

    ``offsets[bases[h] : bases[h + 1]]`` are the offsets of level h. ``near`` is the nearest mean of the last level.
    """
    depth, width = pos.shape
    bad = False
    for c in range(width):
        at = start + c * across
        for k in range(order.size):
            sums[k] = np.float64(memory[np.uintp(at + order[k] * step)])
        for h in range(depth):
            base = bases[h]
            for j in range(bases[h + 1] - base - 1):
                total = sums[offsets[base + j]]
                for k in range(offsets[base + j] + 1, offsets[base + j + 1]):
                    total += sums[k]
                sums[j] = total
                pos[h, c] += np.int32(total > 0.0)
                neg[h, c] += np.int32(total < 0.0)
        n_buckets = bases[depth] - bases[depth - 1] - 1
        for j in range(n_buckets):
            near[c] = nearer(sums[j] / rows_below(j, depth - 1, offsets, bases), near[c])
            bad |= (sums[j] - sums[j]) != 0.0
    return bad


@compiled
def rows_below(bucket: int, level: int, offsets: Arr, bases: Arr) -> int:
    """Return the number of rows in a bucket of ``level``."""
    first, last = bucket, bucket + 1
    for h in range(level, -1, -1):
        first, last = offsets[bases[h] + first], offsets[bases[h] + last]
    return last - first


@compiled
def sum_buckets(
    memory: Arr, start: int, step: int, across: int, order: Arr, offsets: Arr, columns: Arr, out: Arr
) -> None:
    """Write the finest bucket sums of ``columns`` into ``out`` (J, columns), reading rows or columns along memory."""
    out[:] = 0.0
    if abs(across) <= abs(step):
        for j in range(offsets.size - 1):
            for k in range(offsets[j], offsets[j + 1]):
                at = start + order[k] * step
                for i in range(columns.size):
                    out[j, i] += np.float64(memory[np.uintp(at + columns[i] * across)])
    else:
        for i in range(columns.size):
            at = start + columns[i] * across
            for j in range(offsets.size - 1):
                for k in range(offsets[j], offsets[j + 1]):
                    out[j, i] += np.float64(memory[np.uintp(at + order[k] * step)])


@compiled
def walk(ordered: Arr, alpha: float, eta: float, times: Arr, out: Arr) -> None:
    """Run the subgradient method on rows of sorted bucket means; ``out[k]`` is μ̂ after ``times[k]`` steps.

    ``below`` and ``through`` point at #{x̄ < μ̂} and #{x̄ ≤ μ̂} and move with μ̂, so that a step costs O(1).
    """
    n_features, J = ordered.shape
    for f in range(n_features):
        x = ordered[f]
        u = v = alpha
        below = through = 0
        t = 0
        for k in range(times.size):
            while True:
                mu = u * u - v * v
                while below < J and x[below] < mu:
                    below += 1
                while below > 0 and x[below - 1] >= mu:
                    below -= 1
                while through < J and x[through] <= mu:
                    through += 1
                while through > 0 and x[through - 1] > mu:
                    through -= 1
                if t >= times[k]:
                    break
                beta = (J - through - below) / J
                u *= 1.0 + eta * beta
                v *= 1.0 - eta * beta
                t += 1
            out[k, f] = mu
