"""Operators on the URLs at which clients request metadata."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import attrs

from mutants.generated.login_proxy import LoginMutation
from mutants.generated.logins.operator import FIRST, MODERN, OLD, RequestMutation, login_operator, login_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mutants.generated.fault import Operator
    from mutants.generated.login_proxy import LoginRequest

__all__ = ["DISCOVERY_OPERATORS", "OAUTH", "OPENID", "PRM"]


PRM: Final = "/.well-known/oauth-protected-resource"
OAUTH: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"


def _moved(change: Callable[[str], str]) -> Callable[[LoginRequest], LoginRequest]:
    """Change the path of a request."""

    def changed(request: LoginRequest) -> LoginRequest:
        path = urlsplit(request.url).path
        return attrs.evolve(request, url=request.url.replace(path, change(path), 1))

    return changed


def _appended(well: str) -> Callable[[str], str]:
    """Put the well-known part behind the path, where it is inserted before."""
    return lambda path: f"{path.removeprefix(well)}{well}" if path.startswith(well) and path != well else path


_URLS_OF_METADATA: Final[tuple[tuple[str, str, str, Callable[[LoginRequest], LoginRequest], tuple[str, ...]], ...]] = (
    (
        "resource-root",
        "resource-metadata",
        "the resource metadata are requested only at the root",
        _moved(lambda path: PRM if path.startswith(PRM) else path),
        (FIRST,),
    ),
    (
        "resource-appended",
        "resource-metadata",
        "the path of the server comes before the well-known path",
        _moved(_appended(PRM)),
        (FIRST,),
    ),
    (
        "resource-slash",
        "resource-metadata",
        "the well-known URL has a trailing slash",
        _moved(lambda path: f"{path}/"),
        (FIRST,),
    ),
    (
        "server-root",
        "server-metadata",
        "the path of the issuer is dropped",
        _moved(lambda path: next((well for well in (OAUTH, OPENID) if well in path), path)),
        OLD,
    ),
    (
        "server-appended",
        "server-metadata",
        "the path of the issuer comes before the well-known path",
        _moved(_appended(OAUTH)),
        OLD,
    ),
    (
        "server-openid-only",
        "server-metadata",
        "only OpenID Connect metadata are requested",
        _moved(lambda path: path.replace(OAUTH, OPENID)),
        (),
    ),
    (
        "server-oauth-only",
        "server-metadata",
        "only RFC 8414 metadata are requested",
        _moved(lambda path: path.replace(OPENID, OAUTH)),
        OLD,
    ),
    (
        "version-absent",
        "server-metadata",
        "the request has no MCP-Protocol-Version",
        lambda request: request.with_header("MCP-Protocol-Version"),
        ("2025-06-18", "2025-11-25", MODERN),
    ),
    (
        "version-other",
        "server-metadata",
        "the request has another MCP-Protocol-Version",
        lambda request: request.with_header("MCP-Protocol-Version", "2024-11-05"),
        ("2025-06-18", "2025-11-25", MODERN),
    ),
)
"""Where metadata are requested, and the revisions that do not define it."""


class _Early(LoginMutation):
    """The mutation that requests metadata at another URL first.

    Args:
        kind: The kind of metadata.
        change: Returns the other path.
    """

    def __init__(self, kind: str, change: Callable[[str], str]) -> None:
        self._kind: Final = kind
        self._change: Final = change

    def login_before(self, request: LoginRequest) -> list[LoginRequest]:
        """Return the request that comes first."""
        changed = _moved(self._change)(request)
        return [changed] if request.kind == self._kind and changed != request else []


def _operators() -> Iterable[Operator]:
    for name, kind, summary, change, without in _URLS_OF_METADATA:
        yield login_operator(
            f"metadata-{name}", summary, login_targets(kind, without=without), partial(RequestMutation, kind, change)
        )
    early: tuple[tuple[str, str, str, Callable[[str], str], tuple[str, ...]], ...] = (
        ("resource-root-first", "resource-metadata", "the root is tried first", lambda _: PRM, OLD),
        (
            "server-openid-first",
            "server-metadata",
            "OpenID Connect metadata are tried first",
            lambda path: path.replace(OAUTH, OPENID),
            OLD,
        ),
    )
    for name, kind, summary, earlier, without in early:
        yield login_operator(
            f"metadata-{name}", summary, login_targets(kind, without=without), partial(_Early, kind, earlier)
        )


DISCOVERY_OPERATORS: Final = tuple(_operators())
"""The operators on the URLs of metadata."""
