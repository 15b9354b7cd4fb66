"""The command `mcp-server pack`, run as a process, and the start of a server from its bundle."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from mcp_client import Deadlines, open_stdio
from mcp_core.types import TextContent
from mcp_server.cli.pack import files as pack_files
from mcp_server.cli.pack.errors import PackError

ROOT = Path(__file__).resolve().parents[3]

SERVER = '''\
import os

import mcp_server
from mcp_server import Server

import units

server = Server("weather", version="1.0.0", title="Weather", description="Forecasts for cities.")
KEY = os.environ["API_KEY"]


@server.tool
def forecast(city: str) -> str:
    """Return the forecast."""
    return f"{city}: {units.WARM}, {os.environ['API_KEY']}, {mcp_server.__file__}"


@server.tool
def report() -> str:
    return "sent"


@server.prompt
def trip(city: str, days: str = "3") -> str:
    """Plan a trip."""
    return f"Plan {days} days in {city}."
'''

PROJECT = """\
[project]
name = "weather-server"
version = "2.0.0"
authors = [{ email = "team@example.com" }, { name = "Ann Example", email = "ann@example.com" }]
license = "MIT"
keywords = ["weather"]
readme = "README.md"
requires-python = ">=3.10"
dependencies = ["httpx>=0.28", "trio_mcp_server[auth]"]

[project.scripts]
weather-server = "weather:main"

[project.urls]
Homepage = "https://weather.example"
Documentation = "https://weather.example/docs"
Issues = "https://weather.example/issues"
Repository = "https://github.com/ann/weather"
"""

PNG = b"\x89PNG\r\n\x1a\n and more"
SECRET = "sk-0123456789"
NAME = "io.github.ann/weather"
URL = "https://github.com/ann/weather/releases/download/v2.0.0/weather.mcpb"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a server with a module, metadata and a README."""
    path = tmp_path / "weather"
    path.mkdir()
    (path / "weather.py").write_text(SERVER)
    (path / "units.py").write_text('WARM = "warm"\n')
    (path / "pyproject.toml").write_text(PROJECT)
    (path / "README.md").write_text(f"# Weather\n\n<!-- mcp-name: {NAME} -->\n")
    return path


