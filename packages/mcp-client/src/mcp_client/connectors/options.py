"""The settings of a connection that most applications leave at their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.limits import CLIENT_LIMITS, Limits
from mcp_core.types import Implementation

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from mcp_client.connection.message_observer import OnMessage
    from mcp_client.connection.response_cache import ResponseCache
    from mcp_client.features.output_schema import OutputPolicy
    from mcp_core.engine.connection import Extensions
    from mcp_core.engine.events import ServerPeer
    from mcp_core.trio.http_client.tls import Tls

__all__ = ["DEFAULT_HTTP_OPTIONS", "DEFAULT_OPTIONS", "ClientOptions", "HttpOptions"]

DEFAULT_INFO: Final = Implementation(name="mcp-client", version="0.1.0")
"""The default name and version of a client."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientOptions(FieldValue):
    """Settings of a client, for each transport."""

    info: Implementation = DEFAULT_INFO
    """The name and the version of the client."""
    limits: Limits = CLIENT_LIMITS
    """The limits of the client."""
    validate_output: OutputPolicy = "warn"
    """Whether a structured result that violates the output schema of its tool raises an error, is logged as a warning, or
    is not validated. Only tools that `Client.list_tools` returned are validated. A result that cannot be validated,
    because the schema uses an unknown dialect or an external reference, is an error or a warning too."""
    extensions: Extensions | None = None
    """Methods and notifications beyond the specification."""
    cache: ResponseCache | bool = True
    """Whether to reuse a result for requests with the same headers, for the time that the server allows (2026-07-28). Or a
    `ResponseCache` that shares public results with other clients, over HTTP. `Client.fresh` bypasses the cache."""
    on_message: OnMessage | None = None
    """Called with each message of the connection, from the first one of the handshake: `"sent"` or `"received"`, and the
    message as JSON. It must not block. Messages can contain secrets; headers are not passed. A line of a server process
    that is not a message is passed too."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HttpOptions(FieldValue):
    """Settings of a client over HTTP."""

    tls: ssl.SSLContext | Tls | None = None
    """The trusted certificates and the client certificate. `None` for the certificates that the system trusts, and no
    client certificate."""
    proxies: Mapping[str, str] | Literal[False] | None = None
    """The URLs of proxies by `http`, `https` and `all`, and in `no` the hosts to connect to directly. `None` for the
    proxies of the environment variables (`HTTPS_PROXY` and similar). `False` for no proxies."""
    server: ServerPeer | None = None
    """`Client.server` of another connection to the same server. The client then skips the discovery of a modern server."""
    on_session_lost: Callable[[], None] | None = None
    """Called when a legacy server lost the session and the client opened a new one. State that the server kept in the old
    session is lost. The client restores the subscriptions and the log level."""


DEFAULT_OPTIONS: Final = ClientOptions()
DEFAULT_HTTP_OPTIONS: Final = HttpOptions()
