"""The command that takes the screenshots of the documentation.

They show the pages of the authorization server, and a report of the conformance suite. Run it when these change: `python scripts/documentation/screenshots.py`. The images depend on fonts, so no test compares
them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlencode

import attrs
import trio

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from documentation.chromium import chromium
from documentation.markdown_blocks import blocks
from documentation.small_png import smaller
from mcp_server.auth.authorization_server import (
    AuthorizationServer,
    Client,
    Delegation,
    PasswordUsers,
    Users,
    hash_password,
)
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "images"
LARGEST = 60_000
"""The greatest size of an image in bytes: images stay in the history of the project forever."""
PORT = 8765
"""The port in the screenshots, which is always the same."""

ISSUER: Final = f"http://localhost:{PORT}"
SCOPES: Final = {"notes:read": "Read your notes", "notes:write": "Change and delete your notes"}
LOCAL: Final = Client.configured("notebook", name="Notebook", redirect_uris=["http://127.0.0.1/callback"])
HOSTED: Final = attrs.evolve(
    Client.configured("hosted", name="Notes on the web", redirect_uris=["https://notes.example/callback"]),
    kind=RegistrationKind.DYNAMIC,
)

Shots: TypeAlias = "Mapping[str, tuple[Callable[[Page], None], str, int]]"
"""By image name: the function that opens the page, the color scheme, and the width of the window."""


def ask(client: Client, **changes: str) -> str:
    """Return the authorization URL of a client."""
    fields = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uris[0].replace("127.0.0.1/", "127.0.0.1:49152/"),
        "scope": " ".join(SCOPES),
        "state": "s",
        "resource": "https://mcp.example/mcp",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
        **changes,
    }
    return f"{ISSUER}/authorize?{urlencode(fields)}"


def open_request(page: Page, client: Client) -> None:
    """Open an authorization request in a new browser session."""
    page.goto(ask(client))


def log_in(page: Page, client: Client = LOCAL, password: str = "lovelace") -> None:
    """Submit the login form."""
    open_request(page, client)
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def foreign(page: Page) -> None:
    """Open a request whose redirect URI is not the client's."""
    page.goto(ask(LOCAL, redirect_uri="https://evil.example/callback"))


def expired(page: Page) -> None:
    """Submit a consent whose session has expired."""
    log_in(page)
    page.context.clear_cookies()
    page.get_by_role("button", name="Allow").click()


def answered(page: Page) -> None:
    """Submit a consent that was answered in another tab."""
    log_in(page)
    other = page.context.new_page()
    other.goto(page.url)
    with other.expect_response(lambda response: response.status == 303):
        other.get_by_role("button", name="Deny").click()
    page.reload()


def log_out(page: Page) -> None:
    """Open the logout page."""
    log_in(page)
    page.goto(f"{ISSUER}/logout")


PASSWORDS: Final[Shots] = {
    "log-in": (partial(open_request, client=LOCAL), "light", 660),
    "wrong-password": (partial(log_in, password="byron"), "light", 660),
    "consent": (log_in, "light", 660),
    "consent-hosted-dark": (partial(log_in, client=HOSTED), "dark", 660),
    "consent-narrow": (log_in, "light", 320),
    "foreign-redirect-uri": (foreign, "light", 660),
    "expired-session": (expired, "light", 660),
    "answered": (answered, "light", 660),
    "log-out": (log_out, "light", 660),
}
ELSEWHERE: Final[Shots] = {
    "consent-delegated": (partial(open_request, client=HOSTED), "light", 660),
}


def take(browser: Browser, shots: Shots) -> None:
    """Take screenshots, each in a new browser session."""
    for name, (go, scheme, width) in shots.items():
        context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 240}
        )
        page = context.new_page()
        go(page)
        # The caret would blink.
        page.evaluate("document.activeElement.blur()")
        save(f"authorization/{name}", page.screenshot(full_page=True))
        context.close()


def save(name: str, picture: bytes) -> None:
    """Save a screenshot, as a small file."""
    path = FOLDER / f"{name}.png"
    picture = smaller(picture)
    if len(picture) > LARGEST:
        raise SystemExit(f"{path.relative_to(ROOT)} would have {len(picture)} bytes, more than {LARGEST}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture)
    print(path.relative_to(ROOT), len(picture))


def take_report() -> None:
    """Take a screenshot of the report about the server on the documentation's start page."""
    page = ROOT / "docs" / "index.md"
    with TemporaryDirectory() as folder:
        program = next(block.text for block in blocks(page) if block.text.startswith("# weather.py"))
        (Path(folder) / "weather.py").write_text(program)
        suite = Path(sys.executable).with_name("mcp-conformance")
        command = [str(suite), "server", "--command", "python weather.py", "--html", "report.html", "--allow-untested"]
        # The report shows the command, whose Python is that of this environment.
        path = os.pathsep.join([str(suite.parent), os.environ["PATH"]])
        subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL, check=True)
        with chromium() as browser:
            report = browser.new_page(viewport={"width": 1000, "height": 720})
            report.goto((Path(folder) / "report.html").as_uri())
            save("conformance/report", report.screenshot())


async def show(browse: Callable[[Browser], None], users: Users | Delegation) -> None:
    """Serve an authorization server and browse it."""

    def visit() -> None:
        with chromium() as browser:
            browse(browser)

    server = AuthorizationServer(
        ISSUER, users=users, resources=["https://mcp.example/mcp"], scopes=SCOPES, clients=[LOCAL, HOSTED]
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, f"localhost:{PORT}")
        await trio.to_thread.run_sync(visit)
        nursery.cancel_scope.cancel()
    await server.store.aclose()


async def main() -> None:
    """Take all screenshots."""
    await trio.to_thread.run_sync(take_report)
    await show(partial(take, shots=PASSWORDS), PasswordUsers({"ada": hash_password("lovelace")}))
    await show(partial(take, shots=ELSEWHERE), Delegation("https://login.example", client_id="notes"))


if __name__ == "__main__":
    trio.run(main)
