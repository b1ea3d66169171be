"""The result of a fit: values, table, summary, path, file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsemean import path
from sparsemean.errors import InputError
from sparsemean.files import replacing
from sparsemean.partition import deal
from sparsemean.passes import memory
from sparsemean.records import Counts, Evidence, FloatArray, IntArray, Plan, Selection, Status
from sparsemean.sources import as_table
from sparsemean.sources.table import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FORMAT = "sparsemean-estimate-1"


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """What a fit found.

    Attributes
    ----------
    mean : (d,) array
        Estimated means in original units, zero off the support.
    support : array of int
        The selected features, sorted.
    evidence : Evidence
        The counts behind it.
    bucket_of_row : (n,) array of int
        The bucket of each row.
    feature_names : array of str or None
        None: the features are numbered.
    plan, selection, seed, status
        What was done, with which seed, and what there is to say about it.
    source
        A handle on the data, not kept when the estimate is pickled or saved.
    """

    mean: FloatArray
    support: IntArray
    evidence: Evidence
    bucket_of_row: IntArray
    feature_names: npt.NDArray[np.object_] | None
    plan: Plan
    selection: Selection
    seed: int
    status: Status
    source: Table | None = field(default=None)

    @property
    def beta(self) -> FloatArray:
        """β₀ = (N₊ − N₋)/J of every feature: the share of bucket means above zero less the share below."""
        return self.evidence.beta()

    @property
    def bucket_size(self) -> IntArray:
        """Rows in a bucket, of every feature."""
        return np.full(self.plan.n_features, self.plan.bucket_sizes[0])

    @cached_property
    def entry_time(self) -> FloatArray:
        """First iteration with |μ̂_t| ≥ α, of every feature; infinity for one that never leaves zero.

        The counts settle it unless a bucket mean lies within α of zero: those few features are read again, the first
        time this is asked for.
        """
        plan, counts = self.plan, self.evidence.counts
        scales = {"alpha": plan.alpha, "eta": plan.eta}
        entry = path.free_entry(counts.positive[0], counts.negative[0], self.evidence.n_buckets[0], **scales)
        rest = path.entry_unsettled(self.evidence, alpha=plan.alpha)
        if rest.size:
            entry[rest] = self._map_means(rest, lambda means: path.entry_times(means, **scales))
        return entry

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "entry_time": self.entry_time, "source": None}

    def __repr__(self) -> str:
        n, d = self.plan.n_rows, self.plan.n_features
        return f"<Estimate: {self.support.size} of {d} features selected from {n} rows, seed {self.seed}>"

    def names(self, features: IntArray) -> list[str | int]:
        """Return the names of ``features``, or their numbers where there are none."""
        if self.feature_names is None:
            return [int(i) for i in features]
        return [str(name) for name in self.feature_names[features]]

    def table(self, all: bool = False) -> pd.DataFrame:
        """Return one row for each selected feature (``all=True``: every feature), the earliest to rise first."""
        import pandas as pd

        features = np.arange(self.mean.size) if all else self.support
        order = np.lexsort((-np.abs(self.mean[features]), -np.abs(self.beta[features]), self.entry_time[features]))
        features = features[order]
        return pd.DataFrame(
            {
                "feature": self.names(features),
                "estimate": self.mean[features],
                "beta": self.beta[features],
                "entry_time": self.entry_time[features],
                "bucket_size": self.bucket_size[features],
            }
        )

    def summary(self) -> str:
        """Say in a paragraph what was done and found."""
        plan, k = self.plan, self.support.size
        threshold = path.selection_threshold(plan.select_at, alpha=plan.alpha, eta=plan.eta)
        found = "No feature was" if k == 0 else f"{k} feature{' was' if k == 1 else 's were'}"
        sentences = [
            f"{found} selected out of {plan.n_features}, from {plan.n_rows} rows of which {plan.bad_rows} may be bad.",
            f"A feature is selected when its bucket means agree on a sign: among {plan.n_buckets} buckets the share "
            f"above zero less the share below must reach {threshold:.3f} (the paper's rule after {plan.select_at} "
            "iterations, which has no stated error rate).",
        ]
        return " ".join((*sentences, *(f"Note: {message}." for message in self.status.messages)))

    def trajectory(self, features: Any, n_iter: int | None = None, X: Any = None) -> FloatArray:
        """Return μ̂_t for t = 0 … n_iter of some features, a column each, in original units.

        Parameters
        ----------
        features : int, str or sequence of them
            By number or by name.
        n_iter : int, optional
            Defaults to the number of iterations behind the values.
        X : array or data frame, optional
            The data of the fit; needed after loading or unpickling.
        """
        columns = self._columns(features)
        last = self.plan.estimate_at if n_iter is None else int(n_iter)
        if last < 0:
            raise InputError("n_iter", "be an integer of at least 0", n_iter)
        return self._map_means(
            columns,
            lambda means: path.walk(means, alpha=self.plan.alpha, eta=self.plan.eta, times=range(last + 1)),
            X,
        )

    def plot_path(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw |μ̂_t|: the selected features rise one after the other, the rest stays down."""
        from sparsemean.plots.path import plot_path

        return plot_path(self, ax=ax, **options)

    def save(self, path: str | Path) -> None:
        """Write the estimate to one file, without the data; `sparsemean.load` reads it."""
        header = {
            "format": FORMAT,
            "plan": asdict(self.plan),
            "rule": self.selection.rule,
            "filled_up": self.selection.filled_up,
            "n_buckets": self.evidence.n_buckets,
            "seed": str(self.seed),
            "status": asdict(self.status),
        }
        arrays = {name: getattr(self, name) for name in (*_ARRAYS, "entry_time")}
        arrays |= {name: getattr(self.evidence.counts, name) for name in _COUNTS}
        if self.feature_names is not None:
            arrays["feature_names"] = self.feature_names.astype(str)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, header=np.array(json.dumps(header)), **arrays)

    def _map_means(self, columns: IntArray, work: Callable[[FloatArray], FloatArray], X: Any = None) -> FloatArray:
        """Read ``columns`` of the data again and apply ``work`` to their bucket means."""
        return memory.map_means(self._rows(X), deal(self.plan, self.seed), columns, work)

    def _rows(self, X: Any) -> Table:
        if X is None and self.source is None:
            raise InputError("X", "be given, as this estimate does not keep its data", None, "pass the X of the fit")
        table = self.source if X is None else as_table(X)
        assert table is not None
        shape = (self.plan.n_rows, self.plan.n_features)
        if table.values.shape != shape:
            raise InputError("X", f"be the data of the fit, of shape {shape}", table.values.shape)
        return table

    def _columns(self, features: Any) -> IntArray:
        single = isinstance(features, (str, int, np.integer)) or not isinstance(features, Iterable)
        return np.array([self._column(f) for f in ([features] if single else features)], dtype=np.intp)

    def _column(self, feature: Any) -> int:
        if isinstance(feature, (int, np.integer)) and -self.mean.size <= feature < self.mean.size:
            return int(feature) % self.mean.size
        if isinstance(feature, str) and self.feature_names is not None:
            found = np.flatnonzero(self.feature_names == feature)
            if found.size:
                return int(found[0])
        raise InputError("features", f"be names of features or numbers below {self.mean.size}", repr(feature))


_ARRAYS = ("mean", "support", "bucket_of_row")
_COUNTS = ("positive", "negative", "nearest")


def load(path: str | Path) -> Estimate:
    """Read an estimate written by `Estimate.save`."""
    try:
        with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            if header["format"] != FORMAT:
                raise InputError("path", f"hold an estimate of format {FORMAT}", header["format"])
            arrays = {name: file[name] for name in file if name != "header"}
    except InputError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, TypeError) as error:
        raise InputError("path", "be a file written by Estimate.save", f"{str(path)!r} ({error})") from error
    plan: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in header["plan"].items()}
    status = {**header["status"], "messages": tuple(header["status"]["messages"])}
    estimate = Estimate(
        **{name: arrays[name] for name in _ARRAYS},
        evidence=Evidence(Counts(*(arrays[name] for name in _COUNTS)), tuple(header["n_buckets"])),
        feature_names=arrays["feature_names"].astype(object) if "feature_names" in arrays else None,
        plan=Plan(**plan),
        selection=Selection(arrays["support"], header["rule"], header["filled_up"]),
        seed=int(header["seed"]),
        status=Status(**status),
    )
    estimate.__dict__["entry_time"] = arrays["entry_time"]
    return estimate
