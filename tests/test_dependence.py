"""The alarm for dependent rows: silent on independent ones of every kind, loud on series and on rows of one subject."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sparsemean import Estimate, sparse_mean
from sparsemean._stats.assumptions import (
    ALARM,
    MOST_ROWS,
    STRETCH,
    SortKeys,
    neighbour_z,
    some_neighbours,
    sort_keys,
    z_given,
    z_of_neighbours,
)

from command import expect as run
from conftest import Claims

Draw = Callable[[np.random.Generator, int, int], np.ndarray]
DEPENDENT = "are not independent"


def correlated(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.sqrt(0.9) * rng.standard_normal((n, 1)) + np.sqrt(0.1) * rng.standard_normal((n, d))


def series(rng: np.random.Generator, n: int, d: int, rho: float = 0.1) -> np.ndarray:
    rows = rng.standard_normal((n, d))
    for i in range(1, n):
        rows[i] = rho * rows[i - 1] + np.sqrt(1 - rho**2) * rows[i]
    return rows


def of_subjects(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.repeat(rng.standard_normal((n // 5, d)), 5, axis=0) + rng.standard_normal((n, d))


INDEPENDENT: dict[str, Draw] = {
    "Gaussian": lambda rng, n, d: rng.standard_normal((n, d)),
    "elliptical": lambda rng, n, d: rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(2, (n, 1))),
    "correlated features": correlated,
    "row scales": lambda rng, n, d: rng.standard_normal((n, d)) * rng.lognormal(sigma=2, size=(n, 1)),
    "rising scales": lambda rng, n, d: rng.standard_normal((n, d)) * np.geomspace(1, 1e4, n)[:, np.newaxis],
    "80 % zeros": lambda rng, n, d: np.where(rng.random((n, d)) < 0.8, 0.0, rng.standard_normal((n, d))),
    "lognormal less its median": lambda rng, n, d: rng.lognormal(size=(n, d)) - 1.0,
    "lognormal less its mean": lambda rng, n, d: np.exp(correlated(rng, n, d)) - np.exp(0.5),
    "rare buyers": lambda rng, n, d: np.where(rng.random((n, d)) < 0.95, 0.0, rng.lognormal(size=(n, d))),
    "rare rows": lambda rng, n, d: np.broadcast_to(1.0 * (rng.random((n, 1)) < 0.02), (n, d)),
    "gaps": lambda rng, n, d: np.where(rng.random((n, d)) < 0.4, np.nan, rng.standard_normal((n, d))),
}


@pytest.mark.parametrize("shape", [(300, 100), (60, 3), (100, 1)])
@pytest.mark.parametrize("kind", INDEPENDENT)
def test_independent_rows_raise_no_alarm(kind: str, shape: tuple[int, int], long_version: bool) -> None:
    for seed in range(100 if long_version else 16):
        rows = INDEPENDENT[kind](np.random.default_rng(seed), *shape)
        assert z_of_neighbours(rows, known=True) <= ALARM


@pytest.mark.parametrize("kind", ["Gaussian", "elliptical", "correlated features", "row scales", "80 % zeros"])
def test_fits_of_independent_rows_raise_no_alarm(kind: str, long_version: bool, claims: Claims) -> None:
    """200 fits (16 in `make test`) of each of five kinds, with two means among them, their centres known or not."""
    alarmed, fits = 0, 200 if long_version else 16
    for seed in range(fits):
        X = INDEPENDENT[kind](np.random.default_rng(seed), 120, 8) + np.where(np.arange(8) < 2, 3.0, 0.0)
        found = sparse_mean(X[:, : 8 if seed % 2 else 4], refine=None, contamination=0.02)
        alarmed += any(DEPENDENT in note for note in found.status.messages)
    claims.add(
        f"fits that call independent rows dependent, {kind}, n = 120", f"{alarmed} of {fits}", "0", f"0–{fits - 1}"
    )
    assert not alarmed


@pytest.mark.parametrize("shape", [(300, 100), (1000, 100), (2000, 30)])
@pytest.mark.parametrize("draw", [series, of_subjects])
@pytest.mark.parametrize("known", [True, False])
def test_dependent_rows_always_raise_it(draw: Draw, shape: tuple[int, int], known: bool) -> None:
    for seed in range(20):
        assert z_of_neighbours(draw(np.random.default_rng(seed), *shape), known=known) > ALARM


def test_the_statistic_by_its_definition() -> None:
    x = np.random.default_rng(0).integers(-2, 3, (40, 7)).astype(float)
    signs = np.sign(x) - np.sign(x).mean(axis=0)
    products = signs @ signs.T
    apart = products[~np.eye(40, dtype=bool)]
    S = np.diag(products, 1) - apart.mean()
    assert neighbour_z(x) == pytest.approx(S.sum() / np.sqrt(max(np.sum(S**2), 39 * np.mean(apart**2))), rel=1e-12)
    orders = [neighbour_z(np.random.default_rng(seed).permutation(x)) for seed in range(400)]
    assert abs(np.mean(orders)) < 0.2
    assert 0.8 < np.std(orders) < 1.2


def test_nothing_is_said_of_too_little() -> None:
    assert neighbour_z(np.empty((50, 0))) == neighbour_z(np.ones((2, 5))) == neighbour_z(np.ones((50, 5))) == 0.0
    assert neighbour_z(np.full((50, 5), np.nan)) == 0.0


def test_of_many_rows_some_are_looked_at() -> None:
    few = np.arange(7)
    assert some_neighbours(few).tolist() == few.tolist()
    rows = some_neighbours(np.arange(10 * MOST_ROWS))
    assert rows.size == MOST_ROWS
    assert np.count_nonzero(np.diff(rows) == 1) == MOST_ROWS - MOST_ROWS // STRETCH


def alarms(found: Estimate) -> list[str]:
    return [note for note in found.status.messages if DEPENDENT in note]


def test_a_fit_says_so_first_and_names_the_way_out() -> None:
    X = of_subjects(np.random.default_rng(0), 500, 30)
    found = sparse_mean(X)
    assert found.status.messages[0].startswith("neighbouring rows are alike (z = ")
    assert "Rows of one subject? Pass groups= (--subject)." in found.status.messages[0]
    assert not alarms(sparse_mean(X, screen_rows=False))
    assert not alarms(sparse_mean(X, groups=np.arange(500) // 5))
    assert not alarms(sparse_mean(X[np.random.default_rng(0).permutation(500)]))


def test_means_alone_and_bad_rows_in_a_block_are_no_dependence() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 40))
    assert not alarms(sparse_mean(X + 5.0))
    assert not alarms(sparse_mean(X + np.where(np.arange(40) < 20, 0.3, 0.0)))
    X[100:120] += 4.0
    found = sparse_mean(X, contamination=0.05)
    assert found.rows is not None
    assert found.rows.suspects.size == 20
    assert not alarms(found)
    assert alarms(sparse_mean(series(rng, 400, 40, 0.3) + 5.0))


def test_subjects_in_order_are_judged_by_their_means() -> None:
    X = np.repeat(series(np.random.default_rng(0), 300, 40, 0.4), 2, axis=0)
    (note,) = alarms(sparse_mean(X, groups=np.arange(600) // 2))
    assert note.startswith("neighbouring subjects are alike (z = ")
    assert "--subject" not in note


def test_row_names_that_occur_twice_are_told() -> None:
    X = np.random.default_rng(0).standard_normal((200, 5))
    names = [f"r{i}" for i in range(200)]
    names[7], names[9] = "r3", "r4"
    said = "2 row name(s) occur more than once (r3, r4): if they are several rows of one subject, name it with groups="
    found = sparse_mean(pd.DataFrame(X, index=names))
    assert [note for note in found.status.messages if note == f"{said} (--subject)"]
    assert not any("row name" in m for m in sparse_mean(pd.DataFrame(X, index=names), groups=names).status.messages)
    assert not any("row name" in m for m in sparse_mean(pd.DataFrame(X)).status.messages)


@pytest.fixture
def donors(tmp_path: Path) -> Path:
    rows = of_subjects(np.random.default_rng(0), 300, 6) + np.where(np.arange(6) < 1, 3.0, 0.0)
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    frame.insert(0, "donor", [f"d{i // 5}" for i in range(300)])
    frame.to_csv(tmp_path / "donors.csv", index=False)
    return tmp_path / "donors.csv"


def test_subjects_of_one_sample_on_the_command_line(donors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fit", donors, "--subject", "donor", "-e", "0.05", "-v")
    shown = " ".join(capsys.readouterr().out.split())
    assert "even if any 3 of the 60 subjects are wrong" in shown
    assert "from 300 rows; 3 of the 60 subjects may be wrong" in shown
    assert DEPENDENT not in shown
    frame = pd.read_csv(donors)
    expected = sparse_mean(frame.drop(columns="donor"), groups=frame["donor"])
    run("fit", donors, "--subject", "donor", "--json")
    assert (
        f'"p_adjusted": {expected.p_adjusted[0]!r}'.replace("np.float64(", "").replace(")", "")
        in capsys.readouterr().out
    )


def test_an_id_that_repeats_is_told_with_the_option(donors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fit", donors, "--id", "donor")
    shown = " ".join(capsys.readouterr().out.split())
    assert "Neighbouring rows are alike (z = " in shown.partition("adjusted")[0]
    assert "column 'donor' has 60 values for 300 rows; give it as groups= (--subject donor)" in shown


# Sorted files: rows that were independent still are, given what they were sorted by.


def along(rho: float) -> Draw:
    """All columns have a correlation with the first one."""

    def draw(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        rows = rng.standard_normal((n, d))
        rows[:, 1:] = rho * rows[:, :1] + np.sqrt(1 - rho**2) * rows[:, 1:]
        return rows

    return draw


def by_category(number: int) -> Draw:
    """Every category of the first column has means of its own."""

    def draw(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        label = rng.integers(0, number, n)
        return np.column_stack((label, rng.standard_normal((number, d - 1))[label] + rng.standard_normal((n, d - 1))))

    return draw


def curved(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    rows = rng.standard_normal((n, d))
    rows[:, 1:] += rows[:, :1] ** 2
    return rows


def by_day(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.column_stack((day := rng.integers(0, 60, n), day[:, np.newaxis] / 30 + rng.standard_normal((n, d - 1))))


SORTED: dict[str, Draw] = {
    "Gaussian": INDEPENDENT["Gaussian"],
    "correlated by .3": along(0.3),
    "correlated by .9": along(0.9),
    "nearly copies": along(0.999),
    "curved": curved,
    "elliptical": lambda rng, n, d: along(0.5)(rng, n, d) / np.sqrt(rng.chisquare(2, (n, 1))),
    "skewed": lambda rng, n, d: np.exp(along(0.7)(rng, n, d)) - 1,
    "80 % zeros": INDEPENDENT["80 % zeros"],
    "gaps": lambda rng, n, d: np.where((rng.random((n, d)) < 0.3) & (np.arange(d) > 0), np.nan, along(0.6)(rng, n, d)),
    "two categories": by_category(2),
    "five categories": by_category(5),
    "day number": by_day,
}


def in_order(rows: np.ndarray, how: str) -> np.ndarray:
    """Sort rows by the first column up or down, or by its whole part and then by the second."""
    if how == "two keys":
        rows = np.column_stack((np.floor(rows[:, 0]), rows[:, 1:]))
        return rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    return rows[np.argsort(rows[:, 0] if how == "up" else -rows[:, 0], kind="stable")]


def keys_of(rows: np.ndarray) -> SortKeys:
    return sort_keys(len(rows), lambda: [(np.arange(rows.shape[1]), rows)])


def z_of_sorted(rows: np.ndarray) -> float:
    """Return z of a file: as it is, or given what it is sorted by if that would be an alarm."""
    if (z := z_of_neighbours(rows, known=False)) <= ALARM or not (keys := keys_of(rows)).columns.size:
        return z
    return z_given(keys, np.delete(rows, keys.columns, axis=1))


@pytest.mark.parametrize("how", ["up", "down", "two keys"])
@pytest.mark.parametrize("kind", SORTED)
def test_sorted_independent_rows_raise_no_alarm(kind: str, how: str, long_version: bool) -> None:
    before = 0
    for shape in ((100, 4), (300, 60), (1000, 10)):
        for seed in range(100 if long_version else 6):
            rows = in_order(SORTED[kind](np.random.default_rng(seed), *shape), how)
            before += z_of_neighbours(rows, known=True) > ALARM
            assert z_of_sorted(rows) <= ALARM
    assert before  # it would have been raised


def test_z_given_sort_keys_is_standard(long_version: bool, claims: Claims) -> None:
    """Of files sorted by a column that goes with all others, whether they would raise an alarm at first or not."""
    number = 2000 if long_version else 100
    rows = [in_order(along(0.5)(np.random.default_rng(seed), 200, 8), "up") for seed in range(number)]
    z = np.array([z_given(keys_of(each), each[:, 1:]) for each in rows])
    claims.add(
        "independent rows sorted by a column, judged given it: P(z > 2), n = 200, d = 8",
        f"{np.mean(z > 2):.3f}", "≤ .023 + 3 s.e.", f"0–{number - 1}",
    )  # fmt: skip
    assert np.mean(z > 2) <= 0.023 + 3 * np.sqrt(0.023 / number)
    assert abs(z.mean()) < 0.3
    assert z.std() < 1.1


def repeated(number: int, share: float = 1.0) -> Draw:
    """So many rows of every subject."""

    def draw(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
        return share * np.repeat(rng.standard_normal((n // number, d)), number, axis=0) + rng.standard_normal((n, d))

    return draw


def random_walk(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return np.cumsum(rng.standard_normal((n, d)), axis=0)


@pytest.mark.parametrize(
    ("draw", "rows_a_value"),
    [
        (series, 1),
        (lambda rng, n, d: series(rng, n, d, 0.5), 1),
        (random_walk, 1),
        (lambda rng, n, d: np.repeat(rng.standard_normal((n // 5, d)), 5, axis=0), 5),
        (repeated(3), 3),
        (repeated(5), 5),
        (repeated(5), 1),
        (repeated(10), 10),
        (repeated(20), 20),
    ],
)
@pytest.mark.parametrize("shape", [(600, 40), (1980, 15)])
def test_dependent_rows_beside_a_time_or_a_number_of_the_subject_still_raise_it(
    draw: Draw, rows_a_value: int, shape: tuple[int, int]
) -> None:
    """The column that stands in order explains nothing of it: a running number, a time, the number of a subject."""
    for seed in range(6):
        rows = np.column_stack((np.arange(shape[0]) // rows_a_value, draw(np.random.default_rng(seed), *shape)))
        assert keys_of(rows).columns.tolist() == [0]
        assert z_of_sorted(rows) > ALARM


@pytest.mark.parametrize("drift", [0.1, 0.3, 0.5, 2.0])
@pytest.mark.parametrize(("n", "d"), [(200, 6), (1000, 6), (1000, 1)])
def test_random_walks_with_a_drift_raise_it_with_and_without_a_time(drift: float, n: int, d: int) -> None:
    """Their ranks are nearly those of the time; what is left of their values beside it still is a walk."""
    alarms = np.zeros(2)
    for seed in range(10):
        walks = random_walk(np.random.default_rng(seed), n, d) + drift * np.arange(n)[:, np.newaxis]
        time = np.cumsum(np.random.default_rng(seed).exponential(size=n))
        alarms += [len(notes_of(rows)[0]) for rows in (walks, np.column_stack((time, walks)))]
    assert alarms.min() >= 9


KEYS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "Gaussian": lambda rng, n: rng.standard_normal(n),
    "Cauchy": lambda rng, n: rng.standard_cauchy(n),
    "lognormal": lambda rng, n: rng.lognormal(sigma=2, size=n),
    "running number": lambda _, n: np.arange(float(n)),
    "60 days": lambda rng, n: rng.integers(0, 60, n).astype(float),
    "five categories": lambda rng, n: rng.integers(0, 5, n).astype(float),
}


@pytest.mark.parametrize("noise", [0.3, 0.03, 0.001])
@pytest.mark.parametrize("key", KEYS)
def test_noise_about_the_sort_key_raises_no_alarm(key: str, noise: float, long_version: bool) -> None:
    for n, d in ((100, 4), (300, 30), (1000, 7)):
        for seed in range(100 if long_version else 3):
            rng = np.random.default_rng(seed)
            by = np.sort(KEYS[key](rng, n))
            about = np.subtract(*np.quantile(by, (0.75, 0.25))) * noise * rng.standard_normal((d, n))
            assert not z_of_sorted(np.column_stack((by, *(by + about)))) > ALARM


def test_what_stands_in_order_by_chance_is_no_sort_key() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 30))
    rows[:, 3] = np.arange(400) >= 398  # two ones, at the end
    rows[:, 4] = 7.0
    rows[:, 5] = np.nan
    assert not keys_of(rows).columns.size
    pairs = np.column_stack((np.arange(400) // 2, rows))  # half of all pairs rise
    assert keys_of(pairs).columns.tolist() == [0]
    rows[:, 3] = np.arange(400) >= 390
    assert keys_of(rows).columns.tolist() == [3]


def notes_of(X: np.ndarray | pd.DataFrame, **options: object) -> tuple[list[str], list[str]]:
    notes = sparse_mean(X, **options).status.messages  # type: ignore[arg-type]
    return [note for note in notes if DEPENDENT in note], [note for note in notes if "are sorted by" in note]


@pytest.mark.parametrize("at", [0, 7, 1500])
@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_a_fit_says_by_which_column_its_rows_are_sorted(at: int, mean: float) -> None:
    """Whether that column is selected or not, and wherever it stands."""
    X = along(0.8)(np.random.default_rng(at), 300, 1600 if at > 1000 else 12)
    X[:, [0, at]] = X[:, [at, 0]]
    X[:, at] += mean
    alarmed, said = notes_of(pd.DataFrame(X[np.argsort(X[:, at])]).add_prefix("c"))
    assert not alarmed
    wanted = f"rows are sorted by column c{at}; apart from that neighbouring rows are not alike, so error rates hold"
    assert said == [wanted]
    assert not any(notes_of(X))


def test_a_fit_of_sorted_rows_names_all_keys_and_asks_for_subjects() -> None:
    rows = in_order(by_category(3)(np.random.default_rng(0), 400, 10), "two keys")
    alarmed, (said,) = notes_of(rows)
    assert not alarmed
    assert said.startswith("rows are sorted by columns 0, 1; apart from that neighbouring rows are not alike")
    alarmed, (said,) = notes_of(in_order(by_category(3)(np.random.default_rng(0), 400, 10), "down"))
    assert not alarmed
    assert said == (
        "rows are sorted by column 0; apart from that neighbouring rows are not alike, so error rates hold. "
        "If rows with equal values there belong to one subject, pass groups= (--subject)"
    )
    subjects = np.repeat(rows, 2, axis=0) + np.random.default_rng(1).standard_normal((800, 10)) * (np.arange(10) > 1)
    alarmed, (said,) = notes_of(subjects, groups=np.arange(800) // 2)
    assert not alarmed
    assert said.startswith("subjects are sorted by")
    assert "--subject" not in said
    numbered = np.column_stack((np.arange(400) // 5, of_subjects(np.random.default_rng(0), 400, 10)))
    assert notes_of(numbered)[0]
    assert not notes_of(numbered)[1]


@pytest.mark.parametrize("kind", ["0 or 1", "counts"])
def test_a_sort_key_that_is_mostly_zero_is_one(kind: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        key = np.sort(rng.random(400) < 0.5 if kind == "0 or 1" else rng.poisson(0.4, 400)).astype(float)
        others = rng.standard_normal((400, 6)) + np.outer(key - key.mean(), [1.6, 1.6, 1.6, 0, 0, 0])
        assert not notes_of(np.column_stack((others, key)))[0]


def test_one_column_in_order_is_sorted_and_many_are_not() -> None:
    one = np.sort(np.random.default_rng(0).standard_normal((200, 1)), axis=0)
    unknown = "rows are sorted by column 0, the only one that varies, so whether they are independent cannot be checked"
    assert notes_of(one) == ([], [unknown])
    assert notes_of(np.column_stack((one, np.full(200, 3.0)))) == ([], [unknown])
    many = np.cumsum(np.random.default_rng(0).exponential(size=(200, 6)), axis=0) - 100
    assert [len(notes) for notes in notes_of(many)] == [1, 0]


def test_a_sorted_file_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame(along(0.8)(np.random.default_rng(0), 300, 5), columns=["age", *"bcde"]).sort_values("age")
    frame.to_csv(tmp_path / "sorted.csv", index=False)
    run("fit", tmp_path / "sorted.csv")
    shown = " ".join(capsys.readouterr().out.split())
    assert "Note: rows are sorted by column age; apart from that neighbouring rows are not alike" in shown
    assert DEPENDENT not in shown
