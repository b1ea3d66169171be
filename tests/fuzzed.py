"""Files as disks, cables and hurried programs leave them."""

from __future__ import annotations

import numpy as np


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return ``content`` cut short, with bytes changed, stretches zeroed, swapped, repeated or gone, or nothing."""
    size = len(content)

    def stretch() -> tuple[int, int]:
        first = int(rng.integers(size + 1))
        return first, min(size, first + int(rng.integers(1, max(2, size // 4 + 1))))

    first, last = stretch()
    match rng.integers(8):
        case 0:
            return content[:first]
        case 1:
            changed = bytearray(content)
            for at in rng.integers(size, size=rng.integers(1, 6)) if size else ():
                changed[at] = rng.integers(256)
            return bytes(changed)
        case 2:
            changed = bytearray(content)
            for at in rng.integers(size, size=rng.integers(1, 4)) if size else ():
                changed[at] ^= 1 << int(rng.integers(8))
            return bytes(changed)
        case 3:
            return content[:first] + bytes(last - first) + content[last:]
        case 4:
            other, end = sorted((stretch(), (first, last)))
            return content[: other[0]] + content[end[0] : end[1]] + content[other[1] : end[0]] + content[end[1] :]
        case 5:
            return content[:last] + content[first:]
        case 6:
            return content[:first] + content[last:]
        case _:
            return b"" if rng.random() < 0.1 else bytes(rng.integers(256, size=rng.integers(1, 200), dtype=np.uint8))
