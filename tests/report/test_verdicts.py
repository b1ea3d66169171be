"""Every situation has its verdict, word for word as it is printed 80 columns wide: ``verdicts.txt``.

``python tests/report/test_verdicts.py`` writes that file anew: read what has changed as a stranger.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsemean as sm
from sparsemean import Estimate, SparseMean, SparseMeanDifference, datasets, simulate, sketch, sparse_mean
from sparsemean._fit.write import as_json
from sparsemean._util.checks import Bunch
from sparsemean.errors import InputError
from sparsemean.result._report import verdict as words
from sparsemean.result._report.verdict import verdict
from sparsemean.result.comparison import Comparison, called

GOLDEN = Path(__file__).with_name("verdicts.txt")
PROTEINS = [f"P{k:05d}" for k in range(2000)]


@cache
def swapped() -> Bunch:
    """Forty cases and forty controls, thirty proteins 2.2 deviations higher in cases, one pair of samples swapped."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 500)), np.repeat(["control", "case"], 40)
    X[40:, :30] += 2.2
    y[[3, 50]] = y[[50, 3]]
    return Bunch(X=X, y=y)


@cache
def small() -> Bunch:
    """Twenty and twenty, one pair swapped: being sure of that costs most of what is there."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 1000)), np.repeat(["control", "case"], 20)
    X[20:, :30] += 2.0
    y[[3, 30]] = y[[30, 3]]
    return Bunch(X=X, y=y)


@cache
def three() -> Bunch:
    """Three cell types of 150 cells with markers of their own, two cells with the wrong label."""
    rng = np.random.default_rng(0)
    y = np.repeat(["B", "NK", "T"], 150)
    X = rng.poisson(1.0, (450, 200)) + 0.01 * rng.random((450, 200))
    for k, label in enumerate(["B", "NK", "T"]):
        X[np.ix_(y == label, np.arange(12 - 3 * k) + 20 * k)] += 4
    y[[0, 400]] = ["NK", "B"]
    return Bunch(X=X, y=y)


def moved(n: int = 600, bad: int = 30) -> np.ndarray[Any, Any]:
    """Rows of which some lie off together, in the same direction."""
    return simulate.make_contaminated(n, 100, [10, -5, -4, 2], contamination=bad / n, random_state=0).X


def normal(n: int, d: int, *means: float, seed: int = 0) -> np.ndarray[Any, Any]:
    X = np.random.default_rng(seed).standard_normal((n, d))
    X[:, : len(means)] += means
    return X


def arms(shift: float, bots: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    arm = np.repeat(["control", "new"], 1500)
    X = rng.poisson(3.0, (3000, 12)).astype(float) + rng.poisson(shift, (3000, 12)) * (
        (arm == "new")[:, None] & (np.arange(12) < 3)
    )
    X[:bots] += 60
    return X, arm


def compared(X: Any, y: Any, **options: Any) -> Estimate | Comparison:
    fit = {name: options.pop(name) for name in ("pairs", "groups", "strata") if name in options}
    return SparseMeanDifference(**options).fit(X, y, **fit).result_


def all_sex(**options: Any) -> Estimate | Comparison:
    data = datasets.load_all_sex()
    import pandas as pd

    X = pd.DataFrame(data.X, index=data.samples, columns=data.features)
    return called(compared(X, data.y, **options), "sample", "probe")


def walk(n: int) -> np.ndarray[Any, Any]:
    """Neighbouring rows are alike."""
    X = np.cumsum(np.random.default_rng(0).standard_normal((n, 20)), axis=0) / 5
    return np.asarray(X - X.mean(axis=0) + np.where(np.arange(20) < 4, 2.0, 0.0))


def skewed() -> np.ndarray[Any, Any]:
    X = np.random.default_rng(0).standard_normal((400, 30))
    X[:, :4] += 1
    X[:, 4:7] = np.random.default_rng(1).exponential(size=(400, 3)) - 1
    return X


def named(X: Any, prefix: str = "f") -> Any:
    import pandas as pd

    return pd.DataFrame(X, index=[f"s{k}" for k in range(len(X))], columns=[f"{prefix}{k}" for k in range(X.shape[1])])


def donor() -> np.ndarray[Any, Any]:
    X = normal(120, 60, 1.2, 1.0, -1.1)
    X[7] *= 6
    X[[11, 12], 20:32] += 30
    X[12, 31:40] -= 30
    return X


SITUATIONS: dict[str, Callable[[], Any]] = {
    "two groups, one pair of samples swapped": lambda: compared(swapped().X, swapped().y, reference="control"),
    "the same of twenty and twenty": lambda: compared(small().X, small().y, reference="control"),
    "men and women, four samples that look like the other sex": all_sex,
    "the same with a share that is named": lambda: all_sex(contamination=0.05),
    "nothing suspicious, few samples": lambda: compared(
        normal(38, 60, seed=2) + 2.5 * np.outer(np.arange(38) % 2, np.arange(60) < 5), np.arange(38) % 2
    ),
    "nothing suspicious, many rows": lambda: sparse_mean(normal(600, 100, 1.0, -0.5, -0.4, 0.3)),
    "one sample, 30 of 600 rows off together": lambda: sparse_mean(moved()),
    "one sample, few rows, all of them named": lambda: sparse_mean(named(moved(60, 4))),
    "none wrong, as asked": lambda: sparse_mean(moved(), contamination=0.0),
    "nothing selected": lambda: sparse_mean(named(normal(60, 20))),
    "nothing selected of two groups, bad rows assumed": lambda: compared(
        normal(60, 20) + 1.1 * np.outer(np.arange(60) % 2, np.arange(20) < 2), np.arange(60) % 2, contamination=0.1
    ),
    "a design that can show nothing": lambda: called(
        compared(named(normal(12, 2000), "P"), np.arange(12) % 2), None, "protein"
    ),
    "a design that can show nothing if so many are bad": lambda: compared(
        normal(18, 600) + 9.0 * np.outer(np.arange(18) % 2, np.arange(600) < 100), np.arange(18) % 2, contamination=0.1
    ),
    "dependent rows": lambda: sparse_mean(walk(400)),
    "skewed columns": lambda: sparse_mean(skewed()),
    "three cell types, two cells with wrong labels": lambda: called(
        compared(named(three().X), three().y), "cell", "gene"
    ),
    "three labels, nothing differs": lambda: compared(normal(90, 40), np.repeat(["a", "b", "c"], 30)),
    "means": lambda: sparse_mean(normal(500, 40, 1.0, -0.8), target="mean", scale=1.5),
    "means of two groups, scale from the rows": lambda: compared(
        normal(2000, 10) + np.outer(np.arange(2000) % 2, np.arange(10) < 2), np.arange(2000) % 2, target="mean"
    ),
    "an experiment with bots": lambda: called(compared(*arms(0.3, 30)), "user", "metric"),
    "an experiment without effect": lambda: called(compared(*arms(0.0)), "user", "metric"),
    "the paper's rule": lambda: SparseMean.paper(contamination=0.05, random_state=0).fit(moved()).result_,
    "a sketch": lambda: sketch(moved()).estimate(contamination=0.05),
    "false discovery rate": lambda: sparse_mean(moved(), selection="fdr"),
    "pairs": lambda: compared(
        normal(60, 30) + 2.0 * np.outer(np.arange(60) % 2, np.arange(30) < 3),
        np.arange(60) % 2,
        pairs=np.arange(60) // 2,
    ),
    "subjects": lambda: SparseMean().fit(moved(600, 0), groups=np.arange(600) // 3).result_,
    "one row is large, two have a few far values": lambda: sparse_mean(donor()),
    "rows were not screened": lambda: sparse_mean(moved(), screen_rows=False),
    "decided again for another share": lambda: sparse_mean(moved()).at(0.2),
    "without the suspects": lambda: sparse_mean(moved()).without_suspects(),
    "data that are gone": lambda: replace(sparse_mean(moved()), source=None),
}


def printed(result: Any) -> str:
    """Return the verdict as it is printed: what stands before the first empty line."""
    return str(result).partition("\n\n")[0].replace("\N{NO-BREAK SPACE}", " ")


def everything() -> str:
    return "\n\n".join(f"# {name}\n{printed(make())}" for name, make in SITUATIONS.items()) + "\n"


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_situation_has_its_words(name: str) -> None:
    known = dict(part.removeprefix("# ").split("\n", 1) for part in GOLDEN.read_text(encoding="utf-8").split("\n\n"))
    said = printed(SITUATIONS[name]())
    assert said == known[name].rstrip("\n")
    assert max(map(len, said.splitlines())) <= 80


def test_nothing_else_stands_in_the_file() -> None:
    headings = [line[2:] for line in GOLDEN.read_text(encoding="utf-8").splitlines() if line.startswith("# ")]
    assert headings == list(SITUATIONS)


@pytest.mark.parametrize("data", [swapped, small])
def test_one_fact_has_one_number_everywhere(data: Callable[[], Bunch], tmp_path: Path) -> None:
    """With a pair of samples swapped: what is certified, what holds if none is wrong, what holds without suspects."""
    result = compared(data().X, data().y, reference="control")
    k, clean, left = result.support.size, result.at(0.0).support.size, result.without_suspects().support.size
    first, _, otherwise, *_ = verdict(result)
    assert first.startswith(f"{k} of ")
    assert f"If no sample is wrong: {clean}.   Without the " in otherwise
    assert f": {left} (not guaranteed)." in otherwise
    shown = str(result).replace("\n", " ").replace("   ", " ")
    assert shown.startswith(" ".join(verdict(result)).replace("   ", " "))
    result.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    content = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    (fit,) = (stop for stop in content["shares"] if stop["fit"])
    written = json.loads(as_json(result))["summary"].splitlines()
    for line in verdict(result):
        assert f'<p class="verdict">{line}</p>' in page
        assert line in fit["verdict"]
        assert line in written
    assert "no sample is wrong: none" not in otherwise


def test_rows_are_fitted_again_once_and_only_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = compared(small().X, small().y), list[str]()
    again = Estimate.without_suspects
    monkeypatch.setattr(Estimate, "without_suspects", lambda self: asked.append("") or again(self))
    assert not vars(result).get("_without")
    said = str(result), result.summary(), result._repr_html_()
    assert len(asked) == 1
    assert all("Without the suspect: 26 (not guaranteed)." in each.replace("\n", " ") for each in said)
    loaded = pickle.loads(pickle.dumps(result))
    assert "Without the suspect: 26 (not guaranteed)." in loaded.summary()
    monkeypatch.setattr(words, "MOST_FITTED", 1000)
    large = compared(small().X, small().y)
    assert "Without the suspect: call without_suspects()." in large.summary()
    assert len(asked) == 1
    gone = pickle.loads(pickle.dumps(large))
    assert "Without the suspect: call without_suspects(X)." in gone.summary()


def test_nouns_are_named_for_one_text_or_for_a_command(tmp_path: Path) -> None:
    result = compared(small().X, small().y, reference="control")
    said = result.summary(unit="patient", feature="protein")
    assert said.startswith("2 of 1,000 proteins differ between case and control")
    assert "This holds even if the suspicious patient below is wrong" in said
    assert "sample" not in said.splitlines()[1]
    assert "samples" in result.summary()
    result.report(tmp_path / "page.html", unit="patient", feature="probe")
    assert "2 of 1,000 probes differ" in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="unit must be a noun"):
        result.summary(unit=3)
    again = called(result, "animal", None)
    again.save(tmp_path / "kept.npz")
    kept = sm.load(tmp_path / "kept.npz")
    assert kept.sample.unit == "animal"
    assert "suspicious animal" in kept.summary()


if __name__ == "__main__":
    GOLDEN.write_text(everything(), encoding="utf-8")
    sys.stdout.write(GOLDEN.read_text(encoding="utf-8"))
