"""The run of `mcp-server pack`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcp_server.cli.pack.bundle import bundle_files
from mcp_server.cli.pack.errors import PackError
from mcp_server.cli.pack.files import archive, check_secrets, collect
from mcp_server.cli.pack.identity import identify
from mcp_server.cli.pack.project import read_project
from mcp_server.cli.pack.registry import check_registry_name, mcpb_package, pypi_package, server_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.server import Server

__all__ = ["check_options", "pack"]

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_options(given: argparse.Namespace) -> None:
    """Check the options, before the server is loaded.

    Raises:
        PackError: An option cannot be used.
    """
    for variable in given.env:
        if not _VARIABLE.fullmatch(variable):
            # The text may have a value, which is a secret.
            raise PackError("--env needs the name of a variable only: the user of the bundle enters the value")
    if len({variable.lower() for variable in given.env}) < len(given.env):
        raise PackError("--env names a variable twice, if case is ignored")
    if given.output is not None and not given.output.endswith(".mcpb"):
        raise PackError(f"--output {given.output} must end in .mcpb, by which host applications recognize a bundle")
    if given.registry is None and (given.url is not None or given.pypi):
        raise PackError("--url and --pypi are for server.json; give --registry NAME")
    if given.registry is not None:
        check_registry_name(given.registry)
        if given.url is None and not given.pypi:
            raise PackError("--registry needs --url URL for the bundle, --pypi for the package, or both")


def pack(given: argparse.Namespace, server: Server, place: str, name: str, secrets: Mapping[str, str]) -> int:
    """Write the bundle, and `server.json` if wanted, and print what was packed.

    Args:
        given: The parsed options.
        server: The server, which was loaded from the target.
        place: The file or the module of the server.
        name: The name of the server there.
        secrets: Values of variables that no packed file may contain.

    Returns:
        The exit status, 0.

    Raises:
        PackError: The server cannot be packed.
    """
    script = Path(os.path.abspath(place)) if place.endswith(".py") else None
    start = _package(place) if script is None else script.parent
    folder = start.parent if script is None else start
    entry = place if script is None else script.name
    project = read_project(folder, script)
    identity = identify(project, server)
    collected = collect(folder, [start])
    if script is not None and entry not in collected.files:
        raise PackError(f"{place} is not packed ({collected.skipped.get(entry)}); rename it, or change .mcpbignore")
    files = bundle_files(
        identity=identity,
        project=project,
        server=server,
        files=collected.files,
        entry=entry,
        name=name,
        variables=given.env,
        icon=_icon(folder, project.file.parent),
    )
    check_secrets(files, secrets)
    content = archive(files)
    digest = hashlib.sha256(content).hexdigest()
    output = Path(given.output or f"{identity.name}-{identity.version}.mcpb")
    written = {output: content}
    if given.registry is not None:
        packages: list[JsonObject] = []
        if given.pypi:
            packages.append(pypi_package(given.registry, identity, project, given.env))
        if given.url is not None:
            packages.append(mcpb_package(given.url, identity, digest))
        document = server_json(given.registry, identity, project, packages)
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        written[output.parent / "server.json"] = text.encode()
    for path, data in written.items():
        _write(path, data)
    for member, data in sorted(files.items()):
        print(f"packed {member} ({len(data)} bytes)")
    for member, reason in collected.skipped.items():
        print(f"not packed {member} ({reason})")
    print(f"wrote {output}: {len(files)} files, {len(content)} bytes, SHA-256 {digest}")
    for path in list(written)[1:]:
        print(f"wrote {path}")
    return 0


def _package(module: str) -> Path:
    """Return the folder of a package, or the file of a module, in the current directory or its folder `src`."""
    top = module.partition(".")[0]
    loaded = sys.modules[top]
    folders = list(getattr(loaded, "__path__", ()))
    path = Path(folders[0] if folders else loaded.__file__ or "")
    if path.parent not in {Path.cwd(), Path.cwd() / "src"}:
        raise PackError(
            f"the module {top!r} is not in {Path.cwd()} or its folder src, but in {path.parent}; change to the folder of its"
            " project"
        )
    return path


def _icon(*folders: Path) -> bytes | None:
    for folder in folders:
        file = folder / "icon.png"
        if file.is_file():
            try:
                return file.read_bytes()
            except OSError as error:
                raise PackError(f"cannot read {file}: {error.strerror}") from error
    return None


def _write(path: Path, content: bytes) -> None:
    """Replace a file in one step."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise PackError(f"cannot write {path}: {error.strerror}") from error
