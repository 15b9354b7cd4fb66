"""The index of URI templates by their literal beginnings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded
from mcp_server.uris.matcher import MAX_URI_BYTES
from mcp_server.uris.template import UriTemplate
from mcp_server.uris.template_index import TemplateIndex

BEGINNINGS = st.text("ab/:", max_size=4)
TEMPLATES = st.lists(st.tuples(BEGINNINGS, st.sampled_from(["{x}", "{x}/c", "{+x}", "{?x}"])), max_size=12, unique=True)


@pytest.mark.property
@given(TEMPLATES, st.data(), st.text("abcx/:?=", max_size=10))
def test_index_finds_all_matching_templates_in_order(
    parts: list[tuple[str, str]], data: st.DataObject, uri: str
) -> None:
    index: TemplateIndex[UriTemplate] = TemplateIndex()
    templates = [UriTemplate(beginning + rest) for beginning, rest in parts]
    for template in templates:
        index.add(template, template)
    for template in data.draw(st.lists(st.sampled_from(templates), unique=True) if templates else st.just([])):
        index.remove(template)
        templates.remove(template)
        if data.draw(st.booleans()):
            index.add(template, template)
            templates.append(template)
    wanted = [template for template in templates if template.match(uri) is not None]
    assert [template for template in index.candidates(uri) if template.match(uri) is not None] == wanted


def test_index_does_not_return_templates_with_other_beginnings() -> None:
    index: TemplateIndex[int] = TemplateIndex()
    for number in range(1_000):
        index.add(UriTemplate(f"note://{number}/{{name}}"), number)
    assert index.candidates("note://17/a") == [17]
    assert index.candidates("note://1000/a") == []


def test_index_returns_shorter_and_longer_beginnings_in_order_of_addition() -> None:
    index: TemplateIndex[str] = TemplateIndex()
    for text in ("note://a/{x}", "{+x}", "note://{+x}"):
        index.add(UriTemplate(text), text)
    assert index.candidates("note://a/b") == ["note://a/{x}", "{+x}", "note://{+x}"]
    index.remove(UriTemplate("{+x}"))
    index.add(UriTemplate("{+x}"), "again")
    assert index.candidates("note://a/b") == ["note://a/{x}", "note://{+x}", "again"]


def test_index_rejects_long_uri_even_without_candidate() -> None:
    index: TemplateIndex[str] = TemplateIndex()
    assert index.candidates("b" * (MAX_URI_BYTES + 1)) == []
    index.add(UriTemplate("a{x}"), "a")
    with pytest.raises(LimitExceeded):
        index.candidates("b" * (MAX_URI_BYTES + 1))
