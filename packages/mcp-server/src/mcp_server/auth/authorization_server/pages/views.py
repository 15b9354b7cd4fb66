"""The single pages: what each says, and what it is filled in with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_server.auth.authorization_server.pages.consents import REMEMBERED_DAYS, rememberable
from mcp_server.auth.authorization_server.pages.display_names import ShownScope, host_of, one_line, shown_client
from mcp_server.auth.authorization_server.pages.rendering import form_targets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_server.auth.authorization_server.model.interaction import PendingAuthorization
    from mcp_server.auth.authorization_server.pages.browser_sessions import BrowserSession
    from mcp_server.auth.authorization_server.pages.rendering import PageAnswer, Problem, Templates

__all__ = ["Views"]

_Headers = tuple[tuple[str, str], ...]


class Views:
    """Makes the pages.

    Args:
        templates: What they look like.
        prefix: The path before all routes.
        scopes: What scopes mean, in words.
        upstream: The host where people log in, if that is elsewhere.
    """

    def __init__(self, templates: Templates, *, prefix: str, scopes: Mapping[str, str], upstream: str | None) -> None:
        self._templates: Final = templates
        self._prefix: Final = prefix
        self._scopes: Final = scopes
        self._upstream: Final = upstream

    def path(self, id: str) -> str:
        """Where the page of a request for authorization is."""
        return f"{self._prefix}/interaction/{id}"

    def login(
        self,
        pending: PendingAuthorization,
        session: BrowserSession,
        *,
        problems: Sequence[Problem] = (),
        name: str = "",
        status: int = 200,
        headers: _Headers = (),
    ) -> PageAnswer:
        """The form for name and password."""
        return self._templates.page(
            "login",
            status=status,
            headers=headers,
            problems=problems,
            username=name,
            client=shown_client(pending.client),
            resource=", ".join(pending.resources),
            action=f"{self.path(pending.id)}/login",
            form_token=session.form_token(f"login {pending.id}"),
        )

    def consent(
        self,
        pending: PendingAuthorization,
        session: BrowserSession,
        *,
        logged_in: bool,
        problems: Sequence[Problem] = (),
        status: int = 200,
        headers: _Headers = (),
    ) -> PageAnswer:
        """Whether to allow it. Without a login, the way to it begins here."""
        scopes = [
            ShownScope(name=scope, words=self._scopes.get(scope, scope), chosen=not problems)
            for scope in pending.scopes
        ]
        path = self.path(pending.id)
        return self._templates.page(
            "consent",
            status=status,
            headers=headers,
            targets=form_targets(pending.client.redirect_uri),
            problems=problems,
            client=shown_client(pending.client),
            resource=", ".join(pending.resources),
            resource_host=", ".join(host_of(resource) for resource in pending.resources),
            subject=one_line(session.shown or session.subject or "") if logged_in else "",
            scopes=scopes,
            rememberable=rememberable(pending),
            remember_days=REMEMBERED_DAYS,
            upstream=None if logged_in else self._upstream,
            action=f"{path}/consent",
            form_token=session.form_token(f"consent {pending.id}"),
            switch_action=f"{path}/switch",
            # Who is logged in elsewhere would come back as the same person.
            switch_token=session.form_token(f"switch {pending.id}") if self._upstream is None else "",
        )

    def log_out(self, session: BrowserSession) -> PageAnswer:
        """Whether to log out."""
        return self._templates.page(
            "logout",
            last=True,
            subject=one_line(session.shown or session.subject or ""),
            action=f"{self._prefix}/logout",
            form_token=session.form_token("logout"),
        )

    def over(self, outcome: str | None) -> PageAnswer:
        """A request that does not wait any more.

        Args:
            outcome: How it was answered, in this browser; `None` when that is not known, or nobody's business.
        """
        if outcome is not None:
            return self._templates.message(410, "You have answered already", outcome, "You can close this page.")
        return self._templates.message(
            404, "This request is over", "It was answered, it has expired, or it never was.", _AGAIN
        )

    def elsewhere(self) -> PageAnswer:
        """A request of another browser, or of a session that is over."""
        return self._templates.message(
            403, "This page has expired", "Your session is over, or the request was begun in another browser.", _AGAIN
        )

    def stale(self, id: str) -> PageAnswer:
        """A form that was made for a session that is not any more, in the browser that has a new one."""
        return self._templates.message(
            403,
            "This page is out of date",
            "You have logged in or out since it was opened, perhaps in another tab. Nothing was done.",
            link=(self.path(id), "Go on from where you are now"),
        )

    def foreign(self) -> PageAnswer:
        """A form that another page sent."""
        return self._templates.message(
            403, "This form is not from our page", "Another page sent it in your name. Nothing was done."
        )

    def unreadable(self) -> PageAnswer:
        """A form that is none."""
        return self._templates.message(400, "This form cannot be read", "Nothing was done.")

    def logged_out(self, headers: _Headers) -> PageAnswer:
        """Nobody is logged in any more."""
        text = "Applications keep what you allowed them."
        return self._templates.message(200, "You are logged out", text, headers=headers)

    def not_logged_in(self) -> PageAnswer:
        """Nobody is logged in, and so cannot log out."""
        return self._templates.message(200, "You are not logged in", "There is nothing to do here.")


_AGAIN: Final = "Go back to the application and start again."
