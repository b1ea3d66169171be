from __future__ import annotations

import subprocess
import sys

HEAVY = ["scipy", "sklearn", "numba", "pandas", "matplotlib"]


def test_simulating_loads_numpy_only() -> None:
    code = (
        "import sys; from sparsemean.simulate import make_contaminated; make_contaminated(10, 2, [1.0]); "
        f"assert not set({HEAVY}) & set(sys.modules), sorted(set({HEAVY}) & set(sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
