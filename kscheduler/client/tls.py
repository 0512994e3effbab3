"""How servers are verified: as Go does it."""

from __future__ import annotations

import ssl


def verifying_context(ca_file: str | None = None, ca_data: str | None = None) -> ssl.SSLContext:
    """Trusts these authorities; without any, those of the system. Raises ssl.SSLError or OSError for bad ones."""
    context = ssl.create_default_context(cafile=ca_file or None, cadata=ca_data or None)
    # New in Python 3.13, and refused by it: authorities without key identifiers, which clusters have and Go accepts.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", ssl.VerifyFlags(0))
    return context


def trust_anybody(context: ssl.SSLContext) -> None:
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
