"""Operators on the members of messages, for every place that the official schema and a recorded message have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.revisions import REVISIONS, Era
from mutants.generated.fault import ANY, Leg, Operator, Recording, Target
from mutants.generated.proxy import Mutation, dumped
from mutants.generated.schemas import is_defined, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.generated.proxy import Conversation, MessageInfo
    from mutants.generated.schemas import Place

__all__ = ["MEMBER_OPERATORS"]

_ENVELOPE: Final = frozenset({"jsonrpc", "id", "method", "result", "error", "params"})
_CANDIDATES: Final[tuple[tuple[str, JsonValue], ...]] = (
    ("integer", 7),
    ("string", "seven"),
    ("boolean", True),
    ("array", []),
    ("object", {}),
)
_MESSAGES: Final = ("result", "error", "request", "notification")


def _other_type(place: Place) -> list[JsonValue]:
    """Return a value of a type that the schema does not permit, at most one."""
    types = place.types
    if not types:
        return []
    held = place.holder.get(place.name)
    if types == {"string"} and isinstance(held, str) and held.isdecimal():
        return [int(held)]
    if types <= {"integer", "number"} and isinstance(held, int | float):
        return [str(held)]
    if types == {"boolean"}:
        return [str(held).lower() if isinstance(held, bool) else "true"]
    permitted = types | ({"integer"} if "number" in types else frozenset())
    return [value for kind, value in _CANDIDATES if kind not in permitted][:1]


def _constant(place: Place, change: Callable[[str], str]) -> list[JsonValue]:
    held = place.holder.get(place.name)
    if not isinstance(held, str) or not place.constants:
        return []
    changed = change(held)
    return [] if changed in place.constants else [changed]


def _capital(text: str) -> str:
    return text.upper() if text.upper() != text else text.lower()


def _bound(place: Place) -> list[JsonValue]:
    least, most = place.node.get("minimum"), place.node.get("maximum")
    if isinstance(least, int) and least > -(2**53) + 1:
        return [least - 1]
    return [most + 1] if isinstance(most, int) and most < 2**53 - 1 else []


def _fraction(place: Place) -> list[JsonValue]:
    held = place.holder.get(place.name)
    is_integer = isinstance(held, int) and not isinstance(held, bool)
    return [held + 0.5] if is_integer and isinstance(held, int) and place.types == {"integer"} else []


def _format(place: Place) -> list[JsonValue]:
    wrong = {"uri": "not a uri", "byte": "%not base64%", "uri-template": "test://{unclosed"}
    format = str(place.node.get("format"))
    return [wrong[format]] if format in wrong and isinstance(place.holder.get(place.name), str) else []


_OF_ONE_VARIANT: Final = ("params.requestedSchema.properties.*.enumNames",)
"""Members that one variant of a union defines. Where they are absent, another variant matches, which permits any members."""


class _Set:
    """A change of a member to another value.

    Args:
        values: Returns the other value, in a list; empty if it has no other one.
        absent: Whether it applies to absent members instead of present ones.
    """

    def __init__(self, values: Callable[[Place], list[JsonValue]], *, absent: bool = False) -> None:
        self._values: Final = values
        self._absent: Final = absent

    def applies(self, place: Place) -> bool:
        """Return whether the change is possible."""
        free = self._absent and place.pattern in _OF_ONE_VARIANT
        return place.is_present is not self._absent and bool(self._values(place)) and not free

    def apply(self, place: Place) -> None:
        """Change the object that holds the member."""
        place.holder[place.name] = self._values(place)[0]


class _Take:
    """The removal of a required member, which may appear elsewhere.

    Args:
        put: Puts the value elsewhere.
    """

    def __init__(self, put: Callable[[JsonObject, str, JsonValue], None]) -> None:
        self._put: Final = put

    def applies(self, place: Place) -> bool:
        """Return whether the change is possible."""
        return place.is_present and place.required

    def apply(self, place: Place) -> None:
        """Change the object that holds the member."""
        self._put(place.holder, place.name, place.holder.pop(place.name))


def _nowhere(holder: JsonObject, name: str, value: JsonValue) -> None:
    """Put the value nowhere."""


def _in_capitals(holder: JsonObject, name: str, value: JsonValue) -> None:
    # The first letter of a name such as `_meta` is the second character.
    at = next((index for index, letter in enumerate(name) if letter.isalpha()), 0)
    holder[name[:at] + name[at : at + 1].swapcase() + name[at + 1 :]] = value


def _deeper(holder: JsonObject, name: str, value: JsonValue) -> None:
    holder["value"] = {name: value}


_Change = _Set | _Take

_CHANGES: Final[tuple[tuple[str, str, _Change], ...]] = (
    ("member-omitted", "a required member is absent", _Take(_nowhere)),
    (
        "member-null",
        "a member is null that may not be",
        _Set(lambda place: [None] if place.types and "null" not in place.types else []),
    ),
    ("member-type", "a member has another type", _Set(_other_type)),
    ("member-added-type", "an optional member is added with another type", _Set(_other_type, absent=True)),
    ("member-constant", "a member has a value beside its constants", _Set(lambda p: _constant(p, lambda _: "other"))),
    ("member-constant-case", "a constant is in another case", _Set(lambda place: _constant(place, _capital))),
    ("member-name-case", "the name of a required member is in another case", _Take(_in_capitals)),
    ("member-moved", "a required member is one level deeper", _Take(_deeper)),
    ("member-bound", "a number is beyond its bound", _Set(_bound)),
    ("member-fraction", "an integer is a fraction", _Set(_fraction)),
    ("member-format", "a text does not have its format", _Set(_format)),
)


def _key(key: str, pattern: str) -> str:
    """Return the key of a target: members of the envelope are the same for all methods."""
    return f"{ANY} {key.rpartition(' ')[2]}" if pattern in _ENVELOPE or pattern.startswith("error.") else key


def _is_of_leg(key: str, message: JsonObject, leg: Leg) -> bool:
    """Return whether a message is of the revision of the leg: that of another one has other members."""
    if key == "initialize result":
        result = message.get("result")
        return isinstance(result, dict) and result.get("protocolVersion") == leg.revision
    if key.endswith(" request") and leg.role == "client" and REVISIONS[leg.revision].era is Era.MODERN:
        # The client also falls back to older revisions, whose requests do not state them.
        params = message.get("params")
        return isinstance(params, dict) and "_meta" in params
    return True


def _places(recording: Recording) -> Iterator[tuple[str, Place]]:
    schema = schema_of(recording.leg.revision)
    for key in recording.keys(*_MESSAGES):
        if not is_defined(recording, key):
            continue
        method, _, kind = key.rpartition(" ")
        for message in recording.messages(key):
            if not _is_of_leg(key, message, recording.leg):
                continue
            for place in schema.places(kind, method, message):
                # An absent `params` or `result` is another message, not one with a wrong member.
                if place.pattern != "method":
                    yield _key(key, place.pattern), place


def _is_other_field(place: Place) -> bool:
    """Return whether a form without the member has a valid field of another kind: without `enum` it is one for text."""
    return place.name == "enum" and "requestedSchema.properties" in place.pattern


def _targets(change: _Change) -> Callable[[Recording], Iterable[Target]]:
    def targets(recording: Recording) -> Iterable[Target]:
        found = {
            (key, place.pattern)
            for key, place in _places(recording)
            if change.applies(place) and not (isinstance(change, _Take) and _is_other_field(place))
        }
        return [Target(key=key, detail=pattern) for key, pattern in sorted(found)]

    return targets


class _MemberMutation(Mutation):
    """A change of one member in all messages of a kind."""

    def __init__(self, target: Target, leg: Leg, change: _Change) -> None:
        self._target: Final = target
        self._schema: Final = schema_of(leg.revision)
        self._change: Final = change

    def sent(
        self,
        message: JsonObject,
        seen: MessageInfo,
        conversation: Conversation,  # noqa: ARG002  as in Mutation
    ) -> list[JsonValue | bytes] | None:
        """Return the changed message."""
        if self._target.key not in (seen.key, f"{ANY} {seen.kind}"):
            return None
        pattern = self._target.detail
        found = [
            each
            for each in self._schema.places(seen.kind, seen.method, message)
            if each.pattern == pattern and self._change.applies(each)
        ]
        for each in found:
            self._change.apply(each)
        return [message] if found else None


class _WholeMutation(Mutation):
    """A change of the text of all messages of a kind."""

    def __init__(self, target: Target, change: Callable[[JsonObject, str], bytes | None]) -> None:
        self._target: Final = target
        self._change: Final = change

    def sent(
        self,
        message: JsonObject,
        seen: MessageInfo,
        conversation: Conversation,  # noqa: ARG002  as in Mutation
    ) -> list[JsonValue | bytes] | None:
        """Return the changed message."""
        changed = self._change(message, seen.kind) if seen.key == self._target.key else None
        return None if changed is None else [changed]


def _body(message: JsonObject, kind: str) -> JsonObject | None:
    found = message.get("result" if kind == "result" else "error" if kind == "error" else "params")
    return found if isinstance(found, dict) else None


def _with_extra(message: JsonObject, kind: str) -> bytes | None:
    body = _body(message, kind)
    # An empty result is one without data.
    if not body or set(body) <= {"_meta", "resultType"}:
        return None
    body["com.example/extra"] = {"more": [1, None]}
    return dumped(message)


def _with_duplicate(message: JsonObject, kind: str) -> bytes | None:
    body = _body(message, kind)
    if not body:
        return None
    name = next(iter(body))
    whole = dumped(body)
    twice = b"{" + dumped(name) + b":" + dumped(body[name]) + b"," + whole[1:]
    return dumped(message).replace(whole, twice, 1)


def _reordered(message: JsonObject, kind: str) -> bytes | None:  # noqa: ARG001  one signature
    return dumped(_reversed(message))


def _reversed(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _reversed(value[name]) for name in reversed(value)}
    return [_reversed(each) for each in value] if isinstance(value, list) else value


def _escaped(message: JsonObject, kind: str) -> bytes | None:  # noqa: ARG001  one signature
    return dumped(message).replace(b"/", b"\\/")


_WHOLE: Final[tuple[tuple[str, str, Callable[[JsonObject, str], bytes | None], str], ...]] = (
    (
        "member-extra",
        "an unknown member is added",
        _with_extra,
        "The objects of the schema are open: a receiver ignores members that it does not know.",
    ),
    (
        "member-duplicate",
        "a member occurs twice, with the same value",
        _with_duplicate,
        "RFC 8259 only says that names SHOULD be unique, and both members have the same value.",
    ),
    ("member-order", "the members are in another order", _reordered, "A JSON object is unordered (RFC 8259)."),
    ("member-escapes", "slashes are escaped", _escaped, "RFC 8259 permits the escape of any character."),
)


def _whole_targets(recording: Recording) -> Iterable[Target]:
    return [Target(key=key) for key in recording.keys(*_MESSAGES) if is_defined(recording, key)]


def _member_operator(name: str, summary: str, change: _Change) -> Operator:
    return Operator(
        name=name,
        summary=summary,
        targets=_targets(change),
        mutation=lambda target, leg: _MemberMutation(target, leg, change),
    )


def _whole_operator(
    name: str, summary: str, change: Callable[[JsonObject, str], bytes | None], invisible: str
) -> Operator:
    return Operator(
        name=name,
        summary=summary,
        targets=_whole_targets,
        mutation=lambda target, _: _WholeMutation(target, change),
        invisible=invisible,
    )


MEMBER_OPERATORS: Final = (
    *(_member_operator(*row) for row in _CHANGES),
    *(_whole_operator(*row) for row in _WHOLE),
)
"""The operators on members."""
