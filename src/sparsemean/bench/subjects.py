"""What is measured: the calls that several benchmarks share, on two threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparsemean.bench.data import FloatMatrix
    from sparsemean.estimate import Estimate
    from sparsemean.records import Counts, Partition

N_JOBS = 2
CONTAMINATION = 0.1
DEFAULT_CONTAMINATION = 0.05


def paper_fit(X: FloatMatrix) -> Estimate:
    """Run Algorithm 1, Stage 1, as published."""
    from sparsemean.fitting import sparse_mean
    from sparsemean.planning.paper import PRESET

    return sparse_mean(X, contamination=CONTAMINATION, random_state=0, n_jobs=N_JOBS, **PRESET)


def certified_fit(X: FloatMatrix) -> Estimate:
    """Run the certified part of the default fit with all its inference: p-values, support, intervals, radius."""
    from sparsemean.fitting import sparse_mean

    return sparse_mean(
        X, contamination=DEFAULT_CONTAMINATION, refine=None, screen_rows=False, random_state=0, n_jobs=N_JOBS
    )


def default_fit(X: FloatMatrix) -> Estimate:
    """Run the default fit: rows screened and values refined as well."""
    from sparsemean.fitting import sparse_mean

    return sparse_mean(X, contamination=DEFAULT_CONTAMINATION, random_state=0, n_jobs=N_JOBS)


def counting_pass(X: FloatMatrix, partition: Partition) -> Counts:
    """Count signs of every bucket size of ``partition``."""
    from sparsemean.kernels import cpu

    return cpu.count_signs(X, partition, n_jobs=N_JOBS)


def warm(dtype: str) -> None:
    """Have the kernels for ``dtype`` compiled before anything is timed."""
    from sparsemean.partition import deal_blocks

    small = np.random.default_rng(0).standard_normal((640, 40)).astype(dtype)
    paper_fit(small)
    certified_fit(small)
    default_fit(small)
    counting_pass(small, deal_blocks(640, (1, 2, 4), 0))
