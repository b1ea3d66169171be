"""The numbers inside the page are those of the estimate."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from sparsemean import Estimate, SparseMean, load, simulate, sparse_mean
from sparsemean._util.checks import Bunch
from sparsemean.result._report import page
from sparsemean.result._report.plot_data import count_on_grid


def content_of(estimate: Estimate, **names: Any) -> dict[str, Any]:
    return page.page_data(page.page_wordings(estimate, **names)[0])


def back(values: list[Any]) -> list[float]:
    """Read a column as the scripts do."""
    return [np.nan if value is None else float(value) for value in values]


@pytest.mark.parametrize("name", ["estimate", "nothing", "attacked"])
def test_the_table_is_the_estimates_table_to_the_last_digit(name: str, request: pytest.FixtureRequest) -> None:
    estimate = request.getfixturevalue(name)
    content, table = content_of(estimate), estimate.table(all=True).drop(columns=["measure", "skewed"])
    assert [column[0] for column in content["columns"]] == list(table.columns)
    selected = [str(value) for value in estimate.table()["feature"]]
    assert [str(value) for value in content["table"][0]][: len(selected)] == selected
    table = table.set_index("feature", drop=False).loc[content["table"][0]]
    for (key, *_), values in list(zip(content["columns"], content["table"], strict=True))[1:]:
        np.testing.assert_array_equal(back(values), table[key].astype(float).to_numpy(na_value=np.nan), err_msg=key)
    assert estimate.names(np.array(content["index"], dtype=np.intp)) == content["table"][0]


def test_infinite_and_unknown_values_have_words() -> None:
    X = simulate.make_contaminated(24, 30, [6, -5], contamination=0.2, random_state=0).X
    estimate = SparseMean.paper(contamination=0.2, random_state=0).fit(X).result_
    content = content_of(estimate)
    columns = dict(zip((column[0] for column in content["columns"]), content["table"], strict=True))
    assert np.isinf(estimate.intervals[estimate.support]).all()
    assert set(columns["ci_low"]) == {"-inf"}
    assert set(columns["ci_high"]) == {"inf"}
    assert None in columns["max_contamination"]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page.page_of(estimate))
    assert cells[1:3] == ["−∞", "∞"]


def test_unselected_features_are_all_counted(estimate: Estimate) -> None:
    content = content_of(estimate)
    mass, (bar,) = content["volcano"]["mass"], [stop["bar"] for stop in content["shares"] if stop["fit"]]
    cells = np.array(mass["cells"]).reshape(-1, 3)
    others = np.flatnonzero(np.isnan(estimate.max_contamination))
    assert mass["total"] == cells[:, 2].sum() == others.size
    assert (mass["x"][0], mass["x"][1]) == (estimate.beta[others].min(), estimate.beta[others].max())
    highest_other = -np.log10(estimate.p_values[others].min())
    lowest_selected = -np.log10(estimate.p_values[estimate.support].max())
    assert highest_other < bar <= lowest_selected


def test_a_grid_counts_what_numpy_counts() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 10_000))
    grid = count_on_grid(x, y, (20, 10))
    expected, _, _ = np.histogram2d(x, y, bins=(20, 10))
    found = np.zeros((20, 10))
    for i, j, number in np.array(grid["cells"]).reshape(-1, 3):
        found[i, j] = number
    np.testing.assert_array_equal(found, expected)
    assert grid["most"] == expected.max()


def test_without_the_data_the_table_is_the_same(estimate: Estimate, tmp_path: Any) -> None:
    estimate.save(tmp_path / "x.npz")
    assert content_of(load(tmp_path / "x.npz"))["table"] == content_of(estimate)["table"]


def test_features_left_are_those_that_survive(estimate: Estimate) -> None:
    robustness = content_of(estimate)["robustness"]
    slack = estimate.decision.last
    for share, left in np.array(robustness["steps"]).reshape(-1, 2):
        assert left == np.sum(slack >= round(share * 400))
    for share, rows, left, _ in robustness["table"]:
        assert rows == [np.ceil(share * 400 - 1e-9)]
        assert left == np.sum(slack >= rows[0])
    assert [0.05, [20], estimate.support.size, True] in robustness["table"]
    assert robustness["planned"] == 0.05


def test_rows_have_scores_names_and_suspects_first(groups: tuple[Estimate, Bunch]) -> None:
    estimate, bunch = groups
    rows = content_of(estimate, row_names=bunch.samples)["rows"]
    assert estimate.rows is not None
    assert rows["index"][: rows["n_shown"]] == estimate.rows.suspects.tolist()
    assert sorted(rows["index"]) == list(range(125))
    np.testing.assert_allclose(rows["scores"], estimate.rows.scores[rows["index"]], rtol=1e-3)
    assert rows["names"] == bunch.samples[rows["index"]].tolist()


def test_very_many_rows_are_counted_but_for_the_suspects() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 60))
    X[:40, 20:] += 4
    estimate = sparse_mean(X, contamination=0.02, random_state=0)
    rows = content_of(estimate)["rows"]
    assert estimate.rows is not None
    assert rows["index"] == estimate.rows.suspects.tolist() != []
    assert rows["mass"]["total"] == 4000 - len(rows["index"])


def test_features_found_after_screening_are_apart(attacked: Estimate) -> None:
    found, table = content_of(attacked)["uncertified"], attacked.table(certified=False)
    assert len(found["feature"]) == len(table) > 0
    np.testing.assert_array_equal(found["estimate"], table["estimate"])
    assert not set(found["feature"]) & set(content_of(attacked)["table"][0][: attacked.support.size])


def test_more_selected_features_than_the_page_takes(estimate: Estimate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_LISTED", 3)
    content = content_of(estimate)
    assert len(content["index"]) == len(content["table"][0]) == 3
    assert content["n_selected"] == estimate.support.size > 3
    assert content["volcano"]["mass"]["total"] == 40 - 3
