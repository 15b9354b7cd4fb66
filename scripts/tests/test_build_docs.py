from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from documentation import build as build_docs
from documentation.build import REFERENCE, main, pages, stale
from documentation.reference_pages import Source, page, sources
from mcp_core.engine.lifecycle import RULES
from mcp_core.methods import METHODS, NOTIFICATIONS


def module(tmp_path: Path, text: str, name: str = "things") -> str:
    (tmp_path / "p").mkdir(exist_ok=True)
    (tmp_path / "p" / f"{name}.py").write_text(textwrap.dedent(text))
    known = sources({"p": tmp_path / "p"})
    return page(known[f"p.{name}"], known)


def test_reference_up_to_date() -> None:
    assert stale(REFERENCE) == [], "run: python scripts/documentation/build.py"


def test_stale_reference_pages_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build_docs, "REFERENCE", tmp_path)
    (tmp_path / "gone.md").write_text("a removed page")
    assert main([]) == 0
    assert not (tmp_path / "gone.md").exists()
    assert main(["--check"]) == 0
    capsys.readouterr()  # discard the output about pages that cannot be generated here
    (tmp_path / "limits.md").write_text("old")
    (tmp_path / "more.md").write_text("superfluous")
    assert main(["--check"]) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "docs/reference/limits.md",
        "docs/reference/more.md",
    ]


def test_reference_contains_every_table_row() -> None:
    generated = pages()
    for row in METHODS:
        assert f"`{row.name}`" in generated["methods.md"]
    for notification in NOTIFICATIONS:
        assert f"`{notification.name}`" in generated["notifications.md"]
    for state, rules in RULES.items():
        for kind, rule in rules.items():
            assert f"| {state.value} | {kind.value} | {rule.then.value} |" in generated["lifecycle.md"]
    assert "stateDiagram-v2" in generated["lifecycle.md"]


def test_function_shown_with_signature_and_sections(tmp_path: Path) -> None:
    text = module(
        tmp_path,
        '''
        """Things."""
        __all__ = ["make"]
        async def make(a: int, /, b: str = "x, y", *rest: int, c: bool = True, **more: int) -> None:
            """Make things.

                make(1)

            Args:
                a: The first,
                    which matters.
                b, c: The others.

            Returns:
                Nothing: at all.

            Raises:
                ValueError: It is wrong.
            """
        ''',
    )
    assert 'async def make(a: int, /, b: str = "x, y", *rest: int, c: bool = True, **more: int) -> None' in text
    assert '<a id="p.things.make"></a>\n\n## make\n' in text
    assert "```python\nmake(1)\n```" in text
    assert "- `a`: The first,\n  which matters.\n- `b`, `c`: The others." in text
    assert "**Returns**\n\nNothing: at all." in text
    assert "- `ValueError`: It is wrong." in text


def test_class_shown_with_fields_and_methods(tmp_path: Path) -> None:
    text = module(
        tmp_path,
        '''
        """Things."""
        __all__ = ["Thing"]
        class Thing(Base):
            """A thing."""
            size: int = 3
            """How large
            it is."""
            _hidden: int = 4
            """Not shown."""
            def __init__(self) -> None:
                self.name: str = "x"
                """Its name."""
                self.other = 1
            @property
            def weight(self) -> float:
                """In grams."""
            @classmethod
            def of(cls, text: str) -> Thing:
                """Make a thing."""
            def undocumented(self) -> None: ...
        ''',
    )
    assert "class Thing(Base)" in text
    assert "- **`size`**: `int` = `3`  \n  How large it is." in text
    assert "- **`name`**: `str`  \n  Its name." in text
    assert "### Thing.weight\n\n```python\nweight: float\n```" in text
    assert "@classmethod\ndef of(text: str) -> Thing" in text
    for hidden in ("_hidden", "undocumented", "other"):
        assert hidden not in text


def test_overloads_shown_without_implementation(tmp_path: Path) -> None:
    text = module(
        tmp_path,
        '''
        """Things."""
        __all__ = ["make"]
        @overload
        def make(a: int) -> int: ...
        @overload
        def make(a: str) -> str: ...
        def make(a: object) -> object:
            """Make it."""
        ''',
    )
    assert "def make(a: int) -> int\ndef make(a: str) -> str\n```" in text
    assert "object" not in text


def test_exported_name_documented_once_and_linked(tmp_path: Path) -> None:
    module(tmp_path, '"""Hidden."""\n__all__ = ["A"]\nA = 1\n"""One."""\n', "_hidden")
    first = module(tmp_path, '"""First."""\nfrom p._hidden import A\n__all__ = ["A"]\n', "first")
    second = module(tmp_path, '"""Second."""\nfrom p.first import A\n__all__ = ["A"]\n', "second")
    assert "## A\n\n```python\nA = 1\n```\n\nOne." in first
    assert "From [`p.first`](p.first.md): [`A`](p.first.md#a)." in second


def test_module_docstring_code_and_drawing_in_code_blocks() -> None:
    text = '"""Things.\n\n    x = 1\n\n    +--+\n    |  |\n"""\n'
    known = {"p": Source("p", text, ast.parse(text), public=True)}
    assert "```text\nx = 1\n\n+--+\n|  |\n```" in page(known["p"], known)
