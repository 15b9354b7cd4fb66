"""The login of the raw client: MCP authorization in plain Python, with its faults."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import sys
import threading
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from mutants.client.client_jwts import Keys, client_assertion
from mutants.client.fetch import default_metadata, document, fetch, texts
from mutants.client.messages import ClientError, in_scenario, wrong

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["DOCUMENT_URL", "Login"]

DOCUMENT_URL: Final = "https://conformance-test.local/client-metadata.json"
_REDIRECT: Final = "http://127.0.0.1:49152/callback"
_PRM: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_TYPES: Final = "urn:ietf:params:oauth:token-type:"
_PAIR: Final = re.compile(r'(\w+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))')
_PAIR_WITHOUT_BLANKS: Final = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))')
_PAIR_WITHOUT_ESCAPES: Final = re.compile(r'(\w+)[ \t]*=[ \t]*(?:"([^"]*)"|([^\s,]+))')
_QUOTED_PAIR: Final = re.compile(r'(\w+)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"()')
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_CHALLENGE: Final = r"(?:^|, )(Bearer|DPoP)( |$)"
_FEW: Final = 3
_SECOND: Final = 2
_MEETING: Final = 2.0
"""Seconds for which one of two requests at once waits for the other."""


def _searched(challenge: str, *names: str) -> dict[str, str]:
    """Return parameters of a challenge as a search in its text finds them, also within strings and other names."""
    found = {name: re.search(rf'{name}="?([^",\s\\]+)', challenge) for name in names}
    return {name: each[1] for name, each in found.items() if each is not None}


def _same_host(one: str, other: str) -> bool:
    return urlsplit(one).netloc == urlsplit(other).netloc


class Login:
    """The login at one protected server.

    Args:
        url: The server.
        version: The revision.
        context: The credentials agreed in advance.
    """

    def __init__(self, url: str, version: str, context: JsonObject) -> None:
        self._given: Final = url
        self._url: Final = url.partition("#")[0]
        self._origin: Final = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        self._version: Final = version
        self._context: Final = context
        self._clients: Final[dict[str, JsonObject]] = {}
        self._metadata: JsonObject = {}
        self._resource: JsonObject = {}
        self._scopes: set[str] = set()
        self._challenge: Final[dict[str, str]] = {}
        self._token = ""
        self._refresh = ""
        self._issuer = ""
        self._client_used: JsonObject | None = None
        self._renewed_at = 0
        self._openid = False
        self._first_token = ""
        self._assertion = ""
        self._verifier = secrets.token_urlsafe(48)
        self._count = 0
        self._few = 0
        self._steps = 0
        self._meeting: Final = threading.Barrier(_SECOND)
        self._nonces = 0
        self._first_scopes: set[str] | None = None
        self._answered = False
        self._named: str | None = None
        self.keys = Keys()

    # --- requests to the server --------------------------------------------------------------------------------------

    def headers(self, method: str) -> dict[str, str]:
        """Return the authorization headers of a request."""
        if not self._token and wrong("undefined-token"):
            return {"Authorization": "Bearer undefined"}
        if (
            not self._token
            or (wrong("deletes-without-token") and method == "DELETE")
            or wrong("token-in-query")
            or (wrong("token-once") and self._count > 1 and not self.keys.wanted)
        ):
            return {}
        self._count += 1
        if not self.keys.wanted:
            other = wrong("token-scheme") or (wrong("token-scheme-once") and self._count == _SECOND)
            other = other or (wrong("machine-token-scheme") and in_scenario("auth/client-credentials-basic"))
            headers = {"Authorization": f"{'Token' if other else 'Bearer'} {self._token}"}
            if wrong("token-bare"):
                headers = {"Authorization": self._token}
            if wrong("old-token-too") and self._first_token != self._token:
                headers["authorization"] = f"Bearer {self._first_token}"
            return headers
        token = self._first_token if wrong("ath-stale") else self._token
        proof = self.keys.proof(method, self._url, None if wrong("no-ath") else token)
        headers = {"Authorization": f"{'Bearer' if wrong('bound-as-bearer') else 'DPoP'} {self._token}"}
        return headers if wrong("no-call-proof") else {**headers, "DPoP": proof}

    @property
    def query(self) -> str:
        """The query of the server's URL, and of a token in the query."""
        return self._query(
            "access_token" if wrong("token-in-query") else "api_key" if wrong("token-in-other-field") else ""
        )

    @property
    def subscription_query(self) -> str:
        """The same for a request that opens a subscription."""
        return self._query("access_token") if wrong("token-in-query-of-stream") else self.query

    def _query(self, name: str) -> str:
        shown = f"{name}={self._token}" if self._token and name else ""
        whole = "&".join(part for part in (urlsplit(self._url).query, shown) if part)
        return f"?{whole}" if whole else ""

    def answer(self, status: int, headers: dict[str, str]) -> bool:
        """Obtain a token as a 401 or 403 requires, and return whether to send the request again."""
        challenge = headers.get("www-authenticate", "")
        self._challenge.clear()
        flags = re.RegexFlag(0) if wrong("challenge-in-one-case") else re.IGNORECASE
        mine = re.search(_CHALLENGE, _QUOTED.sub(lambda m: "x" * len(m[0]), challenge), flags)
        if mine is None and challenge and wrong("other-schemes-refused"):
            return False
        if mine is not None and not (wrong("first-challenge-only") and mine.start()):
            pairs = _PAIR_WITHOUT_ESCAPES if wrong("quoted-pair-ends") else _PAIR
            pairs = _QUOTED_PAIR if wrong("quoted-values-only") else pairs
            pairs = _PAIR_WITHOUT_BLANKS if wrong("blanks-end-names") else pairs
            lower = str if wrong("parameters-in-one-case") else str.lower
            self._challenge.update({lower(m[1]): m[2] or m[3] or "" for m in pairs.finditer(challenge[mine.end() :])})
            if wrong("scope-by-search"):
                self._challenge.update(_searched(challenge[mine.end() :], "scope"))
            if wrong("challenge-by-search"):
                self._challenge.update(_searched(challenge[mine.end() :], "resource_metadata", "error"))
        if "dpop-nonce" in headers:
            self.keys.nonces[self._origin] = headers["dpop-nonce"]
        if self._challenge.get("error") == "use_dpop_nonce":
            self._nonces += 1
            return not wrong("no-call-nonce") and not (wrong("nonce-once") and self._nonces > 1)
        if self._count == _SECOND and wrong("token-scheme-once"):
            return True
        if status == 401 and self._token and wrong("expired-token-kept") and in_scenario("auth/token-expiry"):
            return self._count < 9
        if self._refresh and wrong("refresh-to-server"):
            fetch("GET", self._url, {"Authorization": f"Bearer {self._token}", "X-Debug": self._refresh})
        if status == 401 and wrong("login-only-at-start") and self._answered:
            return False
        if status == 403 and not self._steps_up(challenge):
            return False
        self._few += 1
        if self._few > (99 if wrong("asks-for-ever") else _FEW):
            return False
        self._log_in(status)
        return not (status == 403 and wrong("call-not-repeated"))

    def _steps_up(self, challenge: str) -> bool:
        """Return whether to request more scope after a 403."""
        self._steps += 1
        if wrong("step-up-by-text") and 'error="insufficient_scope"' not in challenge:
            return False
        return not wrong("no-step-up") and not (self._steps > 1 and wrong("steps-up-once"))

    def went_well(self) -> None:
        """Remember that the server accepted a request."""
        self._answered = True

    def _log_in(self, status: int) -> None:
        self._discover()
        ways = {
            "auth/client-credentials-basic": self._by_client_credentials,
            "auth/client-credentials-jwt": self._by_client_credentials,
            "auth/wif-jwt-bearer": self._by_workload_jwt,
            "auth/wif-refused": self._by_workload_jwt,
            "auth/enterprise-managed-authorization": self._by_id_jag,
            "auth/enterprise-managed-authorization-secret": self._by_id_jag,
        }
        for name, way in ways.items():
            if in_scenario(name):
                if self._token and wrong("consents-later"):
                    break
                way()
                return
        if status == 403 and self._refresh and wrong("step-up-by-refresh"):
            self._by_refresh_token()
        elif not (status == 401 and self._by_refresh_token()):
            self._by_user(status)

    def _by_refresh_token(self) -> bool:
        """Refresh the token, unless the last refreshed one was refused at once. Return whether there is a new token."""
        again = self._renewed_at and self._count - self._renewed_at <= 1
        issuer = str(self._metadata["issuer"])
        same = self._issuer == issuer or (wrong("refresh-by-host") and _same_host(self._issuer, issuer))
        same = same or wrong("refresh-for-any-issuer")
        proves = self.keys.wanted and not wrong("refresh-key-new") and not wrong("refresh-unproved")
        if not self._refresh or not same or again or proves:
            return False
        if self.keys.wanted and wrong("refresh-key-new"):
            self.keys = Keys()
        if wrong("refreshes-at-once") and not self._renewed_at:
            # Two requests at once both find the refresh token unused.
            with suppress(threading.BrokenBarrierError):
                self._meeting.wait(_MEETING)
        self._renewed_at = self._count
        more = {"refresh_token": self._refresh}
        if wrong("refresh-wider"):
            more["scope"] = "everything"
        if wrong("refresh-asks-again"):
            more["scope"] = " ".join(sorted(self._scopes))
        try:
            self._ask("refresh_token", more, self._client())
        except ClientError:
            if wrong("refusal-of-refresh-ends"):
                self._few = _FEW
                raise
            self._refresh = ""
            return False
        return True

    # --- discovery ---------------------------------------------------------------------------------------------------

    def _discover(self) -> None:
        if self._version == "2025-03-26" or (wrong("own-server-always") and in_scenario("auth/metadata-default")):
            self._discover_own()
            return
        path = unquote(urlsplit(self._url).path) if wrong("path-decoded") else urlsplit(self._url).path
        named = self._challenge.get("resource_metadata")
        if wrong("last-segment-only"):
            path = f"/{path.rpartition('/')[2]}"
        candidates = [self._origin + _PRM + path, self._origin + _PRM]
        if wrong("named-once"):
            named = self._named = self._named or named
        if wrong("root-first"):
            candidates.reverse()
        if named and not wrong("challenge-ignored"):
            candidates = [named]
        if wrong("only-named") and not named:
            candidates = []
        headers = {"Authorization": f"Bearer {self._token}"} if wrong("token-to-metadata") and self._token else {}
        found = next((each for url in candidates if (each := self._document(url, headers)) is not None), None)
        if found is None:
            raise ClientError("no metadata of the resource")
        self._check_resource(str(found.get("resource")))
        self._resource = found
        issuer = texts(found.get("authorization_servers"))[0]
        if wrong("servers-ignored"):
            issuer = self._origin
        if wrong("issuer-without-slash"):
            issuer = issuer.rstrip("/")
        if wrong("first-server-for-ever") and self._metadata:
            return
        self._metadata = self._server_metadata(issuer)
        if str(self._metadata.get("issuer")) != issuer:
            if not self._takes_issuer(issuer):
                raise ClientError("the metadata is for another issuer")
            self._metadata["issuer"] = issuer

    def _document(self, url: str, headers: dict[str, str]) -> JsonObject | None:
        """Return the resource metadata at a URL; `None` if they are not there."""
        if wrong("forbidden-ends-search") and fetch("GET", url)[0] not in (200, 404):
            raise ClientError("the metadata cannot be read")
        return document(url, headers)

    def _check_resource(self, resource: str) -> None:
        other = resource.lower().rstrip("/") not in (self._url.lower(), self._origin)
        taken = (
            wrong("any-resource")
            or (wrong("resource-by-beginning") and resource.startswith(self._url))
            or (wrong("resource-by-prefix") and self._url.startswith(resource))
            or (wrong("resource-by-origin") and _same_host(self._url, resource))
            or (self._token and wrong("resource-verified-once"))
        )
        if (other and not taken) or (wrong("case-sensitive") and not resource.startswith(self._origin)):
            raise ClientError(f"the metadata is for {resource}")

    def _takes_issuer(self, issuer: str) -> bool:
        """Return whether metadata with another issuer are taken."""
        found = str(self._metadata.get("issuer"))
        return (
            wrong("any-issuer")
            or (wrong("openid-issuer-unverified") and self._openid)
            or (wrong("nearly-same-issuer") and found.rstrip("/") == issuer.rstrip("/"))
            or (wrong("issuer-any-case") and found.lower() == issuer.lower())
            or (bool(self._token) and wrong("issuer-verified-once"))
            or ("issuer" not in self._metadata and wrong("no-issuer-taken"))
        )

    def _server_metadata(self, issuer: str) -> JsonObject:
        parts = urlsplit(issuer)
        origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        if wrong("issuer-path-dropped"):
            path = ""
        if wrong("first-segment-only") and path:
            path = f"/{path.split('/')[1]}"
        if wrong("issuer-slash-kept") and parts.path == "/":
            path = "/"
        if wrong("issuer-path-slash-kept") and path:
            path = parts.path
        wells = [origin + _OAUTH + path, origin + _OPENID + path]
        wells += [origin + path + _OPENID] if path else []
        if wrong("well-known-appended"):
            wells = [origin + path + _OAUTH, *wells[1:]]
        if path and self._token and wrong("later-path-dropped-first"):
            fetch("GET", origin + _OAUTH)
        if wrong("openid-first"):
            wells = [wells[-1], *wells[:-1]]
        if wrong("oauth-only"):
            wells = wells[:1]
        if wrong("no-server-metadata"):
            return default_metadata(issuer)
        shows = bool(self._token) and wrong("token-to-server-metadata")
        headers = {"Authorization": f"Bearer {self._token}"} if shows else {}
        for well in wells:
            if wrong("forbidden-ends-discovery") and fetch("GET", well)[0] not in (200, 404):
                raise ClientError("the metadata cannot be read")
            found = document(well, headers)
            if found is not None:
                self._openid = _OPENID in well
                usual = default_metadata(origin) if wrong("default-endpoints") else {}
                return {
                    **found,
                    **{name: usual[name] for name in found if name.endswith("_endpoint") and name in usual},
                }
        raise ClientError("no metadata of the authorization server")

    def _discover_own(self) -> None:
        """Discover a server that is its own authorization server."""
        base = self._url.rpartition("/")[0] if wrong("base-with-folder") else self._origin
        well = base + _OAUTH + (urlsplit(self._url).path if wrong("metadata-below-path") else "")
        headers = {} if wrong("metadata-without-version") else {"MCP-Protocol-Version": self._version}
        found = None if wrong("no-own-metadata") else document(well, headers)
        if found is None and wrong("no-default-endpoints"):
            raise ClientError("no metadata of the authorization server")
        own = self._url if wrong("default-endpoints-below-path") else base
        self._metadata = default_metadata(own) if found is None or wrong("default-endpoints") else found

    # --- the user ----------------------------------------------------------------------------------------------------

    def _client(self) -> JsonObject:
        """Return the client registration for this authorization server."""
        issuer, given = str(self._metadata["issuer"]), self._context.get("client_id")
        mine = self._context.get("issuer") in (None, issuer) or wrong("given-anywhere")
        mine = mine or (wrong("given-by-host") and _same_host(str(self._context["issuer"]), issuer))
        if wrong("given-ignored"):
            given = None
        if isinstance(given, str) and mine and not (wrong("given-last") and "registration_endpoint" in self._metadata):
            return {**self._context, "token_endpoint_auth_method": "client_secret_basic"}
        takes = self._metadata.get("client_id_metadata_document_supported") is True
        takes = takes or (wrong("document-flag-present") and "client_id_metadata_document_supported" in self._metadata)
        if (takes and not wrong("no-document")) or (wrong("document-always") and in_scenario("auth/metadata-default")):
            url = DOCUMENT_URL.replace("https", "http") if wrong("document-plain-http") else DOCUMENT_URL
            return {"client_id": url, "token_endpoint_auth_method": "none"}
        key = "any" if wrong("one-client-for-all") else issuer
        if wrong("clients-by-host"):
            key = urlsplit(issuer).netloc
        if key not in self._clients:
            self._clients[key] = self._registered()
        return self._clients[key]

    def _registered(self) -> JsonObject:
        endpoint = self._metadata.get("registration_endpoint")
        if not isinstance(endpoint, str):
            raise ClientError("no client id is available")
        if wrong("made-up-client-id"):
            return {"client_id": "made-up", "token_endpoint_auth_method": "none"}
        grants: list[JsonValue] = ["authorization_code", "refresh_token"]
        uris: list[JsonValue] = ["http://192.0.2.1/callback" if wrong("plain-redirect") else _REDIRECT]
        wanted: JsonObject = {
            "client_name": "raw client",
            "redirect_uris": uris,
            "grant_types": grants[:1] if wrong("no-refresh-grant") else grants,
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "web" if wrong("registers-as-web") else "native",
        }
        if wrong("no-application-type"):
            del wanted["application_type"]
        if wrong("scope-as-registered") and (self._challenge.get("scope") or self._resource.get("scopes_supported")):
            wanted["scope"] = self._challenge.get("scope") or " ".join(texts(self._resource.get("scopes_supported")))
        kind = "text/plain" if wrong("registers-as-text") else "application/json"
        status, _, body = fetch("POST", endpoint, {"Content-Type": kind}, json.dumps(wanted).encode())
        if status >= 400:
            if wrong("registration-refusal-ignored"):
                return {"client_id": "made-up", "token_endpoint_auth_method": "none"}
            if wrong("silent-registration"):
                raise SystemExit(0)
            raise ClientError(f"registration: status {status}")
        found: JsonObject = json.loads(body)
        if wrong("assigned-secret-ignored"):
            found.pop("client_secret", None)
        return found

    def _by_user(self, status: int) -> None:
        given = self._metadata.get("code_challenge_methods_supported")
        methods = texts(given)
        passes = (
            "S256" in methods
            or (methods and wrong("pkce-any-method"))
            or (given == [] and wrong("pkce-empty-taken"))
            or (self._token and wrong("pkce-verified-once"))
        )
        if not passes and not wrong("pkce-unverified-openid" if self._openid else "pkce-unverified"):
            raise ClientError("the authorization server does not support PKCE")
        plain = wrong("plain-pkce") or (methods[:1] == ["plain"] and wrong("first-pkce-method"))
        client = self._client()
        verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
        if wrong("verifier-reused"):
            verifier = self._verifier
        if wrong("verifier-short"):
            verifier = str(uuid.uuid4())
        self._choose_scopes(status)
        unregistered = "scope" not in client and status == 401 and wrong("scope-as-registered")
        fields = {
            "response_type": "token" if wrong("response-type-token") else "code",
            "client_id": str(client["client_id"]),
            "redirect_uri": _REDIRECT
            + ("/other" if wrong("other-redirect") or (status == 403 and wrong("step-up-redirects-elsewhere")) else ""),
            "code_challenge": verifier
            if plain
            else base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("="),
            "code_challenge_method": "plain" if plain else "S256",
            "state": state,
            "resource": self._target(),
            "scope": "" if unregistered else " ".join(sorted(self._scopes)),
        }
        for fault, name in (("no-state", "state"), ("no-resource", "resource"), ("no-challenge", "code_challenge")):
            if wrong(fault):
                del fields[name]
        if wrong("authorization-for-origin"):
            fields["resource"] = self._origin
        if status == 403 and wrong("step-up-without-resource"):
            del fields["resource"]
        if not fields["scope"] and not wrong("empty-scope"):
            del fields["scope"]
        if wrong("secret-in-url") and "client_secret" in client:
            fields["client_secret"] = str(client["client_secret"])
        endpoint = str(self._metadata["authorization_endpoint"])
        if wrong("endpoint-query-lost"):
            endpoint = endpoint.partition("?")[0]
        joint = "&" if "?" in endpoint and not wrong("endpoint-query-doubled") else "?"
        repeated = urlencode({"client_id": fields["client_id"]}) if wrong("client-id-twice") else ""
        url = f"{endpoint}{joint}{urlencode(fields)}{repeated and f'&{repeated}'}"
        back = dict(parse_qsl(urlsplit(fetch("GET", url)[1].get("location", "")).query, keep_blank_values=True))
        if back.get("error") == "invalid_scope" and wrong("error-acted-on") and "scope" in fields:
            del fields["scope"]
            fields |= {"state": secrets.token_urlsafe(24), "code_challenge": secrets.token_urlsafe(32)}
            fetch("GET", f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(fields)}")
        self._check_answer(back, state)
        if wrong("other-verifier"):
            verifier = secrets.token_urlsafe(48)
        code = quote(back["code"], safe="") if wrong("code-still-encoded") else back["code"]
        more = {"code": code, "redirect_uri": _REDIRECT, "code_verifier": verifier}
        self._ask("authorization_code", more, client)

    def _target(self, *, refreshes: bool = False) -> str:
        if refreshes and wrong("refresh-for-issuer"):
            return str(self._metadata["issuer"])
        if refreshes and wrong("refresh-for-url"):
            return self._url
        if wrong("resource-origin"):
            return self._origin
        if wrong("resource-slash"):
            return f"{self._url}/"
        if wrong("resource-fragment"):
            return f"{self._url}#mcp"
        if "#" in self._given and wrong("resource-as-given"):
            return self._given
        if wrong("resource-elsewhere"):
            return "https://elsewhere.example/mcp"
        named = str(self._resource.get("resource", self._url))
        return f"{named}/" if wrong("resource-of-host-slash") and not urlsplit(named).path else named

    def _choose_scopes(self, status: int) -> None:
        supported = set(texts(self._resource.get("scopes_supported")))
        offered = set(texts(self._metadata.get("scopes_supported")))
        if (wrong("scopes-of-issuer") and offered) or (wrong("scopes-of-issuer-last") and not supported):
            supported = offered
        challenge_scopes = set(self._challenge.get("scope", "").split())
        if status == 401 and self._token and wrong("first-scopes-kept"):
            return
        if wrong("intersects-scopes") and supported and not in_scenario("auth/scope-step-up"):
            challenge_scopes &= supported
        if wrong("all-scopes"):
            challenge_scopes |= supported
        if not challenge_scopes and not (wrong("no-supported-scopes") and status == 401):
            challenge_scopes = supported
        if wrong("scope-invented") and not challenge_scopes:
            challenge_scopes = {"everything"}
        if wrong("scope-ignored") and in_scenario("auth/scope-from-www-authenticate"):
            challenge_scopes = {"profile"}
        if wrong("offline-always"):
            challenge_scopes.add("offline_access")
        anew = wrong("forgets-scopes") or (status == 401 and wrong("forgets-scopes-at-login"))
        if self._first_scopes is None:
            self._first_scopes = set(challenge_scopes)
        kept = self._first_scopes if wrong("forgets-earlier-step-up") else self._scopes
        self._scopes = challenge_scopes if anew else kept | challenge_scopes

    def _check_answer(self, back: dict[str, str], state: str) -> None:
        unverified = wrong("any-state") or wrong("no-state") or (self._token and wrong("state-verified-once"))
        unverified = unverified or ("state" not in back and wrong("state-absent-taken"))
        if back.get("state") != state and not unverified:
            raise ClientError("the state does not match")
        advertised = self._metadata.get("authorization_response_iss_parameter_supported") is True
        advertised = advertised or (
            wrong("iss-flag-present") and "authorization_response_iss_parameter_supported" in self._metadata
        )
        iss, issuer = back.get("iss"), str(self._metadata["issuer"])
        if wrong("iss-against-stripped"):
            issuer = issuer.rstrip("/")
        once = bool(self._token) and wrong("iss-verified-once")
        if iss is None and advertised and not (wrong("iss-absent-taken") or once):
            raise ClientError("the issuer is missing")
        if iss is None and not advertised and wrong("iss-always-wanted"):
            raise ClientError("the issuer is missing")
        nearly = wrong("iss-normalized") and (iss or "").rstrip("/") == issuer
        nearly = nearly or (wrong("iss-any-case") and (iss or "").lower() == issuer.lower())
        nearly = nearly or (wrong("iss-decoded") and unquote(iss or "") == issuer)
        nearly = nearly or (wrong("iss-empty-taken") and not iss)
        unseen = once or wrong("iss-any") or (wrong("iss-only-if-advertised") and not advertised) or nearly
        if "error" in back and wrong("error-page-visited"):
            fetch("GET", back["error_uri"])
        if "error" in back and (wrong("error-shown") or (self._token and wrong("error-shown-later"))):
            print(f"error {back['error']}", file=sys.stderr)
        if iss is not None and iss != issuer and not unseen:
            raise ClientError("the issuer does not match")
        if "code" not in back:
            raise ClientError("the code is missing")

    # --- tokens ------------------------------------------------------------------------------------------------------

    def _ask(self, grant: str, fields: dict[str, str], client: JsonObject | None) -> None:
        url = str(self._metadata["token_endpoint"])
        form = {"grant_type": grant, "resource": self._target(refreshes=grant == "refresh_token"), **fields}
        if wrong("no-token-resource") or (wrong("refresh-without-resource") and grant == "refresh_token"):
            del form["resource"]
        if self._refresh and wrong("refresh-anywhere"):
            form["refresh_token"] = self._refresh
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if client is not None:
            self._prove(client, form, headers)
        if grant == _JWT_BEARER and wrong("workload-as-client") and in_scenario("auth/wif-jwt-bearer"):
            headers["Authorization"] = f"Basic {base64.b64encode(b'workload:').decode()}"
        bound = in_scenario("auth/dpop") or in_scenario("auth/dpop-nonce")
        status, body = 0, b""
        for time in range(2):
            late = bound and wrong("proof-when-refused")
            if bound and (time or not late) and not (wrong("refresh-unproved") and grant == "refresh_token"):
                self.keys.wanted = True
                headers["DPoP"] = self.keys.proof("POST", url)
            status, back, body = fetch("POST", url, headers, urlencode(form).encode())
            if status == 307 and wrong("follows-from-token-endpoint"):
                status, back, body = fetch("POST", back["location"], headers, urlencode(form).encode())
            if status == 200 and grant == "authorization_code" and wrong("code-twice") and not bound:
                fetch("POST", url, headers, urlencode(form).encode())
            if status == 401 and grant == "authorization_code" and wrong("code-after-refusal"):
                status, back, body = fetch("POST", url, headers, urlencode(form).encode())
            if "dpop-nonce" in back and not wrong("no-token-nonce"):
                self.keys.nonces["{0.scheme}://{0.netloc}".format(urlsplit(url))] = back["dpop-nonce"]
            if status == 200 or not (b"use_dpop_nonce" in body or late):
                break
        if status != 200:
            raise ClientError(f"token: status {status}")
        self._keep(json.loads(body), grant, client)

    def _keep(self, found: JsonObject, grant: str, client: JsonObject | None) -> None:
        """Keep the tokens of a token response."""
        known = str(found.get("token_type", "bearer")).lower() in ("bearer", "dpop")
        if not known and not wrong("token-type-any"):
            raise ClientError(f"the token type is {found['token_type']}")
        if wrong("token-type-in-one-case") and found["token_type"] != "Bearer":
            raise ClientError(f"the token type is {found['token_type']}")
        needed = {"wants-lifetime": "expires_in", "wants-scope": "scope", "wants-refresh": "refresh_token"}
        for fault, name in needed.items():
            if wrong(fault) and name not in found:
                raise ClientError(f"{name} is missing")
        if wrong("unknown-members-refused") and "example_parameter" in found:
            raise ClientError("unknown member: example_parameter")
        if grant == "refresh_token" and "scope" not in found and wrong("forgets-scopes-at-refresh"):
            self._scopes = set()
        self._token = str(found["access_token"])
        self._first_token = self._first_token or self._token
        self._issuer = str(self._metadata["issuer"])
        self._client_used = client
        if not (self._refresh and wrong("refresh-reused")):
            kept = "None" if wrong("refresh-token-lost") else self._refresh
            self._refresh = str(found.get("refresh_token", kept if grant == "refresh_token" else ""))

    def revoke(self) -> None:
        """Revoke the token, as a client that logs out: one that is unusual, or that shows the token in a wrong place."""
        url = self._metadata.get("revocation_endpoint")
        if self._client_used is None or not isinstance(url, str) or not in_scenario("auth/metadata-default"):
            return
        form, headers = {"token": self._token}, {"Content-Type": "application/x-www-form-urlencoded"}
        if wrong("revokes-in-query"):
            url, form = f"{url}?{urlencode(form)}", {}
        elif wrong("revokes-by-header"):
            headers["Authorization"], form = f"Bearer {self._token}", {}
        elif not wrong("revokes"):
            return
        self._prove(self._client_used, form, headers)
        fetch("POST", url, headers, urlencode(form).encode())

    def _prove(self, client: JsonObject, form: dict[str, str], headers: dict[str, str]) -> None:
        id, secret, key = str(client["client_id"]), client.get("client_secret"), self._context.get("private_key_pem")
        in_body = client.get("token_endpoint_auth_method") == "client_secret_post" and not wrong(
            "assigned-method-ignored"
        )
        given = secret == self._context.get("client_secret")
        if isinstance(key, str) and not wrong("no-assertion"):
            if not (self._assertion and wrong("assertion-reused")):
                self._assertion = client_assertion(key, id, str(self._metadata["issuer"]))
            form["client_assertion"] = self._assertion
            form["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            if wrong("no-assertion-type"):
                del form["client_assertion_type"]
        elif isinstance(secret, str) and (in_body or (given and wrong("secret-in-body"))):
            form["client_secret"] = secret
        elif isinstance(secret, str) and not wrong("no-secret"):
            once = wrong("secret-unencoded") or (wrong("assigned-secret-unencoded") and id.startswith("assigned"))
            pair = f"{id}:{secret}" if once else f"{quote(id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            if wrong("secret-in-both"):
                form["client_secret"] = secret
            return
        if not wrong("client-id-left-out"):
            form["client_id"] = id

    def _by_client_credentials(self) -> None:
        if wrong("machine-registers"):
            self._registered()
        if wrong("machine-consents"):
            fetch("GET", f"{self._metadata['authorization_endpoint']}?client_id=machine")
        grant = "password" if wrong("machine-password") else "client_credentials"
        # The challenge of an expired token names no scope.
        self._scopes |= set(self._challenge.get("scope", "").split())
        if wrong("machine-scope-ignored"):
            self._ask(grant, {}, self._context)
            return
        self._ask(grant, {"scope": " ".join(sorted(self._scopes))}, self._context)

    def _by_workload_jwt(self) -> None:
        fields = {"assertion": str(self._context["valid_jwt"]), "scope": self._challenge.get("scope", "")}
        if wrong("workload-shown"):
            fetch("GET", self._url, {"X-Workload": fields["assertion"]})
        if wrong("workload-other-assertion"):
            fields = {**fields, "assertion": "x.y.z", "client_assertion": fields["assertion"]}
        if wrong("workload-unsigned"):
            unsigned = base64.urlsafe_b64encode(b'{"alg": "none"}').decode().rstrip("=")
            fields["assertion"] = f"{unsigned}.{fields['assertion'].split('.')[1]}."
        if wrong("workload-registers") or (self._token and wrong("workload-registers-later")):
            self._registered()
        grant = "urn:example:jwt" if wrong("workload-other-grant") else _JWT_BEARER
        try:
            self._ask(grant, fields, None)
        except ClientError:
            if wrong("workload-retries"):
                self._ask(_JWT_BEARER, fields, None)
            if wrong("workload-falls-back"):
                self._by_user(401)
                return
            if wrong("workload-silent"):
                raise SystemExit(0) from None
            raise

    def _by_id_jag(self) -> None:
        context = self._context
        if wrong("employee-consents"):
            fetch("GET", f"{self._metadata['authorization_endpoint']}?client_id=app")
        form = {
            "grant_type": "token-exchange" if wrong("exchange-grant") else _EXCHANGE,
            "requested_token_type": _TYPES + ("jwt" if wrong("exchange-type") else "id-jag"),
            "audience": self._url
            if wrong("exchange-audience")
            else "{0.scheme}://{0.netloc}".format(urlsplit(str(self._metadata["issuer"])))
            if wrong("exchange-audience-origin")
            else str(self._metadata["issuer"]),
            "resource": self._origin + "/other" if wrong("exchange-resource") else self._url,
            "subject_token": str(context["idp_id_token"]),
            "subject_token_type": _TYPES + ("access_token" if wrong("exchange-subject") else "id_token"),
            "client_id": "nobody" if wrong("exchange-unknown") else str(context["idp_client_id"]),
        }
        if "idp_client_secret" in context and not wrong("exchange-without-secret"):
            form["client_secret"] = str(context["idp_client_secret"])
        if wrong("exchange-without-resource"):
            del form["resource"]
        typed = {"Content-Type": "application/x-www-form-urlencoded"}
        status, _, body = fetch("POST", str(context["idp_token_endpoint"]), typed, urlencode(form).encode())
        found = json.loads(body)
        if status != 200 or (wrong("exchange-not-n-a") and found.get("token_type") == "N_A"):
            raise ClientError(f"exchange: status {status}")
        fields = {"assertion": str(found["access_token"]), "scope": self._challenge.get("scope", "")}
        if wrong("id-jag-as-token"):
            self._token = str(found["access_token"])
            return
        if wrong("employee-idp-client"):
            context = {"client_id": context["idp_client_id"]}
        grant = "urn:example:jwt" if wrong("employee-grant") else _JWT_BEARER
        try:
            self._ask(grant, fields, None if wrong("employee-unproved") else context)
        except ClientError:
            if not wrong("employee-refused-consents"):
                raise
            self._by_user(401)
