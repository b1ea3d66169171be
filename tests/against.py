"""The present code beside that of another commit: what it decides (`corpus`) and how fast it is, in turn.

``make corpus BASE=<commit>`` and ``make against BASE=<commit> BENCH="small ranks"`` run it. Speed is the least of
several runs of either side, taken alternately, each in a process of its own; a row is slower by more than it may be
where the ratio exceeds `MOST`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".venv" / "base"
MOST, TURNS = 1.1, 5
ROW = re.compile(r"^(?:ok  |MISS|    )\s+(\S+) (.{2}) (\S.*)$")
HERE = ROOT / "src" / "sparsemean" / "_cli" / "benchmarks"
BENCH = (
    "from sparsemean._cli import benchmarks, main; "
    f"benchmarks.__path__.append({str(HERE)!r}); benchmarks.CASES.setdefault('ties', 'ties.ties'); main()"
)
"""`ties` needs public names alone, so that code which is older than it is measured by it, too."""


def source_of(commit: str) -> Path:
    """Return a folder with the package as it was at a commit."""
    name = subprocess.run(
        ["git", "rev-parse", "--short=12", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = KEPT / name
    if not (folder / "src").is_dir():
        folder.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", name, "src"], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder / "src"


def run(source: Path, *arguments: str) -> str:
    """Run Python with a package of some commit in front of all others."""
    paths = os.pathsep.join((str(source), str(ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def corpus(base: Path) -> int:
    """Record the fits of both, and say what differs."""
    records = []
    for name, source in (("base", base), ("now", ROOT / "src")):
        records.append(str(KEPT / f"{name}.pickle"))
        run(source, str(ROOT / "tests" / "corpus.py"), "record", records[-1])
    return subprocess.run([sys.executable, str(ROOT / "tests" / "corpus.py"), "compare", *records]).returncode


def rows(source: Path, names: list[str]) -> dict[str, float]:
    """Run benchmarks once; return the value of every row."""
    said = run(source, "-c", BENCH, "bench", "--repeat", "1", *names)
    return {match[3]: float(match[1]) for line in said.splitlines() if (match := ROW.match(line))}


def against(base: Path, names: list[str]) -> int:
    """Print the least value of either side and their ratio; return how many rows are slower by too much."""
    least: list[dict[str, float]] = [{}, {}]
    for _ in range(TURNS):
        for side, source in zip(least, (base, ROOT / "src"), strict=True):
            for name, value in rows(source, names).items():
                side[name] = min(value, side.get(name, value))
    slower = 0
    for name in least[0].keys() & least[1].keys():
        ratio = least[1][name] / least[0][name] if least[0][name] else 1.0
        slower += ratio > MOST
        mark = "SLOWER" if ratio > MOST else ""
        sys.stdout.write(f"{mark:7}{ratio:6.2f}  {least[0][name]:9.3g} {least[1][name]:9.3g}  {name}\n")
    return slower


if __name__ == "__main__":
    what, commit, *benchmarks = sys.argv[1:]
    sys.exit(corpus(source_of(commit)) if what == "corpus" else min(1, against(source_of(commit), benchmarks)))
