"""Random conversations between a client engine and a server engine. An oracle that reads the wire checks each message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import orjson
import pytest
from engine_oracle import Oracle, SideName, obj
from engine_pair import (
    ALL,
    ALL_CLIENT_CAPABILITIES,
    ALL_SERVER_CAPABILITIES,
    FILTER,
    FORM,
    NO_CLIENT_CAPABILITIES,
    NO_SERVER_CAPABILITIES,
    NOTIFICATION_PARAMS,
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

SERVER_CAPABILITIES: Final = st.sampled_from(
    [
        ALL_SERVER_CAPABILITIES,
        ALL_SERVER_CAPABILITIES,
        NO_SERVER_CAPABILITIES,
        t.ServerCapabilities(tools=t.ToolsCapability(), resources=t.ResourcesCapability(subscribe=True)),
    ]
)
CLIENT_CAPABILITIES: Final = st.sampled_from(
    [
        ALL_CLIENT_CAPABILITIES,
        ALL_CLIENT_CAPABILITIES,
        NO_CLIENT_CAPABILITIES,
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
INPUT_REQUESTS: Final = st.sampled_from(
    [
        t.ElicitRequest(params=FORM),
        t.ElicitRequest(params=t.ElicitRequestURLParams(message="go", url="https://example.com/")),
        t.ListRootsRequest(),
    ]
)
CODES: Final = st.sampled_from([-1, -32002, -32020, -32021, -32022, -32042, -32050, -32602, -32603, 7])
PROGRESS: Final = st.sampled_from([0.0, 1.0, 2.0, float("nan")])
FILTERS: Final = st.sampled_from(
    [
        FILTER,
        t.SubscriptionFilter(tools_list_changed=True),
        t.SubscriptionFilter(resource_subscriptions=(URI,)),
        t.SubscriptionFilter(task_ids=("t",)),
    ]
)
SIDES: Final = st.sampled_from(Side.CLIENT.__class__).filter(lambda role: role is not Side.BOTH)
INDEX: Final = st.integers(0, 7)
SIDE_NAMES: Final[dict[Side, SideName]] = {Side.CLIENT: "client", Side.SERVER: "server"}
OPPOSITE: Final = {Side.CLIENT: Side.SERVER, Side.SERVER: Side.CLIENT}


class Conversation(RuleBasedStateMachine):
    """Valid and invalid commands on both sides, and messages that cross."""

    def __init__(self, client_revisions: tuple[Revision, ...], server_revisions: tuple[Revision, ...]) -> None:
        super().__init__()
        self.client_revisions, self.server_revisions = client_revisions, server_revisions
        self.oracle = Oracle()
        self.pair: ConnectionPair = pair(client_revisions, server_revisions)
        self.inbound: dict[Side, dict[RequestId, RequestReceived]] = {Side.CLIENT: {}, Side.SERVER: {}}
        self.ended: dict[Side, dict[RequestId, str]] = {Side.CLIENT: {}, Side.SERVER: {}}
        self.outbound: dict[Side, set[RequestId]] = {Side.CLIENT: set(), Side.SERVER: set()}
        self.closed = False
        self.failed = False
        self.silently_cancelled: set[RequestId] = set()
        """Requests that were cancelled without a notification, because they are task-augmented."""

    @initialize(
        offers=SERVER_CAPABILITIES,
        declared=CLIENT_CAPABILITIES,
        level=st.sampled_from([None, *LOGGING_LEVELS]),
        max_watched=st.sampled_from([0, 1, 1000]),
        settle=st.integers(0, 5).map(bool),
    )
    def connect(
        self,
        offers: t.ServerCapabilities,
        declared: t.ClientCapabilities,
        level: t.LoggingLevel | None,
        max_watched: int,
        settle: bool,
    ) -> None:
        self.pair = pair(
            make_client(*self.client_revisions, capabilities=declared, log_level=level),
            make_server(*self.server_revisions, capabilities=offers, limits=Limits(watched_resources=max_watched)),
        )
        self.send(Side.CLIENT, self.pair.client.open())
        # Most conversations begin with open connections; in some, commands precede the handshake.
        self.settle(settle)

    # --- the wire --------------------------------------------------------------------------------------------------

    def send(self, role: Side, *outgoing: Outgoing | None) -> None:
        for each in outgoing:
            if each is None:
                continue
            assert not self.closed, f"{each} was sent after the connection closed"
            self.pair.send(role, each)
            sent = self.pair.wire[-1].message
            self.oracle.check_sent(SIDE_NAMES[role], sent, each.for_request)
            if isinstance(each.message, Request):
                self.outbound[role].add(each.message.id)

    def attempt(self, role: Side, command: Callable[[], Outgoing | tuple[Outgoing, ...] | None]) -> bool:
        """Run a command, valid or not, and return whether it was accepted."""
        before = self.pair.connection(role).state
        try:
            outgoing = command()
        except (LocalProtocolError, MissingRequiredClientCapability, LimitExceeded):
            assert self.pair.connection(role).state is before, "a rejected command changed the state"
            return False
        self.send(role, *(outgoing if isinstance(outgoing, tuple) else (outgoing,)))
        return True

    def deliver(self, role: Side) -> None:
        queue = self.pair.to_client if role is Side.CLIENT else self.pair.to_server
        self.oracle.record_received(SIDE_NAMES[role], orjson.loads(queue[0]))
        sent = len(self.pair.wire)
        reaction = self.pair.deliver(role)
        for each in self.pair.wire[sent:]:
            assert not self.closed
            self.oracle.check_sent(
                SIDE_NAMES[role], each.message, reaction.reply.for_request if reaction.reply else None
            )
        if reaction.reply is not None and isinstance(reaction.reply.message, Request):
            self.outbound[role].add(reaction.reply.message.id)
        event = reaction.event
        if isinstance(event, RequestReceived):
            assert not self.closed
            self.inbound[role][event.id] = event
        elif isinstance(event, CancelReceived):
            assert event.id in self.inbound[role]
        elif isinstance(event, (ResultReceived, ErrorReceived)):
            self.record_end(role, event.id, type(event).__name__)
        elif isinstance(event, (ConnectionOpened, Negotiating, NegotiationEnded)) and role is Side.CLIENT:
            # The engine handled the response to its own probe or handshake.
            for id in self.outbound[role] - self.ended[role].keys() - self.pair.client.outbound_requests.keys():
                self.record_end(role, id, "negotiated")
            self.failed = self.failed or isinstance(event, NegotiationEnded)

    def record_end(self, role: Side, id: RequestId, outcome: str) -> None:
        assert id in self.outbound[role]
        assert id not in self.ended[role], f"request {id} ended twice: {self.ended[role][id]}, {outcome}"
        self.ended[role][id] = outcome

    def pick(self, role: Side, index: int) -> RequestId:
        """Return the id of a pending inbound request, more often a new one; sometimes an unknown id."""
        ids = list(self.inbound[role])
        return ids[-1 - index // 2 % len(ids)] if ids and index < 7 else "nothing"

    def side_with_pending(self, role: Side) -> Side:
        """Return the same side, or the opposite side if only that one has pending inbound requests."""
        return role if self.inbound[role] or not self.inbound[OPPOSITE[role]] else OPPOSITE[role]

    def settle(self, now: bool) -> None:
        """Deliver all messages in transit, if `now` is true."""
        while now and (self.pair.to_server or self.pair.to_client):
            for role in (Side.SERVER, Side.CLIENT):
                if self.pair.in_transit(role):
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
    def all_messages_arrive(self) -> None:
        self.settle(True)

    @rule(row=ANY_METHOD, progress=st.booleans(), task=st.integers(0, 9), now=st.booleans())
    def client_calls(self, row: RequestMethod[object, object], progress: bool, task: int, now: bool) -> None:
        params = PARAMS[row]
        if row is m.TOOLS_CALL and task == 0:
            assert isinstance(params, t.CallToolRequestParams)
            params = attrs.evolve(params, task=t.TaskMetadata())
        self.attempt(Side.CLIENT, lambda: self.pair.client.request(row, params, progress=progress))
        self.settle(now)

    @rule(
        row=SERVER_METHODS,
        index=INDEX,
        for_pending=st.booleans(),
        url=st.booleans(),
        tools=st.booleans(),
        now=st.booleans(),
    )
    def server_requests(
        self, row: RequestMethod[object, object], index: int, for_pending: bool, url: bool, tools: bool, now: bool
    ) -> None:
        params = PARAMS[row]
        if row is m.ELICITATION_CREATE and url:
            params = t.ElicitRequestURLParams(message="go", url="https://example.com/", elicitation_id="e")
        if row is m.SAMPLING_CREATE_MESSAGE and tools:
            assert isinstance(params, t.CreateMessageRequestParams)
            params = attrs.evolve(params, tools=())
        for_request = self.pick(Side.SERVER, index) if for_pending else None
        self.attempt(Side.SERVER, lambda: self.pair.server.request(row, params, for_request=for_request))
        self.settle(now)

    @precondition(lambda self: self.inbound[Side.SERVER] or self.inbound[Side.CLIENT])
    @rule(role=SIDES, index=INDEX)
    def respond(self, role: Side, index: int) -> None:
        role = self.side_with_pending(role)
        id = self.pick(role, index)
        request = self.inbound[role].get(id)
        result: object = {}
        if request is not None:
            augmented = getattr(request.params, "task", None) is not None
            result = t.CreateTaskResult(task=TASK) if augmented else RESULTS[request.definition]
        if self.attempt(role, lambda: self.pair.connection(role).respond(id, result)):
            del self.inbound[role][id]

    @precondition(lambda self: self.inbound[Side.SERVER] or self.inbound[Side.CLIENT])
    @rule(role=SIDES, index=INDEX, other=ANY_METHOD)
    def respond_with_anything(self, role: Side, index: int, other: RequestMethod[object, object]) -> None:
        role = self.side_with_pending(role)
        id = self.pick(role, index)
        if self.attempt(role, lambda: self.pair.connection(role).respond(id, RESULTS[other])):
            del self.inbound[role][id]

    @precondition(lambda self: self.inbound[Side.SERVER])
    @rule(index=INDEX, input_request=INPUT_REQUESTS, state=st.booleans(), has_requests=st.booleans())
    def need_input(self, index: int, input_request: t.InputRequest, state: bool, has_requests: bool) -> None:
        id = self.pick(Side.SERVER, index)
        result = t.InputRequiredResult(
            input_requests={"a": input_request} if has_requests else None, request_state="s" if state else None
        )
        if self.attempt(Side.SERVER, lambda: self.pair.server.respond(id, result)):
            del self.inbound[Side.SERVER][id]

    @precondition(lambda self: self.inbound[Side.SERVER] or self.inbound[Side.CLIENT])
    @rule(role=SIDES, index=INDEX, code=CODES)
    def fail(self, role: Side, index: int, code: int) -> None:
        role = self.side_with_pending(role)
        id = self.pick(role, index)
        if self.attempt(role, lambda: self.pair.connection(role).fail(id, RequestFailed("no", code=code))):
            del self.inbound[role][id]

    @precondition(lambda self: self.inbound[Side.SERVER] or self.inbound[Side.CLIENT])
    @rule(role=SIDES, index=INDEX, values=st.lists(PROGRESS, min_size=1, max_size=3))
    def progress(self, role: Side, index: int, values: list[float]) -> None:
        role = self.side_with_pending(role)
        with_token = [id for id, event in self.inbound[role].items() if "progressToken" in obj(event.raw.get("_meta"))]
        id = with_token[-1] if with_token and index else self.pick(role, index)
        for value in values:
            self.attempt(role, lambda value=value: self.pair.connection(role).progress(id, value, 5.0, "working"))  # type: ignore[misc]  # a default binds the value

    @rule(index=INDEX, level=st.sampled_from(LOGGING_LEVELS), for_pending=st.booleans())
    def log(self, index: int, level: t.LoggingLevel, for_pending: bool) -> None:
        for_request = self.pick(Side.SERVER, index) if for_pending else None
        self.attempt(Side.SERVER, lambda: self.pair.server.log(level, ["x"], for_request=for_request))

    @precondition(lambda self: self.pair.client.outbound_requests or self.pair.server.outbound_requests)
    @rule(role=SIDES, index=INDEX, now=st.booleans())
    def cancel(self, role: Side, index: int, now: bool) -> None:
        if not self.pair.connection(role).outbound_requests:
            role = OPPOSITE[role]
        connection = self.pair.connection(role)
        id = [*connection.outbound_requests, 99][index % (len(connection.outbound_requests) + 1)]
        was_pending, sent = id in connection.outbound_requests, len(self.pair.wire)
        if self.attempt(role, lambda: connection.cancel(id, "enough")) and was_pending:
            self.record_end(role, id, "cancelled")
            assert id not in connection.outbound_requests
            if len(self.pair.wire) == sent:
                self.silently_cancelled.add(id)
        self.settle(now)

    @precondition(lambda self: self.inbound[Side.SERVER] or self.inbound[Side.CLIENT])
    @rule(role=SIDES, index=INDEX)
    def withdraw(self, role: Side, index: int) -> None:
        """End the handler of a cancelled request."""
        role = self.side_with_pending(role)
        id = self.pick(role, index)
        if id not in self.pair.connection(role).inbound_requests:
            self.pair.connection(role).withdraw(id)
            self.inbound[role].pop(id, None)

    @precondition(lambda self: R2026_07_28 in self.client_revisions and R2026_07_28 in self.server_revisions)
    @rule(filter_=FILTERS, at_most=st.none() | FILTERS)
    def subscription_begins(self, filter_: t.SubscriptionFilter, at_most: t.SubscriptionFilter | None) -> None:
        params = t.SubscriptionsListenRequestParams(notifications=filter_)
        if self.attempt(Side.CLIENT, lambda: self.pair.client.request(m.SUBSCRIPTIONS_LISTEN, params)):
            self.settle(True)
            id = self.pick(Side.SERVER, 0)
            self.attempt(Side.SERVER, lambda: self.pair.server.acknowledge(id, at_most))

    @precondition(lambda self: self.inbound[Side.SERVER])
    @rule(index=INDEX, filter_=st.none() | FILTERS)
    def acknowledge(self, index: int, filter_: t.SubscriptionFilter | None) -> None:
        id = self.pick(Side.SERVER, index)
        self.attempt(Side.SERVER, lambda: self.pair.server.acknowledge(id, filter_))

    @precondition(lambda self: self.inbound[Side.SERVER])
    @rule(index=INDEX)
    def end_subscription(self, index: int) -> None:
        id = self.pick(Side.SERVER, index)
        if self.attempt(Side.SERVER, lambda: self.pair.server.finish(id)):
            del self.inbound[Side.SERVER][id]
            assert id not in self.pair.server.subscriptions

    @rule(row=st.sampled_from(NOTIFICATIONS), below=st.booleans())
    def publish(self, row: NotificationMethod[object], below: bool) -> None:
        params = NOTIFICATION_PARAMS[row]
        if isinstance(params, t.ResourceUpdatedNotificationParams) and below:
            params = t.ResourceUpdatedNotificationParams(uri=f"{URI}/b")
        self.attempt(Side.SERVER, lambda: self.pair.server.publish(row, params))

    @rule(row=st.sampled_from(NOTIFICATIONS), index=INDEX, for_pending=st.booleans())
    def server_notifies(self, row: NotificationMethod[object], index: int, for_pending: bool) -> None:
        for_request = self.pick(Side.SERVER, index) if for_pending else None
        self.attempt(
            Side.SERVER, lambda: self.pair.server.notify(row, NOTIFICATION_PARAMS[row], for_request=for_request)
        )

    @rule(row=st.sampled_from(NOTIFICATIONS))
    def client_notifies(self, row: NotificationMethod[object]) -> None:
        self.attempt(Side.CLIENT, lambda: self.pair.client.notify(row, NOTIFICATION_PARAMS[row]))

    @rule()
    def probe_times_out(self) -> None:
        reaction = self.pair.client.probe_unanswered()
        if reaction is not None:
            self.failed = self.failed or isinstance(reaction.event, NegotiationEnded)
            self.send(Side.CLIENT, reaction.reply)

    @rule(now=st.integers(0, 25))
    def connection_closes(self, now: int) -> None:
        if now == 25 and not self.closed:
            self.close()

    def close(self) -> None:
        for role in (Side.CLIENT, Side.SERVER):
            connection = self.pair.connection(role)
            still_pending = set(connection.inbound_requests)
            abandoned = connection.end()
            assert set(abandoned.inbound) == still_pending
            for id in abandoned.outbound:
                self.record_end(role, id, "lost")
            assert not connection.end().outbound
            assert connection.state is State.CLOSED
        self.closed = True

    # --- invariants ------------------------------------------------------------------------------------------------

    @invariant()
    def each_request_is_pending_or_ended(self) -> None:
        for role in (Side.CLIENT, Side.SERVER):
            pending = set(self.pair.connection(role).outbound_requests)
            assert pending == self.outbound[role] - self.ended[role].keys()

    @invariant()
    def both_sides_agree_without_messages_in_transit(self) -> None:
        if self.closed or self.pair.to_client or self.pair.to_server:
            return
        client, server = self.pair.client, self.pair.server
        if client.server is not None and client.server.revision in LEGACY:
            assert client.state is server.state is State.OPERATING
            assert server.session is not None
            assert server.session.revision is client.server.revision
        if not self.failed:
            assert set(server.inbound_requests) <= set(client.outbound_requests) | self.silently_cancelled
        assert set(client.outbound_requests) - set(server.inbound_requests) <= self.negotiating()
        # A late response to the probe leaves a session of which only the server knows.
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
        if not self.closed:
            self.close()
        self.each_request_is_pending_or_ended()
        for role in (Side.CLIENT, Side.SERVER):
            assert self.outbound[role] == self.ended[role].keys()


PAIRS: Final = [((client_revisions,), (server_revisions,)) for client_revisions in ALL for server_revisions in ALL] + [
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
    ("client_revisions", "server_revisions"),
    [pytest.param(*each, id=f"{_names(each[0])} to {_names(each[1])}") for each in PAIRS],
)
def test_conversation_any_commands_obeys_specification(
    client_revisions: tuple[Revision, ...], server_revisions: tuple[Revision, ...]
) -> None:
    profile = settings()
    # Two sides without a common revision exchange few messages.
    agree = any(revision in server_revisions for revision in client_revisions)
    examples = profile.max_examples if agree else max(10, profile.max_examples // 10)
    steps = max(80, profile.stateful_step_count)

    class OurConversation(Conversation):
        def __init__(self) -> None:
            super().__init__(client_revisions, server_revisions)

    run_state_machine_as_test(
        OurConversation, settings=settings(profile, max_examples=examples, stateful_step_count=steps)
    )
