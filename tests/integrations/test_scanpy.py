"""scanpy reads what `tl.rank_genes_groups` writes: its getters, filters, plots and files, as if it had written it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from scipy import stats

from sparsemean import tl

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import anndata
    import scanpy as sc

pytestmark = pytest.mark.filterwarnings("ignore")  # scanpy's own are many
mpl.use("Agg")
KEY, GROUP = "rank_genes_groups", "CD19+ B"
SCANPYS = ("names", "scores", "pvals", "pvals_adj", "logfoldchanges")
OURS = ("selected", "estimate", "ci_low", "ci_high", "delta", "radius", "max_contamination")


@pytest.fixture(scope="module")
def ranked() -> Any:
    """700 cells with values in raw and, scaled, in X: ours in its place, and scanpy's beside it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cells = sc.datasets.pbmc68k_reduced()
        sc.tl.rank_genes_groups(cells, "bulk_labels", method="wilcoxon", tie_correct=True, pts=True, key_added="theirs")
        tl.rank_genes_groups(cells, "bulk_labels", pts=True, radius=True, corr_method="bonferroni")
    return cells


@pytest.fixture
def cells(ranked: Any) -> Any:
    return ranked.copy()


def frame(adata: Any, key: str = KEY, group: str = GROUP, **options: Any) -> pd.DataFrame:
    return sc.get.rank_genes_groups_df(adata, group, key=key, **options).set_index("names")


def test_the_format_is_scanpys(cells: Any) -> None:
    ours, theirs = cells.uns[KEY], cells.uns["theirs"]
    assert ours.keys() == {*theirs.keys(), *OURS}
    for name in SCANPYS:
        assert type(ours[name]) is type(theirs[name])
        assert ours[name].dtype == theirs[name].dtype
        assert ours[name].shape == theirs[name].shape
    for name in OURS:
        assert ours[name].dtype.names == theirs["names"].dtype.names
    for name in ("pts", "pts_rest"):
        pd.testing.assert_frame_equal(ours[name], theirs[name], check_names=False)
    assert ours["params"].keys() == theirs["params"].keys()
    for name in ("groupby", "reference", "use_raw", "layer"):
        assert ours["params"][name] == theirs["params"][name]


