"""Which of very many features have a nonzero mean, how large it is and how sure one can be.

Importing this package loads nothing heavier than NumPy; everything else is loaded where it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsemean import baselines, datasets, plots, simulate, studies
    from sparsemean.deciding import Certified, certify
    from sparsemean.errors import InputError
    from sparsemean.estimate import Estimate
    from sparsemean.estimators import SparseMean, SparseMeanDifference
    from sparsemean.fitting import sparse_mean
    from sparsemean.planning import plan
    from sparsemean.records import Plan
    from sparsemean.sketching import Sketch, load_sketch, merge, sketch
    from sparsemean.storage import load

__version__ = "0.1.0"
__all__ = [
    "Certified",
    "Estimate",
    "InputError",
    "Plan",
    "Sketch",
    "SparseMean",
    "SparseMeanDifference",
    "baselines",
    "certify",
    "datasets",
    "load",
    "load_sketch",
    "merge",
    "plan",
    "plots",
    "simulate",
    "sketch",
    "sparse_mean",
    "studies",
]

_HOMES = {
    "Certified": "deciding",
    "Estimate": "estimate",
    "InputError": "errors",
    "Plan": "records",
    "Sketch": "sketching",
    "SparseMean": "estimators",
    "SparseMeanDifference": "estimators",
    "certify": "deciding",
    "load": "storage",
    "load_sketch": "sketching",
    "merge": "sketching",
    "plan": "planning",
    "sketch": "sketching",
    "sparse_mean": "fitting",
}
_ROOMS = {"baselines", "datasets", "plots", "simulate", "studies"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"sparsemean.{_HOMES[name]}"), name)
    if name in _ROOMS:
        return importlib.import_module(f"sparsemean.{name}")
    raise AttributeError(f"module 'sparsemean' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
