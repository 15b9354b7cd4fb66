"""The roots of a client, and its other capabilities.

Spec: client/roots, basic/lifecycle#capability-negotiation
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from mcp_conformance.checks.client.declared_capabilities import (
    capabilities,
    declares,
    error_code,
    other_results,
    refuses,
)
from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import has_capability
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw
from mcp_conformance.protocol.response import brief
from mcp_conformance.protocol.uri_syntax import is_uri
from mcp_conformance.scenarios.client_request_tools import check_sent, response_of, result_of
from mcp_conformance.scenarios.client_requests import AT_ONCE
from mcp_core.methods import methods
from mcp_core.revisions import LEGACY, MODERN, REVISIONS

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject

_SCENARIO: Final = "conformance_asks"
_NEEDS: Final = (f"scenario:{_SCENARIO}",)
_LEGACY: Final = [each.name for each in LEGACY]
_MODERN: Final = [each.name for each in MODERN]
_CHANGED: Final = "notifications/roots/list_changed"
_CHANGES: Final = "conformance_roots_change"
"""The scenario in which the roots of the client change."""
_LISTED: Final = 2
"""How often a client lists its roots where they change: before and after the change."""
_EXTENSION: Final = re.compile(
    r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
)


@check(
    "roots.client-undeclared-answer",
    proves=("roots.declare-capability", "roots.capability"),
    needs=("scenario:conformance_asks_undeclared",),
)
async def undeclared(client: ClientUnderTest) -> None:
    """A client that does not declare roots lists none."""
    refuses(client, "conformance_asks_undeclared", "ask_roots", capability="roots", kind="ListRootsResult")


@check(
    "roots.client-result",
    proves=("schema.list-roots-result", "roots.result-shape"),
    needs=(*_NEEDS, f"scenario:{_CHANGES}"),
)
async def result(client: ClientUnderTest) -> None:
    """The roots are an array of objects with a URI in the syntax of RFC 3986, and optionally a name."""
    for answer in _results(client):
        wrong = flaw(answer, "ListRootsResult", client.revision)
        if wrong is not None:
            raise Deviation("a ListRootsResult", f"{wrong} in {brief(answer)}")
    for uri in _all_uris(client):
        if not is_uri(uri):
            raise Deviation("a URI, in which other characters are encoded", brief(uri))


def _results(client: ClientUnderTest) -> list[JsonObject]:
    """Return all results of `roots/list`, first that of the basic scenario, without which the check is not testable."""
    first = result_of(client, _SCENARIO, "ask_roots")
    return [first, *(each for _, each in other_results(client, "roots/list"))]


def _all_uris(client: ClientUnderTest) -> list[str]:
    listed = [part for each in _results(client) if isinstance(part := each.get("roots"), list)]
    found = [each.get("uri") for roots in listed for each in roots if isinstance(each, dict)]
    return [each for each in found if isinstance(each, str)]


def _uris(client: ClientUnderTest) -> list[str]:
    uris = _all_uris(client)
    if not uris:
        raise NotTestable("the client has no roots")
    return uris


@check(
    "roots.client-file",
    proves=("roots.uri-file-scheme", "roots.file-uri"),
    needs=(*_NEEDS, f"scenario:{_CHANGES}"),
)
async def file_scheme(client: ClientUnderTest) -> None:
    """Every root is a file: URI."""
    for uri in _uris(client):
        if not uri.startswith("file://"):
            raise Deviation("a URI that starts with file://", brief(uri))


@check("roots.client-no-traversal", proves=("roots.validate-uris",), needs=_NEEDS)
async def no_traversal(client: ClientUnderTest) -> None:
    """No root has a path with parent directories."""
    for uri in _uris(client):
        if ".." in unquote(urlsplit(uri).path).replace("\\", "/").split("/"):
            raise Deviation("a path without ..", brief(uri))


@check(
    "roots.client-internal-error",
    proves=("roots.internal-error",),
    needs=("scenario:conformance_roots_fail", f"scenario:{_SCENARIO}"),
)
async def internal_error(client: ClientUnderTest) -> None:
    """An internal error while listing roots is answered with -32603."""
    result_of(client, _SCENARIO, "ask_roots")
    response = response_of(client, "conformance_roots_fail", "ask_roots")
    if response is not None and isinstance(response.get("result"), dict):
        raise NotTestable("the client listed its roots")
    if error_code(response) != -32603:
        raise Deviation("error -32603", brief(response))


def _with_change(client: ClientUnderTest) -> Evidence:
    """Return the recorded messages of the scenario in which the roots of the client change.

    Raises:
        NotApplicable: The client does not declare roots.listChanged.
        NotTestable: The client did not call the tool that requests the roots.
    """
    if not declares(client, _CHANGES, "roots.listChanged"):
        raise NotApplicable("the client does not declare roots.listChanged")
    evidence = client.run(_CHANGES)
    check_sent(evidence, "ask_roots")
    return evidence


@check("roots.client-list-changed", proves=("roots.list-changed",), needs=(f"scenario:{_CHANGES}",))
async def list_changed(client: ClientUnderTest) -> None:
    """A client that declares roots.listChanged sends the notification when its roots change."""
    evidence = _with_change(client)
    if evidence.sent(_CHANGED):
        return
    roots = [each.response.get("result") for each in evidence.server.client_requests if each.response is not None]
    if all(each == roots[0] for each in roots):
        raise NotTestable("the roots of the client do not change, or it did not call the tool again after the change")
    raise Deviation(_CHANGED, f"different roots without the notification, and {evidence.ending}")


@check(
    "roots.client-monitors",
    proves=("roots.monitor-changes",),
    needs=(f"scenario:{_CHANGES}", f"scenario:{_SCENARIO}"),
)
async def monitors(client: ClientUnderTest) -> None:
    """A client that declares roots.listChanged notices when its roots change: it lists other roots, or sends the notification."""
    evidence = _with_change(client)
    result_of(client, _SCENARIO, "ask_roots")
    usual, changed = ([each.get("roots") for each in _listed(run)] for run in (client.run(_SCENARIO), evidence))
    # A client that has code for the scenario requests the roots again after the change, and not otherwise.
    if len(changed) < _LISTED or len(usual) >= _LISTED:
        raise NotTestable("the client did not call the tool again after the change of its roots")
    if not evidence.sent(_CHANGED) and all(each == changed[0] for each in changed):
        raise Deviation(f"other roots after the change, or {_CHANGED}", brief(changed[-1]))


def _listed(evidence: Evidence) -> list[JsonObject]:
    """Return the results of `roots/list` of the tool that requests roots only."""
    answers = [each.response for each in evidence.server.client_requests if each.name == "ask_roots"]
    results = [each.get("result") for each in answers if each is not None]
    return [each for each in results if isinstance(each, dict)]


@check(
    "roots.client-list-changed-declared",
    proves=("capability.only-negotiated", "capability.only-negotiated-should"),
    revisions=_LEGACY,
)
async def list_changed_declared(client: ClientUnderTest) -> None:
    """A client that does not declare roots.listChanged does not send the notification."""
    found = 0
    for evidence in client.all(instructed=True):
        for message in evidence.sent(_CHANGED):
            found += 1
            if not any(
                has_capability(each, "roots.listChanged") for each in capabilities(client, evidence.scenario.name)
            ):
                raise Deviation(
                    "no notifications/roots/list_changed: roots.listChanged is not declared", brief(message)
                )
    if not found:
        raise NotApplicable("the client sends no notifications/roots/list_changed")


@check("roots.client-no-list-changed", proves=("roots.no-list-changed",))
async def no_list_changed(client: ClientUnderTest) -> None:
    """A modern client does not send notifications/roots/list_changed."""
    # The capability has no defined members, and its schema is open: a client of both eras may declare listChanged to all
    # servers, and modern ones ignore it.
    for evidence in client.all(instructed=True):
        for message in evidence.sent(_CHANGED):
            raise Deviation("no notifications/roots/list_changed", brief(message))


# --- capabilities ------------------------------------------------------------------------------------------------------


@check(
    "capability.client-keeps-declared",
    proves=("capability.respect-throughout",),
    revisions=_LEGACY,
    needs=_NEEDS,
)
async def keeps_declared(client: ClientUnderTest) -> None:
    """Requests of a declared capability are not rejected as unknown, roots are listed, and none of several gets lost."""
    tried = 0
    for name in ("ask_form", "ask_sample", "ask_roots"):
        try:
            response = response_of(client, _SCENARIO, name)
        except (NotApplicable, NotTestable):
            continue
        tried += 1
        # Without any response, another check covers the reason.
        others = [each.response for each in client.run(_SCENARIO).server.client_requests if each.name != name]
        unlisted = name == "ask_roots" and response is None and any(others)
        if error_code(response) == -32601 or unlisted:
            raise Deviation(f"a response to {name}, whose capability is declared", brief(response))
    _answers_at_once(client)
    if not tried:
        raise NotApplicable("the client declares no capability for client requests")


def _answers_at_once(client: ClientUnderTest) -> None:
    """Check that each client request has a response if another one that was sent at once has one."""
    # Of the transcript, as the run may end before the suite has waited for the missing response.
    sent: dict[str, JsonObject] = {}
    answered: dict[str, JsonObject] = {}
    for entry in client.run(_SCENARIO).transcript:
        message = entry.value
        id = message.get("id") if isinstance(message, dict) else None
        if isinstance(message, dict) and isinstance(id, str) and id.startswith(AT_ONCE):
            (sent if entry.sent else answered)[id] = message
    for id, request in sent.items():
        if answered and id not in answered:
            raise Deviation(f"a response to {request['method']} while others are pending", "no response")


@check("capability.client-experimental", proves=("capability.experimental-object",))
async def experimental(client: ClientUnderTest) -> None:
    """The experimental capability is an object of objects."""
    _objects(client, "experimental")


@check("capability.client-extensions", proves=("capability.extension-negotiation-field",))
async def extensions(client: ClientUnderTest) -> None:
    """The extensions are an object, with an object of settings for each."""
    _objects(client, "extensions")


def _objects(client: ClientUnderTest, member: str) -> None:
    found: list[JsonObject] = [each for each in capabilities(client) if member in each]
    for each in found:
        value = each[member]
        if not isinstance(value, dict) or not all(isinstance(part, dict) for part in value.values()):
            raise Deviation(f"{member} that maps names to objects", brief(value))
    if not found:
        raise NotApplicable(f"the client declares no {member}")


@check("capability.client-extension-names", proves=("capability.extension-id-format",))
async def extension_names(client: ClientUnderTest) -> None:
    """An extension identifier consists of a prefix of labels, a slash and a name."""
    found = 0
    for each in capabilities(client):
        value = each.get("extensions")
        for name in value if isinstance(value, dict) else ():
            found += 1
            if not _EXTENSION.fullmatch(name):
                raise Deviation("a name such as com.example/thing", brief(name))
    if not found:
        raise NotApplicable("the client declares no extensions")


@check(
    "capability.client-extension-inactive",
    proves=("capability.extension-not-active-by-default", "capability.extension-fallback-or-reject"),
    revisions=_MODERN,
    needs=("scenario:tools_call", "scenario:initialize"),
)
async def extension_inactive(client: ClientUnderTest) -> None:
    """With a server that declares no extension the client uses none."""
    for evidence in (client.control(), client.run("initialize")):
        for message in evidence.requests:
            # Methods of other revisions are not extensions; another check covers them.
            known = any(message["method"] in methods(each) for each in REVISIONS.values())
            if not known or str(message["method"]).startswith("tasks/"):
                raise Deviation("only methods of the protocol itself", brief(message))
