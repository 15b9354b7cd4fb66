"""Faults of the headers of modern requests, and of the annotations that require them."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from mutants.server.fault import Fault, fault, ids_of
from mutants.server.protocol import MODERN, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import Checks, InboundRequest

_HTTP: Final = ("http",)
_TOLERANCE: Final = 1e-9
_BEYOND: Final = 2**53
_OF_URLS: Final = str.maketrans("-_", "+/")
"""Changes the alphabet of Base64 for URLs into that of Base64."""
_MISMATCHES: Final = (
    "header.method-case",
    "header.method-mismatch",
    "header.method-missing",
    "header.name-missing",
    "header.name-mismatch",
)


def _breaking(name: str, checks: Checks, rule: str, words: tuple[str, ...] = ()) -> None:
    """Add a server that does not apply a rule."""

    class _Breaks(Fault):
        def keeps(self, rule: str) -> bool:
            return rule != broken

    broken = rule
    fault(name, *ids_of(checks), revisions=MODERN, transports=_HTTP, words=words)(_Breaks)


_breaking("method-header-optional", "header.method-missing", "missing Mcp-Method")
_breaking("mismatched-calls-run", "header.name-without-effect", "mismatched-without-effect")
_breaking("name-header-optional", "header.name-missing", "missing Mcp-Name")
_breaking("version-header-optional", "header.version-missing", "missing MCP-Protocol-Version", ("--modern-only",))
_breaking("param-header-optional", "header.param-missing", "missing Mcp-Param-Region")
_breaking("nested-param-header-optional", "header.param-nested", "missing Mcp-Param-Zone")
_breaking("param-header-demanded", "header.param-absent", "no-header-for-nothing")
_breaking("name-characters", "header.invalid-characters", "characters Mcp-Name")
_breaking("param-characters", "header.param-characters", "characters Mcp-Param-Region")
_breaking(
    "name-undecoded",
    # Unknown names contain characters that are encoded.
    ("header.name-base64", "prompts.unknown-name", "tasks.unknown", "tools.unknown-name-code"),
    "base64 Mcp-Name",
)


def _repeated(name: str, value: int) -> None:
    """Add a server that reads one value of a header that occurs several times."""

    class _OneValueRead(Fault):
        def repeated(self, values: Sequence[str]) -> str:
            return values[value]

    fault(name, "header.twice", revisions=MODERN, transports=_HTTP)(_OneValueRead)


_repeated("first-of-repeated-headers", 0)
_repeated("last-of-repeated-headers", -1)
_breaking("names-exact", "header.names-case", "names-any-case")
_breaking("param-names-exact", "header.names-case", "names-any-case Mcp-Param-Region")
_breaking("name-of-name-exact", "header.names-case", "names-any-case Mcp-Name")
for _name in ("MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Region"):
    _breaking(f"spaces-kept-in-{_name.lower()}", "header.spaces", f"spaces {_name}")
_breaking("unknown-params-rejected", "header.param-unknown", "unknown-params")
for _method in ("tools/call", "tools/list", "resources/read"):
    _breaking(
        f"params-of-other-tools-in-{_method.replace('/', '-')}",
        "header.param-unknown",
        f"params of other tools, {_method}",
    )
_breaking("base64-unchecked", ("header.name-mismatch", "header.param-base64-invalid"), "invalid-base64")
_breaking("era-of-version-header", "header.version-mismatch", "era-of-body")


def _header_unread(
    name: str, *checks: str, when: Callable[[JsonObject, JsonObject, str], bool], words: tuple[str, ...] = ()
) -> None:
    """Add a server that does not compare the headers of some requests with the body.

    Args:
        name: The name of the fault.
        checks: The checks that must detect it.
        when: Whether it accepts a request; its arguments are the state of the connection, the request and the flaw.
        words: More command line arguments of the server.
    """

    class _HeaderUnread(Fault):
        def flaw(self, kept: JsonObject, message: JsonObject, flaw: str | None) -> str | None:
            if flaw is None or when(kept, message, flaw):
                kept["served"] = True
                return None
            return flaw

    fault(name, *checks, revisions=MODERN, transports=_HTTP, words=words)(_HeaderUnread)


def _retried(message: JsonObject) -> bool:
    params = message.get("params")
    return isinstance(params, dict) and ("inputResponses" in params or "requestState" in params)


def _of_method(method: str, _: JsonObject, message: JsonObject, flaw: str) -> bool:
    return message["method"] == method and "Mcp-Method" in flaw


_OF_METHOD: Final = ("header.method-case", "header.method-mismatch", "header.method-missing")
for _method in (
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
):
    _header_unread(
        f"method-header-unread-of-{_method.replace('/', '-')}",
        *_OF_METHOD,
        when=partial(_of_method, _method),
    )
_header_unread(
    "version-read-for-discover-only",
    "header.version-mismatch",
    when=lambda _, message, flaw: message["method"] != "server/discover" and "MCP-Protocol-Version" in flaw,
)
_header_unread(
    "version-demanded-for-discover-only",
    "header.version-missing",
    when=lambda _, message, flaw: message["method"] != "server/discover" and "Version is missing" in flaw,
    words=("--modern-only",),
)
_header_unread(
    "headers-unread-of-listen",
    *_OF_METHOD,
    "header.version-mismatch",
    when=lambda _, message, __: message["method"] == "subscriptions/listen",
)
_header_unread(
    "headers-unread-of-retries",
    "header.method-mismatch",
    "header.method-missing",
    "header.name-mismatch",
    "header.name-missing",
    when=lambda _, message, __: _retried(message),
)
_header_unread(
    "one-param-of-several-compared",
    "header.param-mismatch",
    "header.param-missing",
    when=lambda _, message, flaw: (
        "Mcp-Param-Region" not in flaw and "Mcp-Param" in flaw and "region" in str(message.get("params"))
    ),
)
_header_unread(
    "version-read-once",
    "header.version-mismatch",
    when=lambda kept, _, flaw: kept.get("served") is True and "MCP-Protocol-Version" in flaw,
)
_header_unread(
    "headers-read-once",
    "header.version-mismatch",
    "header.method-mismatch",
    "header.method-missing",
    "header.name-mismatch",
    "header.name-missing",
    when=lambda kept, _, __: kept.get("served") is True,
)


@fault("nested-param-unheeded", "header.param-nested", revisions=MODERN, transports=_HTTP)
class _NestedUnheeded(Fault):
    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:
        return name == "Mcp-Param-Zone" or super().agrees(name, text, value, same=same)


class _SomeCharacters(Fault):
    """A server that accepts invalid characters in some names."""

    def __init__(self, accepts: Callable[[str, str], bool]) -> None:
        self._accepts = accepts
        self._method = self._value = ""

    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:
        self._method = text if name == "Mcp-Method" else self._method
        return super().agrees(name, text, value, same=same)

    def read(self, name: str, value: str) -> str:
        self._value = value
        return super().read(name, value)

    def keeps(self, rule: str) -> bool:
        return rule != "characters Mcp-Name" or not self._accepts(self._method, self._value)


for _word, _accepts in {
    "of-prompts": lambda method, _: method == "prompts/get",
    "of-resources": lambda method, _: method == "resources/read",
    "that-control": lambda _, value: "\x7f" in value,
}.items():
    fault(f"name-characters-{_word}", "header.invalid-characters", revisions=MODERN, transports=_HTTP)(
        partial(_SomeCharacters, _accepts)
    )


@fault("param-that-controls", "header.param-characters", revisions=MODERN, transports=_HTTP)
class _ControlInParam(_SomeCharacters):
    """A server that accepts a control character in a header parameter."""

    def __init__(self) -> None:
        super().__init__(lambda _, __: False)

    def keeps(self, rule: str) -> bool:
        return rule != "characters Mcp-Param-Region" or "\x7f" not in self._value


@fault("params-of-legacy-demanded", "compat.legacy-session", revisions=MODERN, transports=_HTTP)
class _ParamsOfLegacy(Fault):
    """A server that demands the headers of parameters of legacy clients, too."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        arguments = inbound.params.get("arguments")
        if not inbound.modern and isinstance(arguments, dict) and "region" in arguments:
            raise RpcError(-32020, "the header Mcp-Param-Region is missing", status=400)
        return result


