"""The certificate of an HTTPS server: read from files, and read again when they change.

Certificates are renewed every few weeks, by programs that replace the files. So the files are looked at in each handshake, which
costs far less than the handshake, and a new pair is used from the next connection on. Connections that are open keep theirs.

A changed pair goes into a context of its own, and only once it is whole: between the writing of the certificate and that
of the key, the two do not belong together, and the pair before stays in use.
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
    """Return a context for HTTPS whose new connections get the certificate that the files hold; `None` without one.

    Args:
        cert: The file with the certificate.
        key: The file with its key; `None`: it is in the same file.
        alpn: The protocols to offer.
        ciphers: Those of TLS 1.2; `None`: the defaults.

    Raises:
        ValueError: There is a key, but no certificate.
        OSError: A file cannot be read, or is not what it should be.
    """
    if cert is None:
        if key is not None:
            raise ValueError("tls_key needs tls_cert: a key is for a certificate")
        return None
    files = _CertificateFiles(cert, key, alpn=alpn, ciphers=ciphers)
    context = files.load()
    context.sni_callback = files.choose
    return context


class _CertificateFiles:
    """A certificate and its key, as they are in files now.

    Args:
        cert: The file with the certificate.
        key: The file with its key; `None`: it is in the same file.
        alpn: The protocols to offer.
        ciphers: Those of TLS 1.2; `None`: the defaults.
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
        """Read the files.

        Args:
            password: Gives the password of the key; `None`: OpenSSL asks for it on the terminal.

        Raises:
            OSError: One of them cannot be read, or is not what it should be.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(self._alpn)
        if self._ciphers is not None:
            context.set_ciphers(self._ciphers)
        try:
            self._read = self._state()
            context.load_cert_chain(self._cert, self._key, password)
        except OSError as error:
            # What the system says of it names no file.
            raise OSError(
                error.errno, f"the certificate cannot be used, from {self._names}: {error.strerror or error}"
            ) from error
        self._context = context
        return context

    def choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:  # noqa: ARG002  # as ssl calls it
        """Give a handshake the certificate that the files hold now. OpenSSL calls it, also where the client names no host."""
        try:
            if self._state() != self._read:
                self.load(_no_password)
                self._failure = ""
                _log.info("the certificate was read again, from %s", self._names)
        except (OSError, ValueError) as error:
            # Once, not in each handshake.
            if str(error) != self._failure:
                self._failure = str(error)
                _log.error("the certificate before stays in use: %s", error)
        if self._context is not None:
            connection.context = self._context

    def _state(self) -> object:
        """What changes when the files do. Raises `OSError`."""
        states = [os.stat(each) for each in (self._cert, self._key) if each is not None]
        return [(each.st_mtime_ns, each.st_size, each.st_ino) for each in states]


def _no_password() -> str:
    # A prompt would stop the server.
    raise ValueError("the key is encrypted, and its password cannot be asked for while the server runs")
