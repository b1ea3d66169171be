"""tea-tasting takes our metrics as its own: frames, databases, variants, adjustments, simulations, tables."""

from __future__ import annotations

import pickle
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tea_tasting as tt
from scipy import stats

from sparsemean import InputError, SparseMeanDifference, experiments

COLUMNS = ["sessions", "orders", "revenue"]


@pytest.fixture(scope="module")
def users() -> pa.Table:
    return tt.make_users_data(rng=42, n_users=3000, orders_uplift=0.4, revenue_uplift=0.4)


def same(one: Any, other: Any) -> None:
    assert list(one) == list(other)
    pd.testing.assert_frame_equal(one.to_pandas(), other.to_pandas())


def test_without_bots_numbers_are_those_of_its_own_metrics(users: pa.Table) -> None:
    """Lift to 1e-9, interval and p; of means, of conversions and of ratios of totals."""
    frame = users.to_pandas()
    frame["bought"] = frame["orders"] > 0
    own = [*COLUMNS, "bought"]
    for alternative in ("two-sided", "greater"):
        with tt.config_context(confidence_level=0.9, alternative=alternative):
            ours = tt.Experiment(experiments.metrics(own, ratios={"rate": ("orders", "sessions")})).analyze(frame)
            theirs = tt.Experiment(
                {column: tt.Mean(column) for column in COLUMNS},
                rate=tt.RatioOfMeans("orders", "sessions"), bought=tt.Proportion("bought", method="norm"),
            ).analyze(frame)  # fmt: skip
        for column in (*own, "rate"):
            assert ours[column].suspects == 0
            np.testing.assert_allclose(ours[column].rel_effect_size, theirs[column].rel_effect_size, rtol=1e-9)
        for column in (*COLUMNS, "rate"):
            for field in (*theirs[column]._fields[:8], "pvalue"):
                expected = getattr(theirs[column], field)
                np.testing.assert_allclose(getattr(ours[column], field), expected, rtol=1e-9, err_msg=field)
        # Its variance is that of both variants together, as under the null.
        z = [stats.norm.isf(found["bought"].pvalue) for found in (ours, theirs)]
        np.testing.assert_allclose(*z, rtol=0.01)


def test_sizes_of_arms_are_judged_as_its_sample_ratio_does(users: pa.Table) -> None:
    frame = users.to_pandas()
    frame = frame[(frame["variant"] == 0) | (frame.index % 7 > 0)]
    theirs = tt.Experiment(ratio=tt.SampleRatio(method="norm", correction=False)).analyze(frame)["ratio"].pvalue
    headline = experiments.analyze(frame, user="user", metrics=COLUMNS).headline[0]
    assert f"p = {theirs:.1g}" in headline


def test_verdicts_agree_where_there_are_no_bots() -> None:
    """60 experiments with 8 metrics, some of which differ: Holm's rule on its p-values, and our verdicts."""
    rng, same, total = np.random.default_rng(10_000), 0, 0
    for _ in range(60):
        n, new = 4000, rng.random(4000) < 0.5
        lifts = rng.choice([0.0, 0.0, 0.06, 0.15], 8)
        activity = rng.gamma(1.5, 1, (n, 1))
        frame = pd.DataFrame(rng.poisson(3 * activity * (1 + np.outer(new, lifts))), columns=list("abcdefgh"))
        frame["variant"] = np.where(new, 1, 0)
        theirs = tt.Experiment({name: tt.Mean(name) for name in "abcdefgh"}).analyze(frame)
        holm = {
            line["metric"]: bool(line["null_rejected"])
            for line in tt.adjust_fwer(theirs, arbitrary_dependence=True, method="bonferroni").to_dicts()
        }
        card = experiments.analyze(frame).table.set_index("metric")
        same += sum(holm[name] == card.loc[name, "verdict"].startswith(("up", "down")) for name in "abcdefgh")
        total += 8
    assert same >= 0.95 * total


