"""Checks each message of a server against the official schema of its revision, where these lie beside the checkout.

Elsewhere the schemas that are derived from our types stand in: a test of `mcp_core` proves them equal.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Final

import jsonschema_rs

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import methods
from mcp_core.revisions import Revision
from mcp_core.schema import schemas

_BESIDE: Final = Path(__file__).resolve().parents[4] / "shared" / "spec" / "schema"
_FOLDER: Final = Path(os.environ.get("MCP_SCHEMA_DIR", _BESIDE))


@cache
def _document(revision: Revision) -> tuple[JsonObject, str]:
    """The definitions of a revision, and the member that holds them."""
    path = _FOLDER / revision.name / "schema.json"
    if not path.is_file():
        return schemas(revision), "$defs"
    document: JsonObject = json.loads(path.read_text())
    return document, "$defs" if "$defs" in document else "definitions"


@cache
def _validator(revision: Revision, name: str) -> jsonschema_rs.Validator | None:
    document, member = _document(revision)
    definitions = document[member]
    assert isinstance(definitions, dict)
    if name not in definitions:
        return None
    schema: JsonObject = {"$ref": f"#/{member}/{name}", member: definitions, "$schema": document["$schema"]}
    return jsonschema_rs.validator_for(schema)


def _check(revision: Revision, name: str, value: JsonValue) -> bool:
    validator = _validator(revision, name)
    if validator is None:
        return False
    problems = [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(value)]
    assert not problems, f"{revision} {name}: {problems}\n{value}"
    return True


def check_result(revision: Revision, method: str, result: JsonObject) -> None:
    """The answer to a request of ours."""
    if result.get("resultType") == "input_required":
        assert _check(revision, "InputRequiredResult", result)
        return
    row = methods(revision).get(method)
    if row is not None:
        assert _check(revision, row.result.__name__, result)


def check_told(revision: Revision, message: JsonObject) -> None:
    """A request or a notification of the server."""
    _check(revision, "JSONRPCMessage", message)
    _check(revision, "ServerRequest" if "id" in message else "ServerNotification", message)
