"""The flag of features whose centre is no mean: its p-value by exhaustion, what does not change it, where it is shown.

A symmetric column is flagged with probability 0.01 at most: more than 38 of 2000 would be seen with probability 0.0001.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from sparsemean import Estimate, load, sketch, sparse_mean
from sparsemean._data import as_table
from sparsemean._fit.two_sample import compare
from sparsemean._fit.write import as_json
from sparsemean._stats.assumptions import CHECKABLE, ERROR, GAUSSIAN_BOUND, GROUPS, skew_flags, symmetry_p

from command import expect as run

CENTRE = "centre, not mean: 2 selected features may be skewed"


def mixed(n: int = 600, seed: int = 0) -> np.ndarray:
    """Return two skewed columns, one with a symmetric mean, and seven of noise."""
    rng = np.random.default_rng(seed)
    return np.column_stack((
        rng.lognormal(size=n), rng.standard_normal(n) + 1, rng.exponential(size=n), rng.standard_normal((n, 7))
    ))  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_on_signs_holds_by_exhaustion(seed: int) -> None:
    """All 2¹⁴ signs of weights that are equal, or of many sizes."""
    rng = np.random.default_rng(seed)
    weights = np.ones(14) if seed == 0 else rng.lognormal(sigma=seed / 2, size=14)
    signs = 1.0 - 2.0 * ((np.arange(2**14)[:, np.newaxis] >> np.arange(14)) & 1)
    z = np.abs(signs @ weights) / np.sqrt(np.sum(weights**2))
    p = np.sort(np.minimum(1.0, 2.0 * GAUSSIAN_BOUND * ndtr(-z * (1 + 1e-12))))
    assert (p >= np.searchsorted(p, p, side="right") / p.size - 1e-12).all()


def test_the_statistic_is_the_skewness_of_groups() -> None:
    """Against SciPy's sample skewness; only the deal of the rows is taken over."""
    from scipy.stats import skew

    for n, size in ((100, 8), (510, 16), (2050, 32)):
        x = np.random.default_rng(n).exponential(size=(n, 3))
        dealt = x[np.random.default_rng(0).permutation(n)[: n // size * size]].reshape(-1, size, 3)
        h = skew(dealt, axis=1)
        z = np.abs(h.sum(axis=0)) / np.sqrt(np.sum(h**2, axis=0))
        np.testing.assert_allclose(symmetry_p(x)[0], np.minimum(1, 2 * GAUSSIAN_BOUND * ndtr(-z)), rtol=1e-9)
        assert next(size for least, size in GROUPS if n >= least) == size


def test_what_does_not_change_the_test() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack((rng.standard_t(1.5, 400), rng.exponential(size=400), rng.poisson(0.3, 400)))
    p = symmetry_p(x)
    for other in (x + 5.0, 3.0 - x, 1e290 * x, 1e-290 * x):
        np.testing.assert_allclose(symmetry_p(other), p, rtol=1e-6)
    gaps = x.copy()
    gaps[rng.random(x.shape) < 0.3] = np.nan
    expected = [skew_flags(column[~np.isnan(column)][:, np.newaxis])[0] for column in gaps.T]
    np.testing.assert_array_equal(skew_flags(gaps), expected)
    assert skew_flags(np.column_stack((gaps, x))).tolist() == [*expected, *skew_flags(x)]


def test_columns_of_one_value_or_nearly_are_not_judged() -> None:
    x = np.full((500, 4), 0.1)
    x[:5, 1], x[::50, 2], x[::4, 3] = 7.0, [1.0, -1.0] * 5, 7.0
    assert symmetry_p(x)[0, 0] == 1.0
    assert skew_flags(x).tolist() == [-1, -1, -1, 1]
    assert skew_flags(np.full((500, 1), np.nan)).tolist() == [-1]
    assert skew_flags(np.empty((5, 0))).shape == (0,)
    assert skew_flags(np.arange(5.0)[:, np.newaxis]).tolist() == [-1]


@pytest.mark.parametrize("n", [60, 400, 1500, 2100])
@pytest.mark.parametrize("law", ["t 1.5", "Cauchy", "two points", "many scales", "zeros"])
def test_heavy_tails_equal_values_and_scales_are_no_skewness(law: str, n: int) -> None:
    rng, shape = np.random.default_rng(n), (n, 2000)
    x = {
        "t 1.5": lambda: rng.standard_t(1.5, shape),
        "Cauchy": lambda: rng.standard_cauchy(shape),
        "two points": lambda: rng.integers(2, size=shape).astype(float),
        "many scales": lambda: rng.standard_normal(shape) * rng.lognormal(sigma=3, size=(n, 1)),
        "zeros": lambda: np.where(rng.random(shape) < 0.8, 0.0, rng.laplace(size=shape)),
    }[law]()
    assert np.sum(skew_flags(x + 0.3) == 1) <= 38


def test_from_so_many_values_on_the_reference_law_is_seen() -> None:
    """Of 4000 columns; at a chance of 0.95 fewer than 3748 have probability 0.0001, and 200 values are too few."""
    rng = np.random.default_rng(0)

    def seen(n: int) -> int:
        return int(np.sum(symmetry_p(rng.lognormal(0, 0.5, (n, 4000)))[0] <= ERROR))

    assert seen(CHECKABLE) >= 3800
    assert seen(500) >= 3990
    assert seen(200) < 3700
    few = skew_flags(rng.lognormal(0, 0.5, (CHECKABLE - 1, 100)))
    assert set(few) == {-1, 1}
    assert set(skew_flags(rng.standard_normal((CHECKABLE, 100)))) == {0}


@pytest.fixture(scope="module")
def flagged() -> Estimate:
    return sparse_mean(pd.DataFrame(mixed(), columns=list("abcdefghij")))


def test_a_fit_flags_selected_features(flagged: Estimate) -> None:
    assert flagged.skewed.tolist() == [1, 0, 1] + [-1] * 7
    assert any(f"{CENTRE}, or have bad rows on one side; " in m and m.endswith("a, c") for m in flagged.status.messages)
    table = flagged.table(all=True).set_index("feature")["skewed"]
    assert table.dtype == "boolean"
    assert table[["a", "b", "c"]].tolist() == [True, False, True]
    assert table[list("defghij")].isna().all()
    rows = {row["feature"]: row["skewed"] for row in json.loads(as_json(flagged))["selected"]}
    assert rows == {"a": True, "b": False, "c": True}


def test_neither_seed_nor_buckets_change_the_flag() -> None:
    X = mixed(260, seed=3)
    found = [sparse_mean(X, random_state=seed).skewed for seed in range(3)]
    found += [sparse_mean(X, refine=None, screen_rows=False).skewed, sketch(X).estimate(X).skewed]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_rejected_rows_do_not_make_a_feature_look_skewed() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 60)) + np.where(np.arange(60) < 3, 1.0, 0.0)
    X[rng.choice(600, 30, replace=False)] += 4.0
    found = sparse_mean(X, contamination=0.05)
    assert found.rows is not None
    assert found.rows.suspects.size == 30
    assert found.skewed[:3].tolist() == [0, 0, 0]
    assert sparse_mean(X, contamination=0.05, screen_rows=False).skewed[:3].tolist() == [1, 1, 1]