@pytest.mark.parametrize("reference", ["rest", "Dendritic"])
def test_numbers_that_mean_the_same_are_the_same(cells: Any, reference: str) -> None:
    options: dict[str, Any] = {"groups": [GROUP, "CD56+ NK"], "reference": reference}
    sc.tl.rank_genes_groups(cells, "bulk_labels", method="wilcoxon", tie_correct=True, pts=True, **options)
    theirs = cells.uns.pop(KEY)
    tl.rank_genes_groups(cells, "bulk_labels", contamination=0, tie_correct=True, **options)
    ours = cells.uns[KEY]
    assert set(ours["names"].dtype.names) == set(theirs["names"].dtype.names) == set(options["groups"])
    cells.uns["theirs"] = theirs
    for group in options["groups"]:
        one, other = frame(cells, group=group), frame(cells, "theirs", group)
        other = other.loc[one.index]
        np.testing.assert_allclose(one["logfoldchanges"], other["logfoldchanges"], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(one["pct_nz_group"], other["pct_nz_group"], rtol=1e-12)
        assert ("pct_nz_reference" in one) == ("pct_nz_reference" in other)
        clear = np.abs(other["scores"]) > 4
        assert (np.sign(one["scores"]) == np.sign(other["scores"]))[clear].all()
        assert stats.spearmanr(one["scores"][clear], other["scores"][clear]).statistic > 0.95
        first = other.sort_values("scores", ascending=False).index[:20]
        assert len(set(one.index[:20]) & set(first)) >= 15  # zeros have another null here, so not all


def test_cells_without_a_label_are_where_scanpy_has_them(cells: Any) -> None:
    cells.obs["some"] = cells.obs["bulk_labels"].where(np.arange(cells.n_obs) % 4 > 0)
    sc.tl.rank_genes_groups(cells, "some", method="wilcoxon", tie_correct=True, pts=True, key_added="theirs")
    result = tl.rank_genes_groups(cells, "some", contamination=0, pts=True, key_added=None)
    assert "175 cells without a label: part of the rest, as in scanpy" in result.summary()
    ours, theirs = cells.uns[KEY], cells.uns["theirs"]
    assert ours["names"].dtype.names == theirs["names"].dtype.names
    for name in ("pts", "pts_rest"):
        pd.testing.assert_frame_equal(ours[name], theirs[name], check_names=False)
    one, other = frame(cells), frame(cells, "theirs")
    other = other.loc[one.index]
    np.testing.assert_allclose(one["logfoldchanges"], other["logfoldchanges"], rtol=1e-5, atol=1e-5)
    clear = np.abs(other["scores"]) > 4
    assert (np.sign(one["scores"]) == np.sign(other["scores"]))[clear].all()


def test_the_first_genes_are_scanpys(cells: Any) -> None:
    """The scores are its z of Wilcoxon's test: the same fifty genes lead each label, at the defaults of both."""
    sc.tl.rank_genes_groups(cells, "bulk_labels", method="wilcoxon", key_added="theirs")
    for group in cells.uns["theirs"]["names"].dtype.names:
        one, other = frame(cells, group=group), frame(cells, "theirs", group)
        np.testing.assert_allclose(one["scores"], other["scores"][one.index], rtol=1e-4, atol=1e-4)
        assert len(set(one.index[:50]) & set(other.index[:50])) >= 48


SOME: dict[str, Any] = {"mask_var": np.arange(765) < 120, "contamination": 0}
"""Few genes: what follows is about what is written, and not about the genes."""


def test_either_group_is_the_mirror_image_of_the_other(cells: Any) -> None:
    found = []
    for one, other in (("CD14+ Monocyte", "Dendritic"), ("Dendritic", "CD14+ Monocyte")):
        options: dict[str, Any] = {"groups": [one, other], "reference": other, "rankby_abs": True, **SOME}
        tl.rank_genes_groups(cells, "bulk_labels", method="wilcoxon", **options)
        assert cells.uns[KEY]["params"]["use_raw"] is True
        found.append(frame(cells, group=one)[list(SCANPYS[1:])])
    np.testing.assert_allclose(found[0].abs(), found[1].abs().loc[found[0].index], rtol=1e-5)


@pytest.mark.parametrize("n_genes", [None, 10, 500])
def test_masks_and_numbers_of_genes_are_kept(cells: Any, n_genes: int | None) -> None:
    tl.rank_genes_groups(cells, "bulk_labels", groups=[GROUP], n_genes=n_genes, **SOME)
    genes = cells.uns[KEY]["names"][GROUP]
    assert len(genes) == min(n_genes or 120, 120)
    assert set(genes) <= set(cells.raw.var_names[:120])


def test_layers_are_as_good_as_x(cells: Any) -> None:
    whole = cells.raw.to_adata()
    whole.layers["same"] = whole.X.copy()
    tl.rank_genes_groups(whole, "bulk_labels", groups=[GROUP], use_raw=False, key_added="x", **SOME)
    whole.X = whole.X * 0
    tl.rank_genes_groups(whole, "bulk_labels", groups=[GROUP], layer="same", key_added="layer", **SOME)
    for name in SCANPYS:
        np.testing.assert_array_equal(whole.uns["x"][name][GROUP], whole.uns["layer"][name][GROUP])
    assert whole.uns["layer"]["params"]["layer"] == "same"
    assert whole.uns["layer"]["params"]["use_raw"] is False


def test_categories_without_cells_are_no_groups(cells: Any) -> None:
    cells.obs["more"] = cells.obs["bulk_labels"].cat.add_categories(["nobody"])
    tl.rank_genes_groups(cells, "more", **SOME)
    assert "nobody" not in cells.uns[KEY]["names"].dtype.names


def test_log_fold_changes_know_the_base(cells: Any) -> None:
    logs = anndata.AnnData(cells.raw.X.toarray() / np.log(2), obs=cells.obs, var=cells.raw.var)
    logs.uns["log1p"] = {"base": 2}
    sc.tl.rank_genes_groups(logs, "bulk_labels", method="wilcoxon", key_added="theirs")
    tl.rank_genes_groups(logs, "bulk_labels", groups=[GROUP])
    ours, theirs = frame(logs), frame(logs, "theirs")
    np.testing.assert_allclose(ours["logfoldchanges"], theirs["logfoldchanges"][ours.index], rtol=1e-4, atol=1e-5)


def test_scanpy_gets_filters_and_compares(cells: Any) -> None:
    everything = sc.get.rank_genes_groups_df(cells, None)
    assert everything.shape[0] == 765 * 10
    assert everything.groupby("group", observed=True)["scores"].is_monotonic_decreasing.all()
    few = frame(cells, pval_cutoff=0.05, log2fc_min=1)
    assert set(few.index) <= set(cells.uns[KEY]["names"][GROUP][cells.uns[KEY]["selected"][GROUP]])
    assert "CD79A" in few.index[:5]
    sc.tl.filter_rank_genes_groups(cells, min_fold_change=3)
    left = pd.Series(cells.uns["rank_genes_groups_filtered"]["names"][GROUP]).dropna()
    kept = frame(cells).query("logfoldchanges > 3 and pct_nz_group > 0.25 and pct_nz_reference < 0.5")
    assert left.tolist() == kept.index.tolist()
    overlap = sc.tl.marker_gene_overlap(cells, {"B": {"CD79A", "MS4A1", "CD79B"}, "NK": {"NKG7", "GNLY"}})
    assert (overlap.loc["B"].idxmax(), overlap.loc["B"].max()) == (GROUP, 3)


@pytest.mark.parametrize("kind", ["dotplot", "matrixplot", "stacked_violin"])
def test_scanpy_draws_the_genes_that_lead(cells: Any, kind: str) -> None:
    plot = getattr(sc.pl, f"rank_genes_groups_{kind}")
    drawn = plot(cells, n_genes=3, groups=[GROUP, "Dendritic"], show=False, return_fig=True)
    assert drawn.var_names == [gene for name in (GROUP, "Dendritic") for gene in cells.uns[KEY]["names"][name][:3]]
    drawn.make_figure()
    if kind != "stacked_violin":
        plot(cells, n_genes=3, values_to_plot="log10_pvals_adj", show=False, return_fig=True).make_figure()
    pyplot.close("all")


@pytest.mark.parametrize("kind", ["", "_heatmap", "_tracksplot", "_violin"])
def test_scanpy_draws_all_else(cells: Any, kind: str) -> None:
    getattr(sc.pl, f"rank_genes_groups{kind}")(cells, groups=[GROUP], n_genes=3, show=False)
    pyplot.close("all")


@pytest.mark.parametrize("ending", ["h5ad", "zarr"])
def test_files_keep_everything(cells: Any, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"cells.{ending}"
    for key in (KEY, "theirs"):  # zarr has no names with a slash in them, and some labels have
        del cells.uns[key]["pts"], cells.uns[key]["pts_rest"]
    getattr(cells, f"write_{ending}")(path)
    back = getattr(anndata, f"read_{ending}")(path)
    pd.testing.assert_frame_equal(sc.get.rank_genes_groups_df(back, None), sc.get.rank_genes_groups_df(cells, None))
    for name in OURS:
        for group in cells.uns[KEY]["names"].dtype.names:
            np.testing.assert_array_equal(back.uns[KEY][name][group], cells.uns[KEY][name][group])
    pd.testing.assert_series_equal(back.obs[f"{KEY}_suspect"], cells.obs[f"{KEY}_suspect"])
    assert cells.obs[f"{KEY}_suspect"].dtype == bool
    assert 0 < cells.obs[f"{KEY}_suspect"].sum() < 50
    sc.pl.rank_genes_groups_dotplot(back, n_genes=2, show=False)
    pyplot.close("all")


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_backed(cells: Any, mode: str, tmp_path: Path) -> None:
    cells.write_h5ad(tmp_path / "cells.h5ad")
    backed = sc.read_h5ad(tmp_path / "cells.h5ad", backed=mode)
    for adata in (cells, backed):
        tl.rank_genes_groups(adata, "bulk_labels", groups=[GROUP], key_added="one")
    assert backed.isbacked
    pd.testing.assert_frame_equal(frame(backed, "one"), frame(cells, "one"))
    backed.file.close()


def test_columns_of_text_views_and_categories_without_cells(cells: Any) -> None:
    few = cells[cells.obs["bulk_labels"].isin([GROUP, "Dendritic", "CD56+ NK"])]
    assert len(few.obs["bulk_labels"].cat.categories) == 3  # AnnData has dropped the others
    tl.rank_genes_groups(few, "bulk_labels")
    assert few.uns[KEY]["names"].dtype.names == ("CD19+ B", "CD56+ NK", "Dendritic")
    few.obs["all"] = few.obs["bulk_labels"].cat.set_categories(["none", "Dendritic", "CD56+ NK", "CD19+ B"])
    few.obs["text"] = few.obs["bulk_labels"].astype(str).astype(object)
    for column, names in (
        ("all", ("Dendritic", "CD56+ NK", "CD19+ B")),
        ("text", ("CD19+ B", "CD56+ NK", "Dendritic")),
    ):
        tl.rank_genes_groups(few, column, key_added=column)
        assert few.uns[column]["names"].dtype.names == names
        pd.testing.assert_frame_equal(frame(few, column), frame(few))
    sc.pl.rank_genes_groups_dotplot(few, key="text", n_genes=2, show=False)
    pyplot.close("all")


def test_what_scanpy_does_with_raw_and_layers(cells: Any) -> None:
    cells.layers["logs"] = cells.raw[:, cells.var_names].X
    with pytest.warns(UserWarning, match=r"adata\.X has negative values"):
        tl.rank_genes_groups(cells, "bulk_labels", use_raw=False, groups=[GROUP], key_added="scaled")
    for key, layer in (("layer", "logs"), ("raw", None)):
        tl.rank_genes_groups(cells, "bulk_labels", layer=layer, groups=[GROUP], key_added=key)
    pd.testing.assert_frame_equal(frame(cells, "layer"), frame(cells, "raw"))
    assert cells.uns["layer"]["params"]["use_raw"] is False
    sc.pl.rank_genes_groups_dotplot(cells, key="layer", n_genes=2, show=False)
    sc.pl.rank_genes_groups_dotplot(cells, key="scaled", n_genes=2, show=False)
    pyplot.close("all")
