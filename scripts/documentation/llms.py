"""The files `llms.txt` and `llms-full.txt` of the documentation site: the pages for language models, as Markdown.

`llms.txt` lists the pages that are written by hand with their first sentences; `llms-full.txt` contains them. The format
is that of https://llmstxt.org.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from documentation.markdown_blocks import pages

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["write_llms"]


def write_llms(app: Sphinx, failure: Exception | None) -> None:
    """Write both files into the built site."""
    if failure is not None or app.builder.format != "html":
        return
    source, site = Path(app.srcdir), Path(app.outdir)
    written = [path for path in pages(source.parent) if path.is_relative_to(source)]
    sections: dict[str, list[str]] = {}
    for path in written:
        name = path.relative_to(source).with_suffix("")
        title, text = _start(path.read_text())
        sections.setdefault(name.parts[0] if len(name.parts) > 1 else "", []).append(
            f"- [{title}]({name}.html): {text}"
        )
    title, text = _start((source / "index.md").read_text())
    lines = [f"# {app.config.project}", "", f"> {text}", ""]
    for section, entries in sections.items():
        if section:
            lines += [f"## {section.capitalize()}", "", *entries, ""]
    (site / "llms.txt").write_text("\n".join(lines))
    (site / "llms-full.txt").write_text("\n\n".join(path.read_text().strip() for path in written) + "\n")


def _start(text: str) -> tuple[str, str]:
    """Return the title of a page and its first paragraph, on one line."""
    heading, _, rest = text.partition("\n")
    return heading.removeprefix("# "), " ".join(rest.strip().partition("\n\n")[0].split())
