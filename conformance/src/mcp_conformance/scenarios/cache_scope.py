"""The scenario of a client with two users, whose private results differ (2026-07-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.features import text_result, tool
from mcp_conformance.drivers.client.http_host import PostSink
from mcp_conformance.drivers.client.scripted_request import ErrorReply
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.fetches import FRESH
from mcp_conformance.scenarios.results import add_report
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import MODERN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

    Handler = Callable[[ScriptedRequest], Awaitable[JsonObject]]

__all__ = ["SCOPE_SCENARIOS", "TWO_USERS", "USERS", "own_names", "own_text", "user_of"]

TWO_USERS: Final = "conformance_two_users"
"""The name of the scenario."""
USERS: Final[Mapping[str, str]] = {"ann": "access-token-of-ann", "ben": "access-token-of-ben"}
"""The users, and the access token of each."""

_SHARED_URI: Final = "test://notes"
"""A resource that each user can read, with contents of the user."""


def user_of(authorization: str | None) -> str | None:
    """Return the user of the token in an Authorization header; `None` if it has no token of a user."""
    return next((user for user, token in USERS.items() if authorization == f"Bearer {token}"), None)


def own_names(user: str) -> frozenset[str]:
    """Return the name of the tool and the URI of the resource that only the lists of this user have."""
    return frozenset({f"notes_of_{user}", f"{_SHARED_URI}/{user}"})


def own_text(user: str) -> str:
    """Return the text that only this user receives."""
    return f"the notes of {user}"


def _sender(request: ScriptedRequest) -> str | None:
    sink = request.sink
    return user_of(sink.exchange.header("authorization")) if isinstance(sink, PostSink) else None


def _private(result: JsonObject) -> JsonObject:
    return {**result, "ttlMs": FRESH, "cacheScope": "private"}


def _two_users(setup: ScenarioSetup) -> None:
    """Serve tools and resources by user, and the same other lists to every client, all valid for an hour."""
    server = setup.server
    offers = server.offers

    async def tools(request: ScriptedRequest) -> JsonObject:
        user = _sender(request)
        own = [] if user is None else [tool(f"notes_of_{user}", "Returns the notes of the user")]
        return _private({"tools": [*offers.tools, *own]})

    async def call(request: ScriptedRequest) -> JsonObject:
        user = _sender(request)
        if user is not None and request.text("name") == f"notes_of_{user}":
            return text_result(own_text(user))
        return await offers.call(request)

    async def resources(request: ScriptedRequest) -> JsonObject:
        user = _sender(request)
        uris = [] if user is None else [_SHARED_URI, f"{_SHARED_URI}/{user}"]
        own: list[JsonValue] = [{"uri": uri, "name": uri} for uri in uris]
        return _private({"resources": [*offers.resources, *own]})

    async def read(request: ScriptedRequest) -> JsonObject:
        user, uri = _sender(request), request.text("uri")
        if not uri.startswith(_SHARED_URI):
            return await public_read(request)
        if user is None or uri not in (_SHARED_URI, f"{_SHARED_URI}/{user}"):
            raise ErrorReply(request.revision.resource_not_found, "unknown resource", {"uri": uri})
        return _private({"contents": [{"uri": uri, "mimeType": "text/plain", "text": own_text(user)}]})

    for method in ("prompts/list", "resources/templates/list", "resources/read"):
        right = server.handlers[method]

        async def public(request: ScriptedRequest, right: Handler = right) -> JsonObject:
            return {**await right(request), "ttlMs": FRESH, "cacheScope": "public"}

        server.handlers[method] = public
    public_read = server.handlers["resources/read"]
    own = {"tools/list": tools, "tools/call": call, "resources/list": resources, "resources/read": read}
    server.handlers.update(own)
    add_report(offers)


SCOPE_SCENARIOS: Final = (
    Scenario(
        name=TWO_USERS,
        title="Tools and resources that are private to each of two users, and lists that are the same for both.",
        prepare=_two_users,
        revisions=frozenset(MODERN),
        transports=frozenset({Transport.HTTP}),
        # The first user comes back, so that what the second one received is not served to the first one either.
        context={"access_tokens": [USERS["ann"], USERS["ben"], USERS["ann"]]},
    ),
)
"""The scenarios, in order."""
