"""Elicitation: forms and URLs that the server presents to the user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcp_conformance.checks.probes.interactive_calls import REPLIES, converse, input_requests_of
from mcp_conformance.checks.probes.message_pairs import answered, notified
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.message_schema import flaw, flaw_of_params
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from mcp_conformance.checks.probes.interactive_calls import ClientRequest, Conversation
    from mcp_conformance.drivers.server.suite_connection import Reply, SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:tools",)
_METHOD: Final = "elicitation/create"
_FORM: Final = "test_elicitation"
_URL: Final = "conformance_elicit_url"
_URL_REQUIRED: Final = "conformance_url_required"
_COMPLETE: Final = "notifications/elicitation/complete"
_RESOURCE: Final = "test://conformance/asking"
_FORMS: Final = (_FORM, "test_elicitation_sep1034_defaults")
_BOTH: Final[JsonObject] = {"elicitation": {"form": {}, "url": {}}}
_ARGUMENTS: Final[JsonObject] = {"message": "Who are you?"}
_SENSITIVE: Final = re.compile(
    r"(?i)pass(word|wd|phrase)|secret|api.?key|access.?token|credential|card.?number|cvc|cvv|\bpin\b|iban"
)
_LINK: Final = re.compile(r"(?i)\bhttps?://")
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


async def _forms(server: ServerUnderTest) -> list[JsonObject]:
    """Return the params of all form elicitations of the fixtures."""
    found: list[JsonObject] = []
    for fixture in _FORMS:
        arguments = _ARGUMENTS if fixture == _FORM else None
        found += [each.params for each in (await converse(server, fixture, arguments)).requests_of(_METHOD)]
    if not found:
        raise NotTestable("the control request failed: no form elicitation was received")
    return found


def _fields(form: JsonObject) -> dict[str, JsonObject]:
    schema = form.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    fields = properties if isinstance(properties, dict) else {}
    return {name: field for name, field in fields.items() if isinstance(field, dict)}


# --- forms -----------------------------------------------------------------------------------------------------------


@check(
    "elicitation.message",
    proves=("elicitation.mode-and-message", "elicitation.message-required", "elicitation.mode-values"),
    needs=_NEEDS,
)
async def message(server: ServerUnderTest) -> None:
    """An elicitation has a message, and the mode form, url or none."""
    for form in await _forms(server):
        if not isinstance(form.get("message"), str) or form.get("mode", "form") not in ("form", "url"):
            raise Deviation("a message, and the mode form or url", brief(form))


@check("elicitation.form", proves=("elicitation.form-params", "elicitation.form-schema-required"), needs=_NEEDS)
async def form_has_schema(server: ServerUnderTest) -> None:
    """A form has a requestedSchema of type "object" with properties."""
    for form in await _forms(server):
        schema = form.get("requestedSchema")
        if form.get("mode", "form") != "form":
            raise Deviation('the mode "form", or none', brief(form))
        if not isinstance(schema, dict) or schema.get("type") != "object" or "properties" not in schema:
            raise Deviation('a requestedSchema of type "object" with properties', brief(form))


@check(
    "elicitation.fields",
    proves=("elicitation.form-schema-flat", "elicitation.string-formats"),
    needs=_NEEDS,
)
async def fields(server: ServerUnderTest) -> None:
    """The fields of a form are strings, numbers, booleans or enums, with formats of the specification."""
    for form in await _forms(server):
        # By the name of the type: in the modern revision elicitation/create is not a method of its own.
        wrong = flaw_of_params(_METHOD, form, server.revision) or flaw(form, "ElicitRequestFormParams", server.revision)
        if wrong is not None:
            raise Deviation("fields according to the schema", wrong)
        for name, field in _fields(form).items():
            if field.get("format") not in (None, "email", "uri", "date", "date-time"):
                raise Deviation("the format email, uri, date or date-time", f"{name}: {brief(field)}")


@check("elicitation.enum-names", proves=("elicitation.enum-names-legacy",), needs=_NEEDS)
async def enum_names(server: ServerUnderTest) -> None:
    """Titles of enum values are given by oneOf, not by enumNames."""
    for form in await _forms(server):
        for name, field in _fields(form).items():
            if "enumNames" in field:
                raise Deviation("oneOf with const and title", f"{name}: {brief(field)}")


@check(
    "elicitation.not-sensitive",
    proves=("elicitation.no-sensitive", "elicitation.no-sensitive-form", "elicitation.sensitive-by-url"),
    needs=_NEEDS,
)
async def not_sensitive(server: ServerUnderTest) -> None:
    """A form does not ask for passwords, keys, tokens or payment cards."""
    for form in await _forms(server):
        for name, field in _fields(form).items():
            text = f"{name} {field.get('title', '')} {field.get('description', '')}"
            if _SENSITIVE.search(text):
                raise Deviation("no field for sensitive data", f"{name}: {brief(field)}")


@check("elicitation.no-links", proves=("elicitation.no-links-in-form", "elicitation.url-not-in-form"), needs=_NEEDS)
async def no_links(server: ServerUnderTest) -> None:
    """The fields of a form contain no URLs."""
    for form in await _forms(server):
        for name, field in _fields(form).items():
            for text in ("title", "description", "default"):
                if _LINK.search(str(field.get(text, ""))):
                    raise Deviation("no URL in a field", f"{name}: {brief(field)}")


@check(
    "elicitation.declined",
    proves=(
        "elicitation.server-handles-actions",
        "elicitation.server-handles-decline",
        "elicitation.no-assumed-success",
    ),
    needs=_NEEDS,
)
async def declined(server: ServerUnderTest) -> None:
    """A declined or cancelled elicitation leads to a response, which differs from that for an accepted one."""
    accepted = _comparable((await _elicited(server, REPLIES[_METHOD])).answer)
    for action in ("decline", "cancel"):
        done = await _elicited(server, _only(action))
        if not done.requests_of(_METHOD):
            raise NotTestable(f"the control request failed: {_FORM} sends no elicitation")
        if _comparable(done.answer) == accepted:
            raise Deviation(f"a response for {action} that differs from that for accept", str(done.answer))
        if member(done.answer.message, "error", "code") == -32603:
            raise Deviation(f"a response for {action} that is no internal error", str(done.answer))
    await server.peer.fence()


def _only(action: str) -> Reply:
    return lambda _: {"action": action}


async def _elicited(server: ServerUnderTest, reply: Reply) -> Conversation:
    return await converse(server, _FORM, _ARGUMENTS, replies={**REPLIES, _METHOD: reply})


def _comparable(answer: JsonRpcResponse) -> JsonObject:
    """Return a response without the id, which differs each time."""
    return {key: value for key, value in answer.message.items() if key != "id"}


@check(
    "elicitation.validates",
    proves=("elicitation.validate-both", "elicitation.server-validates", "elicitation.server-validates-content"),
    needs=_NEEDS,
)
async def validates(server: ServerUnderTest) -> None:
    """Content that violates the requestedSchema is not accepted: the call fails, or the form is sent again."""
    good = (await _elicited(server, REPLIES[_METHOD])).answer
    if good.is_error or good.result().get("isError") is True:
        raise NotTestable(f"the control request failed: {good}")

    def other_kinds(params: JsonObject) -> JsonObject:
        fields = _fields(params)
        content: JsonObject = {
            name: "text" if field.get("type") == "boolean" else True for name, field in fields.items()
        }
        return {"action": "accept", "content": content}

    answer = (await _elicited(server, other_kinds)).answer
    if not answer.is_error and answer.result().get("isError") is not True:
        raise Deviation("a failure for content that violates the requestedSchema", str(answer))


# --- URL mode
# -----------------------------------------------------------------------------------------------------------


_MODES: Final[tuple[tuple[JsonObject, str, str], ...]] = (
    ({"elicitation": {}}, _URL, "url"),
    ({"elicitation": {"form": {}}}, _URL, "url"),
    ({"elicitation": {"url": {}}}, _FORM, "form"),
)
"""The declared capabilities, the tool that is called, and the mode that must not be used."""


async def _pages(server: ServerUnderTest) -> list[ClientRequest]:
    """Return the URL mode elicitations of a tool."""
    server.tool(_URL)
    async with server.share(capabilities=_BOTH, evident=True) as peer:
        done = await converse(server, _URL, peer=peer)
    found = [each for each in done.requests_of(_METHOD) if each.params.get("mode") == "url"]
    if not found:
        raise NotTestable(f"the control request failed: {_URL} sends no URL mode elicitation")
    return found


@check(
    "elicitation.only-declared-modes",
    proves=(
        "elicitation.only-supported-modes",
        "elicitation.unsupported-mode-not-sent",
        "elicitation.capability-empty-is-form",
        "mrtr.respect-elicitation-mode",
    ),
    needs=_NEEDS,
)
async def only_declared_modes(server: ServerUnderTest) -> None:
    """The server uses only declared modes; a client that names no mode supports forms only."""
    await _pages(server)
    for declared, fixture, mode in _MODES:
        async with server.share(capabilities=declared, evident=True) as peer:
            done = await converse(server, fixture, _ARGUMENTS if fixture == _FORM else None, peer=peer)
            requested = [*done.requests_of(_METHOD), *await _of_resource(server, peer)]
        for each in requested:
            if each.params.get("mode", "form") == mode:
                raise Deviation(f"no elicitation with the mode {mode} for {brief(declared)}", brief(each.params))


async def _of_resource(server: ServerUnderTest, peer: SuiteConnection) -> list[ClientRequest]:
    """Return the elicitations of a resource, if the server has it and elicits by MRTR."""
    uri = server.manifest.find("resources", _RESOURCE).name
    if server.revision.era is Era.LEGACY or server.inventory.find("resources", uri) is None:
        return []
    requests = input_requests_of(await peer.request("resources/read", {"uri": uri}))
    return [each for each in requests if each.method == _METHOD]


@check(
    "elicitation.url-params",
    proves=("elicitation.url-params", "elicitation.url-request-params"),
    needs=_NEEDS,
)
async def url_params(server: ServerUnderTest) -> None:
    """A URL mode elicitation has mode, message and url; in 2025-11-25 an elicitationId too, later none."""
    legacy = server.revision.era is Era.LEGACY
    for each in await _pages(server):
        texts = ("message", "url", *(("elicitationId",) if legacy else ()))
        if any(not isinstance(each.params.get(name), str) for name in texts):
            raise Deviation(f"{', '.join(texts)}", brief(each.params))
        if not legacy and "elicitationId" in each.params:
            raise Deviation("no elicitationId", brief(each.params))


@check("elicitation.url-valid", proves=("elicitation.url-valid",), needs=_NEEDS)
async def url_valid(server: ServerUnderTest) -> None:
    """The url is a valid URL."""
    for each in await _pages(server):
        url = str(each.params.get("url"))
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise Deviation("a valid URL", f"{url!r}: {error}") from error
        if not parts.scheme or not parts.hostname or re.search(r"[\s<>\"{}|\\^`]", url):
            raise Deviation("a valid URL", repr(url))


@check("elicitation.url-https", proves=("elicitation.url-https",), needs=_NEEDS)
async def url_https(server: ServerUnderTest) -> None:
    """The url uses https, except on this machine."""
    for each in await _pages(server):
        parts = urlsplit(str(each.params.get("url")))
        if parts.scheme != "https" and parts.hostname not in _LOCAL:
            raise Deviation("https", repr(each.params.get("url")))


@check(
    "elicitation.url-without-secrets",
    proves=("elicitation.url-no-user-data", "elicitation.url-no-sensitive-info"),
    needs=_NEEDS,
)
async def url_without_secrets(server: ServerUnderTest) -> None:
    """The url contains no password, mail address or token."""
    for each in await _pages(server):
        url = str(each.params.get("url"))
        parts = urlsplit(url)
        if parts.username or parts.password or _SENSITIVE.search(parts.query) or re.search(r"(@|%40)", parts.query):
            raise Deviation("a url without credentials and personal data", repr(url))


@check("elicitation.complete-id", proves=("elicitation.complete-has-id",), needs=_NEEDS, subject=CheckScope.PROCESS)
async def complete_id(server: ServerUnderTest) -> None:
    """A completion notification has the elicitationId of the elicitation."""
    server.tool(_URL)
    # On the connection of the other checks, the notification of an earlier elicitation may be late.
    async with server.share(capabilities=_BOTH, client="another") as peer:
        requested = _ids_of(await converse(server, _URL, peer=peer))
        text = await peer.expect(_COMPLETE, f"{_COMPLETE} after {_URL}")
        params = text.get("params")
        if not isinstance(params, dict) or params.get("elicitationId") not in requested:
            raise Deviation("the elicitationId of the elicitation", brief(text))


@check(
    "elicitation.complete-to-asked",
    proves=("elicitation.complete-only-initiator",),
    needs=_NEEDS,
    subject=CheckScope.PROCESS,
)
async def complete_to_requestor(server: ServerUnderTest) -> None:
    """Only the client that received the elicitation gets the completion notification."""
    server.tool(_URL)
    async with server.share(capabilities=_BOTH) as peer, server.share(capabilities=_BOTH, client="another") as other:
        requested = _ids_of(await converse(server, _URL, peer=peer))
        await peer.expect(_COMPLETE, f"{_COMPLETE} after {_URL}")
        await other.fence()
        found = [each for each in other.inbox if each.get("method") == _COMPLETE]
    for each in found:
        if member(each, "params", "elicitationId") in requested:
            raise Deviation(f"no {_COMPLETE} for another client", brief(each))


def _ids_of(call: Conversation) -> list[JsonValue]:
    """Return the ids of the elicitations that a call requested."""
    return [each.params.get("elicitationId") for each in call.requests_of(_METHOD)]


@check("elicitation.no-complete", proves=("elicitation.no-complete-notification",), needs=_NEEDS)
async def no_complete(server: ServerUnderTest) -> None:
    """The server sends no completion notification for an elicitation."""
    server.tool(_URL)
    async with server.share(capabilities=_BOTH, evident=True) as peer:
        done = await converse(server, _URL, peer=peer)
        if not done.requests_of(_METHOD):
            raise NotTestable(f"the control request failed: {_URL} sends no elicitation")
        await peer.fence()
        found = [each for each in peer.inbox if each.get("method") == _COMPLETE]
    found += list(notified(server, _COMPLETE))
    if found:
        raise Deviation(f"no {_COMPLETE}", brief(found[0]))


# --- errors that require an elicitation
# ---------------------------------------------------------------------------------


@check(
    "elicitation.required",
    proves=(
        "elicitation.required-error-code",
        "elicitation.required-error-list",
        "elicitation.required-error-url-mode",
    ),
    needs=_NEEDS,
)
async def required(server: ServerUnderTest) -> None:
    """A request that requires a URL mode elicitation is rejected with -32042, and elicitations with ids."""
    name, arguments = server.tool(_URL_REQUIRED)
    async with server.share(capabilities=_BOTH, evident=True) as peer:
        answer = await peer.request("tools/call", {"name": name, "arguments": arguments})
    data = answer.error(-32042, what="a call that requires a URL mode elicitation").get("data")
    pages = data.get("elicitations") if isinstance(data, dict) else None
    if not isinstance(pages, list) or not pages:
        raise Deviation("data.elicitations", str(answer))
    for page in pages:
        if not isinstance(page, dict) or page.get("mode") != "url" or not isinstance(page.get("elicitationId"), str):
            raise Deviation("the mode url and an elicitationId", brief(page))


@check("elicitation.required-only-then", proves=("elicitation.required-error-only-then",), subject=CheckScope.EVIDENCE)
async def required_only_then(server: ServerUnderTest) -> None:
    """The error -32042 is used only when a URL mode elicitation is required."""
    for request, response in answered(server):
        error = response.get("error")
        if isinstance(error, dict) and error.get("code") == -32042:
            data = error.get("data")
            pages = data.get("elicitations") if isinstance(data, dict) else None
            if request["method"] not in ("tools/call", "prompts/get", "resources/read") or not pages:
                raise Deviation("-32042 only when a URL mode elicitation is required", brief(response))
