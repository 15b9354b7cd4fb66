"""The client in programs of others that run asyncio: Jupyter kernels, FastAPI under uvicorn, and the plugins of pytest.

The programs are the blocks of the documentation.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import httpx
import nbformat
import pytest
import trio
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from documentation.markdown_blocks import blocks
from interop.test_asgi_applications import hosted

SECONDS = 60
"""Time after which a test that waits forever fails."""

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
CELLS = [block.text for block in blocks(HOWTO / "notebooks.md") if block.language == "py"]


def write_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows."""
    for block in blocks(page):
        if found := re.match(r"# (\w+\.py)\n", block.text):
            (folder / found[1]).write_text(block.text)


# --- notebooks -------------------------------------------------------------------------------------------------------


@attrs.define
class Kernel:
    """A kernel of Jupyter, and the cells that it ran."""

    client: NotebookClient
    count: int = 0

    async def run(self, source: str) -> str:
        """Run a cell, and return what it printed. Raises `CellExecutionError`."""
        cell = nbformat.v4.new_code_cell(source)
        self.client.nb.cells.append(cell)
        self.count += 1
        await self.client.async_execute_cell(cell, self.count - 1)
        texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        return "".join(texts)

    async def interrupt(self) -> None:
        """Interrupt the running cell."""
        manager = self.client.km
        assert manager is not None
        await manager.interrupt_kernel()


@asynccontextmanager
async def kernel(folder: Path) -> AsyncIterator[Kernel]:
    """Start a kernel of this environment."""
    write_files(HOWTO / "notebooks.md", folder)
    client = NotebookClient(
        nbformat.v4.new_notebook(),
        resources={"metadata": {"path": str(folder)}},
        timeout=SECONDS,
        kernel_name="python3",
    )
    async with client.async_setup_kernel():
        yield Kernel(client)


@pytest.mark.filterwarnings("default")  # of Jupyter
def test_cells_of_page_run_in_kernel(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with kernel(tmp_path) as notebook:
            return [await notebook.run(cell) for cell in CELLS]

    printed = asyncio.run(asyncio.wait_for(main(), SECONDS))
    assert printed == [
        "['price', 'count']",
        "tea: 3 euros\n",
        "'0.9 of 1.0 seconds'counted\n",
        "",
        "cup: 3 euros\n",
        "",
    ]


FORMS = {
    "asyncio": (CELLS[0], "client", "await "),
    "blocking": ("import sys\n" + CELLS[4], "shop", ""),
}
"""The cell that opens a connection, the name of the client, and the keyword before its calls."""

ERRORS = {"asyncio": "CancelledError", "blocking": "KeyboardInterrupt"}


@pytest.mark.filterwarnings("default")  # of Jupyter
@pytest.mark.parametrize("form", FORMS)
def test_interrupted_cell_cancels_call_and_client_remains_usable(tmp_path: Path, form: str) -> None:
    opening, name, keyword = FORMS[form]
    show = "def touch(*_):\n    open('started', 'w').close()\n"

    async def main() -> None:
        async with kernel(tmp_path) as notebook:
            await notebook.run(opening + show)

            async def interrupt() -> None:
                while not (tmp_path / "started").exists():  # noqa: ASYNC110  # another process writes the file
                    await asyncio.sleep(0.05)
                await notebook.interrupt()

            interrupting = asyncio.create_task(interrupt())
            with pytest.raises(CellExecutionError) as caught:
                await notebook.run(f"{keyword}{name}.call_tool('count', on_progress=touch)")
            assert caught.value.ename == ERRORS[form]
            await interrupting
            call = f"print(({keyword}{name}.call_tool('price', {{'article': 'tea'}})).text)"
            assert await notebook.run(call) == "tea: 3 euros\n"

    asyncio.run(asyncio.wait_for(main(), SECONDS))


@pytest.mark.filterwarnings("default")  # of Jupyter
@pytest.mark.parametrize("form", FORMS)
def test_end_of_kernel_ends_server(tmp_path: Path, form: str) -> None:
    opening, _, _ = FORMS[form]

    async def main() -> None:
        async with kernel(tmp_path) as notebook:
            with (tmp_path / "shop.py").open("a") as program:
                program.write("    open('server ended', 'w').close()\n")
            await notebook.run(opening)
        while not (tmp_path / "server ended").exists():  # noqa: ASYNC110  # another process writes the file
            await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(main(), SECONDS))


# --- web applications ------------------------------------------------------------------------------------------------


async def test_client_of_fastapi_lifespan_used_by_request_handlers(tmp_path: Path) -> None:
    write_files(HOWTO / "asyncio.md", tmp_path)
    # A task of the application outlives the request that started it.
    async with hosted(tmp_path, "uvicorn", "shop_app:app") as address, httpx.AsyncClient() as browser:
        prices: dict[str, str] = {}

        async def fetch(article: str) -> None:
            response = await browser.get(f"{address}/prices/{article}")
            prices[article] = response.json()["price"]

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(fetch, f"tea-{number}")
    assert prices == {f"tea-{number}": f"tea-{number}: 3 euros" for number in range(20)}


# --- tests -----------------------------------------------------------------------------------------------------------

MORE_TESTS = """
import asyncio
import sys

import pytest
import pytest_asyncio

from mcp_client.asyncio import open_stdio


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with open_stdio([sys.executable, "shop.py"]) as client:
        yield client, asyncio.current_task()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("article", ["tea", "cup"])
async def test_shared_client(shared, article):
    client, task = shared
    assert asyncio.current_task() is not task
    assert (await client.call_tool("price", {"article": article})).text == f"{article}: 3 euros"


@pytest.mark.asyncio
async def test_client_left_open():
    # The end of the loop closes it.
    await open_stdio([sys.executable, "shop.py"]).__aenter__()
"""


def run_pytest(folder: Path, *arguments: str) -> str:
    """Run pytest in a folder, and return the end of its output."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "-W"]
    command += ["ignore::pytest.PytestDeprecationWarning", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_fixture_of_pytest_asyncio_opens_client(tmp_path: Path) -> None:
    write_files(HOWTO / "asyncio.md", tmp_path)
    (tmp_path / "test_more.py").write_text(MORE_TESTS)
    assert run_pytest(tmp_path, "test_with_pytest_asyncio.py", "test_more.py").startswith("4 passed")


def test_fixture_of_anyio_opens_client(tmp_path: Path) -> None:
    write_files(HOWTO / "asyncio.md", tmp_path)
    assert run_pytest(tmp_path, "test_with_anyio.py").startswith("2 passed")
