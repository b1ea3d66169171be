"""Evidence of rows that cannot be brought together: counted where they are, saved, merged and concluded."""

from __future__ import annotations

from sparsemean.sketching.file import load as load_sketch
from sparsemean.sketching.making import sketch
from sparsemean.sketching.merging import merge
from sparsemean.sketching.sketched import Sketch

__all__ = ["Sketch", "load_sketch", "merge", "sketch"]
