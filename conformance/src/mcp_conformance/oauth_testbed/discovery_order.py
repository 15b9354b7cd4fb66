"""The check that a client requests metadata at the specified URLs and in the specified order."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from mcp_conformance.oauth_testbed.quirks import Well

if TYPE_CHECKING:
    from mcp_conformance.oauth_testbed.http_messages import Request
    from mcp_conformance.oauth_testbed.metadata_documents import TestbedUrls
    from mcp_conformance.oauth_testbed.violations import ViolationRecorder

__all__ = ["DiscoveryOrder"]


@attrs.define(kw_only=True)
class DiscoveryOrder:
    """A recorder of the requests for metadata."""

    places: TestbedUrls
    """The URLs of all servers."""
    recorder: ViolationRecorder
    """The recorded violations."""
    challenged_url: str | None = None
    """The URL of the resource metadata in the last challenge."""
    _requested: list[str] = attrs.field(factory=list, init=False)

    def see(self, request: Request) -> None:
        """Record a request of any kind."""
        url = request.url
        if url in (*self.places.prm_candidates, self.challenged_url):
            self._resource(url)
        for issuer in (self.places.issuer, self.places.other):
            wells = self._wells(issuer)
            path = bool(urlsplit(issuer).path.rstrip("/"))
            if url in wells:
                self._server(url, wells, path=path)
            elif url.endswith("/") and url.removesuffix("/") in wells:
                self._with_slash(url, path=path)
        self._requested.append(url)

    def _resource(self, url: str) -> None:
        if self.challenged_url is not None:
            first = url == self.challenged_url or self.challenged_url in self._requested
            self.recorder.expect(
                first, "auth.client-prm-header-preferred", "the URL in the challenge is not requested first"
            )
            return
        before = self.places.prm_candidates[: self.places.prm_candidates.index(url)]
        right = all(each in self._requested for each in before)
        self.recorder.expect(
            right, "auth.client-prm-fallback-order", "the root is requested before the URL with the path"
        )

    def _server(self, url: str, wells: tuple[str, ...], *, path: bool) -> None:
        looked = any(each in self._requested for each in (*self.places.prm_candidates, self.challenged_url))
        self.recorder.expect(looked, "auth.prm-client-uses", "the metadata of the resource were not requested")
        before = wells[: wells.index(url)]
        requirement = "auth.as-wellknown-path-order" if path else "auth.as-wellknown-root-order"
        right = all(each in self._requested for each in before)
        self.recorder.expect(right, requirement, f"{url} is requested before {', '.join(before)}")

    def _with_slash(self, url: str, *, path: bool) -> None:
        """Record a request with the slash at the end of an issuer, which RFC 8414 removes (section 3.1)."""
        requirement = "auth.as-wellknown-path-order" if path else "auth.as-wellknown-root-order"
        right = url.removesuffix("/") in self._requested
        self.recorder.expect(right, requirement, f"{url} is requested, with the slash at the end of the issuer")

    def _wells(self, issuer: str) -> tuple[str, ...]:
        ordered = (Well.OAUTH, Well.OPENID_INSERTED, Well.OPENID_APPENDED, Well.OAUTH_APPENDED)
        return tuple(dict.fromkeys(well.url(issuer) for well in ordered))
