from __future__ import annotations

import copy
import pickle

import pytest

from sparsemean._util.checks import Bunch


def test_entries_and_attributes_are_the_same() -> None:
    bunch = Bunch(X=1)
    bunch.y = 2
    assert (bunch["y"], bunch.X) == (2, 1)
    assert {"X", "y"} <= set(dir(bunch))


def test_missing_entry_names_those_there_are() -> None:
    with pytest.raises(AttributeError, match="no entry 'z'; it has X"):
        _ = Bunch(X=1).z


def test_survives_pickle_and_copy() -> None:
    bunch = Bunch(X=[1], y="F")
    for twin in (pickle.loads(pickle.dumps(bunch)), copy.deepcopy(bunch)):
        assert isinstance(twin, Bunch)
        assert twin == bunch
