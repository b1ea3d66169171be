"""An estimate as a file: .csv, .json, .parquet, or columns in a copy of the .h5ad it was made from."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from sparsemean._data.anndata import Frame, read_anndata
from sparsemean._data.hdf5 import Hdf5Group, open_hdf5
from sparsemean._data.source import Array
from sparsemean._data.table import FileContext, Names, as_names
from sparsemean._fit.afterwards import strongest_first
from sparsemean._util.files import check_writable, replacing, write_csv
from sparsemean._util.records import IntArray, RowScores
from sparsemean.errors import InputError, require
from sparsemean.result.comparison import Comparison, tests_of

if TYPE_CHECKING:
    import pandas as pd
    from anndata import AnnData
    from h5py import Dataset, Group

    from sparsemean.result import Estimate

ENDINGS = (".csv", ".json", ".parquet", ".h5ad")
FORMAT = "sparsemean-fit-1"
FORMAT_OF_TESTS = "sparsemean-tests-1"
ASKED = ("selection", "level", "min_effect", "missing", "screen_rows", "refine_on")
"""Of what is asked, what a file has as it is."""


def check_target(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError("output", f"end in {', '.join(ENDINGS)}", repr(path.name))
    check_writable(path)
    if path.suffix.lower() == ".parquet":
        require("pyarrow", extra="parquet", purpose="writing .parquet files")
    if path.suffix.lower() == ".h5ad":
        require("h5py", extra="hdf5", purpose="writing .h5ad files")


def as_json(estimate: Estimate | Comparison, *, every: bool = False) -> str:
    """Return the selected features, or every one besides, and the settings; what is infinite or not known is null."""
    if isinstance(estimate, Comparison):
        tests = [content_of(each, every=every) for each in estimate.results.values()]
        content: dict[str, object] = {"format": FORMAT_OF_TESTS, "summary": estimate.summary(), "tests": tests}
    else:
        content = {"format": FORMAT, **content_of(estimate, every=every)}
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


def content_of(estimate: Estimate, *, every: bool = False) -> dict[str, object]:
    """Return what a file says of one sample, or of one test."""
    plan, rows = estimate.plan, estimate.rows
    suspects = [] if rows is None else rows.suspects.tolist()
    reasons = [] if rows is None else [estimate.names(np.array(why, dtype=np.intp)) for why in rows.reasons]
    pairs = plan.walk.dealing == "pairs"
    return {
        "groups": None if estimate.class_names is None else estimate.class_names.tolist(),
        "group_sizes": None if plan.sizes is None else list(plan.sizes),
        "bad_by_group": None if plan.bad_by_group is None else list(plan.bad_by_group),
        "alternative": plan.question.side,
        "test": None if pairs else plan.question.test, "target": None if pairs else plan.question.target,
        "tests": plan.n_tests, "strata": plan.n_strata, "rows": plan.n_rows, "columns": plan.n_features,
        "contamination": plan.contamination, "contamination_found": plan.auto,
        "n_buckets": plan.walk.n_buckets, "bucket_sizes": list(plan.walk.bucket_sizes), "bad_rows": plan.bad_rows,
        "refine": plan.question.refine or None,
        **{name: getattr(plan.question, name) for name in ASKED},
        "seed": estimate.seed,
        "selected": _records(estimate.table()),
        **({"features": _records(_table(estimate, every=True))} if every else {}),
        "not_certified": _records(estimate.table(certified=False)),
        "suspects": suspects, "suspect_names": estimate.row_names(suspects),
        "suspect_kinds": [] if rows is None else list(rows.kinds), "suspect_features": reasons,
        "summary": estimate.summary(), "notes": list(estimate.status.messages),
    }  # fmt: skip


def _records(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.to_dict(orient="records")]


def _plain(value: object) -> object:
    """Return what JSON has a word for, None for the rest."""
    value = value.item() if isinstance(value, np.generic) else value
    finite = isinstance(value, (str, int)) or (isinstance(value, float) and np.isfinite(value))
    return value if finite else None


def _table(estimate: Estimate | Comparison, *, every: bool) -> pd.DataFrame:
    """Return the selected features, or every feature with a column that says which are selected."""
    frame = estimate.table(all=every)
    if every:
        tests = tests_of(estimate)
        order = [(test, strongest_first(test, np.arange(test.mean.size))) for test in tests]
        selected = np.concatenate([np.isin(features, test.support) for test, features in order])
        frame.insert(int(frame.columns.get_loc("feature")) + 1, "selected", selected)  # type: ignore[arg-type]
    return frame


def write(estimate: Estimate | Comparison, path: Path, *, every: bool = False) -> None:
    """Write the selected features, or every one, to ``path`` by its ending; what was there stays if this fails."""
    check_target(path)
    with replacing(path) as temporary:
        match path.suffix.lower():
            case ".json":
                temporary.write_text(as_json(estimate, every=every) + "\n", encoding="utf-8")
            case ".csv":
                write_csv(_table(estimate, every=every), temporary)
            case _:
                table = _table(estimate, every=every)
                # Text also where features have no names but numbers: then all such files have one schema.
                table["feature"] = table["feature"].astype(str)
                table.to_parquet(temporary, index=False)


# An estimate written back into a copy of the .h5ad file it was made from: columns of var and obs, settings in uns.

H = TypeVar("H", bound="Dataset | Group")
SLACK = 1_000_000
"""Bytes for what HDF5 adds of its own."""


def write_h5ad(
    estimate: Estimate | Comparison,
    source_path: str | Path,
    target_path: str | Path,
    *,
    key: str = "sparsemean",
    overwrite: bool = False,
) -> None:
    """Copy the .h5ad file of a fit to ``target_path`` and add what was found.

    ``var`` gets a column for the selection, estimate, interval, p-values, radius and contamination survived of every
    gene (NaN for those not looked at), ``obs`` the score of every cell and whether it is suspect, ``uns`` the settings
    as JSON. Several tests have columns of ``var`` each, with their label in the name. Columns of an earlier run are
    replaced.

    Parameters
    ----------
    key : str
        What names of columns begin with, and the name in ``uns``.
    overwrite : bool
        Whether the target may be the file itself, which is then replaced once the new one is complete.
    """
    h5py = require("h5py", extra="hdf5", purpose="writing .h5ad files")
    source, target = Path(source_path), Path(target_path)
    if not source.is_file():
        raise InputError("FILE", "be an existing file", repr(str(source)), "check the path")
    if target.exists() and target.samefile(source) and not overwrite:
        advice = "choose another name, or allow it with overwrite=True"
        raise InputError("output", "differ from the input", repr(str(target)), advice)
    _check_key(key)
    added = _additions_to_file(estimate, source, key)  # one that is not the file of the fit is refused before any copy
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)
        with temporary.open("ab") as copy:  # room first: HDF5 does not survive a full disk while it closes the file
            copy.write(bytes(added.size + SLACK))  # it cuts off what is not used
        with _writing(target), h5py.File(temporary, "r+", locking="best-effort") as file:
            root = Hdf5Group(file, FileContext(source.name, ".h5ad file"))
            _put(root.own("var"), added.var)
            _put(root.own("obs"), added.obs)
            _put_settings(root, key, added.settings)


@dataclass(frozen=True, slots=True, eq=False)
class _Additions:
    """Columns of var and obs by name, and the settings."""

    var: dict[str, Array]
    obs: dict[str, Array]
    settings: dict[str, str | float | int]

    @property
    def size(self) -> int:
        """Bytes of all that is added."""
        columns = sum(column.nbytes for frame in (self.var, self.obs) for column in frame.values())
        return columns + 4 * sum(len(str(value)) for value in self.settings.values())


def to_adata(estimate: Estimate | Comparison, adata: AnnData, key: str) -> None:
    """Add to an AnnData in memory what `write_h5ad` adds to a file."""
    _check_key(key)
    if not hasattr(adata, "var_names"):
        raise InputError("adata", "be the AnnData of the fit", type(adata).__name__)
    names = as_names(adata.var_names)
    _refuse_other_genes(estimate, adata, set(names))
    added = _additions(estimate, names, as_names(adata.obs_names), key, _Asked("adata", "AnnData"))
    if not _compared(one := tests_of(estimate)[0], adata, names):
        added.obs.clear()
        why = "saved, of adjusted values or without a checksum" if _of_rows(one) else "of subjects or pairs"
        warnings.warn(NOT_COMPARED.format(why), stacklevel=3)
    adata.var, adata.obs = _with(adata.var, added.var), _with(adata.obs, added.obs)
    adata.uns[key] = dict(added.settings)


NOT_COMPARED = "only var has new columns: this fit ({}) cannot be compared with the cells of adata"


def _compared(estimate: Estimate, adata: AnnData, names: Names) -> bool:
    """Refuse an AnnData of which neither X nor a layer nor raw was fitted; False where no values or names can tell."""
    from sparsemean._fit.afterwards import checksum_of, rows_of

    if not _of_rows(estimate):
        return False
    known, asked = replace(estimate, checksum=checksum_of(estimate)), _Asked("adata", "AnnData")
    if known.theta is not None or (known.checksum is None and known.counts is None):
        return known.source is not None and known.source.row_names is not None
    genes = _places(names, known, asked)
    own = adata if np.array_equal(genes, np.arange(names.size)) else adata[:, genes]
    layers = [(None, False), *((name, False) for name in adata.layers), *([] if adata.raw is None else [(None, True)])]
    for layer, raw in layers:
        with suppress(ValueError, TypeError):
            rows_of(known, read_anndata(own, layer=layer, raw=raw))
            return True
    raise asked.refused("other values in X, layers and raw")


def _refuse_other_genes(estimate: Estimate | Comparison, adata: AnnData, genes: set[str]) -> None:
    """Say why what was tested are no genes of ``var``: those of raw, or differences within donors."""
    names = estimate.feature_names
    unknown = [] if names is None else [name for name in map(str, names) if name not in genes]
    if not unknown:
        return
    rule = "have a row of var for each feature"
    if adata.raw is not None and set(unknown) <= set(as_names(adata.raw.var_names)):
        received = f"no {unknown[0]!r}, which is in raw"
        raise InputError("adata", rule, received, "pass adata.raw.to_adata(), or test X with use_raw=False")
    if unknown[0].partition(": ")[2] in genes:
        received = f"{unknown[0]!r}, the difference of a gene within donors"
        raise InputError("adata", rule, received, "take table(all=True), or what tl.rank_genes_groups wrote to uns")


def _with(frame: pd.DataFrame, columns: dict[str, Array]) -> pd.DataFrame:
    """Return a frame with columns in the place of those of the same names; one by one very many would be slow."""
    import pandas as pd

    others = frame[[name for name in frame.columns if name not in columns]]
    return pd.concat([others, pd.DataFrame(columns, index=frame.index)], axis=1)


def _check_key(key: str) -> None:
    if not key or "/" in key or key.startswith("."):
        raise InputError("key", "be a plain name", repr(key))


class _Asked(NamedTuple):
    """What is added to: the argument that names it, and what to call it."""

    argument: str
    name: str

    def refused(self, why: str) -> InputError:
        """Return the error of something else than what the fit was made from."""
        kind = "file" if self.argument == "FILE" else "AnnData"
        return InputError(self.argument, f"be the {kind} of the fit", f"{self.name} with {why}")


def _additions_to_file(estimate: Estimate | Comparison, source: Path, key: str) -> _Additions:
    file, opened = open_hdf5(source, ".h5ad file")
    with file, opened.reading():
        if "uns" in file.keys():  # noqa: SIM118  (what a link leads to may not be there)
            file.own("uns")
        var, obs = (Frame(file, name, None, opened) for name in ("var", "obs"))
        names, cells = as_names(var.index()), as_names(obs.index())
    return _additions(estimate, names, cells, key, _Asked("FILE", opened.name))


def _additions(estimate: Estimate | Comparison, names: Names, cells: Names, key: str, asked: _Asked) -> _Additions:
    """Lay out what an estimate says in the order of the genes and cells of what was asked about."""
    tests = tests_of(estimate)
    one, several = tests[0], len(tests) > 1
    of_cells = _of_rows(one)
    if of_cells and cells.size != one.plan.n_rows:
        raise asked.refused(f"{cells.size} cells where the fit had {one.plan.n_rows} rows")
    known = None if one.source is None else one.source.row_names
    if of_cells and known is not None and (others := np.flatnonzero(known != cells)).size:
        raise asked.refused(f"{cells[others[0]]!r} in row {others[0]}, which was {known[others[0]]!r} in the fit")
    places, added = _places(names, one, asked), dict[str, Array]()
    for test in tests:
        called = [] if test.class_names is None or not several else test.class_names[::-1].tolist()
        label = f"_{'_vs_'.join(called)}".replace("/", "_") if called else ""  # a slash parts names in HDF5
        columns = _of_genes(test, places, names.size)
        added |= {f"{key}{label}_{name}": column for name, column in columns.items()}
    return _Additions(
        var=added,
        obs={f"{key}_{name}": column for name, column in _of_cells(estimate.rows).items()} if of_cells else {},
        settings={
            "json": as_json(estimate),
            "selection": one.plan.question.selection,
            "seed": str(one.seed),
            "contamination": one.plan.contamination,
            "level": one.plan.question.level,
            "n_selected": int(estimate.support.size),
        },
    )


def _of_rows(estimate: Estimate) -> bool:
    """Whether rows of the fit are those of its data, not subjects or pairs."""
    return estimate.class_names is None or (estimate.labels is not None and estimate.units is None)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Turn what h5py raises where a file cannot be written, of which there are several kinds, into one line."""
    try:
        yield
    except (InputError, ImportError):
        raise
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise InputError("output", "be written whole", f"{str(target)!r} ({why})", "the input is unchanged") from error


