"""Values from before: slopes, what is tested, what it gains, and that nothing false is found more often for it.

Of D independent features at most as many may have p ≤ t as a binomial of D trials with chance t exceeds with
probability 1e-5; about 20 cells are asked at three t each, so that valid p-values fail somewhere with probability .001.
Seeds are fixed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import sparse, stats

from sparsemean import SparseMeanDifference, certify
from sparsemean._data import as_table
from sparsemean._fit import covariates
from sparsemean._fit.covariates import adjusted, mean_slope, rank_slope
from sparsemean.errors import InputError

from command import expect
from conftest import Claims

Matrix = npt.NDArray[np.float64]
RHO = 0.7
LEFT = np.sqrt(1 - RHO**2)
LEVELS = (0.05, 0.01, 0.001)


def stretches(n: int, d: int, seed: int, *, tails: str = "normal") -> tuple[Matrix, Matrix, Matrix]:
    """Return three stretches of a metric, each with a correlation of .7 to the one before."""
    rng = np.random.default_rng(seed)
    e = rng.standard_normal((3, n, d)) if tails == "normal" else rng.standard_t(3, (3, n, d))
    earlier = e[0]
    later = RHO * earlier + LEFT * e[1]
    return earlier, later, RHO * later + LEFT * e[2]


def halves(n: int) -> npt.NDArray[np.intp]:
    return np.repeat([0, 1], n // 2)


def money(n: int, d: int, seed: int, *, zeros: float) -> tuple[Matrix, Matrix, Matrix]:
    """Return three stretches of what people spend; who spends much does so again."""
    rng = np.random.default_rng(seed)
    user, least = rng.standard_normal((n, d)), stats.norm.ppf(zeros)

    def stretch() -> Matrix:
        buys = np.sqrt(RHO) * user + np.sqrt(1 - RHO) * rng.standard_normal((n, d)) > least
        return np.asarray(buys * np.exp(0.7 * user + 0.5 * rng.standard_normal((n, d))))

    return stretch(), stretch(), stretch()


def values_of(X: Any, covariate: Any, **options: Any) -> Matrix:
    return np.asarray(adjusted(as_table(X), covariate, **options)[0].values)


# Slopes.


@pytest.mark.parametrize("rounded", [False, True])
def test_the_slope_is_the_one_without_rank_correlation(rounded: bool) -> None:
    """Against the median of the slopes of all pairs, and against Spearman's correlation of what is left."""
    _, z, x = stretches(400, 1, 1, tails="t3")
    z, x = z[:, 0], 3 * x[:, 0] + 7
    if rounded:
        z, x = np.round(2 * z) / 2, np.round(x)
    first, second = np.triu_indices(z.size, 1)
    ranks = stats.rankdata(z)
    weights = np.abs(ranks[first] - ranks[second])
    with np.errstate(invalid="ignore", divide="ignore"):
        slopes = (x[first] - x[second]) / (z[first] - z[second])
    order = np.argsort(slopes)
    heights = np.cumsum(weights[order])
    expected = slopes[order[np.searchsorted(heights, heights[-1] / 2)]]
    theta, _ = rank_slope(z, x)
    assert theta == pytest.approx(expected, abs=0.2)
    assert abs(stats.spearmanr(x - theta * z, z).statistic) < 0.06


@pytest.mark.parametrize("slope", [rank_slope, mean_slope])
def test_slopes_do_not_depend_on_the_order_of_rows_and_follow_units(slope: Any) -> None:
    z, x = (np.round(values[:, 0], 1) for values in stretches(9000, 1, 2)[1:])
    theta, gain = slope(z, x)
    order = np.random.default_rng(0).permutation(z.size)
    again = slope(z[order], x[order])
    assert again == (theta, gain) if slope is rank_slope else again == pytest.approx((theta, gain), rel=1e-12)
    other, same = slope(4 * z, 8 * x)
    assert (other, same) == pytest.approx((2 * theta, gain), rel=1e-9)
    assert theta == pytest.approx(RHO, abs=0.03)


def test_bad_rows_move_a_slope_by_little() -> None:
    """Five percent of the rows, wherever they lie, move it by a fifth."""
    _, z, x = (values[:, 0] for values in stretches(2000, 1, 3))
    before, _ = rank_slope(z, x)
    for far in (5.0, 1e6, 1e200):
        for sign in (1, -1):
            worse, bad = x.copy(), z.copy()
            worse[:50], bad[:50], worse[50:100], bad[50:100] = 1e3 * far, sign * far, -1e3 * far, -sign * far
            assert abs(rank_slope(bad, worse)[0] - before) < 0.2


