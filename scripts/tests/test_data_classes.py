"""Data classes of the packages have no generated comparison and text, which would cost time at each import."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[2]


def generated(source: str) -> Iterator[str]:
    """Yield the names of classes for which attrs would generate and compile methods that `mcp_core.field_methods` has."""
    for cls in ast.walk(ast.parse(source)):
        if not isinstance(cls, ast.ClassDef):
            continue
        own = {each.name for each in cls.body if isinstance(each, ast.FunctionDef)}
        for decorator in cls.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = ast.unparse(decorator if call is None else call.func)
            if name not in {"attrs.frozen", "attrs.define"}:
                continue
            options = {} if call is None else {each.arg: ast.unparse(each.value) for each in call.keywords}
            # An order is generated, and so is the comparison of mutable instances, which have no hash.
            needed = "order" in options or (name == "attrs.define" and "eq" not in options)
            shared = options.get("eq") == "False" and ("__repr__" in own or options.get("repr") == "False")
            if not needed and not shared:
                yield cls.name


@pytest.mark.parametrize("package", ["mcp-core/src/mcp_core", "mcp-client/src/mcp_client", "mcp-server/src/mcp_server"])
def test_data_classes_use_shared_methods(package: str) -> None:
    files = sorted((ROOT / "packages" / package).rglob("*.py"))
    assert files
    assert [f"{file.name}: {name}" for file in files for name in generated(file.read_text())] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("@attrs.frozen\nclass A: ...", ["A"]),
        ("@attrs.frozen(kw_only=True)\nclass A: ...", ["A"]),
        ("@attrs.frozen(eq=False)\nclass A: ...", ["A"]),
        ("@attrs.define(eq=False)\nclass A: ...", ["A"]),
        ("@attrs.frozen(eq=False, repr=False)\nclass A(FieldValue): ...", []),
        ("@attrs.frozen(eq=False)\nclass A:\n    def __repr__(self): ...", []),
        ("@attrs.frozen(order=True)\nclass A: ...", []),
        ("@attrs.define\nclass A: ...", []),
    ],
)
def test_generated_methods_are_found(source: str, found: list[str]) -> None:
    assert list(generated(source)) == found
