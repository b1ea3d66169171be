"""Run sweeps: what is not yet on disk is computed on all cores, and every finished trial is written at once."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sparsemean import __version__
from sparsemean._fit import messages
from sparsemean._kernels.memory_layout import count_threads
from sparsemean._util.checks import integer
from sparsemean._util.files import replacing
from sparsemean.errors import InputError
from sparsemean.studies.methods import Setting, Sweep, TrialScore, find, run_trial

if TYPE_CHECKING:
    import pandas as pd


@cache
def fingerprint() -> str:
    """Return a hash of all source files of the package: a trial of other code is run again."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


# Finished trials on disk: one file of JSON lines for every setting, so that nothing finished is ever run again.

FORMAT = "sparsemean-trials-1"
HELD_BY_ANOTHER = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
"""How systems say that a lock is taken; any other error means that the folder knows no locks."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder as long as the block lasts, or refuse it where another run holds it.

    The system lets go of it when the process ends, however it ends.
    """
    with (folder / ".lock").open("ab") as file:
        try:
            _lock(file.fileno())
        except OSError as error:
            if error.errno in HELD_BY_ANOTHER:
                advice = "wait for it, or choose another folder"
                raise InputError(
                    "out", "be a folder that no other run writes to", f"{folder}, in use", advice
                ) from None
        yield


