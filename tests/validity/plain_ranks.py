"""p-values of two groups, plain and slow: the formulas of docs/guarantees.md one by one, and all small data there are.

A *state* is a set of labelled values up to what ranks and signs can see: the blocks of equal values below zero, rising,
the zeros, and the blocks above, each as (rows of the label, rows of the reference). All states of a few rows can be
listed, each has a known chance when labels are dealt at random, and every replaced row or wrong label leads from one
state to another: so validity is checked against all data and all attacks there are, not a sample of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import product
from math import ceil, comb, prod

import numpy as np
import numpy.typing as npt

Values = tuple[float, ...]
Block = tuple[int, int]
Blocks = tuple[Block, ...]
State = tuple[Blocks, Block, Blocks]
Pattern = tuple[tuple[int, ...], int, tuple[int, ...]]

# Null distributions.


@cache
def orders(n1: int, n2: int) -> tuple[int, ...]:
    """How many of the C(n₁+n₂, n₁) orders of distinct values have U = 0, 1, …, n₁n₂; the largest is of either group."""
    if n1 == 0 or n2 == 0:
        return (1,)
    counts = [0] * (n1 * n2 + 1)
    for u, number in enumerate(orders(n1 - 1, n2)):
        counts[u + n2] += number
    for u, number in enumerate(orders(n1, n2 - 1)):
        counts[u] += number
    return tuple(counts)


@cache
def tail(u: float, n1: int, n2: int) -> float:
    """P(U ≥ u) where no values are equal."""
    return sum(orders(n1, n2)[max(0, ceil(u)) :]) / comb(n1 + n2, n1)


def tails(n1: int, n2: int) -> npt.NDArray[np.float64]:
    """P(U ≥ u) for u = 0, 1, …, n₁n₂ in floats, for more rows: sums of positive numbers, which keep their digits."""
    rows = [np.eye(1, n1 * n2 + 1)[0] for _ in range(n1 + 1)]
    for j in range(1, n2 + 1):
        for i in range(1, n1 + 1):
            rows[i] *= j / (i + j)
            rows[i][j:] += i / (i + j) * rows[i - 1][:-j]
    return np.cumsum(rows[n1][::-1])[::-1]


@cache
def block_tail(u: float, nonzero: int, sizes: Block, *, factor: int = 1, inner: bool = True) -> float:
    """P(U ≥ u) given the number A of values above zero, the others being equal; times ``factor``, inside or outside."""
    n1, n2 = sizes
    total = 0.0
    for a in range(max(0, nonzero - n2), min(n1, nonzero) + 1):
        chance = comb(nonzero, a) * comb(n1 + n2 - nonzero, n1 - a) / comb(n1 + n2, n1)
        z1, z2 = n1 - a, n2 - (nonzero - a)
        above = tail(u - a * z2 - z1 * z2 / 2, a, nonzero - a)
        total += chance * (min(1.0, factor * above) if inner else above)
    return min(1.0, total if inner else factor * total)


@cache
def block_law(nonzero: int, sizes: Block) -> tuple[tuple[float, float], ...]:
    """The values of U with their chances, given the number of values above zero."""
    law: dict[float, float] = defaultdict(float)
    n1, n2 = sizes
    for a in range(max(0, nonzero - n2), min(n1, nonzero) + 1):
        z1, z2 = n1 - a, n2 - (nonzero - a)
        for u, number in enumerate(orders(a, nonzero - a)):
            law[u + a * z2 + z1 * z2 / 2] += number * comb(n1 + n2 - nonzero, z1) / comb(n1 + n2, n1)
    return tuple(sorted(law.items()))


def stop_loss(u: float, nonzero: int, sizes: Block) -> float:
    """The smallest E(U − c)₊/(u − c), c < u, at most 1: it falls and rises between values of U, so c is one of them."""
    law = block_law(nonzero, sizes)
    bounds = (sum(p * (v - c) for v, p in law if v > c) / (u - c) for c, _ in law if c < u)
    return min(1.0, min(bounds, default=1.0))


# One p-value.


def wins(first: Values, second: Values, *, tie: float, zero_tie: float) -> float:
    """Pairs in which the first value is the larger one, and so much for each pair of equal ones."""
    score = 0.0
    for x, y in product(first, second):
        score += (x > y) + (x == y) * (zero_tie if x == 0 else tie)
    return score


def repeats(values: Iterable[float]) -> int:
    """Rows less distinct values."""
    values = list(values)
    return len(values) - len(set(values))


@cache
def above(first: Values, second: Values, bad: Block, *, block: bool, inner: bool, doubled: bool) -> float:
    """One side: the largest tail of U less slack over all ways to count ties and all A that m rows can bring about.

    With ``block`` zeros are many, and values are not negative; otherwise the null is that of distinct values. p is 1
    where U less slack does not lie above n₁n₂/2. Not ``doubled``, the tails of a block are those without ties: what a
    bound of all of them, which needs no factor for ties, must not fall below.
    """
    n1, n2, m = len(first), len(second), sum(bad)
    counted = [x for x in first + second if x != 0 or not block]
    A, e = len(counted), repeats(counted)
    slack = n1 * n2 - (n1 - bad[0]) * (n2 - bad[1])
    if block:  # a pair of a bad row with a good zero moves by half
        sure = [max(0, group.count(0) - m) for group, m in zip((first, second), bad, strict=True)]
        slack -= (bad[0] * sure[1] + bad[1] * sure[0]) / 2
    p = []
    for reachable, tie, factor in ((10 * (e - m) < A + m, 0.0, 1), (10 * (e + m) >= A - m, 0.5, 2)):
        u = wins(first, second, tie=tie, zero_tie=0.5 if block else tie) - slack
        if reachable and 2 * u <= n1 * n2:
            p.append(1.0)
        elif reachable and block:
            numbers = range(max(0, A - m), min(n1 + n2, A + m) + 1)
            times = factor if doubled else 1
            p.append(max(block_tail(u, number, (n1, n2), factor=times, inner=inner) for number in numbers))
        elif reachable:
            p.append(min(1.0, factor * tail(u, n1, n2)))
    return max(p)


def off_block(first: Values, second: Values, bad: Block, *, sided: bool) -> float:
    """Fisher's test of the rows off zero, which are more in the first group if most lie above: the largest tail."""
    lean = sum(np.sign(x) for x in first + second)
    if sided and abs(lean) <= 2 * sum(bad):
        return 1.0
    groups = [(sum(x != 0 for x in group), len(group), m) for group, m in zip((first, second), bad, strict=True)]
    (a, n1, m1), (b, n2, m2) = groups if lean >= 0 else groups[::-1]
    a, b = a - m1, b + m2
    if a * n2 <= b * n1:
        return 1.0
    return sum(comb(a + b, k) * comb(n1 + n2 - a - b, n1 - k) for k in range(a, min(a + b, n1) + 1)) / comb(n1 + n2, n1)


