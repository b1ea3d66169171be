"""Designs too small for any selection are told so first, by numbers that counting confirms, and no others are."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from sparsemean import SparseMeanDifference, plan, sparse_mean
from sparsemean._fit import power
from sparsemean._fit.power import CANNOT, impossible, rows_for_any
from sparsemean._stats.planning import plan_fit
from sparsemean._stats.power import GroupPower, Power, of_one_sample
from sparsemean._util.plans import BadRows, Side
from sparsemean.errors import InputError
from sparsemean.result._report.summary import notes, summary
from sparsemean.result._report.verdict import verdict

from command import expect


def clear(n: int, d: int) -> np.ndarray[Any, Any]:
    """Return columns on which all rows agree, of values that are all different."""
    return 1.0 + np.random.default_rng(0).random((n, d))


def said_first(estimate: Any) -> bool:
    return CANNOT in verdict(estimate)[0] and CANNOT in estimate.status.messages[0]


@pytest.mark.parametrize("side", ["two-sided", "greater"])
@pytest.mark.parametrize("selection", ["fwer", "fdr", "fdr_by"])
@pytest.mark.parametrize("test", ["ranks", "buckets"])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_one_sample_is_told_so_if_and_only_if_columns_that_all_agree_are_not_selected(
    side: str, selection: str, test: str, bad: int
) -> None:
    for n, d in itertools.product((5, 6, 8, 9, 13, 14, 18), (1, 12, 300)):
        options = {"contamination": bad / n, "selection": selection, "alternative": side, "test": test}
        found = sparse_mean(clear(n, d), **options, screen_rows=False)
        assert bool(impossible(found.plan)) == (found.support.size == 0), (n, d)
        assert said_first(found) == (found.support.size == 0)


@pytest.mark.parametrize("selection", ["fwer", "fdr"])
@pytest.mark.parametrize(("bad", "labels"), [(0, 2), (1, 2), (0, 3)])
def test_groups_are_told_so_if_and_only_if_those_that_do_not_overlap_are_not_selected(
    selection: str, bad: int, labels: int
) -> None:
    """Of three labels one lies above both others. All three cannot, as false discovery rates would need them to."""
    for n, d in itertools.product(range(3, 9), (2, 40, 700)):
        y = np.repeat(np.arange(labels), n)
        X = clear(y.size, d) + 10 * (y[:, np.newaxis] == labels - 1)
        fitted = SparseMeanDifference(contamination=bad / n, selection=selection).fit(X, y)
        found = fitted.result_ if labels == 2 else fitted.results_[labels - 1]
        forbidden = bool(impossible(found.plan))
        assert forbidden == (found.support.size == 0) or (labels == 3 and selection == "fdr" and not forbidden), (n, d)
        if forbidden:
            assert CANNOT in found.status.messages[0]


def test_the_smallest_p_is_that_of_all_labellings_and_signs() -> None:
    """By counting: one of C(N, n₁) labellings in every stratum, one of 2ⁿ signs, times two sides."""
    made = plan((5, 7), 3, contamination=0.0)
    assert GroupPower(made).smallest_p(BadRows(0, 0)) == pytest.approx(2 / math.comb(12, 5), rel=1e-12)
    strata = [made.sizes, made.sizes]
    assert GroupPower(made, strata).smallest_p(BadRows(0, 0)) == pytest.approx(2 / math.comb(12, 5) ** 2, rel=1e-12)
    values = np.arange(8.0)
    first = [sum(values[list(rows)]) for rows in itertools.combinations(range(8), 4)]
    smallest = 2 * np.mean(np.array(first) == max(first))
    assert GroupPower(plan((4, 4), 1, contamination=0.0)).smallest_p(BadRows(0, 0)) == pytest.approx(smallest)
    for n in range(5, 12):
        assert of_one_sample(plan_fit(n, 1)).smallest_p(BadRows(0, 0)) == 2.0 ** (1 - n)


def every_column(values: tuple[float, ...], n: int) -> np.ndarray[Any, Any]:
    return np.array(list(itertools.product(values, repeat=n))).T


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("test", ["ranks", "buckets"])
def test_no_data_have_a_smaller_p(bad: int, test: str) -> None:
    """All columns of six values from −2 to 2, ties and zeros among them, and those whose sizes all differ."""
    sizes = [np.array(signs) * np.arange(1.0, 7.0) for signs in itertools.product((-1, 1), repeat=6)]
    X = np.hstack([every_column((-2.0, -1.0, 0.0, 1.0, 2.0), 6), np.array(sizes).T])
    found = sparse_mean(X, contamination=bad / 6, test=test, screen_rows=False)
    smallest = of_one_sample(found.plan).smallest_p(BadRows(0, bad))
    assert found.p_values.min() == pytest.approx(smallest, rel=1e-6)


@pytest.mark.parametrize("sizes", [(4, 4), (2, 5)])
def test_no_groups_have_a_smaller_p(sizes: tuple[int, int]) -> None:
    """All columns of three values, and all orders of values that differ."""
    n = sum(sizes)
    orders = [[values.index(row) for row in range(n)] for values in _labellings(n, sizes[1])]
    X = np.hstack([every_column((-1.0, 0.0, 1.0), n), np.array(orders, dtype=float).T])
    y = np.repeat([0, 1], sizes)
    smallest = 2 / math.comb(n, sizes[0])
    assert SparseMeanDifference(contamination=0.0).fit(X, y).result_.p_values.min() == pytest.approx(smallest, rel=1e-5)
    strata = np.concatenate([np.arange(size) % 2 for size in sizes])
    within = SparseMeanDifference(contamination=0.0).fit(X, y, strata=strata).result_
    each = [math.comb(int(np.sum(strata == h)), int(np.sum((strata == h) & (y == 0)))) for h in (0, 1)]
    assert within.p_values.min() >= min(1.0, 2 / math.prod(each)) * (1 - 1e-5)


def _labellings(n: int, above: int) -> list[list[int]]:
    """Return orders of rows, one for each way in which those of the label, the last ones, can be ranked."""
    out = []
    for places in itertools.combinations(range(n), above):
        label, others = iter(range(n - above, n)), iter(range(n - above))
        out.append([next(label) if place in places else next(others) for place in range(n)])
    return out


def test_strata_need_more_rows_than_all_of_them_at_once() -> None:
    """9 against 9 in two strata of unlike size, d = 100: 2/C(4, 2)/C(14, 7) > .05/100 > 2/C(18, 9)."""
    y, within = np.repeat([0, 1], 9), np.tile([0] * 2 + [1] * 7, 2)
    X = clear(18, 600) + 10 * y[:, np.newaxis]
    plain = SparseMeanDifference(contamination=0.0).fit(X, y).result_
    assert plain.support.size == 600
    found = SparseMeanDifference(contamination=0.0).fit(X, y, strata=within).result_
    assert 2 / math.comb(4, 2) / math.comb(14, 7) > 0.05 / 600 > 2 / math.comb(18, 9)
    assert not found.support.size
    assert verdict(found)[0].startswith("9 against 9 samples cannot show a difference in any of 600 features")


@pytest.mark.parametrize(("sizes", "d"), [((6, 6), 2000), ((4, 12), 500), ((3, 9), 80)])
def test_as_many_rows_as_are_named_could_and_one_less_could_not(sizes: tuple[int, int], d: int) -> None:
    def possible(smaller: int) -> bool:
        larger = smaller * max(sizes) // min(sizes)
        return 2 / math.comb(smaller + larger, smaller) <= 0.05 / d

    with pytest.raises(InputError) as caught:
        plan(sizes, d, contamination=0.0)
    named = next(n for n in range(4, 99) if possible(n))
    larger = named * max(sizes) // min(sizes)
    assert f"needed. {larger} against {named} rows could, or" in str(caught.value)
    clean = plan((named, larger), d, contamination=0.0)
    assert rows_for_any(GroupPower(clean), 0.0) == f"{larger} against {named}"
    most = int(0.05 / (2 / math.comb(sum(sizes), sizes[0])))
    assert f"in at most {most} features" in str(caught.value)


@pytest.mark.parametrize("d", [1, 20, 500, 10**6])
def test_rows_that_would_do_are_the_smallest(d: int) -> None:
    needed = next(n for n in range(4, 99) if 2.0 ** (1 - n) <= 0.05 / d)
    assert rows_for_any(of_one_sample(plan_fit(4, d)), 0.0) == str(needed)


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.2, 0.3])
def test_rows_that_would_do_with_bad_ones_do(share: float) -> None:
    for d in (1, 30, 500, 4000):
        named = int(rows_for_any(of_one_sample(plan_fit(4, d, contamination=0.0)), share))
        assert sparse_mean(clear(named, d), contamination=share, screen_rows=False).support.size == d


def test_what_is_said_of_twelve_samples() -> None:
    found = SparseMeanDifference().fit(np.random.default_rng(0).standard_normal((12, 2000)), np.repeat(["a", "b"], 6))
    said = verdict(found.result_)
    assert said == (
        "6 against 6 samples cannot show a difference in any of 2,000 features, whatever the data.",
        "The smallest p they can give is 0.0022; 2.5e-05 is needed. 10 against 10 samples could, or 6 against 6 in at "
        'most 23 features, or selection="fdr" (--selection fdr) where 87 features have that p. With fewer samples a '
        "model of the noise may do: limma or DESeq2 for genes, elsewhere a t-test.",
    )
    assert not any(CANNOT in note for note in notes(found.result_))
    assert found.result_.p_values.min() >= 2 / math.comb(12, 6) * (1 - 1e-9)


def test_bad_rows_raise_the_smallest_p_and_it_is_said_at_how_many() -> None:
    found = sparse_mean(clear(20, 100), contamination=0.2)
    assert found.support.size == 0
    assert verdict(found)[:3] == (
        "20 samples, 4 of them assumed bad, cannot show an effect in any of 100 features, whatever the data.",
        "The smallest p they can give is 0.024; 0.0005 is needed. They could with at most 1 bad (contamination 0.05); "
        "if 20 % are bad it takes 40 samples.",
        "If no sample is wrong: 100.",
    )
    assert found.p_values.max() == pytest.approx(0.024, abs=5e-4)
    assert sparse_mean(clear(20, 100), contamination=0.05).support.size == 100
    assert sparse_mean(clear(40, 100), contamination=0.2).support.size == 100
    assert sparse_mean(clear(39, 100), contamination=0.2).support.size == 0


def test_pairs_are_called_pairs_and_several_tests_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((16, 2000))
    pairs = SparseMeanDifference().fit(X, np.repeat(["a", "b"], 8), pairs=np.tile(np.arange(8), 2)).result_
    assert verdict(pairs)[0].startswith("8 pairs cannot show an effect in any of 2,000 features, whatever the data.")
    unlike = SparseMeanDifference(reference="a").fit(
        rng.standard_normal((36, 2000)), np.repeat(["a", "b", "c"], [12, 4, 20])
    )
    assert "There are too few samples to show anything, whatever the data: b against a." in verdict(unlike.result_)
    each = SparseMeanDifference().fit(X[:15], np.repeat(["a", "b", "c"], 5)).result_
    assert summary(each).startswith(
        "5 against 10 samples cannot show a difference in any of 2,000 features in any of 3"
    )


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    expect("plan", "--two-groups", "6", "6", "2000", "-e", "0", status=2)
    said = " ".join(capsys.readouterr().err.split())
    assert "6 against 6 rows cannot show a difference in any of 2,000 features, whatever the data." in said


def test_no_tails_of_many_rows_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take seconds: so many bad rows need thousands."""
    looked, at_rows = list[int](), power.at_rows
    monkeypatch.setattr(power, "at_rows", lambda plan, n, **share: looked.append(n) or at_rows(plan, n, **share))
    said = impossible(plan_fit(12, 500, contamination=0.45))[0]
    assert "15 rows could if none is bad, more than 2,000 if 45 % are bad" in said
    assert max(looked) <= power.MOST_TOLD


