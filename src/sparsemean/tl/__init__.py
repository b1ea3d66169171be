"""For users of scanpy: `rank_genes_groups` with scanpy's arguments, its result where scanpy's plots look for it."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sparsemean._data.anndata import read_anndata
from sparsemean._data.source import Array, Subset, as_dense
from sparsemean._data.table import Names, Table, as_names
from sparsemean._evidence.ranks import REST
from sparsemean._fit import designs, two_sample
from sparsemean._fit.one_sample import fit
from sparsemean._stats.effects import log2_fold_change
from sparsemean._stats.planning import SELECTIONS, one_of
from sparsemean._stats.row_scores import LARGE
from sparsemean._util.checks import draw_seed, integer, list_names
from sparsemean._util.records import FloatArray, IntArray
from sparsemean.errors import InputError
from sparsemean.result import Estimate
from sparsemean.result.comparison import Comparison, called, tests_of
from sparsemean.tl._cells import CellDesign, Tests, differences_within

if TYPE_CHECKING:
    import pandas as pd
    from anndata import AnnData

__all__ = ["rank_genes_groups"]

KEY = "rank_genes_groups"
"""Where scanpy's functions look unless told otherwise."""
OPTIONS = ("contamination", "selection", "level", "min_effect", "missing", "random_state", "n_jobs")
"""Parameters of `SparseMeanDifference` that may be given."""
CORRECTIONS = {"benjamini-hochberg": "fdr", "bonferroni": "fwer"}
"""Rules by what scanpy calls them; of Holm's, which rejects all that Bonferroni's does, errors are as rare."""
KINDS = {"names": "O", "scores": "f4", "logfoldchanges": "f4", "radius": "i8", "selected": "?"}
"""Types of columns, as in scanpy's own; all others are of float64."""
LOOKS = {
    "counts": "{} looks like raw counts: depth of sequencing then passes for expression; normalise it and take log1p",
    "scaled": "{} has negative values, as if scaled: shifts are in units of that scale and there are no fold changes; "
    "logarithms of normalised counts are meant",
}
MEANS = (
    "donors count by the means of {}, which are no counts: where a layer has counts, layer= compares donors by their "
    "counts per million, as limma's users do"
)
DONORS = (
    "cells may not be independent: obs has the column {0!r} with {1:,} values for {2:,} cells; pass donors={0!r} for "
    "statements about donors in general, or batch={0!r} to compare within these donors alone"
)


