"""The errors that `make mutate` puts in are those of the code as it is."""

from __future__ import annotations

import pytest
from mutations import MUTATIONS, ROOT, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.name for mutation in MUTATIONS])
def test_a_mutation_changes_one_place_that_is_there(mutation: Mutation) -> None:
    file, text = mutation.place(ROOT / "src" / "sparsemean")
    assert text != file.read_text(encoding="utf-8")
    compile(text, str(file), "exec")
    assert (ROOT / mutation.killed_by).is_file()