LAWS = (
    lambda rng, shape: rng.standard_normal(shape),
    lambda rng, shape: rng.poisson(1.0, shape).astype(float),
    lambda rng, shape: (rng.random(shape) < 0.5).astype(float),
    lambda rng, shape: rng.standard_cauchy(shape),
)


@pytest.mark.parametrize("seed", range(10_000, 10_030))
def test_whatever_the_data(seed: int) -> None:
    """Any law, far from the null or not, any rule and side: nothing is selected where that is said; no p is smaller."""
    rng = np.random.default_rng(seed)
    d, law, moved = int(rng.choice([1, 20, 400])), LAWS[rng.integers(4)], rng.choice([0, 9])
    options = {"selection": str(rng.choice(["fwer", "fdr", "fdr_by"])), "alternative": str(rng.choice(list(Side)))}
    if seed % 2:
        n, contamination = int(rng.integers(4, 24)), float(rng.choice([0, 0.1, 0.2]))
        found = sparse_mean(law(rng, (n, d)) + moved, contamination=contamination, screen_rows=False, **options)
        able: Power = of_one_sample(found.plan)
    else:
        y = np.repeat([0, 1], rng.integers(2, 11, 2))
        X = law(rng, (y.size, d)) + moved * y[:, np.newaxis]
        found = SparseMeanDifference(contamination=0.0, **options).fit(X, y).result_
        able = GroupPower(found.plan)
    assert not (impossible(found.plan) and found.support.size)
    assert found.p_values.min() >= able.smallest_p(found.plan.bad) * (1 - 1e-5)
