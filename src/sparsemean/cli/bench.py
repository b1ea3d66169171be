"""``sparsemean bench``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from sparsemean.cli.showing import echo


@click.command(short_help="Measure speed and memory.")
@click.argument("names", nargs=-1)
@click.option("--quick", is_flag=True, help="Smaller problems, less than a minute in all.")
@click.option("--repeat", type=click.IntRange(min=1), default=7, show_default=True, help="Best of this many.")
@click.option("--list", "listing", is_flag=True, help="List the benchmarks and stop.")
def bench(names: tuple[str, ...], quick: bool, repeat: int, listing: bool) -> None:
    """Measure speed and memory as ratios taken in one run, best of several."""
    from sparsemean import bench as benchmarks

    if listing:
        echo("\n".join(benchmarks.available()))
        return
    show: Callable[[Any], None] = lambda row: echo(_bench_line(row))  # noqa: E731
    rows = benchmarks.run(list(names) or None, quick=quick, repeat=repeat, on_row=show)
    missed = sum(row.met is False for row in rows)
    echo(f"{len(rows)} rows, {missed} outside their bar")


def _bench_line(row: Any) -> str:
    mark = {True: "ok  ", False: "MISS", None: "    "}[row.met]
    aim = f" (bar {row.bar_text})" if row.met is not None else ""
    line = f"{mark} {row.value:8.3g} {row.unit:<2} {row.name}"
    return line + (f"\n{'':17}{row.detail}{aim}" if row.detail or aim else "")
