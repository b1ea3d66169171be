"""The house stays in order: packages import one way, files in no circle, and importing the package stays cheap."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import house
from house import FILES

ROOMS = [
    "errors", "_util", "_kernels", "_stats", "_data", "_evidence.counting", "_evidence", "result", "baselines",
    "_fit", "result._report", "plots", "estimators", "tl", "experiments", "federated", "simulate", "datasets",
    "studies", "_cli", "__main__",
]  # fmt: skip
"""Each may import what stands before it, also where one lies within another. The front door, ``__init__``, is loaded
first of all and imports lazily."""
ALLOWED = {
    ("result", "plots"), ("result", "result._report"), ("result", "_fit"), ("_evidence.counting", "_fit"),
}  # fmt: skip
"""Stated exceptions, inside functions only: what shows, saves or decides again, or makes an estimate of a sketch."""
HEAVY = (
    "matplotlib", "pandas", "sklearn", "numba", "scipy", "pyarrow", "h5py", "zarr", "polars", "click", "joblib",
    "jinja2", "dask", "distributed",
)  # fmt: skip


def imports(node: ast.AST, *, lazy: bool) -> Iterator[str]:
    """Yield the modules that code imports when it runs, those inside functions where wanted."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] == "sparsemean":
                yield from (full if (full := f"{module}.{alias.name}") in FILES else module for alias in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not lazy:
                continue
            case _:
                yield from imports(child, lazy=lazy)


def parsed(module: str) -> ast.Module:
    return house.parsed(FILES[module])


@cache
def imported(module: str, *, lazy: bool) -> set[str]:
    found = set(imports(parsed(module), lazy=lazy))
    return found - {module, "sparsemean"}


def room(module: str) -> str:
    inner = ".".join(module.split(".")[1:3])
    return inner if inner in ROOMS else inner.partition(".")[0]


def test_packages_import_one_way() -> None:
    wrong = []
    for module in FILES.keys() - {"sparsemean"}:
        eager = imported(module, lazy=False)
        for other in imported(module, lazy=True):
            pair = room(module), room(other)
            if ROOMS.index(pair[1]) > ROOMS.index(pair[0]) and (pair not in ALLOWED or other in eager):
                wrong.append(f"{module} imports {other}")
    assert wrong == []
    assert {room(module) for module in FILES.keys() - {"sparsemean"}} == set(ROOMS)


def test_files_import_in_no_circle() -> None:
    left = {module: imported(module, lazy=False) for module in FILES}
    while free := [module for module, others in left.items() if not others & left.keys()]:
        for module in free:
            del left[module]
    assert not left


def test_kernels_know_arrays_only() -> None:
    for module in (name for name in FILES if room(f"{name}.") == "_kernels"):
        assert {room(other) for other in imported(module, lazy=True)} <= {"errors", "_util", "_kernels"}


def test_kinds_of_sources_are_told_apart_where_they_are_read_and_counted_only() -> None:
    trees = {module: parsed(module) for module in FILES}
    kinds, size = {"Source"}, 0
    while size != len(kinds):  # until no class derives from a kind that was not known before
        size = len(kinds)
        for tree in trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and kinds & {getattr(base, "id", "") for base in node.bases}:
                    kinds.add(node.name)
    assert {"Dense", "DeviceArray", "DaskFile", "ColumnCache"} <= kinds
    for module, tree in trees.items():
        if module.startswith(("sparsemean._data", "sparsemean._evidence.counting.engines")):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                assert not kinds & {getattr(name, "id", "") for name in ast.walk(node.args[1])}, module


def test_a_reader_sees_the_house_at_once() -> None:
    limits, measured = house.allowed(), house.measures()
    assert {name: value for name, value in measured.items() if value > limits[name]} == {}


def test_roads_are_no_longer_than_they_were() -> None:
    """In a process of its own: what other tests have loaded or changed has no part in it."""
    done = subprocess.run(
        [sys.executable, "-c", "import json, house; print(json.dumps(house.roads()))"],
        capture_output=True, text=True, check=True, cwd=Path(house.__file__).parent,
    )  # fmt: skip
    limits = house.allowed()
    assert {name: value for name, value in json.loads(done.stdout).items() if value > limits[name]} == {}


def test_limits_only_fall() -> None:
    for before, after in pairwise(house.history()):
        assert before.keys() <= after.keys()
        assert {name: after[name] for name in before if after[name] > before[name]} == {}


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_numpy_only() -> None:
    assert not loaded_by("import sparsemean") & set(HEAVY)
    assert not loaded_by("import sparsemean; sparsemean.simulate; sparsemean.datasets") & set(HEAVY)


def test_the_function_does_not_need_scikit_learn_or_pandas() -> None:
    fit = "import numpy, sparsemean; sparsemean.sparse_mean(numpy.eye(9), random_state=0)"
    assert not loaded_by(fit) & {"sklearn", "pandas", "matplotlib", "click"}


def test_a_fit_is_conducted_without_compiled_kernels() -> None:
    """What needs them is the pass over data on the host; other passes need not."""
    modules = ("_fit.one_sample", "_fit.screening", "_fit.refinement", "_stats.decision", "_stats.path")
    loaded = loaded_by("; ".join(f"import sparsemean.{module}" for module in modules))
    assert not loaded & {"numba", "sklearn", "pandas", "cupy", "scipy"}


def test_command_line_starts_without_numba() -> None:
    assert not loaded_by("import sparsemean._cli") & {"numba", "sklearn", "pandas", "scipy", "matplotlib"}


def test_a_fit_is_printed_without_pandas(tmp_path: Path) -> None:
    """It takes half a second to import, as long as all the rest of a small fit."""
    file = tmp_path / "x.csv"
    file.write_text("a,b\n" + "".join(f"{1 + i % 7 / 10},{(-1) ** i * i}\n" for i in range(1, 60)), encoding="utf-8")
    fit = "from click.testing import CliRunner; from sparsemean._cli import fit_command"
    loaded = loaded_by(
        f"{fit}; done = CliRunner().invoke(fit_command, [{str(file)!r}]); assert '1 of 2 features' in done.output"
    )
    assert "pandas" not in loaded


def test_public_names_are_there() -> None:
    import sparsemean

    for name in sparsemean.__all__:
        assert getattr(sparsemean, name) is not None
    assert set(dir(sparsemean)) == {*sparsemean.__all__, "__version__"}
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        sparsemean.nonsense  # noqa: B018


def test_two_commands_of_the_readme_do_all_the_set_up() -> None:
    """``make demo`` runs the main job on real data, ``make test`` passes the tests, each on a machine with nothing."""
    root = Path(__file__).parents[1]
    commands = [line.split("#")[0].strip() for line in (root / "README.md").read_text(encoding="utf-8").splitlines()]
    assert {"make demo", "make test"} <= set(commands)
    asked = ["make", "--dry-run", "--always-make", "--directory", str(root)]
    for target, last in (("demo", ".venv/bin/sparsemean demo"), ("test", ".venv/bin/python -m pytest")):
        done = subprocess.run([*asked, target], capture_output=True, text=True, check=True).stdout
        order = [done.index(step) for step in (" -m venv .venv", "pip install --quiet --editable", last)]
        assert order == sorted(order)
        assert ("pip install --quiet --group dev" in done) == (target == "test")
