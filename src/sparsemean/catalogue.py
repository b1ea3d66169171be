"""Find by name the functions that the files of a folder offer; a new file needs no entry anywhere."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any

from sparsemean.errors import InputError


def discover(package: str) -> dict[str, Callable[..., Any]]:
    """Collect, by name, every function in the ``__all__`` of every module of ``package``."""
    folder = importlib.import_module(package)
    modules = [importlib.import_module(f"{package}.{m.name}") for m in pkgutil.iter_modules(folder.__path__)]
    offered = {name: getattr(module, name) for module in modules for name in module.__all__}
    return dict(sorted(offered.items()))


_discover_once = cache(discover)


def names(package: str) -> list[str]:
    """List the names that ``package`` offers, sorted."""
    return list(_discover_once(package))


def summaries(package: str) -> dict[str, str]:
    """Return the first line of the docstring of everything that ``package`` offers."""
    return {
        name: (offered.__doc__ or "").strip().partition("\n")[0] for name, offered in _discover_once(package).items()
    }


def find(package: str, name: object, *, argument: str, otherwise: str = "") -> Callable[..., Any]:
    """Return the function called ``name``, or refuse ``argument`` with the list of choices."""
    offered = _discover_once(package)
    if not isinstance(name, str) or name not in offered:
        others = f", or {otherwise}" if otherwise else ""
        raise InputError(argument, f"be one of {', '.join(offered)}{others}", repr(name))
    return offered[name]
