"""Tails of U before anything is compiled: what `rank_transforms` does angle by angle, done for many angles at a time.

Real and imaginary parts stay apart: NumPy may multiply complex numbers with one rounding less than machine code does.
"""

from __future__ import annotations

import math

import numpy as np

from sparsemean._kernels.memory_layout import Array
from sparsemean._kernels.rank_transforms import (
    GONE,
    LANES,
    NEGLIGIBLE,
    divided,
    doubled_end,
    log_choose,
    majorant,
    nearest,
)
from sparsemean._util.records import FloatArray

AT_ONCE = 64
"""Blocks of `LANES` angles that are looked at together."""


def weigh(
    n1: int, n2: int, A: int, t: float, weights: FloatArray, ahead: FloatArray, behind: FloatArray
) -> tuple[float, float, float]:
    """Do what `rank_transforms.weigh` does, with lists in place of arrays."""
    n1, n2, A = int(n1), int(n2), int(A)
    small, large = min(n1, n2), max(n1, n2)
    last, first = min(small, A), max(0, A - large)
    z, rho = n1 + n2 - A, math.exp(-2.0 * t)
    up = np.full(last, rho)
    down = np.append(math.exp(-2.0 * t * (A - last + 1)), up[1:]) if last else up
    ahead[:last], behind[:last] = np.multiply.accumulate(up), np.multiply.accumulate(down)[::-1]
    log_binomial = slope = bend = 0.0
    scale = log_choose(n1 + n2, n1)
    logs, means, bends = [], [], []
    for k, (d, u) in enumerate(zip([*ahead[:last].tolist(), 0.0], [*behind[:last].tolist(), 0.0], strict=True)):
        if k >= first:
            a = k if n1 <= n2 else A - k
            end = float(doubled_end(n1, n2, A, a))
            logs.append(log_choose(z, n1 - a) - scale + log_binomial + t * end)
            means.append(end + slope)
            bends.append(bend)
        up_to, down_to = 1.0 - u, 1.0 - d
        log_binomial += math.log(up_to / down_to)
        i, j = 2.0 * (A - k), 2.0 * (k + 1)
        slope += i * u / up_to - j * d / down_to
        bend += j * j * d / (down_to * down_to) - i * i * u / (up_to * up_to)
    most = max(logs)
    each = [math.exp(value - most) for value in logs]
    total = _sum(each)
    mean = _sum([w * value for w, value in zip(each, means, strict=True)]) / total
    each = [w / total for w in each]
    off = [value - mean for value in means]
    variance = _sum([w * (x * x + b) for w, x, b in zip(each, off, bends, strict=True)])
    weights[:, first : last + 1] = each, means, bends
    return most + math.log(total), mean, max(variance, 0.0)


def _sum(values: list[float]) -> float:
    """Add up one by one; Python's own sum keeps what is rounded off."""
    total = 0.0
    for value in values:
        total += value
    return total


