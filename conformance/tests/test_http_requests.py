"""Tests of the helpers for raw HTTP requests of checks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mcp_conformance.checks.probes.http_requests import error_code
from mcp_conformance.wire.http_client import HttpResponse

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonValue


def response(code: JsonValue) -> HttpResponse:
    body = {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}}
    return HttpResponse(status=400, headers=(("content-type", "application/json"),), body=json.dumps(body).encode())


@pytest.mark.parametrize("code", [-32602, "-32602", -32602.0, "-32602.0"])
def test_error_code_counts_by_value(code: JsonValue) -> None:
    assert error_code(response(code)) == -32602


@pytest.mark.parametrize("code", [None, "invalid", [], -32602.5])
def test_error_code_that_is_no_integer_unchanged(code: JsonValue) -> None:
    assert error_code(response(code)) == code


def test_body_without_error_has_no_code() -> None:
    assert error_code(HttpResponse(status=200, headers=(), body=b'{"jsonrpc":"2.0","id":1,"result":{}}')) is None
    assert error_code(HttpResponse(status=502, headers=(), body=b"<html>")) is None
