"""For federated learning: one update out of those of many clients, some of which send whatever they like.

`aggregate` takes a row of numbers from each client. `Aggregator` has the call that byzfl's aggregators have, and
`SparseMeanStrategy` is a strategy of Flower's server.
"""

from __future__ import annotations

import logging
import types
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sparsemean._data.source import Array
from sparsemean._kernels.memory_layout import count_threads, one_blas_thread
from sparsemean._stats.planning import MIN_ROWS
from sparsemean._util.checks import count_of, draw_seed, integer, is_auto, list_names, pluralize
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError, require
from sparsemean.federated._robust import HALF, Flags, Rows, best_share, lost_weights, shrunk_mean, trimmed_mean
from sparsemean.result import Estimate

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
    from flwr.serverapp import Grid

__all__ = ["Aggregate", "Aggregator", "SparseMeanStrategy", "aggregate"]


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """One update out of those of many clients.

    Attributes
    ----------
    update : ndarray of shape (d,)
        The update, in the precision of what was sent.
    suspects : ndarray of int
        Clients that were left out, the worst first.
    scores : ndarray of shape (n,)
        From 0 to 1, the share of its weight that a client lost; beyond a half it is a suspect.
    trimmed : float
        Share of the values of trusted clients that was trimmed at each end of every coordinate.
    shortened : bool
        Whether clients were so unlike that long updates were shortened, and no single values cut or trimmed.
    estimate : Estimate or None
        With ``sparse=True`` the fit: support, p-values, intervals. What is not zero in ``update`` is then certified.
    """

    update: Rows
    suspects: IntArray
    scores: FloatArray
    trimmed: float = 0.0
    shortened: bool = False
    estimate: Estimate | None = None

    @property
    def trusted(self) -> IntArray:
        """Clients that were not left out."""
        return np.flatnonzero(self.scores <= HALF)

    @property
    def status(self) -> str:
        """What was done and what stands behind it, in a sentence or two."""
        n = self.scores.size
        names = f": {list_names(self.suspects, 10)}" if self.suspects.size else ""
        left_out = f"{count_of(self.suspects.size, n, 'client')} left out{names}"
        if self.estimate is not None:
            plan, found = self.estimate.plan, count_of(self.estimate.support.size, self.update.size, "coordinate")
            holds = f"if no more than {pluralize(plan.bad_rows, 'client')} may send anything"
            return f"{left_out}. Certified at level {plan.question.level:g}, {holds}: {found} with a mean other than 0"
        how = f"trimmed by {self.trimmed:.0%} at each end" if self.trimmed else "far values cut"
        how = "long updates shortened" if self.shortened else how
        return f"{left_out}. Mean of the others, {how}. Robust, not certified"

    def __str__(self) -> str:
        return self.status


