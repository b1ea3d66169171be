"""Bad rows that run into the rest: none is named, but they are counted along the columns that show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsemean import SparseMean, load, sparse_mean
from sparsemean._stats import row_scores
from sparsemean._stats.row_scores import unnamed_rows
from sparsemean.result._report.verdict import verdict

MOVED = [96, 97, 98, 99]


def moved(seed: int = 0, n: int = 600, by: float = 3.0) -> np.ndarray:
    """A tenth of the rows lie higher in four columns; three others have a mean."""
    X = np.random.default_rng(seed).standard_t(3.1, (n, 100))
    X[:, :3] += (10.0, -5.0, 2.0)
    X[: n // 10, 96:] += by
    return X


def plain_lead(places: np.ndarray, centre: float) -> tuple[float, int, int]:
    """Go through rows from the farthest on, those that are as far as each other together."""
    reach = 0.75 * min(max(places) - centre, centre - min(places))
    size = [min(abs(place - centre), reach) for place in places]
    most, at, z = -(10**9), 0, -np.inf
    for least in sorted(set(size), reverse=True):
        signs = [np.sign(place - centre) for place, own in zip(places, size, strict=True) if own >= least]
        if not 8 <= len(signs) <= 0.35 * places.size:
            continue
        ahead = int(sum(signs))
        z = max(z, ahead / np.sqrt(len(signs)))
        if ahead > most:
            most, at = ahead, len(signs)
    return (z, most, at - most) if at else (0.0, 0, 0)


@pytest.mark.parametrize("n", [23, 60, 201])
def test_the_lead_is_that_of_one_row_after_the_other(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(20):
        places = np.sort(np.concatenate((rng.standard_normal(n - n // 5), rng.normal(2, 1, n // 5))))
        centre = float(rng.normal(0, 0.1))
        assert row_scores._lead_of(places, centre) == pytest.approx(plain_lead(places, centre))


def test_they_are_counted_whatever_the_rule() -> None:
    for seed in range(3):
        X = moved(seed)
        found = {rule: sparse_mean(X, selection=rule) for rule in ("fwer", "fdr", "fdr_by")}
        assert len({each.plan.bad_rows for each in found.values()}) == 1
        fitted = found["fwer"]
        assert fitted.rows is not None
        assert fitted.rows.suspects.size == 0
        assert 60 <= fitted.rows.unnamed == fitted.plan.bad_rows <= 120
        assert fitted.support.tolist() == [0, 1, 2]
        told = sparse_mean(X, contamination=fitted.plan.bad_rows / 600)
        np.testing.assert_array_equal(fitted.p_values, told.p_values)
        assert set(fitted.at(0.0).support) & set(MOVED)


def test_order_units_and_signs_make_no_difference() -> None:
    X = moved(1)
    rng = np.random.default_rng(0)
    plain = sparse_mean(X).plan.bad_rows
    for other in (X[rng.permutation(600)], X[:, rng.permutation(100)], X * 2.0 ** rng.integers(-9, 9, 100), -X):
        assert sparse_mean(other).plan.bad_rows == plain
    assert sparse_mean(X + 7.0, null=7.0).plan.bad_rows == plain


def test_each_side_is_looked_at_where_its_columns_lie() -> None:
    X = moved(2)
    X[:, 98:] *= -1
    values = X[:, MOVED]
    count, columns = unnamed_rows(values)
    assert count >= 60
    assert columns.tolist() == [0, 1, 2, 3]
    assert unnamed_rows(-values)[0] == count


def test_rows_that_are_named_are_counted_as_well() -> None:
    X = moved(4, 2000)
    X[-12:] += 6.0
    found = sparse_mean(X)
    assert found.rows is not None
    assert sorted(found.rows.suspects) == list(range(1988, 2000))
    assert found.plan.bad_rows == 12 + found.rows.unnamed >= 212
    assert verdict(found)[1] == (
        f"This holds even if any {found.plan.bad_rows} of the 2,000 rows are wrong: as many seem to be, and "
        f"{found.rows.unnamed} of them cannot be named."
    )


def test_a_fifth_is_allowed_for_at_most() -> None:
    X = moved(0)
    X[:200, 96:] += 2.0
    found = sparse_mean(X)
    assert found.plan.bad_rows <= 120


def test_it_is_said_what_they_are_counted_by(tmp_path: Path) -> None:
    found = sparse_mean(moved(0))
    assert found.rows is not None
    said = next(message for message in found.status.messages if "cannot be named" in message)
    assert said.startswith(f"about {found.rows.unnamed} rows seem to be wrong")
    assert "(96, 97, 98, 99)" in said
    assert "as many seem to be, and none of them can be named." in verdict(found)[1]
    found.save(tmp_path / "found.npz")
    again = load(tmp_path / "found.npz")
    assert again.rows is not None
    assert again.rows.unnamed == found.rows.unnamed
    assert verdict(again) == verdict(found)


def test_a_skewed_factor_looks_the_same_and_is_said_to() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 60)) + rng.exponential(1.0, (600, 1)) - np.log(2)
    X[:, :8] += 0.25
    found = sparse_mean(X)
    assert found.plan.bad_rows
    assert any("A skewed cause that these columns share looks the same" in m for m in found.status.messages)


@pytest.mark.parametrize(
    "options", [{"screen_rows": False}, {"contamination": 0.0}, {"target": "mean", "scale": 3.0}], ids=str
)
def test_nobody_counts_where_none_is_asked_to(options: dict[str, Any]) -> None:
    found = sparse_mean(moved(0), **options)
    assert found.rows is None or found.rows.unnamed == 0


def test_gaps_subjects_and_values_that_repeat() -> None:
    X = moved(0)
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.03, np.nan, X)
    assert sparse_mean(gaps, missing="omit").plan.bad_rows >= 55
    twice = SparseMean().fit(np.repeat(X, 2, axis=0), groups=np.repeat(np.arange(600), 2)).result_
    assert twice.plan.bad_rows == sparse_mean(X).plan.bad_rows
    # Ratings from −2 to 2 are not symmetric about their median where they have a mean: that says nothing of rows.
    rng = np.random.default_rng(2)
    ratings = np.clip(np.round(rng.standard_normal((600, 30)) + rng.standard_normal((600, 1)) + 0.4), -2, 2)
    assert sparse_mean(ratings).plan.bad_rows == 0


def test_few_rows_or_columns_say_nothing() -> None:
    rng = np.random.default_rng(0)
    for shape in ((600, 0), (600, 1), (22, 4), (5, 3), (600, 2)):
        assert unnamed_rows(np.zeros(shape))[0] == 0
        assert unnamed_rows(rng.standard_normal(shape) + 0.1)[0] == 0
    huge = rng.standard_normal((100, 4)) * 1e300
    huge[:10] = 1.7e308
    assert unnamed_rows(huge)[0] >= 0


def test_fair_coins_hardly_ever_lead_so_far() -> None:
    """Exactly, lead by lead: where nothing is estimated, signs from the farthest row inwards are fair coins."""
    for n in (60, 600, 2000):
        last = int(row_scores.OUTER * n)
        chance, led = np.zeros(2 * last + 3), 0.0
        chance[last + 1] = 1.0  # a lead of 0
        leads = np.arange(-last - 1, last + 2)
        for k in range(1, last + 1):
            chance = 0.5 * (np.roll(chance, 1) + np.roll(chance, -1))
            far = (k >= row_scores.FEWEST) & (leads >= row_scores.LEAD * np.sqrt(k))
            led += float(chance[far].sum())
            chance[far] = 0.0
        assert led < 1e-4
