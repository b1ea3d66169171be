"""Arrays of torch and CuPy become tables where they lie; a stand-in for torch is enough to see that."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparsemean._data import as_table, lies_on_device
from sparsemean._data.gpu import DeviceArray, like
from sparsemean._data.source import Dense
from sparsemean.errors import InputError, MissingExtraError

from fakecupy import Array


class Tensor:
    """A tensor as far as it is asked; bfloat16 is kept as the upper halves of single precision."""

    __module__ = "torch"

    def __init__(
        self, values: Any, device: str = "cpu", kind: str | None = None, layout: str = "torch.strided"
    ) -> None:
        self.values = np.asarray(values)
        self.device = SimpleNamespace(type=device)
        self.dtype = f"torch.{kind or self.values.dtype.name}"
        self.layout = layout

    def detach(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return Tensor((self.values.astype(np.uint32) << 16).view(np.float32))

    def numpy(self) -> np.ndarray:
        assert self.device.type == "cpu"
        return self.values

    def view(self, kind: Any) -> Tensor:
        return Tensor(self.values.view(kind), self.device.type)

    def __getitem__(self, key: Any) -> Any:
        return Tensor(self.values[key[0], key[1].values], self.device.type)


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake: Any = ModuleType("torch")
    fake.int16 = np.int16
    fake.as_tensor = lambda values, device: Tensor(values, device.type)
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def halves(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


X = np.random.default_rng(0).standard_normal((20, 3)).round(1)


def test_tensors_on_the_host_are_taken_as_they_lie() -> None:
    source = as_table(Tensor(X)).source
    assert isinstance(source, Dense)
    assert source.values is X
    rounded = as_table(Tensor(halves(X), kind="bfloat16")).source
    assert rounded.dtype == np.float32
    np.testing.assert_allclose(rounded.take(np.arange(3)), X, rtol=0.01)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_tensors_on_a_device_stay_there(cupy: Any, kind: str) -> None:
    cupy.from_dlpack = lambda tensor: Array(tensor.values)
    tensor = Tensor(halves(X), "cuda", "bfloat16") if kind == "bfloat16" else Tensor(X.astype(kind), "cuda")
    source = as_table(tensor).source
    assert isinstance(source, DeviceArray)
    assert source.kind == kind
    np.testing.assert_allclose(source.take(np.array([2, 0])), X[:, [2, 0]], rtol=0.01)
    np.testing.assert_allclose(source.block(slice(1, 4), slice(0, 2)), X[1:4, :2], rtol=0.01)
    assert source.select(np.array([1])).values.shape == (20, 1)
    assert lies_on_device(tensor)
    assert not lies_on_device(Tensor(X))
    assert like(tensor, np.zeros(2)).device.type == "cuda"


@pytest.mark.parametrize(
    ("tensor", "match"),
    [
        (Tensor(X, layout="torch.sparse_coo"), "X must be a dense tensor: got layout torch.sparse_coo"),
        (Tensor(X, "mps"), "X must lie on the host or on a CUDA device"),
        (Tensor(X[0]), "X must be 2-D, rows by features"),
    ],
)
def test_other_tensors_are_refused_in_one_line(tensor: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        as_table(tensor)


def test_without_cupy_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingExtraError, match=r'computing on a GPU needs cupy.*pip install "sparsemean\[gpu\]"'):
        as_table(Tensor(X, "cuda"))


@pytest.mark.parametrize("values", [X.astype(complex), X[0], np.empty((0, 3))])
def test_arrays_on_a_device_are_checked_like_others(cupy: Any, values: np.ndarray) -> None:
    with pytest.raises(InputError, match="X must"):
        as_table(cupy.asarray(values))
