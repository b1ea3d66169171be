"""What the hash of the computing code covers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sparsemean
from sparsemean.studies import fingerprint as module

PACKAGE = Path(sparsemean.__file__).parent
ROOM = {"studies", "studies.engine", "studies.fingerprint", "studies.store", "files"}
"""What importing the room loads before any trial is run: it runs and keeps trials."""


def test_it_covers_every_module_that_trials_load(long_version: bool) -> None:
    estimators = "methods()" if long_version else "('default', 'full_filter', 'old_full_filter_buckets', 'median')"
    code = (
        "import sys; from sparsemean.studies import Setting, methods; from sparsemean.studies.trial import run_trial; "
        f"run_trial(Setting('t', 3.1, 'root_shift', 60, 6, (9.0, -5.0), 0.05, 2), 0, 0, tuple({estimators})); "
        "print(*(name[11:] for name in sys.modules if name.startswith('sparsemean.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in module.computing(PACKAGE))
    covered = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    assert set(done.stdout.split()) - covered <= ROOM


@pytest.fixture(scope="module")
def computing() -> set[Path]:
    return module.computing(PACKAGE)


@pytest.mark.parametrize(
    ("edited", "counts"),
    [
        ("kernels/cpu.py", True),
        ("baselines/methods/huber.py", True),
        ("kernels/compiling.py", True),
        ("simulate/attacks/kinds/mimic.py", True),
        ("refine/auto.py", True),
        ("passes/memory.py", True),
        ("studies/oracle.py", True),
        ("studies/attacks.py", True),
        ("studies/page.py", False),
        ("studies/store.py", False),
        ("cli/fit.py", False),
        ("words.py", False),
        ("storage.py", False),
        ("files.py", False),
        ("report/writing.py", False),
        ("plots/forest.py", False),
        ("sketching/file.py", False),
        ("sources/csv.py", False),
        ("annotating.py", False),
    ],
)
def test_what_it_covers(computing: set[Path], edited: str, counts: bool) -> None:
    assert (PACKAGE / edited).is_file()
    assert (PACKAGE / edited in computing) is counts


@pytest.mark.parametrize(("edited", "counts"), [("kernels/cpu.py", True), ("report/writing.py", False)])
def test_an_edit_counts_where_numbers_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str, counts: bool
) -> None:
    before = module.fingerprint()
    copy = Path(shutil.copytree(PACKAGE, tmp_path / "sparsemean", ignore=shutil.ignore_patterns("__pycache__")))
    monkeypatch.setattr(module, "__file__", str(copy / "studies" / "fingerprint.py"))
    with (copy / edited).open("a") as file:
        file.write("\n# edited\n")
    assert (module.fingerprint.__wrapped__() != before) is counts
