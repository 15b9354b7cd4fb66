"""Resources: their URIs, their contents, and errors for unknown ones."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from mcp_conformance.checks.probes.expanded_templates import TEMPLATE, expanded_template
from mcp_conformance.checks.probes.near_misses import CLIMBS
from mcp_conformance.checks.probes.recorded_values import RecordedMessages, member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw_of_result
from mcp_conformance.protocol.response import brief
from mcp_conformance.protocol.uri_syntax import is_uri
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:resources",)
_UNKNOWN: Final = ("conformance-unknown://nothing/here", "file:///conformance-unknown/nothing")
_UNUSUAL_VALUES: Final = ("conformance-unknown", "0")
"""Values of the variable of a template for which a server may have no resource."""
_ENCODED: Final = "café au lait"
"""A value of the variable of a template whose expansion is percent-encoded (RFC 6570, section 3.2.2)."""
_READ: Final = 10
"""Maximum number of listed resources to read."""
_MALFORMED: Final = ("", "no-uri", "http://[not-an-address/", "test://static-text/%zz", "test:// static text")
_NO_SYNTAX: Final = ("no-uri", "http://[not-an-address/")
"""A relative reference, and a URI whose host is invalid."""
_NO_URIS: Final[tuple[JsonValue, ...]] = (None, 5, ["test://static-text"], {"uri": "test://static-text"}, True)


def _contents(answer: JsonRpcResponse) -> list[JsonObject]:
    """Return the contents of a resource."""
    contents = answer.member("contents", list)
    found = [each for each in (contents if isinstance(contents, list) else ()) if isinstance(each, dict)]
    if not found:
        raise Deviation("contents", str(answer))
    return found


async def _read(server: ServerUnderTest, fixture: str) -> tuple[JsonRpcResponse, list[JsonObject]]:
    uri = server.require("resources", fixture)
    answer = await server.peer.request("resources/read", {"uri": uri})
    return answer, _contents(answer)


@check("resources.text", proves=("resources.read-result",), needs=_NEEDS)
async def text(server: ServerUnderTest) -> None:
    """A resource is read by its URI: contents with `uri` and `text`."""
    answer, contents = await _read(server, "test://static-text")
    wrong = flaw_of_result("resources/read", answer.result(), server.revision)
    if wrong is not None:
        raise Deviation("a ReadResourceResult", wrong)
    if not all(isinstance(each.get("text"), str) for each in contents):
        raise Deviation("a text", str(answer))


@check("resources.binary", proves=("resources.binary-encoding", "resources.binary-encoded"), needs=_NEEDS)
async def binary(server: ServerUnderTest) -> None:
    """Binary contents are a base64 blob."""
    answer, contents = await _read(server, "test://static-binary")
    blobs = [each["blob"] for each in contents if "blob" in each]
    if not blobs:
        raise NotTestable("the fixture resource 'test://static-binary' has no blob")
    for blob in blobs:
        try:
            base64.b64decode(str(blob).encode(), validate=True)
        except (binascii.Error, ValueError) as error:
            raise Deviation("a base64 blob", f"{error}: {answer}") from error


@check(
    "resources.binary-is-no-text", proves=("resources.text-only-if-text", "resources.text-only-for-text"), needs=_NEEDS
)
async def binary_is_no_text(server: ServerUnderTest) -> None:
    """Binary contents are not returned as text."""
    answer, contents = await _read(server, "test://static-binary")
    if any("text" in each for each in contents):
        raise Deviation("a blob without text", str(answer))


@check("resources.listed-can-be-read", proves=("resources.read-listed",), needs=("any:resources",))
async def listed_can_be_read(server: ServerUnderTest) -> None:
    """A listed resource can be read."""
    failing = server.manifest.find("resources", "test://conformance/failing").name
    uris = [str(each.get("uri")) for each in server.inventory.lists["resources"] if each.get("uri") != failing]
    for uri in uris[:_READ]:
        answer = await server.peer.request("resources/read", {"uri": uri})
        if answer.is_error:
            raise Deviation(f"the contents of {uri}, which is listed", str(answer))


@check("resources.not-found", proves=("resources.not-found-error",), needs=_NEEDS)
async def not_found(server: ServerUnderTest) -> None:
    """An unknown resource is answered with the error -32002."""
    await _check_error_of_unknown(server, -32002)


@check("resources.not-found-code", proves=("resources.not-found-32602",), needs=_NEEDS)
async def not_found_code(server: ServerUnderTest) -> None:
    """An unknown resource is answered with the error -32602."""
    await _check_error_of_unknown(server, -32602)


async def _check_error_of_unknown(server: ServerUnderTest, code: int) -> None:
    for uri in (*_UNKNOWN, *_unlisted(server)):
        answer = await server.peer.request("resources/read", {"uri": uri})
        # The server may have a resource that it does not list.
        if answer.is_error or uri in _UNKNOWN:
            answer.error(code, what=f"the unknown resource {brief(uri)}")


@check("resources.not-found-is-not-empty", proves=("resources.not-found-not-empty",), needs=_NEEDS)
async def not_found_is_not_empty(server: ServerUnderTest) -> None:
    """An unknown resource is not answered with empty contents, whatever its scheme, and if its URI matches a template."""
    for uri in (*_UNKNOWN, *_unlisted(server), *_of_template(server)):
        answer = await server.peer.request("resources/read", {"uri": uri})
        if not answer.is_error and answer.result().get("contents") == []:
            raise Deviation(f"an error for the unknown resource {brief(uri)}", str(answer))


def _of_template(server: ServerUnderTest) -> list[str]:
    """Return unusual URIs that match the template of the contract, whose resources always have contents.

    Those of another template that is mapped to it may be empty, such as the results of a search.
    """
    if server.manifest.find("templates", TEMPLATE).name != TEMPLATE:
        return []
    return [uri for value in _UNUSUAL_VALUES if (uri := expanded_template(server, value)) is not None]


def _unlisted(server: ServerUnderTest) -> list[str]:
    """Return a URI of each scheme of the listed resources: that of a listed resource with a suffix."""
    listed = [str(each.get("uri")) for each in server.inventory.lists["resources"]]
    found = {uri.partition(":")[0].lower(): f"{uri}-conformance-unknown" for uri in reversed(listed)}
    return [uri for uri in found.values() if uri not in listed]


@check("resources.uri-syntax", proves=("resources.custom-scheme-rfc3986",), subject=CheckScope.EVIDENCE)
async def uri_syntax(server: ServerUnderTest) -> None:
    """The URIs of resources, in lists, contents and notifications, conform to RFC 3986."""
    recorded = RecordedMessages(server.evidence)
    named = [
        *recorded.listed("resources/list"),
        *recorded.contents(),
        *recorded.blocks_of("resource_link"),
        *recorded.notified("notifications/resources/updated"),
    ]
    uris = [uri for uri in (member(each, "uri") for each in named) if isinstance(uri, str)]
    if not uris:
        raise NotApplicable("the server names no resource")
    for uri in uris:
        if not is_uri(uri):
            raise Deviation("a URI according to RFC 3986", brief(uri))


@check(
    "resources.malformed-uri", proves=("resources.validate-uris", "resources.uri-validated"), needs=("any:resources",)
)
async def malformed_uri(server: ServerUnderTest) -> None:
    """Reading an invalid URI is answered with an error, and the server keeps running."""
    listed = str(server.inventory.lists["resources"][0].get("uri"))
    # Without their scheme, the URIs of a server are relative references.
    for uri in (*_MALFORMED, listed.partition(":")[2], listed.partition(":")[2].lstrip("/")):
        answer = await server.peer.request("resources/read", {"uri": uri}, deviant="an invalid URI")
        answer.error(what=f"the URI {uri!r}")
    if server.revision.era is Era.LEGACY or server.transport is Transport.STDIO:  # else the header would be wrong too
        for no_uri in _NO_URIS:
            answer = await server.peer.request("resources/read", {"uri": no_uri}, deviant="a URI that is no string")
            answer.error(what=f"the URI {brief(no_uri)}")
    await server.peer.fence()


@check("resources.malformed-uri-code", proves=("jsonrpc.invalid-params-code",), needs=_NEEDS)
async def malformed_uri_code(server: ServerUnderTest) -> None:
    """Reading an invalid URI is answered with -32602, as an unknown resource is, and not as an internal error."""
    for uri in _NO_SYNTAX:
        answer = await server.peer.request("resources/read", {"uri": uri}, deviant="an invalid URI")
        answer.error(-32602, what=f"the URI {uri!r}")


@check(
    "resources.path-traversal", proves=("resources.path-traversal", "resources.validate-uris"), needs=("any:resources",)
)
async def path_traversal(server: ServerUnderTest) -> None:
    """No URI leads outside of the published directory."""
    files = [
        str(each["uri"]) for each in server.inventory.lists["resources"] if str(each.get("uri")).startswith("file:")
    ]
    if not files:
        raise NotApplicable("the server lists no file:// resources")
    control = await server.peer.request("resources/read", {"uri": files[0]})
    if control.is_error:
        raise NotTestable(f"the control request failed: {control}")
    directory = files[0].rpartition("/")[0]
    # A server may look at the beginning of the path only, or remove what leads up there.
    for uri in (*(f"{directory}/{climb}" for climb in CLIMBS), f"{files[0]}/{CLIMBS[0]}"):
        answer = await server.peer.request("resources/read", {"uri": uri}, deviant="a path outside of the directory")
        answer.error(what=f"the URI {uri!r}")


@check("resources.template-read", proves=("resources.template-read",), needs=_NEEDS)
async def template_read(server: ServerUnderTest) -> None:
    """A URI that is expanded from a template can be read, also with a value that is percent-encoded in it."""
    await _from_template(server)
    # A server whose template takes any value takes this one too.
    control = await server.peer.request("resources/read", {"uri": expanded_template(server, _UNUSUAL_VALUES[0])})
    if not control.is_error and member(control.message, "result", "contents"):
        await _from_template(server, quote(_ENCODED, safe=""))


@check("resources.template-type", proves=("resources.template-mime-uniform",), needs=_NEEDS)
async def template_type(server: ServerUnderTest) -> None:
    """The mimeType of a template is that of its resources."""
    template, contents = await _from_template(server)
    kind = template.get("mimeType")
    if kind is None:
        raise NotTestable("the fixture template has no mimeType")
    for each in contents:
        if each.get("mimeType") not in (None, kind):
            raise Deviation(f"mimeType {kind!r} of the template", brief(each))


@check("resources.template-contents", proves=("schema.resource-contents", "resources.read-result"), needs=_NEEDS)
async def template_contents(server: ServerUnderTest) -> None:
    """The contents of a resource that matches a template have a URI, not the template itself."""
    template = server.require("templates", TEMPLATE)
    answer = await server.peer.request("resources/read", {"uri": expanded_template(server, "123")})
    if answer.is_error:
        raise NotTestable(f"the control request failed: {answer}")
    for each in _contents(answer):
        if each.get("uri") == template:
            raise Deviation("the URI of the resource", brief(each))


async def _from_template(server: ServerUnderTest, value: str = "123") -> tuple[JsonObject, list[JsonObject]]:
    name = server.require("templates", TEMPLATE)
    template = server.inventory.find("templates", name)
    answer = await server.peer.request("resources/read", {"uri": expanded_template(server, value)})
    return template or {}, _contents(answer)


@check("resources.internal-error", proves=("resources.internal-error", "resources.internal-32603"), needs=_NEEDS)
async def internal_error(server: ServerUnderTest) -> None:
    """An internal error while reading a resource is answered with the error -32603."""
    uri = server.require("resources", "test://conformance/failing")
    answer = await server.peer.request("resources/read", {"uri": uri})
    answer.error(-32603, what="a resource with an internal error")
