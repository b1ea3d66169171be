"""Every compared method under one call: ``baselines.NAME(X, contamination=…, k=…, random_state=…)``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from sparsemean._util import checks
from sparsemean.baselines._baseline import Baseline, BaselineWarning

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Baseline", "BaselineWarning", "available", "get", "names"]


@cache
def _methods() -> dict[str, Baseline]:
    """Collect the functions in the ``__all__`` of every module here; a new one needs no entry anywhere."""
    public = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in public]
    offered = {name: getattr(module, name) for module in modules for name in module.__all__}
    return dict(sorted(offered.items()))


def names() -> list[str]:
    """List the names of the methods.

    Examples
    --------
    >>> "median" in names()
    True
    """
    return list(_methods())


def get(name: str, *, argument: str = "name", otherwise: str = "") -> Baseline:
    """Return the method called ``name``, or refuse ``argument`` with the list of choices."""
    return checks.find(_methods(), name, argument=argument, otherwise=otherwise)


def available() -> pd.DataFrame:
    """Return a table of the methods: what each must be told, what it assumes, its cost and where it is from.

    Examples
    --------
    >>> available().loc["median", "told"]
    'nothing'
    """
    import pandas as pd

    rows = {
        facts.name: {
            "summary": facts.summary,
            "told": ", ".join(facts.told) or "nothing",
            "assumes": facts.assumes,
            "cost": facts.cost,
            "reference": facts.reference,
        }
        for facts in (get(name).facts for name in names())
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")


def __getattr__(name: str) -> Baseline:
    if not name.startswith("_") and name in names():
        return get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(names())}")


def __dir__() -> list[str]:
    return sorted({*__all__, *names()})
