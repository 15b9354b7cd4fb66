"""The check of the dependencies between modules.

The tables below are the rules; a finding names the file, the line and the rule.

`circle`     Modules of a package do not import each other in a circle. In the packages of `ACYCLIC` this includes imports
             of all kinds, and folders.
`subpackage` In mcp_core, imports point to lower sub-packages, as listed in `SUBPACKAGES`.
`layer`      In the packages of `LAYERS`, imports point to lower layers.
`arrow`      Packages of this project import each other only as listed in `ARROWS`, and the suite imports nothing
             of `JUDGED`. Tests may import any package.
`pure`       mcp_core imports nothing that does I/O, reads a clock or draws random numbers: only the lists `PURE_...`.
             The sub-packages of `IMPURE` may.
`lazy`       An import inside a function has its reason on its line: `# lazy: reason`.
`fresh`      Importing a package loads no module that `FRESH` lists for it.

There are three kinds of imports. One at the top of a module is subject to all rules. One under `if TYPE_CHECKING:` is
not executed: it cannot close a circle and does no I/O, but it is a dependency of types, so `subpackage`, `layer` and
`arrow` apply. One inside a function is subject
to all rules except `circle`, which it is a legitimate way to break outside of `ACYCLIC`.
"""

from __future__ import annotations

import ast
import enum
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[2]

SOURCES: Final = (
    "packages/mcp-core/src/mcp_core",
    "packages/mcp-client/src/mcp_client",
    "packages/mcp-server/src/mcp_server",
    "conformance/src/mcp_conformance",
)


