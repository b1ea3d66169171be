"""What an import loads: scikit-learn alone takes a second, and is for those who ask for an estimator."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("sklearn", "pandas", "matplotlib", "dask", "anndata")


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "from sparsemean import sparse_mean",
        "import sparsemean._cli",
        "import numpy, sparsemean; sparsemean.sparse_mean(numpy.random.default_rng(0).standard_normal((60, 8)) + 1)",
        "from sparsemean._cli import main\ntry: main(['demo'])\nexcept SystemExit: pass",
    ],
)
def test_no_estimator_no_scikit_learn(code: str) -> None:
    assert not {name for name in loaded(code) if name.partition(".")[0] in HEAVY}


def test_an_estimator_loads_neither_other_selectors_nor_comparisons() -> None:
    found = loaded("from sparsemean import SparseMean")
    assert "sklearn.base" in found
    assert not {"sklearn.feature_selection", "sklearn.neighbors", "sparsemean._fit.two_sample", "numba"} & found
