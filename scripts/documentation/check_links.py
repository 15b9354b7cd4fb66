"""The check that the links within the built documentation site resolve: `python scripts/documentation/check_links.py dist/site`."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["broken_links", "main"]


class _Page(HTMLParser):
    """The ids and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: Sequence[tuple[str, str | None]]) -> None:
        """Note the id and the link of an element."""
        values = {name: value for name, value in attributes if value is not None}
        if "id" in values:
            self.ids.add(values["id"])
        for name in ("href", "src"):
            if name in values and tag != "use":
                self.links.append(values[name])


def broken_links(site: Path) -> list[str]:
    """Return one line for each link to a page or an anchor that does not exist.

    Args:
        site: The folder of the site.
    """
    pages = {path.resolve(): _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found: list[str] = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{path.relative_to(site.resolve())}: {link}: no such file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                found.append(f"{path.relative_to(site.resolve())}: {link}: no such anchor")
    return found


def main(arguments: Sequence[str]) -> int:
    """Check a site and return the exit status."""
    found = broken_links(Path(arguments[0]))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
