"""Arrays in, arrays out. ``reference`` is the specification; the fast kernels carry the same names."""


class NotFiniteError(ValueError):
    """A bucket sum is not finite."""
