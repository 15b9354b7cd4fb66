"""The pages about web frameworks and hosts: their files and commands, in order, with real processes and requests.

A block that begins with a path in a comment (`# shop.py`, `# config/asgi.py`) is a file. A command that ends with `&` is a
server. Pages show its address as 127.0.0.1:8000 or another port up to 8009; a free port replaces it in all files and
commands.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from documentation.markdown_blocks import INTEROP_PAGES, Block, blocks
from mcp_conformance.drivers.server.targets import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = re.compile(r"# ([\w/]+\.py)\n")
PORT: Final = re.compile(r"\b800\d\b")
SECONDS: Final = 60
"""Time after which a command that waits forever fails."""

NOT_RUN: Final = ("python -m pip install",)
"""Commands that would change the environment of the test run."""

CHECKER: Final = doctest.OutputChecker()


@pytest.fixture
def ports() -> dict[str, str]:
    """A free port for each port that a page shows."""
    return {f"800{number}": str(free_port()) for number in range(10)}


def write(block: Block, folder: Path, ports: dict[str, str]) -> str:
    """Write the file that a block shows, and return its path. A command may have created the file."""
    found = FILE.match(block.text)
    assert found, f"line {block.line} does not name a file"
    (folder / found[1]).parent.mkdir(exist_ok=True)
    (folder / found[1]).write_text(PORT.sub(lambda shown: ports[shown[0]], block.text))
    return found[1]


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


@contextmanager
def server(command: str, folder: Path) -> Iterator[None]:
    """Run a server whose command contains its port, and wait until it accepts connections."""
    (port,) = {found[1] for found in re.finditer(r"[ :](\d{4,5})\b", command)}
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(shlex.split(command), stdout=output, stderr=output, cwd=folder, env=environment())
    deadline = time.monotonic() + SECONDS
    try:
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            try:
                socket.create_connection(("127.0.0.1", int(port)), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield
        process.terminate()
        process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


def run(command: str, folder: Path) -> str:
    """Return the output of a command."""
    done = subprocess.run(
        command,
        shell=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        cwd=folder,
        env=environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", INTEROP_PAGES)
def test_commands_of_page_have_shown_output(name: str, tmp_path: Path, ports: dict[str, str]) -> None:
    page = ROOT / name
    with ExitStack() as servers:
        for block in blocks(page):
            if block.language == "py":
                write(block, tmp_path, ports)
            if block.language != "console":
                continue
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, expected = part.replace("\\\n", "").partition("\n")
                if command.startswith(NOT_RUN):
                    continue
                command = PORT.sub(lambda found: ports[found[0]], command)
                if command.endswith(" &"):
                    servers.enter_context(server(command.removesuffix(" &"), tmp_path))
                    continue
                actual = run(command, tmp_path)
                if expected and not actual.endswith("\n"):
                    actual += "\n"
                assert CHECKER.check_output(expected, actual, doctest.ELLIPSIS), f"{command} gave:\n{actual}"


@pytest.mark.parametrize("name", INTEROP_PAGES)
def test_files_of_page_that_no_command_uses_run(name: str, tmp_path: Path, ports: dict[str, str]) -> None:
    shown = blocks(ROOT / name)
    programs = [write(block, tmp_path, ports) for block in shown if block.language == "py"]
    commands = "".join(block.text for block in shown if block.language == "console")
    for program in programs:
        if "/" not in program and not re.search(rf"\b{Path(program).stem}\b", commands):
            run(f"python {program}", tmp_path)


def test_fastapi_example_of_readme_is_called(tmp_path: Path, ports: dict[str, str]) -> None:
    (example,) = [block for block in blocks(ROOT / "README.md") if block.language == "py"]
    assert write(example, tmp_path, ports) == "shop.py"
    assert len([line for line in example.text.splitlines() if line and not line.startswith("#")]) <= 8
    with server(f"uvicorn shop:app --port {ports['8000']}", tmp_path):
        url = f"http://127.0.0.1:{ports['8000']}/mcp"
        assert run(f"mcp-client call price article=tea {url}", tmp_path) == "tea: 3 euros\n"


def test_asyncio_page_example_of_other_library_runs(tmp_path: Path) -> None:
    # `test_client_hosts` runs the blocks that are files.
    (example,) = [
        block
        for block in blocks(ROOT / "docs/howto/asyncio.md")
        if block.language == "py" and not block.text.startswith("# ")
    ]
    (tmp_path / "program.py").write_text(example.text)
    assert run("python program.py", tmp_path) == "tea: 3 euros\n"
