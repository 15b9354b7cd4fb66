"""Operators on states and their transitions: a step early, skipped or repeated, and what belongs to another peer.

The states are those of a connection, a session, a task and the stream of HTTP+SSE.
"""

# ruff: noqa: ARG001, ARG002  # all operators and hooks have the parameters that their callers pass

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.revisions import REVISIONS, Era
from mcp_core.types import LOGGING_LEVELS
from mutants.generated.fault import Leg, Operator, Recording, Target
from mutants.generated.proxy import HttpHead, Mutation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.generated.proxy import Conversation, MessageInfo

__all__ = ["TRANSITION_OPERATORS"]

_META: Final = "io.modelcontextprotocol/"
_ENDED: Final = ("completed", "failed", "cancelled")
_INITIALIZED: Final[JsonObject] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


# --- the opening of a connection --------------------------------------------------------------------------------------


class _ExtraMessage(Mutation):
    """The mutation that sends another message before or after each message of a kind.

    Args:
        key: The kind.
        extra: The other message.
        after: Whether the other message comes second.
        dropped: The kind of messages that are not sent.
    """

    def __init__(self, key: str, extra: JsonObject, *, after: bool = False, dropped: str = "") -> None:
        self._key: Final = key
        self._extra: Final = extra
        self._after: Final = after
        self._dropped: Final = dropped

    def sent(
        self, message: JsonObject, seen: MessageInfo, conversation: Conversation
    ) -> list[JsonValue | bytes] | None:
        """Return the messages."""
        if seen.key == self._dropped:
            return []
        if seen.key != self._key:
            return None
        return [message, self._extra] if self._after else [self._extra, message]


class _DropMutation(Mutation):
    """The mutation that does not send a kind of message, after a number of them."""

    def __init__(self, key: str, *, kept: int = 0) -> None:
        self._key: Final = key
        self._kept: Final = kept
        self._sent = 0

    def sent(
        self, message: JsonObject, seen: MessageInfo, conversation: Conversation
    ) -> list[JsonValue | bytes] | None:
        """Return no message."""
        if seen.key != self._key:
            return None
        self._sent += 1
        return [] if self._sent > self._kept else None


