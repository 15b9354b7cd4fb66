"""Media types in headers: lenient parsing that never raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.http.media_types import EVENT_STREAM, JSON, accepts, is_event_stream, is_json, media_type
from mcp_core.http.messages import Headers


def _accepts(*values: str) -> tuple[float, float]:
    headers = Headers(("Accept", value) for value in values)
    return accepts(headers, JSON), accepts(headers, EVENT_STREAM)


@pytest.mark.parametrize(
    ("accept", "json", "stream"),
    [
        ("application/json, text/event-stream", 1.0, 1.0),
        ("application/json,text/event-stream", 1.0, 1.0),
        ("application/json", 1.0, 0.0),
        ("text/event-stream", 0.0, 1.0),
        ("text/html", 0.0, 0.0),
        ("*/*", 1.0, 1.0),
        ("*", 1.0, 1.0),
        ("*;q=0.5", 0.5, 0.5),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", 0.2, 0.2),
        ("application/*", 1.0, 0.0),
        ("text/*;q=0.3, */*;q=0.1", 0.1, 0.3),
        ("Application/JSON ; Q=0.5 , TEXT/Event-Stream", 0.5, 1.0),
        ("application/json;q=0", 0.0, 0.0),
        ("application/json;q=0, */*", 0.0, 1.0),
        ("text/*;q=0.9, text/event-stream;q=0.2", 0.0, 0.2),
        ("application/json; charset=utf-8; q=0.4", 0.4, 0.0),
        ("application/json;v=1;q=0.2, application/json;q=0.7", 0.7, 0.0),
        ("application/json;q=0.7, application/json;v=1;q=0.2", 0.7, 0.0),
        ('application/json;x="a, text/event-stream;q=0";q=0.6', 0.6, 0.0),
        ('application/json;x="\\", text/event-stream", text/event-stream', 1.0, 1.0),
        ('application/json;x="never closed, text/event-stream', 1.0, 0.0),
        ("application/json;q=1.000", 1.0, 0.0),
        ("application/json;q=7", 1.0, 0.0),
        ("application/json;q=1.7", 1.0, 0.0),
        ("application/json;q=-1", 1.0, 0.0),
        ("application/json;q=", 1.0, 0.0),
        ("application/json;q=.", 1.0, 0.0),
        ("application/json;q=nan", 1.0, 0.0),
        ("application/json;q", 1.0, 0.0),
        ("application/json;;q=0.5", 0.5, 0.0),
        ("application/json/x, text/event-stream", 0.0, 1.0),
        (",, text/event-stream ,", 0.0, 1.0),
        (";q=0.5, text/event-stream", 0.0, 1.0),
    ],
)
def test_accept_qualities_parsed(accept: str, json: float, stream: float) -> None:
    assert _accepts(accept) == (json, stream)


def test_accept_missing_means_any_type() -> None:
    assert _accepts() == (1.0, 1.0)


@pytest.mark.parametrize("accept", ["", " ", ",", "json", "/", "a/b/c", ";q=0", "\xff\x00", '"', "application/"])
def test_accept_unreadable_means_any_type(accept: str) -> None:
    assert _accepts(accept) == (1.0, 1.0)


def test_accept_headers_combined() -> None:
    assert _accepts("application/json;q=0.5", "text/event-stream;q=0.25") == (0.5, 0.25)


def test_accept_parsed_up_to_length_limit() -> None:
    assert _accepts("application/json;q=0.5, " + ", " * 10_000 + "text/event-stream") == (0.5, 0.0)
    assert _accepts(",".ljust(1_024 - 17) + "text/event-stream") == (0.0, 1.0)
    assert _accepts(",".ljust(1_025 - 17) + "text/event-stream") != (0.0, 1.0)


@pytest.mark.property
@given(st.lists(st.text(st.characters(max_codepoint=255)) | st.text('aj/*;,q=01."\\ '), max_size=3))
def test_accept_arbitrary_value_returns_quality(values: list[str]) -> None:
    assert all(0.0 <= quality <= 1.0 for quality in _accepts(*values))


@pytest.mark.spec("http.accept-both", "http.post-accept")
@pytest.mark.property
@given(st.integers(0, 1000), st.integers(0, 1000), st.booleans())
def test_accept_qualities_exact(json: int, stream: int, first: bool) -> None:
    items = [f"application/json;q={json / 1000:.3f}", f"text/event-stream; q={stream / 1000:.3f}"]
    assert _accepts(", ".join(items if first else items[::-1])) == (json / 1000, stream / 1000)


@pytest.mark.spec("http.content-type-json", "http.content-type-charset")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("application/json", JSON),
        ("Application/JSON", JSON),
        ("application/json; charset=utf-8", JSON),
        (" application/json ;charset=utf-8", JSON),
        ("text/event-stream", EVENT_STREAM),
        ("Text/Event-Stream;charset=utf-8", EVENT_STREAM),
        ("text/plain", "text/plain"),
        ("application/json, text/plain", "application/json, text/plain"),
        ("application/jsonp", "application/jsonp"),
        ("", ""),
        (";charset=utf-8", ""),
        (None, ""),
    ],
)
def test_content_type_parameters_and_case_ignored(value: str | None, kind: str) -> None:
    assert media_type(value) == kind
    assert is_json(value) is (kind == JSON)
    assert is_event_stream(value) is (kind == EVENT_STREAM)
