"""Tests of names whose modules are imported at their first use."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import mcp_server
from mcp_server import runners, stores
from mcp_server.lazy_names import import_on_use

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with the name `late` of a module that counts its imports."""
    (tmp_path / "late_module.py").write_text("import sys\nsys.modules['early'].imports += 1\nlate = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = ModuleType("early")
    monkeypatch.setitem(sys.modules, "early", package)
    monkeypatch.delitem(sys.modules, "late_module", raising=False)
    vars(package).update(imports=0)
    vars(package)["__getattr__"] = lambda name: import_on_use("early", name, {"late": "late_module"})
    return package


def test_name_imports_its_module_at_first_use(package: ModuleType) -> None:
    assert package.imports == 0
    first = package.late
    assert package.late is first
    assert package.imports == 1


def test_unknown_name_is_attribute_error_with_the_name(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"module 'early' has no attribute 'latest'") as caught:
        _ = package.latest
    assert (caught.value.name, caught.value.obj) == ("latest", package)


@pytest.mark.parametrize("package", [mcp_server, runners, stores], ids=lambda package: str(package.__name__))
def test_package_has_all_its_names(package: ModuleType) -> None:
    exported: list[str] = package.__all__
    assert {name for name in exported if not hasattr(package, name)} == set()
    assert set(exported) <= {*dir(package)}
