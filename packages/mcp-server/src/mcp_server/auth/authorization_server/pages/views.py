"""The individual pages: their texts and the values of their templates."""

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
    """The pages of one authorization server.

    Args:
        templates: The templates.
        prefix: The start of the paths of all routes.
        scopes: The scopes, with their descriptions for users.
        upstream: The host where users log in, if the login is delegated.
    """

    def __init__(self, templates: Templates, *, prefix: str, scopes: Mapping[str, str], upstream: str | None) -> None:
        self._templates: Final = templates
        self._prefix: Final = prefix
        self._scopes: Final = scopes
        self._upstream: Final = upstream

    def path(self, id: str) -> str:
        """Return the path of the page of an authorization request."""
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
        """Return the login form."""
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
        """Return the consent form. Without a login, it leads to the delegated login."""
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
            # With delegation, the provider would return the same user again.
            switch_token=session.form_token(f"switch {pending.id}") if self._upstream is None else "",
        )

    def log_out(self, session: BrowserSession) -> PageAnswer:
        """Return the logout form."""
        return self._templates.page(
            "logout",
            last=True,
            subject=one_line(session.shown or session.subject or ""),
            action=f"{self._prefix}/logout",
            form_token=session.form_token("logout"),
        )

    def over(self, outcome: str | None) -> PageAnswer:
        """Return the page for a request that has ended.

        Args:
            outcome: The outcome in this browser; `None` if it is unknown, or if another browser made the decision.
        """
        if outcome is not None:
            return self._templates.message(410, "You have already decided", outcome, "You can close this page.")
        return self._templates.message(
            404, "This request has ended", "It was completed, has expired, or does not exist.", _AGAIN
        )

    def elsewhere(self) -> PageAnswer:
        """Return the page for a request of another browser, or of an expired session."""
        return self._templates.message(
            403, "This page has expired", "Your session has ended, or you started in another browser.", _AGAIN
        )

    def stale(self, id: str) -> PageAnswer:
        """Return the page for a form of an earlier session of the same browser."""
        return self._templates.message(
            403,
            "This page is out of date",
            "You logged in or out after you opened this page, perhaps in another tab. Nothing was changed.",
            link=(self.path(id), "Continue with your current login"),
        )

    def foreign(self) -> PageAnswer:
        """Return the page for a form that another site sent."""
        return self._templates.message(
            403, "This form is not from this site", "Another site sent it in your name. Nothing was changed."
        )

    def unreadable(self) -> PageAnswer:
        """Return the page for a body that is not a form."""
        return self._templates.message(400, "This form cannot be read", "Nothing was changed.")

    def logged_out(self, headers: _Headers) -> PageAnswer:
        """Return the page after the logout."""
        text = "Applications keep the access that you allowed."
        return self._templates.message(200, "You are logged out", text, headers=headers)

    def not_logged_in(self) -> PageAnswer:
        """Return the logout page for a browser without a login."""
        return self._templates.message(200, "You are not logged in", "No action is needed.")


_AGAIN: Final = "Go back to the application and log in again."
