"""The table of operators on clients that log in."""

from __future__ import annotations

from typing import Final

from mutants.generated.logins.access_tokens import ACCESS_TOKEN_OPERATORS
from mutants.generated.logins.client_assertions import CLIENT_ASSERTION_OPERATORS
from mutants.generated.logins.discovery import DISCOVERY_OPERATORS
from mutants.generated.logins.parameters import PARAMETER_OPERATORS
from mutants.generated.logins.proofs import PROOF_OPERATORS
from mutants.generated.logins.refreshes import REFRESH_OPERATORS
from mutants.generated.logins.registrations import REGISTRATION_OPERATORS
from mutants.generated.logins.request_forms import REQUEST_FORM_OPERATORS
from mutants.generated.logins.responses import RESPONSE_OPERATORS

__all__ = ["LOGIN_OPERATORS"]

LOGIN_OPERATORS: Final = (
    *PARAMETER_OPERATORS,
    *REGISTRATION_OPERATORS,
    *REQUEST_FORM_OPERATORS,
    *ACCESS_TOKEN_OPERATORS,
    *DISCOVERY_OPERATORS,
    *RESPONSE_OPERATORS,
    *REFRESH_OPERATORS,
    *PROOF_OPERATORS,
    *CLIENT_ASSERTION_OPERATORS,
)
"""The operators on clients that log in."""
