"""Operators on DPoP proofs."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from joserfc import jws
from joserfc.jwk import ECKey, OctKey

from mutants.generated.login_proxy import LoginMutation
from mutants.generated.logins.access_tokens import token_of, with_authorization
from mutants.generated.logins.json_objects import jwt_part, setting
from mutants.generated.logins.operator import login_operator, login_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.generated.fault import Operator
    from mutants.generated.login_proxy import LoginRequest

__all__ = ["PROOF_OPERATORS"]


def _public(key: ECKey, *, private: bool = False) -> JsonObject:
    return {name: str(value) for name, value in key.as_dict(private=private).items()}


class _ProofMutation(LoginMutation):
    """A change of the DPoP proofs of a client, which are signed again, always with the same other key.

    Args:
        change: Changes the header and the claims of a proof; the third argument is the token, or the empty string.
        sign: Signs the header and the claims; `None`: with the own key.
        where: The kind of requests whose proofs are changed; empty: all.
    """

    def __init__(
        self,
        change: Callable[[JsonObject, JsonObject, str], None],
        sign: Callable[[JsonObject, JsonObject], str] | None = None,
        where: str = "",
    ) -> None:
        self._change: Final = change
        self._key: Final = ECKey.generate_key("P-256")
        self._sign: Final = sign or (
            lambda header, claims: jws.serialize_compact(header, json.dumps(claims), self._key)
        )
        self._where: Final = where

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the request with the changed proof."""
        held = request.header("dpop")
        if held is None:
            return None
        header, claims = jwt_part(held, 0), jwt_part(held, 1)
        header["jwk"] = {**_public(self._key)}
        if self._where not in ("", request.kind):
            return request.with_header("DPoP", jws.serialize_compact(header, json.dumps(claims), self._key))
        if request.kind == "mcp" or not self._where:
            self._change(header, claims, token_of(request) if request.kind == "mcp" else "")
        if header.get("jwk") == "private":
            header["jwk"] = {**_public(self._key, private=True)}
        return request.with_header("DPoP", self._sign(header, claims))


def _claim(name: str, change: Callable[[str], JsonValue]) -> Callable[[JsonObject, JsonObject, str], None]:
    def changed(_: JsonObject, claims: JsonObject, __: str) -> None:
        if name in claims:
            claims[name] = change(str(claims[name]))

    return changed


def _hash(change: Callable[[bytes], str]) -> Callable[[JsonObject, JsonObject, str], None]:
    def changed(_: JsonObject, claims: JsonObject, token: str) -> None:
        if token:
            claims["ath"] = change(hashlib.sha256(token.encode()).digest())

    return changed


def _unsigned(header: JsonObject, claims: JsonObject) -> str:
    parts = [json.dumps({**header, "alg": "none"}), json.dumps(claims)]
    return ".".join(base64.urlsafe_b64encode(each.encode()).decode().rstrip("=") for each in parts) + "."


def _symmetric(header: JsonObject, claims: JsonObject) -> str:
    key = OctKey.generate_key(256)
    return jws.serialize_compact({**header, "alg": "HS256"}, json.dumps(claims), key)


def _by_another(header: JsonObject, claims: JsonObject) -> str:
    """Sign with a key that is not the one in the header."""
    return jws.serialize_compact(header, json.dumps(claims), ECKey.generate_key("P-256"))


def _by_new_key(header: JsonObject, claims: JsonObject) -> str:
    key = ECKey.generate_key("P-256")
    return jws.serialize_compact({**header, "jwk": {**_public(key)}}, json.dumps(claims), key)


def _nothing(header: JsonObject, claims: JsonObject, token: str) -> None:
    """Change nothing."""


