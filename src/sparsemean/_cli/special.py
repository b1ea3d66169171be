"""SciPy's special functions at a tenth of the time that ``import scipy.special`` takes.

That package wraps its functions for arrays of other libraries, and for it walks through all of NumPy, the compiler of
Fortran included: 0.2 s, a fifth of a small fit. The functions themselves are one compiled module.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE, FUNCTIONS = "scipy.special", "scipy.special._ufuncs"


def load_lazily() -> None:
    """Have ``scipy.special``, if nobody has it yet, loaded whole only for what is not one of these functions."""
    found = importlib.util.find_spec("scipy")
    if PACKAGE in sys.modules or found is None or not found.submodule_search_locations:
        return
    stand_in = ModuleType(PACKAGE)
    stand_in.__path__ = [str(Path(found.submodule_search_locations[0]) / "special")]
    stand_in.__getattr__ = _function  # type: ignore[method-assign]
    sys.modules[PACKAGE] = stand_in


def _function(name: str) -> Any:
    if name.startswith("__"):  # asked by the machinery of imports
        raise AttributeError(name)
    try:
        importlib.import_module("scipy")
        return getattr(importlib.import_module(FUNCTIONS), name)
    except (AttributeError, ImportError):  # none of them, or SciPy is laid out otherwise
        return getattr(_package(), name)


def _package() -> ModuleType:
    """Put the whole package in the place of what stands for it."""
    if hasattr(sys.modules.get(PACKAGE), "__getattr__"):
        del sys.modules[PACKAGE]
    return importlib.import_module(PACKAGE)
