"""The check that public names are exported.

exported    Each public name that a public module defines is in its `__all__`; the `__init__` of a package also lists
            the names that it imports from the private modules of the package.
defined     Each name in `__all__` exists.

The build of the documentation site checks that the reference describes each of them.

`MODULES` lists the checked packages, `PUBLIC` their public modules. The sources are parsed, not imported.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["MODULES", "PUBLIC", "Face", "check_exported", "is_public", "load", "main"]

ROOT: Final = Path(__file__).resolve().parents[2]

MODULES: Final = {
    "mcp_core": "packages/mcp-core/src/mcp_core",
    "mcp_client": "packages/mcp-client/src/mcp_client",
    "mcp_server": "packages/mcp-server/src/mcp_server",
    "mcp_conformance": "conformance/src/mcp_conformance",
}
"""The packages, with their folders."""


def _modules(package: str, *lines: str) -> frozenset[str]:
    """Return the names of a package and of modules in it."""
    return frozenset([package, *(f"{package}.{name}" for line in lines for name in line.split())])


PUBLIC: Final[Mapping[str, frozenset[str]]] = {
    "mcp_core": _modules(
        "mcp_core",
        "codec errors excerpts file_signatures json_schema json_text middleware revisions telemetry",
        "conversion conversion.converter conversion.wire_types",
        "engine engine.batch engine.capabilities engine.client engine.connection engine.events",
        "engine.lifecycle engine.mrtr engine.negotiation engine.request_meta engine.results engine.server",
        "engine.subscription_index engine.subscriptions",
        "features features.apps features.elicitation features.meta features.sampling features.skills features.tasks",
        "framing framing.lines framing.sse",
        "http http.client http.endpoint_policy http.event_log http.failures http.fallback",
        "http.header_parameters http.media_types http.messages http.origin",
        "http.routing_headers http.server http.sessions",
        "http.sse_2024 http.statuses",
        "jsonrpc jsonrpc.messages",
        "limits limits.memory_budget limits.rates",
        "methods",
        "oauth oauth.access_token oauth.addresses oauth.assertions oauth.authorization_endpoint oauth.challenge",
        "oauth.client_metadata oauth.discovery oauth.dpop oauth.dpop_verification oauth.flow oauth.grants oauth.jws",
        "oauth.metadata oauth.pkce oauth.principal oauth.protected_resource oauth.records oauth.registration",
        "oauth.scopes oauth.settings oauth.signatures oauth.steps oauth.token_endpoint oauth.token_presentation",
        "oauth.tokens oauth.urls",
        "types types.apps types.completion types.content types.elicitation types.input_required types.lifecycle",
        "types.logging types.meta types.notifications types.prompts types.resources types.roots types.sampling",
        "types.skills types.subscriptions types.tasks types.tools",
    ),
    "mcp_client": _modules(
        "mcp_client",
        "apps asyncio auth blocking blocking.group auth.keys auth.stores auth.stores.contract auth.user_agents group guards handlers recording skills telemetry testing",
        "testing.transport_contract transports",
    ),
    "mcp_server": frozenset(
        {
            "mcp_server",
            "mcp_server.apps",
            "mcp_server.auth",
            "mcp_server.auth.authorization_server",
            "mcp_server.auth.resource_server",
            "mcp_server.cluster",
            "mcp_server.cluster.contract",
            "mcp_server.cluster.memory",
            "mcp_server.cluster.messages",
            "mcp_server.cluster.redis",
            "mcp_server.errors",
            "mcp_server.features",
            "mcp_server.guards",
            "mcp_server.handlers",
            "mcp_server.openapi",
            "mcp_server.runners",
            "mcp_server.skills",
            "mcp_server.stores",
            "mcp_server.stores.contract",
            "mcp_server.telemetry",
            "mcp_server.transports",
        }
    ),
    "mcp_conformance": frozenset({"mcp_conformance", "mcp_conformance.pytest_plugin"}),
}
"""The public modules of a package. In a package that is not listed: those with no leading underscore in their names."""


def is_public(module: str) -> bool:
    """Return whether a module is public.

    Args:
        module: Its dotted name.
    """
    listed = PUBLIC.get(module.partition(".")[0])
    if listed is None:
        return not any(part.startswith("_") for part in module.split("."))
    return module in listed


@attrs.frozen
class Face:
    """The names of a public module."""

    module: str
    """The dotted name."""
    path: str
    """The file, as shown in findings."""
    exported: tuple[str, ...] | None
    """`__all__`, or `None` without one."""
    defined: frozenset[str]
    """Public names that the module defines; in a package also those imported from its private modules."""
    bound: frozenset[str]
    """All top-level names."""


def load(packages: Mapping[str, Path], root: Path) -> list[Face]:
    """Parse the public modules of the packages.

    Args:
        packages: Folders by package name.
        root: Paths in findings are relative to it.
    """
    faces: list[Face] = []
    for package, folder in packages.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            if parts[-1] == "__init__":
                parts.pop()
            if is_public(".".join(parts)):
                faces.append(_face(".".join(parts), path, root))
    return faces


def _face(module: str, path: Path, root: Path) -> Face:
    exported: tuple[str, ...] | None = None
    defined: set[str] = set()
    sources: dict[str, str] = {}
    body = ast.parse(path.read_text(), str(path)).body
    statements = [*_statements(body)]
    if any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in body):
        # It imports names at their first use. Type checkers find them under `if TYPE_CHECKING:`.
        statements += [line for node in body if isinstance(node, ast.If) for line in node.body]
    for node in statements:
        names = set(_names(node))
        if "__all__" in names and isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value:
            exported = (*(exported or ()), *ast.literal_eval(node.value))
        if isinstance(node, ast.ImportFrom):
            sources.update({alias.asname or alias.name: node.module or "" for alias in node.names})
        elif not isinstance(node, ast.Import):
            defined |= names
    if path.name == "__init__.py":
        defined |= {name for name, source in sources.items() if _is_private_part(source, module)}
    public = frozenset(name for name in defined if not name.startswith("_"))
    return Face(module, path.relative_to(root).as_posix(), exported, public, frozenset(defined | set(sources)))


def _is_private_part(source: str, package: str) -> bool:
    """Return whether a module is in a package, and neither public nor below a public module of the package."""
    if not source.startswith(f"{package}."):
        return False
    while source != package:
        if is_public(source):
            return False
        source = source.rpartition(".")[0]
    return True


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, also those under `try`, `if` and `with`, except those for type checkers only."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _statements([*node.body, *node.orelse])
        elif isinstance(node, ast.With):
            yield from _statements(node.body)
        elif isinstance(node, ast.Try):
            yield from _statements(
                [*node.body, *(line for handler in node.handlers for line in handler.body), *node.orelse]
            )


def _names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        if not any(_registers(decorator) for decorator in node.decorator_list):
            yield node.name
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        yield from _bound(node.target)
    elif isinstance(node, ast.Assign) and not _is_type_variable(node.value):
        for target in node.targets:
            yield from _bound(target)


def _registers(decorator: ast.expr) -> bool:
    """Return whether a decorator registers a function in a table: such a function is not imported."""
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "check"


def _is_type_variable(value: ast.expr) -> bool:
    # Signatures show type variables, but other modules do not import them.
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in {
        "ParamSpec",
        "TypeVar",
        "TypeVarTuple",
    }


def _bound(target: ast.expr) -> Iterator[str]:
    # An assignment to an attribute or item binds no name.
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple):
        for element in target.elts:
            yield from _bound(element)


def check_exported(faces: Iterable[Face]) -> list[str]:
    """Compare `__all__` with the defined names.

    Returns:
        One sentence for each difference.
    """
    found: list[str] = []
    for face in faces:
        if face.exported is None:
            if face.defined:
                found.append(f"{face.path}: defines {', '.join(sorted(face.defined))}, but has no __all__")
            continue
        exported = set(face.exported)
        twice = {name for name in exported if face.exported.count(name) > 1}
        for names, text in (
            (face.defined - exported, "is public and not in __all__; add it, or begin its name with an underscore"),
            (exported - face.bound, "is in __all__ and not there"),
            (twice, "is in __all__ twice"),
        ):
            found.extend(f"{face.path}: {name} {text}" for name in sorted(names))
    return found


def main() -> int:
    """Check the project, print the findings and return the exit status."""
    faces = load({package: ROOT / folder for package, folder in MODULES.items()}, ROOT)
    found = check_exported(faces)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