def aggregate(
    updates: object, f: int | str = "auto", *, sparse: bool = False, random_state: object = 0, n_jobs: int | None = None
) -> Aggregate:
    """Make one update out of those of n clients, of which some may send anything.

    *Dense updates*, in which every coordinate may have a mean. Nothing of this is certified.

    1. Coordinates are taken from their medians, in units of their median deviations, and cut at three of these. While
       the variance of clients along some direction is far above what the middle half of them shows, they lose weight by
       how far out they lie (`baselines.dense_filter`). Whoever loses more than half of it, and is still far from the
       rest once its own noise has no part in that direction, is left out.
    2. Every coordinate gets the trimmed mean of the others, the same share for all, chosen by halves of the clients:
       their difference tells the variance, and what both differ from their plain means by is bias. Clients whose
       updates differ much in length, as their data do, have far values that nobody else has data for: none of them is
       cut or trimmed then; updates longer than 1.5 times the median are made as long as that.

    *Sparse updates*, in which few coordinates have a mean: `SparseMean` selects them with p-values that hold against
    any ``f`` clients, and all others are zero.

    Clients count once each: how many examples one has is its own claim.

    Parameters
    ----------
    updates : array of shape (n, d), or list of n arrays of length d
        One row a client. Clients that send NaN, infinity or values whose sum over clients could overflow are left out.
    f : "auto" or int, default="auto"
        How many clients may be bad, fewer than half. "auto" leaves out those that stand apart, up to half of them;
        a number is the most that are left out. With ``sparse=True``, p-values hold for that many.
    sparse : bool, default=False
        Whether only few coordinates have a mean.
    random_state, n_jobs
        As in `SparseMean`; the first draws the halves.

    Returns
    -------
    Aggregate
        ``update``, ``suspects``, ``status`` and more.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemean import federated
    >>> rng = np.random.default_rng(0)
    >>> updates = 0.5 + rng.standard_normal((30, 200))
    >>> updates[:6] = -0.5  # six of them send the opposite of the mean
    >>> result = federated.aggregate(updates)
    >>> print(result)
    6 of 30 clients left out: 0, 1, 2, 3, 4, 5. Mean of the others, far values cut. Robust, not certified
    >>> bool(abs(result.update.mean() - 0.5) < 0.05)
    True
    """
    rows = _rows(updates)
    n = rows.shape[0]
    rule = f"be 'auto' or fewer than half of {pluralize(n, 'client')}"
    allowed = None if is_auto(f) else integer(f, argument="f", least=0, most=(n - 1) // 2, rule=rule)
    largest = np.finfo(rows.dtype).max / (2 * n)  # differences of such values, and sums of these, do not overflow
    finite = np.asarray((rows.max(axis=1) <= largest) & (rows.min(axis=1) >= -largest))
    if not finite.any():
        raise InputError("updates", f"have at least one client with finite values below {largest:.2g}", "none")
    present = rows if finite.all() else rows[finite]
    if allowed is not None:
        allowed = max(0, allowed - int(np.sum(~finite)))
    if sparse:
        return _certified(present, finite, allowed, random_state=random_state, n_jobs=n_jobs)
    scores, threads = np.ones(n), count_threads(n_jobs)
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scores[finite] = lost_weights(present, allowed, threads)
        kept = scores <= HALF
        trusted = present if kept.all() else rows[kept]
        update, share = shrunk_mean(trusted), 0.0
        shortened = update is not None
        if update is None:
            share = best_share(trusted, np.random.default_rng(draw_seed(random_state)))
            update = trimmed_mean(trusted, share, threads)
    suspects = np.flatnonzero(~kept)
    order = np.argsort(-scores[suspects].round(3), kind="stable")  # copies differ in their last digits
    return Aggregate(update, suspects[order], scores, trimmed=share, shortened=shortened)


def _rows(updates: object) -> Rows:
    """Return what clients sent as floating-point rows."""
    try:
        rows = np.asarray(updates)
        received = f"{rows.dtype} of shape {rows.shape}"
    except ValueError:
        rows, received = np.empty(0), "rows of unequal length"
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "fiub":
        advice = "put every client's arrays into one row: np.concatenate([a.ravel() for a in arrays])"
        raise InputError("updates", "be a table of numbers, one row a client", received, advice)
    return rows.astype(np.result_type(rows.dtype, np.float32), copy=False)


# Few coordinates with a mean.


def _certified(
    rows: Rows, finite: Flags, allowed: int | None, *, random_state: object, n_jobs: int | None
) -> Aggregate:
    """Select the coordinates that have a mean, and leave all others at zero."""
    from sparsemean._fit.one_sample import sparse_mean

    n = rows.shape[0]
    if n < MIN_ROWS:
        raise InputError("updates", f"have {MIN_ROWS} clients at least where sparse=True", n)
    contamination = "auto" if allowed is None else allowed / n
    estimate = sparse_mean(rows, contamination=contamination, random_state=random_state, n_jobs=n_jobs)
    seen = estimate.rows
    suspects, scores = np.flatnonzero(~finite), (~finite).astype(np.float64)
    if seen is not None:
        listed = np.flatnonzero(finite)[seen.suspects]
        scores[listed], suspects = 1.0, np.concatenate([suspects, listed])
    return Aggregate(estimate.mean.astype(rows.dtype), suspects, scores, estimate=estimate)


# The call that byzfl's pipelines make.


class Aggregator:
    """An aggregator as byzfl has them: called with the vectors of all clients, it returns one of the same kind.

    It may follow any of byzfl's pre-aggregators. byzfl is not needed.

    Parameters
    ----------
    f, sparse
        As in `aggregate`.

    Attributes
    ----------
    latest : Aggregate or None
        What the last call found: suspects, status.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsemean import federated
    >>> combine = federated.Aggregator(f=1)
    >>> combine([np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0]), np.array([1e9, -1e9])]).round(3)
    array([3., 4.])
    """

    def __init__(self, f: int | str = "auto", *, sparse: bool = False) -> None:
        self.f, self.sparse = f, sparse
        self.latest: Aggregate | None = None

    def __call__(self, vectors: Any) -> Any:
        """Return the aggregate of the rows of a matrix, or of a list of vectors, NumPy's or torch's."""
        first = vectors[0] if isinstance(vectors, Sequence) else vectors
        if not hasattr(first, "detach"):
            self.latest = aggregate(vectors, self.f, sparse=self.sparse)
            return self.latest.update
        rows = np.stack([vector.detach().cpu().numpy() for vector in vectors])
        self.latest = aggregate(rows, self.f, sparse=self.sparse)
        return first.new_tensor(self.latest.update)


# The strategy of Flower's server, which is not needed before one is made.


class _Reply:
    """What a client sent, taken apart: its arrays, and a layout that those of the other clients should have too."""

    def __init__(self, message: Message) -> None:
        self.message, self.arrays = message, dict[str, Array]()
        self.layout: tuple[object, frozenset[str]] | None = None
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
        return object.__new__(_with_flower(cls))  # type: ignore[arg-type]

    def __init__(self, f: int | str = "auto", *, sparse: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.f, self.sparse = f, sparse
        self.latest: Aggregate | None = None
        self._sent: dict[str, Array] = {}

    def summary(self) -> None:
        """Log the settings."""
        logging.getLogger("flwr").info("\t├──> SparseMeanStrategy: f = %s, sparse = %s", self.f, self.sparse)
        super().summary()  # type: ignore[misc]

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Configure the next round, and keep what is sent: updates are what clients change of it."""
        self._sent = {name: array.numpy() for name, array in arrays.items()}
        return super().configure_train(server_round, arrays, config, grid)  # type: ignore[misc, no-any-return]

    def aggregate_train(
        self,
        server_round: int,  # noqa: ARG002
        replies: Iterable[Message],
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
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

    def _combine(self, replies: list[_Reply]) -> tuple[ArrayRecord, Aggregate]:
        """Return one record of arrays, and what is behind it."""
        app, first = require("flwr.app", extra="flower", purpose="SparseMeanStrategy"), replies[0].arrays
        kind = np.result_type(np.float32, *(array.dtype for array in first.values() if array.dtype.kind == "f"))

        def row(arrays: dict[str, Array]) -> Rows:
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
def _with_flower(cls: type) -> type:
    """Return a class with Flower's FedAvg behind it."""
    behind = require("flwr.serverapp.strategy", extra="flower", purpose="SparseMeanStrategy").FedAvg
    return cls if issubclass(cls, behind) else types.new_class(cls.__name__, (cls, behind))
