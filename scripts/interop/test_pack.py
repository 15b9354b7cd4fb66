"""Bundles and registry entries of `mcp-server pack`, checked by the official tools of MCP bundles and by the registry's schema.

npm installs the tools of bundles. The schema of the registry, and the rules that it cannot express, are in the distribution
`skillsaw`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from interop.framework.run import install

HERE = Path(__file__).parent
TOOLS = HERE.parents[1] / ".peers" / "mcpb"

SERVER = '''\
from mcp_server import Server

server = Server("weather", version="1.0.0", title="Weather", description="Forecasts for cities.")


@server.tool
def forecast(city: str) -> str:
    """Return the forecast."""
    return f"{city}: sun"


@server.prompt
def trip(city: str) -> str:
    """Plan a trip."""
    return f"Plan 3 days in {city}."
'''

PROJECT = """\
[project]
name = "weather-server"
version = "1.0.0"
authors = [{ name = "Ann Example", email = "ann@example.com" }]
license = "MIT"
keywords = ["weather"]
readme = "README.md"
dependencies = ["trio-mcp-server"]

[project.scripts]
weather-server = "weather:main"

[project.urls]
Homepage = "https://weather.example"
Documentation = "https://weather.example/docs"
Issues = "https://weather.example/issues"
Repository = "https://github.com/ann/weather"
"""

NAME = "io.github.ann/weather"
URL = "https://github.com/ann/weather/releases/download/v1.0.0/weather-server-1.0.0.mcpb"

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def mcpb() -> list[str]:
    """The command of the tools of bundles, which are installed if missing."""
    install("tools of MCP bundles", HERE / "mcpb", TOOLS)
    return ["node", str(TOOLS / "node_modules" / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server, with its bundle and registry entry in `out`."""
    path = tmp_path_factory.mktemp("weather")
    (path / "weather.py").write_text(SERVER)
    (path / "pyproject.toml").write_text(PROJECT)
    (path / "README.md").write_text(f"mcp-name: {NAME}\n")
    picture = HERE.parents[1] / "docs" / "images" / "conformance"
    (path / "icon.png").write_bytes(next(iter(sorted(picture.glob("*.png")))).read_bytes())
    options = ["--env", "API_KEY", "--registry", NAME, "--pypi", "--url", URL, "--output", "out/weather.mcpb"]
    run([sys.executable, "-m", "mcp_server", "pack", "weather.py", *options], path)
    return path


def run(command: list[str], folder: Path) -> str:
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_bundle_is_accepted_by_official_tools(mcpb: list[str], folder: Path, tmp_path: Path) -> None:
    bundle = folder / "out" / "weather.mcpb"
    run([*mcpb, "unpack", str(bundle), str(tmp_path / "unpacked")], tmp_path)
    validated = run([*mcpb, "validate", str(tmp_path / "unpacked")], tmp_path)
    assert "Manifest schema validation passes" in validated
    assert "Icon validation passed" in validated
    info = run([*mcpb, "info", str(bundle)], tmp_path)
    assert "weather.mcpb" in info
    with zipfile.ZipFile(bundle) as packed:
        for name in packed.namelist():
            assert (tmp_path / "unpacked" / name).read_bytes() == packed.read(name)


def test_official_library_derives_command_of_server(mcpb: list[str], folder: Path, tmp_path: Path) -> None:
    # The library of the tools replaces the variables of the manifest, as a host application does.
    with zipfile.ZipFile(folder / "out" / "weather.mcpb") as packed:
        packed.extractall(tmp_path / "bundle")
    program = tmp_path / "derive.mjs"
    library = TOOLS / "node_modules" / "@anthropic-ai" / "mcpb" / "dist" / "index.js"
    program.write_text(f"""
import {{ readFileSync }} from "node:fs";
import {{ getMcpConfigForManifest }} from {json.dumps(str(library))};
const manifest = JSON.parse(readFileSync("bundle/manifest.json", "utf-8"));
const common = {{ manifest, extensionPath: "/bundle", systemDirs: {{}}, pathSeparator: "/" }};
const missing = await getMcpConfigForManifest({{ ...common, userConfig: {{}} }});
const entered = await getMcpConfigForManifest({{ ...common, userConfig: {{ api_key: "k" }} }});
console.log(JSON.stringify({{ missing: missing ?? null, entered }}));
""")
    derived = json.loads(run(["node", str(program)], tmp_path))
    command = {"command": "uv", "args": ["run", "--directory", "/bundle", "main.py"], "env": {"API_KEY": "k"}}
    # The user has to enter the value before the server is started.
    assert derived == {"missing": None, "entered": command}


def test_manifest_with_unknown_member_is_rejected_by_official_tools(
    mcpb: list[str], folder: Path, tmp_path: Path
) -> None:
    # The tools check the manifest that they are given.
    with zipfile.ZipFile(folder / "out" / "weather.mcpb") as packed:
        packed.extractall(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "entry": "main.py"}))
    done = subprocess.run([*mcpb, "validate", str(tmp_path)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
    assert "Manifest validation failed" in done.stdout


def test_registry_entry_is_valid(folder: Path) -> None:
    path = folder / "out" / "server.json"
    entry = json.loads(path.read_text())
    schema = json.loads(
        resources.files("skillsaw").joinpath("schemas/mcp_registry/v2025_12_11/server.schema.json").read_text()
    )
    assert schema["$id"] == entry["$schema"]
    jsonschema.validate(entry, schema, format_checker=jsonschema.FormatChecker())
    digest = hashlib.sha256((folder / "out" / "weather.mcpb").read_bytes()).hexdigest()
    assert [package.get("fileSha256") for package in entry["packages"]] == [None, digest]


@pytest.mark.parametrize("changed", [{}, {"name": "weather"}, {"version": "latest"}])
def test_registry_entry_keeps_rules_of_registry(folder: Path, tmp_path: Path, changed: dict[str, str]) -> None:
    # The rules that a schema cannot express. A changed entry breaks them.
    entry = json.loads((folder / "out" / "server.json").read_text())
    (tmp_path / "server.json").write_text(json.dumps({**entry, **changed}))
    skillsaw = [sys.executable, "-m", "skillsaw", "lint", "--type", "mcp-registry", "--strict", "--no-progress"]
    rules = ["--rule", "mcp-registry-server-json-valid", "--rule", "mcp-registry-version-semver"]
    done = subprocess.run([*skillsaw, *rules, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode != 0) == bool(changed), done.stdout + done.stderr
