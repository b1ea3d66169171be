"""What users read is known word for word, and says nothing in words that only we would understand."""

from __future__ import annotations

import difflib

import pytest
from strings import BAD_WORDS, GOLDEN, everything, idioms, is_sentence, sentences


def test_every_sentence_is_in_the_golden_file() -> None:
    known, now = GOLDEN.read_text(encoding="utf-8").splitlines(), everything().splitlines()
    changed = [line for line in difflib.unified_diff(known, now, lineterm="", n=0) if line[:1] in "+-"]
    assert not changed, "read what is new as a stranger would, then: python tests/strings.py"


def test_no_private_idiom() -> None:
    assert idioms() == []


def test_texts_of_all_kinds_are_found() -> None:
    found = {(name, documented) for name, _, documented in sentences()}
    for name in (
        "_fit/messages.py",
        "_cli/fit.py",
        "result/_report/guarantees.py",
        "test.html",
        "forest.js",
        "_data/csv.py",
    ):
        assert (name, False) in found
    assert ("result/__init__.py", True) in found
    texts = [text for name, text, _ in sentences() if name == "_fit/messages.py"]
    assert any("neighbouring …s are alike" in text for text in texts)
    assert not is_sentence("row, two")


@pytest.mark.parametrize("bad", ["None looks bad", "as many are allowed for", "rows that lie off", "it survives 3 %"])
def test_words_are_looked_for(bad: str) -> None:
    import re

    assert any(re.search(word, bad, re.I) for word in BAD_WORDS)