def test_a_slope_that_gains_nothing_is_none() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((500, 2))
    unrelated, constant = rng.standard_normal((500, 2)), np.ones((500, 2))
    for covariate in (unrelated, constant, (unrelated, X[::-1]), np.full((500, 2), np.nan)):
        table, theta = adjusted(as_table(X), covariate)
        assert not theta.any()
        np.testing.assert_array_equal(table.values, X)
        assert "none was adjusted" in table.notes[0]
    few = np.where(np.arange(500)[:, np.newaxis] < 19, X, np.nan)
    assert not adjusted(as_table(X), few)[1].any()


# What is tested.


def test_values_are_those_of_the_formula() -> None:
    earlier, later, X = stretches(300, 3, 5)
    later[7] = np.nan
    theta = [rank_slope(earlier[~np.isnan(later[:, j]), j], later[~np.isnan(later[:, j]), j])[0] for j in range(3)]
    expected = X - np.nan_to_num(theta * (later - np.nanmean(later, axis=0)))
    np.testing.assert_allclose(values_of(X, (earlier, later)), expected, rtol=1e-12, atol=1e-12)
    theta = [rank_slope(np.delete(later, 7, 0)[:, j], np.delete(X, 7, 0)[:, j])[0] for j in range(3)]
    expected = X - np.nan_to_num(theta * (later - np.nanmean(later, axis=0)))
    np.testing.assert_allclose(values_of(X, later), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(values_of(X, later).mean(axis=0), X.mean(axis=0), atol=1e-12)  # CUPED's means


def test_with_two_stretches_a_bad_row_touches_only_itself() -> None:
    earlier, later, X = stretches(400, 4, 6)
    before = values_of(X, (earlier, later))
    worse = X.copy()
    worse[[3, 200]] = 1e9
    after = values_of(worse, (earlier, later))
    good = np.delete(np.arange(400), [3, 200])
    np.testing.assert_array_equal(after[good], before[good])
    assert (values_of(worse, later)[good] != values_of(X, later)[good]).any()


def test_kinds_of_tables_and_the_order_of_rows_make_no_difference(tmp_path: Path) -> None:
    earlier, later, X = (np.round(values, 2).astype(np.float32) for values in stretches(240, 3, 7))
    X[120:, 0] += 1
    y, names = halves(240), ["a", "b", "c"]
    expected = certify(X, y, contamination=0, covariate=(earlier, later))
    frames = [pd.DataFrame(values, columns=names, index=np.arange(240) + 5) for values in (earlier, later, X)]
    kinds = [
        (frames[2], (frames[0][["c", "a", "b"]], frames[1])),
        (frames[2], (frames[0], later)),
        (sparse.csr_array(X), (earlier, sparse.csc_array(later))),
        (X.astype(np.float64), (earlier.astype(np.float64), later.astype(np.float64))),
    ]
    for x, covariate in kinds:
        found = certify(x, y, contamination=0, covariate=covariate)
        np.testing.assert_array_equal(found.p_values, expected.p_values)
    order = np.random.default_rng(0).permutation(240)
    for given in ((earlier, later), later):
        moved = tuple(each[order] for each in given) if isinstance(given, tuple) else given[order]
        again = certify(X[order], y[order], contamination=0, covariate=moved).p_values
        np.testing.assert_array_equal(again, certify(X, y, contamination=0, covariate=given).p_values)


def test_columns_without_values_from_before_stay_as_they_are() -> None:
    _, later, X = (values.round(10) for values in stretches(300, 3, 8))  # no more digits than doubles hold
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    table, theta = adjusted(as_table(frame), pd.DataFrame({"c": later[:, 2]}))
    np.testing.assert_array_equal(table.values[:, :2], X[:, :2])
    assert theta[:2].tolist() == [0, 0]
    assert theta[2] > 0.5
    assert table.notes[0].startswith("1 of 3 features adjusted for values from before, which takes out 4")
    assert table.notes[0].endswith("2 features without values from before")


def test_every_kind_of_comparison_takes_a_covariate() -> None:
    earlier, later, X = stretches(360, 6, 9)
    arms = np.arange(360) % 3
    X[arms == 2, 0] += 1.5
    X[arms == 2, 1] += 3
    gaps = np.where(X > 5, np.nan, X)
    y, covariate = arms == 2, (earlier, later)
    fits = [
        SparseMeanDifference().fit(X, arms, covariate=covariate),
        SparseMeanDifference().fit(X, y, strata=np.arange(360) // 90, covariate=covariate),
        SparseMeanDifference().fit(X, y, groups=arms + 3 * (np.arange(360) // 6), covariate=covariate),
        SparseMeanDifference(missing="omit").fit(gaps, y, covariate=covariate),
        SparseMeanDifference(min_effect=0.2).fit(X, y, covariate=covariate),
        SparseMeanDifference().fit(
            X[arms > 0], arms[arms > 0], pairs=np.arange(240) // 2, covariate=(earlier[arms > 0], later[arms > 0])
        ),
    ]
    for fit in fits:
        assert fit.support_.tolist() == [0, 1]
        assert any("values from before" in note for note in _messages(fit))
        assert (fit.theta_ > 0.5).all()
    row = fits[1].result_.table().set_index("feature").loc[1]
    assert row["estimate"] == pytest.approx(3, abs=0.3)
    assert row["difference"] == pytest.approx(3, abs=0.3)
    assert fits[1].fit(X, y).theta_ is None


def _messages(fit: Any) -> tuple[str, ...]:
    return next(iter(fit.results_.values())).status.messages


def test_means_are_compared_with_less_noise() -> None:
    """Money of one in ten: the slope is that of means, and intervals of the difference of means are shorter."""
    earlier, later, X = money(8000, 2, 10, zeros=0.9)
    X[4000:, 0] += 0.4
    widths = []
    for covariate in (None, later, (earlier, later)):
        fit = SparseMeanDifference(0, target="mean").fit(np.minimum(X, 9), halves(8000), covariate=covariate)
        assert fit.support_.tolist() == [0]
        low, high = fit.result_.intervals[0]
        assert low < 0.4 < high
        widths.append(high - low)
    assert widths[1] < 0.92 * widths[0]
    assert widths[2] < 0.92 * widths[0]


# What it gains.


def detectable(n: int, d: int, seed: int, tails: str) -> dict[str, float]:
    """Return the shift that has p ≤ .001 with a chance of 80 %, for each kind of covariate."""
    earlier, later, X = stretches(n, d, seed, tails=tails)
    shifts = np.linspace(0.1, 0.3, d)  # z is proportional to them as long as they are small
    X[n // 2 :] += shifts
    out = {}
    for name, covariate in {"none": None, "one": later, "pair": (earlier, later)}.items():
        found = certify(X, halves(n), contamination=0, covariate=covariate)
        z = stats.norm.isf(found.p_values / 2) * np.sign(found.beta)
        out[name] = (stats.norm.isf(0.0005) + stats.norm.ppf(0.8)) * (shifts @ shifts) / (shifts @ z)
    return out


@pytest.mark.parametrize("tails", ["normal", "t3"])
def test_the_detectable_effect_falls_as_promised(tails: str, long_version: bool, claims: Claims) -> None:
    """To √(1 − ρ²) = .714 of it for normal noise; heavy tails gain more, as what is left has tails as heavy."""
    found = detectable(*((2000, 1000) if long_version else (700, 120)), 11, tails)
    one, pair = (found[name] / found["none"] for name in ("one", "pair"))
    for ratio in (one, pair):
        assert 0.714 - (0.03 if tails == "normal" else 0.12) < ratio < 0.714 + 0.03
    name = f"detectable shift with values from before, ρ = .7, {tails} noise, over that without: one stretch, two"
    claims.add(name, f"{one:.3f}, {pair:.3f}", "√(1 − ρ²) = .714, within .03; less for t3", 11)


def counts(n: int, d: int, seed: int, *, rate: float) -> tuple[Matrix, Matrix, Matrix]:
    """Return three stretches of visits, of users of whom some come often."""
    rng = np.random.default_rng(seed)
    rates = rate * np.exp(rng.standard_normal((n, d)))
    first, second, third = (rng.poisson(rates) * 1.0 for _ in range(3))
    return first, second, third


def test_ties_are_not_torn_apart() -> None:
    """Rank tests lose where equal values are told apart by noise: such columns are left as they are."""
    n, d = 1500, 6
    rng = np.random.default_rng(12)
    user = rng.standard_normal((n, d))
    first, second, third = ((user + rng.standard_normal((n, d)) > 1.8) * 1.0 for _ in range(3))
    for earlier, later, X in ((first, second, third), money(n, d, 12, zeros=0.9), counts(n, d, 12, rate=0.2)):
        for covariate in (later, (earlier, later)):
            assert not adjusted(as_table(X), covariate)[1].any()
        assert (adjusted(as_table(X), later, target="mean")[1] > 0.1).all()
    for _, later, X in (money(n, d, 12, zeros=0.4), counts(n, d, 12, rate=2)):
        assert not adjusted(as_table(X), rng.permutation(later))[1].any()  # says nothing: of somebody else


@pytest.mark.parametrize("kind", ["counts", "amounts of seven in ten", "amounts of three in ten"])
def test_counts_and_amounts_gain(kind: str) -> None:
    """What is adjusted is found more surely: mean z of a lift with and without."""
    n, d = 3000, 12
    if kind == "counts":
        earlier, later, X = counts(n, d, 13, rate=5)
        X[n // 2 :] += np.random.default_rng(13).binomial(X[n // 2 :].astype(int), 0.1)
    else:
        earlier, later, X = money(n, d, 14, zeros=0.3 if "seven" in kind else 0.7)
        X[n // 2 :] *= 1.3
    assert adjusted(as_table(X), (earlier, later))[1].all()
    before, after = (
        stats.norm.isf(certify(X, halves(n), contamination=0, alternative="greater", covariate=each).p_values).mean()
        for each in (None, (earlier, later))
    )
    assert after > 1.25 * before


# Nothing false is found more often.


def told(p: Matrix, cell: str, claims: Claims) -> None:
    found = [int(np.sum(p <= level)) for level in LEVELS]
    bars = [int(stats.binom.isf(1e-5, p.size, level)) for level in LEVELS]
    assert all(count <= bar for count, bar in zip(found, bars, strict=True)), (cell, found, bars)
    measured = ", ".join(f"{count / p.size:.4f}" for count in found)
    name = f"values from before, nothing differs, {cell}: P(p ≤ .05), P(p ≤ .01), P(p ≤ .001)"
    claims.add(name, measured, "≤ .05, .01, .001 up to chance", "20–23")


@pytest.mark.parametrize("law", ["normal", "t3", "40 % zeros", "counts"])
@pytest.mark.parametrize("kind", ["one stretch", "two stretches"])
def test_null_with_clean_rows(law: str, kind: str, long_version: bool, claims: Claims) -> None:
    n, d = 160, 4000 if long_version else 60
    if law == "counts":
        earlier, later, X = counts(n, d, 20, rate=3)
    else:
        earlier, later, X = money(n, d, 20, zeros=0.4) if "zeros" in law else stretches(n, d, 20, tails=law)
    later[np.random.default_rng(0).random((n, d)) < 0.1] = np.nan
    covariate = later if kind == "one stretch" else (earlier, later)
    assert np.mean(adjusted(as_table(X), covariate)[1] > 0) > 0.4
    told(certify(X, halves(n), contamination=0, covariate=covariate).p_values, f"{law}, {kind}", claims)


CORRUPTED = ["5 % of the rows anything", "all rows anything", "all rows a function of the metric"]


@pytest.mark.parametrize("how", CORRUPTED)
@pytest.mark.parametrize("kind", ["one stretch", "two stretches"])
def test_null_with_a_corrupted_covariate(how: str, kind: str, long_version: bool, claims: Claims) -> None:
    """Whatever was recorded before labels were given may be wrong."""
    n, d = 160, 4000 if long_version else 60
    earlier, later, X = stretches(n, d, 21)
    rng = np.random.default_rng(21)
    if how == CORRUPTED[0]:
        bad = rng.permutation(n)[: n // 20]
        earlier[bad], later[bad] = 1e6 * rng.standard_cauchy((2, bad.size, d))
    elif how == CORRUPTED[1]:
        earlier = rng.standard_cauchy((n, d))
        later = earlier + rng.standard_cauchy((n, d)) * (rng.random((n, d)) < 0.3)
    else:
        earlier, later = np.sign(X) * X**2, np.where(X > 0, 5 * X, -1e3)
    covariate = later if kind == "one stretch" else (earlier, later)
    told(certify(X, halves(n), contamination=0, covariate=covariate).p_values, f"{how}, {kind}", claims)


def attacked(X: Matrix, Z: Matrix, y: Any, m: int, *, steer: bool) -> tuple[Matrix, Matrix]:
    """Replace the m rows of each group that speak most against a difference by ones that speak for it.

    Labels are known. With ``steer`` the values from before are replaced too, such that θ moves to where the groups,
    whose values from before differ by chance, lie further apart.
    """
    X, Z, columns = X.copy(), Z.copy(), np.arange(X.shape[1])
    W = X - RHO * Z

    def lean(values: Matrix) -> Matrix:
        ranks = stats.rankdata(values, axis=0)
        return np.asarray(np.sign(ranks[y == 1].mean(axis=0) - ranks[y == 0].mean(axis=0)))

    side, towards = lean(W), -lean(W) * lean(Z)
    for group, sign in ((1, 1.0), (0, -1.0)):
        rows = np.flatnonzero(y == group)
        bad = rows[np.argsort(sign * side * W[rows], axis=0)[:m]]
        X[bad, columns] = 100 * sign * side
        if steer:
            Z[bad, columns] = 5 * sign * side * towards * (1 + 0.01 * np.arange(m))[:, np.newaxis]
    return X, Z


@pytest.mark.parametrize("m", [2, 8])
@pytest.mark.parametrize("kind", ["one stretch, steered", "two stretches", "two stretches, steered"])
def test_null_with_bad_rows_that_know_the_labels(kind: str, m: int, long_version: bool, claims: Claims) -> None:
    """Two stretches: proved. One stretch, or bad rows that change what was recorded before: measured, not proved."""
    n, d = 320, 4000 if long_version else 80
    earlier, later, X = stretches(n, d, 22)
    y = halves(n)
    bad, before = attacked(X, later, y, m, steer="steered" in kind)
    covariate = before if kind.startswith("one") else (earlier, before)
    p = certify(bad, y, contamination=m / 160, covariate=covariate).p_values
    told(p, f"{m} of 160 rows of each group bad, which know the labels, {kind}", claims)
    if m == 2 and long_version:
        assert np.mean(p <= 0.05) > 0.02  # the attack is as strong as is allowed for


def test_bad_rows_allowed_for_do_not_hide_what_differs() -> None:
    earlier, later, X = stretches(800, 10, 23)
    X[400:, 0] += 1.0
    X[400:408] = X[:8] - 50
    fit = SparseMeanDifference(0.02).fit(X, halves(800), covariate=(earlier, later))
    assert fit.support_.tolist() == [0]
    auto = SparseMeanDifference().fit(X, halves(800), covariate=(earlier, later))
    assert auto.support_.tolist() == [0]
    assert set(range(400, 408)) <= set(auto.suspects_.tolist())


# What is refused, and the command.


def test_errors_say_what_to_do() -> None:
    (X, Z), y = np.random.default_rng(0).standard_normal((2, 60, 2)), halves(60)
    named = pd.DataFrame(X, columns=["a", "b"], index=[f"u{k}" for k in range(60)])
    infinite = X.copy()
    infinite[4, 1] = np.inf
    cases: list[tuple[Any, Any, str]] = [
        (X, X[:50], "covariate must have the 60 rows of X: got 50 rows; give a row for each"),
        (X, X[:, :1], "covariate must have the 2 columns of X: got 1 columns"),
        (X, (X, X, X), "covariate must be one table, or a pair of an earlier and a later one: got 3 tables"),
        (X, {"a": X[:, 0]}, "covariate must be a table like X, or a pair of them: got dict"),
        (X, (X, None), "covariate must be a table like X, or a pair of them: got NoneType"),
        (X, "before.csv", "covariate must be a table like X, or a pair of them: got str"),
        (named, X, "covariate must be of another time: got the same values in column 0 ('a'); give what was recorded"),
        (X, (Z, Z), "covariate must be of another time: got the same values in column 0"),
        (X, (X + 0.1 * Z, X), "covariate must be of another time: got the same values in column 0"),
        (X, infinite, "covariate must not contain infinity: got infinity in column 1, row 4"),
        (X, np.array([["a", "b"]] * 60), "covariate must be numeric: got dtype"),
        (
            named,
            named[::-1],
            "covariate must have the rows of X in their order: got 'u59' in row 0, which is 'u0' in X",
        ),
        (named, named.rename(columns={"b": "c"}), "covariate must have columns of X: got 'c', which X has not"),
    ]
    for x, covariate, message in cases:
        with pytest.raises(InputError) as error:
            SparseMeanDifference().fit(x, y, covariate=covariate)
        assert str(error.value).startswith(message)
    with pytest.raises(InputError, match="y must be given with covariate"):
        certify(X, covariate=X)
    da = pytest.importorskip("dask.array")
    with pytest.raises(InputError, match="come with values in memory or in a file: got chunks of Dask; compute them"):
        SparseMeanDifference().fit(X, y, covariate=da.from_array(X))


def test_a_list_of_two_tables_is_a_pair() -> None:
    earlier, later, X = stretches(400, 2, 25)
    expected = values_of(X, (earlier, later))
    np.testing.assert_array_equal(values_of(X, [earlier, later]), expected)
    np.testing.assert_array_equal(values_of(X, [pd.DataFrame(earlier), pd.DataFrame(later)]), expected)
    np.testing.assert_array_equal(values_of(X, later.tolist()), values_of(X, later))


def test_a_column_that_varies_more_is_told_of() -> None:
    earlier, later, X = stretches(400, 2, 24)
    notes = adjusted(as_table(X / 7), (earlier, later))[0].notes
    assert any("adjusting makes 0, 1 vary more, not less" in note for note in notes)
    assert not any("vary more" in note for note in adjusted(as_table(X / 7), later)[0].notes)


def test_the_command_takes_suffixes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    earlier, later, X = stretches(400, 2, 25)
    X[200:, 0] += 0.4
    frame = pd.DataFrame(
        {"visits_w1": earlier[:, 0], "visits": X[:, 0], "spent": X[:, 1], "visits_w2": later[:, 0], "arm": halves(400)}
    )
    file = tmp_path / "users.csv"
    frame.to_csv(file, index=False)
    fit = SparseMeanDifference(0).fit(frame[["visits", "spent"]], halves(400), covariate=(
        pd.DataFrame({"visits": earlier[:, 0]}), pd.DataFrame({"visits": later[:, 0]})
    ))  # fmt: skip
    expect("fit", file, "--group", "arm", "-e", "0", "--covariate", "_w1,_w2", "--out", tmp_path / "found.csv")
    found = pd.read_csv(tmp_path / "found.csv")
    assert found["feature"].tolist() == ["visits"]
    assert found["estimate"][0] == pytest.approx(fit.mean_[0], rel=1e-9)
    capsys.readouterr()
    expect("fit", file, "--group", "arm", "--drop", "visits_w1", "--covariate", "_w2")
    text = " ".join(capsys.readouterr().out.split())
    assert "1 of 2 features adjusted for values from before" in text
    for arguments, message in (
        (["--covariate", "_w2"], "--covariate must come with --group: got '_w2'"),
        (
            ["--group", "arm", "--covariate", "_old"],
            "--covariate must be the ending of columns with values from before",
        ),
        (
            ["--group", "arm", "--drop", "visits", "--covariate", "_w2"],
            "got 'visits_w2' without 'visits'; leave it out",
        ),
    ):
        expect("fit", file, *arguments, status=2)
        assert message in " ".join(capsys.readouterr().err.split())


def test_columns_of_a_file_are_split_by_their_endings() -> None:
    table = as_table(pd.DataFrame(np.arange(60.0).reshape(10, 6), columns=["a", "a_1", "b_2", "b", "a_2", "b_1"]))
    features, (first, second) = covariates.split(table, ["_1", "_2"])
    assert features.feature_names is not None
    assert [features.feature_names.tolist(), first.feature_names.tolist()] == [["a", "b"], ["a", "b"]]
    assert second.feature_names.tolist() == ["b", "a"]
    np.testing.assert_array_equal(second.values[0], [2, 4])
    with pytest.raises(InputError, match="got 'b_1' without 'b_2'"):
        covariates.split(as_table(pd.DataFrame(np.ones((4, 5)), columns=["a", "b", "a_1", "a_2", "b_1"])), ["_1", "_2"])
