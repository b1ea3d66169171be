"""An estimate as a file: .csv, .json or .parquet, never half-written; `annotating` writes .h5ad."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemean.errors import InputError, require
from sparsemean.files import check_writable, replacing

if TYPE_CHECKING:
    from sparsemean.estimate import Estimate

ENDINGS = (".csv", ".json", ".parquet", ".h5ad")
FORMAT = "sparsemean-fit-1"


def check_target(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError("output", f"end in {', '.join(ENDINGS)}", repr(path.name))
    check_writable(path)
    if path.suffix.lower() == ".parquet":
        require("pyarrow", extra="parquet", purpose="writing .parquet files")
    if path.suffix.lower() == ".h5ad":
        require("h5py", extra="hdf5", purpose="writing .h5ad files")


def as_json(estimate: Estimate) -> str:
    """Return the selected features and the settings; what is infinite or not known is null."""
    plan = estimate.plan
    suspects = [] if estimate.rows is None else estimate.rows.suspects.tolist()
    selected = [
        {key: _plain(value) for key, value in row.items()} for row in estimate.table().to_dict(orient="records")
    ]
    content = {
        "format": FORMAT,
        "groups": None if estimate.class_names is None else estimate.class_names.tolist(),
        "rows": plan.n_rows,
        "columns": plan.n_features,
        "contamination": plan.contamination,
        "n_buckets": plan.n_buckets,
        "bucket_sizes": list(plan.bucket_sizes),
        "selection": plan.selection,
        "level": plan.level,
        "bad_rows": plan.bad_rows,
        "screen_rows": plan.screen_rows,
        "refine": plan.refine or None,
        "refine_on": plan.refine_on,
        "missing": plan.missing,
        "seed": estimate.seed,
        "selected": selected,
        "not_certified": [
            {key: _plain(value) for key, value in row.items()}
            for row in estimate.table(certified=False).to_dict(orient="records")
        ],
        "suspects": suspects,
        "suspect_names": estimate.row_names(suspects),
        "summary": estimate.summary(),
        "notes": list(estimate.status.messages),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    return value if isinstance(value, (str, int)) else None


def write(estimate: Estimate, path: Path) -> None:
    """Write the selected features to ``path`` by its ending; what was there stays if this fails."""
    check_target(path)
    with replacing(path) as temporary:
        match path.suffix.lower():
            case ".json":
                temporary.write_text(as_json(estimate) + "\n", encoding="utf-8")
            case ".csv":
                estimate.table().to_csv(temporary, index=False)
            case _:
                table = estimate.table()
                table["feature"] = table["feature"].astype(str)
                table.to_parquet(temporary, index=False)
