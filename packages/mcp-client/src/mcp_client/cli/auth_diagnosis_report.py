"""The report of `mcp-client diagnose-auth`, as JSON or as lines of text. The report contains no secrets.

The query of the server's URL and the values of headers from the command line are masked. The diagnosis has no tokens
and no codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from mcp_core.errors import (
    AuthorizationError,
    DiscoveryFailed,
    IssuerMismatch,
    McpError,
    RegistrationFailed,
    UnsafeUrl,
)
from mcp_core.oauth.steps import Register

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp_client.cli.auth_diagnosis import Diagnosis
    from mcp_client.cli.output import Screen
    from mcp_client.connectors.stdio import Connector
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.discovery import DiscoveryResult

__all__ = ["diagnose"]

_MASK: Final = "***"
_SERVER_URL: Final = "server URL"
"""The name of the initial URL in errors of authorization server discovery."""


async def diagnose(
    connector: Connector, diagnosis: Diagnosis, screen: Screen, *, url: str, secrets: Iterable[str]
) -> bool:
    """Connect, run the diagnosis, and show its report.

    Args:
        connector: A connection with the diagnosis as its `auth`.
        diagnosis: The diagnosis.
        screen: The output.
        url: The URL of the server.
        secrets: Texts to mask.

    Returns:
        Whether a login would reach the browser, or the server does not require one.
    """
    connected = False
    try:
        async with connector as client:
            connected = True
            if client.capabilities.tools is not None:
                # Some servers accept `initialize` without a token, but not the requests that follow.
                await client.list_tools()
    except McpError as error:
        if not connected and not diagnosis.refused:
            diagnosis.error = error
    if diagnosis.error is None:
        await diagnosis.run()
        if not diagnosis.refused and diagnosis.found is None:
            diagnosis.error = None
    report = _masked(_report(diagnosis, url), [*secrets, url.partition("?")[2]])
    assert isinstance(report, dict)  # noqa: S101  # the masked value is a dict too
    if screen.json:
        screen.data(report)
    else:
        _show(report, screen)
    return diagnosis.error is None


def _masked(value: JsonValue, secrets: Sequence[str]) -> JsonValue:
    if isinstance(value, str):
        for secret in filter(None, secrets):
            value = value.replace(secret, _MASK)
        return value
    if isinstance(value, list):
        return [_masked(each, secrets) for each in value]
    if isinstance(value, dict):
        return {name: _masked(each, secrets) for name, each in value.items()}
    return value


def _report(diagnosis: Diagnosis, url: str) -> JsonObject:
    found, requested = diagnosis.found, dict.fromkeys(diagnosis.answers)
    wanted = "wanted" if diagnosis.refused else "unknown" if diagnosis.error and found is None else "not wanted"
    report: JsonObject = {
        "server": url,
        "authorization": wanted,
        "asked": [{"operation": operation, "status": status} for operation, status in requested],
        "challenge": _challenge(diagnosis),
        "tried": _tried(diagnosis),
    }
    if found is not None:
        resource = found.protected_resource
        report["resource"] = None if resource is None else resource.to_json()
        report["issuer"] = {
            "named": [] if resource is None else [*(resource.authorization_servers or ())],
            "found": found.server.issuer,
        }
        report["authorization_server"] = found.server.to_json()
    report["registration"] = diagnosis.registration
    if diagnosis.sent_to is not None:
        query = parse_qs(urlsplit(diagnosis.sent_to).query)
        report["request"] = {
            "endpoint": diagnosis.sent_to.partition("?")[0],
            "scope": query.get("scope", [""])[0],
            "resource": query["resource"][0],
            "pkce": query["code_challenge_method"][0],
        }
    error = diagnosis.error
    report["could_log_in"] = error is None
    if error is not None:
        setting = _setting(error, found)
        report["problem"] = {"type": type(error).__name__, "message": error.message, "setting": setting}
    return report


def _challenge(diagnosis: Diagnosis) -> JsonValue:
    challenge = diagnosis.challenge
    if challenge is None:
        return None
    known = ("resource_metadata", "scope", "error", "error_description")
    named: JsonObject = {name: challenge.parameters[name] for name in known if name in challenge.parameters}
    return {"scheme": challenge.scheme, **named}


def _tried(diagnosis: Diagnosis) -> list[JsonValue]:
    """Return every URL attempt except the registration, which was not performed."""
    attempts = [] if diagnosis.flow is None else diagnosis.flow.discovery.attempts
    return [
        {"url": each.url, "why": each.why, "status": diagnosis.statuses.get(each.url), "verdict": each.verdict}
        for each in attempts
        if each.why != Register.why
    ]


_SETTINGS: Final[tuple[tuple[type[McpError], str], ...]] = (
    (IssuerMismatch, "If the issuer in the document is the right one, set OAuth(authorization_server=...)."),
    (UnsafeUrl, "To allow URLs of peers in more networks, set OAuth(networks=...)."),
    (
        RegistrationFailed,
        "Register the client manually and set OAuth(credentials=[ClientRecord(client_id=..., issuer=...)]), or publish "
        "its metadata and set ClientSettings(metadata_url=...). On a terminal, `mcp-client` prompts for a client id.",
    ),
)


def _setting(error: McpError, found: DiscoveryResult | None) -> str | None:
    """Return advice on a setting that may prevent the error, or `None`."""
    if isinstance(error, UnsafeUrl) and error.what == _SERVER_URL:
        return "Tokens require https or a server on this machine; no setting changes that."
    for kind, setting in _SETTINGS:
        if isinstance(error, kind):
            return setting
    if not isinstance(error, DiscoveryFailed):
        return None if isinstance(error, AuthorizationError) else "The server did not respond, so a login is unknown."
    if found is None:
        return "If you know the authorization server, set OAuth(authorization_server=...)."
    resource = found.protected_resource
    if resource is not None and resource.dpop_bound_access_tokens_required:
        return "Bind tokens to a key of the client: set OAuth(proof=Dpop(PrivateKey.generate()))."
    return "No client setting can prevent this; the authorization server must change."


# --- text output -----------------------------------------------------------------------------------------------------


def _show(report: JsonObject, screen: Screen) -> None:
    def row(name: str, text: str) -> None:
        screen.text(f"{name:<13} {text}")

    row("server", _text(report["server"]))
    for each in _objects(report["asked"]):
        row("asked", f"{_text(each['operation'])}: {_text(each['status'])}")
    row("authorization", _text(report["authorization"]))
    challenge = report["challenge"]
    if isinstance(challenge, dict):
        parameters = [f"{name} {_text(value)}" for name, value in challenge.items() if name != "scheme"]
        row("challenge", ", ".join([_text(challenge["scheme"]), *parameters]))
    for each in _objects(report["tried"]):
        status = "---" if each["status"] is None else _text(each["status"])
        row("tried", f"{status} {_text(each['url'])} ({_text(each['why'])}): {_text(each['verdict'])}")
    issuer = report.get("issuer")
    if isinstance(issuer, dict):
        named = issuer["named"]
        same = isinstance(named, list) and issuer["found"] in named
        row(
            "issuer",
            f"{_text(issuer['found'])}, {'as named by the server' if same else 'not named by the server'}",
        )
    if report["registration"] is not None:
        row("registration", _text(report["registration"]))
    request = report.get("request")
    if isinstance(request, dict):
        row("browser", f"would open {_text(request['endpoint'])}")
        row("scope", _text(request["scope"]) or "none requested")
        row("resource", _text(request["resource"]))
        row("PKCE", _text(request["pkce"]))
    problem = report.get("problem")
    if isinstance(problem, dict):
        row("verdict", f"a login would fail: {_text(problem['message'])}")
        if problem["setting"] is not None:
            row("setting", _text(problem["setting"]))
    elif report["authorization"] == "not wanted":
        row("verdict", "the server does not require a token")
    else:
        row("verdict", "login would reach the browser; user consent is required from there")


def _text(value: JsonValue) -> str:
    return str(value)


def _objects(value: JsonValue) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
