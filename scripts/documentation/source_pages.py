"""The pages of the documentation site that show source files: those to which a page links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from docutils import nodes
from sphinx import addnodes

from documentation.markdown_blocks import LINK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

__all__ = ["link_sources", "source_pages"]

_LANGUAGES: Final = {".py": "python", ".toml": "toml", ".json": "json"}


def _page(app: Sphinx, link: str, document: str) -> str | None:
    """Return the name of the page about the file that a link names; `None` for another kind of file."""
    root = Path(app.srcdir).parent
    path = (app.env.doc2path(document).parent / link).resolve()
    if path.suffix not in _LANGUAGES or not path.is_relative_to(root) or not path.exists():
        return None
    return f"source/{path.relative_to(root).as_posix()}"


def link_sources(app: Sphinx, document: nodes.document, name: str) -> None:
    """Replace the downloads of a page by links to the pages about the files."""
    for node in list(document.findall(addnodes.download_reference)):
        page = _page(app, node["reftarget"], node["refdoc"])
        if page is not None:
            url = app.builder.get_relative_uri(name, page)
            node.replace_self(nodes.reference("", "", *node.children, internal=True, refuri=url))


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, object], str]]:
    """Yield the pages: name, context and template."""
    highlighter = getattr(app.builder, "highlighter")  # noqa: B009 - builders other than HTML have none
    found: set[str] = set()
    for name in app.env.found_docs:
        links = LINK.findall(app.env.doc2path(name).read_text())
        found |= {page for link in links if (page := _page(app, link, name)) is not None}
    for page in sorted(found):
        path = page.removeprefix("source/")
        text = (Path(app.srcdir).parent / path).read_text()
        body = highlighter.highlight_block(text, _LANGUAGES[Path(path).suffix])
        heading = f"<h1>{Path(path).name}</h1><p><code>{path}</code></p>"
        yield page, {"title": Path(path).name, "body": heading + body}, "page.html"
