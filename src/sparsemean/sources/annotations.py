"""Frames as AnnData writes them: the index and the columns of obs and var, of this and of older versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean.sources.inside import is_group, text
from sparsemean.sources.opened import Opened

Labels = npt.NDArray[Any]


class Frame:
    """obs or var of an open file: a group of columns, or in files before anndata 0.7 one array of records.

    Columns must have ``n`` values, where that is known.
    """

    def __init__(self, root: Any, name: str, n: int | None, opened: Opened) -> None:
        self.root, self.element, self.n, self.opened = root, root[name], n, opened
        self.name = name

    @property
    def columns(self) -> list[str]:
        """Names of the columns, without the index."""
        if not is_group(self.element):
            return list(self.element.dtype.names)[1:]
        if "column-order" in self.element.attrs:
            return [text(name) for name in self.element.attrs["column-order"]]
        return [name for name in self.element.keys() if name not in (self._index_name(), "__categories")]  # noqa: SIM118

    def index(self) -> Labels:
        """Return the names of the rows."""
        return self.column(self._index_name())

    def _index_name(self) -> str:
        if not is_group(self.element):
            return str(self.element.dtype.names[0])
        said = self.element.attrs.get("_index")
        return text(said) if said is not None else "_index" if "_index" in self.element else "index"

    def column(self, name: str) -> Labels:
        """Return a column as numbers or as text; what is missing is None."""
        if not is_group(self.element):
            return self._old_column(name)
        stored = self.element[name]
        if is_group(stored):
            if "codes" in stored:
                return self._labelled(self._all(stored["codes"]), stored["categories"])
            return _masked(decoded(self._all(stored["values"])), self._all(stored["mask"]).astype(bool))
        if "categories" in stored.attrs:
            where = stored.attrs["categories"]
            categories = self.element[where] if not isinstance(where, str) else self._named(where)
            return self._labelled(self._all(stored), categories)
        return decoded(self._all(stored))

    def _named(self, where: str) -> Any:
        """Find categories that an attribute names rather than points to."""
        return self.element[where] if where in self.element else self.root[where]

    def _old_column(self, name: str) -> Labels:
        """Return a field of the records; its categories lie in ``uns``."""
        values = np.asarray(self._all(self.element)[name])
        where = f"uns/{name}_categories"
        return self._labelled(values, self.root[where]) if where in self.root else decoded(values)

    def _labelled(self, codes: Labels, categories: Any) -> Labels:
        """Put categories in the place of their numbers; −1 is missing."""
        if len(categories.shape) > 1:
            raise self.opened.broken(f"{len(categories.shape)}-D categories")
        self.opened.check_size(categories.shape, 8)
        names = decoded(np.atleast_1d(categories[()]))
        if codes.dtype.kind not in "iu" or (codes.size and (codes.min() < -1 or codes.max() >= names.size)):
            raise self.opened.broken(f"codes of {self.name} beyond its {names.size} categories")
        if names.size == 0:
            return np.full(codes.size, None, dtype=object)
        return _masked(names[codes.astype(np.int64)], codes < 0)

    def _all(self, stored: Any) -> Labels:
        if len(stored.shape) != 1 or (self.n is not None and stored.shape[0] != self.n):
            raise self.opened.broken(f"{self.name} of shape {stored.shape} where X has {self.n or 'rows'}")
        self.opened.check_size(stored.shape, stored.dtype.itemsize)
        return np.asarray(stored[()])


def decoded(values: Labels) -> Labels:
    """Return text as an array of str, numbers as they are."""
    if values.dtype.kind in "fiub":
        return values
    if values.dtype.kind not in "SUOT":
        raise TypeError(f"a column of {values.dtype}")
    out = np.empty(values.size, dtype=object)
    out[:] = [value.decode() if isinstance(value, bytes) else value for value in values.tolist()]
    return out


def _masked(values: Labels, missing: Labels) -> Labels:
    if not missing.any():
        return values
    out = values.astype(object)
    out[missing] = None
    return out
