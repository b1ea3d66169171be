"""Metrics of two values have the p of Fisher's exact test, and its power; they and others of few values an estimate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import sparsemean as sm
from sparsemean._stats.decision import error_after_selection
from sparsemean._stats.effects import CENTRE, MEANS, PAIRS, UNKNOWN
from sparsemean.result._report.page import page_data
from sparsemean.result._report.wording import wording_of

SHARES = (0.005, 0.02, 0.08, 0.1, 0.24, 0.26, 0.5, 0.8, 0.89, 0.91, 0.98, 0.995)


def conversions(n: int, counts: list[tuple[int, int]]) -> np.ndarray:
    """A column for each pair of numbers: so many ones among n rows of the label, then of the reference."""
    X = np.zeros((2 * n, len(counts)), dtype=np.int8)
    for j, (a, b) in enumerate(counts):
        X[:a, j] = X[n : n + b, j] = 1
    return X


@pytest.mark.parametrize("n", [60, 500, 20_000, 200_000])
def test_p_is_that_of_fishers_exact_test(n: int, long_version: bool) -> None:
    if n > 20_000 and not long_version:
        pytest.skip("the long version")
    counts = []
    for share in SHARES:
        for z in (0.0, 0.5, -2.0, 3.0, 4.0, -6.0):
            apart = z * np.sqrt(n * share * (1 - share) / 2)
            a, b = round(n * share + apart), round(n * share - apart)
            if min(a, b) >= 0 and max(a, b) <= n and 0 < a + b < 2 * n:
                counts.append((a, b))
    y, X = np.repeat(["new", "old"], n), conversions(n, counts)
    tails = [
        min(stats.hypergeom.sf(one - 1, 2 * n, a + b, n) for one in (a, b)) for a, b in counts
    ]  # that of the other arm is the lower one
    expected = np.minimum(1.0, 2 * np.array(tails))
    for values in (X, -X, X - 1):
        found = sm.certify(values, y=y, contamination=0).p_values
        assert (found >= expected * (1 - 1e-9)).all()
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    up = sm.certify(X, y=y, contamination=0, alternative="greater").p_values
    np.testing.assert_allclose(
        up, stats.hypergeom.sf([b - 1 for _, b in counts], 2 * n, X.sum(axis=0, dtype=int), n), rtol=1e-5
    )


def test_a_plain_conversion_test() -> None:
    """4000 of 40,000 converted, four standard errors apart, with all defaults and nothing else."""
    X = conversions(20_000, [(2120, 1880)])
    fisher = stats.fisher_exact([[2120, 20_000 - 2120], [1880, 20_000 - 1880]]).pvalue
    found = sm.SparseMeanDifference().fit(X, np.repeat([1, 0], 20_000)).result_
    assert found.p_values[0] <= 1.01 * fisher < 1e-4
    assert found.support.tolist() == [0]


def test_bad_rows_never_make_a_smaller_p() -> None:
    X, y = conversions(200, [(60, 20), (180, 120), (30, 2), (199, 180)]), np.repeat([1, 0], 200)
    p = [sm.certify(X, y=y, contamination=m / 200).p_values for m in range(8)]
    assert (np.diff(p, axis=0) >= 0).all()
    assert (p[0] < 1e-4).all()
    assert (p[1][:3] < 0.05).all()


def test_power_of_a_lift_of_a_tenth() -> None:
    """8 % and 8.8 % of 30,000 users an arm: the z-test finds it in .94 of experiments."""
    rng, n = np.random.default_rng(10_000), 30_000
    counts = [(int(a), int(b)) for a, b in zip(rng.binomial(n, 0.088, 300), rng.binomial(n, 0.08, 300), strict=True)]
    p = sm.certify(conversions(n, counts), y=np.repeat([1, 0], n), contamination=0).p_values
    assert np.mean(p <= 0.05) >= 0.9  # 3 standard errors below


# What is shown of them: never 0, no interval without width, none that holds 0 beside a selection.


def discrete(n: int = 240) -> tuple[np.ndarray, np.ndarray]:
    """Columns of few values, of which the new arm has larger ones, and a null column behind each."""
    rng, new = np.random.default_rng(0), np.repeat([True, False], n)
    columns = []
    for more in (new, np.zeros(2 * n, dtype=bool)):
        columns += [
            (rng.random(2 * n) < np.where(more, 0.35, 0.1)).astype(float),
            np.where(rng.random(2 * n) < np.where(more, 0.7, 0.4), 12.5, -3.0),
            np.where(rng.random(2 * n) < np.where(more, 0.5, 0.2), rng.poisson(1.0, 2 * n) + 1.0, 0.0),
            np.minimum(5, rng.integers(1, 6, 2 * n) + more),
            rng.poisson(np.where(more, 3.4, 2.5)),
            -1.0 * (rng.random(2 * n) < np.where(more, 0.05, 0.3)),
        ]
    return np.column_stack(columns), np.where(new, "new", "old")


@pytest.mark.parametrize("kind", ["plain", "bad rows", "one side", "gaps", "gaps, bad rows", "strata", "fdr", "few"])
def test_what_is_selected_has_an_estimate_and_an_interval(kind: str) -> None:
    X, y = discrete(25 if kind == "few" else 240)
    options: dict[str, object] = {"contamination": 0.01 if "bad rows" in kind else 0.0}
    options |= {"alternative": "greater"} if kind == "one side" else {}
    options |= {"selection": "fdr"} if kind in ("fdr", "few") else {}
    if "gaps" in kind:
        X[np.random.default_rng(1).random(X.shape) < 0.08] = np.nan
        options["missing"] = "omit"
    strata = {"strata": np.arange(y.size) % 3} if kind == "strata" else {}
    fit = sm.SparseMeanDifference(reference="old", **options).fit(X, y, **strata)  # type: ignore[arg-type]
    found = fit.result_
    at, (low, high) = found.support, found.intervals[found.support].T
    assert at.size >= (2 if kind == "few" else 5)
    assert set(at.tolist()) <= set(range(6))
    assert (found.mean[at] > 0).all()
    assert (low >= 0).all()
    assert ((low < found.mean[at]) | (found.measure[at] == CENTRE)).all()
    assert ((low < high) & (high >= found.mean[at])).all()
    table = found.table().set_index("feature")
    for k in at.tolist():
        if found.measure[k] == MEANS:  # one fact has one number
            assert kind != "strata"
            assert table.loc[k, "measure"] == "means"
            assert found.mean[k] == pytest.approx(table.loc[k, "difference"], rel=1e-12)
        elif found.measure[k] == PAIRS:
            assert table.loc[k, "measure"] == "pairs"
            assert found.mean[k] == table.loc[k, "beta"]
    if kind != "strata":
        assert (found.measure[np.intersect1d(at, (0, 1, 5))] == MEANS).all()
    assert found.measure[np.delete(np.arange(12), at)].max() == UNKNOWN
    # What the fit shows is what is had by name, by a share named later and from a file.
    error = error_after_selection(found.plan, at.size)
    np.testing.assert_allclose(found.interval(at, 1 - error), found.intervals[at], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(found.at(options["contamination"]).intervals, found.intervals)


def test_every_page_has_the_same_number(tmp_path: Path) -> None:
    X, y = discrete()
    found = sm.SparseMeanDifference(reference="old", contamination=0).fit(X, y).result_
    table, printed = found.table().set_index("feature"), str(found)
    for k in found.support.tolist():
        line = next(line for line in printed.splitlines() if line.startswith(f"{k} "))
        assert f"{table.loc[k, 'estimate']:.4g}" in line
        assert ("†" in line) == (table.loc[k, "measure"] == "pairs")
    assert "† share of pairs in which new is larger, less the share in which it is smaller" in printed
    assert "measure" in found.summary()
    assert found.plot_forest().get_xlabel() == "Shift, new minus old, or share of pairs, in units of the data"
    content = page_data(wording_of(found))
    columns = {name: values for (name, *_), values in zip(content["columns"], content["table"], strict=True)}
    assert columns["measure"] == table["measure"].reindex(columns["feature"], fill_value="").tolist()
    selected = [value for value in columns["estimate"] if value is not None]
    assert selected == table["estimate"].tolist()
    path = tmp_path / "found.npz"
    found.save(path)
    np.testing.assert_array_equal(sm.load(path).measure, found.measure)


def test_a_shift_that_is_one_stays_one() -> None:
    """Continuous values, and whole numbers that lie far apart."""
    rng, y = np.random.default_rng(0), np.repeat([1, 0], 100)
    X = np.column_stack([rng.normal(y, 1.0), rng.poisson(200 + 40 * y), np.round(rng.normal(3 * y, 1.0), 1)])
    found = sm.SparseMeanDifference(contamination=0).fit(X, y).result_
    assert found.support.tolist() == [0, 1, 2]
    assert found.table()["measure"].tolist() == ["shift"] * 3
    assert "measure" not in [column[0] for column in page_data(wording_of(found))["columns"]]


def test_pairs_of_rows_have_no_interval_without_width() -> None:
    """Yes and no before and after: differences are −1, 0 and 1."""
    rng = np.random.default_rng(0)
    before, after = rng.random((200, 4)) < 0.2, rng.random((200, 4)) < (0.5, 0.5, 0.2, 0.2)
    X, y, pair = np.concatenate((before, after)).astype(float), np.repeat([0, 1], 200), np.tile(np.arange(200), 2)
    found = sm.SparseMeanDifference(contamination=0).fit(X, y, pairs=pair).result_
    assert found.support.tolist() == [0, 1]
    assert found.table()["measure"].tolist() == ["pairs", "pairs"]
    low, high = found.intervals[[0, 1]].T
    assert ((low > 0) & (low < found.mean[[0, 1]]) & (found.mean[[0, 1]] < high)).all()