def test_rejected_rows_do_not_hide_that_a_feature_is_skewed() -> None:
    rng = np.random.default_rng(1)
    X = rng.lognormal(size=(2000, 40)) - np.exp(0.5)
    X[rng.choice(2000, 100, replace=False)] = -3.0 * np.abs(rng.standard_cauchy((100, 40)))
    assert (sparse_mean(X, contamination=0.05).skewed == 1).all()
    assert (sparse_mean(X, contamination=0.05, screen_rows=False).skewed == 1).mean() < 0.2  # what bad rows can do


def test_where_it_cannot_be_told_that_is_said_once() -> None:
    said = "symmetry not checkable with 120 rows: if noise is skewed, an estimate is not a mean"
    few = sparse_mean(mixed(120)[:, 1:2], contamination=0)
    assert (few.support.tolist(), few.skewed.tolist()) == ([0], [-1])
    assert [m for m in few.status.messages if "symmetry" in m] == [said]
    of_subjects = sparse_mean(mixed()[:, 1:2], contamination=0, groups=np.arange(600) // 5)
    assert said.replace("rows", "subjects") in of_subjects.status.messages
    rare = np.zeros((600, 1))
    rare[:40:5] = 1.0
    said = "symmetry not checkable for 1 selected feature with too few values, or too few that differ"
    assert said in sparse_mean(rare + 1.0, contamination=0).status.messages
    nothing = sparse_mean(np.random.default_rng(0).standard_normal((100, 5)))
    assert not nothing.support.size
    assert not any("symmetry" in m for m in nothing.status.messages)


def test_groups_and_counts_alone_say_nothing() -> None:
    X = mixed()
    X[:300, 0] += 3.0
    groups = compare(as_table(X), np.repeat(["a", "b"], 300)).result
    assert isinstance(groups, Estimate)
    assert groups.support.size
    assert (groups.skewed == -1).all()
    alone = sketch(X).estimate(contamination=0)
    assert alone.support.size
    assert (alone.skewed == -1).all()
    assert not any("symmetry" in m or "centre" in m for m in (*alone.status.messages, *groups.status.messages))


def test_files_keep_the_flag(flagged: Estimate, tmp_path: Path) -> None:
    flagged.save(tmp_path / "now.npz")
    np.testing.assert_array_equal(load(tmp_path / "now.npz").skewed, flagged.skewed)
    with np.load(tmp_path / "now.npz") as file:
        arrays = dict(file)
    header = json.loads(str(arrays.pop("header")))
    for odd in (np.full(10, 2), np.zeros(9, dtype=int), np.zeros(10)):
        np.savez(tmp_path / "odd.npz", header=np.array(json.dumps(header)), **arrays | {"skewed": odd})
        with pytest.raises(ValueError, match=r"odd\.npz"):
            load(tmp_path / "odd.npz")


def test_the_page_marks_centres(flagged: Estimate, tmp_path: Path) -> None:
    flagged.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('class="number centre"') == 2
    assert '* Centre, not mean: the feature may be skewed, or has bad rows on one side. <code>target="mean"' in page
    symmetric = sparse_mean(mixed()[:, 1:2])
    assert symmetric.skewed.tolist() == [0]
    symmetric.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Centre, not mean" not in page
    assert 'data-key="skewed"' not in page


def test_the_command_line_marks_centres(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for columns, marks in ((slice(0, 10), 2), (slice(1, 2), 0)):
        np.save(tmp_path / "x.npy", mixed()[:, columns])
        run("fit", tmp_path / "x.npy")
        shown = capsys.readouterr().out
        assert sum("* " in line for line in shown.splitlines() if line[:1].isdigit()) == marks
        assert ('* a centre, not a mean: target="mean" tests means' in shown) == bool(marks)
        assert max(map(len, shown.splitlines())) <= 80
