"""Creates TLS contexts that verify servers as Go does."""

from __future__ import annotations

import ssl
from typing import Any

from kscheduler.input.input_files import check_regular


class _SSLObject(ssl.SSLObject):
    """A TLS connection that calls OpenSSL's read and write directly, without the Python wrappers of the ssl module.

    These would cost three more calls per record.
    """

    @classmethod
    def _create(cls, *args: Any, **kwargs: Any) -> _SSLObject:
        made: Any = super()._create(*args, **kwargs)  # type: ignore[misc]
        of_openssl = made._sslobj
        made.read, made.write, made.pending = of_openssl.read, of_openssl.write, of_openssl.pending
        return made  # type: ignore[no-any-return]


def verifying_context(ca_file: str | None = None, ca_data: str | None = None) -> ssl.SSLContext:
    """Return a context that trusts these certificate authorities, or the system's. Raises ssl.SSLError or OSError."""
    if ca_file:
        check_regular(ca_file)
    context = ssl.create_default_context(cafile=ca_file or None, cadata=ca_data or None)
    # New in Python 3.13, and refused by it: authorities without key identifiers, which clusters have and Go accepts.
    context.sslobject_class = _SSLObject
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", ssl.VerifyFlags(0))
    return context


def load_pair(context: ssl.SSLContext, cert_file: str, key_file: str | None) -> None:
    """Load a certificate and its key, which may be in one file. Raises ssl.SSLError or OSError for invalid files."""
    for path in (cert_file, key_file or cert_file):
        check_regular(path)
    context.load_cert_chain(cert_file, key_file)


def trust_anybody(context: ssl.SSLContext) -> None:
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
