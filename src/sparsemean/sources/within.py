"""An HDF5 file that is asked for nothing beyond itself: links, storage and sources in other files are not followed.

Whoever writes a file could otherwise have any other file read, written to, or waited for (a pipe). Only a virtual
dataset may name files, those of its own folder: HDF5 passes over sources that are not there and answers fill values, so
each is looked at before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sparsemean.errors import InputError
from sparsemean.sources.damage import check_filters
from sparsemean.sources.opened import Opened

MOST_LINKS = 16
"""Soft links that are followed one after the other, as many as HDF5 follows."""
MOST_NESTED = 8
"""Virtual datasets made of virtual datasets; one that is made of itself never ends."""


class Within:
    """A group of an open file. Its members are groups like it, and datasets whose values can be read."""

    def __init__(self, group: Any, opened: Opened) -> None:
        self.group, self.opened, self.attrs = group, opened, group.attrs

    def __enter__(self) -> Within:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.group.file.close()

    def keys(self) -> list[str]:
        """Return the names of all members."""
        return list(self.group.keys())

    def __contains__(self, name: str) -> bool:
        try:
            self.follow(name)
        except KeyError:
            return False
        return True

    def __getitem__(self, name: Any) -> Any:
        """Return the member of a name or path, or what a reference points to."""
        element = self.follow(name) if isinstance(name, str) else self.group[name]
        if hasattr(element, "keys"):
            return Within(element, self.opened)
        check_stored(element, self.opened)
        return element

    def own(self, name: str) -> Any:
        """Return a group as h5py has it, to be written to: one that a link of any kind leads to is refused."""
        if not self._is_hard(self.group, name):
            raise _beyond(self.opened, f"{name!r}, a link", "replace the link by what it leads to")
        return self.group[name]

    def follow(self, path: str, left: int = MOST_LINKS) -> Any:
        """Return what lies at a path, as h5py has it, once every link on the way was seen to stay in this file."""
        here = self.group.file if path.startswith("/") else self.group
        for name in path.split("/"):
            here = here if name in ("", ".") else self._step(here, name, left)
        return here

    def _step(self, group: Any, name: str, left: int) -> Any:
        if self._is_hard(group, name):
            return group[name]
        target = group.get(name, getlink=True)
        if not hasattr(target, "path") or hasattr(target, "filename"):
            raise _beyond(self.opened, f"{name!r}, a link to another file")
        if left == 0:
            raise self.opened.broken(f"{name!r}, a link that leads nowhere")
        return Within(group, self.opened).follow(target.path, left - 1)

    @staticmethod
    def _is_hard(group: Any, name: str) -> bool:
        """Whether a member lies in the group, rather than being linked to; h5py's own ``in`` would follow the link."""
        from h5py import h5l

        if not hasattr(group, "keys") or not group.id.links.exists(name.encode()):
            raise KeyError(f"no {name!r} in {group.name}")
        return bool(group.id.links.get_info(name.encode()).type == h5l.TYPE_HARD)

    def listing(self) -> Iterator[tuple[str, Any]]:
        """Yield everything below, each once; links to other files as such, those within the file not at all.

        h5py's ``visititems`` would ask for more than names, and HDF5 does not survive that in a damaged file.
        """
        waiting, seen = [("", self.group)], set[int]()
        while waiting:
            path, group = waiting.pop()
            for name in group.keys():  # noqa: SIM118
                if not self._is_hard(group, name):
                    link = group.get(name, getlink=True)
                    if hasattr(link, "filename"):
                        yield f"{path}{name}", link
                    continue
                at = group.id.links.get_info(name.encode()).u
                if at in seen:
                    continue
                seen.add(at)
                element = group[name]
                if hasattr(element, "keys"):
                    waiting.append((f"{path}{name}/", element))
                else:
                    check_stored(element, self.opened)
                yield f"{path}{name}", element


def check_stored(dataset: Any, opened: Opened) -> None:
    """Refuse a dataset whose values lie in other files, but for sources of a virtual one that are all there."""
    _check(dataset, opened, 0, set())


def _check(dataset: Any, opened: Opened, nested: int, seen: set[tuple[str, str]]) -> None:
    if not hasattr(dataset, "is_virtual"):
        return
    if dataset.external:
        raise _beyond(opened, f"{dataset.name!r}, stored in another file")
    if not dataset.is_virtual:
        check_filters(dataset, opened)
        return
    if nested == MOST_NESTED:
        raise opened.broken(f"{dataset.name!r}, virtual and made of itself")
    for file_name, name in {(source.file_name, source.dset_name) for source in dataset.virtual_sources()}:
        path = _source_path(dataset, file_name, opened)
        if (str(path), name) not in seen:
            _check_source(path, name, opened, nested + 1, seen)
            seen.add((str(path), name))


def _source_path(dataset: Any, file_name: str, opened: Opened) -> Path:
    """Return where a source lies, if it lies in the folder of the file."""
    own = Path(dataset.file.filename).absolute()
    path = own if file_name == "." else own.parent / file_name
    if path.parent.resolve() != own.parent.resolve() or "%b" in file_name:
        raise _beyond(opened, f"{dataset.name!r} made of {file_name!r}", "put its sources, by name, into its folder")
    return path


def _check_source(path: Path, name: str, opened: Opened, nested: int, seen: set[tuple[str, str]]) -> None:
    """Refuse a source that is not there, or whose own values are not."""
    from sparsemean.sources.h5 import open_hdf5

    missing = f"{opened.name} without {path.name!r}"
    if path.is_file():
        file, source = open_hdf5(path, ".h5 file")
        with file, source.reading():
            if name in file:
                _check(file.follow(name), source, nested, seen)
                return
        missing = f"{opened.name} without {name!r} of {path.name!r}"
    raise InputError(opened.argument, "have all sources of its virtual datasets", missing, "put them into its folder")


def _beyond(opened: Opened, what: str, advice: str = "write the values into the file itself") -> InputError:
    return InputError(opened.argument, "hold its data itself", f"{opened.name} with {what}", advice)
