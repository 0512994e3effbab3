"""Creates TLS contexts that verify servers as Go does, and one that follows its files."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Any

from kscheduler.errors import ConfigError
from kscheduler.input.input_files import FilesState, check_regular, files_state

log = logging.getLogger(__name__)


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


class RenewedContext(ssl.SSLContext):
    """A context of which each new connection uses the newest version: authorities and certificates can be replaced.

    Authorities that were loaded into a context cannot be taken out of it, and a certificate whose key does not fit
    stays in it. So there is a context inside, of which another one takes the place. Connections that are open stay; who
    keeps them for later requests asks for `generation`.
    """

    generation = 0  # grows with each other client certificate: an apiserver refuses an old one once it has expired

    _make: Callable[[], ssl.SSLContext]
    _inside: ssl.SSLContext
    _followed: tuple[str, ...] = ()
    _state: FilesState = ()  # of the followed files when they were read

    @classmethod
    def around(cls, make: Callable[[], ssl.SSLContext], *followed: str) -> RenewedContext:
        """Return a context around one that `make` returns. `make` raises ConfigError if a file cannot be used.

        If one of `followed`, which are files, has changed when a connection is opened, `make` is called again, as
        kube-scheduler reads them again; files that cannot be used leave everything as it is.
        """
        state = files_state(*followed)
        inside = make()
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = inside.check_hostname, inside.verify_mode
        context._make, context._inside, context._followed, context._state = make, inside, followed, state
        return context

    def renew(self, *, is_other_certificate: bool = False) -> None:
        """Read all files again. Raises ConfigError, and changes nothing, if one cannot be used."""
        state = files_state(*self._followed)
        self._inside = self._make()
        self._state = state
        self.generation += is_other_certificate

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        if self._followed and (state := files_state(*self._followed)) != self._state:
            self._follow(state)
        return self._inside.wrap_bio(incoming, outgoing, *args, **kwargs)

    def _follow(self, state: FilesState) -> None:
        self._state = state  # what cannot be used is reported once
        try:
            self._inside = self._make()
        except ConfigError as error:
            log.warning("changed certificates cannot be used; those known are kept", extra={"err": str(error)})
        else:
            log.info("certificates have changed", extra={"files": self._followed})
