"""Real data that come with the package."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsemean._util.checks import Bunch

__all__ = ["load_all_sex", "load_alzheimer"]


def load_all_sex() -> Bunch:
    """Load the expression of 12625 probes in 125 leukaemia patients, with their sex.

    Returns
    -------
    Bunch
        ``X`` (125, 12625) float64, log2 expression in steps of 0.001; ``y`` (125,) ``'F'`` or ``'M'`` as
        recorded; ``features`` (12625,) probe names; ``samples`` (125,) patient names; ``DESCR`` where the
        data come from, what was done to them and what is known about them.

    References
    ----------
    S. Chiaretti et al. (2004), Blood 103, 2771–2778; Bioconductor package ALL (Artistic-2.0).

    Examples
    --------
    >>> from sparsemean.datasets import load_all_sex
    >>> data = load_all_sex()
    >>> data.X.shape
    (125, 12625)
    >>> xist = data.X[:, data.features == "38446_at"]
    >>> for sex in "FM":
    ...     print(sex, round(float(np.median(xist[data.y == sex])), 2))
    F 5.86
    M 3.28
    """
    stored, words = _shipped("all_sex")
    X, samples = stored["expression_milli"] / 1000.0, stored["sample"]
    return Bunch(X=X, y=stored["sex"], features=stored["probe"], samples=samples, DESCR=words)


def load_alzheimer() -> Bunch:
    """Load 127 assays of the cerebrospinal fluid of 333 people, with their diagnosis.

    Returns
    -------
    Bunch
        ``X`` (333, 127) float64; ``y`` (333,) ``'Control'`` or ``'Impaired'``; ``features`` (127,) names of the
        assays; ``DESCR`` where the data come from, what was done to them and what is known about them.

    References
    ----------
    R. Craig-Schapiro et al. (2011), PLoS ONE 6(4), e18850; R package modeldata (MIT).

    Examples
    --------
    >>> from sparsemean.datasets import load_alzheimer
    >>> data = load_alzheimer()
    >>> data.X.shape
    (333, 127)
    >>> tau = data.X[:, data.features == "tau"]
    >>> for diagnosis in ("Control", "Impaired"):
    ...     print(diagnosis, round(float(np.median(tau[data.y == diagnosis])), 2))
    Control 5.57
    Impaired 6.19
    """
    stored, words = _shipped("alzheimer")
    return Bunch(X=stored["level"], y=stored["diagnosis"], features=stored["protein"], DESCR=words)


def _shipped(name: str) -> tuple[dict[str, npt.NDArray[Any]], str]:
    """Return the arrays of a data set, and what is said of it."""
    folder = files(__name__)
    with folder.joinpath(f"{name}.npz").open("rb") as file, np.load(file) as stored:
        return dict(stored), folder.joinpath(f"{name}.rst").read_text(encoding="utf-8")
