"""Put a reproduction's figures and its points outside three deviations into docs/reproduced, and Table 1 into its page.

Usage: python docs/figures.py results
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from PIL import Image

WIDTH, COLOURS = 1200, 256
COLUMNS = ("figure", "panel", "distribution", "x", "estimator", "ours_mean", "published_mean", "z")


def shrink(image: Path, target: Path) -> None:
    """Write a smaller copy with fewer colours."""
    picture = Image.open(image).convert("RGB")
    height = round(picture.height * WIDTH / picture.width)
    small = picture.resize((WIDTH, height), Image.Resampling.LANCZOS)
    # Lines are few pixels: colours are chosen to cover all that occur, or two lines would share one.
    small.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=3).save(target, optimize=True)


def outside(agreement: Path) -> str:
    """Return the published points with |z| > 3 as a Markdown table."""
    points = pd.read_csv(agreement)
    far = points[points["z"].abs() > 3]
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for row in far[list(COLUMNS)].itertuples(index=False):
        cells = [f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return f"# The {len(far)} of {len(points)} published points with |z| > 3\n\n" + "\n".join(lines) + "\n"


def with_table(page: str, table: str) -> str:
    """Return the page with ``table`` between the marks that hold a place for it."""
    begin, end = "<!-- table1 -->\n", "<!-- end of table1 -->\n"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n```text\n{table}```\n\n{end}{rest.partition(end)[2]}"


def main(results: str) -> None:
    """Fill docs/reproduced, and Table 1 into the page on methods."""
    target = Path(__file__).parent / "reproduced"
    target.mkdir(exist_ok=True)
    for image in sorted(Path(results).glob("*.png")):
        shrink(image, target / image.name)
    table, page = Path(results) / "table1.txt", Path(__file__).parent / "which.md"
    if table.exists():
        filled = with_table(page.read_text(encoding="utf-8"), table.read_text(encoding="utf-8"))
        page.write_text(filled, encoding="utf-8")
    (target / "outside.md").write_text(outside(Path(results) / "agreement.csv"), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
