"""Each function returns matplotlib axes and accepts ``ax=``. Matplotlib is loaded when something is drawn."""

from __future__ import annotations

from sparsemean.plots.bad_rows import plot_robustness, plot_rows
from sparsemean.plots.features import plot_forest, plot_path, plot_volcano
from sparsemean.plots.plan import plot_plan

__all__ = ["plot_forest", "plot_path", "plot_plan", "plot_robustness", "plot_rows", "plot_volcano"]