def summed(
    n1: Array, n2: Array, A: Array, start: int, power: int, t: float, period: int, band: int, last: int,
    scratch: FloatArray, _: Array,
) -> float:  # fmt: skip
    """Do what `rank_transforms.summed` does, for several blocks of angles at a time."""
    start, band = int(start), int(band)
    total, j, unit = 0.0, 0, 2.0 * math.pi / period
    falling, rate = math.exp(-t), t * period / max(1, band)
    while j <= last:
        firsts = range(j, min(last + 1, j + AT_ONCE * LANES), LANES)
        parts = np.zeros((4, len(firsts) * LANES))
        parts[::2] = 1.0
        there = np.ones(len(firsts), dtype=bool)
        for h in range(n1.size):
            design = int(n1[h]), int(n2[h]), int(A[h])
            _turn(*design, firsts, period, scratch[5 * h : 5 * h + 5], parts)
            there &= np.abs(parts).reshape(4, -1, LANES).max(axis=(0, 2)) >= GONE
            parts[:, np.repeat(~there, LANES)] = 0.0
            if not there.any():
                break
        (c, one_re), (s, one_im) = _fans([-start, 1], firsts, period)
        x, y = parts[0] * c - parts[1] * s, parts[0] * s + parts[1] * c
        number = min(x.size, last + 1 - j)
        if band > 0:
            weights = [majorant(i, band, rate) for i in range(j, j + number)]
            if power == 2:
                weights = [divided(u, v, t, unit * i) for i, (u, v) in enumerate(weights, start=j)]
            u, v = np.array(weights).T
            terms = x[:number] * u - y[:number] * v
        else:
            u, v = parts[2] * c - parts[3] * s, parts[2] * s + parts[3] * c
            if start & 1:
                u, v = -u, -v
            here, beside = falling * one_re, falling * one_im
            terms = _over_power(x, y, 1.0 - here, beside, power) + _over_power(u, v, 1.0 + here, -beside, power)
            terms = terms[:number]
        once = [0] if band > 0 or period % 4 else [0, period // 4]
        terms *= np.where(np.isin(np.arange(j, j + number), once), 1.0, 2.0)
        total = float(np.add.accumulate(np.append(total, terms))[-1])
        j += number
    return total


def _fans(times: list[int], firsts: range, period: int) -> tuple[FloatArray, FloatArray]:
    """Return cosines and sines of 2π·times·j/period for the j of every block, a row for each of ``times``."""
    unit = 2.0 * math.pi / period
    angles = [[unit * nearest(each * j, period) for j in firsts] for each in times]
    steps = [unit * nearest(each, period) for each in times]
    c, s = (np.array([[f(step)] for step in steps]) for f in (math.cos, math.sin))
    re, im = np.empty((2, LANES, len(times), len(firsts)))
    re[0], im[0] = ([[f(angle) for angle in row] for row in angles] for f in (math.cos, math.sin))
    for lane in range(1, LANES):
        x, y = re[lane - 1], im[lane - 1]
        re[lane], im[lane] = x * c - y * s, x * s + y * c
    shape = (len(times), len(firsts) * LANES)
    return re.transpose(1, 2, 0).reshape(shape), im.transpose(1, 2, 0).reshape(shape)


def _turn(n1: int, n2: int, A: int, firsts: range, period: int, weighed: FloatArray, parts: FloatArray) -> None:
    """Multiply into ``parts`` what `rank_transforms.turn` multiplies into the lanes of each block."""
    weights, ahead, behind = weighed[:3], weighed[3], weighed[4]
    small, large = min(n1, n2), max(n1, n2)
    last, first = min(small, A), max(0, A - large)
    worth = first + np.flatnonzero(weights[0, first : last + 1] >= NEGLIGIBLE)
    if worth.size:
        first, last = int(worth[0]), int(worth[-1])
    start = first if n1 <= n2 else A - first
    step = n1 + n2 + A - 2 * start - 1 if n1 <= n2 else -(n1 + n2 + A - 2 * start + 1)
    (c, p_re, e_re, s_re), (s, p_im, e_im, s_im) = _fans(
        [-2, -2 * A, doubled_end(n1, n2, A, start), step], firsts, period
    )
    # Three numbers that turn by the same angle each step: what e is multiplied by, and both parts of the ratios.
    turned = _products(
        np.stack((s_re, p_re, c)), np.stack((s_im, p_im, s)),
        *(np.broadcast_to(np.stack(by), (last, 3, c.size)) for by in ((c, c, c), (s, -s, s))),
    )  # fmt: skip
    (s_re, p_re, q_re), (s_im, p_im, q_im) = (x[:last].transpose(1, 0, 2) for x in turned)
    u, d = behind[:last, np.newaxis], ahead[:last, np.newaxis]
    shrink = (1.0 - d) / (1.0 - u)
    up_re, up_im, down_re, down_im = 1.0 - u * p_re, -u * p_im, 1.0 - d * q_re, -d * q_im
    over = shrink / (down_re * down_re + down_im * down_im)
    x, y = (up_re * down_re + up_im * down_im) * over, (up_im * down_re - up_re * down_im) * over
    one, none = np.ones(c.size), np.zeros(c.size)
    re, im = _products(
        np.stack((e_re, one)), np.stack((e_im, none)), np.stack((s_re, x), axis=1), np.stack((s_im, y), axis=1)
    )
    # e begins where the weights do, the ratios with none of the values
    e_re, e_im = re[: last + 1 - first, 0], im[: last + 1 - first, 0]
    b_re, b_im = re[first:, 1], im[first:, 1]
    x, y = b_re * e_re - b_im * e_im, b_re * e_im + b_im * e_re
    w = weights[0, first : last + 1]
    a = np.arange(first, last + 1) if n1 <= n2 else A - np.arange(first, last + 1)
    v = np.where(((n1 - a) & 1) & ((n2 - A + a) & 1), -w, w)
    for at, weight in ((0, w), (2, v)):
        f_re, f_im = (np.add.accumulate(weight[:, np.newaxis] * part)[-1] for part in (x, y))
        parts[at], parts[at + 1] = parts[at] * f_re - parts[at + 1] * f_im, parts[at] * f_im + parts[at + 1] * f_re


def _products(re: FloatArray, im: FloatArray, by_re: FloatArray, by_im: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return complex numbers, then their products with one number after the other."""
    out_re, out_im = np.empty((2, len(by_re) + 1, *re.shape))
    out_re[0], out_im[0] = re, im
    one, other = np.empty((2, *re.shape))
    for x, y, u, v, new_x, new_y in zip(out_re, out_im, by_re, by_im, out_re[1:], out_im[1:], strict=False):
        np.subtract(np.multiply(x, u, out=one), np.multiply(y, v, out=other), out=new_x)
        np.add(np.multiply(x, v, out=one), np.multiply(y, u, out=other), out=new_y)
    return out_re, out_im


def _over_power(x: FloatArray, y: FloatArray, re: FloatArray, im: FloatArray, power: int) -> FloatArray:
    size = re * re + im * im
    u, v = (x * re + y * im) / size, (y * re - x * im) / size
    return (u * re + v * im) / size if power == 2 else u
