"""AnnData objects: in memory, views, and behind an open file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sparsemean import sparse_mean
from sparsemean._data import as_table
from sparsemean._data.chunked import Chunked, Compressed
from sparsemean.errors import InputError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import anndata

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")

RNG = np.random.default_rng(1)
X = np.where(RNG.random((200, 30)) < 0.4, RNG.standard_t(3, (200, 30)), 0.0)
X[:, :3] += [2.0, -1.5, 1.0]
GENES, CELLS = [f"g{i}" for i in range(30)], [f"c{i}" for i in range(200)]
FORMS: dict[str, Any] = {
    "dense": np.asarray, "columns first": np.asfortranarray, "csr": sparse.csr_matrix, "csc": sparse.csc_matrix,
    "csr array": sparse.csr_array,
}  # fmt: skip


def adata_of(form: str) -> Any:
    return anndata.AnnData(FORMS[form](X), obs=pd.DataFrame(index=CELLS), var=pd.DataFrame(index=GENES))


def same_numbers(adata: Any, values: Any) -> None:
    """A fit of the object and of the array agree in every number that is certified."""
    found, expected = sparse_mean(adata, random_state=0), sparse_mean(values, random_state=0)
    np.testing.assert_array_equal(found.support, expected.support)
    np.testing.assert_array_equal(found.p_values, expected.p_values)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-12)
    assert expected.support.size >= 2
    assert list(found.feature_names) == list(adata.var_names)


@pytest.mark.parametrize("form", FORMS)
def test_objects_in_memory_and_views(form: str) -> None:
    adata = adata_of(form)
    assert list(as_table(adata).row_names) == CELLS
    same_numbers(adata, X)
    same_numbers(adata[20:180, ::2], X[20:180, ::2])
    same_numbers(adata[:, GENES[:7]], X[:, :7])


def test_dense_values_are_not_copied() -> None:
    adata = adata_of("dense")
    assert np.shares_memory(as_table(adata).values, adata.X)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_objects_behind_a_file_stay_there(form: str, mode: str, tmp_path: Path) -> None:
    adata_of(form).write_h5ad(tmp_path / "x.h5ad", compression="gzip")
    adata = anndata.read_h5ad(tmp_path / "x.h5ad", backed=mode)
    kind = Chunked if form in ("dense", "columns first") else Compressed
    assert isinstance(as_table(adata).source, kind)
    same_numbers(adata, X)
    same_numbers(adata[:, GENES[:7]], X[:, :7])
    adata.file.close()


def test_other_names_can_be_given_and_equal_ones_are_refused() -> None:
    adata = adata_of("dense")
    assert list(as_table(adata, list(range(30))).feature_names) == [str(i) for i in range(30)]
    adata.var_names = ["a", "a", *GENES[2:]]
    with pytest.raises(InputError, match=r"got 'a' more than once; call adata\.var_names_make_unique\(\)"):
        as_table(adata)


def test_an_object_without_x_is_one_line() -> None:
    adata = anndata.AnnData(obs=pd.DataFrame(index=CELLS), var=pd.DataFrame(index=GENES))
    with pytest.raises(InputError, match="X must have an X: got an AnnData without one"):
        as_table(adata)
