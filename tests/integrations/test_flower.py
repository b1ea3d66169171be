"""Flower runs `SparseMeanStrategy`: its messages, its rounds, its records; a model is learnt in spite of attackers."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean.federated import SparseMeanStrategy

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # typer's, which Flower imports
    import flwr
    from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
    from flwr.serverapp import Grid
    from flwr.serverapp.exception import InconsistentMessageReplies
    from flwr.serverapp.strategy import FedAvg, FedMedian
    from flwr.supercore.task_identity import TaskIdentity

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
NODES, BAD, EACH, WEIGHTS = 20, 6, 20, 30
TRUTH = np.linspace(-2, 2, WEIGHTS)


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the process of a server app, whose messages carry the numbers of its run."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Clients(Grid):
    """Nodes that answer at once, in this process: what a simulation does, without its engine."""

    def __init__(self, answer: Callable[[int, RecordDict], RecordDict | Error], nodes: int) -> None:
        self.answer, self.nodes = answer, nodes

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> list[int]:
        return list(range(1, self.nodes + 1))

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        raise NotImplementedError

    def send_and_receive(self, messages: Iterable[Message], **_: Any) -> list[Message]:
        return [Message(self.answer(m.metadata.dst_node_id, m.content), reply_to=m) for m in messages]


def record(weights: Any, count: int = 0, *, loss: float = 0.0, examples: int = EACH) -> RecordDict:
    """A model of two arrays, one of them of whole numbers, as a client sends it."""
    arrays = ArrayRecord({"w": Array(np.asarray(weights, dtype=np.float32)), "seen": Array(np.array(count))})
    return RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": examples, "loss": loss})})


def learn(node: int, content: RecordDict, *, lie: str) -> RecordDict:
    """Take a step on data of one's own, with heavy-tailed errors, or lie about it."""
    seen = int(content["arrays"]["seen"].numpy())
    rng, weights = np.random.default_rng([node, seen]), content["arrays"]["w"].numpy()
    x = rng.standard_normal((EACH, WEIGHTS))
    away = x @ (weights - TRUTH) + rng.standard_t(3, EACH)
    step = -0.3 * x.T @ away / EACH
    if node <= BAD:
        step = {"opposite": 3 * (weights - TRUTH), "shift": np.full(WEIGHTS, 0.5), "nan": np.full(WEIGHTS, np.nan)}[lie]
    return record(weights + step, seen + 1, loss=float(away @ away / EACH) if node > BAD else 1e9)


def run(strategy: Any, answer: Any, rounds: int = 15, nodes: int = NODES) -> Any:
    start = record(np.zeros(WEIGHTS))["arrays"]
    return strategy.start(Clients(answer, nodes), start, num_rounds=rounds)


def distance(result: Any) -> float:
    return float(np.linalg.norm(result.arrays["w"].numpy() - TRUTH) / np.linalg.norm(TRUTH))


@pytest.mark.parametrize("lie", ["opposite", "shift", "nan"])
def test_a_model_is_learnt_in_spite_of_attackers(lie: str) -> None:
    options: dict[str, Any] = {"fraction_evaluate": 0.0}
    answer = partial(learn, lie=lie)
    strategy = SparseMeanStrategy(**options)
    result = run(strategy, answer)
    assert distance(result) < 0.1
    plain = distance(run(FedAvg(**options), answer))
    assert not plain < 0.2
    if lie == "shift":
        assert distance(run(FedMedian(**options), answer)) > 2 * distance(result)
    last = result.train_metrics_clientapp[15]
    assert set(last["suspects"]) >= set(range(1, BAD + 1))
    assert last["num-suspects"] == len(last["suspects"]) <= BAD + 2
    assert last["loss"] < 1e4  # suspects have no say in the metrics either
    assert strategy.latest is not None
    assert strategy.latest.status.endswith("Robust, not certified")


