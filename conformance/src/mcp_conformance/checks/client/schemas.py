"""JSON Schemas of a server: dialects, references, and keywords that a client must preserve.

Spec: basic#json-schema-usage
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.client.declared_capabilities import answers
from mcp_conformance.checks.client.reported_results import report, reports
from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.schemas import CHANGED, ECHOED, SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_NEEDS: Final = (f"scenario:{SCHEMAS}",)


def _outcome(client: ClientUnderTest, name: str) -> str:
    """Return the outcome of a result, for a client that validates structured content.

    Raises:
        NotApplicable: The client accepts all content.
    """
    if report(client, SCHEMAS, "gives_unfit", control="gives_fit").get("outcome") == "result":
        raise NotApplicable("the client does not validate structured content")
    return str(report(client, SCHEMAS, name, control="gives_fit").get("outcome"))


@check(
    "schema.client-default-dialect",
    proves=("schema.dialect-default", "schema.default-dialect-2020-12"),
    needs=_NEEDS,
)
async def default_dialect(client: ClientUnderTest) -> None:
    """A schema without a dialect is interpreted as JSON Schema 2020-12, and so is one that names this dialect."""
    for name in ("prefix", "2020"):
        fit, unfit = _outcome(client, f"gives_{name}_fit"), _outcome(client, f"gives_{name}_unfit")
        if fit != "result":
            raise Deviation(f"[1, 'a'] of gives_{name}_fit to be accepted", fit)
        if unfit == "result":
            raise Deviation(
                f"['a', 1] of gives_{name}_unfit to be rejected, as prefixItems requires an integer and a string", unfit
            )


@check(
    "schema.client-reference",
    proves=("schema.dialect-validate", "schema.validate-by-dialect"),
    needs=_NEEDS,
)
async def reference(client: ClientUnderTest) -> None:
    """A reference within a schema is followed."""
    fit, unfit = _outcome(client, "gives_reference_fit"), _outcome(client, "gives_reference_unfit")
    if fit != "result":
        raise Deviation("1 to be accepted, as the schema refers to its definition of an integer", fit)
    if unfit == "result":
        raise Deviation("'one' to be rejected, as the schema refers to its definition of an integer", unfit)


@check(
    "schema.client-declared-dialect",
    proves=("schema.dialect-validate", "schema.validate-by-dialect", "schema.dialect-explicit"),
    needs=_NEEDS,
)
async def declared_dialect(client: ClientUnderTest) -> None:
    """A schema of draft-07 is interpreted as such, or rejected."""
    if _outcome(client, "gives_draft7_fit") != "result":
        # The client rejects the dialect, which is allowed.
        return
    if _outcome(client, "gives_draft7_unfit") == "result":
        raise Deviation(
            "['a', 1] to be rejected, as items of draft-07 requires an integer and a string", "it was accepted"
        )
    if _outcome(client, "gives_draft7_unknown_keyword") != "result":
        raise Deviation("['a', 1] to be accepted, as draft-07 has no prefixItems", "it was rejected")


@check(
    "schema.client-unknown-dialect",
    proves=("schema.dialect-unsupported-error", "schema.unsupported-dialect-error"),
    needs=_NEEDS,
)
async def unknown_dialect(client: ClientUnderTest) -> None:
    """A result whose schema has an unknown dialect is not accepted as validated."""
    _rejected(client, "gives_unknown_dialect", "an unknown dialect")


@check("schema.client-unresolved", proves=("schema.unresolved-ref-rejected",), needs=_NEEDS)
async def unresolved(client: ClientUnderTest) -> None:
    """A result whose schema has an unresolved reference is not accepted as validated."""
    _rejected(client, "gives_unresolved", "an unresolved reference")


def _rejected(client: ClientUnderTest, name: str, why: str) -> None:
    # Not applicable to a client without validation.
    _outcome(client, "gives_fit")
    called = [each.get("params") for each in client.run(SCHEMAS).sent("tools/call")]
    if name not in reports(client, SCHEMAS) and not any(isinstance(p, dict) and p.get("name") == name for p in called):
        # The tool was rejected before a call.
        return
    if _outcome(client, name) == "result":
        raise Deviation(f"an error, since the output schema has {why}", "the result was accepted")


@check(
    "schema.client-latest-output",
    proves=("tools.output-schema-client-validates",),
    needs=_NEEDS,
)
async def latest_output(client: ClientUnderTest) -> None:
    """Structured content is validated by the output schema of the latest list of tools."""
    methods = [(each["method"], params_of(each).get("name")) for each in client.run(SCHEMAS).requests]
    lists = [at for at, (method, _) in enumerate(methods) if method == "tools/list"]
    calls = [at for at, each in enumerate(methods) if each == ("tools/call", CHANGED)]
    if not any(calls[0] < at < calls[-1] for at in lists if calls):
        raise NotTestable(f"the client did not list the tools between two calls of {CHANGED}")
    outcome = _outcome(client, CHANGED)
    if outcome != "result":
        raise Deviation(f"the text of {CHANGED} to be accepted, as its latest schema requires", outcome)


@check(
    "schema.client-keeps-keywords",
    proves=("schema.input-keywords-preserved",),
    needs=("scenario:json-schema-2020-12-preservation",),
)
async def keeps_keywords(client: ClientUnderTest) -> None:
    """The input schema of a tool is passed on with all its keywords."""
    for message in client.run("json-schema-2020-12-preservation").sent("tools/call"):
        params = message.get("params")
        arguments = params.get("arguments") if isinstance(params, dict) else None
        if isinstance(params, dict) and params.get("name") == "json_schema_echo" and isinstance(arguments, dict):
            given = arguments.get("schema")
            if not isinstance(given, dict) or "properties" not in given:
                raise NotTestable("the client calls json_schema_echo with another schema")
            if given != ECHOED:
                raise Deviation(brief(ECHOED), brief(given))
            return
    raise NotTestable("the client does not return the schema with json_schema_echo")


# --- annotations -------------------------------------------------------------------------------------------------------

_SAMPLES: Final = ("ask_sample", "ask_sample_image", "ask_sample_audio", "ask_sample_tools_auto")


def _annotations(client: ClientUnderTest) -> Iterator[JsonObject]:
    """Yield the annotations in sampling results.

    Raises:
        NotApplicable: No result has annotations.
    """
    found = 0
    for _, answer in answers(client, "conformance_asks", *_SAMPLES):
        content = answer.get("content")
        for block in content if isinstance(content, list) else [content]:
            if isinstance(block, dict) and "annotations" in block:
                found += 1
                given = block["annotations"]
                yield given if isinstance(given, dict) else {"audience": given}
    if not found:
        raise NotApplicable("the client sends no annotations")


@check(
    "schema.client-annotations",
    proves=(
        "schema.annotations",
        "schema.annotations-last-modified",
        "schema.annotations-audience",
        "schema.annotations-priority",
    ),
    needs=("scenario:conformance_asks",),
)
async def annotated(client: ClientUnderTest) -> None:
    """Annotations have an audience of users or assistants, and a priority from 0 to 1."""
    for given in _annotations(client):
        audience, priority = given.get("audience", []), given.get("priority", 0)
        if not isinstance(audience, list) or not set(map(str, audience)) <= {"user", "assistant"}:
            raise Deviation('an audience of "user" and "assistant"', brief(given))
        if not isinstance(priority, int | float) or isinstance(priority, bool) or not 0 <= priority <= 1:
            raise Deviation("a priority from 0 to 1", brief(given))
        if not isinstance(given.get("lastModified", ""), str):
            raise Deviation("lastModified that is a string", brief(given))


@check(
    "schema.client-annotations-timestamp",
    proves=("schema.annotations-last-modified", "schema.annotations-timestamp"),
    needs=("scenario:conformance_asks",),
)
async def annotated_when(client: ClientUnderTest) -> None:
    """The lastModified of an annotation is an ISO 8601 timestamp."""
    for given in _annotations(client):
        modified = given.get("lastModified")
        if isinstance(modified, str) and not _is_time(modified):
            raise Deviation("lastModified in the format of ISO 8601", brief(given))


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
