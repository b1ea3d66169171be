"""Hostile files are read in processes of their own, which may die or hang and are then replaced."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hostile.reading import FINE, REFUSED

TOO_LONG = 20.0
"""Seconds after which a reader hangs."""
STARTING = 300.0
"""Seconds that a process may take until it has read its first case, compiling included."""
AT_A_TIME = 250


@dataclass(frozen=True, slots=True)
class Fault:
    """A case that ended otherwise than in an answer or in one line."""

    kind: str
    seed: int
    what: str
    where: str

    def __str__(self) -> str:
        again = f"python -m hostile {self.kind} {self.seed}"
        return f"{self.kind} {self.seed}: {self.what}: {self.where}  [{again}]"


class Reader:
    """A process that reads cases and is started again when one ends it."""

    def __init__(self, too_long: float = TOO_LONG) -> None:
        self.too_long = too_long
        self.folder = Path(tempfile.mkdtemp(prefix="hostile"))
        self.process: subprocess.Popen[bytes] | None = None
        self.waiting = b""

    def close(self) -> None:
        """End the process."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self, kind: str, first: int, last: int) -> Iterator[tuple[int, str, str]]:
        """Yield seed, outcome and place of each case."""
        while first < last:
            for answer in self._asked(kind, first, last):
                yield answer
                first = answer[0] + 1

    def _asked(self, kind: str, first: int, last: int) -> Iterator[tuple[int, str, str]]:
        patience = self.too_long
        if self.process is None:
            self.process, patience = self._started(), STARTING
        assert self.process.stdin is not None
        self.process.stdin.write(f"{kind} {first} {last}\n".encode())
        self.process.stdin.flush()
        for seed in range(first, last):
            line = self._line(patience)
            patience = self.too_long
            if line is None:
                yield seed, *self._ended()
                return
            yield tuple(json.loads(line))

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "import sys; from hostile.reading import serve; serve(sys.argv[1])"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(self.folder), "NUMBA_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2",
        }  # fmt: skip
        said = self.folder / "said"
        said.write_bytes(b"")
        self.waiting = b""
        return subprocess.Popen(
            [*command, str(said)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment
        )

    def _line(self, patience: float) -> bytes | None:
        """Wait for an answer; None where none comes."""
        assert self.process is not None
        assert self.process.stdout is not None
        end = time.monotonic() + patience
        while b"\n" not in self.waiting:
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                return None
            self.waiting += more
        line, _, self.waiting = self.waiting.partition(b"\n")
        return line

    def _ended(self) -> tuple[str, str]:
        """Say how the process ended, or that it hangs, and where; the next case has a new one."""
        process, said = self.process, self.folder / "said"
        assert process is not None
        try:
            code = process.wait(0.5)
            what = signal.Signals(-code).name if code < 0 else f"exit {code}"
        except subprocess.TimeoutExpired:
            what = "hang"
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
        steps = [line.strip() for line in said.read_text(errors="replace").splitlines() if "File " in line]
        where = [step for step in steps if "/sparsemean/" in step] or steps
        self.stop()
        return what, " < ".join(step.replace('File "', "").replace('"', "") for step in where[:4])

    def stop(self) -> None:
        """End the process; the next case has a new one."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process = None


def run(kind: str, seeds: range, *, readers: list[Reader], most_faults: int = 20) -> tuple[Counter[str], list[Fault]]:
    """Read the cases of some seeds and return how often they ended how, and the faults."""
    parts = [range(at, min(at + AT_A_TIME, seeds.stop)) for at in range(seeds.start, seeds.stop, AT_A_TIME)]
    ended: Counter[str] = Counter()
    faults: list[Fault] = []

    def work(reader: Reader) -> None:
        while parts and len(faults) < most_faults:
            part = parts.pop(0)
            for seed, what, where in reader.read(kind, part.start, part.stop):
                ended[what] += 1
                if what not in (FINE, REFUSED):
                    faults.append(Fault(kind, seed, what, where))
                if len(faults) >= most_faults:
                    reader.stop()  # what it was asked for goes unanswered
                    break

    with ThreadPoolExecutor(len(readers)) as pool:
        list(pool.map(work, readers))
    return ended, faults