def _names(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


SUBPACKAGES: Final[Mapping[str, frozenset[str]]] = {
    # The package itself re-exports its modules.
    "": _names(),
    # The base. An error quotes its message.
    "excerpts": _names(),
    "field_methods": _names(),
    "jsonrpc": _names("field_methods"),
    "errors": _names("excerpts field_methods jsonrpc"),
    "limits": _names("errors excerpts field_methods"),
    "revisions": _names("errors excerpts field_methods"),
    "file_signatures": _names("errors excerpts field_methods"),
    # Bytes and messages.
    "json_text": _names("errors excerpts field_methods limits jsonrpc"),
    "codec": _names("errors excerpts field_methods limits jsonrpc json_text"),
    "framing": _names("errors excerpts field_methods limits revisions"),
    "types": _names("errors excerpts field_methods revisions file_signatures jsonrpc"),
    # The table of methods, and the conversion between JSON and the types.
    "methods": _names("errors excerpts field_methods revisions jsonrpc types"),
    "conversion": _names("errors excerpts field_methods limits revisions jsonrpc types methods"),
    "json_schema": _names("errors excerpts field_methods revisions jsonrpc types methods conversion"),
    # Types of the application, which describe arguments, results and forms.
    "schema": _names("errors excerpts field_methods jsonrpc types"),
    # Observation of messages by both sides.
    "middleware": _names("errors excerpts field_methods revisions jsonrpc"),
    "telemetry": _names("errors excerpts field_methods revisions jsonrpc types methods middleware"),
    # Rules of features of both sides.
    "features": _names("errors excerpts field_methods revisions jsonrpc types methods conversion"),
    # HTTP and the engine do not know each other: the I/O layer connects them.
    "http": _names("errors excerpts field_methods limits revisions jsonrpc json_text codec framing types methods"),
    "engine": _names("errors excerpts field_methods limits revisions jsonrpc json_text codec types methods conversion"),
    # Independent. Its documents are JSON.
    "oauth": _names("errors excerpts field_methods limits jsonrpc"),
    # Code on trio for client and server. No other sub-package imports it.
    "trio": _names(
        "errors excerpts field_methods limits revisions jsonrpc types methods middleware telemetry features http oauth"
    ),
}
"""The other sub-packages of mcp_core that each sub-package may import, without a cycle."""

LAYERS: Final[Mapping[str, tuple[frozenset[str], ...]]] = {
    "mcp_client": (
        _names("worker_threads"),
        _names("config deadlines handlers telemetry"),
        _names("connection guards"),
        _names("features transports"),
        _names("client"),
        _names("connectors"),
        _names("apps group recording skills"),
        _names("auth"),
        _names("asyncio blocking cli testing"),
    ),
    "mcp_server": (
        _names("asgi cache_hint errors lazy_names observation stderr_log telemetry tracebacks uris"),
        _names("host options schema stores.clock stores.failures stores.sessions stores.tasks"),
        _names("stores.memory"),
        _names("stores.contract stores.sqlite"),
        # The package itself exports its modules.
        _names("stores"),
        _names("cluster"),
        _names("guards"),
        _names("connection prometheus"),
        _names("lifespan"),
        _names("handlers"),
        _names("features.tasks"),
        _names("features"),
        _names("openapi service"),
        _names("auth transports"),
        _names("server"),
        _names("apps runners skills"),
        _names("auth.authorization_server.model"),
        _names("auth.authorization_server.clients"),
        _names("auth.authorization_server.protocol"),
        _names("auth.authorization_server.pages"),
        _names("auth.authorization_server"),
        # The package itself is what authors import; the command has its version.
        frozenset({""}),
        _names("cli"),
    ),
    "mcp_conformance": (
        # The package itself has its version, and imports nothing.
        frozenset({""}),
        _names("catalogue"),
        _names("model"),
        _names("wire"),
        _names("protocol"),
        _names("oauth_testbed"),
        _names("drivers"),
        _names("drivers.server"),
        _names("drivers.client"),
        _names("scenarios"),
        _names("checks.registry"),
        _names("checks.probes"),
        _names("checks.auth checks.client checks.server"),
        _names("checks.client.tasks checks.server.http checks.server.schema checks.server.tasks"),
        _names("checks"),
        _names("suite"),
        _names("comparison"),
        _names("runners"),
        _names("scoring"),
        _names("reports"),
        _names("reports.html"),
        _names("cli"),
        _names("pytest_plugin"),
    ),
}
"""The layers of other packages, from bottom to top: modules and sub-packages, named below the package; the longest name applies.

A layer does not import its own or a higher layer. The package itself is above all layers, unless it has one.
"""

ACYCLIC: Final = _names("mcp_client mcp_conformance mcp_core mcp_server")
"""Packages in which no import closes a circle of modules or of folders, not even under TYPE_CHECKING or inside a function."""

ARROWS: Final[Mapping[str, frozenset[str]]] = {
    "mcp_core": frozenset(),
    "mcp_client": frozenset({"mcp_core"}),
    "mcp_server": frozenset({"mcp_core"}),
    "mcp_conformance": frozenset({"mcp_core"}),
}

JUDGED: Final = _names("engine conversion http oauth trio")
"""Sub-packages of mcp_core that the conformance suite tests, and therefore does not use."""

IMPURE: Final = _names("trio")
"""Sub-packages of mcp_core that do I/O. Each needs the extra of its name."""

PURE_STANDARD: Final = _names(
    "__future__ abc base64 binascii bisect codecs collections collections.abc contextlib copy decimal enum functools gc",
    "hashlib heapq hmac inspect ipaddress itertools json keyword math operator re reprlib string struct sys types typing unicodedata",
    "urllib.parse weakref",
)
"""Modules of the standard library that mcp_core may import, without their submodules.

`inspect` and `sys` are allowed for reading annotations.
"""

PURE_PACKAGES: Final = _names("attrs orjson")
"""Other packages that mcp_core may import, with their modules."""

PURE_FOR: Final[Mapping[str, frozenset[str]]] = {
    # The classes of values: dates, paths and UUIDs. `threading` for a variable of the thread, `importlib` for pydantic.
    "schema": _names("builtins dataclasses datetime difflib fractions importlib jsonschema_rs pathlib threading uuid"),
}
"""Further modules that one sub-package of mcp_core may import."""

_HEAVY: Final = (
    "authlib", "coredis", "cryptography", "h11", "hypercorn", "jinja2", "joserfc", "jsonschema_rs", "keyring", "prometheus_client", "prompt_toolkit", "quart", "rich", "yaml",
)  # fmt: skip

FRESH: Final[Mapping[str, frozenset[str]]] = {
    "mcp_core": frozenset({"anyio", "asyncio", "mcp_client", "mcp_server", "socket", "ssl", "trio", *_HEAVY}),
    "mcp_client": frozenset({"mcp_server", *_HEAVY}),
    "mcp_server": frozenset(
        {
            "difflib",
            "fractions",
            "mcp_client",
            "mcp_server.runners.http",
            "mcp_server.runners.hypercorn",
            "mcp_server.runners.workers",
            "sqlite3",
            *_HEAVY,
        }
    ),
}
"""Modules that the import of a package must not load in a new interpreter: they are slow, or belong to another package."""

_TYPE_CHECKING: Final = frozenset({"TYPE_CHECKING", "typing.TYPE_CHECKING"})


class Law(enum.Enum):
    """The rules, see the docstring of the module."""

    CIRCLE = "circle"
    SUBPACKAGE = "subpackage"
    LAYER = "layer"
    ARROW = "arrow"
    PURE = "pure"
    LAZY = "lazy"
    FRESH = "fresh"


class Kind(enum.Enum):
    """The kind of an import."""

    TOP = "at the top"
    TYPES = "under TYPE_CHECKING"
    FUNCTION = "inside a function"


@attrs.frozen(order=True)
class Finding:
    """A broken rule."""

    place: str
    """`path:line`, or the imported module."""
    law: Law = attrs.field(order=False)
    """The rule."""
    text: str
    """The problem, and the correction."""

    def __str__(self) -> str:
        return f"{self.place}: {self.law.value}: {self.text}"


@attrs.frozen
class Import:
    """An import statement, for one target."""

    target: str
    """The dotted name of the imported module."""
    line: int
    """The first line of the statement."""
    kind: Kind
    """The kind."""
    excused: bool
    """Whether the line has `# lazy: reason`."""


@attrs.frozen
class Module:
    """A parsed module."""

    name: str
    """Dotted."""
    path: str
    """The path, as shown in findings."""
    imports: tuple[Import, ...]
    """All imports."""


def load(packages: Iterable[Path], root: Path = ROOT) -> dict[str, Module]:
    """Parse all modules of the packages.

    Args:
        packages: Folders of packages, named like the package.
        root: Paths in findings are relative to it.

    Returns:
        The modules by dotted name.
    """
    files = {_dotted(path, package): path for package in packages for path in sorted(package.rglob("*.py"))}
    return {name: _read(name, path, root, frozenset(files)) for name, path in files.items()}


def _dotted(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, path: Path, root: Path, known: frozenset[str]) -> Module:
    text = path.read_text()
    lines = text.splitlines()
    tree = ast.parse(text, str(path))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imports: list[Import] = []
    for node, kind in _walk(tree, Kind.TOP):
        if isinstance(node, ast.Import | ast.ImportFrom):
            end = node.end_lineno or node.lineno
            excused = any(_lazy_reason(line) for line in lines[node.lineno - 1 : end])
            targets = sorted(_targets(node, package, known))
            imports.extend(Import(target, node.lineno, kind, excused) for target in targets)
    return Module(name, path.relative_to(root).as_posix(), tuple(imports))


def _walk(node: ast.AST, kind: Kind) -> Iterator[tuple[ast.AST, Kind]]:
    """Yield all nodes below `node`, each with the kind of an import at this place."""
    for child in ast.iter_child_nodes(node):
        inside = kind
        if isinstance(node, ast.If) and child in node.body and ast.unparse(node.test) in _TYPE_CHECKING:
            inside = Kind.TYPES
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and kind is Kind.TOP:
            inside = Kind.FUNCTION
        yield child, inside
        yield from _walk(child, inside)


def _lazy_reason(line: str) -> bool:
    _, mark, reason = line.partition("# lazy:")
    return bool(mark and reason.strip())


def _targets(node: ast.Import | ast.ImportFrom, package: str, known: frozenset[str]) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    source = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        source = ".".join([*above, *filter(None, [node.module])])
    # `from package import module` imports the module, `from package import name` the package.
    return {submodule if (submodule := f"{source}.{alias.name}") in known else source for alias in node.names}


def check(modules: Mapping[str, Module]) -> list[Finding]:
    """Check the modules with all rules except `fresh`, which needs an interpreter.

    Returns:
        The findings, by place.
    """
    findings = _circles(modules)
    for module in modules.values():
        for imported in module.imports:
            findings.extend(_judge(module, imported))
    return sorted(findings)


def _judge(module: Module, imported: Import) -> Iterator[Finding]:
    place = f"{module.path}:{imported.line}"
    ours, theirs = module.name.partition(".")[0], imported.target.partition(".")[0]
    if imported.kind is Kind.FUNCTION and not imported.excused:
        text = f"imports {imported.target} inside a function; move it to the top, or say why: # lazy: reason"
        yield Finding(place, Law.LAZY, text)
    if theirs in ARROWS:
        if theirs != ours and theirs not in ARROWS[ours]:
            allowed = ", ".join(sorted(ARROWS[ours])) or "no other package of the project"
            yield Finding(place, Law.ARROW, f"{ours} imports {imported.target}; it may import {allowed}")
        elif ours == "mcp_conformance" and theirs == "mcp_core" and _subpackage_of(imported.target) in JUDGED:
            text = f"imports {imported.target}, which the suite tests and must not use"
            yield Finding(place, Law.ARROW, text)
        elif ours == theirs == "mcp_core":
            yield from _judge_subpackage(module.name, imported, place)
        elif ours == theirs and ours in LAYERS:
            yield from _judge_layer(module.name, imported, place)
    elif (
        ours == "mcp_core"
        and imported.kind is not Kind.TYPES
        and _subpackage_of(module.name) not in IMPURE
        and not _is_pure(imported.target)
        and imported.target not in PURE_FOR.get(_subpackage_of(module.name), frozenset())
    ):
        text = f"imports {imported.target}, which is not in the lists of what the core may use"
        yield Finding(place, Law.PURE, text)


def _is_pure(target: str) -> bool:
    return target in PURE_STANDARD or target.partition(".")[0] in PURE_PACKAGES


def _subpackage_of(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def _judge_subpackage(name: str, imported: Import, place: str) -> Iterator[Finding]:
    ours, theirs = _subpackage_of(name), _subpackage_of(imported.target)
    if ours not in SUBPACKAGES:
        yield Finding(
            place, Law.SUBPACKAGE, f"mcp_core.{ours} has no row in SUBPACKAGES; add one with its allowed imports"
        )
        return
    allowed = SUBPACKAGES[ours]
    if theirs != ours and theirs not in allowed:
        text = f"{name} imports {imported.target} {imported.kind.value}; mcp_core.{ours} may import " + (
            ", ".join(sorted(allowed)) or "no other sub-package"
        )
        yield Finding(place, Law.SUBPACKAGE, text)


def _layer_of(name: str) -> tuple[str, int] | None:
    """Return the part of its package that a module belongs to, and its layer, or `None` without a layer."""
    package, _, part = name.partition(".")
    layers = LAYERS[package]
    if part == "__main__" or (not part and frozenset({""}) not in layers):
        return "", len(layers)
    if not part:
        return "", layers.index(frozenset({""}))
    while part:
        for height, layer in enumerate(layers):
            if part in layer:
                return part, height
        part = part.rpartition(".")[0]
    return None


def _judge_layer(name: str, imported: Import, place: str) -> Iterator[Finding]:
    ours, theirs = _layer_of(name), _layer_of(imported.target)
    if ours is None or theirs is None:
        unknown = name if ours is None else imported.target
        yield Finding(place, Law.LAYER, f"{unknown} is in no layer of LAYERS; add it to one")
    elif ours[0] != theirs[0] and theirs[1] >= ours[1]:
        text = f"{name} imports {imported.target} {imported.kind.value}, which is not in a layer below"
        yield Finding(place, Law.LAYER, text)


def _edges(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return the imports that must not form a circle: of each module, and of each folder of `ACYCLIC` beside others."""
    edges: dict[str, set[str]] = {name: set() for name in modules}
    for name, module in modules.items():
        acyclic = name.partition(".")[0] in ACYCLIC
        for target in {found.target for found in module.imports if acyclic or found.kind is Kind.TOP} & set(modules):
            edges[name].add(target)
            ours, theirs = name.split("."), target.split(".")
            common = next((n for n, (our, their) in enumerate(zip(ours, theirs, strict=False)) if our != their), None)
            if acyclic and common is not None and (folder := ".".join(ours[: common + 1])) in modules:
                edges[folder].add(".".join(theirs[: common + 1]))
    return edges


def _circles(modules: Mapping[str, Module]) -> list[Finding]:
    """Return a finding for each circle of imports."""
    edges = _edges(modules)
    findings: list[Finding] = []
    finished: set[str] = set()

    def visit(name: str, path: Sequence[str]) -> None:
        if name in path:
            circle = " -> ".join([*path[path.index(name) :], name])
            findings.append(Finding(f"{modules[path[-1]].path}:1", Law.CIRCLE, circle))
        elif name not in finished:
            for target in sorted(edges.get(name, ())):
                visit(target, [*path, name])
            finished.add(name)

    for name in edges:
        visit(name, [])
    return findings


def check_fresh(imports: Sequence[str], forbidden: Iterable[str]) -> list[Finding]:
    """Import modules in a new interpreter and check the loaded modules.

    Args:
        imports: The modules to import; the first names the place of the findings.
        forbidden: Modules that must not be loaded.

    Returns:
        A finding for each forbidden module, or one with the error of the import.
    """
    place = f"import {imports[0]}"
    # -P: do not import from the current folder.
    command = [sys.executable, "-P", "-c", f"import sys, {', '.join(imports)}; print(*sys.modules)"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        return [Finding(place, Law.FRESH, f"fails: {run.stderr.strip().rpartition(chr(10))[2]}")]
    loaded = set(run.stdout.split())
    return [
        Finding(place, Law.FRESH, f"loads {name}; import it where it is used, with # lazy: reason")
        for name in sorted(loaded & set(forbidden))
    ]


def main() -> int:
    """Check the project, print the findings and return the exit status."""
    modules = load(ROOT / source for source in SOURCES)
    findings = check(modules)
    for package, forbidden in FRESH.items():
        # Each module of the core that needs no extra is an entry point.
        inside = [name for name in modules if name.startswith("mcp_core.") and _subpackage_of(name) not in IMPURE]
        findings += check_fresh([package, *(inside if package == "mcp_core" else ())], forbidden)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
