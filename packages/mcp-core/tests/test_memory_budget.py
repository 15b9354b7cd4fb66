"""The memory budget of all peers, and its owners."""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from typing import TYPE_CHECKING

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from mcp_core.errors import LimitExceeded
from mcp_core.limits.memory_budget import SMALL_OWNERS, MemoryBudget, MemoryCharge, parsed_size

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonValue

KIB = 1024


def memory_of(value: JsonValue) -> int:
    """Return the bytes of a parsed value with all its parts; shared parts count once."""
    found: dict[int, object] = {}
    pending: list[object] = [value]
    while pending:
        each = pending.pop()
        if id(each) not in found:
            found[id(each)] = each
            if isinstance(each, dict):
                pending += [*each, *each.values()]
            elif isinstance(each, list):
                pending += each
    return sum(map(sys.getsizeof, found.values()))


def test_charge_released_frees_memory_and_removes_owner() -> None:
    budget = MemoryBudget(1_000)
    charge = budget.charge("a", 600)
    assert (budget.used, budget.held_by("a"), budget.owners) == (600, 600, 1)
    charge.resize(100)
    charge.release()
    charge.release()
    assert (budget.used, budget.held_by("a"), budget.owners) == (0, 0, 0)


def test_kept_charge_over_five_eighths_rejected_and_names_setting() -> None:
    budget = MemoryBudget(1_000)
    held = budget.charge("a", 600)
    with pytest.raises(LimitExceeded, match=r"Limits\.total_bytes") as caught:
        held.resize(700)
    assert (caught.value.observed, caught.value.allowed) == (700, 625)
    assert (held.size, budget.used, budget.refused) == (600, 600, 1)


class Answer:
    """An object that a refused caller refers to."""


def test_data_of_refused_caller_freed_without_garbage_collector() -> None:
    budget = MemoryBudget(1_000)
    budget.droppable("a").resize(600)

    def refused() -> weakref.ref[Answer]:
        answer = Answer()
        with contextlib.suppress(LimitExceeded):
            budget.droppable("b").resize(600)
        return weakref.ref(answer)

    gc.disable()
    try:
        assert refused()() is None
    finally:
        gc.enable()


def test_charge_abandoned_after_release_does_not_refer_to_work() -> None:
    charge = MemoryBudget(1_000).charge("a", 600)
    charge.release()
    charge.abandon(lambda: None)
    assert charge.on_drop is None


def test_moderate_owners_share_bounded_eighth() -> None:
    budget = MemoryBudget(256 * 1024 * KIB)
    budget.charge("large", 160 * 1024 * KIB)
    with pytest.raises(LimitExceeded):
        budget.charge("demanding", 300 * KIB)
    budget.charge("ordinary", 200 * KIB)
    # With more owners, the share of each becomes smaller, down to the size that a small owner may always hold.
    for number in range(3_000):
        with contextlib.suppress(LimitExceeded):
            budget.charge(number, 100 * KIB)
    assert budget.used < 192 * 1024 * KIB - 128 * 99 * KIB
    for number in range(3_000, 6_000):
        with contextlib.suppress(LimitExceeded):
            budget.charge(number, 17 * KIB)
    assert budget.used < 192 * 1024 * KIB
    for number in range(SMALL_OWNERS):
        budget.charge(("small", number), 16 * KIB)


