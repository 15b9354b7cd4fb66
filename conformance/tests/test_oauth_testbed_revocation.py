"""Tests of the revocation endpoint of the OAuth testbed: an access token may be sent there, in one field only."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from raw_oauth_client import RawOAuthClient

from mcp_conformance.oauth_testbed.http_messages import Response
from mcp_conformance.oauth_testbed.quirks import ABSENT, Quirks
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed

LEAK = "auth.no-cross-as-credentials"
JSON = ("Content-Type", "application/json")


def logged_in(quirks: Quirks | None = None) -> RawOAuthClient:
    client = RawOAuthClient(OAuthTestbed(quirks))
    client.run_flow()
    assert client.testbed.violations == []
    return client


def revoke(
    client: RawOAuthClient, *headers: tuple[str, str], url: str = "{server}/revoke", more: str = "", **fields: str
) -> Response:
    """Send a revocation request, by default the right one for the access token."""
    form = {"token": client.access, "client_id": client.client_id, **fields}
    return client.post(form, *headers, url=client.testbed.places.fill(url), more=more)


def violated(client: RawOAuthClient) -> list[str]:
    return [violation.requirement for violation in client.testbed.violations]


@pytest.mark.parametrize("name", ["access", "refresh"])
def test_revocation_at_own_issuer_is_no_leak_and_revokes_all_tokens(name: str) -> None:
    client = logged_in()
    token = {"access": client.access, "refresh": client.refresh}[name]

    response = revoke(client, token=token, token_type_hint=f"{name}_token")

    assert (response.status, violated(client)) == (200, [])
    assert client.call("ping", client.bearer()).status == 401
    assert client.refresh_tokens().status == 400


def test_revocation_again_succeeds_without_violation() -> None:
    client = logged_in()

    assert [revoke(client).status for _ in range(2)] == [200, 200]
    assert violated(client) == []


def test_revocation_of_expired_token_is_no_leak() -> None:
    client = logged_in()
    client.testbed.server.tokens.expire()

    assert (revoke(client).status, violated(client)) == (200, [])


def test_revocation_at_former_issuer_is_no_leak() -> None:
    client = logged_in()
    client.testbed.migrate()

    assert (revoke(client).status, violated(client)) == (200, [])


LEAKS: dict[str, Callable[[RawOAuthClient], object]] = {
    "in the query": lambda it: revoke(it, url=f"{{server}}/revoke?{urlencode({'token': it.access})}", token="x"),
    "also in the query": lambda it: revoke(it, url=f"{{server}}/revoke?token={it.access}"),
    "at another issuer": lambda it: revoke(it, url="{other}/revoke", client_id="none"),
    "at another server": lambda it: it.send("GET", f"{it.testbed.places.other}/?token={it.access}"),
    "in another field": lambda it: revoke(it, token="x", access_token=it.access),
    "also in another field": lambda it: revoke(it, token_type_hint=it.access),
    "in the name of a field": lambda it: revoke(it, more=f"&{it.access}=1"),
    "as authorization": lambda it: revoke(it, it.bearer(), token="x"),
    "also as authorization": lambda it: revoke(it, it.bearer()),
    "in another header": lambda it: revoke(it, ("X-Debug", it.access)),
    "in JSON": lambda it: revoke(it, JSON),
    "in a GET": lambda it: it.send("GET", f"{it.testbed.places.server}/revoke?token={it.access}"),
    "in a PUT": lambda it: it.post({"token": it.access}, url=f"{it.testbed.places.server}/revoke", method="PUT"),
    "at the token endpoint": lambda it: revoke(it, url="{server}/token", grant_type="x", resource=it.testbed.places.resource),
    "at a URL below": lambda it: it.send(
        "POST",
        f"{it.testbed.places.server}/revoke/other",
        ("Content-Type", "application/x-www-form-urlencoded"),
        body=f"token={it.access}".encode(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("action", LEAKS.values(), ids=LEAKS.keys())
def test_token_elsewhere_than_in_field_of_revocation_is_leak(action: Callable[[RawOAuthClient], object]) -> None:
    client = logged_in()

    action(client)

    assert violated(client) == [LEAK]


def test_token_twice_in_revocation_is_leak_and_repeated_field() -> None:
    client = logged_in()

    revoke(client, more=f"&token={client.access}")

    assert violated(client) == [LEAK, "auth.oauth21-security"]


@pytest.mark.parametrize(
    "quirks",
    [
        Quirks(server_metadata={"revocation_endpoint": ABSENT}),
        Quirks(server_metadata={"revocation_endpoint": "{server}/other"}),
        Quirks(server_metadata={"revocation_endpoint": "{other}/revoke"}),
    ],
    ids=["absent", "another path", "another issuer"],
)
def test_revocation_at_unannounced_endpoint_is_leak(quirks: Quirks) -> None:
    client = logged_in(quirks)

    client.send(
        "POST",
        f"{client.testbed.places.server}/revoke",
        ("Content-Type", "application/x-www-form-urlencoded"),
        body=f"token={client.access}&client_id={client.client_id}".encode(),
    )

    assert violated(client) == [LEAK]
    assert client.call("ping", client.bearer()).status == 200


def test_revocation_endpoint_of_another_issuer_in_metadata_gets_no_token() -> None:
    client = logged_in(Quirks(server_metadata={"revocation_endpoint": "{other}/revoke"}))

    revoke(client, url="{other}/revoke", client_id="none")

    assert violated(client) == [LEAK]


def test_revocation_at_announced_path_is_no_leak() -> None:
    client = logged_in(Quirks(server_metadata={"revocation_endpoint": "{server}/other"}))

    assert (revoke(client, url="{server}/other").status, violated(client)) == (200, [])


def test_revocation_endpoint_without_metadata_is_unknown() -> None:
    assert OAuthTestbed(Quirks(server_metadata_at=())).server.revocation.url is None


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"client_id": "none"}, 401), ({"client_id": "another"}, 400), ({"token": "unknown"}, 200)],
    ids=["unknown client", "another client", "unknown token"],
)
def test_revocation_by_wrong_client_or_of_unknown_token_revokes_nothing(fields: dict[str, str], status: int) -> None:
    client = logged_in()
    client.testbed.register({"client_id": "another"})

    assert (revoke(client, **fields).status, violated(client)) == (status, [])
    assert client.call("ping", client.bearer()).status == 200
