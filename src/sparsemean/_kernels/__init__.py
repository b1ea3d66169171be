"""Arrays in, arrays out. ``reference`` is the specification; the fast kernels carry the same names."""

from __future__ import annotations


class NotFiniteError(ValueError):
    """A bucket sum is not finite."""
