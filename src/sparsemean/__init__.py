"""Which of very many features have a nonzero mean, how large it is and how sure one can be.

Importing this package loads nothing heavier than NumPy; everything else is loaded where it is used.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # what typing has of that name, without the time that typing takes before Ctrl-C is one line
if TYPE_CHECKING:
    from typing import Any

    from sparsemean import baselines, datasets, experiments, federated, plots, simulate, studies, tl
    from sparsemean._evidence.counting.merging import merge
    from sparsemean._evidence.counting.sketch import Sketch, sketch
    from sparsemean._evidence.counting.sketch_file import load_sketch
    from sparsemean._fit.certifying import Certified, certify
    from sparsemean._fit.one_sample import sparse_mean
    from sparsemean._fit.power import plan
    from sparsemean._fit.storage import load
    from sparsemean._util.plans import Plan
    from sparsemean.errors import InputError
    from sparsemean.estimators import SparseMean, SparseMeanDifference, SparseTrend
    from sparsemean.result import Estimate
    from sparsemean.result.comparison import Comparison

__version__ = "0.2.0"
__all__ = [
    "Certified",
    "Comparison",
    "Estimate",
    "InputError",
    "Plan",
    "Sketch",
    "SparseMean",
    "SparseMeanDifference",
    "SparseTrend",
    "baselines",
    "certify",
    "datasets",
    "experiments",
    "federated",
    "load",
    "load_sketch",
    "merge",
    "plan",
    "plots",
    "simulate",
    "sketch",
    "sparse_mean",
    "studies",
    "tl",
]

_HOMES = {
    "Certified": "_fit.certifying",
    "Comparison": "result.comparison",
    "Estimate": "result",
    "InputError": "errors",
    "Plan": "_util.plans",
    "Sketch": "_evidence.counting.sketch",
    "SparseMean": "estimators",
    "SparseMeanDifference": "estimators",
    "SparseTrend": "estimators",
    "certify": "_fit.certifying",
    "load": "_fit.storage",
    "load_sketch": "_evidence.counting.sketch_file",
    "merge": "_evidence.counting.merging",
    "plan": "_fit.power",
    "sketch": "_evidence.counting.sketch",
    "sparse_mean": "_fit.one_sample",
}
_ROOMS = {"baselines", "datasets", "experiments", "federated", "plots", "simulate", "studies", "tl"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"sparsemean.{_HOMES[name]}"), name)
    if name in _ROOMS:
        return importlib.import_module(f"sparsemean.{name}")
    raise AttributeError(f"module 'sparsemean' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))
