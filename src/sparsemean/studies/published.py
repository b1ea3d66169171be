"""The published points, and how measured ones agree with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

from sparsemean._util.records import FloatArray
from sparsemean.errors import InputError

DIGITS = 10
"""Places to which grids are rounded, so that ours and the published ones are the same numbers."""


@cache
def _everything() -> pd.DataFrame:
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


# Our numbers beside the published ones: how far apart, and by how much the default is better.

COLUMNS = (
    "figure", "panel", "distribution", "param", "x", "estimator", "ours_mean", "ours_std", "published_mean",
    "published_std", "z",
)  # fmt: skip


POINT = ["figure", "panel", "distribution", "param", "x"]
LIMIT = 3.0
"""Points with |z| up to here agree."""
OWN = "default"
"""The estimator of ours that has no published counterpart."""
ORACLE = "oracle"
RELATIVE = 1e-6
"""Equal trials may differ by this much: published numbers have eight digits."""
ROUNDING = 1e-9
"""A spread below this share of the values is that of equal numbers added up in floating point."""


def z_values(
    ours: tuple[FloatArray, FloatArray, FloatArray], theirs: tuple[FloatArray, FloatArray, FloatArray]
) -> FloatArray:
    """Return (m₁ − m₂) / √(s₁²/n₁ + s₂²/n₂) for triples of means, standard deviations (ddof 1) and trials.

    Where neither side has any spread, z is 0 if the two means are equal or differ by no more than a millionth of
    their size, which is what rounding makes, and infinite otherwise. One trial has no spread that is known: NaN.
    """
    (m1, s1, n1), (m2, s2, n2) = ours, theirs
    difference = m1 - m2
    spread = np.sqrt(s1**2 / n1 + s2**2 / n2)
    size = np.maximum(np.abs(m1), np.abs(m2))
    same = np.where(np.abs(difference) <= RELATIVE * size, 0.0, np.copysign(np.inf, difference))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(spread <= ROUNDING * size, same, difference / spread))


def band(values: FloatArray) -> tuple[float, float]:
    """Return the paper's band: the ⌊s/4⌋-th and ⌊3s/4⌋-th of s sorted trials, counted from 0."""
    ordered = np.sort(values)
    s = ordered.size
    return float(ordered[int(0.25 * s)]), float(ordered[int(0.75 * s)])


def condense(trials: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return one row for every point and estimator: trials, mean, std (ddof 1), median and band."""
    groups = trials.groupby([*POINT, "estimator"], sort=False)[metric]
    made = groups.agg(["size", "mean", "std", "median"]).rename(columns={"size": "trials"})
    bands = groups.agg(lambda values: band(values.to_numpy())[0]), groups.agg(lambda v: band(v.to_numpy())[1])
    return made.assign(q25=bands[0], q75=bands[1]).reset_index()


def compare(trials: pd.DataFrame, metric: str = "error") -> pd.DataFrame:
    """Return a row for every published point that was run, with exactly the columns ``COLUMNS``.

    ``trials`` has the columns figure, panel, distribution, param, x, estimator and ``metric``, all in the words of the
    published points; estimators without published points are left out.
    """
    ours = condense(trials, metric)
    theirs = read()[["figure", "panel", "distribution", "x", "estimator", "trials", "mean", "std"]]
    ours = ours.assign(x=ours["x"].round(DIGITS))
    keys = ["figure", "panel", "distribution", "x", "estimator"]
    both = ours.merge(theirs, on=keys, suffixes=("_ours", "_published"))
    sides = []
    for side in ("ours", "published"):
        both = both.rename(columns={f"mean_{side}": f"{side}_mean", f"std_{side}": f"{side}_std"})
        sides.append(tuple(both[name].to_numpy(float) for name in (f"{side}_mean", f"{side}_std", f"trials_{side}")))
    return both.assign(z=z_values(sides[0], sides[1]))[list(COLUMNS)]  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """How many published points there are with |z| ≤ 3; the others, farthest first."""

    points: int
    within: int
    outside: pd.DataFrame

    @property
    def share(self) -> float:
        """The share of points with |z| ≤ 3."""
        return self.within / self.points if self.points else float("nan")

    def sentence(self) -> str:
        """Return it in words."""
        if not self.points:
            return "no published point was compared"
        return f"{self.within} of {self.points} published points ({self.share:.1%}) with |z| ≤ {LIMIT:g}"


def summarise(agreement: pd.DataFrame) -> Summary:
    """Return the share of points that agree; points without z (one trial) are not counted."""
    known = agreement[agreement["z"].notna()]
    far = known[known["z"].abs() > LIMIT]
    order = far["z"].abs().sort_values(ascending=False, kind="stable").index
    return Summary(len(known), len(known) - len(far), far.loc[order].reset_index(drop=True))


def better(trials: pd.DataFrame) -> pd.DataFrame:
    """Return our default's median error beside the smallest published non-oracle median, for every published point.

    Columns figure, panel, distribution, param, x, ours_median, best_median, best_estimator, ratio (ours / best), below.
    """
    ours = condense(trials[trials["estimator"] == OWN], "error")
    ours = ours.assign(x=ours["x"].round(DIGITS)).rename(columns={"median": "ours_median"})
    theirs = read()
    theirs = theirs[theirs["estimator"] != ORACLE].sort_values("median", kind="stable")
    best = theirs.drop_duplicates(["figure", "panel", "distribution", "x"])
    best = best.rename(columns={"median": "best_median", "estimator": "best_estimator"})
    kept = best[["figure", "panel", "distribution", "x", "best_median", "best_estimator"]]
    both = ours[[*POINT, "ours_median"]].merge(kept, on=["figure", "panel", "distribution", "x"])
    return both.assign(ratio=both["ours_median"] / both["best_median"], below=both["ours_median"] < both["best_median"])


def better_by_figure(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each figure and distribution: points, share below, and the middle and largest ratio."""
    groups = table.groupby(["figure", "panel", "distribution"], sort=False)
    made = groups.agg(
        points=("below", "size"), below=("below", "sum"), ratio=("ratio", "median"), worst=("ratio", "max")
    )
    return made.assign(share=made["below"] / made["points"]).reset_index()
