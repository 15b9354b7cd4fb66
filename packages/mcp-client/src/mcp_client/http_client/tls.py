"""TLS: whom to trust, who we are, and what went wrong in plain words."""

from __future__ import annotations

import os
import ssl
import sys
from typing import Final

import attrs

from mcp_core.errors import LocalProtocolError

__all__ = ["Tls", "explain", "make_context"]

_ALPN: Final = ["http/1.1"]

_OWN_STORES: Final = ("darwin", "win32")
"""Systems that do not keep their authorities in files."""


@attrs.frozen(kw_only=True)
class Tls:
    """Whom to trust, and who we are. Without anything: whom the system trusts, and nobody."""

    ca_file: str | os.PathLike[str] | None = None
    """A file with the certificates (PEM) of the authorities to trust *instead of* those of the system."""
    certificate: str | os.PathLike[str] | None = None
    """A file with the certificate (PEM) that this client shows, with its intermediates."""
    key: str | os.PathLike[str] | None = None
    """A file with its private key (PEM); `None`: it is in the file of the certificate."""
    key_password: str | None = attrs.field(default=None, repr=False)
    """What the key is encrypted with."""


def make_context(tls: ssl.SSLContext | Tls | None) -> ssl.SSLContext:
    """What connections are secured with. Certificates and names are always checked, except by an own context.

    Raises:
        LocalProtocolError: A file cannot be read, or is not what it should be.
    """
    if tls is None:
        tls = Tls()
    elif not isinstance(tls, Tls):
        return tls
    context = _trusting_system() if tls.ca_file is None else _trusting(tls.ca_file)
    if tls.certificate is not None:
        try:
            context.load_cert_chain(tls.certificate, tls.key, password=tls.key_password or _no_password)
        except (OSError, ValueError) as bad:
            files = " and ".join(os.fspath(each) for each in (tls.certificate, tls.key) if each is not None)
            raise LocalProtocolError(f"the client certificate ({files}) cannot be used: {_told(bad)}") from bad
    elif tls.key is not None:
        raise LocalProtocolError("Tls.key is of no use without Tls.certificate")
    context.set_alpn_protocols(_ALPN)
    return context


def _no_password() -> str:
    # Instead of asking on the terminal, as OpenSSL would.
    raise ValueError("the key is encrypted; set Tls.key_password")


def _trusting_system() -> ssl.SSLContext:
    if sys.platform not in _OWN_STORES and ssl.get_default_verify_paths().cafile is not None:
        # OpenSSL finds what the system trusts. truststore would read it anew for each connection: 25 ms of CPU.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_default_verify_paths()
        return context
    import truststore  # lazy: only where the system keeps its authorities elsewhere

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _trusting(ca_file: str | os.PathLike[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=os.fspath(ca_file))
    except OSError as bad:
        raise LocalProtocolError(
            f"the file of trusted authorities {os.fspath(ca_file)} cannot be used: {_told(bad)}"
        ) from bad
    return context


def _told(bad: OSError | ValueError) -> str:
    if isinstance(bad, ssl.SSLError):
        return getattr(bad, "reason", None) or "it is no PEM file of that kind"
    return (bad.strerror if isinstance(bad, OSError) else None) or str(bad)


_DISTRUST: Final = {
    9: "its certificate is not valid yet; is the clock of this machine right?",
    10: "its certificate has expired",
    18: "its certificate is self-signed, and not trusted here; Tls.ca_file can name it",
    19: "its certificate comes from an authority that is not trusted here; Tls.ca_file can name it",
    20: "its certificate comes from an authority that is not trusted here; Tls.ca_file can name it",
    21: "its certificate comes from an authority that is not trusted here; Tls.ca_file can name it",
    23: "its certificate was revoked",
    62: "its certificate is for another name",
    64: "its certificate is for another address",
}
"""What the result codes of X509_verify_cert mean that a user can do something about."""

_REASONS: Final = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS there; is it http:// instead of https://?",
    "HTTP_REQUEST": "it does not speak TLS there; is it http:// instead of https://?",
    "RECORD_LAYER_FAILURE": "it does not speak TLS there; is it http:// instead of https://?",
    "UNSUPPORTED_PROTOCOL": "it speaks only versions of TLS that are too old",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it does not speak the versions of TLS that are allowed here",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a client certificate; see Tls.certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses our client certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust our client certificate",
}
"""What the reasons of OpenSSL mean."""


def explain(error: BaseException | None) -> str | None:
    """Why TLS failed, in words, from what trio raised or from its cause; `None` if it was not TLS that failed."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            # On other systems than Linux the check is not made by OpenSSL, and only its words are known.
            code: int = getattr(error, "verify_code", 0)
            return _DISTRUST.get(code) or f"its certificate was refused: {getattr(error, 'verify_message', error)}"
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            # Only what OpenSSL raised has a reason.
            reason: str = getattr(error, "reason", None) or ""
            return _REASONS.get(reason) or f"TLS failed: {reason or error.strerror}"
        error = error.__cause__
    return None
