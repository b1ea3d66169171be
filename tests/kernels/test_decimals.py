"""Numbers in decimals against Python's ``float``, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from sparsemean._kernels.cells import DECIDED, NOT_A_NUMBER, UNDECIDED, read_digits

rng = np.random.default_rng(0)
ANY_BITS = rng.integers(2**64, size=3000, dtype=np.uint64).view(np.float64)
ANY_BITS = ANY_BITS[np.isfinite(ANY_BITS)].tolist()
USUAL = (rng.standard_normal(3000) * 10.0 ** rng.integers(-6, 7, 3000)).tolist()
ODD = [int(x) for x in rng.integers(2**52, 2**53, 1000)]
"""2·odd + 1 and 4·odd + 2 lie exactly between two doubles."""
WRITTEN: dict[str, list[str]] = {
    "as Python writes any double": [repr(x) for x in ANY_BITS],
    "as numpy.savetxt writes": [f"{x:.18e}" for x in ANY_BITS],
    "more digits than a double has": [f"{x:.30f}" for x in USUAL],
    "few digits": [f"{x:.3f}" for x in USUAL],
    "whole": [f"{x:.0f}" for x in USUAL],
    "between two doubles": [
        s for x in ODD for s in (str(2 * x + 1), f"{4 * x + 2}", f"{2 * x + 1}0", f"{2 * x + 1}e-2")
    ],
    "any digits": [
        "".join(map(str, rng.integers(0, 10, rng.integers(1, 40)))) + f"e{rng.integers(-330, 310)}" for _ in range(3000)
    ],
    "ways to write": ["0", "-0", "+1", ".5", "5.", "00012", "1E5", "1e+05", "-.5e-3", "0.000e9", "1" + "0" * 40],
}


def bits_of(text: str) -> int:
    return int(np.float64(float(text)).view(np.uint64))


@pytest.mark.parametrize("kind", WRITTEN)
def test_numbers_are_the_nearest_doubles(kind: str) -> None:
    undecided = 0
    for text in WRITTEN[kind]:
        found, end, how, *_ = read_digits(np.frombuffer(text.encode() + b",", dtype=np.uint8), 0)
        undecided += how == UNDECIDED
        assert how != NOT_A_NUMBER
        assert end == len(text)
        assert how == UNDECIDED or int(found) == bits_of(text), text
    assert undecided <= 0.1 * len(WRITTEN[kind])


@pytest.mark.parametrize("text", ["", ".", "-", "e5", "1e", "1e+", "x", "--1", ".e1", "٣"])
def test_what_is_no_number_is_not_read_as_one(text: str) -> None:
    _, end, how, *_ = read_digits(np.frombuffer(text.encode() + b",", dtype=np.uint8), 0)
    assert how == NOT_A_NUMBER or (how == DECIDED and end < len(text))