def _agreeing(name: str, *checks: str, agrees: Callable[[str, str, JsonValue], bool]) -> None:
    """Add a server that accepts headers that differ from the body."""

    class _Agrees(Fault):
        def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:
            return same or agrees(name, text, value)

    fault(name, *checks, revisions=MODERN, transports=_HTTP)(_Agrees)


def _is_similar(header: str, similar: Callable[[str, str], bool], name: str, text: str, value: JsonValue) -> bool:
    return name == header and similar(text, str(value))


_agreeing(
    "method-unheeded",
    "header.method-mismatch",
    agrees=lambda name, text, _: (name, text) == ("Mcp-Method", "tools/list"),
)
_agreeing(
    "method-any-case",
    "header.method-case",
    agrees=lambda name, text, value: name == "Mcp-Method" and text.lower() == value,
)
_agreeing(
    "name-any-case",
    "header.method-case",
    agrees=lambda name, text, value: name == "Mcp-Name" and text.lower() == str(value).lower(),
)
for _word, _similar in {
    "prefixed": lambda text, value: text.startswith(value),
    "suffixed": lambda text, value: text.endswith(value),
    "shortened": lambda text, value: value.startswith(text) and text != "",
    "empty": lambda text, _: text == "",
    "slashed": lambda text, value: text.rstrip("/") == value,
    "quoted": lambda text, value: text.strip('"') == value,
    "in-url-encoding": lambda text, value: unquote(text) == value,
}.items():
    for _header, _check in (("method", "header.method-mismatch"), ("name", "header.name-mismatch")):
        _agreeing(
            f"{_header}-{_word}",
            _check,
            agrees=partial(_is_similar, f"Mcp-{_header.title()}", _similar),
        )