def rank_genes_groups(
    adata: AnnData,
    groupby: str,
    *,
    reference: object = "rest",
    groups: str | Iterable[object] = "all",
    layer: str | None = None,
    use_raw: bool | None = None,
    donors: str | None = None,
    batch: str | None = None,
    method: str | None = None,
    corr_method: str | None = None,
    n_genes: int | None = None,
    mask_var: object = None,
    rankby_abs: bool = False,
    tie_correct: bool = False,
    mean_in_log_space: bool = True,
    pts: bool = False,
    radius: bool = False,
    min_cells: int = 1,
    key_added: str | None = None,
    **params: Any,
) -> Estimate | Comparison:
    """Rank the genes that tell groups of cells apart, with p-values that hold while some cells are mislabelled.

    What scanpy's function of this name writes is written in its place and format, so that ``sc.get`` and ``sc.pl`` read
    it: ``names``, ``scores`` (those of scanpy's ``method="wilcoxon"``), ``pvals``, ``pvals_adj`` (of all groups
    together), ``logfoldchanges`` (scanpy's formula), ``params`` and, if asked for, ``pts``. Beside these, in the
    same order: ``selected``, ``estimate`` (the shift, or delta where many values are equal), ``ci_low``, ``ci_high``,
    ``delta`` (Cliff's), ``max_contamination`` and, if asked for, ``radius``. ``obs`` gets ``{key_added}_suspect`` and
    ``{key_added}_score``: of cells that contradict their group, or of all cells of such a donor. Suspects of the kind
    "large throughout", which are not counted as bad, are not marked.

    Parameters
    ----------
    adata : AnnData
        Logarithms of normalised counts, in memory or backed. A warning says so where the values look like raw counts,
        or scaled, and where a column of ``obs`` looks like the donors and is not used.
    groupby : str
        The column of ``obs`` with the group of each cell. Cells without a label, and those of a label with one cell,
        are part of the rest, as in scanpy, and not tested; with ``donors`` those without a label are left out.
    reference : label or "rest", default="rest"
        What groups are compared with.
    groups : "all" or list of labels, default="all"
        The groups that are tested; the rest is still that of all cells.
    layer : str, optional
        The layer that is tested, in place of X or raw.
    use_raw : bool, optional
        Whether ``adata.raw`` is tested. None does as scanpy does: raw where there is one (and no layer is named). The
        notes of the result say which it was, and so does ``params["use_raw"]``.
    donors : str, optional
        The column of ``obs`` with the donor of each cell. Donors then count once each, and not cells. Where a donor has
        cells of several groups, donors are compared with themselves; half of them or more must have, or none.
    batch : str, optional
        The column of ``obs`` within whose values alone cells, or donors, are compared. Values with cells of one group
        only are left out.
    method : "wilcoxon", optional
        There is one method, by ranks; scanpy's other ones are refused.
    corr_method : {"benjamini-hochberg", "bonferroni"}, optional
        The rule that selects genes and adjusts p-values: Benjamini and Hochberg's, the default, or Holm's, which no
        gene fails that Bonferroni's selects. Unlike scanpy's it is of all groups together. ``selection`` has more.
    n_genes : int, optional
        How many genes are written for each group, those with the largest scores; all by default.
    mask_var : array of bool or str, optional
        The genes that are tested, or the column of ``var`` that says so.
    rankby_abs : bool, default=False
        Whether genes are sorted by the size of their scores, whatever the sign.
    tie_correct : bool, default=False
        Scores: scanpy's z without a correction for ties, or, if True, the z of the p-values, which know of ties and bad
        cells. Within batches, and where donors are compared with themselves, they are always the latter.
    mean_in_log_space : bool, default=True
        Whether fold changes are those of expm1 of mean logarithms, or of means of expm1.
    pts : bool, default=False
        Whether the shares of cells that express each gene are written. Files take no label with a slash in it then.
    radius : bool, default=False
        Whether the radius of every gene is written, which takes a quarter of the time of the fit; the result has it in
        any case.
    min_cells : int, default=1
        Donors with fewer cells, or where donors are compared with themselves fewer on a side, are left out. Each donor
        counts by the mean of as many cells as the smallest has, so that a tiny one costs the others most of theirs.
    key_added : str, optional
        The name in ``uns``, "rank_genes_groups" by default.
    **params
        ``contamination``, ``selection``, ``level``, ``min_effect``, ``missing``, ``random_state`` and ``n_jobs``, as in
        `SparseMeanDifference`; of donors, where these are given, ``contamination`` is the share of donors.

    Returns
    -------
    Estimate or Comparison
        As ``result_`` of `SparseMeanDifference`: table, summary, report. Where donors are compared with themselves an
        `Estimate` of their differences, its features named "group: gene".

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd
    >>> from sparsemean import tl
    >>> rng = np.random.default_rng(0)
    >>> kinds = np.repeat(["B", "T"], 60)
    >>> counts = rng.poisson(np.where((kinds == "B")[:, None] & (np.arange(30) < 2), 4.0, 0.5))
    >>> genes = pd.DataFrame(index=[f"g{i}" for i in range(30)])
    >>> obs = pd.DataFrame({"kind": kinds}, index=[f"c{i}" for i in range(120)])
    >>> cells = anndata.AnnData(np.log1p(counts), obs=obs, var=genes)
    >>> _ = tl.rank_genes_groups(cells, "kind")
    >>> sorted(cells.uns["rank_genes_groups"]["names"]["B"][:2])
    ['g0', 'g1']
    """
    columns = _columns(adata, params, groupby=groupby, donors=donors, batch=batch)
    params["selection"] = _selection(method, corr_method, params.get("selection"))
    least = integer(min_cells, argument="min_cells", least=1, rule="be a whole number from 1 on")
    key = KEY if key_added is None else key_added
    labels = {argument: adata.obs[column] for argument, column in columns.items()}
    design = CellDesign.of(labels, (reference, groups), as_names(adata.obs_names), least)
    tests = design.tests
    compared = adata if design.kept.size == adata.n_obs else adata[design.kept]
    table, raw = _table(compared, layer, use_raw, columns.values())
    table = table if mask_var is None else _masked(table, mask_var, adata)
    base = adata.uns.get("log1p", {}).get("base")  # what scanpy's log1p was told: None for its own
    unit = 1.0 if base is None else float(np.log(base))
    profiles = _profiles(table, tests.codes, unit, skip_missing=params.get("missing") == "omit")
    name = "adata.raw" if raw else "adata.X" if layer is None else f"layer {layer!r}"
    counts = profiles.looks == "counts" and donors is not None and not design.crossed
    alarms = [LOOKS[profiles.looks].format(name)] if profiles.looks and not counts else []
    of_means = [MEANS.format(name)] if donors is not None and not (counts or design.crossed) else []
    if table.repeated is not None and donors is None:
        alarms.append(DONORS.format(*table.repeated, table.shape[0]))
    for alarm in alarms:
        warnings.warn(alarm, stacklevel=2)
    as_scanpy = ", as scanpy has it where there is one (use_raw=None)" if raw and use_raw is None else ""
    notes = (*alarms, *of_means, f"values are those of {name}{as_scanpy}", *design.notes)
    table = replace(table, repeated=None, notes=(*table.notes, *notes))
    result, numbers = _fitted(table, design, params, radius=radius, min_cells=least, counts=counts)
    if not (tie_correct or design.crossed or batch):
        _as_scanpys(numbers, tests)
    first = _first_genes(numbers, n_genes, by_size=rankby_abs)
    adata.uns[key] = {
        "params": {
            **columns, "reference": str(reference), "method": "sparsemean", "use_raw": raw, "layer": layer,
            "corr_method": SELECTIONS[params["selection"]].lower().replace("–", "-"),
        },
        **_records(tests, numbers, first, table, profiles, unit if mean_in_log_space else None),
        **(_shares(tests, profiles, table.feature_names) if pts else {}),
    }  # fmt: skip
    for column, values in _of_cells(result, design, adata.n_obs).items():
        adata.obs[f"{key}_{column}"] = values
    return called(result, "cell" if donors is None else "donor", "gene")


