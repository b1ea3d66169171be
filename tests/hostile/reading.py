"""What reads a hostile file: it is opened, fitted and shown as a user would, and nothing may be printed."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import IO, Any

from sparsemean import InputError, load, load_sketch, merge
from sparsemean._data import open_file
from sparsemean._fit.one_sample import fit
from sparsemean.errors import MOST_LINES

from hostile import places
from hostile.case import Case
from hostile.kinds_of import make, sound

MOST_MEMORY = 2_000_000_000
"""Bytes that a file of at most a few megabytes may make the process ask for."""
FINE, REFUSED = "fine", "refused"


def outcome(kind: str, seed: int, folder: Path) -> tuple[str, str]:
    """Make a case, read it and return what came of it, and of a fault where."""
    try:
        case = make(kind, seed, folder)
    except Exception:
        return "not made", " < ".join(traceback.format_exc().splitlines()[-5:])
    try:
        with _little_memory(), warnings.catch_warnings():
            warnings.simplefilter("error")
            _read(kind, case, Random(seed))
    except InputError as error:
        return _refusal(error)
    except MemoryError as error:
        return "memory", _where(error)
    except Exception as error:
        return type(error).__name__, _where(error)
    return FINE, ""


def _read(kind: str, case: Case, rng: Random) -> None:
    if kind == "sketch":
        load_sketch(case.path).estimate(contamination=0)
        merge([case.path])
        return
    if kind == "estimate":
        estimate = load(case.path)
        repr(estimate), estimate.table(all=True), estimate.summary()
        return
    table = open_file(case.path, case.wanted)
    left = [case.meddle] if case.meddle is not None else []

    def meddle(_: float = 0.0) -> None:
        if left:
            left.pop()()

    if not case.while_reading:
        meddle()
    options: dict[str, Any] = {} if rng.random() < 0.05 else {"refine": None, "screen_rows": False}
    missing = "omit" if rng.random() < 0.5 else "raise"
    fit(table, random_state=0, n_jobs=1, missing=missing, progress=meddle, **options)


def _refusal(error: InputError) -> tuple[str, str]:
    """Class what was refused: it is one line, or one a fault, and for want of memory it comes too late."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) and not _is_reserved(cause):
            return "memory", _where(cause)
        cause = cause.__cause__
    line = str(error)
    fair = 1 <= len(line.splitlines()) <= MOST_LINES and max(map(len, line.splitlines())) < 1500
    return (REFUSED, line) if fair else ("no line", ascii(line)[:300])


def _is_reserved(error: MemoryError) -> bool:
    """Whether room was asked for that is not touched until there is something to put there: by Arrow, or for texts."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return type(error).__module__.startswith("pyarrow") or last.filename.endswith("vlen.pyx")


def _where(error: BaseException) -> str:
    steps = traceback.extract_tb(error.__traceback__)
    ours = [step for step in steps if "sparsemean" in step.filename] or steps
    last = ours[-1]
    return f"{Path(last.filename).name}:{last.lineno} in {last.name}: {type(error).__name__}: {str(error)[:200]!r}"


@contextlib.contextmanager
def _little_memory() -> Any:
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + MOST_MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def serve(said: str) -> None:
    """Read cases as they are asked for, a kind and a range of seeds a line, and answer each with a line.

    What libraries print, and where a signal struck, goes to the file ``said``.
    """
    answers = os.fdopen(os.dup(1), "w")
    noise = Path(said).open("w+b")  # noqa: SIM115
    os.dup2(noise.fileno(), 1)
    os.dup2(noise.fileno(), 2)
    faulthandler.enable(noise)
    faulthandler.register(signal.SIGUSR1, noise)
    folder = Path(tempfile.mkdtemp(prefix="hostile"))
    _compile(folder)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        kind, first, last = line.split()
        for seed in range(int(first), int(last)):
            what, where = outcome(kind, seed, folder)
            places.clear(folder)
            gc.collect()  # tasks that failed unseen say so when they are thrown away
            if seed == int(first):
                gc.freeze()  # what a kind imports is not looked through after each case
            what, where = _heard(noise, what, where)
            print(json.dumps([seed, what, where]), file=answers, flush=True)


def _compile(folder: Path) -> None:
    """Read sound files, so that what is compiled on first use is no hang later."""
    for kind in ("csv", "npz sparse", "npy"):
        path = sound(kind, folder)
        for missing in ("raise", "omit"):
            fit(open_file(path), random_state=0, n_jobs=1, missing=missing)
    places.clear(folder)


def _heard(noise: IO[bytes], what: str, where: str) -> tuple[str, str]:
    """Class as a fault what was printed."""
    sys.stderr.flush()
    sys.stdout.flush()
    size = os.fstat(noise.fileno()).st_size
    if size == 0:
        return what, where
    text = os.pread(noise.fileno(), 4000, 0).decode(errors="replace")
    os.ftruncate(noise.fileno(), 0)
    os.lseek(noise.fileno(), 0, os.SEEK_SET)
    return ("printed", text.strip()[-600:]) if what in (FINE, REFUSED) else (what, where)
