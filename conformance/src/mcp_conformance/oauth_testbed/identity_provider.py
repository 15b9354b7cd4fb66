"""An identity provider that exchanges an ID token for an ID-JAG, the first step of enterprise-managed authorization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.oauth_testbed.http_messages import Response, json_response, single

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from mcp_conformance.oauth_testbed.http_messages import Request
    from mcp_conformance.oauth_testbed.registered_clients import Clients
    from mcp_conformance.oauth_testbed.violations import ViolationRecorder
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["IdentityProvider"]

_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"


@attrs.define(kw_only=True)
class IdentityProvider:
    """An identity provider."""

    audience: str
    """The issuer of the authorization server for which it issues assertions."""
    resources: AbstractSet[str]
    """The resources for which it issues assertions."""
    server: str
    """The origin of that authorization server."""
    recorder: ViolationRecorder
    """The recorded violations."""
    clients: Clients
    """The registered clients."""
    assertions: dict[str, str]
    """The assertions that the authorization server trusts; new ones are added."""
    id_token: str = attrs.field(repr=False)
    """The ID token of the employee."""

    def answer(self, request: Request, now: float) -> Response:
        """Respond to a token exchange request."""
        form, expect = single(request.form), self.recorder.expect
        if request.path != "/token" or request.method != "POST":
            return Response(status=404)
        names = [name for name, _ in request.form]
        expect(len(names) == len(set(names)), "auth.oauth21-security", "a token exchange has a field twice")
        _, proved = self.clients.authenticate(request, now=now, needed=True)
        if not expect(proved, "ema.client-auth-at-idp", "the exchange is not authenticated"):
            return json_response({"error": "invalid_client"}, 401)
        wanted: tuple[tuple[str, AbstractSet[str | None], str], ...] = (
            ("grant_type", {_EXCHANGE}, "ema.token-exchange"),
            ("requested_token_type", {_ID_JAG}, "ema.requested-token-type"),
            ("audience", {self.audience}, "ema.audience"),
            # Optional in the stable text, required in its draft.
            ("resource", {None, *self.resources}, "ema.resource"),
            ("subject_token", {self.id_token}, "ema.subject-token"),
            ("subject_token_type", {_ID_TOKEN}, "ema.subject-token"),
        )
        good = [
            expect(form.get(name) in values, requirement, f"{name} is wrong") for name, values, requirement in wanted
        ]
        if not all(good):
            return json_response({"error": "invalid_request"}, 400)
        assertion = self.recorder.new("id-jag", self.server)
        self.assertions[assertion] = "ema.access-token-grant"
        typed: JsonObject = {"issued_token_type": _ID_JAG, "token_type": "N_A", "expires_in": 300}
        return json_response({"access_token": assertion, **typed})
