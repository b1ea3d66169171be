"""What a notebook shows of an estimate and of an estimator."""

from __future__ import annotations

import numpy as np

from sparsemean import SparseMean, simulate, sparse_mean

DATA = simulate.make_contaminated(300, 40, [6.0, -5.0, *[3.0] * 14], random_state=0).X
NAMES = ["<b>bold</b>", *(f"f{i}" for i in range(39))]


def test_the_strongest_features_are_shown_with_their_numbers_and_names_stay_text() -> None:
    result = sparse_mean(DATA, feature_names=NAMES, random_state=0)
    shown = result._repr_html_()
    assert "&lt;b&gt;bold&lt;/b&gt;" in shown
    assert "<b>" not in shown
    first = result.table().iloc[0]
    assert f"{first.estimate:.4g}" in shown
    assert (
        f"<p><strong>{result.support.size} of 40 features have a mean other than 0 (15 above, 1 below).</strong>"
        in shown
    )
    assert "… and 4 more in" in shown
    assert shown.count("<tr") == 13


def test_nothing_selected_is_said() -> None:
    result = sparse_mean(np.random.default_rng(0).standard_normal((200, 5)), random_state=0)
    shown = result._repr_html_()
    assert "No feature clearly has a mean other than 0 (5 tested; strongest: " in shown
    assert shown.count("<tr") == 6
    assert f"{result.p_adjusted.min():.2g}" in shown
    assert "With 200 rows a mean of about " in shown


def test_the_estimator_shows_itself_as_those_of_scikit_learn_do() -> None:
    assert "SparseMean" in SparseMean(contamination=0.1)._repr_html_()
