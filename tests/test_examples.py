"""Every example runs and prints what it is for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
EXPECTED = {
    "tutorial.py": "highest scores: 04016, 36002, 22010, 26003, 19008",
    "experiment.py": "wrong:  none\nmissed: none",
    "expression.py": "12 genes selected, 0 of them wrongly; 12 differ",
    "clients.py": "SparseMean                   0.",
    "how_it_works.py": "β* at the paper's T = 200: 0.584",
    "quickstart.py": "l2 error: 0.",
    "two_groups.py": "38446_at",
    "path_plot.py": "",
    "plots.py": "10 pictures in plots",
    "compare_methods.py": "0.10",
}


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=tmp_path, env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert EXPECTED[name] in done.stdout
