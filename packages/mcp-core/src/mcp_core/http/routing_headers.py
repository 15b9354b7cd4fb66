"""Headers that repeat parts of a message, for intermediaries that do not read bodies. Clients write, servers compare.

    MCP-Protocol-Version   the revision, on each request
    Mcp-Method             the method
    Mcp-Name               the tool, prompt, resource or task of a request
    Mcp-Param-...          the header parameters of a tool (see `mcp_core.http.header_parameters`)

A gateway decides by the header and the server by the body. If they differed, a client could bypass the gateway's rules.
The error for a difference is a `HeaderMismatch`, which names the header, its value, and the value in the body.

*Values.* `Mcp-Name` and `Mcp-Param-...` carry any text. Text that a header cannot carry unchanged is written as
`=?base64?...?=` over UTF-8. The other two headers do not have or need such a form.

*Tolerated.* A notification may lack these headers, and so may a name that only an extension requires. For an argument
that a header cannot carry, such as an object instead of an integer, the server leaves the error to the validation of
the arguments, because that error is more helpful to the caller.

Spec: basic/transports/streamable-http#standard-request-headers, #value-encoding, #server-validation (2026-07-28)
"""

from __future__ import annotations

import base64
import binascii
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mcp_core.errors import HeaderMismatch, LocalProtocolError
from mcp_core.jsonrpc.messages import Request
from mcp_core.methods import METHODS
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_core.http.header_parameters import ParamHeader
    from mcp_core.http.messages import Headers
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue, Notification
    from mcp_core.methods import AnyRequestMethod
    from mcp_core.revisions import Revision

__all__ = [
    "LAST_EVENT_ID",
    "MCP_METHOD",
    "MCP_NAME",
    "MCP_PROTOCOL_VERSION",
    "MCP_SESSION_ID",
    "NAME_PARAMS",
    "decode_value",
    "encode_value",
    "mirrored",
    "mismatch",
    "name_params",
    "param_mismatch",
]

MCP_PROTOCOL_VERSION: Final = "mcp-protocol-version"
"""The revision, since 2025-06-18."""
MCP_METHOD: Final = "mcp-method"
"""The method (2026-07-28)."""
MCP_NAME: Final = "mcp-name"
"""The tool, prompt, resource or task of the request (2026-07-28)."""
MCP_SESSION_ID: Final = "mcp-session-id"
"""The session id, from 2025-03-26 to 2025-11-25."""
LAST_EVENT_ID: Final = "last-event-id"
"""The last received event of a stream, from 2025-03-26 to 2025-11-25."""

_SHOWN: Final = {MCP_PROTOCOL_VERSION: "MCP-Protocol-Version", MCP_METHOD: "Mcp-Method", MCP_NAME: "Mcp-Name"}
"""The header names as the specification spells them, for error messages."""

_ANCHOR: Final = "basic/transports/streamable-http#value-encoding"

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="
_BLANKS: Final = " \t"
_UNSAFE: Final = re.compile(r"[^\t\x20-\x7e]")
"""Characters that a header value must not contain: control characters except tab, and characters outside ASCII."""

_LARGEST: Final = 2**53 - 1
"""The largest integer that an implementation with double-precision numbers represents exactly."""
_INTEGER: Final = re.compile(r"(-?[0-9]{1,16})(?:\.0{1,16})?")
"""The texts of integers up to the largest: `42.0` is 42."""


def name_params(rows: Iterable[AnyRequestMethod]) -> Mapping[str, str]:
    """Return the member of the params that `Mcp-Name` repeats, for each method that has one.

    Args:
        rows: The methods of the protocol (`mcp_core.methods.METHODS`) or of further extensions.
    """
    return MappingProxyType(
        {definition.name: definition.name_param for definition in rows if definition.name_param is not None}
    )


NAME_PARAMS: Final = name_params(METHODS)
"""The member of the params for each method of the protocol and of the extensions known here."""

_NAME_DEMANDED: Final = frozenset(name_params(definition for definition in METHODS if definition.extension is None))
"""The methods that a server rejects without `Mcp-Name`. The rules of an extension bind only its clients."""


def encode_value(value: str) -> str:
    """Encode a value of `Mcp-Name` or `Mcp-Param-...` for the header.

    Args:
        value: Any text.

    Returns:
        The text, or its encoded form if the header would change the text.

    Raises:
        ValueError: The text contains a lone surrogate, which UTF-8 cannot represent.
    """
    # Prefix and suffix may share a character: a less strict reader treats such text as an encoded value, too.
    marked = value.startswith(_PREFIX) and value.endswith(_SUFFIX)
    if not marked and value.isascii() and value.isprintable() and value == value.strip(" "):
        return value
    return f"{_PREFIX}{base64.b64encode(value.encode()).decode()}{_SUFFIX}"


