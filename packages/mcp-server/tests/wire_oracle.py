"""A check of each message of a server against the official schema of its revision.

Without the official schemas the ones derived from the types are used: a test of `mcp_core` proves them equal.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Final

import jsonschema_rs

from mcp_core.json_schema import schema_of, schemas
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import NOTIFICATIONS_TASKS, methods
from mcp_core.revisions import Revision
from mcp_core.types import skills

_BESIDE: Final = Path(__file__).resolve().parents[4] / "shared" / "spec" / "schema"
_FOLDER: Final = Path(os.environ.get("MCP_SCHEMA_DIR", _BESIDE))


@cache
def _document(revision: Revision) -> tuple[JsonObject, str]:
    """Return the definitions of a revision, and the member that holds them."""
    path = _FOLDER / revision.name / "schema.json"
    if not path.is_file():
        return schemas(revision), "$defs"
    document: JsonObject = json.loads(path.read_text())
    return document, "$defs" if "$defs" in document else "definitions"


@cache
def _extension() -> tuple[JsonObject, str] | None:
    """Return the definitions of the tasks extension, if its official schema is available."""
    path = _FOLDER / "ext-tasks.schema.json"
    if not path.is_file():
        return None
    document: JsonObject = json.loads(path.read_text())
    return document, "$defs" if "$defs" in document else "definitions"


@cache
def _validator(revision: Revision, name: str, tasks: bool) -> jsonschema_rs.Validator | None:
    extension = _extension() if tasks else None
    if extension is not None:
        name = name.replace("Extension", "")
    document, member = extension or _document(revision)
    definitions = document[member]
    assert isinstance(definitions, dict)
    if name not in definitions:
        return None
    schema: JsonObject = {"$ref": f"#/{member}/{name}", member: definitions, "$schema": document["$schema"]}
    return jsonschema_rs.validator_for(schema)


def _check(revision: Revision, name: str, value: JsonValue, *, tasks: bool = False) -> bool:
    """Check a value against a definition, if that exists, and return whether it does. `tasks` selects the tasks
    extension.
    """
    validator = _validator(revision, name, tasks)
    if validator is None:
        return False
    problems = [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(value)]
    assert not problems, f"{revision} {name}: {problems}\n{value}"
    return True


@cache
def _skills(revision: Revision, name: str) -> jsonschema_rs.Validator:
    """Return the schema of a result of the skills extension, which has no official schema, as derived from its types."""
    known = [getattr(skills, each) for each in skills.__all__]
    own = {cls.__name__: schema_of(cls, revision) for cls in known if isinstance(cls, type)}
    defined = schemas(revision)["$defs"]
    assert isinstance(defined, dict)
    document: JsonObject = {"$ref": f"#/$defs/{name}", "$defs": {**defined, **own}}
    return jsonschema_rs.validator_for(document)


def check_result(revision: Revision, method: str, result: JsonObject) -> None:
    """Check the response to a client's request."""
    if result.get("resultType") == "input_required":
        assert _check(revision, "InputRequiredResult", result)
        return
    row = methods(revision).get(method)
    if row is not None and (result.get("resultType") == "task" or "task" in result):
        # The call continues as a task.
        assert _check(revision, row.task_results[revision].__name__, result, tasks="resultType" in result)
    elif row is not None and row.extension == skills.SKILLS_EXTENSION:
        problems = [error.message for error in _skills(revision, row.result.__name__).iter_errors(result)]
        assert not problems, f"{revision} {method}: {problems}\n{result}"
    elif row is not None:
        assert _check(revision, row.result.__name__, result, tasks=row.extension is not None)


def check_notification(revision: Revision, message: JsonObject) -> None:
    """Check a request or a notification of the server."""
    _check(revision, "JSONRPCMessage", message)
    if message["method"] == NOTIFICATIONS_TASKS.name:
        _check(revision, "TaskStatusNotification", message, tasks=True)
        return
    _check(revision, "ServerRequest" if "id" in message else "ServerNotification", message)