# What is asked for.


def _columns(adata: AnnData, params: Mapping[str, object], **columns: str | None) -> dict[str, str]:
    """Check what can be checked at once, and return the columns of obs that are named, by argument."""
    if not hasattr(adata, "obs") or not hasattr(adata, "uns"):
        raise InputError("adata", "be an AnnData", type(adata).__name__, "SparseMeanDifference takes all else")
    if getattr(adata, "isbacked", False) and adata.is_view:
        raise InputError("adata", "not be a view of a backed file, which nothing can be added to", "one", "to_memory()")
    if "copy" in params:
        raise InputError("copy", "be left out", repr(params["copy"]), "pass adata.copy(): the result is returned")
    if unknown := sorted(params.keys() - set(OPTIONS)):
        raise InputError("options", f"be among {', '.join(OPTIONS)}", list_names(unknown), "check their spelling")
    named = {argument: column for argument, column in columns.items() if column is not None}
    for argument, column in named.items():
        if column not in adata.obs.columns:
            listed = list_names(list(map(str, adata.obs.columns)), 20) or "none"
            raise InputError(argument, "name a column of obs", repr(column), f"it has {listed}")
    return named


def _selection(method: str | None, corr_method: str | None, selection: object) -> object:
    """Return the rule that scanpy's parameters name, or our own."""
    one_of(method or "wilcoxon", ("wilcoxon",), argument="method")
    if corr_method is not None and selection is not None:
        raise InputError("selection", "be left out with corr_method", repr(selection))
    rule = one_of(corr_method or "benjamini-hochberg", CORRECTIONS, argument="corr_method")
    return CORRECTIONS[rule] if selection is None else selection