def decode_value(value: str) -> str:
    """Decode a value of `Mcp-Name` or `Mcp-Param-...`.

    Args:
        value: The value of the header. Blanks around it are ignored.

    Returns:
        The text. A value with only the prefix or only the suffix is not decoded.

    Raises:
        ValueError: The value has characters that are not allowed in a header, or is not a valid encoding. The message
            states which.
    """
    value = value.strip(_BLANKS)
    if not (value.isascii() and value.isprintable()) and _UNSAFE.search(value):
        raise ValueError("contains characters that are not allowed in a header")
    if not (value.startswith(_PREFIX) and value.endswith(_SUFFIX)) or len(value) < len(_PREFIX) + len(_SUFFIX):
        return value
    encoded = value[len(_PREFIX) : -len(_SUFFIX)].encode()
    try:
        decoded = binascii.a2b_base64(encoded, strict_mode=True)
        # Only the canonical encoding is accepted, so that all readers agree: the unused bits are zero.
        if binascii.b2a_base64(decoded, newline=False) != encoded:
            raise ValueError("is not canonical base64")
    except binascii.Error:
        raise ValueError("is not base64") from None
    try:
        return decoded.decode()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 in base64") from None


def mirrored(
    message: Request | Notification,
    revision: Revision,
    header_params: Sequence[ParamHeader] = (),
    *,
    names: Mapping[str, str] = NAME_PARAMS,
) -> list[tuple[str, str]]:
    """Return the headers that a client sends with a message.

    Args:
        message: The message in the body. For a modern revision its `_meta` names the same revision.
        revision: The revision of the message. A legacy revision has at most the version header. `initialize` is sent
            before a revision is negotiated.
        header_params: The header parameters of the called tool.
        names: The member of the params that `Mcp-Name` repeats, by method.

    Returns:
        Names in lower case, and values.

    Raises:
        LocalProtocolError: A header cannot carry the method or an argument.
    """
    found = [(MCP_PROTOCOL_VERSION, revision.name)] if revision.version_header else []
    if not revision.routing_headers:
        return found
    method = message.method
    if _encoded(method, "the method") != method:
        raise LocalProtocolError(f"a header cannot carry the method {method!a:.80}", anchor=_ANCHOR)
    found.append((MCP_METHOD, method))
    params = message.params or {}
    name_param = names.get(method)
    if name_param is not None:
        name = params.get(name_param)
        if isinstance(name, str):
            found.append((MCP_NAME, _encoded(name, f"params.{name_param}")))
    for param in header_params:
        value = _argument(params, param)
        if _out_of_range(value):
            raise LocalProtocolError(
                f"the argument {_place(param)} is beyond {_LARGEST}: {_shown(param)} must not carry it",
                anchor="basic/transports/streamable-http#schema-extension",
            )
        text = _text(value)
        if text is not None:
            found.append((param.name, _encoded(text, f"the argument {_place(param)}")))
    return found


def mismatch(
    headers: Headers,
    message: Request | Notification,
    header_params: Sequence[ParamHeader],
    *,
    names: Mapping[str, str] = NAME_PARAMS,
) -> HeaderMismatch | None:
    """Return the error for the first header of a modern message that differs from the body.

    Members that are missing in the body, or have the wrong type, are left to the reader of the body.

    Args:
        headers: The headers of the request.
        message: The message in the body.
        header_params: The header parameters of the called tool. Other `Mcp-Param-...` headers are ignored.
        names: The member of the params that `Mcp-Name` repeats, by method.

    Returns:
        The error for the response, or `None` if headers and body agree.
    """
    demanded = type(message) is Request
    method = message.method
    params = message.params or {}
    meta = params.get("_meta")
    version = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
    found = _compare(headers, MCP_PROTOCOL_VERSION, version, demanded=demanded) or _compare(
        headers, MCP_METHOD, method, demanded=demanded
    )
    if found is None and demanded:
        name_param = names.get(method)
        if name_param is not None:
            found = _compare_name(headers, params.get(name_param), demanded=method in _NAME_DEMANDED)
    if found is not None or not header_params:
        return found
    return param_mismatch(headers, params, header_params)


