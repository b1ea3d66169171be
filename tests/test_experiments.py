"""The scorecard of an experiment: its numbers against closed forms, its verdicts against a simulated truth.

At level 0.05 a run of simulated experiments without any effect has a verdict with probability 0.05 at most: more than 4
of 20 runs have a chance below 0.003, more than 35 of 400 one below 0.001.
"""

from __future__ import annotations

import json
import pickle
import re
import sys
import types
from abc import ABC, abstractmethod
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from sparsemean import InputError, SparseMeanDifference, experiments
from sparsemean._fit.arms import Metric, users_to_find
from sparsemean.errors import MissingExtraError
from sparsemean.experiments import Scorecard, analyze
from sparsemean.experiments._scorecard import FORMAT

from command import expect
from conftest import Claims

METRICS = ["converted", "orders", "revenue", "visits", "search", "click", "like", "share", "help"]
RATES = (4.0, 3.0, 8.0, 1.0, 0.5, 0.2)
COLUMNS = list(Scorecard.schema()["properties"]["table"]["items"]["properties"])


def visitors(
    rng: Any, n: int, bots: int = 0, *, effect: bool = False, arms: tuple[str, ...] = ("control", "new")
) -> tuple[pd.DataFrame, np.ndarray]:
    """Users of a shop, and which of them are bots: all in the last arm, they search, click and share."""
    arm = rng.choice(arms, n)
    new, activity = arm == arms[-1], rng.lognormal(0, 0.7, n)
    orders = (rng.random(n) < np.where(new & effect, 0.15, 0.10)) * (1.0 + rng.poisson(0.3, n))
    counts = np.column_stack([rng.poisson(rate * activity) for rate in RATES]).astype(float)
    if effect:
        counts[:, 1] = rng.poisson(RATES[1] * activity * np.where(new, 0.8, 1.0))
    values = np.column_stack((orders > 0, orders, (orders * rng.lognormal(3.2, 0.9, n)).round(2), counts))
    at = rng.choice(np.flatnonzero(new), bots, replace=False)
    values[np.ix_(at, [4, 5, 7])] = rng.poisson(300, (bots, 3))
    values[at, :3] = 0
    table = pd.DataFrame(values, columns=METRICS)
    table.insert(0, "user_id", [f"u{i}" for i in range(n)])
    table.insert(1, "variant", arm)
    return table, at


def lines(card: Scorecard, arm: str = "new") -> pd.DataFrame:
    return card.table[card.table["arm"] == arm].set_index("metric")


@pytest.fixture(scope="module")
def shop() -> tuple[Scorecard, pd.DataFrame, np.ndarray]:
    table, bots = visitors(np.random.default_rng(3), 9000, 40, effect=True)
    return analyze(table), table, bots


# Numbers.


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_intervals_and_p_are_welchs(alternative: str) -> None:
    table, _ = visitors(np.random.default_rng(0), 600)
    table.loc[::7, "visits"] = np.nan
    card = analyze(table, level=0.1, alternative=alternative)
    assert list(card.table) == COLUMNS
    assert not len(card.suspects)
    for metric, line in lines(card).iterrows():
        one, zero = (table[metric][table["variant"] == name].dropna() for name in ("new", "control"))
        test = stats.ttest_ind(one, zero, equal_var=False, alternative=alternative)
        np.testing.assert_allclose(line["p_value"], test.pvalue)
        np.testing.assert_allclose(line[["control", "treatment"]].astype(float), (zero.mean(), one.mean()))
        assert (line["n_control"], line["n_treatment"]) == (len(zero), len(one))
        np.testing.assert_allclose(line["difference"], one.mean() - zero.mean())
        ends = test.confidence_interval(0.9)
        np.testing.assert_allclose(line[["difference_low", "difference_high"]].astype(float), ends)
        np.testing.assert_allclose(line["lift"], 100 * (one.mean() / zero.mean() - 1))
        errors = np.array([x.var() / len(x) / x.mean() ** 2 for x in (one, zero)])
        degrees = errors.sum() ** 2 / np.sum(errors**2 / (np.array([len(one), len(zero)]) - 1))
        t = stats.t.ppf(0.95 if alternative == "two-sided" else 0.9, degrees) * np.sqrt(errors.sum())
        low, high = (100 * (one.mean() / zero.mean() * np.exp(step) - 1) for step in (-t, t))
        np.testing.assert_allclose(line["lift_low"], -100 if alternative == "less" else low)
        np.testing.assert_allclose(line["lift_high"], np.inf if alternative == "greater" else high)


