"""Make and read a case, many, or all: ``python -m hostile KIND SEED [FOLDER]``, ``KIND FIRST-LAST``, ``all COUNT``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from hostile.kinds_of import KINDS, make
from hostile.running import Reader, run


def main(kind: str, seeds: str, folder: str = "") -> None:
    """Print what comes of cases."""
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        print(make(kind, int(seeds), Path(folder).absolute()))  # noqa: T201
        return
    first, _, last = seeds.rpartition("-")
    many = (
        range(int(first), int(last))
        if first
        else range(int(last))
        if kind == "all"
        else range(int(last), int(last) + 1)
    )
    readers = [Reader(float(os.environ.get("TOO_LONG", "20"))) for _ in range(int(os.environ.get("READERS", "1")))]
    for name in KINDS if kind == "all" else kind.split(","):
        began = time.perf_counter()
        _ended, _faults = run(name, many, readers=readers, most_faults=int(os.environ.get("MOST", "1000000")))
        time.perf_counter() - began
    for reader in readers:
        reader.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
