from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import ErrorCode
from mcp_core.http.statuses import status_of
from mcp_core.jsonrpc.messages import Batch, ErrorObject, ErrorResponse, RequestId, ResultResponse
from mcp_core.revisions import Era


def failed(code: int, id: RequestId | None = 1) -> ErrorResponse:
    return ErrorResponse(id, ErrorObject(code, "no"))


@pytest.mark.spec("http.success-status-200", "http.request-response-type")
@pytest.mark.parametrize("era", Era)
def test_a_result_has_200(era: Era) -> None:
    assert status_of(ResultResponse(1, {}), era) == 200


@pytest.mark.spec("http.header-mismatch-400")
@pytest.mark.parametrize("refused", [True, False])
def test_a_header_mismatch_has_400(refused: bool) -> None:
    assert status_of(failed(-32020), Era.MODERN, refused=refused) == 400


@pytest.mark.spec("http.missing-capability-400")
@pytest.mark.parametrize("refused", [True, False])
def test_a_missing_client_capability_has_400_whoever_finds_it(refused: bool) -> None:
    assert status_of(failed(-32021), Era.MODERN, refused=refused) == 400


@pytest.mark.spec("http.unsupported-version-400")
@pytest.mark.parametrize("refused", [True, False])
def test_an_unsupported_version_has_400(refused: bool) -> None:
    assert status_of(failed(-32022), Era.MODERN, refused=refused) == 400


@pytest.mark.spec("http.method-not-found-404", "http.removed-methods-404")
@pytest.mark.parametrize("refused", [True, False])
def test_an_unknown_method_has_404(refused: bool) -> None:
    assert status_of(failed(-32601), Era.MODERN, refused=refused) == 404


@pytest.mark.parametrize("code", [ErrorCode.PARSE_ERROR, ErrorCode.INVALID_REQUEST])
def test_what_is_no_valid_request_has_400(code: int) -> None:
    assert status_of(failed(code, None), Era.MODERN) == 400


@pytest.mark.spec("meta.missing-field-http-400")
def test_invalid_params_have_400_when_the_engine_refused_them() -> None:
    assert status_of(failed(-32602), Era.MODERN, refused=True) == 400


@pytest.mark.spec("http.other-error-status-unspecified")
@pytest.mark.parametrize("code", [-32602, -32603, -1, 4711])
def test_errors_of_handlers_have_200(code: int) -> None:
    assert status_of(failed(code), Era.MODERN) == 200


@pytest.mark.spec("http.request-response-type")
@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_legacy_error_that_answers_a_request_has_200_whatever_its_code(code: int, refused: bool) -> None:
    assert status_of(failed(code), Era.LEGACY, refused=refused) == 200
    assert status_of(failed(code, 0), Era.LEGACY, refused=refused) == 200
    assert status_of(failed(code, ""), Era.LEGACY, refused=refused) == 200


@pytest.mark.spec("http.notification-reject")
def test_a_legacy_error_that_answers_nothing_in_particular_has_400() -> None:
    assert status_of(failed(-32600, None), Era.LEGACY) == 400


@pytest.mark.spec("batch.http-requests-response")
def test_the_joined_answer_to_a_batch_has_200_even_if_all_failed() -> None:
    assert status_of(Batch((failed(-32601), failed(-32600, None))), Era.LEGACY) == 200


@given(code=st.integers(), era=st.sampled_from(Era), refused=st.booleans())
def test_every_error_has_one_of_three_statuses(code: int, era: Era, refused: bool) -> None:
    assert status_of(failed(code), era, refused=refused) in {200, 400, 404}
