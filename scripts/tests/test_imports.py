from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest

from checks.imports import (
    ACYCLIC,
    ARROWS,
    LAYERS,
    ROOT,
    SOURCES,
    SUBPACKAGES,
    Finding,
    Law,
    check,
    check_fresh,
    load,
)


def findings(tmp_path: Path, files: dict[str, str]) -> list[Finding]:
    """Return the findings in a tree of files. The first folders of the paths are the packages."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    packages = sorted({tmp_path / name.partition("/")[0] for name in files})
    return check(load(packages, root=tmp_path))


def laws(found: Iterable[Finding]) -> list[tuple[str, Law]]:
    return [(finding.place, finding.law) for finding in found]


def test_clean_tree_has_no_findings(tmp_path: Path) -> None:
    tree = {
        "mcp_core/__init__.py": "",
        "mcp_core/errors.py": "import enum\nfrom collections.abc import Mapping\nimport attrs\n",
        "mcp_core/codec.py": "import orjson\nfrom mcp_core.errors import McpError\n",
        "mcp_core/conversion/converter.py": "from orjson import loads\nfrom mcp_core.jsonrpc import messages\n",
        "mcp_client/__init__.py": "import trio, socket\nfrom mcp_core.conversion.converter import converter\n",
    }
    assert findings(tmp_path, tree) == []


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("errors", "from mcp_core.revisions import Revision"),
        ("errors", "from mcp_core.codec import decode"),
        ("codec", "from mcp_core import methods"),
        ("codec", "from mcp_core.framing.lines import Lines"),
        ("types/tools", "import mcp_core.conversion.converter"),
        ("methods", "from mcp_core.conversion.converter import converter"),
        ("conversion/converter", "from mcp_core.http import routing_headers"),
        ("http/server", "from mcp_core.engine.server import ServerConnection"),
        ("engine/server", "from mcp_core.http.server import ServerExchange"),
        ("engine/server", "from mcp_core.framing import lines"),
        ("oauth/flow", "from mcp_core.http import routing_headers"),
        ("jsonrpc/messages", "from mcp_core.errors import McpError"),
        ("oauth/flow", "from ..http import routing_headers"),
        ("errors", "import mcp_core"),
        ("oauth/flow", "from mcp_core.trio import nursery"),
        ("http/server", "from mcp_core.trio.writer import CoalescingWriter"),
    ],
)
def test_upward_import_in_core_found(tmp_path: Path, importer: str, statement: str) -> None:
    tree = {f"mcp_core/{part}/__init__.py": "" for part in SUBPACKAGES if part not in ("", importer.partition("/")[0])}
    found = findings(tmp_path, tree | {f"mcp_core/{importer}.py": f"\n{statement}\n"})
    assert laws(found) == [(f"mcp_core/{importer}.py:2", Law.SUBPACKAGE)]


def test_upward_import_for_annotations_found(tmp_path: Path) -> None:
    text = """\
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from mcp_core.engine.server import ServerConnection
        """
    assert laws(findings(tmp_path, {"mcp_core/methods.py": text})) == [("mcp_core/methods.py:3", Law.SUBPACKAGE)]


@pytest.mark.parametrize("part", ["errors", "oauth"])
def test_errors_and_oauth_may_import_messages_for_annotations(tmp_path: Path, part: str) -> None:
    text = """\
        import typing
        if typing.TYPE_CHECKING:
            from mcp_core.jsonrpc.messages import JsonObject
        """
    assert findings(tmp_path, {f"mcp_core/{part}.py": text}) == []


def test_core_module_without_row_found(tmp_path: Path) -> None:
    found = findings(tmp_path, {"mcp_core/attic.py": "from mcp_core.errors import McpError\n"})
    assert laws(found) == [("mcp_core/attic.py:1", Law.SUBPACKAGE)]
    assert "no row in SUBPACKAGES" in found[0].text


LAYER_EDGES = [
    ("mcp_client/connection/channel.py", "from mcp_client.transports.http.transport import HttpTransport"),
    ("mcp_client/features/tasks.py", "from mcp_client.transports import stdio"),
    ("mcp_client/cli/main.py", "import mcp_client"),
    ("mcp_client/attic.py", "from mcp_client.deadlines import Deadlines"),
]


@pytest.mark.parametrize(("importer", "statement"), LAYER_EDGES)
def test_import_of_higher_or_same_layer_found(tmp_path: Path, importer: str, statement: str) -> None:
    known = ("transports", "transports/stdio", "transports/http")
    tree = {f"mcp_client/{package}/__init__.py": "" for package in known} | {
        "mcp_client/__init__.py": "",
        importer: f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {statement}\n",
    }
    assert laws(findings(tmp_path, tree)) == [(f"{importer}:3", Law.LAYER)]


def test_import_of_lower_layer_or_same_part_accepted(tmp_path: Path) -> None:
    tree = {
        "mcp_client/__init__.py": "from mcp_client.client import Client\n",
        "mcp_client/client.py": "from mcp_client.features.tasks import TaskHandle\n",
        "mcp_client/features/tasks.py": "from mcp_client.features.requests import Requests\n",
    }
    assert findings(tmp_path, tree) == []


@pytest.mark.parametrize("package", LAYERS)
def test_package_parts_have_one_layer(package: str) -> None:
    (source,) = (ROOT / source for source in SOURCES if Path(source).name == package)
    existing = {
        path.name.removesuffix(".py") for path in source.iterdir() if not path.name.startswith(("__", "py.typed"))
    }
    named = [part.partition(".")[0] for layer in LAYERS[package] for part in layer]
    assert set(named) - {""} == existing
    assert len({part for layer in LAYERS[package] for part in layer}) == sum(map(len, LAYERS[package]))


def test_rooms_have_no_cycle() -> None:
    def visit(part: str, path: tuple[str, ...]) -> None:
        assert part not in path, path
        for below in SUBPACKAGES[part]:
            visit(below, (*path, part))

    for part in SUBPACKAGES:
        visit(part, ())


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        (importer, imported)
        for importer in ARROWS
        for imported in ARROWS
        if imported not in {importer, *ARROWS[importer]}
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "import {0}\n",
        "def use() -> None:\n    from {0}.link import Link  # lazy: heavy\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from {0} import Link\n",
    ],
)
def test_import_between_unrelated_packages_found(tmp_path: Path, importer: str, imported: str, text: str) -> None:
    found = findings(tmp_path, {f"{importer}/errors.py": text.format(imported)})
    assert [finding.law for finding in found] == [Law.ARROW]


@pytest.mark.parametrize("part", ["engine.client", "http.sessions", "oauth", "conversion.converter", "trio.nursery"])
def test_conformance_suite_import_of_tested_code_found(tmp_path: Path, part: str) -> None:
    files = {f"mcp_core/{part.replace('.', '/')}.py": "", "mcp_conformance/oracle.py": f"import mcp_core.{part}\n"}
    assert [finding.law for finding in findings(tmp_path, files)] == [Law.ARROW]


def test_conformance_suite_may_import_names(tmp_path: Path) -> None:
    files = {"mcp_core/revisions.py": "", "mcp_conformance/oracle.py": "import mcp_core.revisions\n"}
    assert findings(tmp_path, files) == []


@pytest.mark.parametrize(
    "module",
    [
        "trio",
        "anyio",
        "asyncio",
        "socket",
        "ssl",
        "subprocess",
        "threading",
        "time",
        "datetime",
        "logging",
        "random",
        "secrets",
        "os",
        "io",
        "pathlib",
        "urllib",
        "urllib.request",
        "importlib",
        "concurrent.futures",
        "jsonschema_rs",
    ],
)
@pytest.mark.parametrize(
    "statement", ["import {0}", "from {0} import something", "def f() -> None:\n    import {0}  # lazy: x"]
)
def test_import_with_side_effects_in_core_found(tmp_path: Path, module: str, statement: str) -> None:
    found = findings(tmp_path, {"mcp_core/errors.py": statement.format(module) + "\n"})
    assert [finding.law for finding in found] == [Law.PURE]


def test_trio_part_of_core_may_have_side_effects(tmp_path: Path) -> None:
    tree = {"mcp_core/errors.py": "", "mcp_core/trio/nursery.py": "import time\nimport trio\nimport mcp_core.errors\n"}
    assert findings(tmp_path, tree) == []


def test_import_for_annotations_is_pure(tmp_path: Path) -> None:
    text = """\
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from datetime import datetime
        """
    assert findings(tmp_path, {"mcp_core/errors.py": text}) == []


def test_import_cycle_found_once_and_shown(tmp_path: Path) -> None:
    tree = {
        "mcp_client/connection/a.py": "from mcp_client.connection.b import B\n",
        "mcp_client/connection/b.py": "from mcp_client.connection import c\n",
        "mcp_client/connection/c.py": "import mcp_client.connection.a\n",
        "mcp_client/connection/d.py": "import mcp_client.connection.a\n",
    }
    found = findings(tmp_path, tree)
    assert [finding.law for finding in found] == [Law.CIRCLE]
    assert found[0].text == " -> ".join(f"mcp_client.connection.{name}" for name in "abca")


def test_import_of_own_package_is_cycle(tmp_path: Path) -> None:
    tree = {
        "mcp_core/__init__.py": "from mcp_core.errors import McpError\n",
        "mcp_core/errors.py": "from mcp_core import __version__\n",
    }
    assert Law.CIRCLE in {finding.law for finding in findings(tmp_path, tree)}


def test_deferred_imports_form_no_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checks.imports.ACYCLIC", frozenset[str]())
    tree = {
        "mcp_conformance/suite/a.py": "from mcp_conformance.suite.b import B\n",
        "mcp_conformance/suite/b.py": """\
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from mcp_conformance.suite.a import A
            def use() -> None:
                from mcp_conformance.suite.a import A  # lazy: b is needed to make an A
            """,
    }
    assert findings(tmp_path, tree) == []


@pytest.mark.parametrize("package", sorted(ACYCLIC))
@pytest.mark.parametrize(
    "text",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from {0}.cli.a import A\n",
        "def use() -> None:\n    from {0}.cli.a import A  # lazy: b is needed to make an A\n",
    ],
)
def test_cycle_of_deferred_imports_found_in_acyclic_package(tmp_path: Path, package: str, text: str) -> None:
    tree = {f"{package}/cli/a.py": f"from {package}.cli.b import B\n", f"{package}/cli/b.py": text.format(package)}
    circles = [finding for finding in findings(tmp_path, tree) if finding.law is Law.CIRCLE]
    assert [finding.text for finding in circles] == [f"{package}.cli.a -> {package}.cli.b -> {package}.cli.a"]


@pytest.mark.parametrize("package", sorted(ACYCLIC))
def test_cycle_of_folders_found_in_acyclic_package(tmp_path: Path, package: str) -> None:
    tree = {
        f"{package}/cli/a/__init__.py": "",
        f"{package}/cli/a/x.py": f"from {package}.cli.b import y\n",
        f"{package}/cli/a/z.py": "",
        f"{package}/cli/b/__init__.py": "",
        f"{package}/cli/b/y.py": f"from {package}.cli.a import z\n",
    }
    circles = [finding for finding in findings(tmp_path, tree) if finding.law is Law.CIRCLE]
    assert [finding.text for finding in circles] == [f"{package}.cli.a -> {package}.cli.b -> {package}.cli.a"]


@pytest.mark.parametrize("comment", ["", "  # lazy", "  # lazy:", "  # lazy: ", "  # noqa: PLC0415"])
def test_lazy_import_without_reason_found(tmp_path: Path, comment: str) -> None:
    text = f"class Link:\n    async def open(self) -> None:\n        if self:\n            import ssl{comment}\n"
    assert laws(findings(tmp_path, {"mcp_client/connection/channel.py": text})) == [
        ("mcp_client/connection/channel.py:4", Law.LAZY)
    ]


def test_lazy_import_reason_on_any_line_accepted(tmp_path: Path) -> None:
    text = "def f() -> None:\n    from ssl import (  # lazy: only for https\n        SSLContext,\n    )\n"
    assert findings(tmp_path, {"mcp_client/connection/channel.py": text}) == []


def test_module_loaded_by_import_found_in_fresh_interpreter() -> None:
    assert [finding.text.partition(";")[0] for finding in check_fresh(["json"], ["json.decoder", "trio"])] == [
        "loads json.decoder"
    ]
    assert check_fresh(["json"], ["trio"]) == []


def test_package_that_cannot_be_imported_found() -> None:
    (finding,) = check_fresh(["no_such_package"], [])
    assert (
        str(finding) == "import no_such_package: fresh: fails: ModuleNotFoundError: No module named 'no_such_package'"
    )


def test_sources_of_all_packages_checked() -> None:
    assert [Path(source).name for source in SOURCES] == list(ARROWS)
    patterns = ("packages/*/src/*", "conformance/src/*")
    existing = {path for pattern in patterns for path in ROOT.glob(pattern) if path.name != "__pycache__"}
    # The pytest plugin is above all packages: it may import the server, and no package imports it.
    existing.remove(ROOT / "packages/mcp-client/src/mcp_client_pytest.py")
    assert existing == {ROOT / source for source in SOURCES}