def run(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    variables = {key: value for key, value in os.environ.items() if key != "API_KEY"}
    return subprocess.run(
        [sys.executable, "-m", "mcp_server", "pack", *arguments],
        cwd=folder,
        env={**variables, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def pack(folder: Path, *arguments: str, target: str = "weather.py") -> tuple[zipfile.ZipFile, str]:
    """Pack a server and return the bundle and the output of the command."""
    done = run(folder, target, "--env", "API_KEY", "--output", "out/weather.mcpb", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return zipfile.ZipFile(folder / "out" / "weather.mcpb"), done.stdout


def refuse(folder: Path, *arguments: str, target: str = "weather.py", env: Mapping[str, str] | None = None) -> str:
    """Run the command, check that it fails and writes nothing, and return the message."""
    before = sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")
    done = run(folder, target, "--env", "API_KEY", *arguments, env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mcp-server: ")
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == before
    return done.stderr


def test_bundle_has_manifest_program_and_files(folder: Path) -> None:
    (folder / "icon.png").write_bytes(PNG)
    bundle, output = pack(folder)
    names = ["README.md", "icon.png", "pyproject.toml", "units.py", "weather.py"]
    assert bundle.namelist() == [
        "icon.png",
        "main.py",
        "manifest.json",
        "pyproject.toml",
        *(f"server/{name}" for name in names),
    ]
    manifest = json.loads(bundle.read("manifest.json"))
    assert manifest == {
        "manifest_version": "0.4",
        "name": "weather-server",
        "display_name": "Weather",
        "version": "2.0.0",
        "description": "Forecasts for cities.",
        "author": {"name": "Ann Example", "email": "ann@example.com"},
        "repository": {"type": "git", "url": "https://github.com/ann/weather"},
        "homepage": "https://weather.example",
        "documentation": "https://weather.example/docs",
        "support": "https://weather.example/issues",
        "icon": "icon.png",
        "server": {
            "type": "uv",
            "entry_point": "main.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "main.py"],
                "env": {"API_KEY": "${user_config.api_key}"},
            },
        },
        "tools": [{"name": "forecast", "description": "Return the forecast."}, {"name": "report"}],
        "prompts": [
            {
                "name": "trip",
                "description": "Plan a trip.",
                "arguments": ["city", "days"],
                "text": "Plan a trip.\n\ncity: ${arguments.city}\n\ndays: ${arguments.days}",
            }
        ],
        "keywords": ["weather"],
        "license": "MIT",
        "compatibility": {"runtimes": {"python": ">=3.10,>=3.11"}},
        "user_config": {
            "api_key": {
                "type": "string",
                "title": "API_KEY",
                "description": "The environment variable API_KEY of the server.",
                "required": True,
                "sensitive": True,
            }
        },
    }
    assert tomllib.loads(bundle.read("pyproject.toml").decode()) == {
        "project": {
            "name": "bundle",
            "version": "0",
            "requires-python": ">=3.10,>=3.11",
            "dependencies": ["httpx>=0.28", "trio_mcp_server[auth]"],
        },
        "tool": {"uv": {"package": False}},
    }
    for name in names:
        assert f"packed server/{name} ({(folder / name).stat().st_size} bytes)\n" in output
    content = (folder / "out" / "weather.mcpb").read_bytes()
    assert f"{len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}\n" in output


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distributions of this checkout that a server needs."""
    path = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    packages = [str(ROOT / "packages" / name) for name in ("mcp-core", "mcp-server")]
    subprocess.run([*command, "--wheel-dir", str(path), *packages], check=True, timeout=300)
    return path


@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", ["weather.py", "application.weather:make", "flat"])
async def test_command_of_manifest_starts_server(folder: Path, wheels: Path, target: str) -> None:
    if target != "weather.py":
        package = folder / "src" / "application"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        server = SERVER.replace("import units", "from application import units")
        (package / "weather.py").write_text(f"{server}\n\ndef make() -> Server:\n    return server\n")
        shutil.move(folder / "units.py", package / "units.py")
        (folder / "weather.py").unlink()
        (folder / "flat.py").write_text("from application.weather import server\n")
    if target == "flat":
        shutil.move(folder / "src" / "application", folder / "application")
        target = "application.weather"
    where = {"PYTHONPATH": "src"} if (folder / "src").exists() else {}
    (folder / "pyproject.toml").write_text(
        PROJECT.replace('dependencies = ["httpx>=0.28", "trio_mcp', 'dependencies = ["trio_mcp')
    )
    done = run(folder, target, "--env", "API_KEY", env=where)
    assert (done.returncode, done.stderr) == (0, "")
    bundle = folder.parent / "unpacked"
    with zipfile.ZipFile(folder / "weather-server-2.0.0.mcpb") as packed:
        packed.extractall(bundle)
    # The author's files are gone, and the only program that is found is uv.
    shutil.rmtree(folder)
    programs = folder.parent / "bin"
    programs.mkdir()
    (programs / "uv").symlink_to(Path(sys.executable).parent / "uv")
    command = json.loads((bundle / "manifest.json").read_text())["server"]["mcp_config"]
    arguments = [each.replace("${__dirname}", str(bundle)) for each in command["args"]]
    entered = {key: value.replace("${user_config.api_key}", SECRET) for key, value in command["env"].items()}
    env = {
        **{key: value for key, value in os.environ.items() if key.startswith(("UV_", "SSL_"))},
        "HOME": str(folder.parent),
        "PATH": str(programs),
        "UV_FIND_LINKS": str(wheels),
        "UV_PYTHON": sys.executable,
        **entered,
    }
    # uv creates an environment and installs the dependencies before the server starts.
    deadlines = Deadlines(connect=500, probe=400, idle=500, total=500)
    async with open_stdio([str(programs / command["command"]), *arguments], env=env, deadlines=deadlines) as client:
        result = await client.call_tool("forecast", {"city": "Ghent"})
    assert isinstance(result.content[0], TextContent)
    said = result.content[0].text
    assert said.startswith(f"Ghent: warm, {SECRET}, {bundle / '.venv'}")


def test_same_files_result_in_same_bytes(folder: Path) -> None:
    pack(folder)
    first = (folder / "out" / "weather.mcpb").read_bytes()
    other = folder.parent / "copy" / "of"
    shutil.copytree(folder, other)
    shutil.rmtree(other / "out")
    for path in other.iterdir():
        path.chmod(0o700)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    pack(other)
    assert (other / "out" / "weather.mcpb").read_bytes() == first
    # The first bundle is in the folder, and is not packed.
    pack(folder)
    assert (folder / "out" / "weather.mcpb").read_bytes() == first
    modes = {member.external_attr >> 16 for member in zipfile.ZipFile(io.BytesIO(first)).infolist()}
    assert modes == {stat.S_IFREG | 0o644}


def test_secrets_and_environments_are_not_packed(folder: Path) -> None:
    unwanted = {
        ".env": "hidden",
        ".git/config": "hidden",
        ".venv/pyvenv.cfg": "hidden",
        "environment/pyvenv.cfg": "virtual environment",
        "__pycache__/weather.cpython-311.pyc": "compiled",
        "node_modules/a/index.js": "generated",
        "data/.env.production": "hidden",
        "data/id_rsa": "may contain a secret",
        "data/Credentials.json": "may contain a secret",
        "old.mcpb": "generated",
        "tests/test_weather.py": ".mcpbignore: tests/",
        "data/large.csv": ".mcpbignore: data/*.csv",
    }
    for name in (*unwanted, "data/tests", "large.csv"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(SECRET)
    (folder / ".mcpbignore").write_text("# what users do not need\n\ntests/\ndata/*.csv\n")
    (folder / "link").symlink_to(".env")
    (folder / "units-link.py").symlink_to("units.py")
    bundle, output = pack(folder)
    names = {name.removeprefix("server/") for name in bundle.namelist()}
    assert names & {*unwanted, "link"} == set()
    assert {"data/tests", "large.csv", "units.py", "units-link.py"} <= names
    assert bundle.read("server/units-link.py") == (folder / "units.py").read_bytes()
    assert "not packed link (link to a file that is not packed: hidden)\n" in output
    for name, reason in unwanted.items():
        assert any(
            f"not packed {part} ({reason})\n" in output for part in (name, *map(str, Path(name).parents)) if part != "."
        ), name


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("key.txt", "a\n-----BEGIN RSA PRIVATE KEY-----\n", "key.txt contains a private key"),
        ("config.py", f"KEY = '{SECRET}'\n", "config.py contains the value of API_KEY"),
        (".mcpbignore", "!weather.py\n", "'!weather.py' is not supported"),
        (".mcpbignore", "weather.*\n", "weather.py is not packed (.mcpbignore: weather.*)"),
        ("icon.png", "GIF89a", "icon.png is not a PNG file"),
        ("pyproject.toml", "[project", "is not valid TOML"),
        ("pyproject.toml", "[project]\nname = 3\n", "[project]: name must be a string"),
    ],
)
def test_file_that_cannot_be_packed_is_refused(folder: Path, name: str, content: str, message: str) -> None:
    (folder / name).write_text(content)
    assert message in refuse(folder, env={"API_KEY": SECRET})


def test_link_that_leaves_folder_is_refused(folder: Path) -> None:
    outside = folder.parent / "outside.py"
    outside.write_text(SECRET)
    (folder / "inside.py").symlink_to(outside)
    said = refuse(folder)
    assert f"{folder / 'inside.py'} is a symbolic link to {outside}, outside of {folder}" in said
    assert ".mcpbignore" in said
    (folder / "inside.py").unlink()
    (folder / "loop").symlink_to(".")
    assert "loop is a symbolic link to a folder" in refuse(folder)
    (folder / ".mcpbignore").write_text("loop\n")
    pack(folder)
    os.mkfifo(folder / "pipe")
    assert "pipe is not a regular file" in refuse(folder)


def test_home_directory_is_refused(folder: Path) -> None:
    assert f"all files of {folder} would be packed" in refuse(folder, env={"HOME": str(folder)})


def test_size_and_number_of_files_are_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "large").write_bytes(bytes(3000))
    with monkeypatch.context() as patch:
        patch.setattr(pack_files, "_MAX_BYTES", 4000)
        with pytest.raises(PackError, match=r"more than 4000 bytes \(the largest: .*large.*\.mcpbignore"):
            pack_files.collect(folder, [folder])
    with monkeypatch.context() as patch:
        patch.setattr(pack_files, "_MAX_FILES", 4)
        with pytest.raises(PackError, match="more than 4 files"):
            pack_files.collect(folder, [folder])
    (folder / "sparse").touch()
    os.truncate(folder / "sparse", 80 * 1024 * 1024)
    assert "(the largest: sparse" in refuse(folder)


SCRIPT = """\
# /// script
# requires-python = ">=3.12"
# dependencies = ["httpx"]
# ///
"""


def test_dependencies_of_script_come_first(folder: Path) -> None:
    (folder / "weather.py").write_text(SCRIPT + SERVER)
    (folder / "requirements.txt").write_text("other\n")
    bundle, _ = pack(folder)
    project = tomllib.loads(bundle.read("pyproject.toml").decode())["project"]
    assert project["requires-python"] == ">=3.12,>=3.11"
    assert project["dependencies"] == ["httpx", "trio-mcp-server>=0.1.0"]


def test_requirements_file_is_used_without_other_dependencies(folder: Path) -> None:
    text = PROJECT.replace("dependencies =", "keywords2 =").replace("requires-python", "python")
    (folder / "pyproject.toml").write_text(text)
    (folder / "requirements.txt").write_text(
        "# for the forecast\nhttpx==0.28.1  # pinned\n\ntool @ https://a.example/t#b\n"
    )
    bundle, _ = pack(folder)
    project = tomllib.loads(bundle.read("pyproject.toml").decode())["project"]
    assert project["requires-python"] == ">=3.11"
    assert project["dependencies"] == ["httpx==0.28.1", "tool @ https://a.example/t#b", "trio-mcp-server>=0.1.0"]
    (folder / "requirements.txt").unlink()
    assert "the dependencies are missing: write dependencies = [...]" in refuse(folder)


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        ("-r other.txt", "requirements.txt, line 1: '-r other.txt' is an option of pip"),
        ("a==1 \\\n --hash=x", "is an option of pip"),
        ("./local", "'./local' is not a requirement"),
        ("tool @ file:///tool", "has a URL that other machines cannot reach"),
        ("tool @ https://ann:word@a.example/t", "the URL of the dependency 'tool' has a user or a password"),
    ],
)
def test_requirement_of_one_machine_is_refused(folder: Path, requirements: str, message: str) -> None:
    (folder / "pyproject.toml").write_text(PROJECT.replace("dependencies =", "keywords2 ="))
    (folder / "requirements.txt").write_text(requirements)
    assert message in refuse(folder)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("# /// script\n# dependencies = [\n", "line 1 has no end"),
        (SCRIPT + SCRIPT, "two blocks '# /// script', at lines 1 and 5"),
        (SCRIPT.replace('"httpx"', "3"), "dependencies must be an array of strings"),
        (
            SCRIPT.replace("# ///\n", '# [tool.uv.sources]\n# httpx = { path = "x" }\n# ///\n'),
            "[tool.uv] has 'sources'",
        ),
    ],
)
def test_invalid_script_metadata_is_refused(folder: Path, script: str, message: str) -> None:
    (folder / "weather.py").write_text(script + SERVER)
    assert message in refuse(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "weather-server"', 'name = "ä"', "'ä' cannot be the name of a bundle"),
        ('"2.0.0"', '"2.0"', "'2.0' cannot be the version of a bundle: host applications need three numbers"),
        ('{ name = "Ann Example", email = "ann@example.com" }', "", "the author is missing: write authors = "),
        ("requires-python", 'dynamic = ["dependencies"]\npython', "dependencies are dynamic"),
        (
            "[project.urls]",
            '[tool.uv]\nextra-index-url = ["https://a"]\n[project.urls]',
            "[tool.uv] has 'extra-index-url'",
        ),
    ],
)
def test_missing_or_invalid_metadata_names_its_place(folder: Path, old: str, new: str, message: str) -> None:
    assert old in PROJECT
    (folder / "pyproject.toml").write_text(PROJECT.replace(old, new))
    said = refuse(folder)
    assert message in said
    assert f"{folder / 'pyproject.toml'}" in said


def test_metadata_of_parent_of_server_is_used(folder: Path) -> None:
    (folder / "src").mkdir()
    for name in ("weather.py", "units.py"):
        shutil.move(folder / name, folder / "src" / name)
    (folder / "icon.png").write_bytes(PNG)
    # The project in the current directory is another one.
    other = folder.parent / "other"
    other.mkdir()
    (other / "pyproject.toml").write_text(PROJECT.replace("weather-server", "other"))
    bundle, _ = pack(other, target="../weather/src/weather.py")
    assert json.loads(bundle.read("manifest.json"))["name"] == "weather-server"
    assert [name for name in bundle.namelist() if name.startswith("server/")] == [
        "server/units.py",
        "server/weather.py",
    ]
    assert bundle.read("icon.png") == PNG
    # A file without this table, such as that of a workspace, does not have the metadata of a server.
    (folder / "src" / "pyproject.toml").write_text("[tool.uv.workspace]\n")
    bundle, _ = pack(other, target="../weather/src/weather.py")
    assert json.loads(bundle.read("manifest.json"))["name"] == "weather-server"
    (folder / "pyproject.toml").unlink()
    assert "the author is missing" in refuse(other, target="../weather/src/weather.py")


def test_server_has_metadata_that_project_lacks(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[project]\nauthors = [{ name = "Ann" }]\ndependencies = []\n')
    icon = "data:image/png;base64,iVBORw0KGgo="
    (folder / "weather.py").write_text(
        SERVER.replace("import os", "import os\nfrom mcp_core.types import Icon").replace(
            'title="Weather"', f'website_url="https://weather.example", icons=[Icon(src="{icon}")]'
        )
    )
    bundle, _ = pack(folder)
    manifest = json.loads(bundle.read("manifest.json"))
    assert {key: manifest[key] for key in ("name", "version", "homepage", "icon")} == {
        "name": "weather",
        "version": "1.0.0",
        "homepage": "https://weather.example",
        "icon": "icon.png",
    }
    assert bundle.read("icon.png") == b"\x89PNG\r\n\x1a\n"
    (folder / "weather.py").write_text(SERVER.replace('description="Forecasts for cities."', ""))
    assert "the description is missing" in refuse(folder)


def test_package_outside_of_project_is_refused(folder: Path) -> None:
    (folder / "application").mkdir()
    (folder / "application" / "weather.py").write_text(SERVER.replace("import units\n", ""))
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    done = run(elsewhere, "application.weather", env={"PYTHONPATH": str(folder), "API_KEY": "k"})
    assert done.returncode == 2
    assert f"the module 'application' is not in {elsewhere} or its folder src, but in {folder}" in done.stderr


def test_target_that_cannot_be_loaded_is_refused(folder: Path) -> None:
    (folder / "weather.py").write_text("import absent\n")
    assert "No module named 'absent'" in refuse(folder)


def test_registry_entry_describes_package_and_bundle(folder: Path) -> None:
    pack(folder, "--registry", NAME, "--pypi", "--url", URL)
    content = (folder / "out" / "weather.mcpb").read_bytes()
    assert json.loads((folder / "out" / "server.json").read_text()) == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": NAME,
        "title": "Weather",
        "description": "Forecasts for cities.",
        "repository": {"url": "https://github.com/ann/weather", "source": "github"},
        "version": "2.0.0",
        "websiteUrl": "https://weather.example",
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "weather-server",
                "version": "2.0.0",
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "environmentVariables": [
                    {
                        "name": "API_KEY",
                        "description": "The environment variable API_KEY of the server.",
                        "isRequired": True,
                        "isSecret": True,
                    }
                ],
            },
            {
                "registryType": "mcpb",
                "identifier": URL,
                "version": "2.0.0",
                "fileSha256": hashlib.sha256(content).hexdigest(),
                "transport": {"type": "stdio"},
            },
        ],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--registry", "weather", "--pypi"), "'weather' cannot be a name in the registry"),
        (("--registry", f"{NAME}/x", "--pypi"), "cannot be a name in the registry"),
        (("--registry", NAME), "--registry needs --url URL for the bundle, --pypi for the package, or both"),
        (("--pypi",), "give --registry NAME"),
        (("--registry", NAME, "--url", "http://a.example/a.mcpb"), "must begin with https:// and contain 'mcp'"),
        (("--registry", NAME, "--url", "https://a.example/a.zip"), "must begin with https:// and contain 'mcp'"),
        (("--registry", "io.github.ann/weath", "--pypi"), "README.md does not contain 'mcp-name: io.github.ann/weath'"),
        (("--output", "weather.zip"), "--output weather.zip must end in .mcpb"),
        (("--env", "api_key"), "--env names a variable twice"),
    ],
)
def test_invalid_option_is_refused(folder: Path, options: tuple[str, ...], message: str) -> None:
    assert message in refuse(folder, *options)


def test_value_of_variable_in_manifest_is_refused(folder: Path) -> None:
    (folder / "weather.py").write_text(SERVER.replace('title="Weather"', "title=os.environ['API_KEY']"))
    assert "manifest.json contains the value of API_KEY" in refuse(folder, env={"API_KEY": SECRET})


def test_value_of_variable_is_refused_and_not_shown(folder: Path) -> None:
    said = refuse(folder, "--env", f"TOKEN={SECRET}")
    assert "--env needs the name of a variable only" in said
    assert SECRET not in said


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("weather-server = ", "weather = ", "but it has no command of this name"),
        ('readme = "README.md"', "", 'write readme = "README.md"'),
        ('readme = "README.md"', 'readme = { file = "absent.md" }', "cannot read"),
        ("license", f'description = "{"d" * 101}"\nlicense', "at most 100 characters of description, not 101"),
        ('name = "weather-server"', "", 'a package on PyPI needs name = "..."'),
    ],
)
def test_project_that_registry_rejects_is_refused(folder: Path, old: str, new: str, message: str) -> None:
    (folder / "pyproject.toml").write_text(PROJECT.replace(old, new))
    assert message in refuse(folder, "--registry", NAME, "--pypi")
