"""Real data that come with the library."""

from __future__ import annotations

from sparsemean.datasets.all_sex import load_all_sex

__all__ = ["load_all_sex"]
