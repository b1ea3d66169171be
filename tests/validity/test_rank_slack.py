"""The null of the ranks that are seen, with their slack, covers that of clean data with more non-zero values or fewer.

Of N values seen a have had their sign turned, b were put in where there was zero, c were made zero: the clean data have
N − b + c, and the rows that nobody touched reach t, at most the largest sum of N − a − b values. The claim is

    P(S_{N−b+c} ≥ t) ≤ P(S_N ≥ t − slack),   slack = Σ min(N + k, C) over k from 1 to c.

S_n never falls as n grows, so b = 0 is the worst of all b with the same a + b, and the only one that is looked at.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

FAST, LONG = 16, 40


def sets_reaching(most: int, cap: int) -> list[npt.NDArray[np.object_]]:
    """Return how many sets of ranks 1 … n have scores min(rank, C) of at least t in all, for n up to most, every t."""
    sets, out = np.ones(1, dtype=object), []
    for rank in range(1, most + 2):
        out.append(np.cumsum(sets[::-1])[::-1])
        score = min(rank, cap)
        sets = np.concatenate((sets, np.zeros(score, dtype=object)))
        sets[score:] += sets[:-score].copy()
    return out


def test_tail_of_the_values_seen_covers_that_of_clean_values(long_version: bool) -> None:
    most = LONG if long_version else FAST
    for values, cap in combinations_with_replacement(range(most, 0, -1), 2):  # no cap above the number of values
        sums = np.cumsum([0, *(min(rank, cap) for rank in range(1, 2 * values + 1))])
        sets = sets_reaching(2 * values, cap)
        assert [int(of[0]) for of in sets] == [2**n for n in range(2 * values + 1)]
        for turned in range(values + 1):
            t = np.arange(sums[values - turned] + 1)  # what the rows that nobody touched can add up to
            for hidden in range(values + 1 - turned):
                slack = sums[values + hidden] - sums[values]
                covered = sets[values][np.maximum(0, t - slack)] * 2**hidden
                assert (sets[values + hidden][t] <= covered).all(), (values, cap, turned, hidden)


def test_less_slack_would_not_do() -> None:
    """One row made zero where one value is left: the clean data may have had both positive."""
    sets = sets_reaching(2, 2)
    assert sets[2][1] > 2 * sets[1][1]  # P(S_2 ≥ 1) = 3/4 against P(S_1 ≥ 1) = 1/2
