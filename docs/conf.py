"""How Sphinx builds the site; `make docs` runs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import sparsemean

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extension"))
import building  # noqa: E402

MATHJAX = os.environ.get("MATHJAX", str(HERE.parent / ".venv/mathjax/node_modules/mathjax/es5/tex-svg.js"))
"""One file that draws formulas by itself; npm fetches it and nothing is asked of the network when a page is read."""
LONG = (
    *("which", "single-cell", "data", "guarantees", "how-it-works", "scaling", "reproducing", "glossary", "api"),
    *(f"api/{page.stem}" for page in HERE.glob("api/*.md")),
)
"""Pages that have their contents beside them; elsewhere the room goes to code, tables and pictures."""
building.MADE.mkdir(parents=True, exist_ok=True)

project = "sparsemean"
author = "The sparsemean developers"
version = release = sparsemean.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "building",
]
root_doc = "index"
exclude_patterns = ["_build", "_extension", "gallery/pictures", "**/*.codeobj.json"]
default_role = "py:obj"
suppress_warnings: list[str] = []

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

add_module_names = False
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"
autosummary_generate = False  # tables only: pages of the API are in api/
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # fields of its own lose the underscore of mean_
napoleon_use_rtype = False
python_use_unqualified_type_names = True

mathjax_path = Path(MATHJAX).name
mathjax3_config = {"options": {"enableMenu": False}}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "building.in_order",
    "reset_argv": "building.arguments",
    "abort_on_example_error": True,
    "run_stale_examples": True,
    "doc_module": ("sparsemean",),
    "backreferences_dir": "gallery/uses",
    "download_all_examples": False,
    "show_signature": False,
    "notebook_extensions": set(),
    "ignore_repr_types": r"matplotlib\.",
    "default_thumb_file": str(HERE / "path.png"),
    "remove_config_comments": True,
    "write_computation_times": False,
    "image_srcset": ["2x"],
}

html_theme = "pydata_sphinx_theme"
html_title = "sparsemean"
html_static_path = ["_static", MATHJAX]
html_extra_path = ["gallery/made"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_sidebars = {"index": [], "glossary": [], "reproducing": [], "reproduced/outside": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": [], **{page: ["page-toc"] for page in LONG}},
    "footer_start": ["sphinx-version"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
