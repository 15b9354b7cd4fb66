"""The certificate of an HTTPS server: read from files, and reloaded when they change.

Certificates are renewed every few weeks by programs that replace the files. Therefore each handshake checks whether
the files have changed, which costs far less than the handshake itself. New connections use the new certificate and key.
Open connections keep theirs.

A changed pair is loaded into a new context and used only if certificate and key match. After the certificate is written
and before the key is written, they do not match, and the previous pair stays in use.
"""

from __future__ import annotations

import logging
import os
import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["tls_context"]

_log: Final = logging.getLogger("mcp_server")


def tls_context(
    cert: str | Path | None,
    key: str | Path | None,
    *,
    alpn: Sequence[str] = ("http/1.1",),
    ciphers: str | None = None,
) -> ssl.SSLContext | None:
    """Return a context for HTTPS whose new connections use the current content of the files.

    Args:
        cert: The file with the certificate. `None`: no HTTPS.
        key: The file with the private key. `None`: the key is in the file of the certificate.
        alpn: The protocols to offer by ALPN.
        ciphers: The ciphers of TLS 1.2, in OpenSSL format. `None`: the defaults.

    Returns:
        The context; `None` if `cert` is `None`.

    Raises:
        ValueError: `key` is given without `cert`.
        OSError: A file cannot be read, or is not a valid certificate or key.
    """
    if cert is None:
        if key is not None:
            raise ValueError("tls_key needs tls_cert: set tls_cert to the certificate of the key")
        return None
    files = _CertificateFiles(cert, key, alpn=alpn, ciphers=ciphers)
    context = files.load()
    context.sni_callback = files.choose
    return context


class _CertificateFiles:
    """A certificate and its key in files.

    Args:
        cert: The file with the certificate.
        key: The file with the private key. `None`: the key is in the file of the certificate.
        alpn: The protocols to offer by ALPN.
        ciphers: The ciphers of TLS 1.2, in OpenSSL format. `None`: the defaults.
    """

    def __init__(self, cert: str | Path, key: str | Path | None, *, alpn: Sequence[str], ciphers: str | None) -> None:
        self._cert: Final = cert
        self._key: Final = key
        self._alpn: Final = list(alpn)
        self._ciphers: Final = ciphers
        self._names: Final = str(cert) if key is None else f"{cert} and {key}"
        self._read: object = None
        self._context: ssl.SSLContext | None = None
        self._failure = ""

    def load(self, password: Callable[[], str] | None = None) -> ssl.SSLContext:
        """Read the files into a new context.

        Args:
            password: Returns the password of the key. `None`: OpenSSL prompts for it on the terminal.

        Raises:
            OSError: A file cannot be read, or is not a valid certificate or key.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(self._alpn)
        if self._ciphers is not None:
            context.set_ciphers(self._ciphers)
        try:
            self._read = self._state()
            context.load_cert_chain(self._cert, self._key, password)
        except OSError as error:
            # The error of the system does not name the file.
            raise OSError(
                error.errno, f"cannot load the certificate from {self._names}: {error.strerror or error}"
            ) from error
        self._context = context
        return context

    def choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:  # noqa: ARG002  # signature of sni_callback
        """Use the current certificate for a handshake. OpenSSL also calls this method for clients that send no name."""
        try:
            if self._state() != self._read:
                self.load(_no_password)
                self._failure = ""
                _log.info("certificate reloaded: files=%s", self._names)
        except (OSError, ValueError) as error:
            # Log each failure once, not in each handshake.
            if str(error) != self._failure:
                self._failure = str(error)
                _log.error("certificate not reloaded, the previous one stays in use: error=%s", error)
        if self._context is not None:
            connection.context = self._context

    def _state(self) -> object:
        """Return a value that changes when the files change. Raises `OSError` if a file does not exist."""
        states = [os.stat(each) for each in (self._cert, self._key) if each is not None]
        return [(each.st_mtime_ns, each.st_size, each.st_ino) for each in states]


def _no_password() -> str:
    # A prompt would block the server.
    raise ValueError("the key is encrypted: restart the server to enter its password")
