"""The client capabilities of the raw client, and its answers to client requests."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from mutants.client.tasks import AUGMENTABLE, ClientTasks, task_capabilities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

    Wrong = Callable[[str], bool]

__all__ = ["Answers"]

_UNDECLARED: Final = "conformance_asks_undeclared"
_LITTLE: Final = "conformance_declares_little"
_DECLINING: Final = ("conformance_declines", "conformance_asks_tasks_declined")
_METHODS: Final = ("roots/list", *AUGMENTABLE, "tasks/get", "tasks/result", "tasks/cancel", "tasks/list")
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
}
_RELATED: Final = "io.modelcontextprotocol/related-task"


class Answers:
    """The user, the model and the roots of the raw client.

    Args:
        wrong: Returns whether a fault is set.
    """

    def __init__(self, wrong: Wrong) -> None:
        self._wrong: Final = wrong
        self._scenario: Final = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
        self._version: Final = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
        context: JsonValue = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
        self._first_states: Final[dict[str, str]] = {}
        """The first state of each name, for faults that use it instead of the latest."""
        self.kept: JsonObject = {}
        """The last input responses, for faults that repeat them to another server."""
        self._context: Final[JsonObject] = context if isinstance(context, dict) else {}
        self.tasks: Final = ClientTasks(wrong)
        """The tasks that the server has started."""
        self.last_state: str | None = None
        """The last state of the request in progress, for a fault that repeats it."""
        self.earlier: Final[JsonObject] = {}
        """The input responses of earlier round trips of the request in progress, for a fault that repeats them."""
        self._looked = 0
        self._invalid = 0
        """The number of sampling requests without messages."""
        self.failed = False
        """Whether the server has sent an error, for a fault of the requests after it."""
        self.odd = False
        """Whether the fault changes the message that is sent now."""

    @property
    def active(self) -> bool:
        """Whether the client answers: only in scenarios about client requests."""
        return self._scenario.startswith(("conformance_", "sep-2322-"))

    @property
    def modern(self) -> bool:
        """Whether the client uses the modern revision."""
        return self._version >= "2026-07-28"

    @property
    def _is_plain_scenario(self) -> bool:
        """Whether the scenario requests every declared feature without deviations, where most faults show."""
        return self._scenario == "conformance_asks"

    # --- capabilities ------------------------------------------------------------------------------------------------

    def declared(self) -> JsonObject:
        """Return the client capabilities."""
        wrong = self._wrong
        if not self.active or self._scenario == _UNDECLARED:
            return {}
        pages = self._version >= "2025-11-25"
        little = self._scenario == _LITTLE
        found: JsonObject = {"sampling": {"tools": {}} if pages and not little else {}}
        if self._version >= "2025-06-18":
            found["elicitation"] = {} if not pages or little else {"form": {}, "url": {}}
            if wrong("odd-modes"):
                found["elicitation"] = {"voice": {}}
        if not little:
            found["roots"] = {} if self.modern or wrong("roots-changes-undeclared") else {"listChanged": True}
        if self.failed and wrong("forgets-roots-after-errors"):
            del found["roots"]
        if wrong("samples-by-number"):
            found = {"sampling": {}}
        found |= task_capabilities(self._scenario, self._version, wrong)
        if self.odd and wrong("task-hides-extension"):
            del found["extensions"]
        if wrong("experimental-flag"):
            found["experimental"] = {"com.example/x": True}
        if wrong("extensions-list"):
            found["extensions"] = {"com.example/x": True}
        if wrong("extension-bare-name"):
            found["extensions"] = {"tasks": {}}
        return found

    # --- input requests ----------------------------------------------------------------------------------------------

    def again(self, params: JsonObject, result: JsonObject) -> JsonObject | None:
        """Return the params of the retry, or `None` to abandon the request.

        Args:
            params: The params of the first request.
            result: The result with input requests.
        """
        requests = result.get("inputRequests")
        given: JsonObject = {}
        for key, request in requests.items() if isinstance(requests, dict) else ():
            input_params = request if isinstance(request, dict) else {}
            inner = input_params.get("params")
            answer = self.answer(str(input_params.get("method")), inner if isinstance(inner, dict) else {})
            if "result" not in answer:
                return None
            given[key] = answer["result"]
        wrong = self._wrong
        given = _by_method(given, requests, wrong)
        lost = {"": wrong("no-empty-key"), "__proto__": wrong("no-prototype-key")}
        given = {key: value for key, value in given.items() if not lost.get(key)}
        self.earlier.update(given)
        if wrong("keeps-earlier-answers"):
            given = dict(self.earlier)
        again: JsonObject = dict(params)
        if wrong("forgets-params"):
            again = {name: value for name, value in params.items() if name != "arguments"}
        if given:
            rekeyed = wrong("numbers-keys") or wrong("samples-by-number")
            again["inputResponses"] = _rekeyed(given) if rekeyed else given
            if list(given) == ["0"] and wrong("lists-by-index"):
                again["inputResponses"] = [*given.values()]
            if self._scenario == "conformance_rounds" and wrong("wraps-answers"):
                again["inputResponses"] = {key: {"jsonrpc": "2.0", "result": value} for key, value in given.items()}
        if "requestState" in result and (result["requestState"] or not wrong("no-empty-state")):
            state = str(result["requestState"])
            self.last_state = state
            state = _serialized_again(state) if wrong("state-parsed") else state
            again["requestState"] = state.strip() if wrong("trims-state") else state
            first = self._first_states.setdefault(str(params.get("name")), state)
            if wrong("first-state"):
                again["requestState"] = first
        elif self.last_state is not None and wrong("keeps-old-state"):
            again["requestState"] = self.last_state
        elif wrong("invents-state"):
            again["requestState"] = ""
        self.kept = {name: again[name] for name in ("inputResponses", "requestState") if name in again}
        return again

    # --- answers -----------------------------------------------------------------------------------------------------

    def answer(self, method: str, params: JsonObject) -> JsonObject:
        """Return the `result` or the `error`."""
        wrong = self._wrong
        declared = self.declared()
        need = method.partition("/")[0]
        if method not in _METHODS and (need == "tasks" or not wrong("dispatches-by-prefix")):
            return _error(-32601, "unknown method")
        if need == "tasks" and "tasks" in declared:
            return self.tasks.about(method, params)
        undeclared = wrong(f"answers-undeclared-{need}") or (wrong("visits-undeclared") and params.get("mode") == "url")
        if need not in declared and not undeclared:
            return _error(-32601, "unknown method")
        if wrong("forgets-capabilities") and method != "roots/list":
            return _error(-32601, "unknown method")
        if method not in AUGMENTABLE:
            return self._roots()
        answer = self._elicit(params) if method == "elicitation/create" else self._sample(params)
        if "task" in params and ("tasks" in declared or wrong("task-undeclared")):
            return self.tasks.begin(params, answer)
        return _related(answer, params) if not wrong("task-answer-unrelated") else answer

    def _elicit(self, params: JsonObject) -> JsonObject:
        wrong = self._wrong
        mode = params.get("mode", "none" if wrong("mode-required") else "form")
        if "message" not in params and not wrong("message-optional"):
            return _error(-32603 if wrong("invalid-as-internal") else -32602, "message is missing")
        if mode == "url":
            return self._visit(params)
        if mode != "form":
            return _error(-32602, "mode is neither form nor url")
        if "requestedSchema" not in params and not wrong("schema-optional"):
            return _error(-32602, "requestedSchema is missing")
        if wrong("needs-titles") and not _are_titled(params["requestedSchema"]):
            return _error(-32602, "a field has no title")
        if wrong("no-titled-choices") and "anyOf" in json.dumps(params["requestedSchema"]):
            return _error(-32602, "unsupported type array")
        if self._scenario == "conformance_declines" and wrong("says-no"):
            return {"result": {"action": "no"}}
        if self._scenario in _DECLINING:
            return {
                "result": {"action": "decline", **({"content": {"name": "Jo"}} if wrong("decline-content") else {})}
            }
        given = self._context.get("content")
        if isinstance(given, dict):
            return {"result": self._refused(given, params.get("requestedSchema"))}
        later = self._scenario == "conformance_elicitation_complete" and wrong("odd-action-later")
        if later or (self._is_plain_scenario and wrong("odd-action")):
            return {"result": {"action": "ok", "content": {}}}
        return {"result": {"action": "accept", "content": self._content(params.get("requestedSchema"))}}

    def _content(self, schema: JsonValue) -> JsonObject:
        """Return the content of a form that the user submits."""
        wrong = self._wrong
        content = _filled_in(
            schema,
            defaults=not wrong("no-defaults"),
            truthy=wrong("no-false-defaults"),
            one_choice=wrong("one-choice-of-several"),
        )
        if wrong("required-booleans-false"):
            content |= dict.fromkeys(_required_booleans(schema), False)
        if wrong("titles-as-values"):
            content = _titled(content, schema)
        if self._is_plain_scenario and wrong("content-of-objects"):
            content["more"] = {"deep": True}
        if wrong("age-as-text") and content.get("age") == 42:
            content["age"] = "42"
        if wrong("drops-falsy-values"):
            content = {name: value for name, value in content.items() if value}
        return content

    def _refused(self, given: JsonObject, schema: JsonValue) -> JsonObject:
        """Return the response to a form for which the user submits invalid values."""
        wrong = self._wrong
        seen = [each for each in _violated(given, schema) if not wrong(f"validates-no-{each}")]
        if wrong("sends-unfit") or not seen:
            return {"action": "accept", "content": given}
        return {"action": "cancel", "content": {"name": "x"}} if wrong("cancel-content") else {"action": "cancel"}

    def _visit(self, params: JsonObject) -> JsonObject:
        wrong = self._wrong
        if self._scenario == _LITTLE and not wrong("any-mode"):
            return _error(-32600 if wrong("mode-as-invalid-request") else -32602, "elicitation.url is not declared")
        if wrong("reads-elicitation-id") and not str(params.get("elicitationId", "x")).isalnum():
            return _error(-32602, "elicitationId is invalid")
        if self._scenario == "conformance_declines":
            return {"result": {"action": "decline"}}
        if wrong("completes-elicitations"):
            self.tasks.complete(params.get("elicitationId"))
        return {"result": {"action": "accept", **({"content": {}} if wrong("url-content") else {})}}

    def _roots(self) -> JsonObject:
        if self._scenario == "conformance_roots_fail" and self._wrong("roots-fail-null"):
            return {"result": None}
        if self._scenario == "conformance_roots_fail":
            return _error(-32000 if self._wrong("roots-fail-oddly") else -32603, "the roots are unavailable")
        uri = "file:///tmp/project"
        if self._wrong("roots-http") or (self._wrong("roots-http-later") and self._looked):
            uri = "https://example.com/project"
        if self._wrong("roots-unencoded"):
            uri = "file:///tmp/my project"
        if self._wrong("roots-traversal"):
            uri = "file:///tmp/project/%2e%2e/other"
        self._looked += 1
        changes = self._scenario == "conformance_roots_change" and not self._wrong("roots-kept")
        if changes and self._looked > 1 and not self._wrong("roots-http-later"):
            return {"result": {"roots": None if self._wrong("no-roots-null") else []}}
        if self._wrong("roots-null"):
            return {"result": {"roots": None}}
        root: JsonObject = {"path": uri} if self._wrong("roots-path") else {"uri": uri}
        return {"result": {"roots": [root]}}

    def _sample(self, params: JsonObject) -> JsonObject:
        wrong = self._wrong
        messages = params.get("messages")
        if not isinstance(messages, list):
            self._invalid += 1
            code = -32603 if self._invalid > 1 and wrong("invalid-as-internal-later") else -32602
            return {"result": _said("nothing")} if wrong("messages-optional") else _error(code, "messages is missing")
        tools = "tools" in params or ("toolChoice" in params and not wrong("any-tool-choice"))
        undeclared = tools and self._scenario == _LITTLE and not wrong("any-tools")
        if undeclared or ("maxTokens" not in params and not wrong("limit-optional")):
            return _error(-32602, "tools are not declared, or maxTokens is missing")
        least = not params.get("temperature", 1) or params.get("stopSequences") == []
        why = "temperature is missing" if least and wrong("no-least-values") else _flaw(messages, wrong)
        if why:
            return _error(-32603 if wrong("unbalanced-as-internal") else -32602, why)
        if self._scenario in _DECLINING:
            return self._rejected(params)
        answer = _said("an answer")
        choice = params.get("toolChoice")
        mode = choice.get("mode") if isinstance(choice, dict) else "auto"
        if (mode == "required" and not wrong("never-uses-tools")) or (mode == "none" and wrong("always-uses-tools")):
            use: JsonObject = {"type": "tool_use", "id": "1", "name": "get_weather", "input": {"city": "Ghent"}}
            if wrong("use-without-input"):
                use["input"] = "Ghent"
            answer["content"] = [use, {**use, "input": {"city": "Bruges"}}] if wrong("uses-share-id") else use
        if wrong("says-as-user"):
            answer["role"] = "user"
        content = answer["content"]
        if isinstance(content, dict) and "text" in content:
            annotations: JsonObject = {
                "audience": ["everybody"] if wrong("odd-audience") else ["user"],
                "priority": 0.5,
            }
            if self._version >= "2025-06-18":
                annotations["lastModified"] = "yesterday" if wrong("odd-timestamp") else "2025-01-12T15:00:58Z"
            content["annotations"] = annotations
            if wrong("content-in-capitals"):
                content["type"] = "TEXT"
            if wrong("any-length"):
                content["text"] = "word " * 400
        listed = [answer["content"]] if wrong("content-in-lists") else answer["content"]
        answer |= {"content": listed, "model": self._model(params)}
        later = self._scenario == "conformance_progress" and wrong("no-model-later")
        if later or (self._is_plain_scenario and wrong("no-model")):
            del answer["model"]
        return {"result": answer}

    def _rejected(self, params: JsonObject) -> JsonObject:
        """Return the error of a sampling request that the user rejects."""
        wrong = self._wrong
        if wrong("progress-behind-errors"):
            self.tasks.report_last(params)
        reason: JsonValue = 7 if wrong("rejected-by-number") else "User rejected sampling request"
        return {"error": {"code": -32603 if wrong("rejected-as-internal") else -1, "message": reason}}

    def _model(self, params: JsonObject) -> str:
        listed = self._context.get("models")
        models = [str(each) for each in listed] if isinstance(listed, list) else ["raw"]
        preferences = params.get("modelPreferences")
        hints = preferences.get("hints") if isinstance(preferences, dict) else None
        names = [str(each.get("name")) for each in hints if isinstance(each, dict)] if isinstance(hints, list) else []
        if self._wrong("hints-backwards"):
            names.reverse()
        if self._wrong("priorities-first") and isinstance(preferences, dict) and "intelligencePriority" in preferences:
            return models[0]
        if self._wrong("hints-exact"):
            return next((name for name in names if name in models), models[0])
        return next((model for name in names for model in models if name in model), models[0])


def _by_method(given: JsonObject, requests: JsonValue, wrong: Wrong) -> JsonObject:
    """Return the input responses; with a fault, only one for each method, or the same for all of a method."""
    listed = requests if isinstance(requests, dict) else {}
    methods = {key: json.dumps(each.get("method")) for key, each in listed.items() if isinstance(each, dict)}
    if wrong("answers-by-method"):
        last = {method: key for key, method in methods.items()}
        return {key: given[key] for key in last.values()}
    if wrong("first-answer-for-all"):
        firsts: JsonObject = {}
        return {key: firsts.setdefault(methods[key], value) for key, value in given.items()}
    return given


def _rekeyed(given: JsonObject) -> JsonObject:
    return {str(number): value for number, value in enumerate(given.values())}


def _related(answer: JsonObject, params: JsonObject) -> JsonObject:
    """Return an answer that is related to the task of its request."""
    meta, result = params.get("_meta"), answer.get("result")
    related = meta.get(_RELATED) if isinstance(meta, dict) else None
    if related is None or not isinstance(result, dict):
        return answer
    return {"result": {**result, "_meta": {_RELATED: related}}}


def _error(code: int, message: str) -> JsonObject:
    return {"error": {"code": code, "message": message}}


def _serialized_again(state: str) -> str:
    """Return a state that was parsed as JSON and serialized again; unchanged if it is not JSON."""
    try:
        return json.dumps(json.loads(state))
    except ValueError:
        return state


def _said(text: str) -> JsonObject:
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "raw", "stopReason": "endTurn"}


def _violated(given: JsonObject, schema: JsonValue) -> Iterator[str]:
    """Yield the keywords of the schema of a form that values violate."""
    form = schema if isinstance(schema, dict) else {}
    required, properties = form.get("required"), form.get("properties")
    if any(name not in given for name in (required if isinstance(required, list) else ())):
        yield "required"
    for name, field in (properties if isinstance(properties, dict) else {}).items():
        value = given.get(name)
        if not isinstance(field, dict) or value is None:
            continue
        options = field.get("oneOf")
        consts = (
            [each.get("const") for each in options if isinstance(each, dict)] if isinstance(options, list) else None
        )
        choices = field.get("enum", [value] if consts is None else consts)
        rules = {
            "type": not isinstance(value, _TYPES[str(field["type"])]),
            "choice": isinstance(choices, list) and value not in choices,
            "length": isinstance(value, str) and len(value) < _number(field, "minLength", 0),
            "minimum": isinstance(value, int) and value < _number(field, "minimum", value),
            "maximum": isinstance(value, int) and value > _number(field, "maximum", value),
        }
        yield from (keyword for keyword, broken in rules.items() if broken)


def _number(field: JsonObject, name: str, default: int) -> float:
    value = field.get(name, default)
    return value if isinstance(value, int | float) else default


def _filled_in(schema: JsonValue, *, defaults: bool, truthy: bool, one_choice: bool) -> JsonObject:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    found: JsonObject = {}
    for name, field in properties.items() if isinstance(properties, dict) else ():
        if isinstance(field, dict):
            has_default = bool(field.get("default")) if truthy else "default" in field
            found[name] = field["default"] if has_default and defaults else _value(field, one_choice=one_choice)
    return found


def _required_booleans(schema: JsonValue) -> list[str]:
    """Return the names of the required fields of a form that are boolean."""
    form = schema if isinstance(schema, dict) else {}
    required, properties = form.get("required"), form.get("properties")
    fields = properties if isinstance(properties, dict) else {}
    names = [str(name) for name in required] if isinstance(required, list) else []
    return [name for name in names if isinstance(field := fields.get(name), dict) and field.get("type") == "boolean"]


def _are_titled(schema: JsonValue) -> bool:
    """Return whether all fields of a form have a title."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    fields = properties.values() if isinstance(properties, dict) else ()
    return all(isinstance(each, dict) and "title" in each for each in fields)