def test_arrays_keep_names_shapes_and_types() -> None:
    strategy = SparseMeanStrategy(f=BAD, fraction_evaluate=0.0)
    assert isinstance(strategy, (SparseMeanStrategy, FedAvg))
    result = run(strategy, partial(learn, lie="shift"), rounds=3)
    assert list(result.arrays) == ["w", "seen"]
    assert result.arrays["w"].numpy().dtype == np.float32
    assert result.arrays["seen"].numpy().dtype == np.array(0).dtype
    assert result.arrays["seen"].numpy() == 3


def test_replies_unlike_the_others_do_not_end_the_run(caplog: pytest.LogCaptureFixture) -> None:
    def answer(node: int, content: RecordDict) -> RecordDict | Error:
        reply = learn(node, content, lie="shift")
        if node == 1:
            return Error(code=0, reason="gone")
        if node == 2:
            reply["arrays"] = ArrayRecord({"w": Array(np.zeros(3, dtype=np.float32))})
        if node == 3:
            reply["arrays"]["w"] = Array("float32", (WEIGHTS,), "numpy.ndarray", b"no array")
        if node == 4:
            reply["more"] = MetricRecord({"num-examples": 1})
        return reply

    with caplog.at_level(logging.INFO, logger="flwr"):
        result = run(SparseMeanStrategy(fraction_evaluate=0.0), answer)
    assert distance(result) < 0.1
    suspects = result.train_metrics_clientapp[15]["suspects"]
    assert set(suspects[:3]) == {2, 3, 4}
    assert set(suspects) >= {5, 6}
    assert any("3 of them with replies unlike the others" in line for line in caplog.messages)


def test_a_mistake_of_the_app_is_told_as_flower_tells_it() -> None:
    def answer(_: int, content: RecordDict) -> RecordDict:
        return RecordDict({"arrays": content["arrays"], "metrics": MetricRecord({"loss": 1.0})})

    with pytest.raises(InconsistentMessageReplies, match="num-examples"):
        run(SparseMeanStrategy(fraction_evaluate=0.0), answer)


def test_sparse_updates_move_certified_weights_only() -> None:
    truth = np.zeros(WEIGHTS)
    truth[:3] = (2.0, -2.0, 2.0)

    def answer(node: int, content: RecordDict) -> RecordDict:
        weights = content["arrays"]["w"].numpy()
        noise = np.random.default_rng(node).standard_normal(WEIGHTS)
        return record(weights + (truth + 0.3 * noise if node > 5 else 9.0))

    strategy = SparseMeanStrategy(5, sparse=True, fraction_evaluate=0.0)
    result = run(strategy, answer, rounds=1, nodes=50)
    np.testing.assert_array_equal(np.flatnonzero(result.arrays["w"].numpy()), [0, 1, 2])
    assert strategy.latest is not None
    assert strategy.latest.estimate is not None


def test_the_server_app_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "federated.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"^```py\n(.*?)^```", page, re.M | re.S) if "ServerApp()" in block)
    monkeypatch.chdir(tmp_path)
    spaces: dict[str, Any] = {"__name__": "server_app"}
    exec(code, spaces)

    def answer(node: int, content: RecordDict) -> RecordDict:
        shift = 5.0 if node <= BAD else np.random.default_rng(node).standard_normal((64, 10))
        arrays = ArrayRecord([np.float32(content["arrays"]["0"].numpy() + 0.1 + shift)])
        return RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})})

    spaces["main"](Clients(answer, NODES), None)
    (model,) = np.load("model.npz").values()
    assert abs(model.mean() - 1) < 0.2


def test_a_subclass_and_the_version(caplog: pytest.LogCaptureFixture) -> None:
    class Mine(SparseMeanStrategy):
        def summary(self) -> None:
            logging.getLogger("flwr").info("mine")

    with caplog.at_level(logging.INFO, logger="flwr"):
        run(Mine(f=BAD, fraction_evaluate=0.0), partial(learn, lie="shift"), rounds=1)
    assert "mine" in caplog.messages
    assert tuple(map(int, flwr.__version__.split(".")[:2])) >= (1, 22)