def test_cuped_narrows_intervals_as_that_of_its_mean_does() -> None:
    """Both take off a slope times the earlier value, ours by ranks: effects and widths are near each other."""
    users = tt.make_users_data(rng=42, n_users=6000, covariates=True)
    ours = experiments.metrics("sessions", covariates={"sessions": "sessions_covariate"})
    theirs = {"theirs": tt.Mean("sessions", "sessions_covariate"), "plain": tt.Mean("sessions")}
    result = tt.Experiment(ours | theirs).analyze(users)
    widths = {name: each.effect_size_ci_upper - each.effect_size_ci_lower for name, each in result.items()}
    assert widths["sessions"] < 1.02 * widths["theirs"] < 0.9 * widths["plain"]
    for field in ("control", "treatment"):
        assert getattr(result["sessions"], field) == pytest.approx(getattr(result["theirs"], field), rel=0.002)


def test_certificates_are_those_of_the_fit(users: pa.Table) -> None:
    result = tt.Experiment(experiments.metrics(COLUMNS, contamination=0.002)).analyze(users)
    frame = users.to_pandas()
    est = SparseMeanDifference(0.002, reference=0).fit(frame[COLUMNS], frame["variant"])
    np.testing.assert_allclose([result[name].pvalue_certified for name in COLUMNS], est.result_.p_values)
    assert [result[name].verdict.rstrip("*") for name in COLUMNS] == ["unclear", "up", "up"]
    sure = [name for name in COLUMNS if result[name].verdict == "up"]
    known = dict(zip(COLUMNS, est.result_.max_contamination, strict=True))
    np.testing.assert_allclose([result[name].max_contamination for name in sure], [known[name] for name in sure])


def test_without_bad_users_a_certificate_is_that_of_its_mann_whitney() -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"variant": np.repeat([0, 1], 60), "minutes": rng.lognormal(np.repeat([0.0, 0.3], 60))})
    both = {"theirs": tt.MannWhitneyU("minutes", method="exact"), **experiments.metrics("minutes", contamination=0)}
    result = tt.Experiment(both).analyze(frame)
    np.testing.assert_allclose(result["minutes"].pvalue_certified, result["theirs"].pvalue, rtol=1e-5)


def test_every_kind_of_table(users: pa.Table) -> None:
    experiment = tt.Experiment(experiments.metrics(COLUMNS), ratio=tt.SampleRatio(), mean=tt.Mean("orders"))
    expected = experiment.analyze(users)
    frame = pl.from_arrow(users)
    for table in (frame, frame.lazy(), users.to_pandas(), duckdb.sql("SELECT * FROM users")):
        found = experiment.analyze(table)
        same(found, expected)
    names = frame.with_columns(variant=pl.when(pl.col("variant") == 1).then(pl.lit("new")).otherwise(pl.lit("control")))
    same(experiment.analyze(names), expected)
    decimals = frame.with_columns(pl.col("revenue").cast(pl.Decimal(12, 2)), pl.col("orders") > 0)
    assert experiment.analyze(decimals)["revenue"].control == pytest.approx(expected["revenue"].control)


def test_its_adjustments(users: pa.Table) -> None:
    result = tt.Experiment(experiments.metrics(COLUMNS, contamination=0.001), ratio=tt.SampleRatio()).analyze(users)
    holm = tt.adjust_fwer(result, COLUMNS, arbitrary_dependence=True, method="bonferroni")
    for line in holm.to_dicts():
        ours = result[line["metric"]]
        np.testing.assert_allclose(line["pvalue_adj"], ours.pvalue_adj, rtol=1e-12)
        assert line["null_rejected"] == ours.verdict.startswith(("up", "down"))
    fdr = tt.adjust_fdr(result, COLUMNS)
    assert [line["null_rejected"] for line in fdr.to_dicts()] == [0, 1, 1]