def rules(first: Values, second: Values, bad: Block) -> set[str]:
    """The rules that apply to some numbers of negative and of positive values that m rows can bring about."""
    values, m = first + second, sum(bad)
    K = [sum(x < 0 for x in values), sum(x > 0 for x in values)]
    n = len(values)
    reach = [{share(j, n) for j in range(max(0, k - m), min(n, k + m) + 1)} for k in K]
    names = {("many", "many"): "raw", ("none", "many"): "upper", ("many", "none"): "lower"}
    names |= {("few", "many"): "upper or raw", ("many", "few"): "lower or raw"}
    if m == 0 and 0 in K:
        return {"lower" if K[0] else "upper"}
    return {names.get(pair, "both") for pair in product(*reach)}


def share(number: int, n: int) -> str:
    """Of n values next to none, few, or many."""
    return "none" if 16 * number < n else "few" if 4 * number < n else "many"


def p_value(
    first: Values,
    second: Values,
    bad: Block = (0, 0),
    *,
    alternative: str = "two-sided",
    inner: bool = True,
    doubled: bool = True,
) -> float:
    """The p-value of first over second that allows for ``bad`` rows in each: the largest over every reachable rule.

    Fisher's test about the most frequent value where fewer than a tenth have neither of the two most frequent ones;
    else zeros are the block if a tenth has them; else the most frequent value if a third has it; else there is none.
    """
    sided, values, m = alternative != "two-sided", first + second, sum(bad)
    n, times = len(values), Counter(values)

    def upper(x: Values, y: Values, m: Block) -> float:
        return above(cut_below(x), cut_below(y), m, block=True, inner=inner, doubled=doubled)

    def lower(x: Values, y: Values, m: Block) -> float:
        """min(x, 0) turned about: what lay above lies below."""
        x, y = (tuple(-v for v in group) for group in (x, y))
        return above(cut_below(y), cut_below(x), m[::-1], block=True, inner=inner, doubled=doubled)

    def raw(x: Values, y: Values, m: Block) -> float:
        return above(x, y, m, block=False, inner=inner, doubled=doubled)

    def p(test: Callable[[Values, Values, Block], float], about: float = 0.0) -> float:
        x, y = (tuple(v - about for v in group) for group in (first, second))
        one = test(x, y, bad) if alternative != "less" else 1.0
        other = test(y, x, bad[::-1]) if alternative != "greater" else 1.0
        return min(1.0, (1 if sided else 2) * min(one, other))

    def block(about: float) -> float:
        tests = {
            "upper": lambda: p(upper, about), "lower": lambda: p(lower, about), "raw": lambda: p(raw),
            "both": lambda: min(1.0, 2 * min(p(upper, about), p(lower, about))),
            "upper or raw": lambda: min(1.0, 2 * min(p(upper, about), p(raw))),
            "lower or raw": lambda: min(1.0, 2 * min(p(lower, about), p(raw))),
        }  # fmt: skip
        x, y = (tuple(v - about for v in group) for group in (first, second))
        return max(tests[rule]() for rule in rules(x, y, bad))

    commonest, off, zeros = max(times.values()), n - sum(sorted(times.values())[-2:]), times[0.0]
    others = {value: number for value, number in times.items() if value != 0}
    most, unseen = max(others.values(), default=0), [(np.nan, 0)]  # a value that bad rows have hidden altogether
    found = []
    if 10 * (off - m) < n:
        for value, number in [*times.items(), *unseen]:
            if 20 * (number + m) > 9 * n and number >= commonest - 2 * m:
                found.append(1.0 if value != value else p(partial(off_block, sided=sided), value))
    if 10 * (off + m) >= n:
        if 10 * (zeros + m) >= n:
            found.append(block(0.0))
        if 10 * (zeros - m) < n and 3 * (most - m) < n:
            found.append(p(raw))
        for value, number in [*others.items(), *unseen] if 10 * (zeros - m) < n else []:
            if 3 * (number + m) >= n and number >= most - 2 * m:
                found.append(1.0 if value != value else block(value))
    return max(found)


