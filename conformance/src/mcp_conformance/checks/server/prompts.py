"""Prompts: their content and their arguments."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.near_misses import INHERITED, near_misses
from mcp_conformance.checks.probes.recorded_values import items, member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.message_schema import flaw_of_result
from mcp_conformance.protocol.response import brief
from mcp_conformance.protocol.uri_syntax import is_uri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:prompts",)
_UNKNOWN: Final = "conformance-does-not-exist"
_EMBEDS: Final = "test_prompt_with_embedded_resource"
_EMBEDDED: Final = ("test://static-text", "test://watched-resource", "test://static-binary")
"""The resources to embed. Each prompt of the contract has the first one."""
_ODD_ARGUMENTS: Final[JsonObject] = {"arg1": "{arg2} {0} %s $& \\1", "arg2": "é 🦊"}
"""Values that a template or a format takes for its own placeholders, and other odd ones."""
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "image/": ("image/", "application/"),
    "audio/": ("audio/", "video/", "application/"),
}
"""The beginnings of media types that content of a type may have."""
_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;.*)?")


async def _get(server: ServerUnderTest, fixture: str, arguments: JsonObject | None = None) -> JsonRpcResponse:
    name = server.require("prompts", fixture)
    own = server.manifest.find("prompts", fixture).arguments
    given = arguments if own is None else own
    return await server.peer.request("prompts/get", {"name": name, **({} if given is None else {"arguments": given})})


def _blocks(answer: JsonRpcResponse, kind: str) -> list[JsonObject]:
    """Return the content blocks of one type."""
    messages = answer.member("messages", list)
    found = [each.get("content") for each in (messages if isinstance(messages, list) else ()) if isinstance(each, dict)]
    blocks = [each for each in found if isinstance(each, dict) and each.get("type") == kind]
    if not blocks:
        raise Deviation(f"content of type {kind!r}", str(answer))
    return blocks


@check("prompts.get", proves=("prompts.get-result", "schema.get-prompt-result"), needs=_NEEDS)
async def get(server: ServerUnderTest) -> None:
    """`prompts/get` is answered with messages."""
    answer = await _get(server, "test_simple_prompt")
    wrong = flaw_of_result("prompts/get", answer.result(), server.revision)
    if wrong is not None:
        raise Deviation("a GetPromptResult", wrong)
    _blocks(answer, "text")
    if server.manifest.find("prompts", "test_simple_prompt").arguments is None:
        # No arguments are the same as an empty object.
        _blocks(await _get(server, "test_simple_prompt", {}), "text")


@check("prompts.arguments", proves=("prompts.arguments-substituted",), needs=_NEEDS)
async def arguments(server: ServerUnderTest) -> None:
    """The values of a prompt's arguments appear in its messages."""
    given: JsonObject = {"arg1": "conformance-one", "arg2": "conformance-two"}
    own = server.manifest.find("prompts", "test_prompt_with_arguments").arguments
    for values in (given, _ODD_ARGUMENTS) if own is None else (own,):
        answer = await _get(server, "test_prompt_with_arguments", values)
        text = _text(answer)
        for value in values.values():
            if str(value) not in text:
                raise Deviation(f"{value!r} in the messages", str(answer))


def _text(answer: JsonRpcResponse) -> str:
    """Return the text of all messages."""
    return " ".join(str(block.get("text")) for block in _blocks(answer, "text"))


@check("prompts.image", proves=("prompts.image-content",), needs=_NEEDS)
async def image(server: ServerUnderTest) -> None:
    """An image in a prompt has base64 data and a media type."""
    _media(_blocks(await _get(server, "test_prompt_with_image"), "image"), "image/")


@check("prompts.audio", proves=("prompts.audio-content",), needs=_NEEDS)
async def audio(server: ServerUnderTest) -> None:
    """Audio in a prompt has base64 data and a media type."""
    _media(_blocks(await _get(server, "conformance_prompt_with_audio"), "audio"), "audio/")


def _media(blocks: list[JsonObject], kind: str) -> None:
    for block in blocks:
        media_type = block.get("mimeType")
        if not _is_media_type(media_type) or not str(media_type).lower().startswith(_KINDS[kind]):
            raise Deviation(f"a media type {kind}*", brief(media_type))
        _base64(block.get("data"))


def _is_media_type(value: JsonValue) -> bool:
    return isinstance(value, str) and _MEDIA_TYPE.fullmatch(value) is not None


def _base64(data: JsonValue) -> None:
    try:
        if not isinstance(data, str) or not base64.b64decode(data.encode(), validate=True):
            raise Deviation("base64 data", brief(data))
    except (binascii.Error, ValueError) as error:
        raise Deviation("base64 data", f"{error}: {brief(data)}") from error


