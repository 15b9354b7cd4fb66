"""Requests for authorization: checked, kept while a person decides, and answered.

Spec: RFC 6749 sections 4.1.1 and 4.1.2, RFC 7636, RFC 8707, RFC 9207, RFC 9449 section 10
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import attrs
from authlib.oauth2 import OAuth2Error

from mcp_server.auth.authorization_server.model import records
from mcp_server.auth.authorization_server.model.interaction import AskingClient, PendingAuthorization
from mcp_server.auth.authorization_server.model.messages import Refused, answer_url, described
from mcp_server.auth.authorization_server.model.secrets import digest, new_secret
from mcp_server.auth.authorization_server.model.tables import sweep
from mcp_server.auth.authorization_server.model.transaction import Session
from mcp_server.auth.authorization_server.protocol.engine import Engine, Request

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from mcp_server.auth.authorization_server.model.client import Client
    from mcp_server.auth.authorization_server.model.settings import Settings
    from mcp_server.auth.authorization_server.model.store import SqliteStore
    from mcp_server.auth.authorization_server.protocol.grants import CodeGrant

__all__ = ["Requests"]

_PENDING: Final = 10_000
"""Requests that wait for people. Whoever starts that many in ten minutes wants them to fill the disk."""
_STATE: Final = 2_000
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_PROMPTS: Final = frozenset({"login", "consent", "select_account", "none"})
_UNSUPPORTED: Final = {"request": "request_not_supported", "request_uri": "request_uri_not_supported"}


@attrs.frozen(kw_only=True)
class _Row:
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
    """The requests of one authorization server. It is what `Interactions` describes.

    Args:
        settings: What is fixed.
        store: Where they are kept.
    """

    def __init__(self, settings: Settings, store: SqliteStore) -> None:
        self._settings: Final = settings
        self._store: Final = store

    # --- the authorization endpoint --------------------------------------------------------------------------------

    async def begin(self, parameters: Mapping[str, str], repeated: frozenset[str]) -> str:
        """Checks a request and keeps it.

        Args:
            parameters: Of the query.
            repeated: The names of those that came more than once.

        Returns:
            Its id, for the pages.

        Raises:
            Refused: It is not as it has to be. With a `redirect_uri` the client is told, as `refusal_url` writes it;
                without, only the person may be.
        """
        outcome = await self._store.run(partial(self._begin, parameters, repeated))
        if isinstance(outcome, Refused):
            raise outcome
        return outcome

    def refusal_url(self, refused: Refused, parameters: Mapping[str, str], redirect_uri: str) -> str:
        """The URL by which the browser tells the client that its request is refused."""
        told = {"error": refused.code, "error_description": refused.sentence, "state": parameters.get("state")}
        return answer_url(redirect_uri, told, issuer=self._settings.issuer)

    def _begin(
        self, parameters: Mapping[str, str], repeated: frozenset[str], connection: sqlite3.Connection
    ) -> str | Refused:
        session = self._session(connection)
        sweep(connection, session.now)
        if repeated & {"client_id", "redirect_uri"}:
            return Refused("invalid_request", "The request names its client or its redirect URI twice.")
        # authlib quotes it in an error, which not all characters may stand in.
        kind = parameters.get("response_type")
        engine = Engine(
            Request(session, {**parameters, "response_type": "code" if kind == "code" else "other"}, method="GET")
        )
        redirect_uri: str | None = None
        try:
            grant = engine.get_authorization_grant(engine.request)
            redirect_uri = cast("CodeGrant", grant).validate_consent_request()  # no other grant begins here
            _check(parameters, repeated)
            row = self._row(session, engine.request.known_client, parameters, redirect_uri)
        except OAuth2Error as error:
            refused = Refused("invalid_request") if kind is None else Refused.of(error)
            return self._refused(session, parameters, refused, redirect_uri or error.redirect_uri)
        (count,) = connection.execute("SELECT count(*) FROM pending").fetchone()
        if count >= _PENDING:
            return self._refused(session, parameters, Refused("temporarily_unavailable"), redirect_uri)
        id = new_secret(self._settings.random_bytes)
        marks = ", ".join("?" * len(attrs.fields(_Row)))
        connection.execute(
            f"INSERT INTO pending (digest, {_COLUMNS}) VALUES (?, {marks})",  # noqa: S608  # names of fields
            (digest(id), *attrs.astuple(row)),
        )
        return id

    def _refused(
        self, session: Session, parameters: Mapping[str, str], refused: Refused, redirect_uri: str | None
    ) -> Refused:
        """The refusal, with the redirect URI if a browser may be sent there without its person having a say."""
        client = session.client(parameters.get("client_id", ""))
        trusted = redirect_uri and client is not None and client.is_trusted_at(redirect_uri)
        return Refused(refused.code, refused.sentence, redirect_uri=redirect_uri if trusted else None)

    def _row(self, session: Session, client: Client, parameters: Mapping[str, str], redirect_uri: str) -> _Row:
        asked = parameters.get("scope")
        # Who asks for nothing by name asks for what there is; the person decides. Spec: RFC 6749 section 3.3
        scope = " ".join(self._settings.scopes) if asked is None else " ".join(dict.fromkeys(asked.split()))
        allowed = client.get_allowed_scope(scope)
        if asked is not None and allowed != scope:
            raise Refused("invalid_scope")
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
        """See `Interactions.get`."""
        return await self._store.run(partial(self._get, id))

    async def grant(self, id: str, *, subject: str, scopes: Iterable[str], auth_time: float) -> str | None:
        """See `Interactions.grant`."""
        return await self._store.run(partial(self._grant, id, subject, frozenset(scopes), auth_time))

    async def deny(self, id: str, *, error: str = "access_denied") -> str | None:
        """See `Interactions.deny`."""
        row = await self._store.run(partial(self._take, id))
        if row is None:
            return None
        told = {"error": error, "error_description": described(error), "state": row.state}
        return answer_url(row.redirect_uri, told, issuer=self._settings.issuer)

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
            client=AskingClient(
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
    """What authlib does not look at. Raises `Refused`."""
    if "resource" in repeated:
        raise Refused("invalid_target", "A token is for one resource.")
    if repeated:
        raise Refused("invalid_request", "The request has a parameter more than once.")
    for name, error in _UNSUPPORTED.items():
        if name in parameters:
            raise Refused(error, "Requests are made by parameters here, not by objects.")
    if parameters.get("response_mode", "query") != "query":
        raise Refused("invalid_request", "The response_mode has to be query.")
    if len(parameters.get("state", "")) > _STATE:
        raise Refused("invalid_request", f"The state has more than {_STATE} characters.")
    prompts = parameters.get("prompt", "").split()
    if "none" in prompts:
        raise Refused("login_required")
    if not _PROMPTS.issuperset(prompts):
        raise Refused("invalid_request", "The prompt is none of login, consent, select_account and none.")
    key_id = parameters.get("dpop_jkt")
    if key_id is not None and not _KEY_ID.fullmatch(key_id):
        raise Refused("invalid_request", "The dpop_jkt is no thumbprint.")
