"""The result: table, summary, trajectory, file."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import specification

from sparsemean import Estimate, load, simulate, sparse_mean
from sparsemean._stats.buckets import assign_paper_buckets
from sparsemean._stats.planning import PRESET
from sparsemean.errors import InputError

from agreeing import same_tables

DATA = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
NAMES = [f"gene <{i}>" for i in range(100)]


@pytest.fixture(scope="module")
def estimate() -> Estimate:
    return sparse_mean(DATA.X, feature_names=NAMES, contamination=0.1, random_state=3, **PRESET)


COLUMNS = [
    "feature", "estimate", "ci_low", "ci_high", "measure", "p_value", "log10_p", "p_adjusted", "q_value", "radius",
    "max_contamination",
    "beta", "entry_time", "bucket_size", "skewed",
]  # fmt: skip


def test_table_has_the_selected_features_strongest_first(estimate: Estimate) -> None:
    table = estimate.table()
    assert list(table.columns) == COLUMNS
    assert set(table["feature"]) == {NAMES[i] for i in range(4)}
    assert table["p_value"].is_monotonic_increasing
    everything = estimate.table(all=True)
    assert len(everything) == 100
    pd.testing.assert_frame_equal(everything.head(4), table)


def test_trajectory_is_the_plain_iteration(estimate: Estimate) -> None:
    means = specification.bucket_means(DATA.X, assign_paper_buckets(600, 240, 3))
    expected = specification.subgm(means, alpha=1e-5, eta=0.05, times=range(601))
    np.testing.assert_array_equal(estimate.trajectory([0, 99, 5]), expected[:, [0, 99, 5]])
    np.testing.assert_array_equal(estimate.trajectory(NAMES[3]), expected[:, [3]])
    np.testing.assert_array_equal(estimate.trajectory(-1, n_iter=10), expected[:11, [99]])
    np.testing.assert_array_equal(estimate.trajectory(range(4))[-1], estimate.mean[:4])


def test_entry_times_are_read_off_the_trajectory(estimate: Estimate) -> None:
    path = np.abs(estimate.trajectory(range(100)))
    for feature, entry in enumerate(estimate.entry_time):
        above = np.flatnonzero(path[:, feature] >= 1e-5)
        assert entry == above[0] if above.size else entry > 600


def test_signals_rise_one_after_the_other_and_the_rest_stays_down(estimate: Estimate) -> None:
    assert estimate.entry_time[:4].max() < 200
    assert estimate.entry_time[4:].min() > 200
    assert np.abs(estimate.trajectory(range(4, 100), n_iter=200)).max() < 1e-5


def test_pickle_and_file_keep_all_but_the_data(estimate: Estimate, tmp_path: Path) -> None:
    estimate.save(tmp_path / "fit.npz")
    for copy in (pickle.loads(pickle.dumps(estimate)), load(tmp_path / "fit.npz")):
        assert copy.source is None
        assert copy.plan == estimate.plan
        assert copy.status == estimate.status
        assert copy.seed == estimate.seed
        same_tables(copy, estimate)
        np.testing.assert_array_equal(copy.bucket_of_row, estimate.bucket_of_row)
        with pytest.raises(InputError, match="X must be given, as this estimate does not keep its data"):
            copy.trajectory(0)
        np.testing.assert_array_equal(copy.trajectory(0, X=DATA.X), estimate.trajectory(0))


def test_a_failed_save_leaves_the_old_file(estimate: Estimate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "fit.npz"
    target.write_bytes(b"precious")

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(InputError, match=r"output must be written whole: .*No space left.*what was there is unchanged"):
        estimate.save(target)
    assert target.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("content", [b"", b"not an estimate", b"PK\x03\x04broken"])
def test_load_refuses_other_files_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"path must be a complete file written by save"):
        load(tmp_path / "x.npz")
    with pytest.raises(InputError, match="path must be"):
        load(tmp_path / "missing.npz")


@pytest.mark.parametrize("features", ["gene", 100, [0, 1.5], None])
def test_unknown_features_are_named(estimate: Estimate, features: object) -> None:
    with pytest.raises(InputError, match="features must be names of features or numbers below 100"):
        estimate.trajectory(features)


def test_other_data_are_refused(estimate: Estimate) -> None:
    with pytest.raises(InputError, match="X must be the data of the fit"):
        estimate.trajectory(0, X=DATA.X[:-1])


def test_summary_says_what_was_done(estimate: Estimate) -> None:
    text = estimate.summary()
    assert text.startswith(
        "4 of 100 features were selected (2 above, 2 below) by the paper’s rule, which controls no error rate."
    )
    for part in ("600 rows", "60 of the 600 rows may be wrong", "0.584", "no stated error rate"):
        assert part in text
    one = sparse_mean(DATA.X[:, :1], random_state=0, **PRESET)
    assert one.summary().startswith("1 of 1 feature was selected (above) by")
    none = sparse_mean(DATA.X[:, 4:], contamination=0.1, random_state=0)
    assert none.summary().startswith("No feature clearly has a mean other than 0 if any 60 of the 600")
    assert len(none.table()) == 0
