"""Run sweeps: what is not yet on disk is computed on all cores, and every finished trial is written at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sparsemean._fit import messages
from sparsemean._kernels.memory_layout import count_threads
from sparsemean._util.checks import integer
from sparsemean.studies._cache import Store, alone
from sparsemean.studies.methods import find, run_trial
from sparsemean.studies.settings import Setting, Sweep

if TYPE_CHECKING:
    import pandas as pd

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

    def run(self) -> tuple[Task, list[dict[str, Any]]]:
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
        records: dict[Setting, list[dict[str, Any]]] = {
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


def _missing(sweeps: Iterable[Sweep], records: dict[Setting, list[dict[str, Any]]]) -> list[Task]:
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


def _compute(tasks: list[Task], n_jobs: int, progress: Progress | None) -> Iterable[tuple[Task, list[dict[str, Any]]]]:
    """Yield tasks with their records as they finish."""
    if n_jobs == 1 or len(tasks) <= 1:
        results: Iterable[tuple[Task, list[dict[str, Any]]]] = (task.run() for task in tasks)
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


def _rows(sweep: Sweep, records: dict[Setting, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the records that the sweep asks for, each with its point; in an order that no worker decides."""
    rows = []
    for x, setting in sweep.points():
        described = {**asdict(setting), "k": len(setting.mean)}
        del described["mean"]
        wanted = [r for r in records[setting] if r["trial"] < sweep.trials and r["estimator"] in sweep.estimators]
        order = sorted(wanted, key=lambda r: (r["trial"], sweep.estimators.index(r["estimator"])))
        rows += [{"x": x, **described, **record} for record in order]
    return rows
