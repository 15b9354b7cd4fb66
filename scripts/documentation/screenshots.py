"""Makes the pictures of the documentation: docs/images/authorization/*.png, of the real pages in a real browser.

Run it when the pages change: `python scripts/documentation/screenshots.py`. The pictures are a matter of taste and of fonts, so no test
compares them.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlencode

import attrs
import trio

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from documentation.chromium import chromium
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
FOLDER = ROOT / "docs" / "images" / "authorization"
LARGEST = 60_000
"""Bytes of a picture: they stay in the history of the project for ever."""
PORT = 8765
"""Is seen in the pictures, so it is always the same."""

ISSUER: Final = f"http://localhost:{PORT}"
SCOPES: Final = {"notes:read": "Read your notes", "notes:write": "Change and delete your notes"}
LOCAL: Final = Client.configured("notebook", name="Notebook", redirect_uris=["http://127.0.0.1/callback"])
HOSTED: Final = attrs.evolve(
    Client.configured("hosted", name="Notes on the web", redirect_uris=["https://notes.example/callback"]),
    kind=RegistrationKind.DYNAMIC,
)

Shots: TypeAlias = "Mapping[str, tuple[Callable[[Page], None], str, int]]"
"""By the name of the picture: how to get there, by day or by night, how wide the window is."""


def ask(client: Client, **changes: str) -> str:
    """Where a client sends the browser."""
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
    """A request for authorization, in a browser that was nowhere yet."""
    page.goto(ask(client))


def log_in(page: Page, client: Client = LOCAL, password: str = "lovelace") -> None:
    """The first page after the form with the password was sent."""
    open_request(page, client)
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def foreign(page: Page) -> None:
    """A request whose redirect URI is not the client's."""
    page.goto(ask(LOCAL, redirect_uri="https://evil.example/callback"))


def expired(page: Page) -> None:
    """A consent for which the session is over."""
    log_in(page)
    page.context.clear_cookies()
    page.get_by_role("button", name="Allow").click()


def answered(page: Page) -> None:
    """Somebody who answered in another tab."""
    log_in(page)
    other = page.context.new_page()
    other.goto(page.url)
    with other.expect_response(lambda response: response.status == 303):
        other.get_by_role("button", name="Deny").click()
    page.reload()


def log_out(page: Page) -> None:
    """The page to log out."""
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
    """Takes pictures, each in a browser of its own."""
    for name, (go, scheme, width) in shots.items():
        context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 240}
        )
        page = context.new_page()
        go(page)
        # A caret blinks.
        page.evaluate("document.activeElement.blur()")
        picture = smaller(page.screenshot(full_page=True))
        context.close()
        path = FOLDER / f"{name}.png"
        if len(picture) > LARGEST:
            raise SystemExit(f"{path.relative_to(ROOT)} would have {len(picture)} bytes, more than {LARGEST}")
        path.write_bytes(picture)
        print(path.relative_to(ROOT), len(picture))


async def show(browse: Callable[[Browser], None], users: Users | Delegation) -> None:
    """Lets a browser loose on an authorization server."""

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
    """Takes all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    await show(partial(take, shots=PASSWORDS), PasswordUsers({"ada": hash_password("lovelace")}))
    await show(partial(take, shots=ELSEWHERE), Delegation("https://login.example", client_id="notes"))


if __name__ == "__main__":
    trio.run(main)
