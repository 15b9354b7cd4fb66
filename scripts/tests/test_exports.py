from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from checks.exports import MODULES, PUBLIC, ROOT, Face, check_exported, load


def load_modules(tmp_path: Path, files: dict[str, str]) -> list[Face]:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    packages = sorted({name.partition("/")[0] for name in files})
    return load({package: tmp_path / package for package in packages}, tmp_path)


ERRORS = """\
    from __future__ import annotations
    import enum
    import attrs
    from typing import TYPE_CHECKING, Final, TypeAlias
    if TYPE_CHECKING:
        from collections.abc import Mapping
        Seen: TypeAlias = int
    __all__ = ["CODE", "McpError", "Number", "fail"]
    CODE: Final = 1
    Number: TypeAlias = int | float
    _first, _second = 1, 2
    T = TypeVar("T")
    P = typing.ParamSpec("P")
    class McpError(Exception): ...
    def fail() -> None: ...
    def _quietly() -> None: ...
    McpError.code = 1
    """


def test_module_with_complete_exports_has_no_findings(tmp_path: Path) -> None:
    assert check_exported(load_modules(tmp_path, {"p/errors.py": ERRORS})) == []


@pytest.mark.parametrize(
    "definition",
    [
        "class New: ...",
        "def New() -> None: ...",
        "async def New() -> None: ...",
        "New = 1",
        "New: int = 1",
        "New, _old = 1, 2",
        "if CODE:\n    New = 1",
        "if CODE:\n    pass\nelse:\n    New = 1",
        "try:\n    New = 1\nexcept ValueError:\n    pass",
        "try:\n    pass\nexcept ValueError:\n    New = 1",
    ],
)
def test_public_name_not_exported_found(tmp_path: Path, definition: str) -> None:
    text = textwrap.dedent(ERRORS) + definition + "\n"
    expected = ["p/errors.py: New is public and not in __all__; add it, or begin its name with an underscore"]
    assert check_exported(load_modules(tmp_path, {"p/errors.py": text})) == expected


def test_name_imported_at_first_use_is_exported(tmp_path: Path) -> None:
    names = '__all__ = ["Late"]\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.late import Late\n'
    late = {"p/late.py": '__all__ = ["Late"]\nclass Late: ...\n'}
    lazy = names + "def __getattr__(name): ...\n"
    assert check_exported(load_modules(tmp_path / "with", {"p/early.py": lazy, **late})) == []
    missing = ["p/early.py: Late is in __all__ and not there"]
    assert check_exported(load_modules(tmp_path / "without", {"p/early.py": names, **late})) == missing


def test_exported_name_missing_or_repeated_found(tmp_path: Path) -> None:
    text = '__all__ = ["Gone", "Here", "Here"]\nHere = 1\n'
    expected = ["p/errors.py: Gone is in __all__ and not there", "p/errors.py: Here is in __all__ twice"]
    assert check_exported(load_modules(tmp_path, {"p/errors.py": text})) == expected


def test_public_module_with_definitions_needs_export_list(tmp_path: Path) -> None:
    found = check_exported(
        load_modules(tmp_path, {"p/__init__.py": '"""Nothing."""\n', "p/a.py": "def f() -> None: ...\n"})
    )
    assert found == ["p/a.py: defines f, but has no __all__"]


def test_package_exports_imports_from_private_modules(tmp_path: Path) -> None:
    tree = {
        "p/__init__.py": "from p._client import Client, Link\nfrom p.errors import McpError\n__all__ = ['Client']\n",
        "p/_client.py": "class Client: ...\nclass Link: ...\n",
        "p/_inside/deep.py": "class Deep: ...\n",
    }
    expected = ["p/__init__.py: Link is public and not in __all__; add it, or begin its name with an underscore"]
    assert check_exported(load_modules(tmp_path, tree)) == expected


def test_load_finds_packages() -> None:
    found = load({package: ROOT / folder for package, folder in MODULES.items()}, ROOT)
    assert {face.module.partition(".")[0] for face in found} == set(MODULES)
    assert not [face.module for face in found if "._" in face.module]


def test_load_finds_listed_modules() -> None:
    found = {face.module for face in load({package: ROOT / folder for package, folder in MODULES.items()}, ROOT)}
    assert not {module for listed in PUBLIC.values() for module in listed} - found


def test_package_exports_imports_from_unlisted_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PUBLIC, "p", frozenset({"p", "p.errors"}))
    tree = {
        "p/__init__.py": "from p.client import Client, Link\nfrom p.errors import McpError\n__all__ = ['Client']\n",
        "p/client.py": "class Client: ...\nclass Link: ...\n",
        "p/errors.py": "__all__ = ['McpError']\nclass McpError: ...\n",
    }
    expected = ["p/__init__.py: Link is public and not in __all__; add it, or begin its name with an underscore"]
    assert check_exported(load_modules(tmp_path, tree)) == expected