def _masked(table: Table, mask: object, adata: AnnData) -> Table:
    """Return some genes alone."""
    if isinstance(mask, str) and mask not in adata.var:
        raise InputError("mask_var", "name a column of var", repr(mask))
    flags = np.asarray(adata.var[mask] if isinstance(mask, str) else mask)
    if flags.dtype != bool or flags.shape != (table.shape[1],) or not flags.any():
        rule = f"be True or False for each of the {table.shape[1]:,} genes that are tested"
        raise InputError("mask_var", rule, f"{flags.dtype} of shape {flags.shape}")
    assert table.feature_names is not None
    genes = np.flatnonzero(flags)
    return replace(table, source=Subset(table.source, genes), feature_names=table.feature_names[genes])


def _table(adata: AnnData, layer: str | None, use_raw: bool | None, known: Collection[str]) -> tuple[Table, bool]:
    """Return the values that are meant, and whether they are those of raw."""
    if use_raw and adata.raw is None:
        raise InputError("use_raw", "be left out where there is no raw", True, "leave it out to test X")
    if use_raw and layer is not None:
        raise InputError("use_raw", "be left out with a layer", True, "leave one of them out")
    raw = layer is None and adata.raw is not None and use_raw is not False
    return read_anndata(adata, layer=layer, raw=raw, known=known), raw


# What is computed: the tests, and the plain averages that scanpy shows beside them.

Numbers: TypeAlias = dict[str, Array]


def _fitted(
    table: Table, design: CellDesign, params: dict[str, Any], *, radius: bool, min_cells: int, counts: bool
) -> tuple[Estimate | Comparison, dict[int, Numbers]]:
    """Return the result, and the columns of each group; of two groups one is the mirror image of the other."""
    tests, firsts, d = design.tests, [contrast.label for contrast in design.tests.contrasts], table.shape[1]
    if design.crossed:
        result: Estimate | Comparison = _within_donors(table, design, params, min_cells)
        assert isinstance(result, Estimate)
        parts = [(result, slice(k * d, (k + 1) * d)) for k in range(len(firsts))]
    else:
        order = tests.classes.tolist()
        reference = two_sample.REST_NAME if tests.reference == REST else order[tests.reference]
        found = two_sample.compare(
            table, tests.labels, reference=reference, only=[order[first] for first in firsts],
            groups=design.labels.get("donors"), strata=design.labels.get("batch"),
            called={"y": "groupby", "groups": "donors", "strata": "batch"}, counts=counts, **params,
        )  # fmt: skip
        result, parts = found.result, [(each, slice(0, d)) for each in found.results.values()]
    numbers = {first: _numbers(*part, radius=radius) for first, part in zip(firsts, parts, strict=True)}
    for group in set(tests.shown) - numbers.keys():
        numbers[group] = _mirrored(numbers[firsts[0]])
    return result, numbers


def _within_donors(table: Table, design: CellDesign, params: dict[str, Any], min_cells: int) -> Estimate:
    """Compare donors with themselves: each has one difference for every test and gene."""
    tests, missing = design.tests, params.get("missing", "raise")
    differences, notes, alarms = differences_within(
        table, tests.sides, design.labels["donors"], batch=design.labels.get("batch"),
        seed=draw_seed(params.get("random_state", 0)), missing=missing, min_cells=min_cells,
    )  # fmt: skip
    for alarm in alarms:
        warnings.warn(alarm, stacklevel=4)
    assert table.feature_names is not None
    names = [f"{tests.name(contrast.label)}: {gene}" for contrast in tests.contrasts for gene in table.feature_names]
    whole = replace(differences, feature_names=as_names(names), notes=(*alarms, *table.notes, *notes))
    gaps = missing == "raise" and bool(np.isnan(differences.values).any())
    return fit(whole, groups=whole.row_names, **{**params, **({"missing": "omit"} if gaps else {})})


