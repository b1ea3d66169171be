"""The present code beside that of another commit: what it decides (`corpus`), how fast it is, and how much it finds.

``make corpus BASE=<commit>``, ``make against BASE=<commit> BENCH="small ranks"`` and ``make strength BASE=<commit>
OF=<one, groups or tables> SEED=<number>`` run it. Speed is the least of several runs of either side, taken
alternately, each in a process of its own; a row is slower by more than it may be where the ratio exceeds `MOST`. What
is found is told by `strength.py`; with ``exact`` for a commit groups are held against the test given all ties.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean

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
BARS = {
    "m < 5": (1.07, math.inf), "m ≥ 5": (1.01, math.inf), "exact 0 %": (1.01, math.inf), "1 %": (1.02, 0.95),
    "1 % attacked": (1.02, 0.95),
}  # fmt: skip
"""Of effects the largest ratio that may be, and the largest geometric mean."""


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
    paths = os.pathsep.join((str(source), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")))
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


def strength(base: str, what: str, seed: str = "10000") -> int:
    """Print what either side finds and the ratios of now to then, by part too; return how many parts miss their bar."""
    program, now = str(ROOT / "tests" / "strength.py"), ROOT / "src"
    sides = [(now, "exact") if base == "exact" else (source_of(base), what), (now, what)]
    one, other = (json.loads(run(source, program, asked, seed)) for source, asked in sides)
    parts: dict[str, list[float]] = {}
    for name, before in one.items():
        ratio = 1.0 if before == other[name] else other[name] / before if before else math.inf
        sys.stdout.write(f"{ratio:6.3f}  {before:9.4g} {other[name]:9.4g}  {name}\n")
        if before < math.inf or other[name] < math.inf:  # what neither side can find says nothing
            parts.setdefault(("exact " if base == "exact" else "") + name.split(":")[0], []).append(ratio)
    missed = 0
    for part, ratios in parts.items():
        least, most, middle = min(ratios), max(ratios), math.exp(fmean(math.log(max(x, 1e-9)) for x in ratios))
        bars = BARS.get(part, (math.inf, math.inf))
        miss = least < 1 if what == "tables" else most > bars[0] or middle > bars[1]
        missed += miss
        told = f"{least:.3f} to {most:.3f}, geometric mean {middle:.3f}{', MISSED' if miss else ''}"
        sys.stdout.write(f"{part}: {len(ratios)} ratios, {told}\n")
    return missed


if __name__ == "__main__":
    what, commit, *benchmarks = sys.argv[1:]
    if what == "corpus":
        sys.exit(corpus(source_of(commit)))
    missed = against(source_of(commit), benchmarks) if what == "against" else strength(commit, what, *benchmarks)
    sys.exit(min(1, missed))
