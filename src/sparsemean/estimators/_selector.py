"""What the estimators share: an `Estimate` read the scikit-learn way."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsemean._data import as_table, lies_on_device
from sparsemean._data.gpu import like
from sparsemean._evidence.counting.sketch import check_names
from sparsemean._util.checks import list_names
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError
from sparsemean.result import Estimate
from sparsemean.result.comparison import Comparison

if TYPE_CHECKING:
    from sklearn.utils import Tags


def is_foreign(X: object) -> bool:
    """Whether scikit-learn would not know how to read ``X``."""
    return type(X).__module__.partition(".")[0] in ("anndata", "h5py", "zarr", "pyarrow", "dask", "cupy", "torch")


def take_columns(X: Any, **given: object) -> tuple[Any, dict[str, Any]]:
    """Return X without the columns that are given by their names, and what is given with these in their place.

    Of an AnnData they are columns of obs. What each row is fitted with, y, must be there.
    """
    if given.get("y", ()) is None:
        raise InputError("y", "be given: requires y to be passed, but the target y is None", None)
    called = {argument: name for argument, name in given.items() if isinstance(name, str)}
    if not called:
        return X, given
    frame = X.obs if hasattr(X, "obs") else X
    known = [*getattr(frame, "column_names", getattr(frame, "columns", ()))]
    for argument, name in called.items():
        if name not in known:
            advice = f"it has {list_names(known)}" if known else "pass the labels themselves"
            raise InputError(argument, "be labels, one a row, or name a column of X, a data frame", repr(name), advice)
    given |= {argument: frame[name] for argument, name in called.items()}
    if frame is not X:
        return X, given
    drop, out = getattr(X, "drop_columns", X.drop), [*dict.fromkeys(called.values())]
    return drop(columns=out) if hasattr(X, "iloc") else drop(out), given


def with_unique_columns(X: object) -> object:
    """Return a frame with other names in place of those that are there twice, which scikit-learn refuses."""
    twice = hasattr(X, "set_axis") and hasattr(X, "columns") and not X.columns.is_unique
    return X.set_axis(as_table(X).feature_names, axis=1) if twice and hasattr(X, "set_axis") else X


Kind = TypeVar("Kind", bound="Selector")


@dataclass_transform(eq_default=False)
def takes_parameters(kind: type[Kind]) -> type[Kind]:
    """Give an estimator the ``__init__`` that scikit-learn asks for: it keeps every parameter under its name."""
    made = dataclass(eq=False, repr=False)(kind)
    for field in fields(made):
        delattr(made, field.name)  # defaults are those of __init__ alone
    return made


MADE_OF_ROWS = ("result_", "mean_", "support_", "row_scores_", "row_weights_", "suspects_")
"""What `SparseMean.partial_fit` leaves to be computed when it is asked for."""


class Selector(TransformerMixin, BaseEstimator):
    """What the estimators share: an `Estimate` read the scikit-learn way.

    They do what `sklearn.feature_selection.SelectorMixin` does by asking it: to inherit from it would load all
    selectors, and what those need, with every import.
    """

    _labelled = False
    """Whether each row has a label, or a number, that it is fitted with."""

    def _name(self, X: object, names: npt.NDArray[np.object_] | None) -> None:
        """Take the number of features and their names over."""
        named = with_unique_columns(X) if hasattr(X, "set_axis") else X
        validate_data(self, named, skip_check_array=True, reset=True)
        if names is not None and is_foreign(X):  # names that scikit-learn overlooks
            self.feature_names_in_ = names

    def _take(self, result: Estimate | Comparison, X: object = None) -> Self:
        """Take the attributes over that an estimate has; they lie where ``X`` does, as scikit-learn's users expect."""
        self.result_ = result
        self.mean_: FloatArray = result.mean
        self.support_: IntArray = result.support
        if result.rows is not None:
            self.row_scores_: FloatArray = result.rows.scores
            self.row_weights_: FloatArray = result.rows.weights
            self.suspects_: IntArray = result.rows.suspects
        if lies_on_device(X):
            for name in set(MADE_OF_ROWS[1:]) & set(vars(self)):
                setattr(self, name, like(X, getattr(self, name)))
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.target_tags.required = True, self._labelled
        tags.input_tags.allow_nan = self.get_params()["missing"] == "omit"
        return tags

    def transform(self, X: Any) -> Any:
        """Return the selected columns of ``X``.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            Of any kind that ``fit`` takes, with the features of the fit.

        Returns
        -------
        array of shape (n, number of selected features)
            Of the kind of ``X`` where that is possible.
        """
        if not is_foreign(X):
            return self._as_selector("transform", with_unique_columns(X))  # type: ignore[arg-type]
        check_is_fitted(self)
        table = as_table(X)
        if table.shape[1] != self.n_features_in_:
            raise InputError("X", f"have the {self.n_features_in_} features of the fit", table.shape[1])
        fitted = self.result_.feature_names
        if fitted is not None and table.feature_names is not None:
            check_names(table.feature_names, fitted, "the fit")
        return table.source.select(self.result_.support)

    def get_support(self, indices: bool = False) -> npt.NDArray[np.bool_] | IntArray:
        """Return which features are selected: a mask, or their ``indices``."""
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.result_.support] = True
        return np.flatnonzero(mask) if indices else mask

    def inverse_transform(self, X: npt.ArrayLike) -> npt.ArrayLike:
        """Return ``X`` with columns of zeros in place of those that `transform` takes away."""
        return self._as_selector("inverse_transform", X)

    def get_feature_names_out(self, input_features: npt.ArrayLike | None = None) -> npt.NDArray[np.object_]:
        """Return the names of the selected features, given those of all if they came without names."""
        return np.asarray(self._as_selector("get_feature_names_out", input_features))

    def _transform(self, X: npt.ArrayLike) -> npt.ArrayLike:
        return self._as_selector("_transform", X)

    def _as_selector(self, name: str, given: npt.ArrayLike | None) -> npt.ArrayLike:
        from sklearn.feature_selection import SelectorMixin

        done: npt.ArrayLike = getattr(SelectorMixin, name)(self, given)
        return done