def _numbers(estimate: Estimate, at: slice, *, radius: bool) -> Numbers:
    """Return the columns of one test, genes in their order."""
    from scipy.special import ndtri_exp

    selected = np.zeros(estimate.mean.size, dtype=bool)
    selected[estimate.support] = True
    log_p, beta = np.log(10.0) * estimate.log10_p[at], estimate.beta[at]
    return {
        "scores": -ndtri_exp(np.minimum(log_p, 0.0) - np.log(2.0)) * np.sign(beta),
        "pvals": estimate.p_values[at],
        "pvals_adj": (estimate.q_values if estimate.plan.selection.startswith("fdr") else estimate.p_adjusted)[at],
        "selected": selected[at],
        "estimate": np.where(selected, estimate.mean, np.nan)[at],
        "ci_low": estimate.intervals[at, 0],
        "ci_high": estimate.intervals[at, 1],
        "delta": beta,
        "max_contamination": estimate.max_contamination[at],
        **({"radius": estimate.radius[at]} if radius else {}),
    }


def _as_scanpys(numbers: dict[int, Numbers], tests: Tests) -> None:
    """Put Wilcoxon's z without a correction for ties, (U − n₁n₂/2)/√(n₁n₂(n₁ + n₂ + 1)/12), in the place of scores."""
    sizes = np.bincount(tests.codes).astype(np.float64)
    for group, columns in numbers.items():
        own, other = sizes[group], sizes[tests.other(group)].sum()
        columns["scores"] = columns["delta"] * np.sqrt(3.0 * own * other / (own + other + 1.0))


def _first_genes(numbers: dict[int, Numbers], n_genes: int | None, *, by_size: bool) -> dict[int, IntArray]:
    """Return which genes are written of each group, those with the largest scores first."""
    most = n_genes if n_genes is None else integer(n_genes, argument="n_genes", least=1, rule="be a number from 1 on")

    def order(columns: Numbers) -> IntArray:
        keys = [np.nan_to_num(columns[name]) for name in ("estimate", "delta", "scores")]
        return np.lexsort([np.negative(np.abs(key) if by_size else key) for key in keys])[:most]

    return {group: order(columns) for group, columns in numbers.items()}


