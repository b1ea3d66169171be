"""The one array that is meant among those inside a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.sources.opened import Opened
from sparsemean.sources.wanted import shown


def is_group(element: Any) -> bool:
    """Whether an element of a file holds others, rather than values."""
    return hasattr(element, "keys") and hasattr(element, "attrs")


def is_matrix(array: Any) -> bool:
    """Whether an array is a matrix of numbers."""
    return len(getattr(array, "shape", None) or ()) == 2 and getattr(array.dtype, "kind", "V") in "fiub"


def text(value: Any) -> str:
    """Return an attribute, which older files hold as bytes, as text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def sparse_format(group: Any) -> str:
    """Return "csr" or "csc" for a group that holds a compressed matrix, else nothing."""
    said = group.attrs.get("h5sparse_format", group.attrs.get("encoding-type", ""))
    form = text(said).removesuffix("_matrix")
    return form if form in ("csr", "csc") else ""


def is_annotated(group: Any) -> bool:
    """Whether a group is an AnnData."""
    return text(group.attrs.get("encoding-type", "")) == "anndata"


Members = list[tuple[str, Any]]


def pick(root: Any, name: str | None, listing: Callable[[], Members], opened: Opened) -> Any:
    """Return the array called ``name``, or the only matrix in the ``listing`` of all elements."""
    if name is not None and name.strip("/") and name in root:
        element = root[name]
        if sparse_format(element) if is_group(element) else is_matrix(element):
            return element
    members = listing()
    found = {label: element for label, element in members if not is_group(element) and is_matrix(element)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if not found:
        kinds = sorted({_described(element) for _, element in members if not is_group(element)})
        received = f"{opened.name} with {', '.join(kinds[:3]) or 'no arrays'}"
        raise InputError(opened.argument, "hold a matrix of numbers", received)
    if name is None:
        raise InputError("--dataset", "name one of several arrays", "none", f"{opened.name} has {shown(sorted(found))}")
    advice = f"{opened.name} has {shown(sorted(found))}"
    raise InputError("--dataset", "name a matrix of numbers in the file", repr(name), advice)


def _described(array: Any) -> str:
    if hasattr(array, "filename"):
        return "links to other files"
    if not hasattr(array, "shape"):
        return "types"
    return f"{len(array.shape or ())}-D arrays of {np.dtype(array.dtype)}"
