"""What an HTTP endpoint allows and prefers: the settings of whoever runs it. Secure as it stands.

Spec: basic/transports#security-warning, basic/transports/streamable-http (2026-07-28).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import attrs

from mcp_core.http.origin import LOOPBACK_HOSTS, check_allowed

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EndpointPolicy"]

_HOSTS: Final[tuple[str, ...] | None] = LOOPBACK_HOSTS


def _listed(
    attribute: attrs.Attribute[tuple[str, ...]] | attrs.Attribute[tuple[str, ...] | None], value: object
) -> None:
    # A lone string is iterable too: it would allow names of one letter, and not the one that is meant.
    if not isinstance(value, tuple) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"EndpointPolicy.{attribute.name} must be a tuple of strings, not {value!r}")


def _check_hosts(
    _: EndpointPolicy, attribute: attrs.Attribute[tuple[str, ...] | None], value: tuple[str, ...] | None
) -> None:
    if value is not None:
        _listed(attribute, value)
        check_allowed(value, ())


def _check_origins(_: EndpointPolicy, attribute: attrs.Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    _listed(attribute, value)
    check_allowed(None, value)


def _check_answer(_: EndpointPolicy, attribute: attrs.Attribute[str], value: str) -> None:
    if value not in ("json", "stream"):
        raise ValueError(f'EndpointPolicy.{attribute.name} must be "json" or "stream", not {value!r}')


def _seconds(*, zero: bool = False) -> Callable[[EndpointPolicy, attrs.Attribute[float], float], None]:
    def check(_: EndpointPolicy, attribute: attrs.Attribute[float], value: float) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"EndpointPolicy.{attribute.name} must be a number of seconds, not {value!r}")
        if math.isnan(value) or value < 0 or (value == 0 and not zero):
            least = "at least" if zero else "more than"
            raise ValueError(f"EndpointPolicy.{attribute.name} must be {least} 0 seconds, not {value!r}")

    return check


@attrs.frozen(kw_only=True)
class EndpointPolicy:
    """The settings of one endpoint.

    Raises:
        TypeError: A setting is of the wrong type.
        ValueError: A setting is out of its range.
    """

    allowed_hosts: tuple[str, ...] | None = attrs.field(default=_HOSTS, validator=_check_hosts)
    """The names by which clients may call the server, as `mcp.example` or `mcp.example:8443`: what `Host` must be. The
    names of this machine unless told otherwise. `None` checks nothing, and leaves a server on a loopback address or in
    an inner network open to any web page whose name is made to point at it."""
    allowed_origins: tuple[str, ...] = attrs.field(default=(), validator=_check_origins)
    """Web pages that may use the endpoint from a browser, as `https://app.example`, besides those of the endpoint's own
    host and port. They, and no others, get CORS headers."""
    answer: Literal["json", "stream"] = attrs.field(default="json", validator=_check_answer)
    """The form of an answer where the client takes both. `json` still becomes a stream with the first notification, or
    after `stream_after`."""
    stream_after: float = attrs.field(default=5.0, validator=_seconds(zero=True))
    """Seconds after which an answer that is not there yet becomes a stream, so that proxies see life; `math.inf` for
    never."""
    keep_alive: float = attrs.field(default=15.0, validator=_seconds())
    """Seconds of silence on a stream after which a comment is sent: less than the 30 to 60 after which proxies end it."""
    retry: float = attrs.field(default=1.0, validator=_seconds(zero=True))
    """Seconds that a client is told to wait before it comes back for the rest of a stream that was closed early."""
    session_idle: float = attrs.field(default=1_800.0, validator=_seconds())
    """Seconds after which a session of a legacy client ends that nobody used. While one of its requests runs, the time
    stands still."""