_agreeing(
    "name-unheeded",
    "header.name-mismatch",
    agrees=lambda name, text, _: (name, text) == ("Mcp-Name", "conformance-other"),
)
_agreeing(
    "version-header-unheeded", "header.version-mismatch", agrees=lambda name, _, __: name == "MCP-Protocol-Version"
)
_agreeing("param-unheeded", "header.param-mismatch", "header.param-nested", agrees=lambda _, text, __: text == "there")


_agreeing(
    "version-begins-alike",
    "header.version-mismatch",
    agrees=lambda name, text, value: name == "MCP-Protocol-Version" and text.startswith(str(value)),
)
_agreeing(
    "method-in-base64",
    "header.method-mismatch",
    agrees=lambda name, text, value: (
        name == "Mcp-Method" and text == f"=?base64?{base64.b64encode(str(value).encode()).decode()}?="
    ),
)


def _reading(name: str, check: str, read: Callable[[str, str], str]) -> None:
    """Add a server that reads headers in another way."""

    class _Reads(Fault):
        def read(self, name: str, value: str) -> str:
            return read(name, value)

    fault(name, check, revisions=MODERN, transports=_HTTP)(_Reads)


def _undone(names: str, name: str, value: str) -> str:
    """Decode Base64 in some headers without regard to the case of its prefix."""
    if not name.startswith(names) or not value.startswith("=?BASE64?"):
        return value
    return base64.b64decode(value[len("=?BASE64?") : -2]).decode()


def _in_latin(name: str, value: str) -> str:
    """Decode Base64 in names as Latin-1."""
    if name != "Mcp-Name" or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        text = base64.b64decode(value[len("=?base64?") : -2], validate=True).decode("latin-1")
    except ValueError:
        return value
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


_reading("name-in-latin-1", "header.name-base64", _in_latin)
_reading("marker-any-case", "header.param-literal", partial(_undone, "Mcp-Param"))
_reading("marker-any-case-in-names", "header.name-mismatch", partial(_undone, "Mcp-Name"))


class _InBase64(Fault):
    """A server that treats names in base64 differently.

    Args:
        takes: Whether it accepts a header; its arguments are the name and the value of the header, and that in the body.
    """

    def __init__(self, takes: Callable[[str, str, JsonValue], bool]) -> None:
        self._takes = takes
        self._given = ""

    def read(self, name: str, value: str) -> str:
        self._given = value if name.startswith(("Mcp-Name", "Mcp-Param")) else ""
        return super().read(name, value)

    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:
        return super().agrees(name, text, value, same=same) or self._takes(name, self._given, value)


def _decodes_to(value: JsonValue, text: str) -> bool:
    """Return whether text is base64 of a value, for a decoder that skips other characters."""
    try:
        return base64.b64decode(text).decode() == value
    except ValueError:
        return False


