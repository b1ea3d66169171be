"""Sweeps give the same numbers whoever runs them, and never run a finished trial twice."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sparsemean import studies
from sparsemean.errors import InputError
from sparsemean.studies import engine
from sparsemean.studies.engine import Store, alone
from sparsemean.studies.methods import oracle

SWEEP = studies.Sweep(
    "contamination", (0.05, 0.1), (("t", 3.1), ("fisk", 2.0)), ("stage_1", "median"), n=200, d=10, trials=3, seed=7
)
MEASURED = ["x", "distribution", "trial", "estimator", "error", "overlap"]


def test_numbers_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    alone = studies.run(SWEEP, n_jobs=1)
    together = studies.run(SWEEP, n_jobs=2, out=tmp_path)
    assert len(alone) == 2 * 2 * 2 * 3
    assert alone[MEASURED].equals(together[MEASURED])
    assert alone.attrs["sweep"]["seed"] == 7
    assert "numpy" in alone.attrs["versions"]


def test_a_finished_trial_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = studies.run(SWEEP, n_jobs=1, out=tmp_path)
    ran: list[tuple[str, ...]] = []
    original = engine.run_trial

    def counted(
        setting: studies.Setting, seed: int, trial: int, estimators: tuple[str, ...]
    ) -> list[dict[str, object]]:
        ran.append(estimators)
        return original(setting, seed, trial, estimators)

    monkeypatch.setattr(engine, "run_trial", counted)
    assert studies.run(SWEEP, n_jobs=1, out=tmp_path).equals(first)
    assert ran == []
    more = studies.run(replace(SWEEP, trials=4, estimators=("stage_1", "median", "mean")), n_jobs=1, out=tmp_path)
    assert sorted(ran) == sorted([("mean",)] * 12 + [("stage_1", "median", "mean")] * 4)
    assert more[(more.trial < 3) & (more.estimator != "mean")][MEASURED].reset_index(drop=True).equals(first[MEASURED])


@pytest.mark.parametrize(("changed", "value"), [("__version__", "0.0.0"), ("fingerprint", lambda: "edited")])
def test_another_seed_version_or_code_is_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, value: object
) -> None:
    setting = next(SWEEP.points())[1]
    Store(tmp_path, 0).add(setting, [{"trial": 0}])
    assert Store(tmp_path, 0).read(setting) == [{"trial": 0}]
    assert Store(tmp_path, 1).read(setting) == []
    monkeypatch.setattr(f"sparsemean.studies.engine.{changed}", value)
    assert Store(tmp_path, 0).read(setting) == []


@pytest.mark.parametrize("tail", [b'{"trial": 1, "err', b'{"trial": 1, "err\n', b"\x00\xff\n"])
def test_a_line_that_was_cut_off_is_kept_apart(tmp_path: Path, tail: bytes) -> None:
    setting = next(SWEEP.points())[1]
    store = Store(tmp_path, 0)
    store.add(setting, [{"trial": 0}])
    path = store.path(setting)
    with path.open("ab") as file:
        file.write(tail)
    assert store.read(setting) == [{"trial": 0}]
    assert "damaged" in store.notes[0]
    assert path.with_suffix(".broken").read_bytes().strip() == tail.strip()
    store.add(setting, [{"trial": 1}])
    assert Store(tmp_path, 0).read(setting) == [{"trial": 0}, {"trial": 1}]


def test_a_foreign_file_in_its_place_is_kept_apart(tmp_path: Path) -> None:
    setting = next(SWEEP.points())[1]
    store = Store(tmp_path, 0)
    store.path(setting).write_text(json.dumps({"format": "other"}) + "\n", encoding="utf-8")
    assert store.read(setting) == []
    assert store.notes


@pytest.mark.parametrize("edited", ["_kernels/cpu.py", "baselines/medians.py", "result/_report/page.py"])
def test_an_edit_of_any_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str) -> None:
    before, package = engine.fingerprint(), Path(engine.__file__).parents[1]
    copy = Path(shutil.copytree(package, tmp_path / "sparsemean", ignore=shutil.ignore_patterns("__pycache__")))
    monkeypatch.setattr(engine, "__file__", str(copy / "studies" / "engine.py"))
    assert engine.fingerprint.__wrapped__() == before
    with (copy / edited).open("a") as file:
        file.write("\n# edited\n")
    assert engine.fingerprint.__wrapped__() != before


def test_a_folder_in_use_is_refused_until_its_run_has_ended(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sparsemean.studies.engine import alone\n"
        f"with alone(Path({str(tmp_path)!r})): print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(InputError, match=r"out must be a folder that no other run writes to: got .*, in use; wait"):
            studies.run(SWEEP, n_jobs=1, out=tmp_path)
        other.kill()
    assert len(studies.run(SWEEP, n_jobs=1, out=tmp_path)) == 2 * 2 * 2 * 3


def test_a_folder_that_knows_no_locks_is_used_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("sparsemean.studies.engine._lock", unknown)
    with alone(tmp_path), alone(tmp_path):
        pass


def test_killed_half_way_it_resumes(tmp_path: Path) -> None:
    code = (
        "from sparsemean import studies; studies.run(studies.Sweep('shape', (2.0, 3.0), (('t', 3.1),), "
        f"('stage_1', 'full_GD'), trials=400, seed=3), n_jobs=1, out={str(tmp_path)!r})"
    )
    running = subprocess.Popen([sys.executable, "-c", code])
    while sum(len(path.read_bytes().splitlines()) for path in tmp_path.glob("*.jsonl")) < 20:
        assert running.poll() is None
        time.sleep(0.05)
    running.kill()
    running.wait()
    sweep = studies.Sweep("shape", (2.0, 3.0), (("t", 3.1),), ("stage_1", "full_GD"), trials=12, seed=3)
    done = {path: path.read_bytes().splitlines()[:5] for path in tmp_path.glob("*.jsonl")}
    resumed = studies.run(sweep, n_jobs=1, out=tmp_path)
    assert resumed[MEASURED].equals(studies.run(sweep, n_jobs=1)[MEASURED])
    for path, lines in done.items():
        assert path.read_bytes().splitlines()[:5] == lines


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"over": "colour"}, "over must be one of shape, contamination"),
        ({"estimators": ("nope",)}, "estimators must be among default, stage_1"),
        ({"trials": 0}, "trials must be a positive integer"),
    ],
)
def test_bad_sweeps_get_one_line(change: dict[str, object], line: str) -> None:
    with pytest.raises(InputError, match=line):
        studies.run(replace(SWEEP, **change), n_jobs=1)  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="out must be a folder that can be made"):
        studies.run(SWEEP, out=tmp_path / "file" / "below")


def test_oracle_takes_the_candidate_nearest_the_truth() -> None:
    from sparsemean.simulate import make_contaminated

    data = make_contaminated(100, 6, [3.0, -2.0], random_state=0)
    clean = np.delete(data.X, data.corrupted, axis=0)
    answer = oracle(data, 2)
    assert np.count_nonzero(answer) == 2
    top = np.where(np.isin(np.arange(6), [0, 1]), clean.mean(axis=0), 0.0)
    assert np.linalg.norm(answer - data.mean) <= np.linalg.norm(top - data.mean)