def _titled(content: JsonObject, schema: JsonValue) -> JsonObject:
    """Return content in which each titled choice has its title in place of its value."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    titled = dict(content)
    for name, field in properties.items() if isinstance(properties, dict) else ():
        options = field.get("oneOf") if isinstance(field, dict) else None
        for option in options if isinstance(options, list) else []:
            if isinstance(option, dict) and option.get("const") == content.get(name):
                titled[name] = option["title"]
    return titled


def _value(field: JsonObject, *, one_choice: bool) -> JsonValue:
    choices = field.get("enum")
    if isinstance(choices, list):
        return choices[0]
    options = field.get("oneOf") or field.get("anyOf")
    if isinstance(options, list) and isinstance(options[0], dict):
        return options[0]["const"]
    if field.get("type") == "array":
        items = field.get("items")
        count = field.get("minItems")
        made = _value(items, one_choice=one_choice) if isinstance(items, dict) else ""
        return [made] * (count if isinstance(count, int) and not one_choice else 1)
    if field.get("type") == "integer":
        return 42
    if field.get("type") == "number":
        return 0.5
    if field.get("type") == "boolean":
        return True
    return "jo@example.com" if field.get("format") == "email" else "Jo"


def _flaw(messages: list[JsonValue], wrong: Wrong) -> str:
    """Return what is wrong with the messages of a sampling request, or the empty string."""
    uses: set[JsonValue] = set()
    uses_in_order: list[JsonValue] = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        blocks = [each for each in (content if isinstance(content, list) else [content]) if isinstance(each, dict)]
        kinds = {str(each.get("type")) for each in blocks}
        if "image" in kinds and any("\\" in str(each.get("data")) for each in blocks):
            return "the data of an image is not base64"
        if "image" in kinds and (wrong("no-images") or not _media_right(blocks, wrong)):
            return "invalid image"
        if "audio" in kinds and (
            wrong("no-audio") or not (_media_right(blocks, wrong) or wrong("validates-images-only"))
        ):
            return "invalid audio"
        results = {each.get("toolUseId") for each in blocks if each.get("type") == "tool_result"}
        late = blocks[0].get("type") != "tool_result" and wrong("results-behind-text") if blocks else False
        if results and kinds != {"tool_result"} and not wrong("mixed-results") and not late:
            return "a tool_result beside other content"
        if results and uses_in_order != [each.get("toolUseId") for each in blocks] and wrong("results-by-order"):
            return "the tool_result blocks are in another order"
        if uses - results and not wrong("missing-results") and not (results and wrong("some-results")):
            return "a tool_result is missing"
        uses_in_order = [each.get("id") for each in blocks if each.get("type") == "tool_use"]
        uses = set(uses_in_order)
    return ""


def _media_right(blocks: list[JsonObject], wrong: Wrong) -> bool:
    return wrong("any-content") or all(isinstance(each.get("mimeType", ""), str) for each in blocks)
