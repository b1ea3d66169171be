"""A browser without a network, and the pages it looks at; run by `make test-browser` only."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparsemean import Estimate, SparseMean, SparseMeanDifference, datasets, simulate, sparse_mean

AXE = Path(__file__).parents[2] / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
LOCAL = ("file:", "data:", "blob:", "about:")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave these tests out unless they are asked for by name: they take their time and measure it."""
    return None if any("browser" in argument for argument in config.args) else True


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("chromium is not installed, and no browser can be downloaded: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the script of axe-core."""
    if not AXE.exists():
        pytest.skip(f"axe-core is not at {AXE}: make test-browser fetches it where npm is there")
    return AXE.read_text(encoding="utf-8")


Opener = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any) -> Iterator[Opener]:
    """Open a file with the network off; whatever the page asks of it or complains of fails the test."""
    contexts, wrong = [], []

    def opened(path: Path, *, width: int = 1280, dark: bool = False, **options: Any) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            accept_downloads=True,
            **options,
        )
        contexts.append(context)
        context.set_offline(True)

        def refuse(route: Any) -> None:
            wrong.append(f"request: {route.request.url}")
            route.abort()

        context.route(lambda url: not url.startswith(LOCAL), refuse)
        page = context.new_page()
        page.on("request", lambda request: _note(request.url, wrong))
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def _note(url: str, wrong: list[str]) -> None:
    if not url.startswith(LOCAL):
        wrong.append(f"request: {url}")


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the pages and, later, their screenshots."""
    return tmp_path_factory.mktemp("report")


def written(estimate: Estimate, path: Path, **names: Any) -> Path:
    """Write a page once."""
    if not path.exists():
        estimate.report(path, **names)
    return path


@pytest.fixture(scope="session")
def two_groups(pages: Path) -> Path:
    """Return the page of the shipped data: twelve thousand probes, seven selected."""
    data = datasets.load_all_sex()
    frame = pd.DataFrame(data.X, columns=data.features)
    estimate = SparseMeanDifference(contamination=0.05).fit(frame, data.y).result_
    title = "Which probes differ between women and men?"
    return written(estimate, pages / "two_groups.html", title=title, row_names=data.samples)


@pytest.fixture(scope="session")
def wide_estimate() -> Estimate:
    """Return 20,000 made metrics, 200 of them with a mean."""
    rng = np.random.default_rng(1)
    mean = rng.choice([-1, 1], 200) * rng.uniform(0.7, 3, 200)
    data = simulate.make_contaminated(400, 20_000, mean, contamination=0.05, random_state=1)
    names = [f"metric_{k:05d}" for k in range(20_000)]
    return sparse_mean(data.X, contamination=0.05, random_state=0, feature_names=names)


@pytest.fixture(scope="session")
def wide(wide_estimate: Estimate, pages: Path) -> Path:
    assert wide_estimate.support.size == 200
    return written(wide_estimate, pages / "wide.html", title="20,000 made metrics of 400 users")


@pytest.fixture(scope="session")
def million(pages: Path) -> Path:
    """Return the page of a million features of which 2,500 have a mean."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 1_000_000), dtype=np.float32)
    X[:, :2_500] += 3
    estimate = sparse_mean(X, contamination=0.02, random_state=0)
    assert estimate.support.size > 2_000
    return written(estimate, pages / "million.html", title="A million made features")


@pytest.fixture(scope="session")
def odd_pages(pages: Path) -> dict[str, Path]:
    """Return pages with nothing, with one feature, with endless intervals, without the data and with bad names."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(100, 30))
    made = simulate.make_contaminated(200, 12, [6, -5, 4, 5, -6], contamination=0.05, random_state=1)
    bad = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "'\"&amp;", "=1+1", "a\u202eb"]
    few = simulate.make_contaminated(24, 30, [6, -5], contamination=0.2, random_state=0).X
    attacked = simulate.make_contaminated(200, 100, [5, 4, 3, 2.2, 1.8, 1.5], contamination=0.2, random_state=0).X
    skewed = simulate.make_contaminated(1000, 20, [3.0], contamination=0.01, random_state=0).X
    estimates = {
        "nothing": sparse_mean(noise, contamination=0.05, random_state=0),
        "one": sparse_mean(noise[:, :1] + 1, random_state=0),
        "endless": SparseMean.paper(contamination=0.2, random_state=0).fit(few).result_,
        "names": sparse_mean(made.X, random_state=0, feature_names=[*bad, *map(str, range(7))]),
        "uncertified": sparse_mean(attacked, contamination=0.2, random_state=0),
        "skewed": sparse_mean(skewed, contamination=0.01, target="mean", scale=5.0),
    }
    import pickle

    estimates["no_data"] = pickle.loads(pickle.dumps(estimates["uncertified"]))
    return {name: written(estimate, pages / f"{name}.html") for name, estimate in estimates.items()}
