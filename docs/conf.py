"""The configuration of the documentation site. `nox -s docs` builds it into `dist/site`."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

# The extension of the site is in `scripts/documentation/site.py`.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

project = "The Model Context Protocol for Python"
author = "The authors of trio-mcp"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "documentation.site",
]
root_doc = "index"
# A fragment of the changelog has two dots in its name: `+words.feature.md`.
exclude_patterns = ["tests", "examples", "changelog.d/*.*.md"]

html_theme = "furo"
html_title = project
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False

myst_heading_anchors = 4

# Docstrings are in Google style. What is in single backticks is code, and a link where the name is known.
default_role = "py:obj"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
add_module_names = False
# Each name of a module has a heading.
toc_object_entries = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

# Without a network, a build has no links to other projects: an empty inventory replaces theirs.
offline = Path(__file__).resolve().parent.parent / "dist" / "offline.inv"
offline.parent.mkdir(exist_ok=True)
heading = "# Sphinx inventory version 2\n# Project: none\n# Version: 0\n# The remainder of this file is compressed using zlib.\n"
offline.write_bytes(heading.encode() + zlib.compress(b""))
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", (None, str(offline))),
    "trio": ("https://trio.readthedocs.io/en/stable", (None, str(offline))),
    "attrs": ("https://www.attrs.org/en/stable", (None, str(offline))),
}
intersphinx_timeout = 5
