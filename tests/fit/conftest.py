"""How the tests of refinements run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices this small are slower on threads that wait for each other."""
    with threadpool_limits(1):
        yield
