"""The check of the links of the documentation site."""

from __future__ import annotations

from pathlib import Path

from documentation.check_links import broken_links, main


def test_links_of_site_that_resolve_are_not_reported(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="b/c.html#y"></a><a href="#x"></a><a href="https://a.example/b"></a>'
    )
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.html").write_text('<p id="y"><a href="../a.html"></a>')
    assert broken_links(tmp_path) == []
    assert main([str(tmp_path)]) == 0


def test_broken_links_of_site_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="gone.html"></a><a href="#gone"></a><img src="gone.png">')
    assert broken_links(tmp_path) == [
        "a.html: gone.html: no such file",
        "a.html: #gone: no such anchor",
        "a.html: gone.png: no such file",
    ]
    assert main([str(tmp_path)]) == 1
