"""Tests of the validation of messages against the schema of their revision."""

from __future__ import annotations

import pytest

from mcp_conformance.protocol.message_schema import flaw
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import REVISIONS, Revision


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
@pytest.mark.parametrize(
    ("content", "valid"),
    [
        ({"type": "text", "text": "a"}, True),
        ({"type": "text"}, False),
        ({"type": "text", "Text": "a"}, False),
        ({"type": "text", "value": {"text": "a"}}, False),
        ({"type": "image", "data": "AA=="}, False),
        # Content of a later revision or of an extension is unknown, not invalid.
        ({"type": "com.example/scent"}, True),
        ({"text": "a"}, False),
    ],
)
def test_content_of_known_type_has_members_of_its_type(revision: Revision, content: JsonValue, valid: bool) -> None:
    result: JsonObject = {"role": "assistant", "model": "m", "content": content}

    assert (flaw(result, "CreateMessageResult", revision) is None) is valid
