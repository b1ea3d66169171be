"""An estimate as a file of its own, without the data; read back by `load`."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from sparsemean.errors import InputError
from sparsemean.estimate import Estimate
from sparsemean.files import replacing
from sparsemean.records import Counts, Plan, Rows, Selection, Status, Uncertified

FORMAT = "sparsemean-estimate-3"
LAZY = ("entry_time", "radius")
PARTS = {"selection": Selection, "counts": Counts, "rows": Rows, "uncertified": Uncertified}
PLAIN = ("mean", "support", "intervals", "beta", "bucket_size", "skew_safe")
OPTIONAL = ("bucket_of_row", "shift", "units", "labels", "class_names")


def save(estimate: Estimate, path: str | Path) -> None:
    """Write ``estimate`` to ``path``: one zip archive of arrays with a header in JSON, nothing pickled."""
    arrays = {name: getattr(estimate, name) for name in (*PLAIN, *LAZY)}
    arrays |= {name: value for name in OPTIONAL if (value := getattr(estimate, name)) is not None}
    scalars: dict[str, Any] = {}
    for part in PARTS:
        record = getattr(estimate, part)
        for item in fields(record) if record is not None else ():
            value = getattr(record, item.name)
            target = arrays if isinstance(value, np.ndarray) else scalars
            target[f"{part}.{item.name}"] = value
    if estimate.feature_names is not None:
        arrays["feature_names"] = estimate.feature_names.astype(str)
    header = {
        "format": FORMAT,
        "plan": asdict(estimate.plan),
        "status": asdict(estimate.status),
        "seed": str(estimate.seed),
        "scalars": scalars,
    }
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, header=np.array(json.dumps(header)), **arrays)


def load(path: str | Path) -> Estimate:
    """Read an estimate written by `Estimate.save`."""
    try:
        with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            if header["format"] != FORMAT:
                raise InputError("path", f"hold an estimate of format {FORMAT}", header["format"])
            arrays = {name: file[name] for name in file if name != "header"}
        return _restored(header, arrays)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, TypeError) as error:
        raise InputError("path", "be a file written by Estimate.save", f"{str(path)!r} ({error})") from error


def _restored(header: dict[str, Any], arrays: dict[str, Any]) -> Estimate:
    """Put an estimate together again."""
    values = {**arrays, **{name: _tuples(value) for name, value in header["scalars"].items()}}
    parts: dict[str, Any] = {
        part: kind(**{item.name: values[name] for item in fields(kind) if (name := f"{part}.{item.name}") in values})
        for part, kind in PARTS.items()
        if any(name.startswith(f"{part}.") for name in values)
    }
    made: dict[str, Any] = {name: arrays[name] for name in PLAIN} | {name: arrays.get(name) for name in OPTIONAL}
    estimate = Estimate(
        **made,
        **parts,
        feature_names=arrays["feature_names"].astype(object) if "feature_names" in arrays else None,
        plan=Plan(**{name: _tuples(value) for name, value in header["plan"].items()}),
        status=Status(**{name: _tuples(value) for name, value in header["status"].items()}),
        seed=int(header["seed"]),
    )
    estimate.__dict__.update({name: arrays[name] for name in LAZY})
    return estimate


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
