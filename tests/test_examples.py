"""Every example runs, without a warning, and prints or draws what it is for."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib import image, pyplot

EXAMPLES = Path(__file__).parents[1] / "examples"
EXPECTED = {
    "tutorial.py": "suspect: 04016, 36002, 22010, 26003",
    "scorecard.py": "60 of the 60 bots",
    "alzheimer.py": "wrong: tau, Ab_42, p_tau, MMP10, GRO_alpha",
    "cells.py": "22 of 28 suspects lie in a cluster of the other type",
    "experiment.py": "wrong:  none\nmissed: none",
    "expression.py": "12 genes selected, 0 of them wrongly; 12 differ",
    "clients.py": "SparseMean                   0.",
    "how_it_works.py": "β* at the paper's T = 200: 0.584",
    "quickstart.py": "l2 error: 0.",
    "two_groups.py": "38446_at",
    "plots.py": "10 pictures in plots",
    "compare_methods.py": "0.10",
}
LONG = ("plots.py", "compare_methods.py", "experiment.py", "clients.py")
DRAWN = {"path_plot.py": "path.png"}
"""Examples that print nothing, and the picture that they leave."""


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example_runs(
    name: str,
    long_version: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, where everything is imported already: ten new ones took half of their time to start."""
    if name == "cells.py":
        pytest.importorskip("anndata")
        if find_spec("scanpy") is None:
            pytest.skip("its data come with scanpy")
        if not long_version:
            pytest.skip("part of make validate and of make docs: scanpy takes ten seconds to load")
    if name in LONG and not long_version:
        pytest.skip("part of make validate and of make docs: what it shows has tests of its own")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(EXAMPLES / name)])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with mpl.rc_context({"backend": "Agg"}), pd.option_context("display.float_format", None):  # some set it
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        pyplot.close("all")
    if name in DRAWN:
        height, width, _ = image.imread(tmp_path / DRAWN[name]).shape
        assert min(height, width) >= 200
        assert image.imread(tmp_path / DRAWN[name])[..., :3].std() > 0.01  # not one colour
    else:
        assert EXPECTED[name] in capsys.readouterr().out
