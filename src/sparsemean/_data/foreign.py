"""Files that are known but not read, with the line of Python that makes them readable; tables the wrong way round."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sparsemean._util.checks import list_names
from sparsemean.errors import InputError

Known = tuple[str, str, str]
"""What a file is, the line that makes it readable, by its name and that of what is written, and the ending of that."""
GCT = "a table of GenePattern", "pandas.read_csv({!r}, sep='\\t', skiprows=2, index_col=0).iloc[:, 1:].T.to_csv({!r})"
R = "write.csv(readRDS({0!r}), {1!r})"
TENX = "cells as 10x writes them", ".h5ad"
ENDINGS: dict[str, Known] = {
    ".loom": ("cells as loompy writes them", "scanpy.read_loom({!r}).write_h5ad({!r})", ".h5ad"),
    ".rds": ("an object of R", "pyreadr.read_r({0!r})[None].to_csv({1!r}), or in R " + R, ".csv"),
    ".rdata": ("objects of R", "next(iter(pyreadr.read_r({!r}).values())).to_csv({!r})", ".csv"),
    ".rda": ("objects of R", "next(iter(pyreadr.read_r({!r}).values())).to_csv({!r})", ".csv"),
    ".mtx": ("a matrix, genes in rows", "scipy.sparse.save_npz({1!r}, scipy.io.mmread({0!r}).T.tocsr())", ".npz"),
    ".gct": (*GCT, ".csv"),
    ".xls": ("a workbook of Excel before 2007", "pandas.read_excel({!r}).to_csv({!r}, index=False)", ".csv"),
    ".ods": ("a workbook of LibreOffice", "pandas.read_excel({!r}).to_csv({!r}, index=False)", ".csv"),
    ".feather": ("a table of Arrow", "pandas.read_feather({!r}).to_parquet({!r})", ".parquet"),
    ".dta": ("a table of Stata", "pandas.read_stata({!r}).to_csv({!r}, index=False)", ".csv"),
    ".sav": ("a table of SPSS", "pandas.read_spss({!r}).to_csv({!r}, index=False)", ".csv"),
}  # fmt: skip
TEXTS: dict[bytes, Known] = {
    b"Protein IDs\t": (
        "proteinGroups of MaxQuant, proteins in rows and 0 for what is missing",
        "t = pandas.read_csv({!r}, sep='\\t', index_col='Protein IDs'); "
        "t = t[t.filter(regex='^(Reverse|Only identified by site|Potential contaminant)$').ne('+').all(axis=1)]"
        ".filter(regex='^LFQ intensity '); "
        "t.where(t > 0).transform('log2').T.to_csv({!r})",
        ".csv",
    ),
    b"!Series_": (
        "a series matrix of GEO, probes in rows and who is in which group in its lines !Sample_",
        "pandas.read_csv({!r}, sep='\\t', comment='!', index_col=0).T.to_csv({!r})",
        ".csv",
    ),
    b"# Program:featureCounts": (
        "counts of featureCounts, genes in rows",
        "pandas.read_csv({!r}, sep='\\t', comment='#', index_col=0).iloc[:, 5:].T.to_csv({!r})",
        ".csv",
    ),
    b"#1.2": (*GCT, ".csv"),
    b"#1.3": (*GCT, ".csv"),
}
"""Texts by what they begin with."""
FIRST_BYTES = tuple(TEXTS)
FEATURES = re.compile(
    r"ENS[A-Z]{0,6}[GTP]\d{6,}(\.\d+)?|\d{3,}(_[a-z])?_at|AFFX-\S+|ILMN_\d+|[NX][MRP]_\d{4,}(\.\d+)?|c[gh]\d{6,}|rs\d{4,}"
    r"|A_\d+_P\d+|(sp|tr)\|\S+|[a-z]{3}-(mir|let)-\S+|FBgn\d+|WBGene\d+|AT[1-5CM]G\d{5}|HMDB\d+|TC\d{8}\S*", re.I
)  # fmt: skip
"""What genes, transcripts, probes, variants and metabolites are called."""
GENES = {
    "ACTB",
    "B2M",
    "BRCA1",
    "CD4",
    "CD8A",
    "EGFR",
    "GAPDH",
    "HPRT1",
    "KRAS",
    "MYC",
    "PTEN",
    "STAT1",
    "TP53",
    "VEGFA",
}
FEATURE_WORDS = re.compile("gene|probe|protein|peptide|feature|symbol|entrez|transcript|metabolite", re.I)
"""What a column of their names is called."""
SAMPLES = re.compile(
    r"GSM\d{3,}\S*|[EDS]RR\d{5,}\S*|TCGA-\S{2}-\S+|\S*[ACGT]{14,}(-\d+)?|(LFQ |i?BAQ )?intensity \S+|"
    r"(sample|patient|subject|donor|control|ctrl|case|tumou?r|normal|(un)?treated|mouse|rep(licate)?)s?[ ._-]?\d+", re.I
)  # fmt: skip
"""What samples and cells are called."""
LOOKED_AT, MOSTLY, SOME_GENES, LONGEST = 100, 0.8, 2, 64
"""Names that are looked at, the share of them that says what they are, genes that do so alone, characters of a name."""


def refusal(name: str, known: Known) -> InputError:
    """Refuse a file that is known, and say how to make one of it that is read."""
    what, line, ending = known
    other = f"{Path(name.removesuffix('.gz')).stem}{ending}"
    return InputError(
        "FILE", "be a table with samples in rows", f"{name}, {what}", f"in Python: {line.format(name, other)}"
    )


def refuse_known(path: Path) -> None:
    """Refuse a file whose ending is known, or a folder of 10x."""
    name = path.name.removesuffix(".gz")
    if path.is_dir() and any((path / matrix).exists() for matrix in ("matrix.mtx", "matrix.mtx.gz")):
        raise refusal(path.name, ("a folder of " + TENX[0], "scanpy.read_10x_mtx({!r}).write_h5ad({!r})", TENX[1]))
    known = ENDINGS.get(Path(name).suffix.lower())
    if known is not None:
        raise refusal(path.name, known)


def look_like_features(names: Sequence[str]) -> bool:
    """Whether names are those of genes or probes."""
    return _mostly(FEATURES, names[:LOOKED_AT]) or len(GENES.intersection(map(str.upper, names))) > SOME_GENES


def _mostly(form: re.Pattern[str], names: Sequence[str]) -> bool:
    return sum(form.fullmatch(name[:LONGEST]) is not None for name in names) >= MOSTLY * len(names) > 0


def wrong_way(rows: Sequence[str], columns: Sequence[str], *, transposed: bool) -> list[str]:
    """Say so where rows are called as features are, or columns as samples are.

    Examples
    --------
    >>> wrong_way(["1007_s_at", "1053_at"], ["GSM1", "x"], transposed=False)[0][:50]
    'rows look like genes or probes (1007_s_at, 1053_at'
    """
    advice = "leave --transpose out" if transposed else "if they are, turn the table with --transpose, in Python X.T"
    if look_like_features(rows):
        return [f"rows look like genes or probes ({list_names(rows, 2)}), and were read as samples: {advice}"]
    if _mostly(SAMPLES, some := columns[-LOOKED_AT:]):
        return [f"columns look like samples ({list_names(some, 2)}), and were read as features: {advice}"]
    return []
