"""Every compared method under one call: ``baselines.NAME(X, contamination=…, k=…, random_state=…)``."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import numpy as np

from sparsemean._data import as_table
from sparsemean._data.source import find_non_finite
from sparsemean._kernels.memory_layout import one_blas_thread
from sparsemean._util import checks
from sparsemean._util.checks import draw_seed, fraction_of_rows, integer, is_auto
from sparsemean._util.records import FloatArray, LocationEstimate
from sparsemean.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Baseline", "BaselineWarning", "available", "get", "names"]

Progress: TypeAlias = Callable[[float], None]
Locate: TypeAlias = Callable[..., LocationEstimate]
"""``locate(X, …)``: finite float64 rows in, a mean with iterations and notes out.

A method names as parameters what it must be given, of ``contamination``, ``k`` and ``rng``; cutting the answer to its k
largest entries is not its job. One that may take seconds has a keyword ``progress`` besides: a function that is told
the share done, or None.
"""
TOLD = {"contamination": "ε", "k": "k"}
"""What a method is said to be told, by its parameters."""


class BaselineWarning(UserWarning):
    """A method stopped early, removed every row or fell back on something else; its message says which."""


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """What a reader compares methods by.

    Attributes
    ----------
    name : str
        The name it is called by.
    summary : str
        One line on what it does.
    told : tuple of str
        What it must be given: "ε" the contamination, "k" the sparsity, "σ" that the noise has unit variance.
    assumes : str
        What it assumes of the rows that are not corrupted.
    cost : str
        Time in terms of rows n and features d.
    reference : str
        Where it is from.
    """

    name: str
    summary: str
    told: tuple[str, ...]
    assumes: str
    cost: str
    reference: str


class Baseline(Protocol):
    """A method to compare with: a function of the rows that returns their mean.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        Rows, of any kind that `SparseMean.fit` takes, without missing values.
    contamination : float in [0, 0.5)
        Share of rows that may be arbitrary; methods that need none ignore it.
    k : int, optional
        Sparsity: all but the ``k`` largest entries of the mean are set to zero. Some methods must be given it.
    random_state : None, int or numpy Generator
        For the methods that draw.

    Attributes
    ----------
    facts : MethodInfo
        What it must be given, assumes and costs, with its reference: a line of ``baselines.available()``.
    """

    facts: MethodInfo

    def __call__(
        self, X: object, *, contamination: float, k: int | None = None, random_state: object = None
    ) -> FloatArray:
        """Return the estimated mean of the rows of ``X``, all but its ``k`` largest entries zero where k is given."""
        ...

    def detailed(
        self,
        X: object,
        *,
        contamination: float,
        k: int | None = None,
        random_state: object = None,
        progress: Progress | None = None,
    ) -> LocationEstimate:
        """Return the mean with iterations and notes, without warnings; ``progress`` is told the share done."""
        ...


def baseline(
    *, assumes: str, reference: str, cost: str = "n d", unit_variance: bool = False
) -> Callable[[Locate], Baseline]:
    """Turn a ``locate`` function into a baseline, which has its name and its docstring."""

    def made(locate: Locate) -> Baseline:
        text, asked = inspect.cleandoc(locate.__doc__ or ""), list(inspect.signature(locate).parameters)[1:]
        told = (*(sign for name, sign in TOLD.items() if name in asked), *(["σ"] if unit_variance else []))
        facts = MethodInfo(locate.__name__, text.partition("\n")[0], told, assumes, cost, reference)

        def detailed(
            X: object,
            *,
            contamination: float,
            k: int | None = None,
            random_state: object = None,
            progress: Progress | None = None,
        ) -> LocationEstimate:
            if is_auto(contamination):
                advice = "agnostic_filter is a method that needs none, SparseMean chooses one"
                raise InputError("contamination", "be a number in [0, 0.5)", repr(contamination), advice)
            rows, epsilon = rows_of(X), fraction_of_rows(contamination)
            if k is None and "k" in asked:
                raise InputError("k", f"be given for {facts.name}, which must be told the sparsity", None)
            if k is not None:
                d = rows.shape[1]
                integer(k, argument="k", least=1, most=d, rule=f"be an integer from 1 to the number of features ({d})")
            rng = np.random.default_rng(draw_seed(random_state))
            given = {"contamination": epsilon, "k": k, "rng": rng, "progress": progress}
            with one_blas_thread():
                located = locate(rows, **{name: given[name] for name in asked})
            return located if k is None else located.cut(k)

        def method(X: object, *, contamination: float, k: int | None = None, random_state: object = None) -> FloatArray:
            located = detailed(X, contamination=contamination, k=k, random_state=random_state)
            for note in located.notes:
                warnings.warn(f"{facts.name}: {note}", BaselineWarning, stacklevel=2)
            return located.mean

        for name in ("__name__", "__qualname__", "__module__"):
            setattr(method, name, getattr(locate, name))
        method.__doc__ = _with_parameters(text, facts)
        vars(method).update(facts=facts, detailed=detailed)
        return cast(Baseline, method)

    return made


def _with_parameters(text: str, facts: MethodInfo) -> str:
    """Return a docstring with what every method takes and returns, before its other sections."""
    share = "ε, the share of rows that may be arbitrary" + ("" if "ε" in facts.told else "; this method needs none")
    told = "" if "k" in facts.told else ", optional"
    sections = f"""Parameters