for _name, _takes in {
    "name-in-base64-not-compared": lambda name, given, _: name == "Mcp-Name" and given.startswith("=?base64?"),
    "name-marker-any-case": lambda name, given, value: (
        name == "Mcp-Name" and given.startswith("=?BASE64?") and _decodes_to(value, given[len("=?BASE64?") : -2])
    ),
    "name-marker-unended": lambda name, given, value: (
        name == "Mcp-Name" and given.startswith("=?base64?") and _decodes_to(value, given[len("=?base64?") :])
    ),
}.items():
    fault(_name, "header.name-mismatch", revisions=MODERN, transports=_HTTP)(partial(_InBase64, _takes))


fault("param-in-base64-not-compared", "header.param-mismatch", revisions=MODERN, transports=_HTTP)(
    partial(_InBase64, lambda name, given, _: name == "Mcp-Param-Region" and given.startswith("=?base64?dGhlcmU"))
)


class _RemembersValue(Fault):
    """A server that compares a header as it was sent, not as it was decoded."""

    def __init__(self) -> None:
        self._given = ""

    def read(self, name: str, value: str) -> str:
        self._given = value
        return super().read(name, value)


@fault("numbers-in-base64-undecoded", "header.param-base64", revisions=MODERN, transports=_HTTP)
class _NumbersUndecoded(_RemembersValue):
    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:
        is_number = isinstance(value, int) and self._given.startswith("=?base64?")
        return super().agrees(name, text, value, same=same) and not is_number


@fault("name-of-resources-undecoded", "header.name-base64", revisions=MODERN, transports=_HTTP)
class _ResourcesUndecoded(_RemembersValue):
    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:
        # Base64 of a URI that begins with `test:/`.
        is_resource = name == "Mcp-Name" and self._given.startswith("=?base64?dGVzdDov")
        return super().agrees(name, text, value, same=same) and not is_resource


def _decoded_twice(name: str, value: str) -> str:
    """Decode Base64, so that its text is decoded again if it looks like Base64."""
    if not name.startswith("Mcp-Param") or not value.startswith("=?base64?PT9"):
        return value
    return base64.b64decode(value[len("=?base64?") : -2]).decode()


_reading(
    "param-in-base64-for-urls",
    "header.param-base64-invalid",
    lambda _, value: value.translate(_OF_URLS) if value.startswith("=?base64?") else value,
)


@fault(
    "overlapping-markers-fail", "header.param-base64-invalid", "http.error-status", revisions=MODERN, transports=_HTTP
)
class _OverlappingMarkers(Fault):
    """A server that fails at a value whose markers overlap."""

    def __init__(self) -> None:
        self._overlap = False

    def read(self, name: str, value: str) -> str:  # noqa: ARG002
        self._overlap = value == "=?base64?="
        return value

    def refusal(self, why: str, status: int) -> int:
        return 500 if why == "mismatch" and self._overlap else status


def _text_in(value: str, errors: str) -> str | None:
    """Return the text in a value in Base64, or `None` for another value.

    Raises:
        UnicodeDecodeError: Its bytes are not UTF-8, and `errors` is `strict`.
    """
    if not value.startswith("=?base64?"):
        return None
    try:
        data = base64.b64decode(value.removeprefix("=?base64?").removesuffix("?="), validate=True)
    except ValueError:
        return None
    return data.decode(errors=errors)


def _is_text(value: str) -> bool:
    try:
        _text_in(value, "strict")
    except UnicodeDecodeError:
        return False
    return True


def _failing_at_bytes(name: str, check: str, header: str) -> None:
    """Add a server that fails at a header with bytes in Base64 that are not UTF-8."""

    class _FailsAtBytes(Fault):
        def __init__(self) -> None:
            self._failed = False

        def read(self, name: str, value: str) -> str:
            self._failed = name == header and not _is_text(value)
            return value

        def refusal(self, why: str, status: int) -> int:
            return 500 if why == "mismatch" and self._failed else status

    fault(name, check, "http.error-status", revisions=MODERN, transports=_HTTP)(_FailsAtBytes)


