"""Studies of estimators on simulated data: sweeps that stop and resume, and the paper's figures from one command."""

from __future__ import annotations

from sparsemean.studies.engine import run
from sparsemean.studies.methods import Setting, Sweep, methods

__all__ = ["Setting", "Sweep", "methods", "run"]
