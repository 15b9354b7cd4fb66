"""The files `llms.txt` and `llms-full.txt` of the documentation site: its pages for language models, as Markdown.

`llms.txt` lists the pages that are written by hand, each with its first sentence, in the order of the site;
`llms-full.txt` contains them. The format is that of https://llmstxt.org.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from documentation.markdown_blocks import LINK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

__all__ = ["write_llms"]

_GENERATED: Final = ("reference/modules/", "reference/requirements/")
_DIRECTIVE: Final = re.compile(r"^```\{.*?^```$\n?", re.MULTILINE | re.DOTALL)


def write_llms(app: Sphinx, failure: Exception | None) -> None:
    """Write both files into the built site."""
    if failure is not None or app.builder.format != "html":
        return
    root = app.config.root_doc
    lines = [f"# {app.config.project}", "", f"> {_first_sentence(_text(app, root))}"]
    full = [_text(app, root)]
    for section in app.env.toctree_includes[root]:
        lines += ["", f"## {app.env.titles[section].astext()}", ""]
        for page in (section, *_below(app, section)):
            text = _text(app, page)
            first = _first_sentence(text)
            lines.append(f"- [{app.env.titles[page].astext()}]({page}.html){f': {first}' if first else ''}")
            full.append(text)
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n")
    (Path(app.outdir) / "llms-full.txt").write_text("\n\n".join(filter(None, full)) + "\n")


def _below(app: Sphinx, page: str) -> Iterator[str]:
    """Yield the pages below a page in the order of the site, except for generated ones."""
    for each in app.env.toctree_includes.get(page, ()):
        if not each.startswith(_GENERATED):
            yield each
            yield from _below(app, each)


def _text(app: Sphinx, page: str) -> str:
    """Return the Markdown of a page without its directives."""
    return _DIRECTIVE.sub("", Path(app.env.doc2path(page)).read_text()).strip()


def _first_sentence(text: str) -> str:
    """Return the first sentence of a page, without links; an empty string if it begins with something else."""
    paragraph = " ".join(text.partition("\n")[2].strip().partition("\n\n")[0].split())
    if not paragraph[:1].isalpha() and not paragraph.startswith(("`", "*")):
        return ""
    plain = LINK.sub(lambda link: link[0].partition("](")[0].removeprefix("["), paragraph)
    found = re.match(r".*?[.:](?= |$)", plain)
    return found[0].rstrip(":") if found else plain