def test_a_ratio_of_totals_is_that_of_the_delta_method() -> None:
    table, _ = visitors(np.random.default_rng(1), 3000)
    table.loc[::11, "visits"] = np.nan
    card = analyze(table, ratios={"clicks per visit": ("click", "visits")})
    line = lines(card).loc["clicks per visit"]
    totals, relative = [], []
    for arm in ("control", "new"):
        x, y = table.loc[table["variant"] == arm, ["click", "visits"]].dropna().to_numpy().T
        cov = np.cov(x, y) / x.size
        totals.append(x.sum() / y.sum())
        relative.append(cov[0, 0] / x.mean() ** 2 + cov[1, 1] / y.mean() ** 2 - 2 * cov[0, 1] / x.mean() / y.mean())
    np.testing.assert_allclose(line[["control", "treatment"]].astype(float), totals)
    width = np.log1p(line["lift_high"] / 100) - np.log1p(line["lift_low"] / 100)
    np.testing.assert_allclose(width / 2 / 1.96, np.sqrt(sum(relative)), rtol=1e-3)
    whole = table.dropna()
    rest = whole["click"] - whole["click"].sum() / whole["visits"].sum() * whole["visits"]
    est = SparseMeanDifference(0, reference="control").fit(rest.to_numpy()[:, np.newaxis], whole["variant"])
    np.testing.assert_allclose(line["p_certified"], est.result_.p_values[0], rtol=1e-6)


def test_certificates_are_those_of_the_fit(shop: Any) -> None:
    card, table, bots = shop
    share = len(bots) / (table["variant"] == "new").sum()
    est = SparseMeanDifference((0.0, share), reference="control").fit(table[METRICS], table["variant"])
    full, ours = est.result_.table(all=True).set_index("feature"), lines(card)
    np.testing.assert_allclose(ours["p_certified"], full.loc[ours.index, "p_value"])
    sure = ours["certified"] != ""
    assert set(ours.index[sure]) == set(np.array(METRICS)[est.support_])
    np.testing.assert_array_equal(ours["survives"][sure], full.loc[ours.index[sure], "max_contamination"])
    assert ours["survives"][~sure].isna().all()


def test_a_metric_without_a_lift() -> None:
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"variant": np.repeat(["control", "new"], 200), "balance": rng.normal(-1, 1, 400)})
    card = analyze(table)
    line = lines(card).loc["balance"]
    assert np.isnan(line[["lift", "lift_low", "lift_high"]].astype(float)).all()
    assert line["difference_low"] < line["difference"] < line["difference_high"]
    assert "†" in str(card)
    assert "a lift needs means above 0" in str(card)


# Verdicts, families, segments.


def test_verdicts(shop: Any) -> None:
    card, _, _ = shop
    found = lines(card)["verdict"].to_dict()
    assert {name: found[name] for name in ("converted", "orders", "search")} == {
        "converted": "up", "orders": "up", "search": "down",
    }  # fmt: skip
    assert {found[name] for name in ("visits", "like", "share", "help", "click")} == {"unclear"}
    assert card.headline[0].endswith(
        "4 of 9 metrics differ between new and control (3 up, 1 down), without 40 suspected bots."
    )
    assert "Were they counted, share of new would show" in " ".join(card.headline)


def test_bots_that_void_every_certificate_leave_the_answer() -> None:
    table, bots = visitors(np.random.default_rng(4), 6000, 200, effect=True)
    card = analyze(table)
    assert set(card.suspects["user"]) >= {f"u{i}" for i in bots}
    assert (card.table["certified"] == "").sum() >= 7
    assert {"down*", "up*"} <= set(card.table["verdict"])
    assert "differ between new and control" in card.headline[0 if "ratio" not in card.headline[0] else 1]
    assert "* not certified" in str(card)


def test_a_star_has_one_meaning(shop: Any) -> None:
    table = pd.concat([shop[0].table, analyze(shop[1], contamination=0.05).table])
    moved = table[table["verdict"].str.startswith(("up", "down"))]
    np.testing.assert_array_equal(
        moved["verdict"].str.endswith("*"), moved["certified"] != moved["verdict"].str.rstrip("*")
    )
    assert moved["verdict"].str.endswith("*").any()


