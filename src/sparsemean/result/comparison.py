"""Several tests of groups in one family: an estimate for each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsemean._util.records import FloatArray, IntArray, RowScores
from sparsemean.errors import InputError
from sparsemean.result import Estimate

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What labels were compared and what came out: one `Estimate` for each test, in one family of hypotheses.

    Attributes
    ----------
    classes : ndarray
        The labels, sorted.
    results : dict
        The estimate of each test, by its label; by (label, reference) where all pairs are compared.
    """

    classes: npt.NDArray[Any]
    results: dict[Any, Estimate]

    def __repr__(self) -> str:
        return f"<Comparison: {len(self.results)} tests, {self.support.size} features selected in some of them>"

    def __str__(self) -> str:
        from sparsemean.result._report.summary import printed

        return printed(self)

    def _repr_html_(self) -> str:
        from sparsemean.result._report.summary import fragment

        return fragment(self)

    @property
    def result(self) -> Estimate | Comparison:
        """The estimate where there is one test only, else all of them."""
        return next(iter(self.results.values())) if len(self.results) == 1 else self

    @property
    def support(self) -> IntArray:
        """The features that some test selects, sorted."""
        return np.unique(np.concatenate([estimate.support for estimate in self.results.values()]))

    @property
    def mean(self) -> FloatArray:
        """Shifts, a row for each test; zero where a feature is not selected."""
        return np.stack([estimate.mean for estimate in self.results.values()])

    @property
    def rows(self) -> RowScores:
        """Rows by the worst that any test says of them; suspects by the test in which they look worst."""
        judged = [estimate.rows for estimate in self.results.values() if estimate.rows is not None]
        scores = np.max([rows.scores for rows in judged], axis=0)
        worst: dict[int, tuple[float, tuple[int, ...], str]] = {}
        for rows in judged:
            for row, why, kind in zip(rows.suspects.tolist(), rows.reasons, rows.kinds, strict=True):
                worst[row] = max(worst.get(row, (-np.inf, (), "")), (float(rows.scores[row]), why, kind))
        suspects = sorted(worst, key=lambda row: -worst[row][0])
        weights = np.ones(scores.size)
        weights[suspects] = 0.0
        reasons, kinds = tuple(worst[row][1] for row in suspects), tuple(worst[row][2] for row in suspects)
        return RowScores(scores, weights, np.array(suspects, dtype=np.intp), reasons=reasons, kinds=kinds)

    @property
    def feature_names(self) -> npt.NDArray[np.object_] | None:
        """Names of the features, where the input has any."""
        return next(iter(self.results.values())).feature_names

    def table(self, all: bool = False, intervals: bool = False, X: object = None) -> pd.DataFrame:
        """Return the tables of all tests below each other, with columns ``group`` and ``reference`` in front.

        Parameters
        ----------
        all : bool, default=False
            One row for every feature in every test, in place of the selected ones.
        intervals, X
            As in `Estimate.table`.

        Returns
        -------
        DataFrame
            The columns of `Estimate.table` behind those two.
        """
        return self._stacked(lambda estimate: estimate.table(all=all, intervals=intervals, X=X))

    def _stacked(self, frame_of: Callable[[Estimate], pd.DataFrame]) -> pd.DataFrame:
        """Put what each test says below each other, with its label and reference in front."""
        import pandas as pd

        frames = []
        for estimate in self.results.values():
            assert estimate.class_names is not None
            reference, label = estimate.class_names.tolist()
            frame = frame_of(estimate)
            frame.insert(0, "reference", reference)
            frame.insert(0, "group", label)
            frames.append(frame)
        return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)

    def at(self, contamination: float | tuple[float, float]) -> Comparison:
        """Decide again for another share of bad rows of each group, see `Estimate.at`.

        Parameters
        ----------
        contamination : float in [0, 0.5) or pair of them
            The share of each group, or of the reference and of the label.

        Returns
        -------
        Comparison
            All tests, decided again together.
        """
        from sparsemean._fit.afterwards import at

        return replace(self, results=dict(zip(self.results, at(tests_of(self), contamination), strict=True)))

    def without_suspects(self, X: object = None, *, covariate: object = None) -> Comparison:
        """Fit the rows that are left without the suspects of any test: not guaranteed, see `Estimate.without_suspects`.

        Parameters
        ----------
        X, covariate : array or data frame, optional
            The data of the fit, needed, and compared, as by `Estimate.interval`.

        Returns
        -------
        Comparison
            All tests, made again together.
        """
        from sparsemean._fit.afterwards import without_suspects

        again = without_suspects(tests_of(self), X, covariate)
        return replace(self, results=dict(zip(self.results, again, strict=True)))

    def curve(self) -> pd.DataFrame:
        """Return how many features each test selects at each share of bad rows, see `Estimate.curve`.

        Returns
        -------
        DataFrame
            Columns group, reference, contamination, bad_rows and selected.
        """
        return self._stacked(lambda estimate: estimate.curve())

    def summary(self, unit: str | None = None, feature: str | None = None) -> str:
        """Return the verdict, which tests were made, notes, and what is guaranteed of all at once, in lines.

        Parameters
        ----------
        unit, feature : str, optional
            What a row, and a column, are called in words, as in `Estimate.summary`.
        """
        from sparsemean.result._report.summary import summary

        return summary(self, unit, feature)

    def report(self, path: str | Path, **names: Any) -> None:
        """Write one HTML page that needs no network, with a choice of the test.

        Parameters
        ----------
        path : path
            The file to write.
        **names
            ``title``, ``row_names`` (one for each row), ``unit`` and ``feature``: what is shown.
        """
        from sparsemean.result._report.page import write_report

        write_report(self, path, **names)

    def save(self, path: str | Path) -> None:
        """Write all tests to one .npz file, without the data; `sparsemean.load` reads it.

        Parameters
        ----------
        path : path
            The file to write.
        """
        from sparsemean._fit.storage import save

        save(self, path)

    def to_adata(self, adata: Any, key: str = "sparsemean") -> None:
        """Add columns to the AnnData of the fit, see `Estimate.to_adata`; those of a test have its label in the name.

        Parameters
        ----------
        adata : AnnData
            Its ``var`` gets columns for every test, ``obs`` one of scores and one of suspects, ``uns`` the settings.
        key : str, default="sparsemean"
            What the names of columns begin with, and the name in ``uns``.
        """
        from sparsemean._fit.write import to_adata

        to_adata(self, adata, key)


def tests_of(result: Estimate | Comparison) -> list[Estimate]:
    """Return one result, or those of several tests."""
    return [result] if isinstance(result, Estimate) else list(result.results.values())


def called(result: Estimate | Comparison, unit: str | None, feature: str | None) -> Estimate | Comparison:
    """Return a result whose words call a row, or subject, and a feature by these nouns; None leaves one as it is."""
    for argument, noun in (("unit", unit), ("feature", feature)):
        if noun is not None and not (isinstance(noun, str) and noun.strip()):
            raise InputError(argument, "be a noun whose plural ends in s, such as 'cell'", repr(noun))

    without = vars(result).setdefault("_without", list[int]())  # what verdicts on either tell is known of both

    def named(estimate: Estimate) -> Estimate:
        again, own = replace(estimate), estimate.sample
        # With what is known of it already, which may rest on data that are gone.
        vars(again).update(vars(estimate), sample=replace(own, unit=unit or own.unit, feature=feature or own.feature))
        return again

    if isinstance(result, Estimate):
        return named(result)
    again = replace(result, results={key: named(each) for key, each in result.results.items()})
    vars(again)["_without"] = without
    return again
