from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.codec import Batch
from mcp_core.errors import ErrorCode
from mcp_core.http.statuses import status_of
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, RequestId, ResultResponse
from mcp_core.revisions import Era


def make_error(code: int, id: RequestId | None = 1) -> ErrorResponse:
    return ErrorResponse(id, ErrorObject(code, "no"))


@pytest.mark.spec("http.success-status-200", "http.request-response-type")
@pytest.mark.parametrize("era", Era)
def test_result_has_status_200(era: Era) -> None:
    assert status_of(ResultResponse(1, {}), era) == 200


@pytest.mark.spec("http.header-mismatch-400")
@pytest.mark.parametrize("refused", [True, False])
def test_header_mismatch_has_status_400(refused: bool) -> None:
    assert status_of(make_error(-32020), Era.MODERN, refused=refused) == 400


@pytest.mark.spec("http.missing-capability-400")
@pytest.mark.parametrize("refused", [True, False])
def test_missing_client_capability_has_status_400(refused: bool) -> None:
    assert status_of(make_error(-32021), Era.MODERN, refused=refused) == 400


@pytest.mark.spec("http.unsupported-version-400")
@pytest.mark.parametrize("refused", [True, False])
def test_unsupported_version_has_status_400(refused: bool) -> None:
    assert status_of(make_error(-32022), Era.MODERN, refused=refused) == 400


@pytest.mark.spec("http.method-not-found-404", "http.removed-methods-404")
@pytest.mark.parametrize("refused", [True, False])
def test_method_not_found_has_status_404(refused: bool) -> None:
    assert status_of(make_error(-32601), Era.MODERN, refused=refused) == 404


@pytest.mark.parametrize("code", [ErrorCode.PARSE_ERROR, ErrorCode.INVALID_REQUEST])
def test_invalid_request_has_status_400(code: int) -> None:
    assert status_of(make_error(code, None), Era.MODERN) == 400


@pytest.mark.spec("meta.missing-field-http-400")
def test_invalid_params_rejected_by_engine_have_status_400() -> None:
    assert status_of(make_error(-32602), Era.MODERN, refused=True) == 400


@pytest.mark.spec("http.other-error-status-unspecified")
@pytest.mark.parametrize("code", [-32602, -32603, -1, 4711])
def test_handler_errors_have_status_200(code: int) -> None:
    assert status_of(make_error(code), Era.MODERN) == 200


@pytest.mark.spec("http.request-response-type")
@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("code", list(ErrorCode))
def test_legacy_error_with_id_has_status_200(code: int, refused: bool) -> None:
    assert status_of(make_error(code), Era.LEGACY, refused=refused) == 200
    assert status_of(make_error(code, 0), Era.LEGACY, refused=refused) == 200
    assert status_of(make_error(code, ""), Era.LEGACY, refused=refused) == 200


@pytest.mark.spec("http.notification-reject")
def test_legacy_error_without_id_has_status_400() -> None:
    assert status_of(make_error(-32600, None), Era.LEGACY) == 400


@pytest.mark.spec("batch.http-requests-response")
def test_batch_reply_has_status_200() -> None:
    assert status_of(Batch((make_error(-32601), make_error(-32600, None))), Era.LEGACY) == 200


@given(code=st.integers(), era=st.sampled_from(Era), refused=st.booleans())
def test_arbitrary_error_has_known_status(code: int, era: Era, refused: bool) -> None:
    assert status_of(make_error(code), era, refused=refused) in {200, 400, 404}
