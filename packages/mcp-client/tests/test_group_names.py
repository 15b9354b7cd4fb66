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
def test_each_thing_has_one_name_of_its_own(offered: dict[str, list[str]], naming: Naming) -> None:
    names = exposed_names(offered, naming)
    assert sorted(names.values()) == sorted({(server, name) for server, given in offered.items() for name in given})
    for shown in names:
        assert USABLE.fullmatch(shown)
        assert len(shown) <= LONGEST_NAME


@pytest.mark.property
@given(OFFERED)
def test_names_do_not_depend_on_the_order_of_the_servers(offered: dict[str, list[str]]) -> None:
    backwards = dict(reversed(offered.items()))
    assert exposed_names(offered, "prefixed") == exposed_names(backwards, "prefixed")
    assert exposed_names(offered, "plain") == exposed_names(backwards, "plain")


@pytest.mark.property
@given(st.text(alphabet="ab", min_size=1, max_size=5), st.text(alphabet="cd", min_size=1, max_size=5), OFFERED)
def test_a_prefixed_name_does_not_depend_on_the_other_servers(
    server: str, name: str, others: dict[str, list[str]]
) -> None:
    alone = exposed_names({server: [name]}, "prefixed")
    together = exposed_names({**others, server: [name]}, "prefixed")
    clash = any(
        f"{other}__{each}" != f"{server}__{name}" and (other, each) == (server, name)
        for other, each in together.values()
    )
    assert not clash
    assert alone == {f"{server}__{name}": (server, name)}
    assert (server, name) in together.values()


def test_a_plain_name_has_a_prefix_only_where_it_is_needed() -> None:
    offered = {"a": ["search", "read"], "b": ["search", "write"]}
    assert exposed_names(offered, "plain") == {
        "a__search": ("a", "search"),
        "b__search": ("b", "search"),
        "read": ("a", "read"),
        "write": ("b", "write"),
    }


def test_strict_names_are_those_of_the_servers_or_an_error() -> None:
    assert exposed_names({"a": ["x.y"], "b": ["z"]}, "strict") == {"x.y": ("a", "x.y"), "z": ("b", "z")}
    with pytest.raises(
        NameCollision, match="a and b both offer 'search'; open the group with naming='prefixed'"
    ) as caught:
        exposed_names({"b": ["search"], "a": ["search"]}, "strict")
    assert (caught.value.name, caught.value.servers) == ("search", ("a", "b"))


def test_names_that_no_model_takes_are_made_usable_and_stay_apart() -> None:
    names = exposed_names({"my server": ["a.b", "a/b", "x" * 100]}, "prefixed")
    assert all(USABLE.fullmatch(name) and len(name) <= LONGEST_NAME for name in names)
    assert {meant for _, meant in names.values()} == {"a.b", "a/b", "x" * 100}


@pytest.mark.parametrize("naming", ["prefixed", "plain"])
def test_no_server_hides_a_thing_by_a_name_that_is_made_here(naming: Naming) -> None:
    plain = {"evil": ["x.y", "x/y"]}
    made = [name.removeprefix("evil__") for name in exposed_names(plain, naming)]
    names = exposed_names({"evil": [*plain["evil"], *made]}, naming)
    assert sorted(own for _, own in names.values()) == sorted([*plain["evil"], *made])
