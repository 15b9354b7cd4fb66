from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.group.names import LONGEST_NAME, NameCollision, Naming, exposed_names

OFFERED = st.dictionaries(st.text(max_size=40), st.lists(st.text(max_size=80), max_size=5), max_size=4)
USABLE = re.compile(r"[A-Za-z0-9_-]*")


@pytest.mark.spec("tools.name-disambiguation")
@pytest.mark.property
@given(OFFERED, st.sampled_from(["prefixed", "plain"]))
def test_exposed_names_unique_and_usable(offered: dict[str, list[str]], naming: Naming) -> None:
    names = exposed_names(offered, naming)
    assert sorted(names.values()) == sorted({(server, name) for server, given in offered.items() for name in given})
    for shown in names:
        assert USABLE.fullmatch(shown)
        assert len(shown) <= LONGEST_NAME


@pytest.mark.property
@given(OFFERED)
def test_exposed_names_independent_of_server_order(offered: dict[str, list[str]]) -> None:
    reordered = dict(reversed(offered.items()))
    assert exposed_names(offered, "prefixed") == exposed_names(reordered, "prefixed")
    assert exposed_names(offered, "plain") == exposed_names(reordered, "plain")


@pytest.mark.property
@given(st.text(alphabet="ab", min_size=1, max_size=5), st.text(alphabet="cd", min_size=1, max_size=5), OFFERED)
def test_prefixed_name_independent_of_other_servers(server: str, name: str, others: dict[str, list[str]]) -> None:
    alone = exposed_names({server: [name]}, "prefixed")
    together = exposed_names({**others, server: [name]}, "prefixed")
    clash = any(
        f"{other}__{each}" != f"{server}__{name}" and (other, each) == (server, name)
        for other, each in together.values()
    )
    assert not clash
    assert alone == {f"{server}__{name}": (server, name)}
    assert (server, name) in together.values()


def test_plain_name_prefixed_only_on_collision() -> None:
    offered = {"a": ["search", "read"], "b": ["search", "write"]}
    assert exposed_names(offered, "plain") == {
        "a__search": ("a", "search"),
        "b__search": ("b", "search"),
        "read": ("a", "read"),
        "write": ("b", "write"),
    }


def test_strict_name_collision_raises() -> None:
    assert exposed_names({"a": ["x.y"], "b": ["z"]}, "strict") == {"x.y": ("a", "x.y"), "z": ("b", "z")}
    with pytest.raises(
        NameCollision, match="a and b both offer 'search'; open the group with naming='prefixed'"
    ) as caught:
        exposed_names({"b": ["search"], "a": ["search"]}, "strict")
    assert (caught.value.name, caught.value.servers) == ("search", ("a", "b"))


def test_unusable_names_rewritten_and_unique() -> None:
    names = exposed_names({"my server": ["a.b", "a/b", "x" * 100]}, "prefixed")
    assert all(USABLE.fullmatch(name) and len(name) <= LONGEST_NAME for name in names)
    assert {original for _, original in names.values()} == {"a.b", "a/b", "x" * 100}


@pytest.mark.parametrize("naming", ["prefixed", "plain"])
def test_rewritten_name_offered_by_server_stays_unique(naming: Naming) -> None:
    plain = {"evil": ["x.y", "x/y"]}
    rewritten = [name.removeprefix("evil__") for name in exposed_names(plain, naming)]
    names = exposed_names({"evil": [*plain["evil"], *rewritten]}, naming)
    assert sorted(own for _, own in names.values()) == sorted([*plain["evil"], *rewritten])