def _mirrored(numbers: Numbers) -> Numbers:
    """Return what the same test says of the other group."""
    turned = {"scores": "scores", "estimate": "estimate", "delta": "delta", "ci_low": "ci_high", "ci_high": "ci_low"}
    return numbers | {name: np.negative(numbers[other]) for name, other in turned.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Profiles:
    """Sums, values other than zero and values that are there, of each group, (groups, d); what all values look like."""

    sums: FloatArray
    raised: FloatArray
    """Sums of expm1 of values."""
    nonzero: FloatArray
    number: FloatArray
    looks: str | None
    """"scaled" where some are negative, "counts" where all are whole numbers from 0 on."""

    def mean(self, of: str, groups: IntArray) -> FloatArray:
        """Return the mean of some groups together, of what was added up."""
        return np.asarray(getattr(self, of)[groups].sum(axis=0) / self.number[groups].sum(axis=0))


def _profiles(table: Table, codes: IntArray, unit: float, *, skip_missing: bool) -> _Profiles:
    """Add the cells of every group up, in one reading."""
    from scipy.sparse import csr_array

    sizes = np.bincount(codes)
    group = csr_array((np.ones(codes.size), (codes, np.arange(codes.size))), shape=(sizes.size, codes.size))
    sums, raised, nonzero, number = np.empty((4, sizes.size, table.shape[1]))
    negative, whole = False, True
    for first, block in designs.pieces(table, skip_missing=skip_missing):
        at = slice(first, first + block.shape[1])
        values: Any = block.astype(np.float64)
        stored, missing = values if isinstance(values, np.ndarray) else values.data, values != values
        np.nan_to_num(stored, copy=False)
        with np.errstate(over="ignore"):  # of counts that are no logarithms
            powers = np.expm1(unit * values) if isinstance(values, np.ndarray) else (unit * values).expm1()
        each = (as_dense(group @ part) for part in (values, powers, values != 0, missing))
        sums[:, at], raised[:, at], nonzero[:, at], gaps = (np.asarray(part, dtype=np.float64) for part in each)
        number[:, at] = sizes[:, np.newaxis] - gaps
        negative = negative or bool((stored < 0).any())
        whole = whole and np.array_equal(stored, np.rint(stored))
    return _Profiles(sums, raised, nonzero, number, "scaled" if negative else "counts" if whole else None)


# What is written.


def _records(
    tests: Tests, numbers: dict[int, Numbers], first: dict[int, IntArray], table: Table, profiles: _Profiles,
    unit: float | None,
) -> dict[str, np.recarray]:  # fmt: skip
    """Return one record array a column, a field for each group; logarithms have a unit, or means are of expm1."""
    scale = {"counts": "counts", "scaled": None, None: "log1p" if unit else "counts"}[profiles.looks]
    of, unit = ("sums", 1.0) if profiles.looks else ("sums", unit) if unit else ("raised", 1.0)
    genes = table.feature_names
    assert genes is not None
    per_group: dict[str, list[Array]] = {}
    for group in tests.shown:
        own, other = (unit * profiles.mean(of, groups) for groups in (np.array([group]), tests.other(group)))
        columns = {"names": genes, **numbers[group], "logfoldchanges": log2_fold_change(own, other, scale)}
        for name, values in columns.items():
            per_group.setdefault(name, []).append(values[first[group]])
    fields = [tests.name(group) for group in tests.shown]
    return {
        name: np.rec.fromarrays(values, dtype={"names": fields, "formats": [KINDS.get(name, "f8")] * len(fields)})
        for name, values in per_group.items()
    }


def _shares(tests: Tests, profiles: _Profiles, genes: Names | None) -> dict[str, pd.DataFrame]:
    """Return the shares of cells that express each gene, in the groups and in the rest of each."""
    import pandas as pd

    def frame(groups: dict[int, IntArray]) -> pd.DataFrame:
        shares = {tests.name(group): profiles.mean("nonzero", together) for group, together in groups.items()}
        return pd.DataFrame(shares, index=genes)

    own = [*tests.shown, *([] if tests.reference == REST else [tests.reference])]
    shares = {"pts": frame({group: np.array([group]) for group in own})}
    rest = {"pts_rest": frame({group: tests.other(group) for group in tests.shown})}
    return shares | (rest if tests.reference == REST else {})


def _of_cells(result: Estimate | Comparison, design: CellDesign, n: int) -> dict[str, Array]:
    """Return what is said of every cell, or of its donor; those that are not compared are no suspects."""
    rows = result.rows
    if rows is None:
        return {}
    each = tests_of(result)
    suspect = np.zeros(rows.scores.size, dtype=bool)
    for judged in (one.rows for one in each if one.rows is not None):
        suspect[[row for row, kind in zip(judged.suspects, judged.kinds, strict=True) if kind != LARGE]] = True
    at = np.arange(suspect.size)
    if "donors" in design.labels:
        place = {name: k for k, name in enumerate(each[0].row_names(range(suspect.size)))}
        at = np.array([place.get(name, -1) for name in as_names(design.labels["donors"])])
    out = {"score": np.full(n, np.nan), "suspect": np.zeros(n, dtype=bool)}
    out["score"][design.kept] = np.where(at < 0, np.nan, rows.scores[at])
    out["suspect"][design.kept] = (at >= 0) & suspect[at]
    return out
