"""JSON objects in requests and responses of clients that log in: reading them and setting their members."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.generated.login_proxy import LoginReply

__all__ = ["changes", "json_of", "jwt_part", "setting", "with_json"]


def setting(part: str, **values: JsonValue) -> Callable[[JsonObject, JsonObject, str], None]:
    """Set members of the header or the claims of a JWT; `None` removes one."""

    def changed(header: JsonObject, claims: JsonObject, _: str) -> None:
        held = header if part == "header" else claims
        for name, value in values.items():
            if value is None:
                held.pop(name, None)
            else:
                held[name] = value

    return changed


def changes(**values: JsonValue) -> Callable[[JsonObject], None]:
    """Set members of a JSON object; `None` removes one."""
    return lambda claims: setting("claims", **values)({}, claims, "")


def jwt_part(token: str, index: int) -> JsonObject:
    """Return the header (0) or the claims (1) of a JWT."""
    part = token.split(".")[index]
    found: JsonObject = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def json_of(reply: LoginReply) -> JsonObject:
    """Return the JSON object in the body of a response; empty for another body."""
    try:
        found = json.loads(reply.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def with_json(reply: LoginReply, **members: object) -> LoginReply:
    """Return a response whose JSON object has other members; `None` removes one."""
    held = {**json_of(reply), **members}
    return attrs.evolve(
        reply, body=json.dumps({name: each for name, each in held.items() if each is not None}).encode()
    )
