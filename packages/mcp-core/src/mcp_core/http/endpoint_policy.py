"""Settings of an HTTP endpoint: what it allows and prefers. The defaults are secure.

Spec: basic/transports#security-warning, basic/transports/streamable-http (2026-07-28).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.http.origin import LOOPBACK_HOSTS, check_allowed

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EndpointPolicy"]

_HOSTS: Final[tuple[str, ...] | None] = LOOPBACK_HOSTS


def _listed(
    attribute: attrs.Attribute[tuple[str, ...]] | attrs.Attribute[tuple[str, ...] | None], value: object
) -> None:
    # A single string is iterable too: it would allow names of one letter instead of the intended name.
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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class EndpointPolicy(FieldValue):
    """The settings of one endpoint.

    Raises:
        TypeError: A setting has the wrong type.
        ValueError: A setting is out of range.
    """

    allowed_hosts: tuple[str, ...] | None = attrs.field(default=_HOSTS, validator=_check_hosts)
    """Host names of the server, for example `mcp.example` or `mcp.example:8443`: the allowed values of `Host`. The
    default is the loopback names of this machine. `None` disables the check. Then any web page whose host name resolves
    to the server (DNS rebinding) can send requests to a server on a loopback address or in a private network."""
    allowed_origins: tuple[str, ...] = attrs.field(default=(), validator=_check_origins)
    """Origins of web pages that may use the endpoint from a browser, for example `https://app.example`, in addition to
    the endpoint's own host and port. Only these origins receive CORS headers."""
    answer: Literal["json", "stream"] = attrs.field(default="json", validator=_check_answer)
    """The form of a response if the client accepts both. With `json` the response still becomes a stream with the first
    notification, or after `stream_after`."""
    stream_after: float = attrs.field(default=5.0, validator=_seconds(zero=True))
    """Time after which a pending response becomes a stream, in seconds, so that proxies do not close an idle
    connection. `math.inf` disables it."""
    keep_alive: float = attrs.field(default=15.0, validator=_seconds())
    """Time without data on a stream after which a comment is sent, in seconds. Proxies close idle streams after 30 to
    60."""
    retry: float = attrs.field(default=1.0, validator=_seconds(zero=True))
    """Time that a client is asked to wait before it fetches the rest of a stream that was closed early, in seconds."""
    session_idle: float = attrs.field(default=1_800.0, validator=_seconds())
    """Time after which an unused session of a legacy client ends, in seconds. The time does not run while a request of
    the session is in progress."""
