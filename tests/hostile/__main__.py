"""Make and read a case, many, or all: ``python -m hostile KIND SEED [FOLDER]``, ``KIND FIRST-LAST``, ``all COUNT``.

``python -m hostile bombs [ENDING ...]`` tries small files that stand for far more than they are."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from hostile import bombs
from hostile.kinds_of import KINDS, make
from hostile.running import TOO_LONG, Reader, run


def main(kind: str, seeds: str, folder: str = "") -> None:
    """Say what comes of cases, or leave the files of one in a folder."""
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        sys.stdout.write(f"{make(kind, int(seeds), Path(folder).absolute())}\n")
        return
    first, _, last = seeds.rpartition("-")
    one = kind != "all"
    many = range(int(first), int(last)) if first else range(int(last), int(last) + 1) if one else range(int(last))
    readers = [Reader(float(os.environ.get("TOO_LONG", TOO_LONG))) for _ in range(int(os.environ.get("READERS", "1")))]
    for name in kind.split(",") if one else KINDS:
        began = time.perf_counter()
        ended, faults = run(name, many, readers=readers, most_faults=int(os.environ.get("MOST", "1000000")))
        each = 1000 * (time.perf_counter() - began) / sum(ended.values())
        sys.stdout.write("\n  ".join((f"{name}: {dict(ended)}, {each:.1f} ms each", *map(str, faults))) + "\n")
        sys.stdout.flush()
    for reader in readers:
        reader.close()


if __name__ == "__main__":
    sys.exit(bombs.main(sys.argv[2:]) > 0 if sys.argv[1:2] == ["bombs"] else main(*sys.argv[1:]))