class _EarlyRefusal(Mutation):
    """The mutation that refuses each request before `notifications/initialized`."""

    def sent(
        self, message: JsonObject, seen: MessageInfo, conversation: Conversation
    ) -> list[JsonValue | bytes] | None:
        """Return an error in place of a result."""
        if conversation.state.get("ready") or seen.kind != "result" or seen.method == "initialize":
            return None
        return [{"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32600, "message": "not initialized"}}]

    def received(self, message: JsonObject, conversation: Conversation) -> list[JsonObject] | None:
        """Learn when the connection is open."""
        if message.get("method") == "notifications/initialized":
            conversation.state["ready"] = True
        return None


# --- sessions and users -----------------------------------------------------------------------------------------------


class _UserMutation(Mutation):
    """The mutation that takes each user for the first one."""

    def request_head(self, head: HttpHead) -> HttpHead | None:
        """Return the head with the credentials of the first user."""
        given = head.first("authorization") or ""
        if not given.startswith("Bearer other-"):
            return None
        return head.replaced("authorization", ("Authorization", given.replace("other-", "", 1)))


class _EndlessSession(Mutation):
    """The mutation that confirms the end of a session, which goes on."""

    def request_head(self, head: HttpHead) -> HttpHead | None:
        """Return the head with an unknown session."""
        if not head.start.startswith("DELETE ") or head.first("mcp-session-id") is None:
            return None
        return head.replaced("mcp-session-id", ("Mcp-Session-Id", "no-such-session"))

    def head(self, head: HttpHead, request: HttpHead, kind: str) -> HttpHead | None:
        """Return a confirmation."""
        if not request.start.startswith("DELETE "):
            return None
        return attrs.evolve(head, start="HTTP/1.1 200 OK")


# --- tasks ------------------------------------------------------------------------------------------------------------


def _task_of(message: JsonObject) -> JsonObject | None:
    """Return the task in a result or a status notification."""
    for name in ("result", "params"):
        found = message.get(name)
        if isinstance(found, dict):
            nested = found.get("task")
            task = nested if isinstance(nested, dict) else found
            return task if "taskId" in task and "status" in task else None
    return None


class _StatusMutation(Mutation):
    """A change of the status of tasks.

    Args:
        change: Returns another status, from the status, the method, and how often it was sent for the task.
    """

    def __init__(self, change: Callable[[str, str, int], str]) -> None:
        self._change: Final = change
        self._times: Final[dict[tuple[str, str], int]] = {}

    def sent(
        self, message: JsonObject, seen: MessageInfo, conversation: Conversation
    ) -> list[JsonValue | bytes] | None:
        """Return the message with another status."""
        task = _task_of(message)
        if task is None or seen.kind not in ("result", "notification"):
            return None
        key = (str(task["taskId"]), str(task["status"]))
        before = self._times.get(key, 0)
        self._times[key] = before + 1
        status = self._change(str(task["status"]), seen.method, before)
        if status == task["status"]:
            return None
        task["status"] = status
        return [message]


class _IdMutation(Mutation):
    """A change of the ids of tasks, which the server understands.

    Args:
        other: Returns the other id of a task, by its number.
    """

    def __init__(self, other: Callable[[int], str]) -> None:
        self._other: Final = other
        self._real: Final[dict[str, str]] = {}
        self._shown: Final[dict[str, str]] = {}

    def sent(
        self, message: JsonObject, seen: MessageInfo, conversation: Conversation
    ) -> list[JsonValue | bytes] | None:
        """Return the message with other ids."""
        task = _task_of(message)
        if task is not None:
            real = str(task["taskId"])
            if real not in self._shown:
                self._shown[real] = self._other(len(self._shown) + 1)
                self._real[self._shown[real]] = real
        text = json.dumps(message)
        changed = text
        for real, shown in self._shown.items():
            changed = changed.replace(json.dumps(real), json.dumps(shown))
        return None if changed == text else [json.loads(changed)]

    def received(self, message: JsonObject, conversation: Conversation) -> list[JsonObject] | None:
        """Return the message with the ids of the server."""
        params = message.get("params")
        given = params.get("taskId") if isinstance(params, dict) else None
        if not isinstance(params, dict) or given not in self._real:
            return None
        params["taskId"] = self._real[str(given)]
        return [message]

    def request_head(self, head: HttpHead) -> HttpHead | None:
        """Return the head with the id of the server."""
        name = head.first("mcp-name") or ""
        return head.replaced("mcp-name", ("Mcp-Name", self._real[name])) if name in self._real else None


class _RelatedTaskMutation(Mutation):
    """A change of the related task in metadata."""

    def __init__(self, *, other: bool) -> None:
        self._is_other: Final = other

    def sent(
        self, message: JsonObject, seen: MessageInfo, conversation: Conversation
    ) -> list[JsonValue | bytes] | None:
        """Return the message without the related task, or with another one."""
        body = message.get("result") or message.get("params")
        meta = body.get("_meta") if isinstance(body, dict) else None
        if not isinstance(meta, dict) or f"{_META}related-task" not in meta:
            return None
        if self._is_other:
            meta[f"{_META}related-task"] = {"taskId": "another-task"}
        else:
            del meta[f"{_META}related-task"]
        return [message]


def _back(status: str, method: str, before: int) -> str:
    return "working" if status in _ENDED and before else status


def _ended_at_first(status: str, method: str, before: int) -> str:
    return "completed" if method == "tools/call" else status


def _never_ends(status: str, method: str, before: int) -> str:
    return "working" if status in _ENDED else status


def _cancelled_as(other: str) -> Callable[[str, str, int], str]:
    def changed(status: str, method: str, before: int) -> str:
        return other if method == "tasks/cancel" and status == "cancelled" else status

    return changed


def _failed_as_completed(status: str, method: str, before: int) -> str:
    return "completed" if status == "failed" else status


# --- limits -----------------------------------------------------------------------------------------------------------


class _LevelMutation(Mutation):
    """The mutation that takes the level before the requested one: one more level passes."""

    def received(self, message: JsonObject, conversation: Conversation) -> list[JsonObject] | None:
        """Return the message with the level before."""
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        for holder, name in ((params, "level"), (meta, f"{_META}logLevel")):
            level = holder.get(name) if isinstance(holder, dict) else None
            if isinstance(holder, dict) and level in LOGGING_LEVELS[1:]:
                holder[name] = LOGGING_LEVELS[LOGGING_LEVELS.index(str(level)) - 1]
                return [message]
        return None


class _PageOverlap(Mutation):
    """The mutation that begins a page with the last entry of the page before."""

    def sent(
        self, message: JsonObject, seen: MessageInfo, conversation: Conversation
    ) -> list[JsonValue | bytes] | None:
        """Return the page with the entry."""
        result = message.get("result")
        entries = (
            next((each for each in result.values() if isinstance(each, list)), None)
            if isinstance(result, dict)
            else None
        )
        if not seen.method.endswith("/list") or not isinstance(result, dict) or not entries:
            return None
        params = seen.request.get("params") if seen.request else None
        last = conversation.state.get(seen.method)
        conversation.state[seen.method] = entries[-1]
        if not isinstance(params, dict) or "cursor" not in params or last is None:
            return None
        entries.insert(0, last)
        return [message]


# --- HTTP+SSE ---------------------------------------------------------------------------------------------------------


class _EndpointMutation(Mutation):
    """A change of the event `endpoint`."""

    def __init__(self, change: Callable[[bytes], bytes]) -> None:
        self._change: Final = change

    def event(self, event: bytes, number: int) -> bytes | None:
        """Return the changed event."""
        return self._change(event) if event.startswith(b"event: endpoint") else None


_ENDPOINTS: Final[tuple[tuple[str, str, Callable[[bytes], bytes], str], ...]] = (
    ("absent", "the event endpoint is not sent", lambda _: b": nothing\n\n", ""),
    ("unnamed", "the event endpoint has no type", lambda event: event.partition(b"\n")[2], ""),
    ("case", "the type of the event is in another case", lambda event: event.replace(b"endpoint", b"Endpoint", 1), ""),
    ("json", "the URI is a JSON object", lambda _: b'event: endpoint\ndata: {"uri":"/messages"}\n\n', ""),
    ("empty", "the URI is empty", lambda _: b"event: endpoint\ndata: \n\n", ""),
    (
        "order",
        "the data comes before the type",
        lambda event: b"\n".join(event[:-2].split(b"\n")[::-1]) + b"\n\n",
        "The fields of an event are unordered.",
    ),
    ("comment", "a comment comes first", lambda event: b": hello\n\n" + event, "Comments are ignored."),
)
"""The event of HTTP+SSE with the URI for messages."""


# --- the table --------------------------------------------------------------------------------------------------------


def _in_leg(
    key: str,
    *,
    role: str = "server",
    transports: tuple[str, ...] = ("stdio", "http", "http-sse"),
    era: Era | None = None,
) -> Callable[[Recording], Iterable[Target]]:
    """Return a target in the legs of a role that have its kind of message."""

    def targets(recording: Recording) -> Iterable[Target]:
        leg = recording.leg
        fits = leg.role == role and leg.transport in transports
        known = bool(recording.keys("http")) if key == "* http" else key in recording.samples
        return [Target(key=key)] if fits and known and era in (None, REVISIONS[leg.revision].era) else []

    return targets


def _with_tasks(key: str, revisions: tuple[str, ...]) -> Callable[[Recording], Iterable[Target]]:
    """Return a target of servers in the revisions whose tasks have a rule."""
    inner = _in_leg(key)
    return lambda recording: inner(recording) if recording.leg.revision in revisions else []


_CORE: Final = ("2025-11-25",)
_BOTH: Final = ("2025-11-25", "2026-07-28")
_EARLY: Final[JsonObject] = {"jsonrpc": "2.0", "id": "early", "method": "roots/list"}
_EARLY_LIST: Final[JsonObject] = {"jsonrpc": "2.0", "id": "early", "method": "tools/list"}
_SESSIONS: Final = ("2025-03-26", "2025-06-18", "2025-11-25")


def _users(recording: Recording) -> Iterable[Target]:
    """Return the target of revisions with values that belong to a user: tasks, states, and lists for one user.

    Only sessions belong to a user before; they are tested with tokens.
    """
    return _in_leg("* http", transports=("http",))(recording) if recording.leg.revision in _BOTH else []


def _sessions(recording: Recording) -> Iterable[Target]:
    return _in_leg("* http", transports=("http",))(recording) if recording.leg.revision in _SESSIONS else []


_ROWS: Final[tuple[tuple[str, str, Callable[[Recording], Iterable[Target]], Callable[[Target], Mutation]], ...]] = (
    (
        "open-request-early",
        "the server sends a request before `notifications/initialized`",
        _in_leg("initialize result", transports=("stdio", "http-sse"), era=Era.LEGACY),
        lambda _: _ExtraMessage("initialize result", _EARLY, after=True),
    ),
    (
        "open-refuses-early",
        "a ping before `notifications/initialized` is refused",
        _in_leg("ping result", transports=("stdio",), era=Era.LEGACY),
        lambda _: _EarlyRefusal(),
    ),
    (
        "open-skips-initialized",
        "the client does not send `notifications/initialized`",
        _in_leg("notifications/initialized notification", role="client", era=Era.LEGACY),
        lambda _: _DropMutation("notifications/initialized notification"),
    ),
    (
        "open-initialized-early",
        "the client sends `notifications/initialized` before `initialize`",
        _in_leg("notifications/initialized notification", role="client", transports=("stdio",), era=Era.LEGACY),
        lambda _: _ExtraMessage("initialize request", _INITIALIZED, dropped="notifications/initialized notification"),
    ),
    (
        "open-call-early",
        "the client sends a request before the response to `initialize`",
        _in_leg("initialize request", role="client", transports=("stdio",), era=Era.LEGACY),
        lambda _: _ExtraMessage("initialize request", _EARLY_LIST, after=True),
    ),
    (
        "user-other",
        "each user is taken for the first one",
        _users,
        lambda _: _UserMutation(),
    ),
    ("session-undeleted", "a session goes on after its end", _sessions, lambda _: _EndlessSession()),
    (
        "task-status-back",
        "an ended task works again",
        _with_tasks("tasks/get result", _BOTH),
        lambda _: _StatusMutation(_back),
    ),
    (
        "task-status-first",
        "a task begins as completed",
        _with_tasks("tasks/get result", _CORE),
        lambda _: _StatusMutation(_ended_at_first),
    ),
    (
        "task-status-never",
        "no task ends",
        _with_tasks("tasks/get result", _BOTH),
        lambda _: _StatusMutation(_never_ends),
    ),
    (
        "task-cancelled-as-completed",
        "a cancelled task is shown as completed",
        _with_tasks("tasks/cancel result", _CORE),
        lambda _: _StatusMutation(_cancelled_as("completed")),
    ),
    (
        "task-cancelled-as-working",
        "a cancelled task goes on, as its response shows",
        _with_tasks("tasks/cancel result", _CORE),
        lambda _: _StatusMutation(_cancelled_as("working")),
    ),
    (
        "task-failed-as-completed",
        "a failed task is shown as completed",
        _with_tasks("tasks/get result", _BOTH),
        lambda _: _StatusMutation(_failed_as_completed),
    ),
    (
        "task-id-same",
        "all tasks have the same id",
        _with_tasks("tasks/get result", _BOTH),
        lambda _: _IdMutation(lambda _number: "task"),
    ),
    (
        "task-id-counted",
        "the ids of tasks are numbers in order",
        _with_tasks("tasks/get result", _BOTH),
        lambda _: _IdMutation(lambda number: f"task-{number}"),
    ),
    (
        "task-related-absent",
        "what belongs to a task does not name it",
        _with_tasks("tasks/result result", _CORE),
        lambda _: _RelatedTaskMutation(other=False),
    ),
    (
        "task-related-other",
        "what belongs to a task names another one",
        _with_tasks("tasks/result result", _CORE),
        lambda _: _RelatedTaskMutation(other=True),
    ),
    (
        "level-one-below",
        "messages one level below the requested one are sent",
        _in_leg("notifications/message notification"),
        lambda _: _LevelMutation(),
    ),
    (
        "page-overlaps",
        "a page begins with the last entry of the page before",
        _in_leg("resources/list result"),
        lambda _: _PageOverlap(),
    ),
    (
        "update-once",
        "only the first update of a resource is notified",
        _in_leg("notifications/resources/updated notification", transports=("stdio",)),
        lambda _: _DropMutation("notifications/resources/updated notification", kept=1),
    ),
)


def _made(make: Callable[[Target], Mutation]) -> Callable[[Target, Leg], Mutation]:
    return lambda target, _: make(target)


def _operators() -> Iterable[Operator]:
    for name, summary, targets, make in _ROWS:
        yield Operator(name=name, summary=summary, targets=targets, mutation=_made(make), provoked=True)
    for name, summary, change, invisible in _ENDPOINTS:
        yield Operator(
            name=f"endpoint-{name}",
            summary=summary,
            targets=_in_leg("* http", transports=("http-sse",)),
            mutation=_made(lambda _, change=change: _EndpointMutation(change)),  # type: ignore[misc]  # a lambda with a default
            invisible=invisible,
        )


TRANSITION_OPERATORS: Final = tuple(_operators())
"""The operators on states."""
