"""The actions of the pages: login, consent, logout, and delegation of the login to another authorization server.

An authorization request belongs to the browser that opened it first. In every other browser it is an error. Only a form
of these pages changes data, and access is granted only by a form that the user submitted after the login. There are two
exceptions. Remembered consent grants access when a browser opens a request. Consent given before a delegated login
takes effect when the browser returns from the other authorization server.

Spec: basic/security_best_practices#confused-deputy-problem; RFC 6749 sections 10.12 and 10.13
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final, Protocol

from mcp_core.oauth.urls import parse_url
from mcp_server.auth.authorization_server.pages.browser_request import is_ours, read_fields, read_form
from mcp_server.auth.authorization_server.pages.browser_sessions import BrowserBindings, BrowserSessions
from mcp_server.auth.authorization_server.pages.consents import Consents
from mcp_server.auth.authorization_server.pages.delegation import Delegation, DelegationFailed
from mcp_server.auth.authorization_server.pages.flows import AuthorizationFlows
from mcp_server.auth.authorization_server.pages.login_limits import LoginLimits
from mcp_server.auth.authorization_server.pages.rendering import Problem
from mcp_server.auth.authorization_server.pages.views import Views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp_server.auth.authorization_server.model.interaction import Interactions, PendingAuthorization
    from mcp_server.auth.authorization_server.model.store import SqliteStore
    from mcp_server.auth.authorization_server.pages.browser_request import BrowserRequest, Form
    from mcp_server.auth.authorization_server.pages.browser_sessions import BrowserSession
    from mcp_server.auth.authorization_server.pages.rendering import PageAnswer, Templates
    from mcp_server.auth.authorization_server.pages.users import Users

__all__ = ["PageEnvironment", "Pages"]

_log: Final = logging.getLogger("mcp_server")

_ANEW: Final = frozenset({"login", "select_account"})
_NAME_LENGTH: Final = 200
_Headers = tuple[tuple[str, str], ...]


class PageEnvironment(Protocol):
    """The parts of the authorization server that the pages use."""

    @property
    def issuer(self) -> str:
        """The issuer identifier."""
        ...

    @property
    def prefix(self) -> str:
        """The start of the paths of all routes."""
        ...

    @property
    def secure(self) -> bool:
        """Whether the issuer is an https URL."""
        ...

    @property
    def scopes(self) -> Mapping[str, str]:
        """The scopes, with their descriptions for users."""
        ...

    @property
    def users(self) -> Users | Delegation:
        """The users who can log in, or the delegation to another authorization server."""
        ...

    @property
    def store(self) -> SqliteStore:
        """The store of all data."""
        ...

    @property
    def clock(self) -> Callable[[], float]:
        """A function that returns the time in seconds since the epoch."""
        ...

    @property
    def interactions(self) -> Interactions:
        """The authorization requests that wait for a decision of a user."""
        ...


class Pages:
    """The pages of one authorization server.

    Args:
        serving: The authorization server.
        templates: The templates of the pages.
    """

    def __init__(self, environment: PageEnvironment, templates: Templates) -> None:
        url = parse_url(environment.issuer, what="issuer")
        self._environment: Final = environment
        self._origin: Final = url.origin
        self._redirect: Final = templates.redirect
        self._returns_to: Final = f"{url.origin}{environment.prefix}/delegation/callback"
        self._delegation: Final = environment.users if isinstance(environment.users, Delegation) else None
        self._users: Final = None if isinstance(environment.users, Delegation) else environment.users
        self._views: Final = Views(
            templates,
            prefix=environment.prefix,
            scopes=environment.scopes,
            upstream=None if self._delegation is None else self._delegation.host,
        )
        store, clock = environment.store, environment.clock
        self._sessions: Final = BrowserSessions(
            store, issuer=environment.issuer, secure=environment.secure, clock=clock
        )
        self._browser_bindings: Final = BrowserBindings(store, clock=clock)
        self._consents: Final = Consents(store, clock=clock)
        self._flows: Final = AuthorizationFlows(store, clock=clock)
        self._limits: Final = LoginLimits(store, clock=clock)

    # --- requests of browsers --------------------------------------------------------------------------------------

    async def show(self, browser_request: BrowserRequest, id: str) -> PageAnswer:
        """Handle GET of an authorization request: show the form of its current step."""
        pending = await self._environment.interactions.get(id)
        session = await self._sessions.find(browser_request.cookies)
        if pending is None:
            return await self._over(id, session)
        headers: _Headers = ()
        if session is None:
            session = await self._sessions.begin()
            headers = (self._sessions.set_cookie(session),)
        first = await self._browser_bindings.open(id, session, expires_at=pending.expires_at)
        if first is None:
            return self._views.elsewhere()
        if not _logged_in(pending, session):
            if self._delegation is None:
                return self._views.login(pending, session, headers=headers)
            return self._views.consent(pending, session, logged_in=False, headers=headers)
        # Only on the first GET: after a form, the `form-action` of its page would stop the redirect to the client.
        if first and session.subject is not None and await self._consents.cover(pending, session.subject):
            return await self._grant(pending, session, pending.scopes)
        return self._views.consent(pending, session, logged_in=True, headers=headers)

    async def log_in(self, browser_request: BrowserRequest, id: str) -> PageAnswer:
        """Handle POST of the login form."""
        entered = await self._entered(browser_request, id, "login")
        if not isinstance(entered, tuple):
            return entered
        pending, session, form = entered
        if self._users is None:
            return self._views.stale(id)
        name, password = form.one("username").strip()[:_NAME_LENGTH], form.one("password")
        problems = [
            Problem(field, f"Enter your {words}")
            for field, words, value in (("username", "user name", name), ("password", "password", password))
            if not value
        ]
        if problems:
            return self._views.login(pending, session, problems=problems, name=name, status=422)
        wait = await self._limits.begin(name, browser_request.address)
        if wait:
            minutes = math.ceil(wait / 60)
            problem = Problem("", f"Too many attempts. Try again in {minutes} minute{'s' if minutes > 1 else ''}.")
            later = (("Retry-After", str(math.ceil(wait))),)
            return self._views.login(pending, session, problems=[problem], name=name, status=429, headers=later)
        subject = await self._users.verify(name, password)
        if subject is None:
            # Do not reveal which of the two is wrong.
            problem = Problem("password", "The user name or the password is incorrect")
            return self._views.login(pending, session, problems=[problem], name=name, status=403)
        await self._limits.succeeded(name, browser_request.address)
        session = await self._sessions.log_in(session, subject, shown=name, auth_time=self._environment.clock())
        return self._redirect(self._views.path(id), headers=(self._sessions.set_cookie(session),))

    async def decide(self, browser_request: BrowserRequest, id: str) -> PageAnswer:
        """Handle POST of the consent form: allow or deny the request."""
        entered = await self._entered(browser_request, id, "consent")
        if not isinstance(entered, tuple):
            return entered
        pending, session, form = entered
        logged_in, delegation = _logged_in(pending, session), self._delegation
        if not logged_in and delegation is None:
            return self._views.stale(id)
        if form.one("decision") == "refuse":
            if logged_in and session.subject is not None:
                await self._consents.forget(pending, session.subject)
            return await self._deny(pending, "access_denied")
        wanted = set(form.all("scope"))
        scopes = tuple(scope for scope in pending.scopes if scope in wanted)
        if form.one("decision") != "allow":
            return self._views.stale(id)
        if pending.scopes and not scopes:
            problem = Problem("scopes", "Select what you want to allow, or deny access")
            return self._views.consent(pending, session, logged_in=logged_in, problems=[problem], status=422)
        remember = form.one("remember") == "yes"
        if not logged_in and delegation is not None:
            start = await self._flows.begin(id, session, scopes=scopes, remember=remember)
            anew = bool(pending.prompts & _ANEW)
            try:
                return self._redirect(await delegation.start(start, redirect_uri=self._returns_to, force_login=anew))
            except DelegationFailed as failed:
                return await self._failed(pending, failed)
        return await self._grant(pending, session, scopes, remember=remember)

    async def switch(self, browser_request: BrowserRequest, id: str) -> PageAnswer:
        """Handle POST of the form for another account: log the current user out."""
        entered = await self._entered(browser_request, id, "switch")
        if not isinstance(entered, tuple):
            return entered
        session = await self._sessions.log_out(entered[1])
        return self._redirect(self._views.path(id), headers=(self._sessions.set_cookie(session),))

    async def come_back(self, browser_request: BrowserRequest) -> PageAnswer:
        """Handle GET of the redirect from the other authorization server."""
        session = await self._sessions.find(browser_request.cookies)
        query = read_fields(browser_request.query)
        state = "" if query is None else query.one("state")
        flow = None if session is None or not state else await self._flows.take(state, session)
        if self._delegation is None or query is None or session is None or flow is None:
            return self._views.elsewhere()
        pending = await self._environment.interactions.get(flow.pending)
        if pending is None:
            return await self._over(flow.pending, session)
        try:
            user = await self._delegation.finish(
                flow,
                {name: [value] for name, value in query.fields},
                state=state,
                redirect_uri=self._returns_to,
                now=self._environment.clock(),
                since=pending.created_at if pending.prompts & _ANEW else None,
            )
        except DelegationFailed as failed:
            return await self._failed(pending, failed)
        session = await self._sessions.log_in(session, user.subject, shown=user.shown, auth_time=user.auth_time)
        headers = (self._sessions.set_cookie(session),)
        return await self._grant(pending, session, flow.scopes, remember=flow.remember, headers=headers)

    async def leave(self, browser_request: BrowserRequest) -> PageAnswer:
        """Handle GET of the logout page."""
        session = await self._sessions.find(browser_request.cookies)
        if session is None or session.subject is None:
            return self._views.not_logged_in()
        return self._views.log_out(session)

    async def log_out(self, browser_request: BrowserRequest) -> PageAnswer:
        """Handle POST of the logout form."""
        session = await self._sessions.find(browser_request.cookies)
        form = read_form(browser_request)
        if session is not None:
            if (
                form is None
                or not is_ours(browser_request, self._origin)
                or not session.made(form.one("form_token"), "logout")
            ):
                return self._views.foreign()
            await self._sessions.end(session)
        return self._views.logged_out((self._sessions.drop_cookie(),))

    # --- responses -------------------------------------------------------------------------------------------------

    async def _entered(
        self, browser_request: BrowserRequest, id: str, purpose: str
    ) -> tuple[PendingAuthorization, BrowserSession, Form] | PageAnswer:
        """Return what a form belongs to, if one of these pages sent it in the browser that the request belongs to."""
        if not is_ours(browser_request, self._origin):
            return self._views.foreign()
        form = read_form(browser_request)
        if form is None:
            return self._views.unreadable()
        pending = await self._environment.interactions.get(id)
        session = await self._sessions.find(browser_request.cookies)
        if pending is None:
            return await self._over(id, session)
        if session is None or await self._browser_bindings.open(id, session, expires_at=pending.expires_at) is None:
            return self._views.elsewhere()
        if not session.made(form.one("form_token"), f"{purpose} {id}"):
            return self._views.stale(id)
        return pending, session, form

    async def _grant(
        self,
        pending: PendingAuthorization,
        session: BrowserSession,
        scopes: Iterable[str],
        *,
        remember: bool = False,
        headers: _Headers = (),
    ) -> PageAnswer:
        subject, auth_time = session.subject or "", session.auth_time or 0.0
        scopes = tuple(scopes)
        url = await self._environment.interactions.grant(
            pending.id, subject=subject, scopes=scopes, auth_time=auth_time
        )
        if url is None:
            return await self._over(pending.id, session)
        if remember:
            await self._consents.remember(pending, subject, scopes)
        await self._browser_bindings.answered(pending.id, "You allowed access.")
        return self._redirect(url, headers=headers)

    async def _deny(self, pending: PendingAuthorization, error: str) -> PageAnswer:
        url = await self._environment.interactions.deny(pending.id, error=error)
        if url is None:
            return await self._over(pending.id, None)
        await self._browser_bindings.answered(pending.id, "Access was not granted.")
        return self._redirect(url)

    async def _failed(self, pending: PendingAuthorization, failed: DelegationFailed) -> PageAnswer:
        _log.warning("delegated login failed: error=%s", failed.message)
        return await self._deny(pending, failed.error)

    async def _over(self, id: str, session: BrowserSession | None) -> PageAnswer:
        return self._views.over(None if session is None else await self._browser_bindings.outcome(id, session))


def _logged_in(pending: PendingAuthorization, session: BrowserSession) -> bool:
    """Return whether a user is logged in, and recently enough for this request."""
    if session.subject is None or session.auth_time is None:
        return False
    return not pending.prompts & _ANEW or session.auth_time >= pending.created_at
