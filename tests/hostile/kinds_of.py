"""Every kind of file that is read, and who makes hostile ones of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from random import Random

import numpy as np

import kinds
from hostile import columnar, hdf5, npy, text, zarrs
from hostile.case import Case
from hostile.places import NO_FILES, changed

Maker = Callable[[Path, Random], Case]
KINDS: dict[str, tuple[str, Maker]] = {
    "npy": (".npy", npy.npy),
    "npz": (".npz", npy.npz),
    "npz_sparse": (".npz", npy.npz_sparse),
    "csv": (".csv", text.csv),
    "tsv": (".tsv", text.tsv),
    "csv_gz": (".csv.gz", text.csv_gz),
    "parquet": (".parquet", columnar.parquet),
    "h5": (".h5", hdf5.h5),
    "h5ad": (".h5ad", hdf5.h5ad),
    "h5ad_sparse": (".h5ad", hdf5.h5ad_sparse),
    "zarr2": (".zarr", zarrs.zarr2),
    "zarr3": (".zarr", zarrs.zarr3),
    "sketch": (".sketch", npy.sketch),
    "estimate": (".npz", npy.estimate),
}
if find_spec("openpyxl"):
    KINDS["xlsx"] = (".xlsx", text.xlsx)
SOUND = {
    "npy": ("npy", "npy by columns"),
    "npz": ("npz", "npz compressed"),
    "npz_sparse": ("npz sparse",),
    "csv_gz": ("csv gz",),
    "h5ad_sparse": ("h5ad CSR", "h5ad CSC"),
    "zarr3": ("zarr",),
    **{kind: (kind,) for kind in ("csv", "tsv", "parquet", "h5", "h5ad")},
}
"""Names in `kinds` of what is sound when it is opened and changed later; other kinds are read in one go."""


def make(kind: str, seed: int, folder: Path) -> Case:
    """Write the case of a kind and a seed."""
    ending, maker = KINDS[kind]
    rng = Random(f"{kind} {seed}")
    fate = rng.random()
    if fate < 0.04:
        path = folder / (
            f"case{ending}" if rng.random() < 0.9 else rng.choice(("x" * 300, "\udc80", "a\nb", "\x1b[31m")) + ending
        )
        if len(path.name) < 250:
            rng.choice(NO_FILES)(path, rng)
        return Case(path)
    if fate < 0.12 and kind in SOUND:
        path = sound(rng.choice(SOUND[kind]), folder)
        return Case(path, meddle=changed(path, rng), while_reading=rng.random() < 0.5)
    case = maker(folder, rng)
    turned = Random(f"{kind} {seed} turned").random() < 0.15
    return replace(case, wanted=replace(case.wanted, transpose=True)) if turned else case


def sound(kind: str, folder: Path) -> Path:
    """Copy a sound file of several pages, which is written once."""
    kept = folder.with_name(f"{folder.name} sound")
    path = kept / f"{kind.replace(' ', '_')}{kinds.FILES[kind][0]}"
    if not path.exists():
        kept.mkdir(exist_ok=True)
        X = np.random.default_rng(0).normal(size=(400, 20)) + 1
        kinds.written(kind, kept, np.where(X < 0.5, 0, X))
    copy = folder / path.name
    shutil.copytree(path, copy) if path.is_dir() else shutil.copyfile(path, copy)
    return copy
