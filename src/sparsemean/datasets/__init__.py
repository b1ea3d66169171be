"""Real data that come with the package."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from sparsemean._util.checks import Bunch

__all__ = ["load_all_sex", "load_alzheimer"]

# Gene expression of 125 leukaemia patients with their recorded sex.

ALL_SEX = """\
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
            DESCR=ALL_SEX,
        )


# Proteins of the cerebrospinal fluid of 333 people, 91 of them impaired.

ALZHEIMER = """\
Proteins in the cerebrospinal fluid, by diagnosis
=================================================

333 people (242 controls, 91 with mild cognitive impairment), 127 assays: Aβ42, tau and phosphorylated tau, for which
the illness is known, and a panel of 124 others. Most columns are logarithms, some other transforms; units differ.

Source
    The data set ad_data of the R package modeldata 1.1.0 (MIT licence). The study is R. Craig-Schapiro et al. (2011),
    PLoS ONE 6(4), e18850.

What was done here
    Age, sex and genotype were left out, so that every column is an assay. Values are as they were.

What is known from outside the data
    In Alzheimer's disease Aβ42 in the fluid falls, tau and phosphorylated tau rise. Clinical diagnoses at so early a
    stage are uncertain: some of the impaired have another illness, some controls will fall ill.
"""


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
    with files("sparsemean.datasets").joinpath("alzheimer.npz").open("rb") as file, np.load(file) as stored:
        return Bunch(X=stored["level"], y=stored["diagnosis"], features=stored["protein"], DESCR=ALZHEIMER)