def test_several_variants(users: pa.Table) -> None:
    frame = pl.from_arrow(users)
    third = frame.filter(pl.col("variant") == 1).with_columns(variant=pl.lit(2, pl.Int64), orders=pl.col("orders") + 1)
    results = tt.Experiment(experiments.metrics(COLUMNS)).analyze(
        pl.concat([frame, third]), control=0, all_variants=True
    )
    assert list(results) == [(0, 1), (0, 2)]
    assert results[0, 2]["orders"].effect_size == pytest.approx(results[0, 1]["orders"].effect_size + 1)
    same(results[0, 1], tt.Experiment(experiments.metrics(COLUMNS)).analyze(users))
    adjusted = tt.adjust_fwer(results, arbitrary_dependence=True, method="bonferroni")
    assert len(adjusted.to_dicts()) == 6


def test_bots(users: pa.Table) -> None:
    """A script in one variant makes its mean differ; ours leaves it out, and says how many look bad."""
    rng, frame = (
        np.random.default_rng(1),
        tt.make_users_data(rng=3, n_users=3000, return_type="pandas", orders_uplift=0),
    )
    for name in ("clicks", "searches", "shares"):
        frame[name] = rng.poisson(3, len(frame))
    bots = frame.index[frame["variant"] == 1][:25]
    for name in ("clicks", "searches", "shares"):
        frame.loc[bots, name] = rng.poisson(200, 25)
    columns = [*COLUMNS, "clicks", "searches", "shares"]
    result = tt.Experiment(experiments.metrics(columns), mean=tt.Mean("clicks")).analyze(frame)
    assert result["mean"].pvalue < 1e-4
    assert result["clicks"].suspects >= 20
    assert result["clicks"].verdict == "unclear"
    assert result["clicks"].effect_size_ci_lower < 0 < result["clicks"].effect_size_ci_upper


def test_what_is_shown_and_stored(users: pa.Table) -> None:
    experiment = tt.Experiment(experiments.metrics({"orders per user": "orders"}), mean=tt.Mean("orders"))
    result = experiment.analyze(users)
    assert "orders per user" in str(result)
    for table in (result.to_arrow(), result.to_polars(), result.to_pandas()):
        assert len(table["verdict"]) == 2
    assert "up" in str(result.with_keys(("metric", "pvalue", "pvalue_certified", "suspects", "verdict")))
    assert "RobustDifference('orders'" in repr(experiment)
    same(pickle.loads(pickle.dumps(experiment)).analyze(users), result)


def test_simulations_without_effect(users: pa.Table) -> None:
    """At level .05 p is smaller in 9 of 60 simulations and more with probability .003."""
    sessions = tt.make_users_data(rng=5, n_users=600)
    simulated = tt.Experiment(experiments.metrics(COLUMNS)).simulate(sessions, 60, rng=0)
    p = np.array([[each[name].pvalue for name in COLUMNS] for each in simulated])
    assert ((p <= 0.05).sum(axis=0) <= 8).all()


def test_power_is_that_of_its_mean_at_a_part_of_the_level(users: pa.Table) -> None:
    made = experiments.metrics(["sessions", "orders"], ratios={"rate": ("orders", "sessions")})
    found = tt.Experiment(made).solve_power(users, "rel_effect_size")
    theirs = tt.Mean("orders", alpha=0.05 / 3).solve_power(users, "rel_effect_size")
    assert [one.rel_effect_size for one in found["orders"]] == [one.rel_effect_size for one in theirs]
    assert set(found) == {"sessions", "orders", "rate"}


def test_text_is_no_metric(users: pa.Table) -> None:
    frame = pl.from_arrow(users).with_columns(country=pl.lit("DE"))
    with pytest.raises(InputError, match="country"):
        tt.Experiment(experiments.metrics(["orders", "country"])).analyze(frame)
    gaps = pl.from_arrow(users).with_columns(orders=pl.when(pl.col("user") > 9).then(pl.col("orders")))
    found = tt.Experiment(experiments.metrics(COLUMNS)).analyze(gaps)
    theirs = tt.Experiment(orders=tt.Mean("orders")).analyze(gaps.filter(pl.col("user") > 9))
    assert found["orders"].effect_size == pytest.approx(theirs["orders"].effect_size)
