"""TLS: trusted authorities, the client certificate, and explanations of errors."""

from __future__ import annotations

import os
import ssl
import sys
from typing import Final

import attrs

from mcp_core.errors import LocalProtocolError
from mcp_core.field_methods import FieldValue

__all__ = ["Tls", "explain", "make_context"]

_ALPN: Final = ["http/1.1"]

_OWN_STORES: Final = ("darwin", "win32")
"""Platforms that do not keep the trusted authorities in files."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Tls(FieldValue):
    """Trusted authorities and the client certificate. By default, the system's authorities and no certificate."""

    ca_file: str | os.PathLike[str] | None = None
    """A file with the certificates (PEM) of the authorities to trust *instead of* those of the system."""
    certificate: str | os.PathLike[str] | None = None
    """A file with the client certificate (PEM) and its intermediates."""
    key: str | os.PathLike[str] | None = None
    """A file with the private key of the client certificate (PEM); `None` if the certificate file contains the key."""
    key_password: str | None = attrs.field(default=None, repr=False)
    """The password of the private key."""


def make_context(tls: ssl.SSLContext | Tls | None) -> ssl.SSLContext:
    """Return the TLS context. Certificates and host names are always checked, unless the caller passes its own context.

    Raises:
        LocalProtocolError: A file cannot be read or does not contain what it should.
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
            raise LocalProtocolError(f"cannot use the client certificate ({files}): {_describe(bad)}") from bad
    elif tls.key is not None:
        raise LocalProtocolError("Tls.key requires Tls.certificate; set Tls.certificate too")
    context.set_alpn_protocols(_ALPN)
    return context


def _no_password() -> str:
    # Without this function OpenSSL would prompt on the terminal.
    raise ValueError("the key is encrypted; set Tls.key_password")


def _trusting_system() -> ssl.SSLContext:
    if sys.platform not in _OWN_STORES and ssl.get_default_verify_paths().cafile is not None:
        # OpenSSL finds the system's authorities. truststore would read them for each connection: 25 ms of CPU.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_default_verify_paths()
        return context
    import truststore  # lazy: only for platforms that keep their authorities elsewhere

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _trusting(ca_file: str | os.PathLike[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=os.fspath(ca_file))
    except OSError as bad:
        raise LocalProtocolError(
            f"cannot use the file of trusted authorities {os.fspath(ca_file)}: {_describe(bad)}"
        ) from bad
    return context


def _describe(bad: OSError | ValueError) -> str:
    if isinstance(bad, ssl.SSLError):
        return getattr(bad, "reason", None) or "it is not a PEM file of that kind"
    return (bad.strerror if isinstance(bad, OSError) else None) or str(bad)


_DISTRUST: Final = {
    9: "its certificate is not valid yet; check the clock of this machine",
    10: "its certificate has expired",
    18: "its certificate is self-signed and not trusted; to trust it, set Tls.ca_file",
    19: "its certificate comes from an authority that is not trusted; to trust the authority, set Tls.ca_file",
    20: "its certificate comes from an authority that is not trusted; to trust the authority, set Tls.ca_file",
    21: "its certificate comes from an authority that is not trusted; to trust the authority, set Tls.ca_file",
    23: "its certificate was revoked",
    62: "its certificate is for another host name",
    64: "its certificate is for another IP address",
}
"""Explanations of the result codes of X509_verify_cert that a user can act on."""

_REASONS: Final = {
    "WRONG_VERSION_NUMBER": "the server does not use TLS on this port; try http:// instead of https://",
    "HTTP_REQUEST": "the server does not use TLS on this port; try http:// instead of https://",
    "RECORD_LAYER_FAILURE": "the server does not use TLS on this port; try http:// instead of https://",
    "UNSUPPORTED_PROTOCOL": "the server supports only TLS versions that are too old",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the server does not support the TLS versions that this client allows",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server requires a client certificate; set Tls.certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the server rejects the client certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "the server does not trust the client certificate",
}
"""Explanations of OpenSSL reasons."""


def explain(error: BaseException | None) -> str | None:
    """Return why TLS failed, as text, from an exception or its causes; `None` if the failure is not a TLS failure."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            # On platforms other than Linux, OpenSSL does not check certificates, and only the text of the error is
            # known.
            code: int = getattr(error, "verify_code", 0)
            return _DISTRUST.get(code) or f"its certificate was rejected: {getattr(error, 'verify_message', error)}"
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            # Only errors that OpenSSL raised have a reason.
            reason: str = getattr(error, "reason", None) or ""
            return _REASONS.get(reason) or f"TLS failed: {reason or error.strerror}"
        error = error.__cause__
    return None