def _places(names: Names, estimate: Estimate, asked: _Asked) -> IntArray:
    """Return the row of ``var`` of every feature of the estimate."""
    d = estimate.mean.size
    if estimate.feature_names is None:
        if names.size != d:
            raise asked.refused(f"{names.size} genes where the fit had {d} features")
        return np.arange(d)
    place = {name: i for i, name in enumerate(names)}
    if unknown := [name for name in estimate.feature_names if str(name) not in place]:
        raise asked.refused(f"no gene {unknown[0]!r}")
    return np.array([place[str(name)] for name in estimate.feature_names], dtype=np.intp)


def _of_genes(estimate: Estimate, genes: IntArray, n_genes: int) -> dict[str, Array]:
    """Return columns of ``var``, NaN where a gene was not looked at."""
    (low, high), names = estimate.intervals.T, ("p_value", "p_adjusted", "q_value", "radius", "max_contamination")
    values = (estimate.p_values, estimate.p_adjusted, estimate.q_values, estimate.radius, estimate.max_contamination)
    columns = {"estimate": estimate.mean, "ci_low": low, "ci_high": high, **dict(zip(names, values, strict=True))}
    selected = np.zeros(n_genes, dtype=bool)
    selected[genes[estimate.support]] = True
    of_genes: dict[str, Array] = {"selected": selected}
    for name, values in columns.items():
        of_genes[name] = np.full(n_genes, np.nan)
        of_genes[name][genes] = values
    return of_genes


