"""The pages of a raw server over HTTP, on which a user connects an account at a third party, and their tools."""

from __future__ import annotations

import hashlib
import json
import secrets
import urllib.request
from typing import TYPE_CHECKING, Final
from urllib.error import URLError
from urllib.parse import parse_qs, urlencode

from mutants.server.client_requests import request_input
from mutants.server.protocol import LEGACY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.server.fault import InboundRequest
    from mutants.server.server import RawServer

__all__ = ["PAGE_CALLS", "PAGE_TOOLS", "answer_page", "digest", "is_page"]

_SECONDS: Final = 5.0


def digest(user: str) -> str:
    """Return a name of a user that a URL can contain."""
    return hashlib.sha256(user.encode()).hexdigest()[:16]


def is_page(path: str) -> bool:
    """Return whether a path is one of a page."""
    return path.partition("?")[0] in ("/connect", "/callback")


def answer_page(server: RawServer, target: str, visitor: str, host: str) -> tuple[int, dict[str, str]]:
    """Respond to a visit.

    Args:
        server: The server.
        target: The path and the query.
        visitor: The user who is logged in, or the empty string.
        host: The host of the server.

    Returns:
        The status and the headers.
    """
    path, _, text = target.partition("?")
    query = {name: values[0] for name, values in parse_qs(text).items()}
    id = query.get("state" if path == "/callback" else "visit", "")
    state = server.state
    if id not in state.pending_accounts:
        return 404, {}
    owner, third_party = state.pending_accounts[id]
    named = digest(visitor) if path == "/callback" else query.get("user", "")
    if not server.fault.may_visit(visitor, owner, named=named == digest(visitor)):
        return 403, {}
    if path == "/connect":
        fields = urlencode({"redirect_uri": f"http://{host}/callback", "state": id})
        return 302, {"Location": f"{third_party}/authorize?{fields}"}
    body = urlencode({"grant_type": "authorization_code", "code": query.get("code", "")}).encode()
    granted = _fetch(f"{third_party}/token", {}, body)
    if granted is None:
        return 502, {}
    state.accounts[owner] = (third_party, str(granted.get("access_token")))
    del state.pending_accounts[id]
    return 200, {}


def _fetch(url: str, headers: dict[str, str], body: bytes | None = None) -> JsonObject | None:
    """Return the JSON object at a URL, or `None`."""
    try:
        request = urllib.request.Request(url, body, headers)  # noqa: S310  the URL comes from the suite
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310  likewise
            document = json.load(response)
    except (URLError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _said(text: str, *, failed: bool = False) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], **({"isError": True} if failed else {})}


def _connect(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    user, host = inbound.session.user, inbound.session.host
    if not host or inbound.revision in LEGACY[:3]:
        return _said("there are no pages", failed=True)
    id = secrets.token_hex(16)
    if "requestState" not in inbound.params:
        inbound.server.state.accounts.pop(user, None)
        inbound.server.state.pending_accounts[id] = (user, str(arguments.get("third_party")))
    url = f"http://{host}/connect?{urlencode({'visit': id, 'user': digest(user)})}"
    params: JsonObject = {"mode": "url", "message": "Connect your account.", "url": url}
    if not inbound.modern:
        params["elicitationId"] = id
    return _said(str(request_input(inbound, {"page": ("elicitation/create", params)})["page"].get("action")))


def _account(inbound: InboundRequest, _: JsonObject) -> JsonObject:
    user, accounts = inbound.session.user, inbound.server.state.accounts
    if user not in accounts:
        return _said("no account is connected", failed=True)
    third_party, token = accounts[user]
    headers = inbound.server.fault.upstream_headers("account", user, {"Authorization": f"Bearer {token}"})
    found = _fetch(f"{third_party}/account", headers)
    if found is None:
        return _said("the third party does not respond", failed=True)
    return _said(inbound.server.fault.account(str(found.get("name")), token))


def _upstream(inbound: InboundRequest, arguments: JsonObject) -> JsonObject:
    headers = inbound.server.fault.upstream_headers("upstream", inbound.session.user, {})
    _fetch(str(arguments.get("url")), headers)
    return _said("requested")


PAGE_CALLS: Final[Mapping[str, Callable[[InboundRequest, JsonObject], JsonObject]]] = {
    "conformance_connect": _connect,
    "conformance_account": _account,
    "conformance_upstream": _upstream,
}

PAGE_TOOLS: Final[list[JsonObject]] = [
    {"name": name, "description": "Uses a third party", "inputSchema": {"type": "object"}} for name in PAGE_CALLS
]
