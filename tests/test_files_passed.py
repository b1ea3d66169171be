"""How many files a value passes on its way through the package: few enough for a reader to follow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pandas as pd
import pytest

import sparsemean
from sparsemean import Estimate, _cli, simulate, sparse_mean

SOURCE = Path(sparsemean.__file__).parent
DATA = simulate.make_contaminated(400, 60, [10, -5, -4, 2], contamination=0.1, random_state=0).X
"""Four features are found and forty rows rejected, so that every stage of the default fit has something to do."""
NOT_COUNTED = ("_util/", "_util.py", "errors.py")


def files_passed(work: Callable[[], object]) -> list[str]:
    """The files of the package of which a function runs, templates of pages among them.

    What comes once, imports, compiling and tables that are kept, has come before and does not count.
    """
    work()
    seen: set[str] = set()

    def look(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    inside = (Path(name).relative_to(SOURCE).as_posix() for name in seen if name.startswith(f"{SOURCE}/"))
    return sorted(name for name in inside if not name.startswith(NOT_COUNTED))


def test_an_array_becomes_an_estimate() -> None:
    """All defaults but the seed and one thread."""
    made: list[Estimate] = []
    passed = files_passed(lambda: made.append(sparse_mean(DATA, contamination=0.1, random_state=0, n_jobs=1)))
    np.testing.assert_array_equal(made[-1].support, [0, 1, 2, 3])
    assert made[-1].rows is not None
    assert made[-1].rows.suspects.size == 40
    assert len(passed) <= 40, passed


def test_a_csv_becomes_a_report(tmp_path: Path) -> None:
    """The command line, quietly: ``sparsemean fit x.csv --report page.html`` with defaults, a seed and one thread."""
    file, page = tmp_path / "x.csv", tmp_path / "page.html"
    pd.DataFrame(DATA, columns=[f"f{i}" for i in range(60)]).to_csv(file, index=False)
    options = ("-e", "0.1", "--seed", "0", "--jobs", "1", "-q", "--report", str(page))

    def work() -> None:
        page.unlink(missing_ok=True)
        with pytest.raises(SystemExit) as stop:
            _cli.main(["fit", str(file), *options])
        assert not stop.value.code

    passed = files_passed(work)
    assert "f3" in page.read_text(encoding="utf-8")
    assert len(passed) <= 72, passed
