"""Operators on the metadata that clients register."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from mutants.generated.logins.json_objects import changes
from mutants.generated.logins.operator import FIRST, LEGACY, RequestMutation, login_operator, login_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.generated.fault import Operator
    from mutants.generated.login_proxy import LoginRequest

__all__ = ["REGISTRATION_OPERATORS"]


_REGISTERED: Final[Mapping[str, tuple[str, Callable[[JsonObject], None]]]] = {
    "redirects-absent": ("no redirect URI is registered", changes(redirect_uris=None)),
    "redirects-plain": (
        "a redirect URI uses http on another machine",
        lambda held: held.update(redirect_uris=["http://192.0.2.1/callback"]),
    ),
    "type-absent": ("`application_type` is absent", changes(application_type=None)),
    "type-case": ("`application_type` is in another case", lambda held: held.update(application_type="Native")),
    "type-web": (
        "a client on this machine registers as a web client",
        lambda held: held.update(application_type="web"),
    ),
    "grants-absent": ("`grant_types` is absent", changes(grant_types=None)),
}
"""The changes of a registration."""


def _registration(change: Callable[[JsonObject], None], request: LoginRequest) -> LoginRequest:
    document = request.document
    change(document)
    return attrs.evolve(request, body=json.dumps(document).encode())


def _operators() -> Iterable[Operator]:
    for name, (summary, register) in _REGISTERED.items():
        without = LEGACY if name.startswith(("type-", "grants-")) else (FIRST,) if name == "redirects-absent" else ()
        yield login_operator(
            f"register-{name}",
            summary,
            login_targets("register", without=without),
            partial(RequestMutation, "register", partial(_registration, register)),
        )


REGISTRATION_OPERATORS: Final = tuple(_operators())
"""The operators on registrations."""
