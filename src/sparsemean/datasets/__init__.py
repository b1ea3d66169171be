"""Real data that come with the package."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from sparsemean._util.checks import Bunch

__all__ = ["load_all_sex"]

# Gene expression of 125 leukaemia patients with their recorded sex.

DESCRIPTION = """\
Gene expression of leukaemia patients, by sex
=============================================

125 patients with acute lymphoblastic leukaemia (42 F, 83 M), 12625 probes of an Affymetrix U95Av2 array,
normalised log2 expression.

Source
    The Bioconductor package ALL, under the Artistic License 2.0. The patients are described in S. Chiaretti
    et al. (2004), Blood 103, 2771–2778.

What was done here
    Patients whose sex is not recorded were left out, values were rounded to thousandths, and everything but
    the expression, the probe names, the sample names and the sex was dropped. Nothing else was changed.

What is known from outside the data
    Genes on the Y chromosome are expressed in men only, and XIST (probe 38446_at) in women only; for hardly
    any other gene does the sex make a difference. So a comparison of the sexes has a short true answer
    among 12625 probes.

Wrong labels
    For about six patients the recorded sex contradicts the expression of these genes, wholly or in part:
    04016, 22010, 26003, 28024, 36002 and 19008. The labels are given as recorded.
"""


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
    with files("sparsemean.datasets").joinpath("all_sex.npz").open("rb") as file, np.load(file) as stored:
        return Bunch(
            X=stored["expression_milli"] / 1000.0,
            y=stored["sex"],
            features=stored["probe"],
            samples=stored["sample"],
            DESCR=DESCRIPTION,
        )