def test_small_owner_accepted_while_large_owner_holds_maximum() -> None:
    budget = MemoryBudget(4 * SMALL_OWNERS * KIB)
    budget.charge("large", 5 * SMALL_OWNERS * KIB // 2)
    for number in range(SMALL_OWNERS // 2):
        budget.charge(("first", number), KIB)
    with pytest.raises(LimitExceeded):
        budget.charge("other", 2 * KIB)
    charges = [budget.charge(number, KIB) for number in range(SMALL_OWNERS)]
    assert budget.used == 4 * SMALL_OWNERS * KIB
    with pytest.raises(LimitExceeded):
        budget.charge("late", 1)
    charges[0].release()
    budget.charge("late", KIB)


def test_newest_body_of_largest_owner_dropped_for_smaller_owner() -> None:
    budget = MemoryBudget(1_000)
    dropped: list[str] = []
    bodies: dict[str, MemoryCharge] = {}
    for name, owner, size in (("old", "large", 300), ("new", "large", 300), ("other", "medium", 400)):
        bodies[name] = budget.droppable(owner)
        bodies[name].on_drop = lambda name=name: dropped.append(name)
        bodies[name].resize(size)
    budget.charge("small", 100)
    assert dropped == ["new"]
    assert bodies["new"].size == 0
    assert bodies["new"].dropped is not None
    assert bodies["old"].dropped is None
    # Now the medium owner is the largest.
    budget.charge("small", 250)
    assert dropped == ["new", "other"]


def test_largest_owner_over_limit_rejected() -> None:
    budget = MemoryBudget(1_000)
    small, large = budget.droppable("small"), budget.droppable("large")
    small.resize(400)
    large.resize(600)
    with pytest.raises(LimitExceeded):
        large.resize(601)
    assert (small.size, large.size, small.dropped, large.dropped) == (400, 600, None, None)


def test_kept_charge_never_dropped() -> None:
    budget = MemoryBudget(1_000)
    kept = budget.charge("large", 600)
    body = budget.droppable("small")
    body.resize(400)
    with pytest.raises(LimitExceeded):
        body.resize(401)
    assert (kept.size, body.size) == (600, 400)


def test_completed_body_kept_or_released() -> None:
    budget = MemoryBudget(1_000)
    body = budget.droppable("a")
    body.resize(400)
    body.keep(600)
    assert (budget.used, body.kept) == (600, True)
    other = budget.droppable("b")
    other.resize(200)
    with pytest.raises(LimitExceeded):
        other.keep(100)
    assert (budget.used, other.size) == (600, 0)


def test_receded_memory_reported_once() -> None:
    budget = MemoryBudget(8_000)
    small_charge = budget.charge("a", 999)
    small_charge.release()
    assert not budget.has_receded()
    large_charge = budget.charge("a", 1_000)
    assert not budget.has_receded()
    large_charge.resize(251)
    assert not budget.has_receded()
    large_charge.resize(250)
    assert budget.has_receded()
    assert not budget.has_receded()
    large_charge.release()
    assert not budget.has_receded()


def test_repeatedly_released_memory_reported_once_per_budget() -> None:
    budget = MemoryBudget(8_000)
    budget.charge("a", 500)
    for _ in range(4):
        assert not budget.has_receded()
        budget.charge("b", 500).release()
    assert budget.has_receded()
    assert not budget.has_receded()


def test_abandoned_charge_dropped_for_smaller_owner() -> None:
    budget = MemoryBudget(1_000)
    dropped: list[str] = []
    abandoned, other = budget.charge("large", 580), budget.charge("other", 40)
    with pytest.raises(LimitExceeded):
        budget.charge("small", 500)
    abandoned.abandon(lambda: dropped.append("abandoned"))
    budget.charge("small", 500)
    assert (dropped, abandoned.size, other.size, budget.used) == (["abandoned"], 0, 40, 540)
    assert abandoned.dropped is not None
    released = budget.charge("released", 0)
    released.abandon(lambda: dropped.append("released"))
    released.release()
    assert dropped == ["abandoned"]


class Budgets(RuleBasedStateMachine):
    """Random sequences of charges: sums are correct, limits hold, and kept charges are not dropped."""

    charges = Bundle("charges")
    total = 1_000

    def __init__(self) -> None:
        super().__init__()
        self.budget = MemoryBudget(self.total)
        self.alive: list[MemoryCharge] = []
        self.drops: list[MemoryCharge] = []

    @rule(target=charges, owner=st.sampled_from("abc"), kept=st.booleans(), size=st.integers(1, 600))
    def begin(self, owner: str, *, kept: bool, size: int) -> MemoryCharge:
        charge = self.budget.droppable(owner)
        charge.on_drop = lambda: self.drops.append(charge)
        try:
            if kept:
                charge.keep(size)
            else:
                charge.resize(size)
        except LimitExceeded:
            assert charge.size == 0
        self.alive.append(charge)
        return charge

    @rule(charge=charges, size=st.integers(0, 600))
    def resize(self, charge: MemoryCharge, size: int) -> None:
        before, others = charge.size, [each.size for each in self.alive if each.owner != charge.owner]
        held = self.budget.held_by(charge.owner)
        try:
            charge.resize(size)
        except LimitExceeded:
            assert size > before
            assert charge.size == before
            # No charge of an owner smaller than this one was dropped without need.
            dropped_sizes = [
                size_before
                for size_before, each in zip(others, [e for e in self.alive if e.owner != charge.owner], strict=True)
                if size_before and not each.size
            ]
            assert all(size_before <= self.total for size_before in dropped_sizes)
        else:
            assert charge.size == size
            assert self.budget.held_by(charge.owner) == held + size - before

    @rule(charge=charges)
    def abandon(self, charge: MemoryCharge) -> None:
        before = self.budget.used
        charge.abandon(lambda: self.drops.append(charge))
        assert (self.budget.used, charge.kept) == (before, False)

    @rule(charge=consumes(charges))
    def end(self, charge: MemoryCharge) -> None:
        charge.release()
        self.alive.remove(charge)

    @invariant()
    def sums_are_right(self) -> None:
        assert self.budget.used == sum(each.size for each in self.alive) <= self.total
        for owner in "abc":
            assert self.budget.held_by(owner) == sum(each.size for each in self.alive if each.owner == owner)
        assert self.budget.owners == len({each.owner for each in self.alive if each.size})

    @invariant()
    def kept_work_is_never_dropped(self) -> None:
        assert not any(each.kept for each in self.drops)


TestBudgets = pytest.mark.property(Budgets.TestCase)

DENSE = {
    "empty objects": b"[" + b"{}," * 20_000 + b"{}]",
    "empty arrays": b"[" + b"[]," * 20_000 + b"[]]",
    "arrays of one": b"[" + b"[0]," * 20_000 + b"0]",
    "objects of one": b"[" + b'{"a":1},' * 20_000 + b"0]",
    "objects of one string": b"[" + b'{"a":"b"},' * 20_000 + b"0]",
    "integers": b"[" + b"1000," * 20_000 + b"0]",
    "floats": b"[" + b"1.5," * 20_000 + b"0]",
    "short strings": b"[" + b'"ab",' * 20_000 + b"0]",
    "wide characters": '"{}\N{GRINNING FACE}"'.format("a" * 100_000).encode(),
    "members": b"{" + b",".join(b'"%d":%d' % (number, number) for number in range(20_000)) + b"}",
}


@pytest.mark.parametrize("text", DENSE.values(), ids=DENSE)
def test_size_estimate_of_dense_json_covers_memory(text: bytes) -> None:
    needed = len(text) + memory_of(orjson.loads(text))
    assert needed <= parsed_size(text) <= 4 * needed


@pytest.mark.property
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    )
)
def test_size_estimate_of_arbitrary_json_covers_memory(value: JsonValue) -> None:
    text = orjson.dumps({"value": value, "padding": "x" * 300})
    assert parsed_size(text) >= len(text) + memory_of(orjson.loads(text))
