"""The same table as every kind of file and object."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
from scipy import sparse

NAMES_KEPT = (".csv", ".tsv", ".csv.gz", ".txt", ".xlsx", ".parquet", ".h5ad")


def names(d: int) -> list[str]:
    return [f"feature {i}" for i in range(d)]


def frame(X: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=names(X.shape[1]))


def anndata_of(X: Any, form: Callable[[Any], Any] = np.asarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import anndata

        cells = pd.DataFrame(index=[f"cell {i}" for i in range(X.shape[0])])
        return anndata.AnnData(form(X), obs=cells, var=pd.DataFrame(index=names(X.shape[1])))


def write_npz_sparse(path: Path, X: Any) -> None:
    sparse.save_npz(path, sparse.csr_array(X))


def write_zarr(path: Path, X: Any) -> None:
    import zarr

    zarr.create_array(store=path, data=X, chunks=(50, 7))


def write_h5(path: Path, X: Any) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("values", data=X, chunks=(64, 5))


def write_h5ad(form: Callable[[Any], Any]) -> Callable[[Path, Any], None]:
    def write(path: Path, X: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            anndata_of(X, form).write_h5ad(path)

    return write


OFFICE = "http://schemas.openxmlformats.org"
RELATED = (
    f'<Relationships xmlns="{OFFICE}/package/2006/relationships"><Relationship Id="r1" Type="'
    f"{OFFICE}/officeDocument/2006/relationships/"
)
BOOK = {
    "[Content_Types].xml": (
        f'<Types xmlns="{OFFICE}/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>'
    ),
    "_rels/.rels": (f'{RELATED}officeDocument" Target="xl/workbook.xml"/></Relationships>'),
    "xl/_rels/workbook.xml.rels": (f'{RELATED}worksheet" Target="worksheets/a.xml"/></Relationships>'),
    "xl/workbook.xml": (
        f'<workbook xmlns="{OFFICE}/spreadsheetml/2006/main" '
        f'xmlns:r="{OFFICE}/officeDocument/2006/relationships"><sheets><sheet name="a" sheetId="1" r:id="r1"/></sheets>'
        "</workbook>"
    ),
}
"""An .xlsx file but for its sheet, written here as openpyxl leaves off the last digit."""
SHEET = "xl/worksheets/a.xml"


def sheet_of(rows: list[list[Any]]) -> str:
    """Return a sheet of numbers and text."""
    cells = (
        "".join(
            f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
            if isinstance(value, str)
            else f"<c><v>{value!r}</v></c>"
            for value in row
        )
        for row in rows
    )
    data = "".join(f'<row r="{k + 1}">{row}</row>' for k, row in enumerate(cells))
    return f'<worksheet xmlns="{OFFICE}/spreadsheetml/2006/main"><sheetData>{data}</sheetData></worksheet>'


def write_book(path: Path, sheet: str | bytes, parts: dict[str, str] = BOOK) -> None:
    """Write an .xlsx file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**parts, SHEET: sheet}.items():
            archive.writestr(name, content)


FILES: dict[str, tuple[str, Callable[[Path, Any], object]]] = {
    "npy": (".npy", np.save),
    "npy by columns": (".npy", lambda path, X: np.save(path, np.asfortranarray(X))),
    "npz": (".npz", lambda path, X: np.savez(path, X)),
    "npz compressed": (".npz", lambda path, X: np.savez_compressed(path, X)),
    "npz sparse": (".npz", write_npz_sparse),
    "csv": (".csv", lambda path, X: frame(X).to_csv(path, index=False)),
    "csv gz": (".csv.gz", lambda path, X: frame(X).to_csv(path, index=False)),
    "tsv": (".tsv", lambda path, X: frame(X).to_csv(path, index=False, sep="\t")),
    "parquet": (".parquet", lambda path, X: frame(X).to_parquet(path, row_group_size=100)),
    "h5ad": (".h5ad", write_h5ad(np.asarray)),
    "h5ad CSR": (".h5ad", write_h5ad(sparse.csr_matrix)),
    "h5ad CSC": (".h5ad", write_h5ad(sparse.csc_matrix)),
    "zarr": (".zarr", write_zarr),
    "h5": (".h5", write_h5),
    "txt": (".txt", lambda path, X: frame(X).to_csv(path, index=False, sep=";", decimal=",", encoding="utf-16")),
}
if find_spec("openpyxl"):
    FILES["xlsx"] = (".xlsx", lambda path, X: write_book(path, sheet_of([names(X.shape[1]), *X.tolist()])))


def written(kind: str, folder: Path, X: Any) -> Path:
    """Write ``X`` as a kind of file and return its path."""
    ending, write = FILES[kind]
    path = folder / f"{kind.replace(' ', '_')}{ending}"
    write(path, X)
    return path


def as_polars(X: Any) -> Any:
    import polars

    return polars.DataFrame({name: X[:, i] for i, name in enumerate(names(X.shape[1]))})


def as_arrow(X: Any) -> Any:
    import pyarrow

    return pyarrow.table({name: X[:, i] for i, name in enumerate(names(X.shape[1]))})


OBJECTS: dict[str, Callable[[Any], Any]] = {
    "numpy by columns": np.asfortranarray,
    "pandas": frame,
    "pandas of several types": lambda X: frame(X).astype({"feature 0": "Float64"}),
    "polars": as_polars,
    "arrow": as_arrow,
    "arrow batch": lambda X: as_arrow(X).to_batches()[0],
    "CSR": sparse.csr_array,
    "CSC": sparse.csc_matrix,
    "COO": sparse.coo_array,
    "AnnData": anndata_of,
    "AnnData CSR": lambda X: anndata_of(X, sparse.csr_matrix),
}
