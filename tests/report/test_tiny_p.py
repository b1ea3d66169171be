"""P-values below what a double holds are told by their logarithms: in page data, table, scripts and volcano plots."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from sparsemean import Estimate, SparseMeanDifference, sparse_mean
from sparsemean.result._report.page import HERE, page_data, page_of, page_wordings
from sparsemean.result._report.summary import features_of
from sparsemean.result._report.verdict import verdict
from sparsemean.result._report.wording import wording_of

SCRIPTS = ("base", "state", "numbers", "axes", "plot", "table", "share", "volcano")
STUB = """
const element = () => ({
  setAttribute() {}, append(...parts) { this.parts.push(...parts); }, replaceChildren(...parts) { this.parts = parts; },
  parts: [], value: "", style: {},
});
const elements = {};
const document = {
  getElementById: () => ({ textContent: require("fs").readFileSync(0, "utf8") }),
  createElement: element, createElementNS: element, querySelector: (name) => (elements[name] ??= element()),
};
"""


@pytest.fixture(scope="module", params=["one", "groups"])
def tiny(request: pytest.FixtureRequest) -> Estimate:
    """Of one sample and of groups: p of the first feature is about 1e-400, that without bad rows still smaller."""
    rng = np.random.default_rng(0)
    if request.param == "one":
        X = rng.standard_normal((1480, 6))
        X[:, 0] += 9
        X[:, 1] += 0.2
        return sparse_mean(X, contamination=0.01)
    X, y = rng.standard_normal((2800, 6)), np.arange(2800) % 2
    X[y == 1, 0] += 2.3
    X[y == 1, 1] += 0.3
    return SparseMeanDifference(contamination=0.01).fit(X, y).result_


def value_of(text: str) -> float:
    """Return log₁₀ of a number such as 3.7 × 10⁻⁴⁰¹."""
    mantissa, power = text.split(" × 10")
    return float(np.log10(float(mantissa))) + int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))


def test_page_data_and_table_have_the_power_of_ten(tiny: Estimate) -> None:
    assert -430 < tiny.log10_p[0] < -390
    content = page_data(*page_wordings(tiny))
    np.testing.assert_allclose(np.array(content["log10_p"])[:2], tiny.log10_p[:2], atol=6e-5)
    page = page_of(tiny)
    p, adjusted, q = re.findall(r'<td class="p(?: extra)?">(.*?)</td>', page)[:3]
    assert value_of(p) == pytest.approx(tiny.log10_p[0], abs=0.03)
    assert adjusted == q == "&lt; 10⁻³⁰⁰"
    (first, _) = features_of(wording_of(tiny), 2).rows
    assert (first[0], first[-3]) == ("0", "< 1e-300")


def test_stops_of_the_slider_go_as_far(tiny: Estimate) -> None:
    stops = page_data(*page_wordings(tiny))["shares"]
    assert isinstance(stops, list)
    for stop in stops:
        if not stop["fit"]:
            decided = tiny.at(stop["share"])
            assert stop["log10_p"][0] == pytest.approx(decided.log10_p[0], abs=6e-5)
    assert stops[0]["log10_p"][0] < tiny.log10_p[0]


def test_the_volcano_plot_goes_as_far(tiny: Estimate) -> None:
    ax = tiny.plot_volcano()
    (dots,) = [line for line in ax.lines if line.get_label() == "selected"]
    assert max(dots.get_ydata()) == pytest.approx(-tiny.log10_p[0])
    assert ax.get_ylim()[1] > -tiny.log10_p[0]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js runs the script of the page")
def test_scripts_write_the_same_numbers_and_their_volcano_goes_as_far(tiny: Estimate) -> None:
    data = page_data(*page_wordings(tiny))
    parts = [(HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    end = """
    const texts = (each) => (typeof each === "string" ? [each] : (each.parts || []).flatMap(texts));
    moveTo(FIT);
    const told = [[0, 1].map(cellOf.p_value), texts(drawVolcano(600).svg)];
    const verdicts = [texts(find("#verdict"))];
    moveTo(0);
    verdicts.push(texts(find("#verdict")));
    console.log(JSON.stringify([...told, column.log10_p || null, cellOf.p_value(0), verdicts]));
    """
    done = subprocess.run(
        ["node", "-e", "\n".join((STUB, *parts, end))], input=json.dumps(data), capture_output=True, text=True
    )
    assert done.stderr == ""
    (first, second), texts, logs, moved, verdicts = json.loads(done.stdout)
    assert verdicts == [list(verdict(tiny)), list(verdict(tiny.at(0.0)))]
    page = page_of(tiny)
    assert f">{first}</td>" in page
    assert f">{second}</td>" in page
    assert value_of(first) == pytest.approx(tiny.log10_p[0], abs=0.03)
    powers = [value_of(f"1 × {text}") for text in texts if re.fullmatch("10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", text)]
    assert 1.1 * tiny.log10_p[0] < min(powers) < 0.8 * tiny.log10_p[0]
    # At another share they go by logarithms too, in every column that has them.
    without = tiny.at(0.0).log10_p[0]
    assert value_of(moved) == pytest.approx(without, abs=0.03)
    assert logs is None or logs[0] == pytest.approx(without, abs=6e-5)
