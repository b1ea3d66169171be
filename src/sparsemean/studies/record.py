"""What is kept of a figure for the page: a later run adds its figures to those that were made in the same way."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsemean import remarks
from sparsemean.files import replacing
from sparsemean.studies import agreement
from sparsemean.studies.figure import Options, Outcome
from sparsemean.studies.fingerprint import fingerprint

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "sparsemean-figure-1"
ENDING = ".figure.json"


@dataclass(frozen=True, slots=True)
class Record:
    """A figure that was made, as plain data.

    Attributes
    ----------
    name, title, images, notes
        As in `Outcome`; images lie in the same folder.
    made_with
        Versions, code, seed, trials and whether it was a quick look. Records that differ here are not put on one page.
    settings
        What was run.
    agreement
        Rows of `agreement.compare`, or None where nothing was compared.
    better
        Rows of `agreement.better`.
    table
        The measured table where it is short enough to be read.
    """

    name: str
    title: str
    images: list[str]
    notes: list[str]
    made_with: dict[str, Any]
    settings: Any
    agreement: list[dict[str, Any]] | None
    better: list[dict[str, Any]]
    table: list[dict[str, Any]]
    format: str = FORMAT

    @classmethod
    def of(cls, outcome: Outcome, options: Options) -> Record:
        """Return what is kept of an outcome."""
        compared = None if outcome.agreement is None else _rows(outcome.agreement)
        short = _rows(outcome.table) if len(outcome.table) <= LONGEST else []
        attrs = {key: value for key, value in outcome.table.attrs.items() if key not in ("versions", "notes")}
        images = [os.path.relpath(image, options.out) for image in outcome.images]
        return cls(
            outcome.name, outcome.title, images, list(outcome.notes), made_with(options), attrs, compared,
            _rows(_better(outcome)), short,
        )  # fmt: skip

    def write(self, out: Path) -> None:
        """Write it into ``out``."""
        with replacing(out / f"{self.name}{ENDING}") as temporary:
            temporary.write_text(json.dumps(asdict(self), default=str), encoding="utf-8")


LONGEST = 60
"""Rows of a table that a page shows."""


def made_with(options: Options) -> dict[str, Any]:
    """Return what must be equal for figures to share a page."""
    made_by = {**remarks.versions(), "code": fingerprint()}
    return {**made_by, "seed": options.seed, "trials": options.trials, "quick": options.quick}


def collect(options: Options, names: list[str]) -> tuple[list[Record], list[str]]:
    """Return the figures found in ``options.out`` that were made alike, and a sentence on each that was not."""
    kept, left_out = [], []
    for name in names:
        path = options.out / f"{name}{ENDING}"
        if not path.exists():
            continue
        try:
            record = Record(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, OSError):
            left_out.append(f"{path.name} cannot be read and is left out; making {name} again replaces it")
            continue
        differing = [
            f"{key} {record.made_with.get(key)}"
            for key, value in made_with(options).items()
            if record.made_with.get(key) != value
        ]
        if differing or record.format != FORMAT:
            left_out.append(f"{name} was made otherwise ({', '.join(differing) or record.format}) and is left out")
        else:
            kept.append(record)
    return kept, left_out


def _better(outcome: Outcome) -> pd.DataFrame:
    """Return by how much the default is better, where errors were compared with published ones."""
    import pandas as pd

    wanted = {*agreement.POINT, "estimator", "error"}
    comparable = outcome.agreement is not None and wanted <= set(outcome.table.columns)
    if not comparable or outcome.name not in L2_FIGURES:
        return pd.DataFrame()
    return agreement.better(outcome.table)


L2_FIGURES = ("fig2b", "fig2c", "app_sensitivity", "app_different_k", "app_infinite_variance", "app_different_eps")
"""Those whose published points are errors; Fig 2a has success rates, Fig 1 trajectories, `runtime` seconds."""


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
