"""The house stays in order: no room imports one below it, and importing the package stays cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sparsemean"
ROOMS = [
    "errors", "checks", "randomness", "files", "bunch", "catalogue", "clusters", "records", "device", "present",
    "nulls", "evidence", "partition", "planning", "kernels", "sources", "passes", "path", "selection", "intervals",
    "baselines", "rows", "refine", "reading", "certifying", "improving", "remarks", "estimate", "words", "storage",
    "fitting", "deciding", "sketching", "comparing", "output", "annotating", "plots", "report", "estimators",
    "simulate", "datasets", "studies", "demonstration", "bench", "cli",
]  # fmt: skip
ALLOWED = {("estimate", "plots"), ("estimate", "report"), ("estimate", "words"), ("estimate", "storage")}
"""The one stated exception: what shows an estimate is reached from it, lazily."""
HEAVY = (
    "matplotlib", "pandas", "sklearn", "numba", "scipy", "pyarrow", "h5py", "zarr", "polars", "click", "rich", "joblib",
    "jinja2", "dask", "distributed",
)  # fmt: skip


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sparsemean":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("sparsemean.")}
    return found & set(ROOMS)


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_room_imports_one_below_it(path: Path) -> None:
    room = room_of(path)
    below = [other for other in imports_of(path) if ROOMS.index(other) > ROOMS.index(room)]
    assert [other for other in below if (room, other) not in ALLOWED] == []


def test_every_room_is_on_the_list() -> None:
    assert {room_of(path) for path in FILES} == set(ROOMS)


def test_kernels_know_arrays_only() -> None:
    for path in (SOURCE / "kernels").glob("*.py"):
        assert imports_of(path) <= {"errors", "checks", "records", "partition", "kernels"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_past_500_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_numpy_only() -> None:
    assert not loaded_by("import sparsemean") & set(HEAVY)
    assert not loaded_by("import sparsemean; sparsemean.simulate; sparsemean.datasets") & set(HEAVY)


def test_the_function_does_not_need_scikit_learn_or_pandas() -> None:
    fit = "import numpy, sparsemean; sparsemean.sparse_mean(numpy.eye(9), random_state=0)"
    assert not loaded_by(fit) & {"sklearn", "pandas", "matplotlib", "click", "rich"}


def test_a_fit_is_conducted_without_compiled_kernels() -> None:
    """What needs them is the pass over data on the host; other passes need not."""
    rooms = ("fitting", "deciding", "improving", "refine.auto", "selection", "path")
    loaded = loaded_by("; ".join(f"import sparsemean.{room}" for room in rooms))
    assert not loaded & {"numba", "sklearn", "pandas", "cupy", "scipy"}


def test_command_line_starts_without_numba() -> None:
    assert not loaded_by("import sparsemean.cli") & {"numba", "sklearn", "pandas", "scipy", "matplotlib", "rich"}


def test_public_names_are_there() -> None:
    import sparsemean

    for name in sparsemean.__all__:
        assert getattr(sparsemean, name) is not None
    assert set(sparsemean.__all__) <= set(dir(sparsemean))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        sparsemean.nonsense  # noqa: B018
