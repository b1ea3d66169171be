"""What the hash of the computing code covers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import sparsemean
from sparsemean.studies import fingerprint as module


@pytest.mark.parametrize(
    ("edited", "counts"),
    [
        ("kernels/cpu.py", True),
        ("baselines/methods/huber.py", True),
        ("studies/oracle.py", True),
        ("studies/page.py", False),
        ("cli/fit.py", False),
        ("words.py", False),
    ],
)
def test_an_edit_counts_where_numbers_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str, counts: bool
) -> None:
    package = tmp_path / "sparsemean"
    shutil.copytree(Path(sparsemean.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(module, "__file__", str(package / "studies" / "fingerprint.py"))
    compute = module.fingerprint.__wrapped__
    before = compute()
    assert before == module.fingerprint()
    with (package / edited).open("a") as file:
        file.write("\n# edited\n")
    assert (compute() != before) is counts
