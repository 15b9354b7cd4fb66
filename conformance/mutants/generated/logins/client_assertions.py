"""Operators on the JWTs with which clients authenticate."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from joserfc import jws
from joserfc.jwk import ECKey

from mutants.generated.login_proxy import LoginMutation, context
from mutants.generated.logins.json_objects import changes, jwt_part
from mutants.generated.logins.operator import login_operator, login_targets
from mutants.generated.logins.parameters import with_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.generated.fault import Operator
    from mutants.generated.login_proxy import LoginRequest

__all__ = ["CLIENT_ASSERTION_OPERATORS"]


class _AssertionMutation(LoginMutation):
    """A change of client assertions, signed with the key of the client."""

    def __init__(self, change: Callable[[JsonObject], None], *, key: ECKey | None = None) -> None:
        self._change: Final = change
        self._key: Final = key

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the request with the changed assertion."""
        held, pem = dict(request.fields).get("client_assertion"), context().get("private_key_pem")
        if request.kind != "token" or held is None or not isinstance(pem, str):
            return None
        header, claims = jwt_part(held, 0), jwt_part(held, 1)
        self._change(claims)
        changed = jws.serialize_compact(header, json.dumps(claims), self._key or ECKey.import_key(pem))
        return with_field("client_assertion", lambda name, _: [(name, changed)], request)


_ASSERTIONS: Final[tuple[tuple[str, str, Callable[[JsonObject], None]], ...]] = (
    ("iss-absent", "`iss` is absent", changes(iss=None)),
    ("iss-other", "`iss` is not the client id", changes(iss="other")),
    ("sub-absent", "`sub` is absent", changes(sub=None)),
    ("sub-other", "`sub` is not the client id", changes(sub="other")),
    ("aud-absent", "`aud` is absent", changes(aud=None)),
    ("aud-slash", "`aud` has a trailing slash", lambda claims: claims.update(aud=f"{claims['aud']}/")),
    ("aud-endpoint", "`aud` is the token endpoint", lambda claims: claims.update(aud=f"{claims['aud']}/token")),
    ("exp-absent", "`exp` is absent", changes(exp=None)),
    ("exp-past", "the assertion has expired", lambda claims: claims.update(exp=int(time.time()) - 60)),
    ("exp-text", "`exp` is a text", lambda claims: claims.update(exp=str(claims["exp"]))),
)
"""The changes of client assertions."""


def _operators() -> Iterable[Operator]:
    for name, summary, claims in _ASSERTIONS:
        yield login_operator(
            f"assertion-{name}",
            summary,
            login_targets("token", "client_assertion"),
            partial(_AssertionMutation, claims),
        )
    yield login_operator(
        "assertion-key-other",
        "the assertion is signed with another key",
        login_targets("token", "client_assertion"),
        partial(_AssertionMutation, lambda _: None, key=ECKey.generate_key("P-256")),
    )


CLIENT_ASSERTION_OPERATORS: Final = tuple(_operators())
"""The operators on client assertions."""
