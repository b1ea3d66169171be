"""Tables with the faults that people's files have: read right, refused, or read with a note; never silently wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import messy
import pytest

from sparsemean._data.source import Dense
from sparsemean._data.table import ReadOptions, Table

TABLES = 12
"""Tables of each fault here; ``make messy`` has 250."""


@pytest.mark.parametrize("name", messy.FAULTS)
def test_no_table_is_read_silently_wrong(name: str) -> None:
    ends, wrong = messy.count(name, TABLES)
    assert sum(ends.values()) == TABLES
    assert not wrong


def test_the_count_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice each number is wrong, and a note on something else does not admit it."""
    read = messy.open_file

    def doubled(path: Path, wanted: ReadOptions) -> Table:
        table = read(path, wanted)
        return replace(table, source=Dense(2 * table.values))

    monkeypatch.setattr(messy, "open_file", doubled)
    for name in ("sound numbers", "everything quoted", "percent signs"):
        ends, wrong = messy.count(name, 5)
        assert len(wrong) == ends["silently wrong"] == 5