def cut_below(values: Values) -> Values:
    """max(x, 0)."""
    return tuple(max(x, 0.0) for x in values)


# All small data.


def block_sequences(n1: int, n2: int) -> Iterator[Blocks]:
    """All sequences of blocks with so many rows of the label and of the reference in all."""
    if n1 == n2 == 0:
        yield ()
    for one in product(range(n1 + 1), range(n2 + 1)):
        if one != (0, 0):
            yield from ((one, *rest) for rest in block_sequences(n1 - one[0], n2 - one[1]))


def states(n1: int, n2: int) -> Iterator[State]:
    """All states of n₁ + n₂ rows."""
    for zeros in product(range(n1 + 1), range(n2 + 1)):
        for low in product(range(n1 - zeros[0] + 1), range(n2 - zeros[1] + 1)):
            for negative in block_sequences(*low):
                for positive in block_sequences(n1 - zeros[0] - low[0], n2 - zeros[1] - low[1]):
                    yield negative, zeros, positive


def labelled(unlabelled: Pattern, n1: int) -> Iterator[State]:
    """All states of a pattern with n₁ rows of the label."""
    negative, zeros, positive = unlabelled
    sizes = (*negative, zeros, *positive)
    for label in product(*(range(size + 1) for size in sizes)):
        if sum(label) == n1:
            blocks = tuple((a, size - a) for a, size in zip(label, sizes, strict=True))
            yield blocks[: len(negative)], blocks[len(negative)], blocks[len(negative) + 1 :]


