"""The wire classes: equality, copies, binary content, log levels."""

from __future__ import annotations

import base64
import copy
import inspect
import pickle

import attrs
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


def test_wire_objects_equal_by_class_and_fields() -> None:
    assert t.TextContent(text="a") == t.TextContent(text="a")
    assert t.TextContent(text="a") != t.TextContent(text="b")
    assert t.ToolListChangedNotificationParams() != t.PromptListChangedNotificationParams()
    assert t.TextContent(text="a") != "a"
    with pytest.raises(TypeError, match="unhashable"):
        hash(t.TextContent(text="a"))


def test_wire_object_repr_shows_given_fields() -> None:
    assert repr(t.CallToolResult(content=())) == "CallToolResult(content=())"
    assert repr(t.TextContent(text="a", meta={})) == "TextContent(text='a', meta={})"
    assert repr(t.ABSENT) == "ABSENT"


def test_wire_object_copied_and_pickled() -> None:
    value = t.CallToolResult(content=(t.TextContent(text="a", extra={"b": 1}),), structured_content={"c": [1]})
    assert copy.copy(value) == copy.deepcopy(value) == value
    assert copy.deepcopy(value).extra is t.NO_EXTRA
    assert pickle.loads(pickle.dumps(value)) == value
    assert attrs.evolve(value, is_error=True).is_error
    assert not value.is_error
    with pytest.raises(TypeError, match="nonsense"):
        attrs.evolve(value, nonsense=1)  # type: ignore[call-arg]  # wrong


def test_wire_object_is_an_attrs_object() -> None:
    value = t.CallToolResult(content=(t.TextContent(text="a"),), is_error=True)
    assert attrs.has(t.CallToolResult)
    fields = {each.name: each for each in attrs.fields(t.CallToolResult)}
    assert fields["content"].default is attrs.NOTHING
    assert (fields["is_error"].default, fields["is_error"].type) == (False, "bool")
    assert {"extra", "meta"} < fields.keys()
    assert attrs.fields(t.CallToolResult) is attrs.fields(t.CallToolResult)
    assert {each.name for each in attrs.fields(t.Tool)} != fields.keys()
    described = attrs.asdict(value)
    assert described["is_error"] is True
    assert described["content"][0]["text"] == "a"
    assert not attrs.has(t.WireObject)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        value.is_error = False  # type: ignore[misc]  # frozen
    match value:
        case t.CallToolResult(content=(t.TextContent(text=text),), is_error=True):
            assert text == "a"
        case _:
            pytest.fail("the pattern does not match")


@pytest.mark.parametrize("name", t.__all__)
def test_attrs_fields_equal_fields_of_wire_class(name: str) -> None:
    cls = getattr(t, name)
    if isinstance(cls, type) and issubclass(cls, t.WireObject) and cls is not t.WireObject:
        assert [each.name for each in attrs.fields(cls)] == [each.name for each in cls.__fields__]


def test_extra_members_shared_and_immutable() -> None:
    assert t.TextContent(text="a").extra is t.NO_EXTRA
    assert t.NO_EXTRA == {}
    assert list(t.NO_EXTRA) == []
    assert repr(t.NO_EXTRA) == "NO_EXTRA"
    with pytest.raises(KeyError):
        t.NO_EXTRA["a"]
    with pytest.raises(TypeError):
        t.NO_EXTRA["a"] = 1  # type: ignore[index]  # the test changes an immutable mapping


@pytest.mark.parametrize(
    ("attribute", "wire"), [("text", "text"), ("is_error", "isError"), ("poll_interval_ms", "pollIntervalMs")]
)
def test_wire_names_in_camel_case(attribute: str, wire: str) -> None:
    assert wire_name(attribute) == wire


@pytest.mark.property
@given(st.binary(max_size=200), st.sampled_from([0, 1, 4, 76]))
def test_base64_variants_decoded(data: bytes, width: int) -> None:
    plain = base64.b64encode(data).decode()
    lines = "\r\n".join(plain[at : at + width] for at in range(0, len(plain), width)) if width else plain
    for text in (plain, lines, plain.rstrip("="), base64.urlsafe_b64encode(data).decode()):
        assert t.decode_base64(text) == data


@pytest.mark.parametrize("text", ["a", "a$b=", "äöü=", "ab=c"])
def test_base64_malformed_rejected(text: str) -> None:
    with pytest.raises(InvalidValue, match="not base64"):
        t.decode_base64(text)


def test_decoded_content_bounded() -> None:
    content = t.ImageContent.of_bytes(b"abc", "image/png")
    assert content == t.ImageContent(data="YWJj", mime_type="image/png")
    assert content.data_bytes() == b"abc"
    with pytest.raises(LimitExceeded, match="max_bytes") as caught:
        content.data_bytes(max_bytes=2)
    assert (caught.value.observed, caught.value.allowed) == (3, 2)
    assert t.AudioContent.of_bytes(b"abc", "audio/wav").data_bytes() == b"abc"
    assert t.BlobResourceContents.of_bytes("a:b", b"abc").blob_bytes() == b"abc"


def test_log_levels_ordered() -> None:
    assert t.reaches("error", "error")
    assert t.reaches("emergency", "debug")
    assert not t.reaches("info", "notice")


@pytest.mark.spec("meta.reverse-dns", "meta.prefix-reverse-dns")
def test_meta_keys_have_prefix() -> None:
    assert meta.PROTOCOL_VERSION == "io.modelcontextprotocol/protocolVersion"
    assert meta.PROGRESS_TOKEN == "progressToken"


def test_public_types_documented() -> None:
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
        case Array(item) | Dictionary(item):
            return refs(item)
        case _:
            return []


def test_member_not_older_than_type() -> None:
    for revision in REVISIONS.values():
        for cls in wire_classes(revision):
            for member in wire_class(cls, revision).members:
                assert all(revision in each.__wire__.alive for each in refs(member.form)), (cls, member.wire, revision)
                if isinstance(member.form, Choice) and all(isinstance(each, Ref) for each in member.form.forms):
                    alive = [
                        each for form in member.form.forms for each in refs(form) if revision in each.__wire__.alive
                    ]
                    assert alive


def test_wire_object_missing_or_unknown_field_raises() -> None:
    with pytest.raises(TypeError, match=r"TextContent needs text"):
        t.TextContent()  # type: ignore[call-arg]  # a required field is missing
    with pytest.raises(TypeError, match=r"TextContent has no color"):
        t.TextContent(text="a", color="red")  # type: ignore[call-arg]  # the field does not exist


def test_wire_object_is_frozen() -> None:
    content = t.TextContent(text="a")
    with pytest.raises(FrozenInstanceError):
        content.text = "b"  # type: ignore[misc]  # the test assigns to a frozen attribute
    with pytest.raises(FrozenInstanceError):
        del content.text
    assert content == t.TextContent(text="a")


def test_absent_is_false() -> None:
    assert not t.ABSENT
    assert not t.CallToolResult(content=()).structured_content
