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

from sparsemean import InputError, SparseMeanDifference, experiments

COLUMNS = ["sessions", "orders", "revenue"]


@pytest.fixture(scope="module")
def users() -> pa.Table:
    return tt.make_users_data(rng=42, n_users=3000, orders_uplift=0.4, revenue_uplift=0.4)


def same(one: Any, other: Any) -> None:
    assert list(one) == list(other)
    pd.testing.assert_frame_equal(one.to_pandas(), other.to_pandas())


def test_without_suspects_levels_and_intervals_are_those_of_its_mean(users: pa.Table) -> None:
    for alternative in ("two-sided", "greater"):
        with tt.config_context(confidence_level=0.9, alternative=alternative):
            ours = tt.Experiment(experiments.metrics(COLUMNS)).analyze(users)
            theirs = tt.Experiment({column: tt.Mean(column) for column in COLUMNS}).analyze(users)
        for column in COLUMNS:
            assert ours[column].suspects == 0
            for field in theirs[column]._fields[:8]:
                np.testing.assert_allclose(getattr(ours[column], field), getattr(theirs[column], field), rtol=1e-10)


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


def test_p_values_are_those_of_the_fit(users: pa.Table) -> None:
    result = tt.Experiment(experiments.metrics(COLUMNS, contamination=0.002)).analyze(users)
    frame = users.to_pandas()
    est = SparseMeanDifference(0.002, reference=0).fit(frame[COLUMNS], frame["variant"])
    np.testing.assert_allclose([result[name].pvalue for name in COLUMNS], est.result_.p_values)
    np.testing.assert_allclose([result[name].max_contamination for name in COLUMNS], est.result_.max_contamination)
    assert [result[name].verdict for name in COLUMNS] == ["no difference shown", "up", "up"]


def test_without_bad_users_p_is_that_of_its_mann_whitney() -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"variant": np.repeat([0, 1], 60), "minutes": rng.lognormal(np.repeat([0.0, 0.3], 60))})
    both = {"theirs": tt.MannWhitneyU("minutes", method="exact"), **experiments.metrics("minutes", contamination=0)}
    result = tt.Experiment(both).analyze(frame)
    np.testing.assert_allclose(result["minutes"].pvalue, result["theirs"].pvalue, rtol=1e-5)


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
        assert line["null_rejected"] == (ours.verdict in ("up", "down", "differs"))
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
    assert result["clicks"].verdict == "no difference shown"
    assert result["clicks"].effect_size_ci_lower < 0 < result["clicks"].effect_size_ci_upper


def test_what_is_shown_and_stored(users: pa.Table) -> None:
    experiment = tt.Experiment(experiments.metrics({"orders per user": "orders"}), mean=tt.Mean("orders"))
    result = experiment.analyze(users)
    assert "orders per user" in str(result)
    for table in (result.to_arrow(), result.to_polars(), result.to_pandas()):
        assert len(table["verdict"]) == 2
    assert "up" in str(result.with_keys(("metric", "pvalue", "max_contamination", "suspects", "verdict")))
    assert "RobustDifference('orders'" in repr(experiment)
    same(pickle.loads(pickle.dumps(experiment)).analyze(users), result)


def test_simulations_without_effect(users: pa.Table) -> None:
    """At level .05 p is smaller in 9 of 60 simulations and more with probability .003."""
    sessions = tt.make_users_data(rng=5, n_users=600)
    simulated = tt.Experiment(experiments.metrics(COLUMNS)).simulate(sessions, 60, rng=0)
    p = np.array([[each[name].pvalue for name in COLUMNS] for each in simulated])
    assert ((p <= 0.05).sum(axis=0) <= 8).all()


def test_text_is_no_metric(users: pa.Table) -> None:
    frame = pl.from_arrow(users).with_columns(country=pl.lit("DE"))
    with pytest.raises(InputError, match="country"):
        tt.Experiment(experiments.metrics(["orders", "country"])).analyze(frame)
    gaps = pl.from_arrow(users).with_columns(orders=pl.when(pl.col("user") > 9).then(pl.col("orders")))
    with pytest.raises(InputError, match="missing"):
        tt.Experiment(experiments.metrics(COLUMNS)).analyze(gaps)
    found = tt.Experiment(experiments.metrics(COLUMNS, missing="omit")).analyze(gaps)
    theirs = tt.Experiment(orders=tt.Mean("orders")).analyze(gaps.filter(pl.col("user") > 9))
    assert found["orders"].effect_size == pytest.approx(theirs["orders"].effect_size)
