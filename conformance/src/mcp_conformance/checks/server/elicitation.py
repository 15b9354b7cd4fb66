"""Elicitation: forms and URLs that the server presents to the user."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcp_conformance.checks.probes.interactive_calls import REPLIES, ClientRequest, converse, input_requests_of
from mcp_conformance.checks.probes.message_pairs import answered, client_requests, notified
from mcp_conformance.checks.probes.recorded_values import items, member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.message_schema import flaw, flaw_of_params
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import R2025_11_25, Era, between

if TYPE_CHECKING:
    from mcp_conformance.checks.probes.interactive_calls import Conversation
    from mcp_conformance.drivers.server.suite_connection import Reply, SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_NEEDS: Final = ("capability:tools",)
_METHOD: Final = "elicitation/create"
_FORM: Final = "test_elicitation"
_URL: Final = "conformance_elicit_url"
_URL_REQUIRED: Final = "conformance_url_required"
_REQUIRED: Final = -32042
"""The code of an error that requires a URL mode elicitation."""
_COMPLETE: Final = "notifications/elicitation/complete"
_RESOURCE: Final = "test://conformance/asking"
_FORMS: Final = (_FORM, "test_elicitation_sep1034_defaults")
_BY_NAME: Final = "test_input_required_result_elicitation"
_URLS_ONLY: Final[JsonObject] = {"elicitation": {"url": {}}}
_FORMS_ONLY: Final[JsonObject] = {"elicitation": {"form": {}}}
_NO_MODE: Final[JsonObject] = {"elicitation": {}}
_BOTH: Final[JsonObject] = {"elicitation": {"form": {}, "url": {}}}
_ARGUMENTS: Final[JsonObject] = {"message": "Who are you?"}
_SENSITIVE: Final = re.compile(
    r"(?i)pass(word|wd|phrase)|secret|api.?key|access.?token|credential|card.?number|cvc|cvv|\bpin\b|iban"
)
_SENSITIVE_FIELD: Final = re.compile(
    rf"{_SENSITIVE.pattern}|pass.?code|(credit|debit|bank).?card|private.?key|security.?code|token\b|\bssn\b"
)
"""Also what is valid in a URL, for instance a token that names the elicitation."""
_SENSITIVE_MESSAGE: Final = re.compile(
    rf"(?i)\b(enter|provide|supply|type|give|what is)\b[^.]*?({_SENSITIVE_FIELD.pattern.removeprefix('(?i)')})"
)
_ADDRESS: Final = re.compile(r"[^/?&=#@]+(@|%40)[^/?&=#@]+\.[A-Za-z]{2,}")
_LINK: Final = re.compile(r"(?i)\bhttps?://")
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_MOST_PROMPTS: Final = 10


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
    """A form does not ask for passwords, keys, tokens or payment cards: not in a field, and not in its message."""
    recorded = [form for form in client_requests(server, _METHOD) if form.get("mode", "form") == "form"]
    for form in [*await _forms(server), *recorded]:
        if _SENSITIVE_MESSAGE.search(str(form.get("message"))):
            raise Deviation("no message that asks for sensitive data", brief(form.get("message")))
        for name, field in _fields(form).items():
            text = f"{name} {field.get('title', '')} {field.get('description', '')}"
            if _SENSITIVE_FIELD.search(text):
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
    """A declined or cancelled elicitation leads to a response, which differs from that for an accepted one, also later."""
    accepted = _comparable((await _elicited(server, REPLIES[_METHOD])).answer)
    others: list[JsonObject] = []
    for action in ("decline", "cancel"):
        done = await _elicited(server, _only(action))
        if not done.requests_of(_METHOD):
            raise NotTestable(f"the control request failed: {_FORM} sends no elicitation")
        if _comparable(done.answer) == accepted:
            raise Deviation(f"a response for {action} that differs from that for accept", str(done.answer))
        _require_no_failure(done.answer, action)
        others.append(_comparable(done.answer))
    again = await _elicited(server, REPLIES[_METHOD])
    if not again.requests_of(_METHOD) or _comparable(again.answer) in others:
        raise Deviation("an elicitation that can be accepted after others were declined", str(again.answer))
    await _decline(server, server.peer, _BY_NAME)
    if server.revision in between(R2025_11_25):
        async with server.share(capabilities=_BOTH, evident=True) as peer:
            await _decline(server, peer, _URL)
    await server.peer.fence()


async def _decline(server: ServerUnderTest, peer: SuiteConnection, fixture: str) -> None:
    """Decline and cancel the elicitation of another tool, if the server has it."""
    with suppress(NotTestable):
        for action in ("decline", "cancel"):
            done = await converse(server, fixture, replies={**REPLIES, _METHOD: _only(action)}, peer=peer)
            _require_no_failure(done.answer, action)


def _require_no_failure(answer: JsonRpcResponse, action: str) -> None:
    if member(answer.message, "error", "code") == -32603:
        raise Deviation(f"a response for {action} that is no internal error", str(answer))


def _only(action: str) -> Reply:
    return lambda _: {"action": action}


async def _elicited(server: ServerUnderTest, reply: Reply) -> Conversation:
    return await converse(server, _FORM, _ARGUMENTS, replies={**REPLIES, _METHOD: reply})


def _comparable(answer: JsonRpcResponse) -> JsonObject:
    """Return a response without the id, which differs each time."""
    return {key: value for key, value in answer.message.items() if key != "id"}


@check(
    "elicitation.validates",
    proves=(
        "elicitation.validate-both",
        "elicitation.server-validates",
        "elicitation.server-validates-content",
        "elicitation.server-handles-decline",
    ),
    needs=_NEEDS,
)
async def validates(server: ServerUnderTest) -> None:
    """Content that violates the requestedSchema is not accepted: the call fails, or the form is sent again.

    The user may cancel a form that is sent again.
    """
    good = (await _elicited(server, REPLIES[_METHOD])).answer
    if good.is_error or good.result().get("isError") is True:
        raise NotTestable(f"the control request failed: {good}")

    async def check_rejected(fill_in: Reply) -> None:
        sent: list[JsonObject] = []

        def reply(params: JsonObject) -> JsonObject:
            sent.append(params)
            return fill_in(params) if len(sent) == 1 else {"action": "cancel"}

        answer = (await _elicited(server, reply)).answer
        if len(sent) > 1:
            _require_no_failure(answer, "cancel of a form that is sent again")
        elif not answer.is_error and answer.result().get("isError") is not True:
            raise Deviation("a failure for content that violates the requestedSchema", str(answer))

    await check_rejected(lambda params: {"action": "accept", "content": _of_other_kinds(params, *_fields(params))})
    for name in [*_fields((await _forms(server))[0])]:
        await check_rejected(partial(_with_one_wrong, name=name))


def _of_other_kinds(params: JsonObject, *names: str) -> JsonObject:
    """Return content for some fields of a form whose types are wrong."""
    return {name: "text" if _fields(params)[name].get("type") == "boolean" else True for name in names}


def _with_one_wrong(params: JsonObject, *, name: str) -> JsonObject:
    """Return the response of a user who fills in all fields, and one of them with a value of another type."""
    response = REPLIES[_METHOD](params)
    content = response.get("content")
    whole = {**content, **_of_other_kinds(params, name)} if isinstance(content, dict) else content
    return {**response, "content": whole}


# --- URL mode
# -----------------------------------------------------------------------------------------------------------


_MODES: Final[tuple[tuple[JsonObject, str, str], ...]] = (
    (_NO_MODE, _URL, "url"),
    (_FORMS_ONLY, _URL, "url"),
    *((_URLS_ONLY, fixture, "form") for fixture in (*_FORMS, _BY_NAME)),
)
"""The declared capabilities, the tool that is called, and the mode that must not be used."""


async def _pages(server: ServerUnderTest) -> list[ClientRequest]:
    """Return the URL mode elicitations of a tool, and those of prompts and a resource."""
    server.tool(_URL)
    async with server.share(capabilities=_BOTH, evident=True) as peer:
        done = await converse(server, _URL, peer=peer)
        required = await _required_pages(server, peer)
    found = [each for each in done.requests_of(_METHOD) if each.params.get("mode") == "url"]
    if not found:
        raise NotTestable(f"the control request failed: {_URL} sends no URL mode elicitation")
    return [*found, *required, *await server.once("pages of prompts and a resource", partial(_other_pages, server))]


async def _other_pages(server: ServerUnderTest) -> list[ClientRequest]:
    """Return the URL mode elicitations of prompts and of a resource, if the server elicits by MRTR."""
    if server.revision.era is Era.LEGACY:
        return []
    async with server.share(capabilities=_BOTH, evident=True) as peer:
        found = await _of_resource(server, peer)
        for prompt in server.inventory.lists.get("prompts", ())[:_MOST_PROMPTS]:
            if not any(member(each, "required") is True for each in items(prompt.get("arguments"))):
                found += input_requests_of(await peer.request("prompts/get", {"name": str(prompt.get("name"))}))
    return [each for each in found if each.method == _METHOD and each.params.get("mode") == "url"]


async def _required_pages(server: ServerUnderTest, peer: SuiteConnection) -> list[ClientRequest]:
    """Return the URL mode elicitations in the error -32042, if the server has a tool for it."""
    fixture = server.manifest.find("tools", _URL_REQUIRED)
    if server.inventory.find("tools", fixture.name) is None:
        return []
    answer = await peer.request("tools/call", {"name": fixture.name, "arguments": fixture.arguments or {}})
    error = answer.message.get("error")
    pages = items(member(error, "data", "elicitations")) if member(error, "code") == _REQUIRED else []
    return [
        ClientRequest(key="", method=_METHOD, params=page, whole={"method": _METHOD, "params": page})
        for page in pages
        if isinstance(page, dict)
    ]


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
    """The server uses only declared modes; a client that names no mode supports forms, and nothing else."""
    await _require_forms_without_mode(server)
    await _pages(server)
    for declared, fixture, mode in _MODES:
        if server.inventory.find("tools", server.manifest.find("tools", fixture).name) is None:
            continue
        async with server.share(capabilities=declared, evident=True) as peer:
            done = await converse(server, fixture, _ARGUMENTS if fixture == _FORM else None, peer=peer)
            requested = [*done.requests_of(_METHOD), *await _of_resource(server, peer)]
        for each in requested:
            if each.params.get("mode", "form") == mode:
                raise Deviation(f"no elicitation with the mode {mode} for {brief(declared)}", brief(each.params))


async def _require_forms_without_mode(server: ServerUnderTest) -> None:
    """Require that a client that names no mode gets the forms that one with the mode `form` gets."""
    if server.inventory.find("tools", server.manifest.find("tools", _FORM).name) is None:
        return
    for declared in (_FORMS_ONLY, _NO_MODE):
        async with server.share(capabilities=declared, evident=True) as peer:
            done = await converse(server, _FORM, _ARGUMENTS, peer=peer)
        if done.requests_of(_METHOD):
            continue
        if declared == _NO_MODE:
            raise Deviation(f"a form for {brief(_NO_MODE)}, as for {brief(_FORMS_ONLY)}", str(done.answer))
        return


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
        behind = f"{parts.query}#{parts.fragment}"
        is_personal = re.search(r"(@|%40)", behind) or _ADDRESS.search(parts.path)
        if parts.username or parts.password or _SENSITIVE.search(behind) or is_personal:
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
    data = answer.error(_REQUIRED, what="a call that requires a URL mode elicitation").get("data")
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
        if isinstance(error, dict) and error.get("code") == _REQUIRED:
            data = error.get("data")
            pages = data.get("elicitations") if isinstance(data, dict) else None
            if request["method"] not in ("tools/call", "prompts/get", "resources/read") or not pages:
                raise Deviation("-32042 only when a URL mode elicitation is required", brief(response))