def _of_cells(rows: RowScores | None) -> dict[str, Array]:
    """Return columns of ``obs``, where rows were judged."""
    if rows is None:
        return {}
    suspect = np.zeros(rows.scores.size, dtype=bool)
    suspect[rows.suspects] = True
    return {"score": rows.scores, "suspect": suspect}


def _put(frame: Group, columns: Mapping[str, Array]) -> None:
    """Add columns to a frame, in the place of those of the same names."""
    order = [str(name) for name in frame.attrs.get("column-order", ())]
    for name, values in columns.items():
        _remove(frame, name)
        _encoded(frame.create_dataset(name, data=values), "array", "0.2.0")
    frame.attrs["column-order"] = [*order, *(name for name in columns if name not in order)]


def _remove(group: Group, name: str) -> None:
    """Take a name out of a group; what a link of that name leads to is left alone, and not looked at."""
    if group.id.links.exists(name.encode()):
        del group[name]


def _put_settings(root: Hdf5Group, key: str, settings: Mapping[str, str | float | int]) -> None:
    """Write the settings in the place of those of an earlier run."""
    if "uns" not in root.keys():  # noqa: SIM118  (what a link leads to may not be there)
        _encoded(root.group.create_group("uns"), "dict", "0.1.0")
    uns = root.own("uns")
    _remove(uns, key)
    group = _encoded(uns.create_group(key), "dict", "0.1.0")
    for name, value in settings.items():
        kind = "string" if isinstance(value, str) else "numeric-scalar"
        _encoded(group.create_dataset(name, data=value), kind, "0.2.0")


def _encoded(element: H, kind: str, version: str) -> H:
    element.attrs["encoding-type"], element.attrs["encoding-version"] = kind, version
    return element