_failing_at_bytes("name-of-bytes-fails", "header.name-mismatch", "Mcp-Name")
_failing_at_bytes("param-of-bytes-fails", "header.param-mismatch", "Mcp-Param-Region")
# Only the bytes that are UTF-8 are compared.
_reading(
    "name-without-odd-bytes",
    "header.name-mismatch",
    lambda name, value: value if name != "Mcp-Name" or _is_text(value) else str(_text_in(value, "ignore")),
)
_reading("param-decoded-twice", "header.param-base64", _decoded_twice)
_reading(
    "param-undecoded", "header.param-base64", lambda _, value: f"{value} " if value == "=?base64?SGVsbG8=?=" else value
)


@fault("version-of-body-unheeded", "header.version-mismatch", revisions=MODERN, transports=_HTTP)
class _VersionUnheeded(Fault):
    def __init__(self) -> None:
        self._differs = False

    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:  # noqa: ARG002
        if name == "MCP-Protocol-Version":
            self._differs = not same
            return True
        return same

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if error.code == -32022 and self._differs:
            return {"supportedVersions": list(MODERN), "capabilities": {}}
        return super().refused(inbound, error)


@fault("number-as-text", "header.param-integer", revisions=MODERN, transports=_HTTP)
class _NumberAsText(Fault):
    def same_number(self, text: str, value: int) -> bool:
        return text == str(value)


@fault("numbers-almost-equal", "header.param-mismatch", revisions=MODERN, transports=_HTTP)
class _AlmostEqual(Fault):
    """A server that compares numbers with a tolerance."""

    def same_number(self, text: str, value: int) -> bool:
        try:
            return abs(float(text) - value) < _TOLERANCE
        except ValueError:
            return False


@fault("numbers-beyond-not-compared", "header.param-beyond", revisions=MODERN, transports=_HTTP)
class _BeyondNotCompared(Fault):
    """A server that has no header for an integer outside of the range in which doubles are exact, and demands none."""

    def flaw(self, kept: JsonObject, message: JsonObject, flaw: str | None) -> str | None:  # noqa: ARG002
        params = message.get("params")
        arguments = params.get("arguments") if isinstance(params, dict) else None
        count = arguments.get("count") if isinstance(arguments, dict) else None
        beyond = isinstance(count, int) and abs(count) >= _BEYOND
        return None if beyond and flaw is not None and "Mcp-Param-Count" in flaw else flaw


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_spelled(spelled: tuple[str, str], _: str, text: str, value: JsonValue) -> bool:
    return isinstance(value, bool) and text == spelled[not value]


_agreeing(
    "booleans-not-compared",
    "header.param-boolean",
    "header.param-mismatch",
    agrees=lambda _, __, value: isinstance(value, bool),
)
for _word, _spelled in {"any-case": ("True", "False"), "digits": ("1", "0"), "words": ("yes", "no")}.items():
    _agreeing(
        f"booleans-in-{_word}",
        "header.param-boolean",
        agrees=partial(_is_spelled, _spelled),
    )


@fault("booleans-of-python", "header.param-accepted", revisions=MODERN, transports=_HTTP)
class _BooleansOfPython(Fault):
    """A server that compares a header with a boolean as its language writes it."""

    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:  # noqa: ARG002
        return text == str(value) if isinstance(value, bool) else same


@fault("empty-param-as-none", "header.param-accepted", revisions=MODERN, transports=_HTTP)
class _EmptyParamAsNone(Fault):
    """A server that takes a header without a value for a missing one."""

    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:  # noqa: ARG002
        return same and not (name.startswith("Mcp-Param-") and not text)


_agreeing("boolean-empty", "header.param-boolean", agrees=lambda _, text, value: value is False and text == "")
_agreeing("numbers-not-compared", "header.param-mismatch", agrees=lambda _, __, value: _is_number(value))
_agreeing(
    "number-with-more",
    "header.param-mismatch",
    agrees=lambda _, text, value: _is_number(value) and text.startswith(str(value)),
)
_agreeing(
    "number-empty", "header.param-mismatch", agrees=lambda _, text, value: _is_number(value) and not value and not text
)
_agreeing(
    "param-any-case",
    "header.param-mismatch",
    agrees=lambda name, text, value: name.startswith("Mcp-Param") and text.lower() == value,
)
_agreeing(
    "numeric-text-as-number",
    "header.param-mismatch",
    agrees=lambda name, text, value: (
        name.startswith("Mcp-Param") and (text.strip(), value) in (("42.0", "42"), ("042", "42"), ("+42", "42"))
    ),
)
_agreeing("empty-param-not-compared", "header.param-mismatch", agrees=lambda _, __, value: value == "")


