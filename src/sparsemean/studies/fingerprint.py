"""A hash of the code that computes trials, so that results of edited code are never mixed with older ones."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

SHOWN_BY = ("cli", "output.py", "demonstration.py", "words.py", "plots", "bench", "datasets")
"""What only shows or feeds results; the same holds for this folder but for ``COMPUTED_BY``."""

COMPUTED_BY = ("methods.py", "oracle.py", "settings.py", "trial.py")


@cache
def fingerprint() -> str:
    """Return a hash of every source file on which a trial's numbers can depend."""
    studies = Path(__file__).parent
    package = studies.parent
    shown = {studies.name, *SHOWN_BY}
    files = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in shown]
    digest = hashlib.sha256()
    for path in sorted([*files, *(studies / name for name in COMPUTED_BY)]):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]
