"""A strategy of Flower's server: `SparseMeanStrategy`."""

from __future__ import annotations

import logging
import types
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sparsemean._util.checks import list_names
from sparsemean.errors import require
from sparsemean.federated import Aggregate, Rows, aggregate


class _Reply:
    """What a client sent, taken apart: its arrays, and a layout that those of the other clients should have too."""

    def __init__(self, message: Any) -> None:
        self.message, self.arrays = message, dict[str, npt.NDArray[Any]]()
        self.layout: Any = None
        try:
            (record,), (metrics,) = message.content.array_records.values(), message.content.metric_records.values()
            self.arrays = {name: array.numpy() for name, array in record.items()}
        except (TypeError, ValueError, EOFError, OSError):  # none or several, or bytes that are no array
            return
        if self.arrays and all(array.dtype.kind in "fiub" for array in self.arrays.values()):
            shapes = tuple((name, array.shape, array.dtype.str) for name, array in self.arrays.items())
            self.layout = (shapes, frozenset(metrics))


class SparseMeanStrategy:
    """A strategy of Flower's server: FedAvg with `aggregate` in place of the weighted mean.

    For the message API (``flwr.serverapp``, Flower 1.22 and later). Replies that cannot be read, or differ in names,
    shapes or types from those of most clients, are left out too: they would end a run of FedAvg. Clients count once
    each; metrics are averaged over trusted clients as FedAvg does, by ``weighted_by_key``, and those of every round
    have ``num-suspects``, ``suspects`` (their node ids) and ``trimmed`` besides.

    Parameters
    ----------
    f, sparse
        As in `aggregate`, of what clients changed.
    **options
        Those of Flower's ``FedAvg``: ``fraction_train``, ``min_train_nodes``, …

    Attributes
    ----------
    latest : Aggregate or None
        What the last round found.
    """

    def __new__(cls, f: int | str = "auto", *, sparse: bool = False, **options: Any) -> Self:  # noqa: ARG004
        """Join this class to Flower's, which is not needed before."""
        return object.__new__(_with_flower(cls))  # type: ignore[arg-type, no-any-return]

    def __init__(self, f: int | str = "auto", *, sparse: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.f, self.sparse = f, sparse
        self.latest: Aggregate | None = None
        self._sent: dict[str, npt.NDArray[Any]] = {}

    def summary(self) -> None:
        """Log the settings."""
        logging.getLogger("flwr").info("\t├──> SparseMeanStrategy: f = %s, sparse = %s", self.f, self.sparse)
        super().summary()  # type: ignore[misc]

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Configure the next round, and keep what is sent: updates are what clients change of it."""
        self._sent = {name: array.numpy() for name, array in arrays.items()}
        return super().configure_train(server_round, arrays, config, grid)  # type: ignore[misc]

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:  # noqa: ARG002
        """Aggregate the arrays of all clients, and the metrics of those that are trusted."""
        messages = list(replies)
        read = [_Reply(message) for message in messages if not message.has_error()]
        usual = Counter(reply.layout for reply in read if reply.layout).most_common(1)
        good = [reply for reply in read if usual and reply.layout == usual[0][0]]
        odd = [reply.message for reply in read if reply not in good]
        checked = [message for message in messages if not (good and message in odd)]
        self._check_and_log_replies(checked, is_train=True)  # type: ignore[attr-defined]
        if not good:
            return None, None
        arrays, found = self._combine(good)
        trusted = [good[k].message.content for k in found.trusted]
        metrics = self.train_metrics_aggr_fn(trusted, self.weighted_by_key)  # type: ignore[attr-defined]
        suspects = [*odd, *(good[k].message for k in found.suspects)]
        nodes = [int(message.metadata.src_node_id) for message in suspects]
        metrics["num-suspects"], metrics["suspects"], metrics["trimmed"] = len(nodes), nodes, found.trimmed
        listed = f"; nodes {list_names(nodes)}, {len(odd)} of them with replies unlike the others" if nodes else ""
        logging.getLogger("flwr").info("aggregate_train: %s%s", found.status, listed)
        return arrays, metrics

    def _combine(self, replies: list[_Reply]) -> tuple[Any, Aggregate]:
        """Return one record of arrays, and what is behind it."""
        app, first = require("flwr.app", extra="flower", purpose="SparseMeanStrategy"), replies[0].arrays
        kind = np.result_type(np.float32, *(array.dtype for array in first.values() if array.dtype.kind == "f"))

        def row(arrays: dict[str, npt.NDArray[Any]]) -> Rows:
            return np.concatenate([arrays[name].ravel() for name in first], dtype=kind, casting="unsafe")

        same = all(name in self._sent and self._sent[name].shape == first[name].shape for name in first)
        before = row(self._sent) if same else np.zeros(1, dtype=kind)
        most = (len(replies) - 1) // 2  # some may have failed
        f = self.f if isinstance(self.f, str) else min(self.f, most)
        self.latest = aggregate(np.stack([row(reply.arrays) - before for reply in replies]), f, sparse=self.sparse)
        parts = np.split(self.latest.update + before, np.cumsum([array.size for array in first.values()])[:-1])
        arrays = app.ArrayRecord()
        for (name, array), part in zip(first.items(), parts, strict=True):
            whole = part if array.dtype.kind == "f" else np.rint(part)  # counters of batches, for one
            arrays[name] = app.Array(np.asarray(whole.reshape(array.shape), dtype=array.dtype))
        return arrays, self.latest


@cache
def _with_flower(cls: Any) -> Any:
    """Return a class with Flower's FedAvg behind it."""
    behind = require("flwr.serverapp.strategy", extra="flower", purpose="SparseMeanStrategy").FedAvg
    return cls if issubclass(cls, behind) else types.new_class(cls.__name__, (cls, behind))