def _lock(file: int) -> None:
    """Take an open file for this process alone, without waiting."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Store:
    """The folder of finished trials; ``notes`` says what was found damaged."""

    def __init__(self, folder: str | Path, seed: int) -> None:
        self.folder, self.seed, self.notes = Path(folder), seed, list[str]()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError("out", "be a folder that can be made", f"{folder} ({error.strerror})") from error
        if not os.access(self.folder, os.W_OK):
            raise InputError("out", "be a folder that can be written to", str(folder))

    def header(self, setting: Setting) -> dict[str, object]:
        """Return what a file must begin with to be read."""
        described = json.loads(json.dumps(asdict(setting)))
        made_by = {"format": FORMAT, "version": __version__, "code": fingerprint()}
        return {**made_by, "seed": self.seed, "setting": described}

    def path(self, setting: Setting) -> Path:
        """Return the file of a setting."""
        text = json.dumps(self.header(setting), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        name = f"{setting.distribution}-{setting.shape:g}-{setting.attack}-n{setting.n}-d{setting.d}"
        return self.folder / f"{name}-k{len(setting.mean)}-e{setting.contamination:g}-{digest}.jsonl"

    def read(self, setting: Setting) -> list[TrialScore]:
        """Return the finished records of a setting."""
        path = self.path(setting)
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")
        good, records = [], []
        for line in lines[:-1]:
            try:
                records.append(json.loads(line))
                good.append(line)
            except ValueError:
                break
        rest = b"\n".join(lines[len(good) :])
        if records and records[0] != self.header(setting):
            rest, good, records = path.read_bytes(), [], []
        if rest.strip() or not records:
            self._keep_apart(path, rest, good)
        return records[1:]

    def add(self, setting: Setting, records: Iterable[TrialScore]) -> None:
        """Append finished records in one write."""
        path = self.path(setting)
        lines = [json.dumps(record) for record in records]
        if not path.exists():
            lines.insert(0, json.dumps(self.header(setting)))
        with path.open("ab") as file:
            file.write(("\n".join(lines) + "\n").encode())

    def _keep_apart(self, path: Path, rest: bytes, good: list[bytes]) -> None:
        """Move what cannot be read to a file of its own and keep the rest."""
        broken = path.with_suffix(".broken")
        with broken.open("ab") as file:
            file.write(rest + b"\n")
        self.notes.append(f"{path.name} was damaged; what could not be read is kept in {broken.name}")
        if not good:
            path.unlink()
            return
        with replacing(path) as temporary:
            temporary.write_bytes(b"\n".join(good) + b"\n")


K = TypeVar("K", bound=Hashable)
Progress = Callable[[int, int], None]
"""Is told the number of trials done and that of all to be done."""


@dataclass(frozen=True, slots=True)
class Task:
    """A trial that is to be run, with the estimators that it has not seen yet."""

    setting: Setting
    seed: int
    trial: int
    estimators: tuple[str, ...]

    def run(self) -> tuple[Task, list[TrialScore]]:
        """Run the trial."""
        return self, run_trial(self.setting, self.seed, self.trial, self.estimators)


def run(
    sweep: Sweep, *, out: str | Path | None = None, n_jobs: int | None = None, progress: Progress | None = None
) -> pd.DataFrame:
    """Run a sweep and return a tidy table, one row for each trial of each estimator at each point.

    Parameters
    ----------
    sweep : Sweep
        What to run.
    out : path, optional
        A folder in which finished trials are kept; those found there are not run again. One run at a time may use it.
    n_jobs : int, optional
        Processes; None takes every core. The numbers do not depend on it.
    progress : callable, optional
        Is told (done, total) after every trial.

    Returns
    -------
    DataFrame
        Columns x, distribution, shape, attack, n, d, k, contamination, told_k, trial, estimator, error (l2), overlap
        (|I ∩ S| / |I ∪ S|), seconds. ``attrs`` holds the configuration, its seed and the versions.

    Examples
    --------
    >>> from sparsemean import studies
    >>> sweep = studies.Sweep("contamination", (0.05, 0.1), (("t", 3.1),), ("default", "median"), trials=2, n=300, d=20)
    >>> studies.run(sweep, n_jobs=1).groupby(["estimator", "x"]).size().tolist()
    [2, 2, 2, 2]
    """
    return run_all({"": sweep}, out=out, n_jobs=n_jobs, progress=progress)[""]


def run_all(
    sweeps: Mapping[K, Sweep], *, out: str | Path | None = None, n_jobs: int | None = None,
    progress: Progress | None = None,
) -> dict[K, pd.DataFrame]:  # fmt: skip
    """Run several sweeps of one seed as one, and return the table of each.

    What two of them share is run once, no worker waits for the next sweep, and progress counts the trials of all.
    """
    import pandas as pd

    for sweep in sweeps.values():
        integer(sweep.trials, argument="trials", least=1, rule="be a positive integer")
        for name in sweep.estimators:
            find(name)
    (seed,) = {sweep.seed for sweep in sweeps.values()}
    store = None if out is None else Store(out, seed)
    settings = dict.fromkeys(setting for sweep in sweeps.values() for _, setting in sweep.points())
    with nullcontext() if store is None else alone(store.folder):
        records: dict[Setting, list[TrialScore]] = {
            setting: [] if store is None else store.read(setting) for setting in settings
        }
        for task, found in _compute(_missing(sweeps.values(), records), count_threads(n_jobs), progress):
            if store is not None:
                store.add(task.setting, found)
            records[task.setting] += found
    tables = {}
    for key, sweep in sweeps.items():
        tables[key] = pd.DataFrame(_rows(sweep, records))
        tables[key].attrs = {
            "sweep": sweep.describe(), "versions": messages.versions(), "notes": store.notes if store else [],
        }  # fmt: skip
    return tables


def _missing(sweeps: Iterable[Sweep], records: dict[Setting, list[TrialScore]]) -> list[Task]:
    """Return the trials that lack some estimator."""
    wanted: dict[tuple[Setting, int, int], dict[str, None]] = {}
    for sweep in sweeps:
        for _, setting in sweep.points():
            for trial in range(sweep.trials):
                wanted.setdefault((setting, sweep.seed, trial), {}).update(dict.fromkeys(sweep.estimators))
    done = {(setting, r["trial"], r["estimator"]) for setting, found in records.items() for r in found}
    tasks = []
    for (setting, seed, trial), names in wanted.items():
        lacking = tuple(name for name in names if (setting, trial, name) not in done)
        if lacking:
            tasks.append(Task(setting, seed, trial, lacking))
    # long and short trials mixed, so that the time left can be told from those that are done
    return sorted(tasks, key=lambda task: task.setting.seed(task.seed, task.trial))


def _compute(tasks: list[Task], n_jobs: int, progress: Progress | None) -> Iterable[tuple[Task, list[TrialScore]]]:
    """Yield tasks with their records as they finish."""
    if n_jobs == 1 or len(tasks) <= 1:
        results: Iterable[tuple[Task, list[TrialScore]]] = (task.run() for task in tasks)
    else:
        from joblib import Parallel, delayed

        # A worker whose memory has grown is replaced, and what it was given is done by the next.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", inner_max_num_threads=1)
        results = parallel(delayed(task.run)() for task in tasks)
    for done, result in enumerate(results, 1):
        yield result
        if progress is not None:
            progress(done, len(tasks))


def _rows(sweep: Sweep, records: dict[Setting, list[TrialScore]]) -> list[dict[str, object]]:
    """Return the records that the sweep asks for, each with its point; in an order that no worker decides."""
    rows = []
    for x, setting in sweep.points():
        described = {**asdict(setting), "k": len(setting.mean)}
        del described["mean"]
        wanted = [r for r in records[setting] if r["trial"] < sweep.trials and r["estimator"] in sweep.estimators]
        order = sorted(wanted, key=lambda r: (r["trial"], sweep.estimators.index(r["estimator"])))
        rows += [{"x": x, **described, **record} for record in order]
    return rows
