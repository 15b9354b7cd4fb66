"""The revocation endpoint (RFC 7009): the one place, apart from the MCP server, that a client sends its access token to.

RFC 7009 has no default URL: section 2 requires that the client learns the URL from a trustworthy source, which are the
metadata of the authorization server. RFC 8414 has `revocation_endpoint` as an optional member. So if the metadata
announce no endpoint, or are not found, the server has no such endpoint for clients: to guess its URL is a leak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.oauth_testbed.http_messages import Response, json_response, single

if TYPE_CHECKING:
    from mcp_conformance.oauth_testbed.http_messages import Request
    from mcp_conformance.oauth_testbed.registered_clients import Clients
    from mcp_conformance.oauth_testbed.token_endpoint import TokenEndpoint
    from mcp_conformance.oauth_testbed.violations import ViolationRecorder

__all__ = ["RevocationEndpoint"]

_FORM: Final = "application/x-www-form-urlencoded"


@attrs.define(kw_only=True)
class RevocationEndpoint:
    """The revocation endpoint of one authorization server."""

    url: str | None
    """The URL in the metadata; `None` if a client cannot know any."""
    recorder: ViolationRecorder
    """The recorded violations."""
    clients: Clients
    """The registered clients."""
    tokens: TokenEndpoint
    """The token endpoint that issued the tokens."""

    def shown_by(self, request: Request) -> str:
        """Return the body of a request without an access token of this server that it rightly contains."""
        body = request.body.decode("latin-1")
        fields = request.form
        right = request.method == "POST" and request.place == self.url and request.media_type == _FORM
        if not right or single(fields).get("token") not in self.tokens.texts:
            return body
        names = [name for name, _ in fields]
        kept = [(name, "" if index == names.index("token") else value) for index, (name, value) in enumerate(fields)]
        return " ".join(f"{name}={value}" for name, value in kept)

    def answer(self, request: Request, now: float) -> Response:
        """Respond to a revocation request. The revocation of a token revokes all tokens of its authorization."""
        form, names = single(request.form), [name for name, _ in request.form]
        expect = self.recorder.expect
        expect(len(names) == len(set(names)), "auth.oauth21-security", "a revocation request has a field twice")
        if request.method != "POST" or request.media_type != _FORM:
            return json_response({"error": "invalid_request"}, 400)
        client, proved = self.clients.authenticate(request, now=now, needed=False)
        if client is None or not proved:
            return json_response({"error": "invalid_client"}, 401)
        token = self.tokens.find(form.get("token", ""))
        if token is not None and token.client_id != client.client_id:
            return json_response({"error": "invalid_grant"}, 400)
        if token is not None:
            self.tokens.revoke(token.family)
        # Also for an unknown token, whose purpose is reached (section 2.2).
        return Response(status=200)
