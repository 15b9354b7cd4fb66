"""The `WWW-Authenticate` header: a lenient reader, and a strict writer.

*Reading.* A header line may contain several challenges, and a response several lines. A comma separates challenges as
well as parameters, so only the text after a word determines its meaning: with `=` after it the word is a parameter,
otherwise a scheme. Beyond the grammar the reader accepts unquoted values with any characters (URLs above all), spaces
around `=`, parameters without commas between them, and an unterminated quoted string. It skips unreadable text and
never raises.

Spec: basic/authorization; RFC 9110 section 11.6.1, RFC 6750 section 3, RFC 9728 section 5.1, RFC 9449 section 7.1
"""

from __future__ import annotations

import re
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Challenge", "choose_challenge", "read_challenges", "split_scope", "write_challenge"]

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER: Final = re.compile(rf'({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)(?:"|\\?\Z)|([^\s,"]*))', re.DOTALL)
_SCHEME: Final = re.compile(rf"({_TOKEN})(?=[\s,]|\Z)")
_TOKEN68: Final = re.compile(r"[ \t]+([A-Za-z0-9._~+/-]+=*)(?=[ \t]*(?:,|\Z))")
_SKIPPED: Final = re.compile(r"[\s,]+")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)

_LINE_CHARS: Final = 8 * 1024
"""Characters of a line that are read. Real lines have a few hundred; 32 KiB of schemes would take 50 milliseconds."""

_CHALLENGES: Final = 32
"""The maximum number of challenges that are read."""

_WRITTEN_NAME: Final = re.compile(_TOKEN)
_WRITTEN_VALUE: Final = re.compile(r"[ -~]*")
_SCOPE_TOKEN: Final = re.compile(r"[!#-\[\]-~]+")

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Challenge(FieldValue):
    """A challenge of a server."""

    scheme: str
    """The scheme as received. Compare it with `is_scheme`."""
    parameters: Mapping[str, str] = _NOTHING
    """The values, by name in lower case. If a name is repeated, the first value counts."""
    token68: str | None = None
    """The text after the scheme instead of parameters, as in `Negotiate YII...`."""

    def is_scheme(self, name: str) -> bool:
        """Return whether the challenge has the given scheme. Case is ignored."""
        return self.scheme.lower() == name.lower()

    @property
    def resource_metadata(self) -> str | None:
        """The URL of the metadata of the protected resource. Spec: RFC 9728 section 5.1"""
        return self.parameters.get("resource_metadata") or None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that the request requires; empty if the challenge names none."""
        return split_scope(self.parameters.get("scope", ""))

    @property
    def error(self) -> str | None:
        """The error of the request, for example `invalid_token`; `None` if the request had no token."""
        return self.parameters.get("error") or None

    @property
    def wants_more_scope(self) -> bool:
        """Whether the token is valid but has insufficient scope. Spec: basic/authorization#step-up"""
        return self.error == "insufficient_scope"

    @property
    def wants_nonce(self) -> bool:
        """Whether the proof lacks the server's nonce. Spec: RFC 9449 section 9"""
        return self.error == "use_dpop_nonce"


def split_scope(value: str) -> tuple[str, ...]:
    """Return the scopes in a value without duplicates, in order."""
    return tuple(dict.fromkeys(value.split()))


def read_challenges(values: Iterable[str]) -> tuple[Challenge, ...]:
    """Read the values of all `WWW-Authenticate` lines of a response, up to 8 KiB of each, and 32 challenges in all."""
    found = (challenge for value in values for challenge in _read_line(value[:_LINE_CHARS]))
    return tuple(islice(found, _CHALLENGES))


def _read_line(value: str) -> Iterable[Challenge]:
    scheme, token68, parameters = "", None, dict[str, str]()
    position = 0
    while position < len(value):
        skipped = _SKIPPED.match(value, position)
        if skipped is not None:
            position = skipped.end()
            continue
        found = _PARAMETER.match(value, position) if scheme else None
        if found is not None:
            quoted, plain = found[2], found[3]
            parameters.setdefault(found[1].lower(), plain if quoted is None else _ESCAPED.sub(r"\1", quoted))
        else:
            found = _SCHEME.match(value, position)
            if found is not None:
                if scheme:
                    yield Challenge(scheme=scheme, parameters=MappingProxyType(parameters), token68=token68)
                scheme, token68, parameters = found[1], None, {}
                behind = _TOKEN68.match(value, found.end())
                if behind is not None:
                    token68, found = behind[1], behind
        position = position + 1 if found is None else found.end()
    if scheme:
        yield Challenge(scheme=scheme, parameters=MappingProxyType(parameters), token68=token68)


def choose_challenge(challenges: Sequence[Challenge], *, schemes: Sequence[str] = ("Bearer",)) -> Challenge | None:
    """Return the challenge to respond to.

    Args:
        challenges: All challenges of the response.
        schemes: The schemes that the client supports, the best first: `("DPoP", "Bearer")` for a client with a key.

    Returns:
        The first challenge of the best scheme; `None` if no scheme is supported. If several challenges have the scheme,
        one that names the metadata of the resource is preferred.
    """
    for scheme in schemes:
        offered = [each for each in challenges if each.is_scheme(scheme)]
        if offered:
            return next((each for each in offered if each.resource_metadata), offered[0])
    return None


def write_challenge(scheme: str, parameters: Mapping[str, str]) -> str:
    """Write one challenge, with all values quoted.

    Args:
        scheme: The scheme, for example `Bearer`.
        parameters: The parameters, in order. `scope` is checked against RFC 6750 section 3.

    Returns:
        The value of one header line.

    Raises:
        ValueError: A name, a value or a scope contains a character that is not allowed.
    """
    for name in (scheme, *parameters):
        if not _WRITTEN_NAME.fullmatch(name):
            raise ValueError(f"{name!a} is not a valid name in a challenge")
    written = []
    for name, value in parameters.items():
        if not _WRITTEN_VALUE.fullmatch(value):
            raise ValueError(f"the value of {name} contains a character that is not printable ASCII: {value!a}")
        if name == "scope" and not all(_SCOPE_TOKEN.fullmatch(each) for each in value.split(" ")):
            raise ValueError(f"scope {value!a} is not a list of scopes separated by single spaces")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        written.append(f'{name}="{escaped}"')
    return f"{scheme} {', '.join(written)}" if written else scheme
