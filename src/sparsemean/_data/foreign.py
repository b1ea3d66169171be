"""Files that are known but not read, with the line of Python that makes them readable; tables the wrong way round."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sparsemean._data.table import Table
from sparsemean._util.checks import list_names
from sparsemean.errors import InputError

KNOWN = Path(__file__).with_suffix(".csv")
"""Endings and first words of files, what they are, the line that makes them readable, and the ending that it gives."""
FIRST_BYTES = b"Protein IDs\t", b"!Series_", b"# Program:featureCounts", b"#1.2", b"#1.3"
"""What texts begin with that are in that list."""
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


def refuse_known(name: str, sign: str) -> None:
    """Refuse a file that ends or begins in a known ``sign``, and say how to make one of it that is read."""
    with KNOWN.open(encoding="utf-8", newline="") as file:
        for known in csv.DictReader(file):
            if sign == known["sign"] or (sign[:1] != "." and sign.startswith(known["sign"])):
                other = f"{Path(name.removesuffix('.gz')).stem}{known['written']}"
                advice = f"in Python: {known['line'].format(name, other)}"
                raise InputError("FILE", "be a table with samples in rows", f"{name}, {known['what']}", advice)


def refuse_known_path(path: Path) -> None:
    """Refuse a file whose ending is known, or a folder of 10x."""
    folder = path.is_dir() and any((path / matrix).exists() for matrix in ("matrix.mtx", "matrix.mtx.gz"))
    refuse_known(path.name, "10x mtx" if folder else Path(path.name.removesuffix(".gz")).suffix.lower())


def look_like_features(names: Sequence[str]) -> bool:
    """Whether names are those of genes or probes."""
    return _mostly(FEATURES, names[:LOOKED_AT]) or len(GENES.intersection(map(str.upper, names))) > SOME_GENES


def _mostly(form: re.Pattern[str], names: Sequence[str]) -> bool:
    return sum(form.fullmatch(name[:LONGEST]) is not None for name in names) >= MOSTLY * len(names) > 0


def wrong_way(table: Table, *, transposed: bool = False) -> Table:
    """Return a table with a note where rows are called as features are, or columns as samples are."""
    rows, columns = ([] if names is None else names.tolist() for names in (table.row_names, table.feature_names))
    advice = "leave --transpose out" if transposed else "if they are, turn the table with --transpose, in Python X.T"
    if look_like_features(rows):
        note = f"rows look like genes or probes ({list_names(rows, 2)}), and were read as samples: {advice}"
    elif _mostly(SAMPLES, some := columns[-LOOKED_AT:]):
        note = f"columns look like samples ({list_names(some, 2)}), and were read as features: {advice}"
    else:
        return table
    return replace(table, notes=(*table.notes, note))
