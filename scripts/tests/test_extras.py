"""Optional dependencies: each one belongs to an extra, and a missing one is reported with the command to type."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.exports import MODULES, PUBLIC
from environment import DISTRIBUTIONS, ROOT

NAMES = {
    "jinja2": "jinja2",
    "jsonschema_rs": "jsonschema-rs",
    "opentelemetry": "opentelemetry-api",
    "prometheus_client": "prometheus-client",
    "prompt_toolkit": "prompt-toolkit",
    "quart": "quart-trio",
    "quart_trio": "quart-trio",
    "werkzeug": "quart-trio",
    "yaml": "pyyaml",
}
"""The distribution of a package whose import name differs from it, or that another distribution requires."""

SOURCES = {folder.partition("/src/")[0]: folder for folder in MODULES.values()}
"""The sources of each distribution, by its folder."""

PUBLIC_MODULES = sorted(module for modules in PUBLIC.values() for module in modules)

BLOCKED = """
import importlib.util, sys
blocked = set(sys.argv[2].split(","))
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.partition(".")[0] in blocked else find_spec(name, package)
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
sys.meta_path.insert(0, Blocker())
try:
    importlib.import_module(sys.argv[1])
except ModuleNotFoundError as error:
    print(type(error).__name__, error)
"""


def _project(path: str) -> dict[str, object]:
    project: dict[str, object] = tomllib.loads((ROOT / path / "pyproject.toml").read_text())["project"]
    return project


def _name(requirement: str) -> str:
    return re.split(r"[\s<>=!~;\[]", requirement)[0]


def _required(path: str) -> set[str]:
    """Return the distributions that a distribution requires, and those that its extra of the core requires."""
    dependencies = _project(path)["dependencies"]
    assert isinstance(dependencies, list)
    found = {_name(each) for each in dependencies}
    if "trio-mcp-core" in found:
        found |= _required("packages/mcp-core")
    if "trio-mcp-core[trio]==0.1.0" in dependencies:
        found |= _extras("packages/mcp-core")["trio"]
    return found


def _extras(path: str) -> dict[str, set[str]]:
    extras = _project(path).get("optional-dependencies", {})
    assert isinstance(extras, dict)
    return {name: {_name(each) for each in requirements} for name, requirements in extras.items()}


def _imports(path: Path) -> Iterator[str]:
    """Yield the third-party packages that a module imports at run time."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for each in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module]
        for name in names:
            package = name.partition(".")[0]
            if package not in sys.stdlib_module_names and not package.startswith("mcp_"):
                yield package


@pytest.mark.parametrize("path", DISTRIBUTIONS)
def test_imported_packages_declared(path: str) -> None:
    declared = _required(path).union(*_extras(path).values())
    for module in (ROOT / path / "src").rglob("*.py"):
        for package in _imports(module):
            assert NAMES.get(package, package) in declared, (module, package)


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_public_module_without_extras_is_importable_or_names_extra(module: str) -> None:
    path = next(path for path, folder in SOURCES.items() if (ROOT / folder).name == module.partition(".")[0])
    optional = set().union(*(_extras(each)[name] for each in DISTRIBUTIONS for name in _extras(each)))
    missing = {name for name in optional - _required(path) if not name.startswith("trio-mcp-")}
    packages = missing | {package for package, name in NAMES.items() if name in missing}
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, module, ",".join(packages)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" or re.fullmatch(
        r"MissingExtra \w+ is not installed; type: pip install 'trio-mcp-(core|client|server)\[[\w-]+\]'\n", done.stdout
    ), done.stdout
    if done.stdout:
        extra = re.findall(r"trio-mcp-(\w+)\[([\w-]+)\]", done.stdout)[0]
        assert extra[1] in _extras(f"packages/mcp-{extra[0]}")