def test_flat_and_guardrails() -> None:
    rng = np.random.default_rng(5)
    n = 40_000
    new = np.repeat([False, True], n // 2)
    table = pd.DataFrame({
        "variant": np.where(new, "new", "control"), "same": rng.normal(10, 1, n), "up": rng.normal(10 + new, 1, n),
        "slow": rng.normal(10 + 0.5 * new, 1, n), "fine": rng.normal(10 - 0.001 * new, 1, n),
        "noisy": rng.normal(1, 30, n),
    })  # fmt: skip
    card = analyze(table, min_effect=0.01, guardrails={"slow": 0.02, "fine": -0.01, "noisy": -0.01})
    words = lines(card)["verdict"].to_dict()
    assert words == {"same": "flat", "up": "up", "slow": "broken", "fine": "held", "noisy": "unclear"}
    line = lines(card).loc["slow"]
    one, zero = (table["slow"][new == side] for side in (True, False))
    error = np.sqrt(one.var() / one.size / one.mean() ** 2 + zero.var() / zero.size / zero.mean() ** 2)
    np.testing.assert_allclose(
        line["p_value"], stats.norm.sf((np.log(1.02) - np.log(one.mean() / zero.mean())) / error), rtol=1e-3
    )
    assert "Guardrails broken: slow; unclear: noisy; held: fine." in card.headline


def test_the_level_is_shared_as_said(shop: Any) -> None:
    _, table, _ = shop
    one, two = analyze(table, primary="help"), analyze(table, primary=["orders", "converted"], share=1.0)
    p = lines(one)["p_value"].drop("help").sort_values()
    holm = np.minimum(1, np.maximum.accumulate(p.to_numpy() * np.arange(p.size, 0, -1)))
    first = min(1, lines(one).loc["help", "p_value"] / 0.8)
    np.testing.assert_allclose(lines(one)["p_adjusted"][p.index], np.minimum(holm / 0.2, np.maximum(holm, first)))
    np.testing.assert_allclose(lines(one).loc["help", "p_adjusted"], first)
    p = lines(two)["p_value"].drop(["orders", "converted"]).sort_values()
    holm = np.minimum(1, np.maximum.accumulate(p.to_numpy() * np.arange(p.size, 0, -1)))
    first = lines(two)["p_adjusted"][["orders", "converted"]].max()
    np.testing.assert_allclose(lines(two)["p_adjusted"][p.index], np.maximum(holm, first))
    assert two.table["metric"][:2].isin(["orders", "converted"]).all()
    assert two.headline[0].startswith("Primary, new against control: converted is up (+")


def test_segments_and_days_are_one_family() -> None:
    rng = np.random.default_rng(6)
    table, _ = visitors(rng, 9000, effect=True)
    table["country"] = rng.choice(["DE", "US", "FR"], len(table))
    table["seen"] = rng.choice(["2026-11-01", "2026-11-02"], len(table))
    card = analyze(table, by="country", day="seen", primary="search")
    assert card.segments is not None
    assert card.days is not None
    assert card.segments["segment"].tolist() == ["DE", "FR", "US"]
    np.testing.assert_allclose(card.segments["p_adjusted"].min(), 3 * card.segments["p_value"].min())
    part = analyze(table[table["country"] == "FR"].drop(columns="country"))
    for end in ("lift", "lift_low", "lift_high", "p_value"):
        np.testing.assert_allclose(card.segments.set_index("segment").loc["FR", end], lines(part).loc["search", end])
    assert card.days["day"].tolist() == ["2026-11-01", "2026-11-02"]
    assert "no lift clearly differs between segments" in " ".join(card.notes)
    only = (table["variant"] == "new") & (table["country"] == "US")
    table.loc[only, "search"] = rng.poisson(12, int(only.sum()))
    card = analyze(table, by="country", primary="search")
    assert "lifts differ between segments: search (new)" in card.notes


# Who is left out.


def test_the_same_bots_in_every_comparison() -> None:
    """In two arms, three, with earlier values and without: arms play no part in who is found."""
    table, bots = visitors(np.random.default_rng(7), 12_000, 120, arms=("control", "a", "b"))
    expected = {f"u{i}" for i in bots}
    before = table.assign(search_pre=np.random.default_rng(8).poisson(table["search"] / 2))
    for own in (
        table,
        before,
        table[table["variant"] != "a"],
        before[before["variant"] != "a"],
        table.drop(columns="help"),
    ):
        card = analyze(own)
        assert set(card.suspects["user"][card.suspects["kind"] == "clump"]) == expected
        assert card.clumps["users"].tolist() == [120]
        assert set(card.clumps["metrics"][0].split(", ")) == {"search", "click", "share"}


def test_means_are_without_bots_and_a_clump_can_be_kept(shop: Any) -> None:
    card, table, bots = shop
    kept = table.drop(index=bots)
    for arm, column in (("control", "control"), ("new", "treatment")):
        np.testing.assert_allclose(lines(card)[column], kept[kept["variant"] == arm][lines(card).index].mean())
    assert card.clumps[["clump", "users", "in control", "in new", "kept"]].to_numpy().tolist() == [
        [1, 40, 0, 40, False]
    ]
    again = analyze(table, keep=[1])
    assert set(again.suspects["kind"]) == {"clump, kept"}
    np.testing.assert_allclose(lines(again)["treatment"], table[table["variant"] == "new"][lines(again).index].mean())
    np.testing.assert_allclose(lines(again)["lift"], lines(card)["lift_with_bots"][lines(again).index])
    assert "Kept, as you asked: clump 1." in again.headline


def test_two_scripts_are_two_clumps() -> None:
    table, bots = visitors(np.random.default_rng(9), 8000, 100)
    others = np.setdiff1d(np.arange(8000), bots)[:60]
    rng = np.random.default_rng(10)
    table.loc[others, ["visits", "help"]] = rng.poisson(200, (60, 2))
    card = analyze(table)
    assert card.clumps["users"].tolist() == [100, 60]
    assert set(card.clumps["metrics"][1].split(", ")) == {"visits", "help"}
    assert analyze(table, keep=[2]).clumps["kept"].tolist() == [False, True]


def test_names_of_metrics_may_have_commas() -> None:
    table, _ = visitors(np.random.default_rng(24), 4000, 60)
    card = analyze(table.rename(columns={"search": "search, all", "click": "a, b, c"}))
    assert card.clumps["users"].tolist() == [60]
    assert "search,all" in card.clumps["metrics"][0]


def test_a_handful_of_bots_is_seen_by_the_gap() -> None:
    table, bots = visitors(np.random.default_rng(11), 4000, 12)
    table.loc[bots, ["visits", "like", "help"]] = 300
    card = analyze(table)
    assert set(card.suspects["user"][card.suspects["kind"] == "clump"]) == {f"u{i}" for i in bots}


@pytest.mark.parametrize("bots", [0, 30])
def test_nothing_is_shown_where_nothing_differs(bots: int, long_version: bool, claims: Claims) -> None:
    runs, most = (400, 35) if long_version else (20, 4)
    means = certified = 0
    for seed in range(runs):
        table, _ = visitors(np.random.default_rng((6, seed)), 1500, bots)
        card = analyze(table)
        means += card.table["verdict"].str.startswith(("up", "down")).any()
        certified += (card.table["certified"] != "").any()
    name = f"an experiment without effect, {bots} bots of 1500 users"
    claims.add(f"{name}: a verdict", f"{means} of {runs}", f"≤ {most}", "(6, 0)…")
    claims.add(f"{name}: a certificate", f"{certified} of {runs}", f"≤ {most}", "(6, 0)…")
    assert max(means, certified) <= most


# Tables as they are.


def test_what_is_no_metric_is_set_aside_with_a_note() -> None:
    table, _ = visitors(np.random.default_rng(12), 800)
    rng = np.random.default_rng(13)
    table["country"], table["account_id"], table["constant"], table["empty"] = "DE", range(800), 1, np.nan
    table["seen"] = pd.Timestamp("2026-11-01")
    table["rating"] = np.where(rng.random(800) < 0.9, np.nan, 4.0 + (rng.random(800) < 0.5))
    table.loc[5, "click"] = np.inf
    table.loc[[1, 2], "variant"] = [None, ""]
    table["old_pre"] = 1.5 * np.arange(800) % 7
    card = analyze(table)
    assert set(card.table["metric"]) == {*METRICS, "rating"}
    said = " ".join(card.notes)
    for part in (
        "2 columns that hold no numbers set aside: country, seen",
        "1 column numbers of users or rows set aside: account_id",
        "1 column without a value set aside: empty", "1 column with one value only set aside: constant",
        "2 metrics with gaps", "2 rows without an arm left out",
        "1 column from before the experiment, of no metric, set aside: old_pre",
        "'control' was taken for the control by its name",
    ):  # fmt: skip
        assert part in said


@pytest.mark.parametrize(
    ("names", "control"),
    [
        (("zebra", "control"), "control"), (("CTRL", "b"), "CTRL"), (("x", "Baseline"), "Baseline"),
        (("on", "off"), "off"), (("B", "A"), "A"), (("placebo", "drug"), "placebo"), (("new", "old"), "new"),
    ],
)  # fmt: skip
def test_the_control_is_told_by_its_name(names: tuple[str, str], control: str) -> None:
    table, _ = visitors(np.random.default_rng(14), 300, arms=names)
    card = analyze(table)
    assert card.control == control
    assert f"{control!r} was taken for the control" in card.notes[0]
    assert analyze(table, control=names[1]).control == names[1]


def test_arms_of_other_sizes_than_planned_come_first() -> None:
    table, _ = visitors(np.random.default_rng(15), 4000)
    gone = table[(table["variant"] == "control") | (np.arange(4000) % 5 > 0)]
    card = analyze(gone)
    assert card.headline[0].startswith(
        "Sample ratio mismatch: users are not split as planned: control 1,969 (planned 1,808), new"
    )
    counts = gone["variant"].value_counts()
    assert "ratio" not in analyze(gone, shares={"control": counts["control"], "new": counts["new"]}).headline[0]
    p = stats.chisquare([counts["control"], counts["new"]]).pvalue
    assert f"p = {p:.1g}" in card.headline[0]


def test_several_rows_of_a_user() -> None:
    table, _ = visitors(np.random.default_rng(16), 1000)
    halves = table.copy()
    halves[METRICS] = np.floor(table[METRICS] / 2)
    rest = table.copy()
    rest[METRICS] = table[METRICS] - halves[METRICS]
    events = pd.concat([halves, rest], ignore_index=True)
    summed, whole = analyze(events, events=True), analyze(table)
    pd.testing.assert_frame_equal(summed.table, whole.table)
    assert "2,000 rows were added up to 1,000 users" in summed.notes
    card = analyze(events)
    assert "1,000 rows are of users who are there already: rows of one user depend on each other" in " ".join(
        card.notes
    )
    events.loc[0, "variant"] = "new" if events.loc[0, "variant"] == "control" else "control"
    assert "1 user in several arms left out" in analyze(events, events=True).notes


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx", "polars", "lazy", "arrow"])
def test_every_kind_of_table_gives_the_same_card(kind: str, tmp_path: Path) -> None:
    table, _ = visitors(np.random.default_rng(17), 500, 20, effect=True)
    table["country"] = np.where(np.arange(500) % 2, "DE", "US")
    table["converted"] = table["converted"] > 0
    given: Any = tmp_path / f"users.{kind}"
    if kind == "csv":
        table.to_csv(given, index=False)
    elif kind == "parquet":
        table.to_parquet(given)
    elif kind == "xlsx":
        table.to_excel(given, index=False)
    else:
        given = pa.Table.from_pandas(table) if kind == "arrow" else pl.from_pandas(table)
        given = given.lazy() if kind == "lazy" else given
    found, expected = analyze(given, by="country"), analyze(table, by="country")
    pd.testing.assert_frame_equal(found.table, expected.table)
    pd.testing.assert_frame_equal(found.suspects, expected.suspects)
    pd.testing.assert_frame_equal(found.segments, expected.segments)


def test_values_from_before_leave_levels_as_they_were_measured() -> None:
    rng = np.random.default_rng(18)
    n = 4000
    arm, usual = rng.choice(["control", "new"], n), rng.gamma(2, 5, n)
    table = pd.DataFrame({
        "variant": arm, "spent": rng.poisson(usual * np.where(arm == "new", 1.1, 1.0)), "likes": rng.poisson(2, n),
        "spent_pre": rng.poisson(usual), "spent_old": rng.poisson(usual),
    })  # fmt: skip
    plain, cuped = (lines(analyze(own)).loc["spent"] for own in (table.drop(columns="spent_pre"), table))
    assert cuped["difference_high"] - cuped["difference_low"] < 0.8 * (
        plain["difference_high"] - plain["difference_low"]
    )
    for line in (plain, cuped):  # of both arms together the mean is the one that was measured
        both = line["n_control"] * line["control"] + line["n_treatment"] * line["treatment"]
        assert both / n == pytest.approx(table["spent"].mean())
    told = " ".join(analyze(table).notes)
    assert "1 metric adjusted for values from before (CUPED)" in told
    assert "assume that they did not" in told
    assert "assume that they did not" not in " ".join(analyze(table, pre=("_old", "_pre")).notes)


def test_what_is_refused() -> None:
    table, _ = visitors(np.random.default_rng(19), 300)
    for options, message in (
        ({"arm": "group"}, r"arm must name a column of the table: got 'group'; it has user_id, variant, converted"),
        ({"user": "name"}, "user must name a column of the table: got 'name'"),
        ({"control": "old"}, "control must be one of the arms control, new: got 'old'"),
        ({"metrics": ["clicks"]}, "metrics must be of the columns converted, .*: got clicks"),
        ({"ratios": {"r": ("click", "view")}}, "metrics must be of the columns .*: got view"),
        ({"primary": "sales"}, "primary must be of the metrics .*: got sales"),
        ({"keep": [3]}, "keep must be numbers of clumps, of which there are 0: got 3"),
        ({"shares": {"control": 1}}, "shares must have a positive number for each of control, new"),
        ({"level": 2}, "level must be"),
        ({"arm": "user_id"}, "arm must name two arms or more, 20 at most: got 300"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            analyze(table, **options)
    with pytest.raises(InputError, match=r"arm must have 20 users or more in each arm.*: got control: "):
        analyze(table[:30])
    with pytest.raises(InputError, match="table must be a file or a data frame: got list"):
        analyze([1, 2])
    with pytest.raises(InputError, match="table must have a column of numbers that differ"):
        analyze(table[["user_id", "variant"]])
    assert len(analyze(table.drop(columns="user_id")).table) == len(METRICS)


# One truth: terminal, notebook, page, Markdown, JSON and CSV.


class Cells(HTMLParser):
    """The texts of all cells of a page, table by table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, _: Any) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.tables[-1][-1][-1] += data.strip()


def test_every_output_has_the_same_numbers(shop: Any, tmp_path: Path) -> None:
    card, table, _ = shop
    card = analyze(
        table.assign(country=np.where(np.arange(len(table)) % 2, "DE", "U|S")), by="country", primary="orders"
    )
    for ending in ("html", "md", "json", "csv"):
        card.write(tmp_path / f"card.{ending}", title="Shop <1>")
    page = (tmp_path / "card.html").read_text()
    marked = (tmp_path / "card.md").read_text()
    data = json.loads((tmp_path / "card.json").read_text())
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "card.csv", keep_default_na=False, na_values=[""]), card.table.replace("", np.nan)
    )
    pd.testing.assert_frame_equal(
        pd.DataFrame(data["table"])[list(card.table)].fillna(np.nan), card.table.fillna(np.nan), check_dtype=False
    )
    assert data["format"] == FORMAT
    assert data["headline"] == list(card.headline)
    for line in card.headline:
        assert line in marked
        assert line.replace("'", "&#39;") in page
    cells = Cells(page).tables
    blocks = [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", marked, re.MULTILINE)]
    parts = [[re.split(r"(?<!\\)\|", row.strip("|")) for row in block] for block in blocks]
    shown = [[[text.replace("\\|", "|") for text in row] for row in block] for block in parts]
    printed = str(card)
    assert len(shown) == 2
    for ours, theirs in zip(shown, cells, strict=False):
        assert [[text.strip() for text in row] for row in (ours[0], *ours[2:])] == [
            row[: len(ours[0])] for row in theirs
        ]
        for row in ours[2:]:
            for text in row[1:]:
                assert text.strip() in printed
    notebook = card._repr_html_()
    for row in shown[0][2:]:
        assert all(text.strip() in notebook for text in row)
    assert "Shop &lt;1&gt;" in page
    assert "<script>" not in page


def test_json_has_what_its_schema_says(shop: Any) -> None:
    card, _, _ = shop
    data, schema = card.to_dict(), card.schema()
    assert set(schema["required"]) <= set(data) == set(schema["properties"])
    kinds = {"string": str, "integer": int, "number": (int, float), "null": type(None)}
    columns = schema["properties"]["table"]["items"]["properties"]
    for line in data["table"]:
        assert list(line) == list(columns)
        for name, value in line.items():
            wanted = columns[name]["type"]
            assert any(isinstance(value, kinds[k]) for k in ([wanted] if isinstance(wanted, str) else wanted))
    assert list(card.table) == list(columns)


def test_it_prints_in_80_columns(shop: Any) -> None:
    card, table, _ = shop
    assert max(map(len, str(card).splitlines())) <= 80
    long = table.rename(columns={"search": "searches_of_logged_in_users_per_week", "share": "shares_\x1b[31mred"})
    text = str(analyze(long))
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert repr(card) == "<Scorecard: 9 lines, 40 suspects>"


def test_nothing_found_says_what_would_be() -> None:
    table, _ = visitors(np.random.default_rng(20), 1500)
    card = analyze(table)
    assert card.headline[0].startswith("No metric differs clearly between new and control (9 tested; strongest: ")
    assert any("This assumes that no user is a bot. None was detected" in line for line in card.headline)


def test_it_draws_lifts(shop: Any) -> None:
    ax = shop[0].plot()
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == shop[0].table["metric"][0]
    assert "new against control" in ax.get_title()


def test_the_command_writes_it_and_prints_it(shop: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, table, _ = shop
    table.assign(note="x").to_csv(tmp_path / "users.csv", index=False)
    page, marked = tmp_path / "card.html", tmp_path / "card.md"
    expect(
        "experiment", tmp_path / "users.csv", "--report", page, "--out", marked, "--ratio", "ctr=click/visits",
        "--guardrail", "help=-5%", "--min-effect", "1%", "--primary", "orders",
    )  # fmt: skip
    out = capsys.readouterr().out
    expected = analyze(
        table, ratios={"ctr": ("click", "visits")}, guardrails={"help": -0.05}, min_effect=0.01, primary="orders"
    )
    assert str(expected).split("\nNote")[0] in out
    assert marked.read_text().startswith(f"**{expected.headline[0]}**")
    for arguments, message in (
        (["--out", str(tmp_path / "x.txt")], "--out must end in .html"),
        (["--report", str(tmp_path / "x.png")], "--report must end in .html"),
        (["--ratio", "ctr=click"], "--ratio must be NAME=ABOVE/BELOW"),
        (["--arm", "group"], "arm must name a column of the file: got 'group'; it has user_id, variant"),
        (["--out", str(page), "--report", str(page)], "--report must be another file than that of --out"),
        (["--out", str(tmp_path / "users.csv")], "--out must differ from the input"),
    ):  # fmt: skip
        expect("experiment", tmp_path / "users.csv", *arguments, status=2)
        assert message in capsys.readouterr().err


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
    part.PowerBase = type("PowerBase", (ABC,), {})  # type: ignore[attr-defined]
    for module in (package, part):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_without_tea_tasting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tea_tasting", None)
    with pytest.raises(MissingExtraError, match=r'needs tea_tasting.*: pip install "sparsemean\[tea-tasting\]"$'):
        experiments.metrics("revenue")


@pytest.mark.usefixtures("tasting")
def test_metrics_are_lines_of_one_scorecard() -> None:
    table, _ = visitors(np.random.default_rng(11), 2000, 15, effect=True)
    users = {
        name: pa.Table.from_pandas(table[table["variant"] == name][METRICS], preserve_index=False)
        for name in ("control", "new")
    }
    named = ["revenue", "search", "share", "click"]
    made = experiments.metrics({"money": "revenue", "search": "search", "share": "share", "click": "click"},
                               ratios={"ctr": ("click", "visits")})  # fmt: skip
    alone = lines(
        analyze(table[["variant", *named, "visits"]], metrics=[*named, "ctr"], ratios={"ctr": ("click", "visits")})
    )
    for name, metric in made.items():
        assert isinstance(metric, Base)
        assert metric.cols == (*named, "visits")
        found, line = metric.analyze(users, "control", "new"), alone.loc[metric.column]
        assert found.verdict == line["verdict"]
        np.testing.assert_allclose((found.effect_size, found.rel_effect_size), (line["difference"], line["lift"] / 100))
        np.testing.assert_allclose((found.pvalue, found.pvalue_adj), (line["p_value"], line["p_adjusted"]))
        np.testing.assert_allclose(found.pvalue_certified, line["p_certified"])
        width = line["difference_high"] - line["difference_low"]
        np.testing.assert_allclose(
            (found.effect_size_ci_upper - found.effect_size_ci_lower) / width, 1.645 / 1.96, rtol=2e-3
        )
        assert name in ("money", metric.column)
    again = pickle.loads(pickle.dumps(made))["search"]
    assert isinstance(again, Base)
    assert again.analyze(users, "control", "new") == made["search"].analyze(users, "control", "new")
    assert repr(again) == "RobustDifference('search', among=revenue, search, share, click)"


@pytest.mark.usefixtures("tasting")
def test_values_from_before_are_passed_on() -> None:
    rng = np.random.default_rng(12)
    usual = rng.gamma(2, 5, (2, 400))
    users = [pa.table({"a": rng.poisson(one), "b": rng.poisson(3, 400), "a0": rng.poisson(one)}) for one in usual]
    metric = experiments.metrics(["a", "b"], covariates={"a": "a0"})["a"]
    assert metric.cols == ("a", "b", "a0")
    plain = experiments.metrics(["a", "b"])["a"]
    narrow, wide = (each.analyze_granular(*users) for each in (metric, plain))
    assert (
        narrow.effect_size_ci_upper - narrow.effect_size_ci_lower
        < wide.effect_size_ci_upper - wide.effect_size_ci_lower
    )


@pytest.mark.usefixtures("tasting")
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ([], {}, "columns must name a column or more"),
        (3, {}, "columns must name a column or more: got 3"),
        (["a", 3], {}, "columns must name a column or more"),
        (["a"], {"covariates": {"c": "a"}}, "covariates must be of the columns a: got c$"),
        ({"A": "a"}, {"covariates": {"A": "c"}}, "columns a: got A; use the names of columns, not those of metrics"),
        (["a"], {"alternative": "up"}, "alternative must be one of"),
    ],
)
def test_metrics_that_are_refused(columns: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        experiments.metrics(columns, **options)


# Plans.


@pytest.mark.parametrize(("share", "lift", "bots"), [(0.1, 0.2, 0.0), (0.3, 0.2, 0.01)])
def test_planned_users_find_the_lift(share: float, lift: float, bots: float) -> None:
    """With as many users as planned it is found in .8 of the experiments: of 120 in 80 to 110 but for 2 in 1000."""
    n, found = int(users_to_find(Metric.of_share(share, lift), bots, error=0.05, power=0.8)), 0
    for seed in range(120):
        rng = np.random.default_rng((21, seed))
        bought = np.concatenate((rng.random(n) < share, rng.random(n) < share * (1 + lift))).astype(float)
        table = pd.DataFrame({"variant": np.repeat(["control", "new"], n), "bought": bought})
        (line,) = analyze(table, contamination=bots).table.to_dict("records")
        found += line["certified"] == "up" if bots else line["verdict"].startswith("up")
    assert 80 <= found <= 110


def test_a_plan_of_counts_is_that_of_their_ranks() -> None:
    """What ranks see of a lift is the share of pairs, by the values themselves."""
    rng = np.random.default_rng(22)
    before = rng.poisson(rng.gamma(1, 4, 4000)).astype(float)
    metric = Metric.of_values(before, 0.25)
    lifted = before * 1.25
    after = np.floor(lifted) + (rng.random((50, 4000)) < lifted - np.floor(lifted))
    shares = [stats.mannwhitneyu(one, before).statistic / 4000**2 - 0.5 for one in after]
    assert metric.moved == pytest.approx(np.mean(shares), abs=0.001)
    assert metric.gap == pytest.approx(0.25 * before.mean())
    amounts = rng.lognormal(3, 1, 4000)
    expected = stats.mannwhitneyu(amounts * 1.1, amounts).statistic / 4000**2 - 0.5
    assert Metric.of_values(amounts, 0.1).moved == pytest.approx(expected)


def test_the_command_plans_in_users_and_days(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect("plan", "--baseline", "5%", "--lift", "4%", "--per-day", "3000")
    out = capsys.readouterr().out
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    users = int(np.ceil(z**2 * (0.05 * 0.95 + 0.052 * 0.948) / 0.002**2))
    assert re.search(rf"conversion +{users:,} +none +none +{-(-2 * users // 3000)}\n", out)
    assert "no number of users is enough" in out
    table, _ = visitors(np.random.default_rng(23), 400)
    table.to_csv(tmp_path / "month.csv", index=False)
    expect("plan", "--metric-file", tmp_path / "month.csv", "--lift", "30%", "--arms", "3", "--metrics", "9")
    assert len(re.findall(r"^(?:converted|revenue|search) ", capsys.readouterr().out, re.MULTILINE)) == 3
    for arguments in (["--lift", "4%"], ["--lift", "4%", "--baseline", "5%", "100"]):
        expect("plan", *arguments, status=2)
        assert "--lift must come with one of --baseline and --metric-file" in capsys.readouterr().err
    expect("plan", status=2)
