"""The page of an estimate that was made of counts alone: nothing is drawn that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsemean import simulate, sketch


def test_a_page_without_values_works(open_page: Any, tmp_path: Path) -> None:
    made = simulate.make_contaminated(400, 40, [6, -5, 4, -3], contamination=0.05, random_state=1)
    sketch(made.X).estimate(contamination=0).report(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert "need the rows, which were not at hand" in page.locator("#features").inner_text()
    assert page.locator("#forest").count() == 0
    assert page.locator("#table tbody tr").count() == 4
    assert "NaN" not in page.locator("#plots").inner_html()
    page.locator("#table tbody th").first.click()
    assert "NaN" not in page.locator("body").inner_text()
