"""The `WWW-Authenticate` header: a lenient reader, and an exact writer.

*Reading.* Several challenges may stand in one line, and several lines in one answer. A comma separates challenges as well
as parameters, so only what follows a word tells what it is: with `=` behind it, it is a parameter, else a scheme. Beyond
the grammar the reader takes values without quotes whatever characters they have (URLs above all), spaces around `=`,
parameters without commas between them, a quote that never ends, and skips what makes no sense. It does not fail.

Spec: basic/authorization; RFC 9110 section 11.6.1, RFC 6750 section 3, RFC 9728 section 5.1, RFC 9449 section 7.1
"""

from __future__ import annotations

import re
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

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
"""How much of a line is read. Real ones have some hundred characters; 32 KiB of schemes would take 50 milliseconds."""

_CHALLENGES: Final = 32
"""How many challenges are read."""

_WRITTEN_NAME: Final = re.compile(_TOKEN)
_WRITTEN_VALUE: Final = re.compile(r"[ -~]*")
_SCOPE_TOKEN: Final = re.compile(r"[!#-\[\]-~]+")

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class Challenge:
    """One challenge of a server."""

    scheme: str
    """As it came; compare it with `is_scheme`."""
    parameters: Mapping[str, str] = _NOTHING
    """By name in lower case. Of several with one name the first counts."""
    token68: str | None = None
    """What stands behind the scheme in place of parameters, as in `Negotiate YII...`."""

    def is_scheme(self, name: str) -> bool:
        """Whether it is of the scheme, in whatever case."""
        return self.scheme.lower() == name.lower()

    @property
    def resource_metadata(self) -> str | None:
        """Where the metadata of the protected resource are. Spec: RFC 9728 section 5.1"""
        return self.parameters.get("resource_metadata") or None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that the request needs; empty when the challenge does not say."""
        return split_scope(self.parameters.get("scope", ""))

    @property
    def error(self) -> str | None:
        """Why the request was refused, as `invalid_token`; `None` when it had no token."""
        return self.parameters.get("error") or None

    @property
    def wants_more_scope(self) -> bool:
        """Whether the token is good, and does not suffice. Spec: basic/authorization#step-up"""
        return self.error == "insufficient_scope"

    @property
    def wants_nonce(self) -> bool:
        """Whether the proof lacks the server's nonce. Spec: RFC 9449 section 9"""
        return self.error == "use_dpop_nonce"


def split_scope(value: str) -> tuple[str, ...]:
    """The scopes in a value, each once, in their order."""
    return tuple(dict.fromkeys(value.split()))


def read_challenges(values: Iterable[str]) -> tuple[Challenge, ...]:
    """Reads the values of all `WWW-Authenticate` header lines of an answer: of each 8 KiB, and 32 challenges in all."""
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
    """The challenge that counts.

    Args:
        challenges: All of them.
        schemes: What the client can do, the best first: `("DPoP", "Bearer")` with a key to prove.

    Returns:
        The first one of the best scheme that is offered; `None` when there is none. Of several with the scheme, one that
        names the metadata of the resource goes first.
    """
    for scheme in schemes:
        offered = [each for each in challenges if each.is_scheme(scheme)]
        if offered:
            return next((each for each in offered if each.resource_metadata), offered[0])
    return None


def write_challenge(scheme: str, parameters: Mapping[str, str]) -> str:
    """Writes one challenge, with all values in quotes.

    Args:
        scheme: As `Bearer`.
        parameters: In the order in which they are to be written. `scope` is held against RFC 6750 section 3.

    Returns:
        The value of a header line of its own.

    Raises:
        ValueError: A name, a value or a scope has a character that must not stand there.
    """
    for name in (scheme, *parameters):
        if not _WRITTEN_NAME.fullmatch(name):
            raise ValueError(f"{name!a} is no name that a challenge can have")
    written = []
    for name, value in parameters.items():
        if not _WRITTEN_VALUE.fullmatch(value):
            raise ValueError(f"the value of {name} has a character beyond printable ASCII: {value!a}")
        if name == "scope" and not all(_SCOPE_TOKEN.fullmatch(each) for each in value.split(" ")):
            raise ValueError(f"scope {value!a} is no list of scopes with one space between them")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        written.append(f'{name}="{escaped}"')
    return f"{scheme} {', '.join(written)}" if written else scheme
