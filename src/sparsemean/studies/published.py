"""The published points of the paper's figures.

``published.csv`` holds every point of its figures, also those that the plotted range hides, as computed from the result
files that its authors made public. The numbers are facts about their runs; citing them cites

    J. Ma, R. R. Chen, Y. He, S. Fattahi, W. Hu (2023). Sparse mean estimation in adversarial settings via incremental
    learning; results in the repository ying-hui-he/Robust_mean_estimation.

Values have eight significant digits. ``q25`` and ``q75`` are the bands of the paper, order statistics of the trials
(`sparsemean.studies.agreement.band`); ``std`` is that of a sample (ddof 1).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from sparsemean.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 10
"""Places to which grids are rounded, so that ours and the published ones are the same numbers."""


@cache
def _everything() -> pd.DataFrame:
    import pandas as pd

    with files("sparsemean.studies").joinpath("published.csv").open("rb") as file:
        table = pd.read_csv(file)
    return table.assign(plotted=table["plotted"].astype(bool), x=table["x"].round(DIGITS))


def read(figure: str | None = None) -> pd.DataFrame:
    """Return the published points of one figure, or of all.

    Returns
    -------
    DataFrame
        Columns figure, panel, distribution, param, x_name, x, estimator, plotted, trials, mean, median, q25, q75, std;
        ``plotted`` is False where the paper's picture does not show the point.

    Examples
    --------
    >>> from sparsemean.studies import published
    >>> points = published.read("fig2a")
    >>> len(points), int(points["trials"].max())
    (27, 50)
    """
    table = _everything()
    if figure is None:
        return table.copy()
    known = sorted(set(table["figure"]))
    if figure not in known:
        raise InputError("figure", f"be among {', '.join(known)}", repr(figure))
    return table[table["figure"] == figure].reset_index(drop=True)
