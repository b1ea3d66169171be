"""The scorecard of an experiment: its numbers against closed forms, its verdicts against a simulated truth.

At level 0.05 a run of simulated experiments without any effect has a verdict other than "no difference shown" with
probability 0.05 at most: more than 4 of 20 runs have a chance below 0.003, more than 35 of 400 one below 0.001.
"""

from __future__ import annotations

import pickle
import sys
import types
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from sparsemean import Comparison, InputError, SparseMeanDifference, certify, experiments, load
from sparsemean.errors import MissingExtraError
from sparsemean.experiments import Scorecard, scorecard

from command import expect
from conftest import Claims

METRICS = ["converted", "orders", "revenue", "visits", "search", "click", "like", "share", "help"]
RATES = (4.0, 3.0, 8.0, 1.0, 0.5, 0.2)


def visitors(rng: Any, n: int, bots: int, *, effect: bool = False) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Users of a shop and their arm; the bots, all in one arm, search, click and share."""
    arm = rng.choice(["control", "new"], n)
    new, activity = arm == "new", rng.lognormal(0, 0.7, n)
    orders = (rng.random(n) < np.where(new & effect, 0.15, 0.10)) * (1.0 + rng.poisson(0.3, n))
    counts = np.column_stack([rng.poisson(rate * activity) for rate in RATES]).astype(float)
    if effect:
        counts[:, 1] = rng.poisson(RATES[1] * activity * np.where(new, 0.8, 1.0))
    values = np.column_stack((orders > 0, orders, orders * rng.lognormal(3.2, 0.9, n), counts))
    at = rng.choice(np.flatnonzero(new), bots, replace=False)
    values[np.ix_(at, [4, 5, 7])] = rng.poisson(300, (bots, 3))
    values[at, :3] = 0
    return pd.DataFrame(values, columns=METRICS, index=[f"u{i}" for i in range(n)]), arm, at


def of(X: Any, arm: Any, *, reference: Any = "control", **params: Any) -> Any:
    return SparseMeanDifference(reference=reference, **params).fit(X, arm).result_


def lines(card: Scorecard) -> pd.DataFrame:
    return card.table.set_index("metric")


# Numbers.


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_without_suspects_intervals_are_welchs(alternative: str) -> None:
    X, arm, _ = visitors(np.random.default_rng(0), 600, 0)
    X.iloc[::7, 3] = np.nan
    card = scorecard(of(X, arm, alternative=alternative, missing="omit"), level=0.9)
    assert not len(card.suspects)
    for metric, line in lines(card).iterrows():
        one, zero = (X[metric][arm == name].dropna() for name in ("new", "control"))
        ends = stats.ttest_ind(one, zero, equal_var=False, alternative=alternative).confidence_interval(0.9)
        np.testing.assert_allclose(line[["control", "treatment"]].astype(float), (zero.mean(), one.mean()))
        np.testing.assert_allclose(line["difference"], one.mean() - zero.mean())
        np.testing.assert_allclose(line[["difference_low", "difference_high"]].astype(float), ends)
        np.testing.assert_allclose(line["lift"], 100 * (one.mean() / zero.mean() - 1))
        errors = np.array([x.var() / len(x) / x.mean() ** 2 for x in (one, zero)])
        degrees = errors.sum() ** 2 / np.sum(errors**2 / (np.array([len(one), len(zero)]) - 1))
        t = stats.t.ppf(0.95 if alternative == "two-sided" else 0.9, degrees) * np.sqrt(errors.sum())
        low, high = (100 * (one.mean() / zero.mean() * np.exp(step) - 1) for step in (-t, t))
        np.testing.assert_allclose(line["lift_low"], -100 if alternative == "less" else low)
        np.testing.assert_allclose(line["lift_high"], np.inf if alternative == "greater" else high)


def test_everything_else_is_that_of_the_fit() -> None:
    X, arm, _ = visitors(np.random.default_rng(1), 900, 8, effect=True)
    result = of(X, arm)
    card, full = lines(scorecard(result)), result.table(all=True).set_index("feature")
    ours = ["p_value", "p_adjusted", "survives", "auc"]
    theirs = full.loc[card.index, ["p_value", "p_adjusted", "max_contamination", "auc"]]
    np.testing.assert_array_equal(card[ours], theirs)


def test_a_metric_without_a_lift() -> None:
    rng = np.random.default_rng(2)
    arm = np.repeat(["control", "new"], 200)
    X = pd.DataFrame({"balance": rng.normal(-1, 1, 400), "same": 3.0, "none": np.where(arm == "new", np.nan, 1.0)})
    card = scorecard(of(X, arm, missing="omit"))
    line = lines(card).loc["balance"]
    assert np.isnan(line[["lift", "lift_low", "lift_high"]].astype(float)).all()
    assert line["difference_low"] < line["difference"] < line["difference_high"]
    assert lines(card)["verdict"].to_dict() == {
        "balance": "no difference shown", "same": "not checkable", "none": "not checkable",
    }  # fmt: skip
    assert "–" in str(card)


# Verdicts, and who is suspect.


@pytest.fixture(scope="module")
def shop() -> tuple[Scorecard, pd.DataFrame, np.ndarray, np.ndarray]:
    X, arm, bots = visitors(np.random.default_rng(3), 9000, 40, effect=True)
    return scorecard(of(X, arm)), X, arm, bots


def test_bots_are_named_and_left_out(shop: Any) -> None:
    card, X, arm, bots = shop
    left_out = card.suspects[card.suspects["left_out"]]
    assert {f"u{i}" for i in bots} >= set(left_out["user"])
    assert len(left_out) >= 30
    assert set(left_out["kind"]) == {"off together"}
    assert set(left_out["arm"]) == {"new"}
    assert left_out["metrics"].str.contains("share").all()
    kept = ~X.index.isin(left_out["user"])
    for name, column in (("control", "control"), ("new", "treatment")):
        np.testing.assert_allclose(lines(card)[column], X[kept & (arm == name)].mean()[lines(card).index])
    named = scorecard(card.result, users=[f"visitor {i}" for i in range(len(X))])
    assert [f"visitor {user.removeprefix('u')}" for user in card.suspects["user"]] == named.suspects["user"].tolist()
    assert named.suspects["user"][0] in str(named)


def test_whom_means_leave_out(shop: Any) -> None:
    card, X, arm, bots = shop
    everybody, fewer = (scorecard(card.result, leave_out=whom) for whom in ("nobody", "suspects"))
    assert not everybody.suspects["left_out"].any()
    assert fewer.suspects["left_out"].all()
    assert set(fewer.suspects["user"]) == {f"u{i}" for i in bots}
    for other, kept in ((everybody, slice(None)), (fewer, ~X.index.isin(fewer.suspects["user"]))):
        np.testing.assert_allclose(lines(other)["treatment"], X[kept][arm[kept] == "new"].mean()[lines(other).index])
        np.testing.assert_array_equal(lines(other)["p_value"].sort_index(), lines(card)["p_value"].sort_index())
    assert "(40) left out" in str(fewer)
    assert lines(fewer).loc["share", "lift_low"] < 0 < lines(fewer).loc["share", "lift_high"]
    with pytest.raises(InputError, match="leave_out must be one of"):
        scorecard(card.result, leave_out="bots")


def test_verdicts(shop: Any) -> None:
    card, X, arm, _ = shop
    words = lines(card)["verdict"]
    assert words["search"] == "down"
    assert set(words[["converted", "orders", "revenue"]]) <= {"up", "up without suspects"}
    assert set(words[["visits", "click", "like", "share", "help"]]) == {"no difference shown"}
    plain = stats.ttest_ind(X["search"][arm == "new"], X["search"][arm == "control"])
    assert plain.statistic > 2  # the script turns the sign


def test_what_the_users_who_are_left_say(shop: Any) -> None:
    """It is the fit of these users alone; and the verdict is about them where the fit of all has none."""
    card, X, arm, _ = shop
    kept = ~X.index.isin(card.suspects["user"][card.suspects["left_out"]])
    alone = of(X[kept], arm[kept], contamination=0)
    table = lines(card)
    np.testing.assert_allclose(table.loc[X.columns, "p_without_suspects"], alone.p_values)
    strict = lines(scorecard(of(X, arm, contamination=0.02)))["verdict"]
    assert strict["search"] == "down"
    assert set(strict[["converted", "orders", "revenue"]]) == {"up without suspects"}


def test_an_allowance_where_nobody_is_suspect() -> None:
    X, arm, _ = visitors(np.random.default_rng(4), 3000, 0, effect=True)
    result = of(X, arm, contamination=0.02)
    card = scorecard(result)
    np.testing.assert_allclose(lines(card).loc[X.columns, "p_without_suspects"], result.at(0).p_values)
    assert lines(card).loc["search", "verdict"] in ("down", "down if nobody is bad")
    assert "up if nobody is bad" in set(lines(card)["verdict"])
    assert "* if nobody is bad" in str(card)
    assert "nobody is bad and that means" in str(card).replace("\n", " ")


def test_ranks_and_means_may_disagree() -> None:
    rng = np.random.default_rng(5)
    arm = np.repeat(["control", "new"], 1000)
    most_up = np.where(arm == "new", 0.5, 0.0) + rng.standard_normal(2000)
    most_up[1000:1100] -= 30  # a tenth of the new arm loses much
    card = scorecard(of(pd.DataFrame({"x": most_up}), arm, contamination=0))
    assert lines(card).loc["x", "verdict"] == "differs"


def test_too_few_users() -> None:
    card = scorecard(of(np.arange(16.0).reshape(8, 2), [0, 1] * 4, reference=0, contamination=0))
    assert card.table["verdict"].tolist() == ["not checkable"] * 2


@pytest.mark.parametrize("bots", [0, 20])
def test_nothing_is_shown_where_nothing_differs(bots: int, long_version: bool, claims: Claims) -> None:
    runs, most = (400, 35) if long_version else (20, 4)
    firm = without = 0
    for seed in range(runs):
        X, arm, _ = visitors(np.random.default_rng((6, seed)), 1500, bots)
        words = scorecard(of(X, arm)).table["verdict"]
        firm += words.isin(["up", "down", "differs"]).any()
        without += words.str.endswith("without suspects").any()
    name = f"an experiment without effect, {bots} bots of 1500 users"
    claims.add(f"{name}: a verdict", f"{firm} of {runs}", f"≤ {most}", "(6, 0)…")
    claims.add(f"{name}: a verdict without suspects", f"{without} of {runs}", f"≤ {most}", "(6, 0)…")
    assert max(firm, without) <= most


# Means, with a guarantee.

SCALE = [0.45, 45.0]


def capped(rng: Any, n: int, bad: int) -> tuple[np.ndarray, np.ndarray]:
    """Conversion of 20 and 24 %, and what is spent, 150 at most: lifts of 20 %; the bad ones all spend most."""
    arm = np.repeat([0, 1], n // 2)
    buys = rng.random(n) < np.where(arm == 1, 0.24, 0.20)
    X = np.column_stack((buys, buys * rng.uniform(0, 150, n))).astype(float)
    X[n - bad :] = 1.0, 150.0
    return X, arm


@pytest.mark.parametrize("bad", [0, 5])
def test_intervals_of_means_cover_lift_and_difference(bad: int, long_version: bool, claims: Claims) -> None:
    """They are conservative: none of 20 misses, and at most 5 % of many (35 of 400, as above)."""
    runs, most = (400, 35) if long_version else (20, 0)
    missed = np.zeros(2, dtype=int)
    for seed in range(runs):
        X, arm = capped(np.random.default_rng((7, seed)), 4000, bad)
        table = scorecard(of(X, arm, reference=0, target="mean", scale=SCALE, contamination=bad / 2000)).table
        table = table.sort_values("metric")
        difference, lift = np.array([0.04, 0.04 * 75]), 20.0
        inside = (table["difference_low"] <= difference) & (difference <= table["difference_high"])
        missed += ~(inside & (table["lift_low"] <= lift) & (lift <= table["lift_high"])).to_numpy()
    claims.add(
        f"means, {bad} bad of 2000: difference or lift missed", f"{missed.max()} of {runs}", f"≤ {most}", "(7, 0)…"
    )
    assert missed.max() <= most


def test_means_are_those_of_the_test() -> None:
    X, arm = capped(np.random.default_rng(8), 4000, 0)
    result = of(X, arm, reference=0, target="mean", scale=SCALE, contamination=0)
    table = scorecard(result, level=0.9).table.sort_values("metric")
    np.testing.assert_allclose(table[["difference_low", "difference_high"]], result.interval([0, 1], 1 - 0.9 * 0.1))
    assert "auc" not in table
    assert (table["lift_low"] < table["lift"]).all()
    assert (table["lift"] < table["lift_high"]).all()
    np.testing.assert_allclose(table["treatment"], table["control"] + table["difference"])
    np.testing.assert_allclose(table["control"], X[arm == 0].mean(axis=0), rtol=0.03)
    far = X.copy()
    far[0] = 1e9  # one bad user of the control moves a plain mean anywhere
    moved = scorecard(of(far, arm, reference=0, target="mean", scale=SCALE, contamination=0.0005)).table
    np.testing.assert_allclose(moved.sort_values("metric")["control"], X[arm == 0].mean(axis=0), rtol=0.05)
    from_data = scorecard(of(X, arm, reference=0, target="mean", contamination=0)).table
    assert np.isfinite(from_data[["lift_low", "lift_high"]]).all(axis=None)


# Other designs.


def test_several_arms() -> None:
    rng = np.random.default_rng(9)
    X, _, _ = visitors(rng, 3000, 0)
    arm = rng.choice(["a", "b", "control"], 3000)
    X["visits"] += 3 * (arm == "b")
    result = of(X, arm)
    assert isinstance(result, Comparison)
    card = scorecard(result)
    assert card.table.groupby("arm").size().to_dict() == {"a": 9, "b": 9}
    assert set(card.table["reference"]) == {"control"}
    for label, estimate in result.results.items():
        own = card.table[card.table["arm"] == label].drop(columns=["arm", "reference"]).reset_index(drop=True)
        pd.testing.assert_frame_equal(own, scorecard(estimate).table.reset_index(drop=True))
    assert card.table.query("verdict == 'up'")[["arm", "metric"]].to_numpy().tolist() == [["b", "visits"]]
    assert str(card).count("\nmetric ") == 2
    rest = scorecard(of(X, arm, reference="rest"))
    assert set(rest.suspects["arm"]) <= {"a", "b", "control"}


def test_strata_and_several_rows_of_a_user() -> None:
    rng = np.random.default_rng(10)
    X, arm, _ = visitors(rng, 2000, 12, effect=True)
    country = rng.choice(["DE", "FR"], 2000)
    est = SparseMeanDifference(reference="control").fit(X, arm, strata=country)
    assert lines(scorecard(est.result_)).loc["search", "p_without_suspects"] < 0.05
    twice = np.repeat(np.arange(2000), 2)
    est = SparseMeanDifference(reference="control").fit(X.iloc[twice], arm[twice], groups=X.index[twice])
    once = scorecard(est.result_)
    assert est.result_.plan.n_units == 2000
    assert set(once.suspects["user"]) <= set(X.index)


def test_values_from_before_leave_levels_as_they_were_measured() -> None:
    rng = np.random.default_rng(14)
    before = rng.lognormal(1, 1, 3000)
    arm = rng.choice(["control", "new"], 3000)
    X = pd.DataFrame({"spent": before * rng.lognormal(0, 0.2, 3000) * np.where(arm == "new", 1.05, 1.0)})
    est = SparseMeanDifference(reference="control").fit(X, arm, covariate=pd.DataFrame({"spent": before}))
    plain, narrow = (scorecard(result, leave_out="nobody").table.iloc[0] for result in (of(X, arm), est.result_))
    sizes = np.array([(arm == name).sum() for name in ("control", "new")])
    np.testing.assert_allclose(sizes @ narrow[["control", "treatment"]].astype(float) / 3000, X["spent"].mean())
    assert narrow["lift_high"] - narrow["lift_low"] < 0.5 * (plain["lift_high"] - plain["lift_low"])
    assert narrow["lift_low"] < 5 < narrow["lift_high"]


def test_an_estimate_without_its_data_asks_for_the_covariate_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(15)
    before = rng.lognormal(1, 1, (1000, 2))
    X, arm = before * rng.lognormal(0, 0.3, before.shape), rng.choice(["control", "new"], 1000)
    est = SparseMeanDifference(reference="control").fit(X, arm, covariate=before)
    np.testing.assert_array_equal(est.result_.theta, est.theta_)
    est.result_.save(tmp_path / "fit.npz")
    for alone in (pickle.loads(pickle.dumps(est.result_)), load(tmp_path / "fit.npz")):
        pd.testing.assert_frame_equal(scorecard(alone).table, scorecard(est.result_).table)
        with pytest.raises(InputError, match="X must come with the covariate that it was adjusted for: got X al"):
            alone.interval(0, X=X)
        again = alone.interval([0, 1], X=X, covariate=before)
        np.testing.assert_array_equal(again, est.result_.interval([0, 1]))
        with pytest.raises(InputError, match="pass the X and the covariate of the fit"):
            alone.interval(0)
    useless = SparseMeanDifference(reference="control").fit(X, arm, covariate=before[::-1]).result_
    assert useless.theta is None
    pd.testing.assert_frame_equal(scorecard(useless).table, scorecard(of(X, arm)).table)
    pd.testing.assert_frame_equal(scorecard(pickle.loads(pickle.dumps(useless))).table, scorecard(useless).table)
    twice = SparseMeanDifference(reference="control").fit(
        X, arm[np.arange(1000) // 2], groups=np.arange(1000) // 2, covariate=before
    )
    with pytest.raises(InputError, match="X must be left out where values were adjusted for a covariate"):
        twice.result_.interval(0, X=X[::2], covariate=before[::2])


# What is printed.


def test_notes_of_the_fit_are_on_the_card() -> None:
    rng = np.random.default_rng(16)
    before = rng.lognormal(1, 1, (1000, 2))
    X, arm = before * rng.lognormal(0, 0.3, before.shape), rng.choice(["control", "new"], 1000)
    for covariate, note in (
        (before, "Note: 2 of 2 features adjusted for values from before, which takes out"),
        (before[::-1], "none was adjusted; check that their rows are those of X, in its order."),
    ):
        result = SparseMeanDifference(reference="control").fit(X, arm, covariate=covariate).result_
        for text in (str(scorecard(result)), scorecard(result)._repr_html_()):
            assert note in text.replace("\n", " ")
    assert "Note" not in str(scorecard(of(X, arm), users=np.arange(1000)))
    assert "500 of 1,000 names of users are repeated" in str(scorecard(of(X, arm), users=np.arange(1000) // 2))


def test_it_prints_in_80_columns(shop: Any) -> None:
    card, X, arm, _ = shop
    assert max(map(len, str(card).splitlines())) <= 80
    assert repr(card) == f"<Scorecard: 9 lines, {len(card.suspects)} suspects>"
    wide = X.rename(columns={name: f"{name} in the first two weeks of the year" for name in METRICS}) * 1e6
    arms = np.where(arm == "new", "the version with the new button", "the version of last year")
    long = scorecard(of(wide, arms, reference="the version of last year"))
    assert max(map(len, str(long).splitlines())) <= 80
    many = pd.concat([X.add_suffix(f"_{k}") for k in range(3)], axis=1)
    assert "… and 7 more in table" in str(scorecard(of(many, arm)))


def test_notebooks_show_no_foreign_markup(shop: Any) -> None:
    card, X, _, _ = shop
    named = scorecard(card.result, users=["<script>alert(1)</script>"] * len(X))
    assert "<script>" not in named._repr_html_()
    assert "&lt;script&gt;" in named._repr_html_()


def test_the_command_writes_it_and_prints_it(shop: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card, X, arm, _ = shop
    X.assign(arm=arm).rename_axis("user").to_csv(tmp_path / "users.csv")
    options = ("--id", "user", "--group", "arm", "--reference", "control")
    expect("fit", tmp_path / "users.csv", *options, "--scorecard", tmp_path / "card.csv")
    head, *printed, last = capsys.readouterr().out.splitlines()
    assert head == "users.csv: 9,000 rows × 9 columns"
    assert printed == str(card).splitlines()
    assert last == f"Written: {tmp_path / 'card.csv'}"
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "card.csv"), card.table)


# What is refused.


def test_what_is_refused(shop: Any) -> None:
    card, X, _, _ = shop
    with pytest.raises(InputError, match="result must be of arms with users of their own: got DataFrame; pass result_"):
        scorecard(card.table)
    pairs = SparseMeanDifference().fit(X[:40], [0, 1] * 20, pairs=np.repeat(np.arange(20), 2)).result_
    with pytest.raises(InputError, match="users of their own: got one of pairs; print it"):
        scorecard(pairs)
    with pytest.raises(InputError, match="users must have one name for each of the 9,000 rows: got 3 names"):
        scorecard(card.result, users=["a", "b", "c"])
    with pytest.raises(InputError, match="level must be a number between 0 and 1"):
        scorecard(card.result, level=95)
    with pytest.raises(InputError, match=r"X must be a table in memory: got a relation of DuckDB; call .to_arrow_ta"):
        of(type("Relation", (), {"to_arrow_table": None})(), [0, 1])
    arms = pd.Series(shop[2], index=X.index)
    for others in (arms[::-1], arms.rename(lambda name: f"{name}@shop")):
        with pytest.raises(InputError, match=r"y must have the rows of X in their order: got .* in row 0, which"):
            of(X, others)
        with pytest.raises(InputError, match="strata must have the rows of X in their order"):
            certify(X, arms, strata=others)
        of(X[:60], others[:60].reset_index(drop=True))
    assert of(X, arms).support.tolist() == card.result.support.tolist()
    with pytest.raises(TypeError, match="unexpected keyword argument 'X'"):
        scorecard(card.result, X=X)  # type: ignore[call-arg]


# Metrics for tea-tasting, with a stand-in for its base class; tests/integrations has the real one.


class Base(ABC):
    @abstractmethod
    def analyze_granular(self, control: Any, treatment: Any) -> Any: ...

    def analyze(self, data: Any, control: Any, treatment: Any, variant: Any = None) -> Any:  # noqa: ARG002
        return self.analyze_granular(data[control], data[treatment])


@pytest.fixture
def tasting(monkeypatch: pytest.MonkeyPatch) -> None:
    package, part = types.ModuleType("tea_tasting"), types.ModuleType("tea_tasting.metrics")
    configured = {"alpha": 0.05, "alternative": "two-sided", "confidence_level": 0.9}
    package.get_config = configured.__getitem__  # type: ignore[attr-defined]
    part.MetricBaseGranular = Base  # type: ignore[attr-defined]
    for module in (package, part):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_without_tea_tasting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tea_tasting", None)
    with pytest.raises(MissingExtraError, match=r'needs tea_tasting.*: pip install "sparsemean\[tea-tasting\]"$'):
        experiments.metrics("revenue")


@pytest.mark.usefixtures("tasting")
def test_metrics_are_lines_of_one_scorecard(monkeypatch: pytest.MonkeyPatch) -> None:
    X, arm, _ = visitors(np.random.default_rng(11), 2000, 15, effect=True)
    users = {name: pa.Table.from_pandas(X[arm == name], preserve_index=False) for name in ("control", "new")}
    both = pd.concat([X[arm == "control"], X[arm == "new"]])
    card = lines(scorecard(of(both, np.sort(arm)), level=0.9))
    made, fits = experiments.metrics({"money": "revenue", "search": "search", "share": "share", "click": "click"}), []
    fit = SparseMeanDifference.fit
    monkeypatch.setattr(SparseMeanDifference, "fit", lambda *args, **also: fits.append(1) or fit(*args, **also))
    alone = lines(scorecard(of(both[["revenue", "search", "share", "click"]], np.sort(arm)), level=0.9))
    fits.clear()
    for name, metric in made.items():
        assert isinstance(metric, Base)
        assert metric.cols == ("revenue", "search", "share", "click")
        found, line = metric.analyze(users, "control", "new"), alone.loc[metric.column]
        assert found.verdict == line["verdict"]
        assert (found.effect_size, found.effect_size_ci_lower) == (line["difference"], line["difference_low"])
        np.testing.assert_allclose(found.rel_effect_size_ci_upper, line["lift_high"] / 100)
        assert (found.pvalue, found.pvalue_adj) == (line["p_value"], line["p_adjusted"])
        assert name in ("money", metric.column)
    assert len(fits) == 1
    assert card.loc["search", "verdict"] == "down"
    again = pickle.loads(pickle.dumps(made))["search"]
    assert isinstance(again, Base)
    assert again.analyze(users, "control", "new") == made["search"].analyze(users, "control", "new")
    assert repr(again) == "RobustDifference('search', among=revenue, search, share, click)"


@pytest.mark.usefixtures("tasting")
def test_values_from_before_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    fit = SparseMeanDifference.fit

    def note(self: Any, X: Any, y: Any, covariate: Any = None) -> Any:
        given.update(covariate=covariate)
        return fit(self, X, y)

    monkeypatch.setattr(SparseMeanDifference, "fit", note)
    rng = np.random.default_rng(12)
    users = [pa.table({name: rng.poisson(3, 50) for name in ("a", "b", "a0", "a1")}) for _ in range(2)]
    both = pl.from_arrow(pa.concat_tables(users))
    for covariates, expected in (({"a": "a0"}, ["a0"]), ({"a": ("a0", "a1")}, ["a0", "a1"])):
        metric = experiments.metrics(["a", "b"], covariates=covariates)["a"]
        assert metric.cols == ("a", "b", *expected)
        metric.analyze_granular(*users)
        stretches = given["covariate"] if len(expected) == 2 else (given["covariate"],)
        for stretch, column in zip(stretches, expected, strict=True):
            assert stretch.column_names == ["a"]
            assert stretch["a"].to_pylist() == both[column].to_list()
    assert experiments.metrics("a", covariates={"a": "a0"})["a"].cols == ("a", "a0")


@pytest.mark.usefixtures("tasting")
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ([], {}, "columns must name a column or more"),
        (3, {}, "columns must name a column or more: got 3"),
        (["a", 3], {}, "columns must name a column or more"),
        (["a", "b"], {"scale": {"a": 1}}, "scale must have a number for every column: got none for b"),
        (["a"], {"covariates": {"c": "a"}}, "covariates must be of the columns a: got c$"),
        ({"A": "a"}, {"covariates": {"A": "c"}}, "columns a: got A; use the names of columns, not those of metrics"),
        (["a", "b"], {"covariates": "c"}, "covariates must say for each column which one is from before: got 'c'"),
        (["a"], {"covariates": ["c"]}, "covariates must say for each column which one is from before"),
        (["a"], {"alternative": "up"}, "alternative must be one of"),
        (["a", "b"], {"covariates": {"a": "c", "b": ("c", "d")}}, "covariates must name one column for each"),
    ],
)
def test_metrics_that_are_refused(columns: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        experiments.metrics(columns, **options)


@pytest.mark.usefixtures("tasting")
def test_bounds_by_column() -> None:
    X, arm = capped(np.random.default_rng(13), 2000, 0)
    users = {a: pa.table({"buys": X[arm == a, 0], "spends": X[arm == a, 1]}) for a in (0, 1)}
    made = experiments.metrics(
        ["buys", "spends"], target="mean", scale={"spends": 45, "buys": 0.45}, contamination=0, confidence_level=0.95
    )
    direct = lines(scorecard(of(X, arm, reference=0, target="mean", scale=SCALE, contamination=0)))
    assert made["spends"].analyze(users, 0, 1).effect_size_ci_lower == direct.loc[1, "difference_low"]
