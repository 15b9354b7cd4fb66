"""The classes themselves: equality, copies, binary content, levels."""

from __future__ import annotations

import base64
import copy
import inspect
import pickle

import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

from mcp_core import types as t
from mcp_core.conversion.wire_types import Array, Choice, Dictionary, Form, Ref, wire_class, wire_name
from mcp_core.errors import InvalidValue, LimitExceeded
from mcp_core.json_schema import wire_classes
from mcp_core.revisions import REVISIONS
from mcp_core.types import meta


def test_values_are_equal_by_class_and_fields() -> None:
    assert t.TextContent(text="a") == t.TextContent(text="a")
    assert t.TextContent(text="a") != t.TextContent(text="b")
    assert t.ToolListChangedNotificationParams() != t.PromptListChangedNotificationParams()
    assert t.TextContent(text="a") != "a"
    with pytest.raises(TypeError, match="unhashable"):
        hash(t.TextContent(text="a"))


def test_a_value_shows_what_it_was_given() -> None:
    assert repr(t.CallToolResult(content=())) == "CallToolResult(content=())"
    assert repr(t.TextContent(text="a", meta={})) == "TextContent(text='a', meta={})"
    assert repr(t.ABSENT) == "ABSENT"


def test_a_value_can_be_copied_and_pickled() -> None:
    value = t.CallToolResult(content=(t.TextContent(text="a", extra={"b": 1}),), structured_content={"c": [1]})
    assert copy.copy(value) == copy.deepcopy(value) == value
    assert copy.deepcopy(value).extra is t.NO_EXTRA
    assert pickle.loads(pickle.dumps(value)) == value
    assert t.evolve(value, is_error=True).is_error
    assert not value.is_error
    with pytest.raises(TypeError, match="nonsense"):
        t.evolve(value, nonsense=1)


def test_extra_members_are_shared_and_cannot_be_changed() -> None:
    assert t.TextContent(text="a").extra is t.NO_EXTRA
    assert t.NO_EXTRA == {}
    assert list(t.NO_EXTRA) == []
    assert repr(t.NO_EXTRA) == "NO_EXTRA"
    with pytest.raises(KeyError):
        t.NO_EXTRA["a"]
    with pytest.raises(TypeError):
        t.NO_EXTRA["a"] = 1  # type: ignore[index]  # that is what is tested


@pytest.mark.parametrize(
    ("attribute", "wire"), [("text", "text"), ("is_error", "isError"), ("poll_interval_ms", "pollIntervalMs")]
)
def test_wire_names_are_in_camel_case(attribute: str, wire: str) -> None:
    assert wire_name(attribute) == wire


@pytest.mark.property
@given(st.binary(max_size=200), st.sampled_from([0, 1, 4, 76]))
def test_base64_is_read_in_any_of_its_ways(data: bytes, width: int) -> None:
    plain = base64.b64encode(data).decode()
    lines = "\r\n".join(plain[at : at + width] for at in range(0, len(plain), width)) if width else plain
    for text in (plain, lines, plain.rstrip("="), base64.urlsafe_b64encode(data).decode()):
        assert t.decode_base64(text) == data


@pytest.mark.parametrize("text", ["a", "a$b=", "äöü=", "ab=c"])
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="not base64"):
        t.decode_base64(text)


def test_decoded_content_is_bounded() -> None:
    content = t.ImageContent.of_bytes(b"abc", "image/png")
    assert content == t.ImageContent(data="YWJj", mime_type="image/png")
    assert content.data_bytes() == b"abc"
    with pytest.raises(LimitExceeded, match="max_bytes") as caught:
        content.data_bytes(max_bytes=2)
    assert (caught.value.observed, caught.value.allowed) == (3, 2)
    assert t.AudioContent.of_bytes(b"abc", "audio/wav").data_bytes() == b"abc"
    assert t.BlobResourceContents.of_bytes("a:b", b"abc").blob_bytes() == b"abc"


def test_log_levels_have_an_order() -> None:
    assert t.reaches("error", "error")
    assert t.reaches("emergency", "debug")
    assert not t.reaches("info", "notice")


@pytest.mark.spec("meta.reverse-dns", "meta.prefix-reverse-dns")
def test_the_keys_of_metadata_have_their_prefix() -> None:
    assert meta.PROTOCOL_VERSION == "io.modelcontextprotocol/protocolVersion"
    assert meta.PROGRESS_TOKEN == "progressToken"


def test_everything_public_is_documented() -> None:
    for name in t.__all__:
        value = getattr(t, name)
        if inspect.isclass(value) and issubclass(value, t.WireObject) and value is not t.WireObject:
            assert value.__doc__, name
            source = inspect.getsource(value).splitlines()
            for number, line in enumerate(source):
                if (
                    line.startswith("    ")
                    and line[4:5].isalpha()
                    and ": " in line
                    and not line.strip().startswith("def")
                ):
                    rest = "\n".join(source[number : number + 10])
                    assert '"""' in rest, f"{name}: {line}"


def refs(form: Form) -> list[type[t.WireObject]]:
    match form:
        case Ref(cls):
            return [cls]
        case Array(inner) | Dictionary(inner):
            return refs(inner)
        case _:
            return []


def test_no_member_is_older_than_its_type() -> None:
    for revision in REVISIONS.values():
        for cls in wire_classes(revision):
            for member in wire_class(cls, revision).members:
                assert all(revision in each.__wire__.alive for each in refs(member.form)), (cls, member.wire, revision)
                if isinstance(member.form, Choice) and all(isinstance(each, Ref) for each in member.form.forms):
                    alive = [
                        each for form in member.form.forms for each in refs(form) if revision in each.__wire__.alive
                    ]
                    assert alive


def test_a_value_cannot_be_made_without_what_it_needs_or_with_what_it_has_not() -> None:
    with pytest.raises(TypeError, match=r"TextContent needs text"):
        t.TextContent()  # type: ignore[call-arg]  # what is tested
    with pytest.raises(TypeError, match=r"TextContent has no colour"):
        t.TextContent(text="a", colour="red")  # type: ignore[call-arg]  # what is tested


def test_a_value_cannot_be_changed() -> None:
    content = t.TextContent(text="a")
    with pytest.raises(FrozenInstanceError):
        content.text = "b"  # type: ignore[misc]  # what is tested
    with pytest.raises(FrozenInstanceError):
        del content.text
    assert content == t.TextContent(text="a")
