"""Authorization requests: validation, storage while a user decides, and the authorization response.

Spec: RFC 6749 sections 4.1.1 and 4.1.2, RFC 7636, RFC 8707, RFC 9207, RFC 9449 section 10
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import attrs
from authlib.oauth2 import OAuth2Error

from mcp_core.field_methods import FieldValue
from mcp_server.auth.authorization_server.model import records
from mcp_server.auth.authorization_server.model.interaction import PendingAuthorization, RequestingClient
from mcp_server.auth.authorization_server.model.messages import OAuthRequestRejected, answer_url, described
from mcp_server.auth.authorization_server.model.secrets import digest, new_secret
from mcp_server.auth.authorization_server.model.tables import sweep
from mcp_server.auth.authorization_server.model.transaction import Session
from mcp_server.auth.authorization_server.protocol.engine import Engine
from mcp_server.auth.authorization_server.protocol.request import Request

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from mcp_server.auth.authorization_server.model.client import Client
    from mcp_server.auth.authorization_server.model.settings import Settings
    from mcp_server.auth.authorization_server.model.store import SqliteStore
    from mcp_server.auth.authorization_server.protocol.grants import CodeGrant

__all__ = ["Requests"]

_PENDING: Final = 10_000
"""The maximum number of pending authorization requests. A peer that starts more in ten minutes tries to fill the
disk."""
_STATE: Final = 2_000
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_PROMPTS: Final = frozenset({"login", "consent", "select_account", "none"})
_UNSUPPORTED: Final = {"request": "request_not_supported", "request_uri": "request_uri_not_supported"}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Row(FieldValue):
    client_id: str
    redirect_uri: str
    redirect_uri_sent: bool
    state: str | None
    scope: str
    resource: str
    prompts: str
    code_challenge: str
    key_id: str | None
    created_at: float
    expires_at: float


_COLUMNS: Final = ", ".join(field.name for field in attrs.fields(_Row))


class Requests:
    """The authorization requests of one authorization server. Implements `Interactions`.

    Args:
        settings: The settings of the authorization server.
        store: The store of pending requests.
    """

    def __init__(self, settings: Settings, store: SqliteStore) -> None:
        self._settings: Final = settings
        self._store: Final = store

    # --- the authorization endpoint --------------------------------------------------------------------------------

    async def begin(self, parameters: Mapping[str, str], repeated: frozenset[str]) -> str:
        """Validate an authorization request, and store it as pending.

        Args:
            parameters: The parameters of the query.
            repeated: The names of repeated parameters.

        Returns:
            The id of the request, for the pages.

        Raises:
            Refused: The request is invalid. If the error has a `redirect_uri`, send it to the client with
                `refusal_url`. Otherwise show it only to the user.
        """
        outcome = await self._store.run(partial(self._begin, parameters, repeated))
        if isinstance(outcome, OAuthRequestRejected):
            raise outcome
        return outcome

    def refusal_url(self, refused: OAuthRequestRejected, parameters: Mapping[str, str], redirect_uri: str) -> str:
        """Return the URL by which the browser carries an error to the client."""
        error_params = {"error": refused.code, "error_description": refused.sentence, "state": parameters.get("state")}
        return answer_url(redirect_uri, error_params, issuer=self._settings.issuer)

    def _begin(
        self, parameters: Mapping[str, str], repeated: frozenset[str], connection: sqlite3.Connection
    ) -> str | OAuthRequestRejected:
        session = self._session(connection)
        sweep(connection, session.now)
        if repeated & {"client_id", "redirect_uri"}:
            return OAuthRequestRejected("invalid_request", "The request repeats client_id or redirect_uri.")
        # authlib quotes the response type in an error, where some characters are not allowed.
        kind = parameters.get("response_type")
        engine = Engine(
            Request(session, {**parameters, "response_type": "code" if kind == "code" else "other"}, method="GET")
        )
        redirect_uri: str | None = None
        try:
            grant = engine.get_authorization_grant(engine.request)
            redirect_uri = cast("CodeGrant", grant).validate_consent_request()  # the only grant with this endpoint
            _check(parameters, repeated)
            row = self._row(session, engine.request.known_client, parameters, redirect_uri)
        except OAuth2Error as error:
            refused = OAuthRequestRejected("invalid_request") if kind is None else OAuthRequestRejected.of(error)
            return self._refused(session, parameters, refused, redirect_uri or error.redirect_uri)
        (count,) = connection.execute("SELECT count(*) FROM pending").fetchone()
        if count >= _PENDING:
            return self._refused(session, parameters, OAuthRequestRejected("temporarily_unavailable"), redirect_uri)
        id = new_secret(self._settings.random_bytes)
        marks = ", ".join("?" * len(attrs.fields(_Row)))
        connection.execute(
            f"INSERT INTO pending (digest, {_COLUMNS}) VALUES (?, {marks})",  # noqa: S608  # names of fields
            (digest(id), *attrs.astuple(row)),
        )
        return id

    def _refused(
        self, session: Session, parameters: Mapping[str, str], refused: OAuthRequestRejected, redirect_uri: str | None
    ) -> OAuthRequestRejected:
        """Return the rejection, with the redirect URI only if a redirect there needs no user consent."""
        client = session.client(parameters.get("client_id", ""))
        trusted = redirect_uri and client is not None and client.is_trusted_at(redirect_uri)
        return OAuthRequestRejected(refused.code, refused.sentence, redirect_uri=redirect_uri if trusted else None)

    def _row(self, session: Session, client: Client, parameters: Mapping[str, str], redirect_uri: str) -> _Row:
        requested = parameters.get("scope")
        # A request without a scope requests all scopes, and the user decides. Spec: RFC 6749 section 3.3
        scope = " ".join(self._settings.scopes) if requested is None else " ".join(dict.fromkeys(requested.split()))
        allowed = client.get_allowed_scope(scope)
        if requested is not None and allowed != scope:
            raise OAuthRequestRejected("invalid_scope")
        return _Row(
            client_id=client.client_id,
            redirect_uri=redirect_uri,
            redirect_uri_sent="redirect_uri" in parameters,
            state=parameters.get("state"),
            scope=allowed,
            resource=session.resource(parameters),
            prompts=parameters.get("prompt", ""),
            code_challenge=parameters["code_challenge"],
            key_id=parameters.get("dpop_jkt"),
            created_at=session.now,
            expires_at=session.now + self._settings.lifetimes.pending,
        )

    # --- for the pages ---------------------------------------------------------------------------------------------

    async def get(self, id: str) -> PendingAuthorization | None:
        """Return a pending request, or `None` if it was decided, has expired, or never existed."""
        return await self._store.run(partial(self._get, id))

    async def grant(self, id: str, *, subject: str, scopes: Iterable[str], auth_time: float) -> str | None:
        """Grant a pending request, and return the URL for the browser."""
        return await self._store.run(partial(self._grant, id, subject, frozenset(scopes), auth_time))

    async def deny(self, id: str, *, error: str = "access_denied") -> str | None:
        """Deny a pending request, and return the URL for the browser."""
        row = await self._store.run(partial(self._take, id))
        if row is None:
            return None
        error_params = {"error": error, "error_description": described(error), "state": row.state}
        return answer_url(row.redirect_uri, error_params, issuer=self._settings.issuer)

    def _session(self, connection: sqlite3.Connection) -> Session:
        return Session(connection=connection, settings=self._settings, now=self._settings.clock())

    def _find(self, id: str, connection: sqlite3.Connection) -> _Row | None:
        found = connection.execute(
            f"SELECT {_COLUMNS} FROM pending WHERE digest = ? AND expires_at > ?",  # noqa: S608  # names of fields
            (digest(id), self._settings.clock()),
        ).fetchone()
        if found is None:
            return None
        names = [field.name for field in attrs.fields(_Row)]
        return _Row(**dict(zip(names, found, strict=True)))

    def _take(self, id: str, connection: sqlite3.Connection) -> _Row | None:
        row = self._find(id, connection)
        connection.execute("DELETE FROM pending WHERE digest = ?", (digest(id),))
        return row

    def _get(self, id: str, connection: sqlite3.Connection) -> PendingAuthorization | None:
        row = self._find(id, connection)
        client = None if row is None else self._session(connection).client(row.client_id)
        if row is None or client is None:
            return None
        return PendingAuthorization(
            id=id,
            client=RequestingClient(
                client_id=client.client_id,
                name=client.name,
                kind=client.kind,
                redirect_uri=row.redirect_uri,
                local_only=client.local_only,
                client_uri=client.client_uri,
            ),
            scopes=tuple(row.scope.split()),
            resources=(row.resource,),
            prompts=frozenset(row.prompts.split()),
            created_at=row.created_at,
            expires_at=row.expires_at,
        )

    def _grant(
        self, id: str, subject: str, scopes: frozenset[str], auth_time: float, connection: sqlite3.Connection
    ) -> str | None:
        row = self._take(id, connection)
        if row is None:
            return None
        session = self._session(connection)
        until = session.now + self._settings.lifetimes.code
        grant = records.add_grant(
            connection,
            client_id=row.client_id,
            subject=subject,
            scope=" ".join(scope for scope in row.scope.split() if scope in scopes),
            resource=row.resource,
            auth_time=auth_time,
            expires_at=until,
        )
        code = new_secret(self._settings.random_bytes)
        records.add_code(
            connection,
            code,
            grant=grant,
            redirect_uri=row.redirect_uri,
            redirect_uri_sent=bool(row.redirect_uri_sent),
            code_challenge=row.code_challenge,
            key_id=row.key_id,
            expires_at=until,
        )
        return answer_url(row.redirect_uri, {"code": code, "state": row.state}, issuer=self._settings.issuer)


def _check(parameters: Mapping[str, str], repeated: frozenset[str]) -> None:
    """Check the parameters that authlib does not check. Raises `RequestHeadRejected`."""
    if "resource" in repeated:
        raise OAuthRequestRejected("invalid_target", "The request names more than one resource.")
    if repeated:
        raise OAuthRequestRejected("invalid_request", "The request repeats a parameter.")
    for name, error in _UNSUPPORTED.items():
        if name in parameters:
            raise OAuthRequestRejected(error, "Request objects are not supported: send the parameters in the query.")
    if parameters.get("response_mode", "query") != "query":
        raise OAuthRequestRejected("invalid_request", "The response_mode must be query.")
    if len(parameters.get("state", "")) > _STATE:
        raise OAuthRequestRejected("invalid_request", f"The state exceeds {_STATE} characters.")
    prompts = parameters.get("prompt", "").split()
    if "none" in prompts:
        raise OAuthRequestRejected("login_required")
    if not _PROMPTS.issuperset(prompts):
        raise OAuthRequestRejected(
            "invalid_request", "The prompt must consist of login, consent, select_account or none."
        )
    key_id = parameters.get("dpop_jkt")
    if key_id is not None and not _KEY_ID.fullmatch(key_id):
        raise OAuthRequestRejected("invalid_request", "The dpop_jkt is not a JWK thumbprint.")
