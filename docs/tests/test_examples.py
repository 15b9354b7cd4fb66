"""Runs the examples of the documentation.

The Python blocks of a page are run in order, as one program. A block that begins with a file name in a comment
(`# weather.py`) is also written to that file, so that later blocks can start it; a block with `continued` is appended to
the file. A file `test_*.py` contains tests. Lines after `$` in a console block are run, with the tests that are above it,
and the lines below are the expected output; `...` matches anything.

A command that ends with `&` is a server: it runs until the end of the page, and prints its address on stderr. Pages
show the address as 127.0.0.1:8000 or another port up to 8009; the system chooses a free port, which replaces it in all
later commands.
"""

from __future__ import annotations

import doctest
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from documentation.markdown_blocks import FENCE, INTEROP_PAGES, LINK, Block, blocks, pages

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = pages(ROOT)
FILE = re.compile(r"# (\w+\.py)(, continued)?\n")
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
SHOWN_ADDRESS = re.compile(r"127\.0\.0\.1:800\d")
NOT_RUN = ("python -m pip install", "mcp-client shell")
"""Commands that would change the environment of the test run, or that need a terminal: `test_shell.py` runs the shell."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def pages_with(language: str) -> list[Path]:
    return [
        page
        for page in WRITTEN
        if name_of(page) not in INTEROP_PAGES and any(block.language == language for block in blocks(page))
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, with the commands of this environment first on the path."""
    monkeypatch.chdir(tmp_path)
    # A program finds the modules beside it.
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    # Do not use the keyring of the user.
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("page_") or (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def write_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows, except for tests."""
    for block in blocks(page):
        if not is_test(block):
            write_file(block, folder)


def write_file(block: Block, folder: Path) -> None:
    """Write the file that a block shows, if it shows one."""
    if block.language == "python" and (file := FILE.match(block.text)):
        with (folder / file[1]).open("a" if file[2] else "w") as target:
            target.write(block.text)


def is_test(block: Block) -> bool:
    """Return whether a block shows a file with tests, or a part of one."""
    return block.language == "python" and block.text.startswith("# test_")


@pytest.mark.parametrize("page", pages_with("python"), ids=name_of)
def test_python_blocks_of_page_run(page: Path, folder: Path) -> None:
    write_files(page, folder)
    module = types.ModuleType("page_" + re.sub(r"\W", "_", name_of(page)))
    # Classes are found by the name of their module.
    sys.modules[module.__name__] = module
    of_pytest: set[str] = set()
    for block in blocks(page):
        if block.language == "python":
            code = compile("\n" * block.line + block.text, str(page), "exec")
            exec(code, module.__dict__)
            if is_test(block):
                of_pytest |= {name for name in vars(module) if name.startswith("test_")}
    for name, function in list(vars(module).items()):
        if name.startswith("test_") and name not in of_pytest:
            run_test(function)


@pytest.mark.parametrize(
    "number",
    range(sum(block.language == "python" for block in blocks(ROOT / "README.md"))),
    ids=lambda number: f"block {number + 1}",
)
def test_python_block_of_readme_runs_alone(number: int, folder: Path) -> None:
    write_files(ROOT / "README.md", folder)
    block = [block for block in blocks(ROOT / "README.md") if block.language == "python"][number]
    (folder / "block.py").write_text(block.text)
    # At the end of its input, the server ends.
    command = [sys.executable, "block.py"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def run_test(function: types.FunctionType) -> None:
    """Run a test that a page shows, with each of its parameters."""
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    for mark in marks or [None]:
        for value in [None] if mark is None else mark.args[1]:
            arguments = {} if mark is None else {mark.args[0]: value}
            trio.run(partial(function, **arguments))


@pytest.mark.parametrize("page", pages_with("console"), ids=name_of)
def test_console_blocks_of_page_have_shown_output(page: Path, folder: Path) -> None:
    write_files(page, folder)
    for path in ("docs", "scripts", "packages"):
        (folder / path).symlink_to(ROOT / path)
    checker = doctest.OutputChecker()
    addresses: dict[str, str] = {}
    with ExitStack() as servers:
        for block in blocks(page):
            if is_test(block):
                write_file(block, folder)
            if block.language == "console":
                for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                    command, _, expected = part.partition("\n")
                    if command.startswith(NOT_RUN):
                        continue
                    if command.endswith(" &"):
                        actual = servers.enter_context(run_server(command.removesuffix(" &"), expected, addresses))
                    else:
                        actual = output(command, addresses)
                    assert checker.check_output(expected, actual, doctest.ELLIPSIS), f"{command} gave:\n{actual}"


def output(command: str, addresses: dict[str, str]) -> str:
    """Return the stdout of a command, with the addresses that the page shows."""
    for shown, address in addresses.items():
        command = command.replace(shown, address)
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    actual = done.stdout
    for shown, address in addresses.items():
        actual = actual.replace(address, shown)
    return actual


@contextmanager
def run_server(command: str, expected: str, addresses: dict[str, str]) -> Iterator[str]:
    """Run a server, and yield its first output on stderr, with the address that the page shows."""
    (shown,) = set(SHOWN_ADDRESS.findall(command))
    command = command.replace(shown, "127.0.0.1:0")
    with subprocess.Popen(shlex.split(command), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            actual = "".join(server.stderr.readline() for _ in expected.splitlines())
            address = ADDRESS.search(actual)
            if not address:
                server.kill()
                raise AssertionError(f"{command} gave:\n{actual}{server.stderr.read()}")
            addresses[shown] = address[0]
            yield actual.replace(address[0], shown)
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


@pytest.mark.parametrize("page", pages_with("json"), ids=name_of)
def test_json_blocks_of_page_valid(page: Path) -> None:
    for block in blocks(page):
        if block.language == "json":
            assert json.loads(block.text)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"], ids=name_of)
def test_links_of_page_outside_of_site_resolve(page: Path) -> None:
    # The build of the site checks the links of its own pages.
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        assert ":" in link or (page.parent / link).exists(), link


def test_languages_of_blocks_known() -> None:
    languages = {block.language for page in WRITTEN for block in blocks(page)}
    # `py` is a program for another library; `scripts/interop` runs it. `toml` is a file of `test_distribution.py`.
    assert languages <= {"python", "py", "console", "json", "toml", "js"}
    assert inspect.getdoc(sys.modules[__name__])
