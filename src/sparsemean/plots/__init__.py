"""One plot per file; each returns matplotlib axes and accepts ``ax=``. Matplotlib is loaded when one is drawn."""

from __future__ import annotations

from sparsemean.plots.forest import plot_forest
from sparsemean.plots.path import plot_path
from sparsemean.plots.plan import plot_plan
from sparsemean.plots.robustness import plot_robustness
from sparsemean.plots.rows import plot_rows
from sparsemean.plots.volcano import plot_volcano

__all__ = ["plot_forest", "plot_path", "plot_plan", "plot_robustness", "plot_rows", "plot_volcano"]