class _ParamOptional(Fault):
    """A server that does not require the header of some values."""

    def __init__(self, optional: Callable[[JsonValue], bool]) -> None:
        self._optional = optional

    def flaw(self, kept: JsonObject, message: JsonObject, flaw: str | None) -> str | None:
        params = message.get("params")
        arguments = params.get("arguments") if isinstance(params, dict) else None
        given = arguments if isinstance(arguments, dict) else {}
        missing = flaw is not None and "Mcp-Param" in flaw and flaw.endswith("is missing")
        if missing and any(self._optional(value) for value in given.values()):
            return None
        return super().flaw(kept, message, flaw)


for _word, _optional in {
    "falsy": lambda value: not value,
    "zero": lambda value: _is_number(value) and not value,
    "false": lambda value: value is False,
    "empty": lambda value: value == "",
    "number": _is_number,
}.items():
    fault(f"{_word}-param-header-optional", "header.param-missing", revisions=MODERN, transports=_HTTP)(
        partial(_ParamOptional, _optional)
    )


@fault("mismatch-200", *_MISMATCHES, "header.invalid-characters", "header.param-base64-invalid", "header.param-boolean",
       "header.param-characters",
       "header.param-mismatch", "header.param-missing", "header.param-nested", "header.version-mismatch", "tasks.mcp-name", revisions=MODERN,
       transports=_HTTP)  # fmt: skip
class _Mismatch200(Fault):
    def refusal(self, why: str, status: int) -> int:
        return 200 if why == "mismatch" else status


class _MismatchWithoutId(Fault):
    def __init__(self, dropped: Callable[[JsonValue], bool]) -> None:
        self._dropped = dropped

    def refusal_body(self, why: str, error: JsonObject) -> JsonObject:
        drops = why == "mismatch" and self._dropped(error.get("id"))
        return {key: value for key, value in error.items() if key != "id"} if drops else error


for _word, _drops in {
    "id": lambda _: True,
    "id-zero": lambda id: id == 0,
    "empty-id": lambda id: id == "",
}.items():
    fault(f"mismatch-without-{_word}", "header.error-id", "jsonrpc.response-ids", revisions=MODERN, transports=_HTTP)(
        partial(_MismatchWithoutId, _drops)
    )


# --- annotations ------------------------------------------------------------------------------------------------------


def _marking(name: str, check: str, region: JsonObject, count: JsonObject | None = None) -> None:
    """Add a server whose tool has invalid header annotations."""

    class _Marks(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            tools = result.get("tools")
            if inbound.request["method"] != "tools/list" or not isinstance(tools, list):
                return result
            other: JsonObject = count or {"type": "integer", "x-mcp-header": "Count"}
            schema: JsonObject = {"type": "object", "properties": {"region": region, "count": other}}
            return {
                **result,
                "tools": [
                    {**tool, "inputSchema": schema} if isinstance(tool, dict) and tool["name"] == _MARKED else tool
                    for tool in tools
                ],
            }

    fault(name, check, revisions=MODERN, transports=_HTTP)(_Marks)


_MARKED: Final = "conformance_headers"
_REGION: Final[JsonObject] = {"type": "string", "x-mcp-header": "Region"}
_marking("mark-empty", "header.mark-token", _REGION, {"type": "boolean", "x-mcp-header": ""})
_marking("mark-twice", "header.mark-unique", _REGION, {"type": "integer", "x-mcp-header": "REGION"})
_marking("mark-on-number", "header.mark-primitive", _REGION, {"type": "number", "x-mcp-header": "Count"})
_marking(
    "mark-unsafe-default", "header.mark-safe-range", _REGION,
    {"type": "integer", "x-mcp-header": "Count", "default": 2**53},
)  # fmt: skip
_marking(
    "mark-unsafe-minimum", "header.mark-safe-range", _REGION,
    {"type": "integer", "x-mcp-header": "Count", "minimum": 2**60},
)  # fmt: skip
_marking(
    "mark-in-items", "header.mark-reachable", _REGION,
    {"type": "array", "items": {"type": "integer", "x-mcp-header": "Count"}},
)  # fmt: skip
