"""The raw client with a login: like `mutants.raw_client` over Streamable HTTP, with a token if required."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from mutants.client.fetch import fetch
from mutants.client.http import ModernHttp, SessionHttp
from mutants.client.login import Login
from mutants.client.messages import LATEST_LEGACY, MODERN, ClientError, UnsupportedRevision, in_scenario, wrong

if TYPE_CHECKING:
    import http.client

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["main"]

_MANAGED: Final = "io.modelcontextprotocol/enterprise-managed-authorization"


class _Modern(ModernHttp):
    """A modern server that may require a token."""

    def __init__(self, url: str, login: Login) -> None:
        super().__init__(url)
        self._login = login

    def send(self, method: str, headers: dict[str, str], body: bytes | None = None) -> http.client.HTTPResponse:
        """Send a request, with a token as soon as the client has one."""
        while True:
            subscribes = body is not None and b"subscriptions/listen" in body
            self.query = self._login.subscription_query if subscribes else self._login.query
            named = {**headers, **self._login.headers(method)}
            response = super().send(method, named, body)
            if response.status == 307 and wrong("follows-with-token"):
                fetch(method, response.headers["Location"], named, body)
            if not _again(self._login, response):
                return response

    def post(self, message: JsonObject) -> http.client.HTTPResponse:
        """Post a message."""
        return super().post(_declared(message))


class _Session(SessionHttp):
    """A legacy server that may require a token."""

    def __init__(self, url: str, version: str, login: Login) -> None:
        super().__init__(url, version)
        self._login = login

    def send(self, method: str, headers: dict[str, str], body: bytes | None = None) -> http.client.HTTPResponse:
        """Send a request, with a token as soon as the client has one."""
        if wrong("refreshes-at-once") and body is not None and b"notifications/initialized" in body:
            stream = {name: value for name, value in headers.items() if name != "Content-Type"}
            beside = threading.Thread(target=self.send, args=("GET", stream))
            beside.start()
            response = self._send(method, headers, body)
            beside.join()
            return response
        return self._send(method, headers, body)

    def _send(self, method: str, headers: dict[str, str], body: bytes | None) -> http.client.HTTPResponse:
        if wrong("listens-without-token") and body is not None and b"tools/list" in body:
            super().send("GET", {name: value for name, value in headers.items() if name != "Content-Type"}).close()
        while True:
            self.query = self._login.query
            named = {**headers, **self._login.headers(method)}
            if "Last-Event-ID" in headers and wrong("resumes-without-token"):
                named = headers
            response = super().send(method, named, body)
            if response.status == 307 and wrong("follows-with-token"):
                fetch(method, response.headers["Location"], named, body)
            if not _again(self._login, response):
                return response


def _again(login: Login, response: http.client.HTTPResponse) -> bool:
    if response.status not in (401, 403):
        login.went_well()
        return False
    response.read()
    headers = {name.lower(): value for name, value in response.getheaders()}
    lines = [value for name, value in response.getheaders() if name.lower() == "www-authenticate"] or [""]
    if wrong("header-required") and "www-authenticate" not in headers:
        raise ClientError("the server does not say how to log in")
    lines = lines[-1:] if wrong("last-header-only") else lines[:1] if wrong("first-header-only") else lines
    headers["www-authenticate"] = ", ".join(lines)
    if not login.answer(response.status, headers):
        raise ClientError(f"status {response.status}")
    return True


def _declared(message: JsonObject) -> JsonObject:
    """Return the message with the extension that the client declares."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(meta, dict) or wrong("employee-undeclared"):
        return message
    scenario = "auth/enterprise-managed-authorization"
    if not in_scenario(scenario) and not in_scenario(f"{scenario}-secret"):
        return message
    name = "io.modelcontextprotocol/clientCapabilities"
    known = meta.get(name)
    capabilities: JsonObject = {**(known if isinstance(known, dict) else {}), "extensions": {_MANAGED: {}}}
    return {**message, "params": {**params, "_meta": {**meta, name: capabilities}}}


def _visit(url: str, version: str, context: JsonObject) -> None:
    login = Login(url, version, context)
    if wrong("legacy-after-401") and version == MODERN:
        probe = ModernHttp(url)
        if probe.post(probe.messages.request("server/discover", {})).status == 401:
            version = LATEST_LEGACY
    wire = _Modern(url, login) if version == MODERN else _Session(url, version, login)
    try:
        capabilities = wire.open()
        if wrong("insists") and not login.headers("POST"):
            raise ClientError("the server requires no token")
        if not in_scenario("initialize"):
            found = wire.call("tools/list", {}).get("tools")
            for tool in found if isinstance(found, list) else []:
                wire.call("tools/call", {"name": tool["name"] if isinstance(tool, dict) else "", "arguments": {}})
            tools = capabilities.get("tools")
            if version == MODERN and isinstance(tools, dict) and tools.get("listChanged"):
                wire.call("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    finally:
        wire.close()
        login.revoke()


def main() -> int:
    """Run the client and return the exit status: 0 when it did everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault")
    parser.add_argument("--url", required=True)
    given = parser.parse_args()
    context: JsonValue = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", MODERN)
    try:
        _visit(given.url, version, context if isinstance(context, dict) else {})
    except (UnsupportedRevision, ClientError) as failed:
        print(f"raw client: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
