"""What the hash of the computing code covers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sparsemean
from sparsemean.studies import engine as module

PACKAGE = Path(sparsemean.__file__).parent
ROOM = {"studies", "studies.engine", "_util.files"}
"""What importing the room loads before any trial is run: it runs and keeps trials."""


def test_it_covers_every_module_that_trials_load(long_version: bool) -> None:
    estimators = "methods()" if long_version else "('default', 'full_filter', 'old_full_filter_buckets', 'median')"
    code = (
        "import sys; from sparsemean.studies import Setting; "
        "from sparsemean.studies.methods import methods, run_trial; "
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
        ("_kernels/cpu.py", True),
        ("baselines/medians.py", True),
        ("_kernels/compiling.py", True),
        ("simulate/attacks.py", True),
        ("_fit/refinement.py", True),
        ("_counts/engines/host.py", True),
        ("studies/methods.py", True),
        ("studies/reproduce.py", False),
        ("studies/engine.py", False),
        ("_cli/fit.py", False),
        ("_report/summary.py", False),
        ("_fit/storage.py", False),
        ("_util/files.py", True),
        ("_report/page.py", False),
        ("plots/features.py", False),
        ("_counts/sketch_file.py", False),
        ("_data/csv.py", False),
        ("_fit/write.py", False),
    ],
)
def test_what_it_covers(computing: set[Path], edited: str, counts: bool) -> None:
    assert (PACKAGE / edited).is_file()
    assert (PACKAGE / edited in computing) is counts


@pytest.mark.parametrize(("edited", "counts"), [("_kernels/cpu.py", True), ("_report/page.py", False)])
def test_an_edit_counts_where_numbers_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str, counts: bool
) -> None:
    before = module.fingerprint()
    copy = Path(shutil.copytree(PACKAGE, tmp_path / "sparsemean", ignore=shutil.ignore_patterns("__pycache__")))
    monkeypatch.setattr(module, "__file__", str(copy / "studies" / "engine.py"))
    with (copy / edited).open("a") as file:
        file.write("\n# edited\n")
    assert (module.fingerprint.__wrapped__() != before) is counts