----------
X : array or data frame of shape (n, d)
    Rows, without missing values.
contamination : float in [0, 0.5)
    {share}.
k : int{told}
    Sparsity: all but the k entries of the mean that are largest, in the units of the data, are set to zero.
random_state : None, int or numpy Generator
    For methods that deal rows at random: with None each call does so anew, and answers differ a little.

Returns
-------
array of shape (d,)
    The mean.
"""
    head, *others = re.split(r"\n\n(?=[A-Z]\w+\n-{4,}\n)", text, maxsplit=1)
    return "\n\n".join((head, sections.strip(), *others)) + "\n"


def rows_of(X: object) -> FloatArray:
    """Return ``X`` as finite float64 rows."""
    rows = np.ascontiguousarray(as_table(X).values, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        total = rows.sum()
    if np.isfinite(total):  # then every entry is, and no array of answers was needed to know
        return rows
    if place := find_non_finite(rows):
        where = f"{place.value} in column {place.column}, row {place.row}"
        raise InputError("X", "not contain NaN or infinity", where)
    return rows


# The methods by name.


@cache
def _methods() -> dict[str, Baseline]:
    """Collect the methods of every module here; a new one needs no entry anywhere."""
    public = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in public]
    offered = {name: thing for module in modules for name, thing in vars(module).items() if hasattr(thing, "facts")}
    return dict(sorted(offered.items()))


def names() -> list[str]:
    """List the names of the methods.

    Examples
    --------
    >>> "median" in names()
    True
    """
    return list(_methods())


def get(name: str, *, argument: str = "name", otherwise: str = "") -> Baseline:
    """Return the method called ``name``, or refuse ``argument`` with the list of choices."""
    return checks.find(_methods(), name, argument=argument, otherwise=otherwise)


def available() -> pd.DataFrame:
    """Return a table of the methods: what each must be told, what it assumes, its cost and where it is from.

    Examples
    --------
    >>> available().loc["median", "told"]
    'nothing'
    """
    import pandas as pd

    rows = [
        {**asdict(method.facts), "told": ", ".join(method.facts.told) or "nothing"} for method in _methods().values()
    ]
    return pd.DataFrame(rows).set_index("name").rename_axis("method")


def __getattr__(name: str) -> Baseline:
    if not name.startswith("_") and name in names():
        return get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(names())}")


def __dir__() -> list[str]:
    return sorted({*__all__, *names()})