def groups(state: State) -> tuple[Values, Values]:
    """Values that look like this: …, −2, −1, 0, 1, 2, …"""
    negative, zeros, positive = state
    blocks = (*negative, zeros, *positive)
    first, second = ([float(i - len(negative)) for i, b in enumerate(blocks) for _ in range(b[g])] for g in (0, 1))
    return tuple(first), tuple(second)


def columns(listed: list[State]) -> npt.NDArray[np.float64]:
    """A matrix with a column for each state, the rows of the label first."""
    return np.array([first + second for first, second in map(groups, listed)]).T


@cache
def pattern(state: State) -> Pattern:
    """What is left of a state without its labels."""
    negative, zeros, positive = state
    return tuple(map(sum, negative)), sum(zeros), tuple(map(sum, positive))


@cache
def chance(state: State) -> float:
    """The chance of the state given its pattern and the group sizes, when labels are dealt at random."""
    blocks = (*state[0], state[1], *state[2])
    n1, n2 = (sum(block[g] for block in blocks) for g in (0, 1))
    return prod(comb(sum(block), block[0]) for block in blocks) / comb(n1 + n2, n1)


@cache
def replaced(state: State, group: int) -> frozenset[State]:
    """All states that one row of a group leads to when its value becomes any other, or stays."""
    return frozenset(with_row for without in taken(state, group) for with_row in put(without, group))


def taken(state: State, group: int) -> Iterator[State]:
    """The states with one row of the group less."""
    one = (1 - group, group)
    for side, at, block in places(state):
        if block[group]:
            yield changed(state, side, at, (block[0] - one[0], block[1] - one[1]))


def put(state: State, group: int) -> Iterator[State]:
    """The states with one more row of the group: in a block that is there, or in one of its own between two."""
    one = (1 - group, group)
    for side, at, block in places(state):
        yield changed(state, side, at, (block[0] + one[0], block[1] + one[1]))
    negative, zeros, positive = state
    yield from (((*negative[:at], one, *negative[at:]), zeros, positive) for at in range(len(negative) + 1))
    yield from ((negative, zeros, (*positive[:at], one, *positive[at:])) for at in range(len(positive) + 1))


def relabelled(state: State, group: int) -> set[State]:
    """All states that one row of a group leads to when it is listed in the other."""
    step = 1 if group else -1
    return {
        changed(state, side, at, (block[0] + step, block[1] - step))
        for side, at, block in places(state)
        if block[group]
    }


def places(state: State) -> Iterator[tuple[int, int, Block]]:
    """The blocks with where they are; the zeros are the block 0 of side 1."""
    for side, blocks in enumerate((state[0], (state[1],), state[2])):
        for at, block in enumerate(blocks):
            yield side, at, block


def changed(state: State, side: int, at: int, block: Block) -> State:
    """The state with another block at a place; one without rows is gone, but for the zeros."""
    sides = [state[0], (state[1],), state[2]]
    keep = () if block == (0, 0) and side != 1 else (block,)
    sides[side] = (*sides[side][:at], *keep, *sides[side][at + 1 :])
    return sides[0], sides[1][0], sides[2]


def excess(p: dict[State, float]) -> tuple[float, Pattern | None]:
    """The largest P(p ≤ t)/t over every pattern and every t < 1, and the pattern that has it.

    ``p`` holds all states of two group sizes. P-values that differ by rounding alone count as equal.
    """
    of_pattern = defaultdict(list)
    for state, value in p.items():
        of_pattern[pattern(state)].append((value, chance(state)))
    worst, where = 0.0, None
    for key, pairs in of_pattern.items():
        pairs.sort()
        values, sums = np.array(pairs)[:, 0], np.cumsum(np.array(pairs)[:, 1])
        reached = sums[np.searchsorted(values, values * (1 + 1e-9), side="right") - 1]
        ratio = float(np.max(np.where(values < 1, reached / values, 0.0)))
        if ratio > worst:
            worst, where = ratio, key
    return worst, where
