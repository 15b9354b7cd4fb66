"""Random conversations between a client and a server engine, judged by a third party that reads the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import orjson
import pytest
from engine_oracle import Oracle, SideName, obj
from engine_pair import (
    ALL,
    EVERYTHING_DECLARED,
    EVERYTHING_OFFERED,
    FILTER,
    FORM,
    NOTHING_DECLARED,
    NOTHING_OFFERED,
    NOTICES,
    PARAMS,
    RESULTS,
    TASK,
    URI,
    ConnectionPair,
    make_client,
    make_server,
    pair,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.engine.events import (
    CancelReceived,
    ConnectionOpened,
    ErrorReceived,
    Negotiating,
    NegotiationEnded,
    Outgoing,
    RequestReceived,
    ResultReceived,
)
from mcp_core.engine.lifecycle import State
from mcp_core.errors import (
    LimitExceeded,
    LocalProtocolError,
    MissingRequiredClientCapability,
    RequestFailed,
)
from mcp_core.jsonrpc.messages import Request, RequestId
from mcp_core.limits import Limits
from mcp_core.methods import METHODS, NOTIFICATIONS, NotificationMethod, RequestMethod, Side
from mcp_core.revisions import LEGACY, R2024_11_05, R2025_11_25, R2026_07_28, Revision
from mcp_core.types.logging import LOGGING_LEVELS

OFFERS: Final = st.sampled_from(
    [
        EVERYTHING_OFFERED,
        EVERYTHING_OFFERED,
        NOTHING_OFFERED,
        t.ServerCapabilities(tools=t.ToolsCapability(), resources=t.ResourcesCapability(subscribe=True)),
    ]
)
DECLARATIONS: Final = st.sampled_from(
    [
        EVERYTHING_DECLARED,
        EVERYTHING_DECLARED,
        NOTHING_DECLARED,
        t.ClientCapabilities(sampling=t.SamplingCapability(), elicitation=t.ElicitationCapability(form={})),
        t.ClientCapabilities(roots=t.RootsCapability(), elicitation=t.ElicitationCapability(url={}, form={})),
    ]
)
ANY_METHOD: Final = st.sampled_from(
    [*METHODS, *[m.TOOLS_CALL] * 25, *[m.SUBSCRIPTIONS_LISTEN] * 10, *[m.RESOURCES_SUBSCRIBE] * 4]
)
SERVER_METHODS: Final = st.sampled_from(
    [*METHODS, *[m.SAMPLING_CREATE_MESSAGE, m.ELICITATION_CREATE, m.ROOTS_LIST, m.PING] * 6]
)
QUESTIONS: Final = st.sampled_from(
    [
        t.ElicitRequest(params=FORM),
        t.ElicitRequest(params=t.ElicitRequestURLParams(message="go", url="https://example.com/")),
        t.ListRootsRequest(),
    ]
)
CODES: Final = st.sampled_from([-1, -32002, -32020, -32021, -32022, -32042, -32050, -32602, -32603, 7])
PROGRESS: Final = st.sampled_from([0.0, 1.0, 2.0, float("nan")])
WANTED: Final = st.sampled_from(
    [
        FILTER,
        t.SubscriptionFilter(tools_list_changed=True),
        t.SubscriptionFilter(resource_subscriptions=(URI,)),
        t.SubscriptionFilter(task_ids=("t",)),
    ]
)
SIDES: Final = st.sampled_from(Side.CLIENT.__class__).filter(lambda role: role is not Side.BOTH)
INDEX: Final = st.integers(0, 7)
SIDE: Final[dict[Side, SideName]] = {Side.CLIENT: "client", Side.SERVER: "server"}
OTHER: Final = {Side.CLIENT: Side.SERVER, Side.SERVER: Side.CLIENT}


class Conversation(RuleBasedStateMachine):
    """Legal and illegal commands at both ends, and messages that cross."""

    def __init__(self, ours: tuple[Revision, ...], theirs: tuple[Revision, ...]) -> None:
        super().__init__()
        self.ours, self.theirs = ours, theirs
        self.oracle = Oracle()
        self.pair: ConnectionPair = pair(ours, theirs)
        self.owed: dict[Side, dict[RequestId, RequestReceived]] = {Side.CLIENT: {}, Side.SERVER: {}}
        self.ended: dict[Side, dict[RequestId, str]] = {Side.CLIENT: {}, Side.SERVER: {}}
        self.asked: dict[Side, set[RequestId]] = {Side.CLIENT: set(), Side.SERVER: set()}
        self.over = False
        self.failed = False
        self.forgotten: set[RequestId] = set()
        """What was given up without a word, since it shall run as a task."""

    @initialize(
        offers=OFFERS,
        declared=DECLARATIONS,
        level=st.sampled_from([None, *LOGGING_LEVELS]),
        room=st.sampled_from([0, 1, 1000]),
        settle=st.integers(0, 5).map(bool),
    )
    def connect(
        self,
        offers: t.ServerCapabilities,
        declared: t.ClientCapabilities,
        level: t.LoggingLevel | None,
        room: int,
        settle: bool,
    ) -> None:
        self.pair = pair(
            make_client(*self.ours, capabilities=declared, log_level=level),
            make_server(*self.theirs, capabilities=offers, limits=Limits(watched_resources=room)),
        )
        self.put(Side.CLIENT, self.pair.client.open())
        # Most conversations begin when both ends have met; some commands come before.
        self.settle(settle)

    # --- the wire --------------------------------------------------------------------------------------------------

    def put(self, role: Side, *outgoing: Outgoing | None) -> None:
        for each in outgoing:
            if each is None:
                continue
            assert not self.over, f"{each} is sent after the end"
            self.pair.send(role, each)
            sent = self.pair.wire[-1].message
            self.oracle.sent(SIDE[role], sent, each.for_request)
            if isinstance(each.message, Request):
                self.asked[role].add(each.message.id)

    def attempt(self, role: Side, command: Callable[[], Outgoing | tuple[Outgoing, ...] | None]) -> bool:
        """Runs a command, legal or not. Whether it was accepted."""
        before = self.pair.end_of(role).state
        try:
            outgoing = command()
        except (LocalProtocolError, MissingRequiredClientCapability, LimitExceeded):
            assert self.pair.end_of(role).state is before, "a refused command changed the state"
            return False
        self.put(role, *(outgoing if isinstance(outgoing, tuple) else (outgoing,)))
        return True

    def deliver(self, role: Side) -> None:
        queue = self.pair.to_client if role is Side.CLIENT else self.pair.to_server
        self.oracle.arrived(SIDE[role], orjson.loads(queue[0]))
        sent = len(self.pair.wire)
        reaction = self.pair.deliver(role)
        for each in self.pair.wire[sent:]:
            assert not self.over
            self.oracle.sent(SIDE[role], each.message, reaction.reply.for_request if reaction.reply else None)
        if reaction.reply is not None and isinstance(reaction.reply.message, Request):
            self.asked[role].add(reaction.reply.message.id)
        event = reaction.event
        if isinstance(event, RequestReceived):
            assert not self.over
            self.owed[role][event.id] = event
        elif isinstance(event, CancelReceived):
            assert event.id in self.owed[role]
        elif isinstance(event, (ResultReceived, ErrorReceived)):
            self.finish(role, event.id, type(event).__name__)
        elif isinstance(event, (ConnectionOpened, Negotiating, NegotiationEnded)) and role is Side.CLIENT:
            # The engine took the answer to its own probe or handshake.
            for id in self.asked[role] - self.ended[role].keys() - self.pair.client.outbound_requests.keys():
                self.finish(role, id, "negotiated")
            self.failed = self.failed or isinstance(event, NegotiationEnded)

    def finish(self, role: Side, id: RequestId, how: str) -> None:
        assert id in self.asked[role]
        assert id not in self.ended[role], f"request {id} ended twice: {self.ended[role][id]}, {how}"
        self.ended[role][id] = how

    def pick(self, role: Side, index: int) -> RequestId:
        """An id that is owed, the newest more often than others; or, now and then, one that is not."""
        ids = list(self.owed[role])
        return ids[-1 - index // 2 % len(ids)] if ids and index < 7 else "nothing"

    def busy(self, role: Side) -> Side:
        """The same side, or the other one if only that owes anything."""
        return role if self.owed[role] or not self.owed[OTHER[role]] else OTHER[role]

    def settle(self, now: bool) -> None:
        """Everything on the way arrives, if it shall."""
        while now and (self.pair.to_server or self.pair.to_client):
            for role in (Side.SERVER, Side.CLIENT):
                if self.pair.waiting(role):
                    self.deliver(role)

    # --- rules -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.pair.to_server)
    @rule()
    def server_receives(self) -> None:
        self.deliver(Side.SERVER)

    @precondition(lambda self: self.pair.to_client)
    @rule()
    def client_receives(self) -> None:
        self.deliver(Side.CLIENT)

    @precondition(lambda self: self.pair.to_server or self.pair.to_client)
    @rule()
    def everything_arrives(self) -> None:
        self.settle(True)

    @rule(row=ANY_METHOD, progress=st.booleans(), task=st.integers(0, 9), now=st.booleans())
    def client_calls(self, row: RequestMethod[object, object], progress: bool, task: int, now: bool) -> None:
        params = PARAMS[row]
        if row is m.TOOLS_CALL and task == 0:
            params = t.evolve(params, task=t.TaskMetadata())
        self.attempt(Side.CLIENT, lambda: self.pair.client.request(row, params, progress=progress))
        self.settle(now)

    @rule(
        row=SERVER_METHODS, index=INDEX, about=st.booleans(), url=st.booleans(), tools=st.booleans(), now=st.booleans()
    )
    def server_asks(
        self, row: RequestMethod[object, object], index: int, about: bool, url: bool, tools: bool, now: bool
    ) -> None:
        params = PARAMS[row]
        if row is m.ELICITATION_CREATE and url:
            params = t.ElicitRequestURLParams(message="go", url="https://example.com/", elicitation_id="e")
        if row is m.SAMPLING_CREATE_MESSAGE and tools:
            params = t.evolve(params, tools=())
        for_request = self.pick(Side.SERVER, index) if about else None
        self.attempt(Side.SERVER, lambda: self.pair.server.request(row, params, for_request=for_request))
        self.settle(now)

    @precondition(lambda self: self.owed[Side.SERVER] or self.owed[Side.CLIENT])
    @rule(role=SIDES, index=INDEX)
    def respond(self, role: Side, index: int) -> None:
        role = self.busy(role)
        id = self.pick(role, index)
        request = self.owed[role].get(id)
        result: object = {}
        if request is not None:
            augmented = getattr(request.params, "task", None) is not None
            result = t.CreateTaskResult(task=TASK) if augmented else RESULTS[request.definition]
        if self.attempt(role, lambda: self.pair.end_of(role).respond(id, result)):
            del self.owed[role][id]

    @precondition(lambda self: self.owed[Side.SERVER] or self.owed[Side.CLIENT])
    @rule(role=SIDES, index=INDEX, other=ANY_METHOD)
    def respond_with_anything(self, role: Side, index: int, other: RequestMethod[object, object]) -> None:
        role = self.busy(role)
        id = self.pick(role, index)
        if self.attempt(role, lambda: self.pair.end_of(role).respond(id, RESULTS[other])):
            del self.owed[role][id]

    @precondition(lambda self: self.owed[Side.SERVER])
    @rule(index=INDEX, question=QUESTIONS, state=st.booleans(), asks=st.booleans())
    def need_input(self, index: int, question: t.InputRequest, state: bool, asks: bool) -> None:
        id = self.pick(Side.SERVER, index)
        result = t.InputRequiredResult(
            input_requests={"a": question} if asks else None, request_state="s" if state else None
        )
        if self.attempt(Side.SERVER, lambda: self.pair.server.respond(id, result)):
            del self.owed[Side.SERVER][id]

    @precondition(lambda self: self.owed[Side.SERVER] or self.owed[Side.CLIENT])
    @rule(role=SIDES, index=INDEX, code=CODES)
    def fail(self, role: Side, index: int, code: int) -> None:
        role = self.busy(role)
        id = self.pick(role, index)
        if self.attempt(role, lambda: self.pair.end_of(role).fail(id, RequestFailed("no", code=code))):
            del self.owed[role][id]

    @precondition(lambda self: self.owed[Side.SERVER] or self.owed[Side.CLIENT])
    @rule(role=SIDES, index=INDEX, values=st.lists(PROGRESS, min_size=1, max_size=3))
    def progress(self, role: Side, index: int, values: list[float]) -> None:
        role = self.busy(role)
        asking = [id for id, event in self.owed[role].items() if "progressToken" in obj(event.raw.get("_meta"))]
        id = asking[-1] if asking and index else self.pick(role, index)
        for value in values:
            self.attempt(role, lambda value=value: self.pair.end_of(role).progress(id, value, 5.0, "on it"))  # type: ignore[misc]  # a default binds the value

    @rule(index=INDEX, level=st.sampled_from(LOGGING_LEVELS), about=st.booleans())
    def log(self, index: int, level: t.LoggingLevel, about: bool) -> None:
        for_request = self.pick(Side.SERVER, index) if about else None
        self.attempt(Side.SERVER, lambda: self.pair.server.log(level, ["x"], for_request=for_request))

    @precondition(lambda self: self.pair.client.outbound_requests or self.pair.server.outbound_requests)
    @rule(role=SIDES, index=INDEX, now=st.booleans())
    def cancel(self, role: Side, index: int, now: bool) -> None:
        if not self.pair.end_of(role).outbound_requests:
            role = OTHER[role]
        end = self.pair.end_of(role)
        id = [*end.outbound_requests, 99][index % (len(end.outbound_requests) + 1)]
        was_asked, sent = id in end.outbound_requests, len(self.pair.wire)
        if self.attempt(role, lambda: end.cancel(id, "enough")) and was_asked:
            self.finish(role, id, "cancelled")
            assert id not in end.outbound_requests
            if len(self.pair.wire) == sent:
                self.forgotten.add(id)
        self.settle(now)

    @precondition(lambda self: self.owed[Side.SERVER] or self.owed[Side.CLIENT])
    @rule(role=SIDES, index=INDEX)
    def withdraw(self, role: Side, index: int) -> None:
        """A handler ends after its request was cancelled."""
        role = self.busy(role)
        id = self.pick(role, index)
        if id not in self.pair.end_of(role).inbound_requests:
            self.pair.end_of(role).withdraw(id)
            self.owed[role].pop(id, None)

    @precondition(lambda self: R2026_07_28 in self.ours and R2026_07_28 in self.theirs)
    @rule(wanted=WANTED, at_most=st.none() | WANTED)
    def subscription_begins(self, wanted: t.SubscriptionFilter, at_most: t.SubscriptionFilter | None) -> None:
        params = t.SubscriptionsListenRequestParams(notifications=wanted)
        if self.attempt(Side.CLIENT, lambda: self.pair.client.request(m.SUBSCRIPTIONS_LISTEN, params)):
            self.settle(True)
            id = self.pick(Side.SERVER, 0)
            self.attempt(Side.SERVER, lambda: self.pair.server.acknowledge(id, at_most))

    @precondition(lambda self: self.owed[Side.SERVER])
    @rule(index=INDEX, wanted=st.none() | WANTED)
    def acknowledge(self, index: int, wanted: t.SubscriptionFilter | None) -> None:
        id = self.pick(Side.SERVER, index)
        self.attempt(Side.SERVER, lambda: self.pair.server.acknowledge(id, wanted))

    @precondition(lambda self: self.owed[Side.SERVER])
    @rule(index=INDEX)
    def end_subscription(self, index: int) -> None:
        id = self.pick(Side.SERVER, index)
        if self.attempt(Side.SERVER, lambda: self.pair.server.finish(id)):
            del self.owed[Side.SERVER][id]
            assert id not in self.pair.server.subscriptions

    @rule(row=st.sampled_from(NOTIFICATIONS), below=st.booleans())
    def publish(self, row: NotificationMethod[object], below: bool) -> None:
        params = NOTICES[row]
        if isinstance(params, t.ResourceUpdatedNotificationParams) and below:
            params = t.ResourceUpdatedNotificationParams(uri=f"{URI}/b")
        self.attempt(Side.SERVER, lambda: self.pair.server.publish(row, params))

    @rule(row=st.sampled_from(NOTIFICATIONS), index=INDEX, about=st.booleans())
    def server_notifies(self, row: NotificationMethod[object], index: int, about: bool) -> None:
        for_request = self.pick(Side.SERVER, index) if about else None
        self.attempt(Side.SERVER, lambda: self.pair.server.notify(row, NOTICES[row], for_request=for_request))

    @rule(row=st.sampled_from(NOTIFICATIONS))
    def client_notifies(self, row: NotificationMethod[object]) -> None:
        self.attempt(Side.CLIENT, lambda: self.pair.client.notify(row, NOTICES[row]))

    @rule()
    def client_loses_patience(self) -> None:
        reaction = self.pair.client.probe_unanswered()
        if reaction is not None:
            self.failed = self.failed or isinstance(reaction.event, NegotiationEnded)
            self.put(Side.CLIENT, reaction.reply)

    @rule(now=st.integers(0, 25))
    def one_side_dies(self, now: int) -> None:
        if now == 25 and not self.over:
            self.close()

    def close(self) -> None:
        for role in (Side.CLIENT, Side.SERVER):
            end = self.pair.end_of(role)
            waiting = set(end.inbound_requests)
            abandoned = end.end()
            assert set(abandoned.inbound) == waiting
            for id in abandoned.outbound:
                self.finish(role, id, "lost")
            assert not end.end().outbound
            assert end.state is State.CLOSED
        self.over = True

    # --- invariants ------------------------------------------------------------------------------------------------

    @invariant()
    def every_request_is_open_or_has_ended(self) -> None:
        for role in (Side.CLIENT, Side.SERVER):
            asked = set(self.pair.end_of(role).outbound_requests)
            assert asked == self.asked[role] - self.ended[role].keys()

    @invariant()
    def both_ends_agree_when_nothing_is_on_the_way(self) -> None:
        if self.over or self.pair.to_client or self.pair.to_server:
            return
        client, server = self.pair.client, self.pair.server
        if client.server is not None and client.server.revision in LEGACY:
            assert client.state is server.state is State.OPERATING
            assert server.session is not None
            assert server.session.revision is client.server.revision
        if not self.failed:
            assert set(server.inbound_requests) <= set(client.outbound_requests) | self.forgotten
        assert set(client.outbound_requests) - set(server.inbound_requests) <= self.negotiating()
        # An answer to the probe that came late leaves a session behind that only the server knows of.
        half_open = server.session is not None and client.session is None
        assert set(client.inbound_requests) <= set(server.outbound_requests)
        assert half_open or set(server.outbound_requests) <= set(client.inbound_requests)
        assert set(server.subscriptions) <= set(server.inbound_requests)

    def negotiating(self) -> set[RequestId]:
        return {
            id
            for id, method in self.pair.client.outbound_requests.items()
            if method in ("server/discover", "initialize")
        }

    def teardown(self) -> None:
        if not self.over:
            self.close()
        self.every_request_is_open_or_has_ended()
        for role in (Side.CLIENT, Side.SERVER):
            assert self.asked[role] == self.ended[role].keys()


PAIRS: Final = [((ours,), (theirs,)) for ours in ALL for theirs in ALL] + [
    (ALL, ALL),
    (ALL, LEGACY),
    (LEGACY, ALL),
    (ALL, (R2026_07_28,)),
    ((R2026_07_28,), ALL),
    ((R2024_11_05, R2026_07_28), (R2025_11_25, R2026_07_28)),
]


def _names(revisions: tuple[Revision, ...]) -> str:
    return "+".join(revision.name for revision in revisions) if len(revisions) < len(ALL) else "all"


@pytest.mark.property
@pytest.mark.parametrize(
    ("ours", "theirs"), [pytest.param(*each, id=f"{_names(each[0])} to {_names(each[1])}") for each in PAIRS]
)
def test_every_conversation_obeys_the_specification(ours: tuple[Revision, ...], theirs: tuple[Revision, ...]) -> None:
    profile = settings()
    # Two sides that cannot agree have little to say.
    agree = any(revision in theirs for revision in ours)
    examples = profile.max_examples if agree else max(10, profile.max_examples // 10)
    steps = max(80, profile.stateful_step_count)

    class Ours(Conversation):
        def __init__(self) -> None:
            super().__init__(ours, theirs)

    run_state_machine_as_test(Ours, settings=settings(profile, max_examples=examples, stateful_step_count=steps))
