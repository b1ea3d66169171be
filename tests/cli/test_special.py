"""SciPy's special functions in a process of our own: the same ones, and the whole package where it is asked for."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from sparsemean._cli import load_special_lazily
load_special_lazily()
from scipy.special import betainc, ndtr
assert betainc(2, 3, 0.5) == 0.6875 and ndtr(0.0) == 0.5
assert "scipy.special._basic" not in sys.modules
stand_in = sys.modules["scipy.special"]
from scipy.special import logsumexp
import scipy.special, scipy.stats
assert "scipy.special._basic" in sys.modules and sys.modules["scipy.special"] is not stand_in
assert scipy.special is sys.modules["scipy.special"] and scipy.special.betainc is betainc
assert stand_in.logsumexp is logsumexp and scipy.stats.norm.cdf(0.0) == 0.5
load_special_lazily()
assert sys.modules["scipy.special"] is scipy.special
"""


def test_functions_come_first_and_the_rest_where_it_is_asked_for() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
