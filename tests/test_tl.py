"""What single-cell users call: scanpy's format, donors compared with themselves; scanpy itself is in integrations."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

from sparsemean import Comparison, InputError, SparseMean, SparseMeanDifference, tl
from sparsemean._data import as_table
from sparsemean.tl._cells import differences_within

from conftest import Claims

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import anndata

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

N, D = 240, 20
GENES = [f"g{i}" for i in range(D)]
KEY = "rank_genes_groups"
OURS = ("selected", "estimate", "ci_low", "ci_high", "delta", "max_contamination")


def cells(labels: Any = ("B", "NK", "T"), seed: int = 0) -> Any:
    """Three kinds of cells, two genes of each; the categories in an order of their own."""
    rng = np.random.default_rng(seed)
    kinds = np.array(labels)[np.arange(N) % len(labels)]
    rates = np.full((N, D), 0.7)
    for k, label in enumerate(labels):
        rates[np.ix_(kinds == label, [2 * k, 2 * k + 1])] = 6.0
    obs = pd.DataFrame({"kind": pd.Categorical(kinds, categories=labels[::-1])}, index=[f"c{i}" for i in range(N)])
    return anndata.AnnData(np.log1p(rng.poisson(rates) / 1.5), obs=obs, var=pd.DataFrame(index=GENES))


def by_gene(adata: Any, column: str, group: str, key: str = KEY) -> Any:
    written = adata.uns[key]
    return pd.Series(written[column][group], index=written["names"][group])[GENES].to_numpy()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_what_is_written_is_what_the_plain_call_says(form: Any) -> None:
    adata = cells()
    plain = SparseMeanDifference().fit(adata, adata.obs["kind"])
    adata.X = form(adata.X)
    result = tl.rank_genes_groups(adata, "kind", corr_method="bonferroni", radius=True, pts=True)
    assert isinstance(result, Comparison)
    written = adata.uns[KEY]
    assert written["names"].dtype.names == ("T", "NK", "B")  # the order of the categories
    for group, estimate in plain.results_.items():
        np.testing.assert_array_equal(by_gene(adata, "pvals", group), estimate.p_values)
        np.testing.assert_array_equal(by_gene(adata, "pvals_adj", group), estimate.p_adjusted)
        np.testing.assert_array_equal(by_gene(adata, "radius", group), estimate.radius)
        np.testing.assert_array_equal(by_gene(adata, "max_contamination", group), estimate.max_contamination)
        np.testing.assert_array_equal(by_gene(adata, "ci_low", group), estimate.intervals[:, 0])
        np.testing.assert_array_equal(np.flatnonzero(by_gene(adata, "selected", group)), estimate.support)
        own = np.asarray(adata.obs["kind"] == group)
        ranks = stats.rankdata(cells().X, axis=0)[own].sum(axis=0)
        mean, sd = own.sum() * (N + 1) / 2, np.sqrt(own.sum() * (~own).sum() * (N + 1) / 12)
        np.testing.assert_allclose(by_gene(adata, "scores", group), (ranks - mean) / sd, rtol=1e-5, atol=1e-6)
        assert (np.diff(written["scores"][group]) <= 0).all()
    tl.rank_genes_groups(adata, "kind", selection="fwer", tie_correct=True, key_added="z")
    for group, estimate in plain.results_.items():
        scores, p = by_gene(adata, "scores", group, "z"), estimate.p_values
        np.testing.assert_allclose(scores, np.sign(estimate.beta) * stats.norm.isf(p / 2), rtol=1e-5, atol=1e-6)
    assert np.flatnonzero(adata.obs[f"{KEY}_suspect"]).tolist() == sorted(plain.suspects_)
    np.testing.assert_array_equal(adata.obs[f"{KEY}_score"], plain.row_scores_)
    share = np.asarray(plain.result_.table(all=True).set_index(["group", "feature"])["share_nonzero_1"].loc["B"])
    found = written["pts"]["B"][plain.result_.table(all=True).query("group == 'B'")["feature"]]
    np.testing.assert_allclose(found[~np.isnan(share)], share[~np.isnan(share)])


def test_scores_go_on_where_p_ends() -> None:
    adata = cells()
    large = anndata.concat([adata] * 40, index_unique="-", merge="same")
    tl.rank_genes_groups(large, "kind", contamination=0, tie_correct=True)
    assert by_gene(large, "pvals", "B")[0] <= np.finfo(float).tiny
    assert np.isfinite(by_gene(large, "scores", "B")).all()
    assert by_gene(large, "scores", "B")[0] > 38  # what the smallest p that a number can hold has


def test_two_groups_are_mirror_images() -> None:
    adata = cells(("A", "B"))
    tl.rank_genes_groups(adata, "kind")
    for column, sign in (("scores", -1), ("logfoldchanges", -1), ("estimate", -1), ("delta", -1), ("pvals_adj", 1)):
        np.testing.assert_allclose(by_gene(adata, column, "A"), sign * by_gene(adata, column, "B"), rtol=1e-6)
    np.testing.assert_array_equal(by_gene(adata, "ci_low", "A"), -by_gene(adata, "ci_high", "B"))
    assert set(adata.uns[KEY]["names"]["A"][:2]) == {"g0", "g1"}
    assert set(adata.uns[KEY]["names"]["B"][:2]) == {"g2", "g3"}
    tl.rank_genes_groups(adata, "kind", reference="B", key_added="against", pts=True)
    assert adata.uns["against"]["names"].dtype.names == ("A",)
    np.testing.assert_array_equal(by_gene(adata, "scores", "A", "against"), by_gene(adata, "scores", "A"))
    assert list(adata.uns["against"]["pts"]) == ["A", "B"]
    assert "pts_rest" not in adata.uns["against"]


def test_some_groups_are_a_smaller_family() -> None:
    adata = cells()
    tl.rank_genes_groups(adata, "kind")
    some = tl.rank_genes_groups(adata, "kind", groups=["B"], selection="fwer", key_added="some")
    assert adata.uns["some"]["names"].dtype.names == ("B",)
    np.testing.assert_array_equal(by_gene(adata, "pvals", "B", "some")[:2], by_gene(adata, "pvals", "B")[:2])
    np.testing.assert_allclose(some.p_adjusted[some.p_values.argmin()], D * some.p_values.min())
    tl.rank_genes_groups(adata, "kind", groups=["B"], reference="T", key_added="one")
    assert adata.uns["one"]["names"].dtype.names == ("B",)
    assert "pts" not in adata.uns["one"]


def test_values_are_those_of_scanpy(tmp_path: Path) -> None:
    adata = cells()
    adata.raw = adata
    adata.layers["half"] = adata.X / 2
    adata.X = (adata.X - adata.X.mean(axis=0)) / adata.X.std(axis=0)
    result = tl.rank_genes_groups(adata, "kind")
    assert "values are those of adata.raw, as scanpy has it where there is one (use_raw=None)" in result.summary()
    assert adata.uns[KEY]["params"] == {
        "groupby": "kind", "reference": "rest", "method": "sparsemean", "use_raw": True, "layer": None,
        "corr_method": "benjamini-hochberg",
    }  # fmt: skip
    with pytest.warns(UserWarning, match=r"^adata\.X has negative values, as if scaled"):
        tl.rank_genes_groups(adata, "kind", use_raw=False, key_added="scaled")
    assert np.isnan(by_gene(adata, "logfoldchanges", "B", "scaled")).all()
    half = tl.rank_genes_groups(adata, "kind", layer="half", key_added="half", selection="fwer")
    assert "values are those of layer 'half'." in half.summary()
    assert adata.uns["half"]["params"]["corr_method"] == "holm"
    np.testing.assert_allclose(
        by_gene(adata, "estimate", "B", "half")[:2], by_gene(adata, "estimate", "B")[:2] / 2, rtol=1e-6
    )
    adata.write_h5ad(tmp_path / "x.h5ad")
    backed = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    tl.rank_genes_groups(backed, "kind", key_added="again")
    for column in ("names", "scores", "pvals_adj", "logfoldchanges", *OURS):
        for group in ("B", "NK", "T"):
            np.testing.assert_array_equal(backed.uns["again"][column][group], backed.uns[KEY][column][group])
            np.testing.assert_array_equal(backed.uns["again"][column][group], adata.uns[KEY][column][group])
    with pytest.raises(InputError, match="adata must not be a view of a backed file"):
        tl.rank_genes_groups(backed[:100], "kind")
    backed.file.close()


def test_counts_and_donors_are_noticed() -> None:
    adata = cells()
    adata.X = np.round(np.expm1(adata.X) * 1.5)
    with pytest.warns(UserWarning, match=r"^adata\.X looks like raw counts"):
        tl.rank_genes_groups(adata, "kind")
    fold = np.log2(adata.X[::3].mean(axis=0) / np.delete(adata.X, np.s_[::3], axis=0).mean(axis=0))
    np.testing.assert_allclose(by_gene(adata, "logfoldchanges", "B"), fold, rtol=1e-5)
    adata = cells()
    adata.obs["patient_id"] = [f"p{i // 24}" for i in range(N)]
    with pytest.warns(UserWarning, match=r"column 'patient_id' with 10 values for 240 cells; pass donors='patient_id'"):
        tl.rank_genes_groups(adata, "kind")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tl.rank_genes_groups(adata, "kind", donors="patient_id")
        tl.rank_genes_groups(adata, "kind", batch="patient_id")


def test_layers_and_results_of_the_estimators() -> None:
    adata = cells()
    adata.layers["centred"] = adata.X - 0.6
    est = SparseMean().fit(adata, layer="centred")
    assert est.feature_names_in_.tolist() == GENES
    np.testing.assert_array_equal(est.mean_, SparseMean().fit(adata.layers["centred"]).mean_)
    view = adata[:, ::2].copy()
    est.result_.to_adata(adata)
    np.testing.assert_array_equal(adata.var["sparsemean_p_value"], est.result_.p_values)
    np.testing.assert_array_equal(np.flatnonzero(adata.obs["sparsemean_suspect"]), np.sort(est.suspects_))
    assert adata.uns["sparsemean"]["n_selected"] == est.support_.size
    kinds = SparseMeanDifference().fit(adata, adata.obs["kind"], layer="centred")
    kinds.result_.to_adata(adata, "kinds")
    kinds.result_.to_adata(adata, "kinds")
    assert adata.var.columns.is_unique
    np.testing.assert_array_equal(adata.var["kinds_NK_vs_rest_p_adjusted"], kinds.results_["NK"].p_adjusted)
    with pytest.raises(InputError, match="adata must be the AnnData of the fit: got AnnData with no gene 'g1'"):
        est.result_.to_adata(view)
    with pytest.raises(InputError, match="adata must be the AnnData of the fit: got AnnData with 100 cells"):
        est.result_.to_adata(adata[:100].copy())
    with pytest.raises(InputError, match="layer must name a layer of the AnnData: got 'x'; it has centred"):
        SparseMean().fit(adata, layer="x")
    with pytest.raises(InputError, match="layer must be left out for all but AnnData"):
        SparseMean().fit(adata.X, layer="x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groupby": "cell"}, "groupby must name a column of obs: got 'cell'; it has kind"),
        ({"donors": "who"}, "donors must name a column of obs: got 'who'"),
        ({"reference": "X"}, r"reference must name groups \(B, NK, T\): got 'X'"),
        ({"groups": "B"}, r"groups must be 'all' or a list of labels: got 'B'; pass \['B'\]"),
        ({"groups": ["B", "X"]}, r"groups must name groups \(B, NK, T\): got 'X'"),
        ({"groups": ["B"], "reference": "B"}, "groups must name a group besides the reference"),
        ({"use_raw": True}, "use_raw must be left out where there is no raw"),
        ({"layer": "x"}, "layer must name a layer of the AnnData: got 'x'; it has none"),
        ({"alternative": "less"}, "options must be among contamination, .*: got alternative"),
        (
            {"donors": "few"},
            "donors must name at least 4 donors with cells on both sides: got 3; pass .* batch=",
        ),
    ],
)
def test_errors_name_the_argument(options: dict[str, Any], message: str) -> None:
    adata = cells()
    adata.obs["few"] = np.repeat(["a", "b", "c"], N // 3)
    with pytest.raises(InputError, match=message):
        tl.rank_genes_groups(adata, **{"groupby": "kind", **options})
    assert KEY not in adata.uns
    with pytest.raises(InputError, match="adata must be an AnnData: got ndarray"):
        tl.rank_genes_groups(adata.X, "kind")


def test_habits_of_scanpy_mean_what_they_do_there() -> None:
    adata = cells()
    whole = tl.rank_genes_groups(adata, "kind", method="wilcoxon", n_genes=3)
    assert "with q ≤ 0.05 by Benjamini–Hochberg" in whole.summary()
    assert [len(adata.uns[KEY]["names"][group]) for group in ("B", "NK", "T")] == [3, 3, 3]
    assert set(adata.uns[KEY]["names"]["B"][:2]) == {"g0", "g1"}
    adata.var["wanted"] = np.arange(D) < 8
    for mask in ("wanted", adata.var["wanted"].to_numpy()):
        tl.rank_genes_groups(adata, "kind", mask_var=mask, pts=True, key_added="some")
        assert sorted(adata.uns["some"]["names"]["B"]) == GENES[:8]
        assert adata.uns["some"]["pts"].index.tolist() == GENES[:8]
    tl.rank_genes_groups(adata, "kind", rankby_abs=True, key_added="abs")
    assert (np.diff(np.abs(adata.uns["abs"]["scores"]["B"])) <= 0).all()
    tl.rank_genes_groups(adata, "kind", mean_in_log_space=False, key_added="raised")
    own = np.asarray(adata.obs["kind"] == "B")
    high, low = (np.expm1(adata.X[rows]).mean(axis=0) + 1e-9 for rows in (own, ~own))
    np.testing.assert_allclose(by_gene(adata, "logfoldchanges", "B", "raised"), np.log2(high / low), rtol=1e-5)
    for options, message in (
        ({"method": "t-test"}, "method must be one of 'wilcoxon': got 't-test'"),
        ({"corr_method": "holm"}, "corr_method must be one of 'benjamini-hochberg', 'bonferroni'"),
        ({"corr_method": "bonferroni", "selection": "fwer"}, "selection must be left out with corr_method"),
        ({"n_genes": 0}, "n_genes must be a number from 1 on"),
        ({"mask_var": "who"}, "mask_var must name a column of var"),
        ({"mask_var": np.ones(3, dtype=bool)}, f"mask_var must be True or False for each of the {D} genes"),
        ({"copy": True}, r"copy must be left out: got True; pass adata.copy\(\)"),
    ):
        with pytest.raises(InputError, match=message):
            tl.rank_genes_groups(adata, "kind", **options)


# Donors.


def test_differences_are_means_of_equally_many_rows() -> None:
    """Values that all rows of a side, donor and batch share do not depend on which rows are drawn."""
    rng = np.random.default_rng(3)
    n = 600
    donor, batch, side = rng.integers(7, size=n), rng.integers(3, size=n), rng.integers(3, size=n)
    side[(donor == 6) & (side == 0)] = 2  # the last donor has no row of the reference
    shared = rng.standard_normal((7, 3, 3, 5))
    X = shared[donor, batch, side]
    expected = np.full((7, 5), np.nan)
    for d in range(6):
        rows = [[np.flatnonzero((donor == d) & (batch == b) & (side == s)) for s in (0, 1)] for b in range(3)]
        k = np.array([min(map(len, pair)) for pair in rows])
        expected[d] = k @ (shared[d, :, 1] - shared[d, :, 0]) / k.sum()
    gaps = X.copy()
    gaps[rng.random(X.shape) < 0.02] = np.nan
    for values in (X, sparse.csr_matrix(X), gaps):
        sides, missing = [side, np.where(side < 2, 1 - side, 2)], "omit" if values is gaps else "raise"
        table, notes, _ = differences_within(as_table(values), sides, donor, batch=batch, missing=missing)
        assert sorted(table.row_names) == list("012345")
        assert notes[0].startswith("6 donors are compared with themselves: the means of as many cells of either side")
        found = np.asarray(table.values)[np.argsort(table.row_names)]
        if values is gaps:  # batches no longer have the same shares on both sides, but one side still mirrors the other
            np.testing.assert_array_equal(found[:, :5], -found[:, 5:])
            assert np.abs(found[:, :5] - expected[:6]).max() < 0.5
            continue
        np.testing.assert_allclose(found[:, :5], expected[:6], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found[:, 5:], -expected[:6], rtol=1e-10, atol=1e-12)


def of_donors(rng: np.random.Generator, n_donors: int, *, effect: float = 0.0) -> Any:
    """Cells of two kinds of many donors, who differ in all genes, in what the kinds do, and in how many there are."""
    each = rng.integers(8, 40, size=n_donors)
    donor = np.repeat(np.arange(n_donors), each)
    kind = rng.random(donor.size) < rng.uniform(0.2, 0.8, size=n_donors)[donor]
    X = rng.standard_t(4, (donor.size, D)) + rng.standard_normal((n_donors, D))[donor]
    X += kind[:, np.newaxis] * rng.standard_normal((n_donors, D))[donor]  # either way, from donor to donor
    X[:, 0] += effect * kind
    obs = pd.DataFrame({"kind": np.where(kind, "b", "a"), "donor": donor.astype(str)})
    return anndata.AnnData(X, obs=obs.set_axis(map(str, obs.index)), var=pd.DataFrame(index=GENES))


@pytest.mark.filterwarnings("ignore:adata.X has negative values", "ignore:1 donor .* on one side only")
def test_donors_are_compared_with_themselves(long_version: bool, claims: Claims) -> None:
    """Kinds differ in every donor, in one gene alone in the same way: cells find all of them, donors that one."""
    runs = 400 if long_version else 30
    rng = np.random.default_rng(20)
    false = [tl.rank_genes_groups(of_donors(rng, 24), "kind", donors="donor").support.size > 0 for _ in range(runs)]
    most = int(stats.binom.isf(1e-3, runs, 0.05))
    claims.add(
        "donors compared with themselves, family-wise error",
        f"{np.mean(false):.3f} of {runs}",
        f"≤ {most / runs:.3f}",
        20,
    )
    assert sum(false) <= most  # one false alarm in a thousand such tests
    adata = of_donors(np.random.default_rng(21), 24, effect=4.0)
    adata.obs["kind"] = adata.obs["kind"].astype("category")
    by_donor = tl.rank_genes_groups(adata, "kind", donors="donor")
    assert by_donor.names(by_donor.support) == ["b: g0"]
    assert adata.uns[KEY]["names"]["b"][0] == adata.uns[KEY]["names"]["a"][-1] == "g0"
    assert adata.uns[KEY]["params"]["donors"] == "donor"
    assert by_gene(adata, "ci_low", "b")[0] < 4.0 < by_gene(adata, "ci_high", "b")[0]
    cells_alone = tl.rank_genes_groups(adata, "kind", batch="donor", key_added="cells", contamination=0)
    assert cells_alone.support.size > 1


@pytest.mark.filterwarnings("ignore:adata.X has negative values")
def test_donors_of_one_group_each_and_what_is_said_of_them() -> None:
    rng = np.random.default_rng(4)
    donor = np.repeat(np.arange(40), 6)
    X = rng.standard_normal((240, D)) + rng.standard_normal((40, D))[donor]
    sick = donor % 2 == 1
    X[sick, :8] += 5.0
    X[donor == 3, :8] -= 5.0  # a donor of the other group
    obs = pd.DataFrame({"sick": np.where(sick, "yes", "no"), "donor": donor}, index=[f"c{i}" for i in range(240)])
    adata = anndata.AnnData(X, obs=obs, var=pd.DataFrame(index=GENES))
    tl.rank_genes_groups(adata, "sick", donors="donor", reference="no")
    plain = SparseMeanDifference().fit(X, obs["sick"], groups=obs["donor"])
    np.testing.assert_array_equal(by_gene(adata, "pvals", "yes"), plain.result_.p_values)
    assert plain.suspects_.tolist() == [3]
    assert set(adata.obs.loc[adata.obs[f"{KEY}_suspect"], "donor"]) == {3}
    assert adata.obs[f"{KEY}_suspect"].sum() == 6


def nested(n_donors: int = 24, each: int = 20) -> Any:
    """Cells of donors of whom every second is ill, in which two genes differ."""
    rng = np.random.default_rng(6)
    donor = np.repeat(np.arange(n_donors), each)
    X = rng.gamma(2.0, size=(donor.size, D)) + rng.gamma(2.0, size=(n_donors, D))[donor]
    X[donor % 2 == 1, :2] += 8.0
    obs = pd.DataFrame({"ill": np.where(donor % 2, "yes", "no"), "donor": [f"d{i}" for i in donor]})
    obs["ill"] = obs["ill"].astype("category")
    return anndata.AnnData(X, obs=obs.set_axis([f"c{i}" for i in obs.index]), var=pd.DataFrame(index=GENES))


def test_stray_cells_do_not_turn_groups_of_donors_into_pairs() -> None:
    adata = nested()
    adata.obs.loc[["c1", "c2", "c45"], "ill"] = ["yes", "yes", "yes"]
    with pytest.raises(
        InputError,
        match=r"got 2 of 24 donors with cells of several groups \(d0, d2\), by 3 cells off their donor's main group "
        r"\(c1, c2, c45\); drop these cells to compare groups of donors, or the 22 donors of one group",
    ):
        tl.rank_genes_groups(adata, "ill", donors="donor")
    clean = adata[~adata.obs_names.isin(["c1", "c2", "c45"])].copy()
    result = tl.rank_genes_groups(clean, "ill", donors="donor")
    assert result.names(result.support) == ["g0", "g1"]


def test_donors_of_one_side_are_left_out_aloud() -> None:
    """Sixteen donors have both kinds, eight have one: the sixteen are compared as if the others were not there."""
    adata = nested()
    alone = adata.obs["donor"].isin([f"d{i}" for i in range(8)]).to_numpy()
    adata.obs["kind"] = np.where(alone, "a", np.where(np.arange(adata.n_obs) % 2, "a", "b"))
    with pytest.warns(UserWarning, match=r"^8 donors \(d0, d1, d2, …\) have cells on one side only: left out, as 16"):
        result = tl.rank_genes_groups(adata, "kind", donors="donor")
    assert result.status.messages[0].startswith("8 donors")
    assert "no donor is wrong" in result.summary()
    part = adata[~alone].copy()
    tl.rank_genes_groups(part, "kind", donors="donor")
    np.testing.assert_allclose(by_gene(part, "delta", "b"), by_gene(adata, "delta", "b"), atol=0.5)  # other draws
    assert adata.obs[f"{KEY}_score"].isna().to_numpy().tolist() == alone.tolist()
    adata.obs["kind"] = (adata.obs["ill"] == "yes") ^ (np.arange(adata.n_obs) % 20 == 0)  # one stray cell in each donor
    with pytest.warns(UserWarning, match="^24 of 240 cells of the smaller side are used"):
        tl.rank_genes_groups(adata, "kind", donors="donor")


def test_a_tiny_donor_does_not_cost_the_others_their_cells() -> None:
    adata = nested()
    adata = adata[(adata.obs["donor"] != "d3") | adata.obs_names.isin(["c60", "c61"])].copy()
    assert "2 to 20 rows of each" in tl.rank_genes_groups(adata, "ill", donors="donor").summary().replace("cell", "row")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tl.rank_genes_groups(adata, "ill", donors="donor", min_cells=10)
    assert "1 donor (d3) has fewer than 10 cells: left out" in result.status.messages
    without = adata[adata.obs["donor"] != "d3"].copy()
    plain = tl.rank_genes_groups(without, "ill", donors="donor")
    np.testing.assert_array_equal(result.p_values, plain.p_values)
    assert adata.obs.loc[adata.obs[f"{KEY}_score"].isna(), "donor"].tolist() == ["d3", "d3"]
    adata.obs["kind"] = np.where(np.arange(adata.n_obs) % 3, "a", "b")
    crossed = tl.rank_genes_groups(adata, "kind", donors="donor", min_cells=2)
    assert "1 donor (d3) has fewer than 2 cells on a side: left out" in crossed.status.messages
    with pytest.raises(InputError, match="min_cells must leave cells to compare: got none: 24 donors"):
        tl.rank_genes_groups(adata, "ill", donors="donor", min_cells=500)


def test_too_few_donors_are_told_what_helps() -> None:
    adata = nested(6)
    said = tl.rank_genes_groups(adata, "ill", donors="donor", selection="fwer").summary()
    assert said.startswith("3 against 3 donors cannot show a difference in any of 20 genes, whatever the data.")
    assert "The smallest p they can give is 0.1; 0.0025 is needed. 6 against 6 donors could. With fewer" in said
    with pytest.raises(
        InputError, match="donors must name two subjects or more of each class: got one subject of class 'no'"
    ):
        tl.rank_genes_groups(adata[:40].copy(), "ill", donors="donor")
    adata.obs["kind"] = np.arange(adata.n_obs) % 2
    few = tl.rank_genes_groups(adata, "kind", donors="donor", selection="fwer")
    assert few.summary().startswith("6 donors cannot show an effect in any of 20 genes, whatever the data.")
    said = tl.rank_genes_groups(nested(8), "ill", donors="donor", selection="fwer").summary()
    assert said.startswith("4 against 4 donors cannot show")
    assert "limma or DESeq2 for genes" in said


@pytest.mark.filterwarnings("ignore:adata.X has negative values")
def test_suspects_that_are_not_counted_are_not_marked() -> None:
    X = np.random.default_rng(7).standard_normal((100, 200))
    X[50:, :20] += 4.0
    X[7] *= 4.0
    X[8, :20] += 4.0  # of the other kind
    kinds = np.repeat(["a", "b"], 50)
    adata = anndata.AnnData(X, obs=pd.DataFrame({"kind": kinds}, index=[f"c{i}" for i in range(100)]))
    result = tl.rank_genes_groups(adata, "kind")
    said = dict(zip(result.rows.suspects.tolist(), result.rows.kinds, strict=True))
    assert said == {7: "large throughout", 8: "contradicts its label"}
    assert np.flatnonzero(adata.obs[f"{KEY}_suspect"]).tolist() == [8]


def test_labels_that_files_cannot_store_have_no_shares_unless_asked_for(tmp_path: Path) -> None:
    for label in ("", "CD4/CD8"):
        adata = cells((label, "T"))
        tl.rank_genes_groups(adata, "kind")
        assert "pts" not in adata.uns[KEY]
        assert adata.uns[KEY]["names"].dtype.names == ("T", label)
        adata.write_h5ad(tmp_path / "x.h5ad")
        tl.rank_genes_groups(adata, "kind", pts=True)
        assert list(adata.uns[KEY]["pts"]) == ["T", label]


# Labels that are not needed.


def test_labels_that_are_not_needed_do_not_block() -> None:
    adata = cells()
    adata.obs["some"] = adata.obs["kind"].where(np.arange(N) >= 30)
    result = tl.rank_genes_groups(adata, "some", key_added=None)
    assert adata.uns[KEY]["names"].dtype.names == ("T", "NK", "B")
    assert "30 cells without a label: part of the rest, as in scanpy" in result.summary()
    named = adata.obs["some"].astype(object).fillna("zz")
    plain = SparseMeanDifference().fit(adata, named)
    np.testing.assert_array_equal(by_gene(adata, "pvals", "B"), plain.results_["B"].p_values)
    part = adata[30:].copy()
    for data in (adata, part):
        tl.rank_genes_groups(data, "some", groups=["B"], reference="T", key_added="two")
    np.testing.assert_array_equal(by_gene(adata, "pvals", "B", "two"), by_gene(part, "pvals", "B", "two"))
    adata.obs["rare"] = np.where(np.arange(N) == 0, "rare", adata.obs["kind"].astype(str))
    result = tl.rank_genes_groups(adata, "rare", key_added="rare")
    assert adata.uns["rare"]["names"].dtype.names == ("B", "NK", "T")
    assert "not tested, as there is one cell of each: rare" in result.summary()
    assert "rare" not in tl.rank_genes_groups(adata, "rare", groups=["B"], reference="T").summary()
    with pytest.raises(InputError, match="groups must name groups of two cells or more: got 'rare' with one"):
        tl.rank_genes_groups(adata, "rare", groups=["rare"])


def test_results_that_have_no_place_in_var_say_where_they_are() -> None:
    adata = cells()
    adata.raw = adata.copy()
    adata = adata[:, :10].copy()
    result = tl.rank_genes_groups(adata, "kind")
    with pytest.raises(InputError, match=r"got no 'g10', which is in raw; pass adata\.raw\.to_adata\(\), or test X"):
        result.to_adata(adata)
    whole = adata.raw.to_adata()
    result.to_adata(whole)
    np.testing.assert_array_equal(whole.var["sparsemean_B_vs_rest_p_value"], result.results["B"].p_values)
    adata.obs["donor"] = [f"d{i // 24}" for i in range(N)]
    within = tl.rank_genes_groups(adata, "kind", donors="donor", use_raw=False)
    with pytest.raises(InputError, match=r"got 'B: g0', the difference of a gene within donors; take table"):
        within.to_adata(adata)


def test_names_that_are_not_unique_are_mended_in_memory() -> None:
    adata = cells()
    twice = adata.copy()
    twice.var_names = ["g0", "g0", *GENES[2:]]
    with pytest.raises(InputError, match=r"got 'g0' more than once; call adata\.var_names_make_unique\(\)$"):
        tl.rank_genes_groups(twice, "kind")
    adata.raw = twice
    with pytest.raises(InputError, match=r"got 'g0' more than once; test X with use_raw=False, or set adata"):
        tl.rank_genes_groups(adata, "kind")


def test_donors_of_labels_that_are_compared() -> None:
    adata, plain = nested(), nested()
    adata.obs["ill"] = adata.obs["ill"].cat.add_categories(["unknown"])
    adata.obs.loc[adata.obs_names[::10], "ill"] = "unknown"
    adata.obs.loc[adata.obs_names[1::10], "ill"] = np.nan
    known = adata.obs["ill"].isin(["yes", "no"]).to_numpy()
    result = tl.rank_genes_groups(adata, "ill", donors="donor", groups=["yes"], reference="no")
    np.testing.assert_array_equal(
        result.p_values, tl.rank_genes_groups(plain[known].copy(), "ill", donors="donor").p_values
    )
    assert "48 cells without a label: left out" in result.status.messages


def test_batches_of_one_group_are_left_out() -> None:
    adata = cells()
    adata.obs["plate"] = np.where(np.arange(N) < 60, "p0", np.where(np.arange(N) < 150, "p1", "p2"))
    adata.obs.loc[adata.obs["plate"] == "p0", "kind"] = "B"
    result = tl.rank_genes_groups(adata, "kind", batch="plate")
    assert "1 of 3 values of batch (p0) has cells of one group only: left out" in result.summary()
    plain = tl.rank_genes_groups(adata[60:].copy(), "kind", batch="plate")
    np.testing.assert_array_equal(result.results["B"].p_values, plain.results["B"].p_values)
    assert adata.obs[f"{KEY}_score"].isna().sum() == 60
    adata.obs["plate"] = adata.obs["kind"].astype(str)
    with pytest.raises(InputError, match=r"batch must leave cells to compare: got none: 3 of 3 values of batch"):
        tl.rank_genes_groups(adata, "kind", batch="plate")
