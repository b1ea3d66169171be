"""The scikit-learn estimators: parameters and attributes around the pipeline of `sparsemean._fit`."""

from sparsemean.estimators._groups import SparseMeanDifference, SparseTrend
from sparsemean.estimators._one_sample import SparseMean

__all__ = ["SparseMean", "SparseMeanDifference", "SparseTrend"]
