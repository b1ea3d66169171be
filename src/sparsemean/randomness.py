"""From what users call a random state to one integer that is stored with the result."""

from __future__ import annotations

import numpy as np

from sparsemean.checks import integer

SEED_BITS = 63


def draw_seed(random_state: object) -> int:
    """Return the seed: the integer itself, or one drawn from a generator or, for None, from the system."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(64 - SEED_BITS))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**SEED_BITS - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    rule = "be None, an integer of at least 0 or a NumPy generator"
    return integer(random_state, argument="random_state", least=0, rule=rule) % 2**128
