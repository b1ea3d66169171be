"""``sparsemean plan``."""

from __future__ import annotations

from typing import Any

import click

from sparsemean.cli.showing import echo, say


@click.command(short_help="What so many rows and columns can show.")
@click.argument("n", type=int)
@click.argument("d", type=int)
@click.option("-e", "--contamination", type=float, default=0.05, show_default=True, help="Share of bad rows.")
@click.option("--level", type=float, default=0.05, show_default=True, help="Family-wise error rate.")
@click.option("--power", type=float, default=0.8, show_default=True, help="Probability of finding an effect.")
@click.option("--effect", type=float, default=None, help="A mean, in standard deviations: how many rows does it need?")
@click.option("--k", type=int, default=1, show_default=True, help="Sparsity in the paper's theorems.")
@click.option("--sigma", type=float, default=1.0, show_default=True, help="Standard deviation in the theorems.")
@click.option("--delta", type=float, default=0.05, show_default=True, help="Failure probability in the theorems.")
def plan(n: int, d: int, **options: Any) -> None:
    """Say what N rows of D features can show, before any data are seen."""
    from sparsemean.planning import plan as make_plan

    made = make_plan(n, d, **options)
    assert made.outlook is not None
    say(made.summary())
    echo("\n  bucket of   buckets   majority needed   detectable mean (σ)   if opposed")
    for row in made.outlook.table:
        echo(
            f"  {row['size']:>9.0f} {row['buckets']:>9.0f} {row['majority']:>17.0f} {row['effect']:>21.3g}"
            f"{row['effect_opposed']:>13.3g}"
        )
    echo("\nThe paper's theorems:")
    for theorem, quantity, value in made.outlook.theorems:
        echo(click.wrap_text(f"{quantity}: {value:,.4g} ({theorem})", 80, "  ", "    "))
