"""No version with a published way in: neither installed, nor allowed by what this package asks for.

The list is of packages that read users' files, write pages for them or talk to workers, directly or through another. It
is what `make audit` has where no source of advisories can be reached; where one can, pip-audit knows more.
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

FLOORS = {
    "distributed": ("2021.10.0", "CVE-2021-42343: local clusters listen to everybody"),
    "fonttools": ("4.60.2", "CVE-2025-66034: a font design writes any file"),
    "jinja2": ("3.1.6", "CVE-2025-27516: out of the sandbox through a filter"),
    "joblib": ("1.2.0", "CVE-2022-21797: an argument of Parallel is evaluated"),
    "numcodecs": ("0.16.6", "zarr-developers/numcodecs#706: the codec 'pickle' runs what a .zarr says"),
    "pillow": ("10.3.0", "CVE-2024-28219: a buffer overflows"),
    "pyarrow": ("14.0.1", "CVE-2023-47248: reading Parquet or Feather runs code in it"),
    "pygments": ("2.15.1", "CVE-2022-40896: a text that takes for ever"),
    "pyyaml": ("5.4", "CVE-2020-14343: reading YAML runs code in it"),
    "scikit-learn": ("1.5.0", "CVE-2024-5206: a model keeps words that it was to leave out"),
    "tornado": ("6.5.5", "CVE-2026-31958: a request that takes for ever"),
}
"""The first version without the fault, and the fault."""
PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"].values()
ASKED = [Requirement(line) for lines in (PROJECT["dependencies"], *EXTRAS) for line in lines]


def is_bad(package: str, version: str) -> bool:
    return Version(version) < Version(FLOORS[package][0])


def least(requirement: Requirement) -> str:
    """Return the lowest version that a requirement allows."""
    (floor,) = (part.version for part in requirement.specifier if part.operator in (">=", "==", "~="))
    return floor


@pytest.mark.parametrize("package", FLOORS)
def test_what_is_installed_has_no_known_fault(package: str) -> None:
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    assert not is_bad(package, version), f"{package} {version}: {FLOORS[package][1]}"


@pytest.mark.parametrize("requirement", [r for r in ASKED if canonicalize_name(r.name) in FLOORS], ids=str)
def test_what_is_asked_for_allows_no_known_fault(requirement: Requirement) -> None:
    assert not is_bad(canonicalize_name(requirement.name), least(requirement))


@pytest.mark.parametrize(
    ("package", "version", "bad"),
    [
        ("numcodecs", "0.16.5", True),
        ("numcodecs", "0.16.6", False),
        ("pyarrow", "14.0.0", True),
        ("jinja2", "3.1", True),
    ],
)
def test_the_check_tells_them_apart(package: str, version: str, bad: bool) -> None:
    assert is_bad(package, version) is bad
