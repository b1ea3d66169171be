"""A folder as zarr sees it, in which nothing is opened that is no file: that could be waited for, or read, for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore

from sparsemean._util.files import refuse_endless


class Folder(LocalStore):
    """Zarr's own store of a folder, which looks at each file before it opens it."""

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """Return what is in a file; one without a size, which the kernel may make up without end, holds nothing."""
        path = Path(self.root, key)
        refuse_endless(path)
        prototype = prototype or default_buffer_prototype()
        if not path.is_file():
            return None  # at once: of chunks that were never written there may be thousands
        if path.stat().st_size == 0:
            return prototype.buffer.from_bytes(b"")
        return await super().get(key, prototype, byte_range)