@check("prompts.embedded-resource", proves=("prompts.embedded-resource",), needs=_NEEDS)
async def embedded_resource(server: ServerUnderTest) -> None:
    """An embedded resource in a prompt has a URI, its media type, and a text or a base64 blob."""
    embedded = _embedded(await _get(server, _EMBEDS, {"resourceUri": _EMBEDDED[0]}))
    if server.manifest.find("prompts", _EMBEDS).arguments is None:
        for uri in _EMBEDDED[1:]:
            answer = await _get(server, _EMBEDS, {"resourceUri": uri})
            # A server may not be able to embed each of these resources.
            if not answer.is_error:
                embedded += _embedded(answer)
    for resource in embedded:
        await _check_media_type(server, resource)


def _embedded(answer: JsonRpcResponse) -> list[JsonObject]:
    """Return the embedded resources, each with the members that it must have."""
    found: list[JsonObject] = []
    for block in _blocks(answer, "resource"):
        resource = block.get("resource")
        uri = resource.get("uri") if isinstance(resource, dict) else None
        if not isinstance(resource, dict) or not isinstance(uri, str) or not is_uri(uri):
            raise Deviation("a resource with a valid URI", brief(block))
        if not _is_media_type(resource.get("mimeType")):
            raise Deviation("a resource with a media type as its mimeType", brief(block))
        if ("text" in resource) == ("blob" in resource):
            raise Deviation("either a text or a blob", brief(block))
        if "blob" in resource:
            _base64(resource["blob"])
        found.append(resource)
    return found


async def _check_media_type(server: ServerUnderTest, embedded: JsonObject) -> None:
    """Require the media type that the same contents have when the resource is read."""
    if not server.inventory.has("resources"):
        return
    answer = await server.peer.request("resources/read", {"uri": embedded["uri"]})
    for each in [] if answer.is_error else items(answer.result().get("contents")):
        # A prompt may embed other contents under the URI, of another type.
        same = all(member(each, name) == embedded.get(name) for name in ("uri", "text", "blob"))
        kind = member(each, "mimeType")
        if same and isinstance(kind, str) and _essence(kind) != _essence(str(embedded["mimeType"])):
            raise Deviation(f"the mimeType {kind!r} of the resource", brief(embedded))


def _essence(media_type: str) -> str:
    """Return a media type without its parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


@check("prompts.unknown-name", proves=("prompts.unknown-prompt-error", "prompts.invalid-name-32602"), needs=_NEEDS)
async def unknown_name(server: ServerUnderTest) -> None:
    """An unknown prompt is answered with the error -32602, also if its name is almost that of another one."""
    known = [str(each.get("name")) for each in server.inventory.lists["prompts"]]
    for name in (_UNKNOWN, *INHERITED, *(near_misses(known[0], known) if known else ())):
        answer = await server.peer.request("prompts/get", {"name": name})
        answer.error(-32602, what=f"the unknown prompt {brief(name)}")


@check(
    "prompts.missing-argument",
    proves=("prompts.missing-argument-error", "prompts.missing-argument-32602"),
    needs=_NEEDS,
)
async def missing_argument(server: ServerUnderTest) -> None:
    """A prompt without a required argument is answered with the error -32602."""
    for answer in await _without_argument(server):
        answer.error(-32602, what="a prompt without a required argument")


@check("prompts.validates", proves=("prompts.validate-arguments",), needs=_NEEDS)
async def validates(server: ServerUnderTest) -> None:
    """The arguments of a prompt are validated: a missing required argument is an error."""
    for answer in await _without_argument(server):
        answer.error(what="a prompt without a required argument")


async def _without_argument(server: ServerUnderTest) -> list[JsonRpcResponse]:
    """Return the responses to requests that lack required arguments: all of them, and each alone."""
    given: JsonObject = {"arg1": "one", "arg2": "two"}
    control = await _get(server, "test_prompt_with_arguments", given)
    if control.is_error:
        raise NotTestable(f"the control request failed: {control}")
    name = server.require("prompts", "test_prompt_with_arguments")
    own = server.manifest.find("prompts", "test_prompt_with_arguments").arguments
    listed = items(member(server.inventory.find("prompts", name), "arguments"))
    required = [str(member(each, "name")) for each in listed if member(each, "required") is True]
    whole = given if own is None else own
    lacking: list[JsonObject] = [{"arguments": {}}]
    lacking += [{}] if required else []
    lacking += [{"arguments": {key: value for key, value in whole.items() if key != left}} for left in required]
    return [await server.peer.request("prompts/get", {"name": name, **each}) for each in lacking]


@check("prompts.internal-error", proves=("prompts.internal-error", "jsonrpc.internal-error-code"), needs=_NEEDS)
async def internal_error(server: ServerUnderTest) -> None:
    """An internal error of a prompt is answered with the error -32603."""
    answer = await _get(server, "conformance_failing_prompt", {"word": "any"})
    answer.error(-32603, what="a prompt with an internal error")
