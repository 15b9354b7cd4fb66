"""Questions: what a tool asks the client before it answers, by request (legacy) or in its result (2026-07-28).

Each has a tool of its own, of the same name. A client that uses each tool once is asked each question once, and checks
find what it answered by the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.scripted_request import Asked, Instead, encoded
from mcp_conformance.model.verdict import NotApplicable, NotTestable
from mcp_core.revisions import Era, between

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcp_conformance.drivers.client.scripted_request import Session, Turn
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_conformance.scenarios.scenario import Stage
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["KEY", "STATE", "Question", "answer_of", "ask_all", "declares", "posed", "reply_of"]

KEY: Final = "the question"
"""The key of what is asked in a result."""
STATE: Final = 'conformance: {"as it is": true}, =?base64?eA==?= \u00fc\u2028\U0001f9ea '
"""The state that goes with it: nothing to be read, trimmed or normalized."""
_POSED: Final = "posed"
"""The note of the questions that were asked."""
_SPARED: Final = "spared"
"""The note of those that were not, since the client did not declare what they need."""


@attrs.frozen(kw_only=True)
class Question:
    """One question."""

    name: str
    """Its name, and that of its tool."""
    method: str
    """The method by which it is asked."""
    params: JsonObject | None = None
    """Their params."""
    needs: str
    """What the client has to declare, as `sampling.tools`."""
    revisions: frozenset[Revision] = attrs.field(factory=between)
    """Where it can be asked."""
    deviant: str = ""
    """Which rule it breaks on purpose; empty when it breaks none."""


def declares(session: Session, capability: str) -> bool:
    """Whether the client declared something. Elicitation that names no mode is by form."""
    if capability == "elicitation.form":
        modes = session.capabilities.get("elicitation")
        return isinstance(modes, dict) and ("form" in modes or "url" not in modes)
    return session.has(capability)


def ask_all(stage: Stage, questions: Iterable[Question], *, undeclared: bool = False) -> None:
    """Put a tool for each question in the place of all tools.

    Args:
        stage: Where.
        questions: They; those that the revision does not know are left out.
        undeclared: Whether they are asked of clients that did not declare them, too; such a question breaks a rule.
    """
    offers = stage.server.offers
    offers.tools.clear()
    offers.calls.clear()
    for question in questions:
        if stage.revision in question.revisions:
            offers.add_tool(question.name, "Asks the client something", _asking(stage, question, undeclared=undeclared))


def _asking(stage: Stage, question: Question, *, undeclared: bool) -> Callable[[Turn], Awaitable[JsonObject]]:
    async def ask(turn: Turn) -> JsonObject:
        declared = declares(turn.session, question.needs)
        if not declared and not undeclared:
            _note(stage, _SPARED, question.name)
            return text_result(f"not asked: {question.needs} is not declared")
        wrong = question.deviant or ("" if declared else f"{question.needs} is not declared")
        _note(stage, _POSED, question.name)
        if turn.revision.era is Era.LEGACY:
            await turn.ask(question.method, question.params, deviant=wrong, name=question.name)
            return text_result("asked")
        return _round(stage, question, turn, wrong)

    return ask


def _round(stage: Stage, question: Question, turn: Turn, wrong: str) -> JsonObject:
    """Ask in a result, or take the answer."""
    entry: JsonObject = {"method": question.method}
    if question.params is not None:
        entry["params"] = question.params
    given = turn.params.get("inputResponses")
    if isinstance(given, dict):
        response: JsonObject | None = {"result": given[KEY]} if KEY in given else None
        stage.server.asked.append(Asked(method=question.method, request=entry, response=response, name=question.name))
        return text_result("asked")
    result: JsonObject = {"resultType": "input_required", "inputRequests": {KEY: entry}, "requestState": STATE}
    if wrong:
        whole = stage.server.complete(turn.method, result, turn.revision)
        raise Instead(encoded({"jsonrpc": "2.0", "id": turn.request["id"], "result": whole}), wrong)
    return result


def _note(stage: Stage, name: str, question: str) -> None:
    found = stage.notes.setdefault(name, [])
    if isinstance(found, list):
        found.append(question)


# --- what checks ask ---------------------------------------------------------------------------------------------------


def posed(evidence: Evidence, name: str) -> None:
    """Hold when the client was asked a question.

    Raises:
        NotApplicable: It did not declare what that needs.
        NotTestable: It did not call the tool.
    """
    if name in _list(evidence.notes.get(_SPARED)):
        raise NotApplicable("the client does not declare what the question needs")
    if name not in _list(evidence.notes.get(_POSED)):
        raise NotTestable(f"the client did not call the tool {name}: {evidence.ending}")


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def reply_of(client: ClientUnderTest, scenario: str, name: str) -> JsonObject | None:
    """The response to a question, with `result` or `error`; `None` when there was none.

    Raises:
        NotApplicable: The client did not declare what the question needs.
        NotTestable: It did not call the tool.
    """
    evidence = client.run(scenario)
    posed(evidence, name)
    found = [each.response for each in evidence.server.asked if each.name == name]
    return found[-1] if found else None


def answer_of(client: ClientUnderTest, scenario: str, name: str) -> JsonObject:
    """The result that a question was answered by.

    Raises:
        NotApplicable: The client did not declare what the question needs.
        NotTestable: It did not call the tool, or answered by no result.
    """
    response = reply_of(client, scenario, name)
    result = None if response is None else response.get("result")
    if not isinstance(result, dict):
        raise NotTestable(f"{name} was not answered by a result")
    return result