def param_mismatch(headers: Headers, params: JsonObject, header_params: Sequence[ParamHeader]) -> HeaderMismatch | None:
    """Return the error for the first `Mcp-Param-...` header that differs from its argument.

    Args:
        headers: The headers of the request.
        params: The params of `tools/call` in the body.
        header_params: The header parameters of the called tool.

    Returns:
        The error for the response, or `None` if headers and arguments agree.
    """
    for param in header_params:
        found = _compare_param(headers, param, _argument(params, param))
        if found is not None:
            return found
    return None


def _compare(headers: Headers, header: str, expected: JsonValue, *, demanded: bool) -> HeaderMismatch | None:
    """Compare a header that is never encoded."""
    values = headers.all(header)
    if len(values) > 1:
        return _repeated(_SHOWN[header], values)
    if not values:
        return _missing(_SHOWN[header], expected) if demanded else None
    if not isinstance(expected, str) or values[0].strip(_BLANKS) == expected:
        return None
    return _different(_SHOWN[header], values[0], expected)


def _compare_name(headers: Headers, expected: JsonValue, *, demanded: bool) -> HeaderMismatch | None:
    shown, values = _SHOWN[MCP_NAME], headers.all(MCP_NAME)
    if len(values) > 1:
        return _repeated(shown, values)
    if not values:
        return _missing(shown, expected) if demanded and isinstance(expected, str) else None
    try:
        seen = decode_value(values[0])
    except ValueError as bad:
        return _malformed(shown, values[0], bad)
    return None if seen == expected else _different(shown, values[0], expected)


def _compare_param(headers: Headers, param: ParamHeader, value: JsonValue) -> HeaderMismatch | None:
    values = headers.all(param.name)
    if len(values) > 1:
        return _repeated(_shown(param), values)
    if _out_of_range(value):
        return HeaderMismatch(f"{_shown(param)} must not carry the argument {_place(param)}: it is beyond {_LARGEST}")
    expected = _text(value)
    if not values:
        return None if expected is None else _missing(_shown(param), expected)
    if expected is None:
        return _different(_shown(param), values[0], value)
    try:
        seen = decode_value(values[0])
    except ValueError as bad:
        return _malformed(_shown(param), values[0], bad)
    if seen == expected:
        return None
    if not isinstance(value, bool):  # which is equal to 0 or 1
        number = _INTEGER.fullmatch(seen)
        if number is not None and int(number[1]) == value:
            return None
    return _different(_shown(param), values[0], expected)


def _argument(params: JsonObject, param: ParamHeader) -> JsonValue:
    """Return the argument of a header parameter; `None` if it is `null` or missing."""
    value = params.get("arguments")
    for key in param.path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _text(value: JsonValue) -> str | None:
    """Return the text of an argument for a header, before encoding; `None` for a value that headers do not carry."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None


def _out_of_range(value: JsonValue) -> bool:
    """Return whether the value is an integer that a reader with double-precision numbers cannot represent exactly."""
    if not isinstance(value, int | float) or -_LARGEST <= value <= _LARGEST:
        return False
    return isinstance(value, int) or value.is_integer()


def _encoded(text: str, what: str) -> str:
    if text.isascii() and text.isprintable() and text[:1] not in (" ", _PREFIX[0]) and text[-1:] != " ":
        # As `encode_value` decides for most texts.
        return text
    try:
        return encode_value(text)
    except ValueError:
        raise LocalProtocolError(f"{what} contains a lone surrogate, which cannot be sent", anchor=_ANCHOR) from None


def _shown(param: ParamHeader) -> str:
    return f"Mcp-Param-{param.header}"


def _place(param: ParamHeader) -> str:
    return ascii(".".join(param.path))[:80]


# The messages are in ASCII and truncated, because a peer and a log receive them.


def _missing(shown: str, expected: JsonValue) -> HeaderMismatch:
    said = f"; the body has {expected!a:.80}" if isinstance(expected, str) else ""
    return HeaderMismatch(f"the header {shown} is missing{said}")


def _repeated(shown: str, values: Sequence[str]) -> HeaderMismatch:
    return HeaderMismatch(f"the header {shown} occurs {len(values)} times: {', '.join(values)!a:.80}")


def _malformed(shown: str, seen: str, bad: ValueError) -> HeaderMismatch:
    return HeaderMismatch(f"the header {shown} {bad}: {seen!a:.80}")


def _different(shown: str, seen: str, expected: JsonValue) -> HeaderMismatch:
    said = f"{expected!a:.80}" if isinstance(expected, str) else "no value that a header can carry"
    return HeaderMismatch(f"the header {shown} has {seen!a:.80}, but the body has {said}")
