"""Runs what the documentation shows.

The Python blocks of a page are run one after the other, as one program. A block that begins with a file name in a comment
(`# weather.py`) is also written to that file, so that later blocks can start it; one that says `continued` is added to it.
Lines behind `$` in a console block are run, and what is below them is what has to come out; `...` stands for anything.

A command that ends with `&` is a server: it runs until the end of the page, and says on stderr where it is. Pages write
that as 127.0.0.1:8000 or another port of 8000 to 8009; the system chooses a free one, which takes its place in all that
follows.
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

from documentation.markdown_blocks import FENCE, blocks, pages

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
WRITTEN = pages(ROOT)
PAGES = [*WRITTEN, *sorted((DOCS / "reference").glob("*.md"))]
FILE = re.compile(r"# (\w+\.py)(, continued)?\n")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PLACE = re.compile(r"127\.0\.0\.1:\d+")
SHOWN_PLACE = re.compile(r"127\.0\.0\.1:800\d")
UNTRIED = ("python -m pip install",)
"""Commands that would change the environment of whoever runs the tests."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def having(language: str) -> list[Path]:
    return [page for page in WRITTEN if any(block.language == language for block in blocks(page))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to be in, with the commands of this environment first on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    # Not that of whoever runs the tests.
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("page_"):
            del sys.modules[name]


def write_files(page: Path, folder: Path) -> None:
    """Writes the files that a page shows."""
    for block in blocks(page):
        if block.language == "python" and (file := FILE.match(block.text)):
            with (folder / file[1]).open("a" if file[2] else "w") as target:
                target.write(block.text)


@pytest.mark.parametrize("page", having("python"), ids=name_of)
def test_the_python_of_a_page_runs(page: Path, folder: Path) -> None:
    write_files(page, folder)
    module = types.ModuleType("page_" + re.sub(r"\W", "_", name_of(page)))
    # Classes are looked up by the name of their module.
    sys.modules[module.__name__] = module
    for block in blocks(page):
        if block.language == "python":
            code = compile("\n" * block.line + block.text, str(page), "exec")
            exec(code, module.__dict__)
    for name, function in list(vars(module).items()):
        if name.startswith("test_"):
            run_test(function)


def run_test(function: types.FunctionType) -> None:
    """Runs a test that a page shows, with each of its parameters."""
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    for mark in marks or [None]:
        for value in [None] if mark is None else mark.args[1]:
            arguments = {} if mark is None else {mark.args[0]: value}
            trio.run(partial(function, **arguments))


@pytest.mark.parametrize("page", having("console"), ids=name_of)
def test_the_commands_of_a_page_give_what_it_says(page: Path, folder: Path) -> None:
    write_files(page, folder)
    for path in ("docs", "scripts", "packages"):
        (folder / path).symlink_to(ROOT / path)
    checker = doctest.OutputChecker()
    places: dict[str, str] = {}
    with ExitStack() as servers:
        for block in blocks(page):
            if block.language == "console":
                for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                    command, _, expected = part.partition("\n")
                    if command.startswith(UNTRIED):
                        continue
                    if command.endswith(" &"):
                        came = servers.enter_context(serving(command.removesuffix(" &"), expected, places))
                    else:
                        came = output(command, places)
                    assert checker.check_output(expected, came, doctest.ELLIPSIS), f"{command} gave:\n{came}"


def output(command: str, places: dict[str, str]) -> str:
    """What a command writes to stdout, as a page would show it."""
    for shown, place in places.items():
        command = command.replace(shown, place)
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    came = done.stdout
    for shown, place in places.items():
        came = came.replace(place, shown)
    return came


@contextmanager
def serving(command: str, expected: str, places: dict[str, str]) -> Iterator[str]:
    """Runs a server, and gives what it wrote to stderr at its start, as a page would show it."""
    (shown,) = set(SHOWN_PLACE.findall(command))
    command = command.replace(shown, "127.0.0.1:0")
    with subprocess.Popen(shlex.split(command), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            came = "".join(server.stderr.readline() for _ in expected.splitlines())
            place = PLACE.search(came)
            if not place:
                server.kill()
                raise AssertionError(f"{command} gave:\n{came}{server.stderr.read()}")
            places[shown] = place[0]
            yield came.replace(place[0], shown)
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


@pytest.mark.parametrize("page", having("json"), ids=name_of)
def test_the_json_of_a_page_is_json(page: Path) -> None:
    for block in blocks(page):
        if block.language == "json":
            assert json.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    for link in LINK.findall(text):
        target, _, anchor = link.partition("#")
        if ":" in target:
            continue
        path = page.parent / target if target else page
        assert path.exists(), link
        if anchor:
            assert anchor in anchors(path.read_text()), link


def anchors(text: str) -> set[str]:
    """What one can be sent to on a page: its headings, as GitHub writes them, and its anchors."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    given = re.findall(r'<a id="([^"]+)"', text)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings} | set(given)


def test_all_pages_can_be_found_from_the_first_one() -> None:
    found: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in found or page.suffix != ".md" or not page.exists():
            continue
        found.add(page)
        waiting += [
            (page.parent / link.partition("#")[0]).resolve()
            for link in LINK.findall(page.read_text())
            if ":" not in link
        ]
    assert set(PAGES) <= found


def test_every_language_of_a_block_is_looked_at() -> None:
    languages = {block.language for page in WRITTEN for block in blocks(page)}
    assert languages <= {"python", "console", "json"}
    assert inspect.getdoc(sys.modules[__name__])
