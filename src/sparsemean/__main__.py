"""The command, ``sparsemean`` or ``python -m sparsemean``: Ctrl-C is one line from the first moment on."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from types import FrameType

LEAST_MEMORY = {"": 700, r"\.parquet$": 1000}
"""MB of addresses that the libraries need to load, by what an argument says that they read; with less, some wait for
ever or end the process. Arrow needs about 800 with two cores, more with the threads of many."""


def main() -> None:
    """Load the command line, which takes a tenth of a second, and run it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as in the background
        signal.signal(signal.SIGINT, _stop)
    with suppress(ImportError):  # Windows has no such limits
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            # OpenBLAS asks for ever for buffers of its threads where it is refused them; it cannot be interrupted then
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            # Arrow's own pool takes a gigabyte of addresses at once where it gets them
            os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
            least = max(mb for kind, mb in LEAST_MEMORY.items() if any(re.search(kind, a, re.I) for a in sys.argv))
            if limit < least * 10**6:
                said = f"memory must be at least {least} MB: got {limit // 10**6} MB; raise the limit (ulimit -v)"
                os.write(2, f"sparsemean: {said}\n".encode())
                os._exit(1)
    from sparsemean._cli import main as run

    run()


def _stop(number: int, _: FrameType | None) -> None:
    """End at once: an exception would end in a traceback of imports, and there is nothing to clean up yet."""
    try:
        os.write(2, b"sparsemean: interrupted; no file was changed\n")
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
