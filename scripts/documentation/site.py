"""The Sphinx extension of the documentation site.

It writes the pages of the reference that are not written by hand, provides the directive `generated-table`, resolves
references to names by their definitions, compares the reference with `__all__`, and writes `llms.txt` and `llms-full.txt`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from documentation.cluster_tables import CLUSTER_TABLES
from documentation.conformance_tables import CONFORMANCE_TABLES
from documentation.docstrings import convert_docstring, convert_signature, restore_docstring
from documentation.llms import write_llms
from documentation.module_pages import descriptions, module_page, public_modules
from documentation.protocol_tables import PROTOCOL_TABLES
from documentation.requirement_tables import requirement_area, requirement_areas, requirement_counts
from documentation.source_pages import link_sources, source_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

__all__ = ["GeneratedTable", "setup"]

TABLES: Final[Mapping[str, Callable[[], list[str]]]] = {
    **PROTOCOL_TABLES,
    **CONFORMANCE_TABLES,
    **CLUSTER_TABLES,
    "requirement-counts": requirement_counts,
}
LOGGER: Final = logging.getLogger(__name__)


class GeneratedTable(SphinxDirective):
    """The directive that inserts a table; its argument is the name of the table."""

    required_arguments: ClassVar = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        return self.parse_text_to_nodes("\n".join(TABLES[self.arguments[0]]()))


def write_pages(app: Sphinx) -> None:
    """Write a page for each public module, and one for each area of requirements."""
    pages = {f"modules/{module}": module_page(module) for module in public_modules()}
    for area in requirement_areas():
        lines = [
            f"# Requirements: {area}",
            "",
            f"An id is `{area}.` and the first column.",
            "",
            *requirement_area(area),
        ]
        pages[f"requirements/{area}"] = "\n".join([*lines, ""])
    folder = Path(app.srcdir) / "reference"
    for name in ("modules", "requirements"):
        (folder / name).mkdir(exist_ok=True)
        for path in (folder / name).glob("*.md"):
            if f"{name}/{path.stem}" not in pages:
                path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        # Sphinx reads only changed files.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def find_exactly(_: Sphinx, document: nodes.document) -> None:
    """Stop the search for a builtin type such as `list` among the methods of all classes."""
    for node in document.findall(addnodes.pending_xref):
        if node.get("refspecific") is False:
            del node["refspecific"]


@cache
def described_by_name() -> Mapping[str, str]:
    """Return the dotted names in the reference by their last part, as far as this is unique."""
    found: dict[str, set[str]] = {}
    for described in descriptions().values():
        found.setdefault(described.rpartition(".")[2], set()).add(described)
    return {name: next(iter(full)) for name, full in found.items() if len(full) == 1}


def resolve(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Resolve a reference to a class that is named without its module, or to its member."""
    if node.get("refdomain") != "py":
        return None
    owner, dot, member = node["reftarget"].rpartition("~")[2].partition(".")
    found = described_by_name().get(owner)
    if found is None or not owner[:1].isupper():
        return None
    replaced: nodes.reference | None = env.domains.python_domain.resolve_xref(
        env, node["refdoc"], app.builder, "obj", f"{found}{dot}{member}", node, content
    )
    return replaced


def check_documented(_: Sphinx, env: BuildEnvironment) -> None:
    """Warn about a public name that the reference does not describe."""
    known = {*env.domains.python_domain.objects, *env.domains.python_domain.modules}
    for described in descriptions().values():
        if described not in known:
            LOGGER.warning("the reference does not describe %s: it needs a docstring", described)


def setup(app: Sphinx) -> dict[str, object]:
    """Connect the extension."""
    app.add_directive("generated-table", GeneratedTable)
    app.connect("builder-inited", write_pages)
    # Before and after napoleon, which converts the sections.
    app.connect("autodoc-process-docstring", convert_docstring, priority=400)
    app.connect("autodoc-process-docstring", restore_docstring, priority=600)
    app.connect("autodoc-process-signature", convert_signature)
    app.connect("doctree-read", find_exactly)
    app.connect("missing-reference", resolve)
    app.connect("env-check-consistency", check_documented)
    app.connect("doctree-resolved", link_sources)
    app.connect("html-collect-pages", source_pages)
    app.connect("build-finished", write_llms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