_PROOFS: Final[tuple[tuple[str, str, Callable[[JsonObject, JsonObject, str], None], str], ...]] = (
    ("jti-absent", "`jti` is absent", setting("claims", jti=None), ""),
    ("jti-empty", "`jti` is empty", setting("claims", jti=""), ""),
    ("jti-same", "all proofs have the same `jti`", setting("claims", jti="the-same-identifier"), ""),
    ("jti-number", "`jti` is a number", setting("claims", jti=12345678), ""),
    ("htm-absent", "`htm` is absent", setting("claims", htm=None), ""),
    ("htm-lower", "`htm` is in lower case", _claim("htm", str.lower), ""),
    ("htm-other", "`htm` is another method", setting("claims", htm="GET"), ""),
    ("htu-absent", "`htu` is absent", setting("claims", htu=None), ""),
    ("htu-query", "`htu` has a query", _claim("htu", lambda url: f"{url}?a=b"), ""),
    ("htu-fragment", "`htu` has a fragment", _claim("htu", lambda url: f"{url}#a"), ""),
    (
        "htu-origin",
        "`htu` is only the origin",
        _claim("htu", lambda url: "{0.scheme}://{0.netloc}".format(urlsplit(url))),
        "",
    ),
    ("htu-path", "`htu` is only the path", _claim("htu", lambda url: urlsplit(url).path), ""),
    ("htu-below", "`htu` has another path", _claim("htu", lambda url: f"{url}/other"), ""),
    ("htu-host", "`htu` has another host", _claim("htu", lambda url: url.replace("://", "://other.", 1)), ""),
    ("iat-absent", "`iat` is absent", setting("claims", iat=None), ""),
    ("iat-text", "`iat` is a text", _claim("iat", str), ""),
    ("iat-old", "`iat` is an hour ago", _claim("iat", lambda text: int(text) - 3600), ""),
    ("iat-future", "`iat` is in an hour", _claim("iat", lambda text: int(text) + 3600), ""),
    ("iat-milliseconds", "`iat` is in milliseconds", _claim("iat", lambda text: int(text) * 1000), ""),
    ("ath-absent", "`ath` is absent", setting("claims", ath=None), ""),
    ("ath-hex", "`ath` is hexadecimal", _hash(bytes.hex), ""),
    ("ath-padded", "`ath` has padding", _hash(lambda found: base64.urlsafe_b64encode(found).decode()), ""),
    (
        "ath-token",
        "`ath` is the token",
        lambda _, claims, token: claims.update({"ath": token} if token else {}),
        "",
    ),
    ("typ-absent", "`typ` is absent", setting("header", typ=None), ""),
    ("typ-jwt", "`typ` is JWT", setting("header", typ="JWT"), ""),
    ("jwk-absent", "the header has no key", setting("header", jwk=None), ""),
    ("jwk-private", "the header has the private key", setting("header", jwk="private"), ""),
    ("nonce-other", "the nonce is another one", _claim("nonce", lambda text: f"{text}-other"), ""),
    ("nonce-absent", "the nonce is absent", setting("claims", nonce=None), ""),
    (
        "iat-fraction",
        "`iat` has a fraction",
        _claim("iat", lambda text: int(text) + 0.5),
        "A NumericDate may be a non-integer value (RFC 7519).",
    ),
    (
        "claim-extra",
        "the proof has another claim",
        setting("claims", extra={"a": 1}),
        "A proof may have other claims (RFC 9449, section 4.2).",
    ),
)
"""The changes of proofs."""

_SIGNATURES: Final[tuple[tuple[str, str, Callable[[JsonObject, JsonObject], str]], ...]] = (
    ("unsigned", "proofs are not signed", _unsigned),
    ("symmetric", "proofs are signed with a symmetric key", _symmetric),
    ("key-other", "proofs are signed with a key other than the one in the header", _by_another),
    ("key-new", "each proof has a new key", _by_new_key),
)


class _ProofHeader(LoginMutation):
    """A change of the headers with a proof, for one kind of request."""

    def __init__(self, kind: str, change: Callable[[LoginRequest], LoginRequest]) -> None:
        self._kind: Final = kind
        self._change: Final = change

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the changed request."""
        concerned = request.kind == self._kind and request.header("dpop") is not None
        return self._change(request) if concerned else None


_UNBOUND: Final = (
    "Without a proof the client gets no bound token: it is a client without the extension, which is optional."
)


def _operators() -> Iterable[Operator]:
    targets = login_targets("proof")
    for name, summary, change, invisible in _PROOFS:
        yield login_operator(f"proof-{name}", summary, targets, partial(_ProofMutation, change), invisible=invisible)
    for name, summary, sign in _SIGNATURES:
        yield login_operator(f"proof-{name}", summary, targets, partial(_ProofMutation, _nothing, sign))
    absent: Callable[[LoginRequest], LoginRequest] = lambda request: request.with_header("DPoP")  # noqa: E731  a row
    for kind, invisible in (("token", _UNBOUND), ("mcp", "")):
        yield login_operator(
            f"proof-absent-{kind}",
            f"{kind} requests have no proof",
            targets,
            partial(_ProofHeader, kind, absent),
            invisible=invisible,
        )
    yield login_operator(
        "proof-twice",
        "a request has two proofs",
        targets,
        partial(
            _ProofHeader,
            "mcp",
            lambda request: request.with_header("DPoP", *([request.header("dpop") or ""] * 2)),
        ),
    )
    yield login_operator(
        "proof-as-bearer",
        "a bound token has the scheme Bearer",
        targets,
        partial(_ProofHeader, "mcp", with_authorization(lambda _, token: (f"Bearer {token}",))),
    )


PROOF_OPERATORS: Final = tuple(_operators())
"""The operators on proofs."""
