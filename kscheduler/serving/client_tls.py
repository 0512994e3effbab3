"""Provides TLS that requests a client certificate and accepts any, or none, without verifying it.

The authenticator verifies the certificate for each request instead. So a client with a certificate of another cluster
and a valid token is accepted, and one with a bad certificate gets an HTTP response that says so. Python's ssl module
cannot do that: it either requests no certificate or fails the handshake for one that it cannot verify. pyOpenSSL can,
and the context here makes it usable by an event loop.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from OpenSSL import SSL, crypto

from kscheduler.errors import ConfigError
from kscheduler.input.input_files import FilesState, files_state, read_file
from kscheduler.serving.authorities import common_name
from kscheduler.serving.certificates import ServerContext, expires_in, load_files
from kscheduler.serving.options import NamedPair
from kscheduler.serving.tls_policy import TlsPolicy

T = TypeVar("T")

_HOST = re.compile(r"\*|(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ADDRESS = re.compile(r"[0-9.]+")
_CHUNK = 64 * 1024
_HEADER_BYTES = 5  # the header of a TLS record: type, version, length
_IGNORE_UNEXPECTED_EOF = 0x80  # SSL_OP_IGNORE_UNEXPECTED_EOF: in HTTP the end of a message is known without TLS
_OPTIONS = (
    SSL.OP_NO_COMPRESSION
    | SSL.OP_NO_RENEGOTIATION
    | SSL.OP_NO_TICKET  # no resumption: each connection sends its certificate
    | SSL.OP_CIPHER_SERVER_PREFERENCE
    | _IGNORE_UNEXPECTED_EOF
)


class ClientAskingContext(ServerContext):
    """A TLS server context that requests client certificates, and chooses its own certificate by the SNI host name.

    All its certificates are reloaded when their files change.
    """

    _policy: TlsPolicy
    _authorities: tuple[x509.Certificate, ...] = ()
    _own: _Loaded | None = None
    _named: tuple[NamedPair, ...] = ()
    _named_loaded: tuple[_Loaded, ...] = ()  # the certificates of the pairs in `_named`
    _named_state: FilesState = ()  # of their files when they were read
    _named_expiries: Mapping[str, float] = {}
    _context: SSL.Context | None = None  # used by new connections; replaced, not changed, since others use it

    @classmethod
    def under(cls, policy: TlsPolicy, named: Sequence[NamedPair] = ()) -> ClientAskingContext:
        """Return a context with only the SNI certificates `named`; the default certificate has to be loaded afterwards.

        Raises ConfigError if a file cannot be used, or OpenSSL has none of the policy's cipher suites.
        """
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context._policy = policy
        context._named = tuple(named)
        _make_context(policy)
        context._read_named()
        return context

    def load_cert_chain(self, certfile: Any, keyfile: Any = None, password: Any = None) -> None:
        super().load_cert_chain(certfile, keyfile, password)
        self._own = _Loaded.read(certfile, keyfile or certfile)
        self._renew()

    def reload_if_changed(self) -> bool:
        changed = super().reload_if_changed()
        if self._named and files_state(*self._named_files()) != self._named_state:
            self._read_named()
            self._renew()
            return True
        return changed

    def expiries(self) -> dict[str, float]:
        return {**super().expiries(), **self._named_expiries}

    def name_authorities(self, certificates: Iterable[x509.Certificate]) -> None:
        """Set the authorities that the handshake announces, by which a client with several certificates chooses one."""
        self._authorities = tuple(certificates)
        self._renew()

    def _named_files(self) -> list[str]:
        return [path for pair in self._named for path in (pair.cert_file, pair.key_file)]

    def _read_named(self) -> None:
        state = files_state(*self._named_files())
        loaded = []
        for pair in self._named:
            try:
                load_files(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair.cert_file, pair.key_file)
            except ConfigError as error:
                raise ConfigError(f"--tls-sni-cert-key: {error}") from error
            loaded.append(_Loaded.read(pair.cert_file, pair.key_file))
        known = {pair.cert_file: expires_in(pair.cert_file) for pair in self._named}
        self._named_expiries = {file: expires for file, expires in known.items() if expires is not None}
        self._named_loaded, self._named_state = tuple(loaded), state

    def _renew(self) -> None:
        """Build a new pyOpenSSL context for later connections, if there is a default certificate already."""
        if self._own is None:
            return
        context = self._context_for(self._own)
        by_name = self._by_name()
        if by_name:
            contexts = {id(loaded): self._context_for(loaded) for loaded in self._named_loaded}

            def choose(connection: SSL.Connection) -> None:
                loaded = _fitting(by_name, (connection.get_servername() or b"").decode("ascii", "replace"))
                if loaded is not None:
                    connection.set_context(contexts[id(loaded)])

            context.set_tlsext_servername_callback(choose)
        self._context = context

    def _context_for(self, loaded: _Loaded) -> SSL.Context:
        context = _make_context(self._policy)
        own, *others = loaded.chain
        context.use_certificate(own)
        for certificate in others:
            context.add_extra_chain_cert(certificate)
        context.use_privatekey(loaded.key)
        for authority in self._authorities:
            context.add_client_ca(authority)
        return context

    def _by_name(self) -> dict[str, _Loaded]:
        """Return host name -> certificate. Names given by flags take precedence over names in certificates.

        Among equals, the pair given first takes precedence.
        """
        pairs = list(zip(self._named, self._named_loaded, strict=True))[::-1]
        implied = {name.lower(): loaded for pair, loaded in pairs if not pair.names for name in loaded.names()}
        return implied | {name.lower(): loaded for pair, loaded in pairs for name in pair.names}

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any) -> Any:
        if self._context is None:
            raise ssl.SSLError(ssl.SSL_ERROR_SSL, "no certificate was loaded")
        return ClientConnection(self._context, incoming, outgoing)


class _Loaded(NamedTuple):
    """A server certificate with its chain of intermediate certificates and its private key."""

    chain: tuple[x509.Certificate, ...]
    key: Any

    @classmethod
    def read(cls, cert_file: Any, key_file: Any) -> _Loaded:
        """Read PEM files, which must have been checked to be a valid pair."""
        chain = tuple(x509.load_pem_x509_certificates(read_file(cert_file)))
        return cls(chain, serialization.load_pem_private_key(read_file(key_file), None))

    def names(self) -> list[str]:
        """Return the certificate's DNS names, and its common name if that is a host name."""
        own = self.chain[0]
        try:
            found = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            hosts = found.get_values_for_type(x509.DNSName)
        except x509.ExtensionNotFound:
            hosts = []
        name = common_name(own)
        return [name, *hosts] if _HOST.fullmatch(name) and not _ADDRESS.fullmatch(name) else hosts


def _fitting(by_name: dict[str, _Loaded], name: str) -> _Loaded | None:
    """Return the certificate for a host name, else the one for its domain (`*.DOMAIN`); None if there is neither."""
    name = name.lower().rstrip(".")
    return by_name.get(name) or by_name.get(f"*.{name.partition('.')[2]}")


def _make_context(policy: TlsPolicy) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_options(_OPTIONS)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"kscheduler")  # OpenSSL requires one when client certificates are requested
    context.set_min_proto_version(policy.minimum)
    context.set_verify(SSL.VERIFY_PEER, _take_any)
    try:
        context.set_cipher_list(policy.ciphers.encode())
    except SSL.Error as error:
        raise ConfigError(f"--tls-cipher-suites: OpenSSL has none of {policy.ciphers}: {_text(error)}") from error
    return context


def _take_any(connection: SSL.Connection, certificate: crypto.X509, error: int, depth: int, ok: int) -> bool:
    return True


class ClientConnection:
    """The server side of a TLS connection, with those methods of ssl.SSLObject that event loops call."""

    def __init__(self, context: SSL.Context, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._tls = SSL.Connection(context, None)
        self._tls.set_accept_state()
        self._incoming = incoming
        self._outgoing = outgoing
        self._ended = False  # no more bytes will come
        self._header = b""  # of the record being passed to OpenSSL, while the header is incomplete
        self._rest = 0  # bytes of that record that OpenSSL lacks
        self._certificates: tuple[x509.Certificate, ...] | None = None

    def peer_certificates(self) -> tuple[x509.Certificate, ...]:
        """Return the client's certificates, unverified: its own first, then intermediate ones; () without any.

        Raises ValueError if one cannot be parsed.
        """
        if self._certificates is None:
            own = self._tls.get_peer_certificate(as_cryptography=True)
            others = self._tls.get_peer_cert_chain(as_cryptography=True) or []
            self._certificates = () if own is None else (own, *(one for one in others if one != own))
        return self._certificates

    # --- what event loops call ---

    def do_handshake(self) -> None:
        self._step(self._tls.do_handshake)

    def read(self, length: int = 1024, buffer: Any = None) -> Any:
        """Return decrypted bytes, or how many were read into `buffer`; b"" or 0 once the client has closed its side."""
        try:
            if buffer is None:
                return self._step(lambda: self._tls.recv(length))
            return self._step(lambda: self._tls.recv_into(buffer, length))
        except ssl.SSLZeroReturnError:
            return b"" if buffer is None else 0

    def write(self, data: Any) -> int:
        return self._step(lambda: self._tls.send(data))

    def pending(self) -> int:
        return self._tls.pending()

    def unwrap(self) -> None:
        # The first call sends close_notify, the second looks for the client's.
        if not self._step(self._tls.shutdown) and not self._step(self._tls.shutdown):
            raise _fault(ssl.SSLWantReadError, ssl.SSL_ERROR_WANT_READ, "the client has not ended the connection yet")

    def getpeercert(self, binary_form: bool = False) -> dict[str, Any]:
        return {}  # of verified certificates only, and none is verified here

    def cipher(self) -> tuple[str, str, int] | None:
        name = self._tls.get_cipher_name()
        return None if name is None else (name, self.version() or "", self._tls.get_cipher_bits() or 0)

    def version(self) -> str | None:
        return self._tls.get_protocol_version_name()

    def compression(self) -> None:
        return None

    def selected_alpn_protocol(self) -> None:
        return None

    def _step(self, step: Callable[[], T]) -> T:
        """Run one OpenSSL operation: pass it the received bytes that it needs, and forward the bytes that it produces.

        Raises the ssl module's exceptions in place of pyOpenSSL's.
        """
        try:
            while True:
                try:
                    return step()
                except SSL.WantReadError:
                    if not self._feed():
                        raise _fault(ssl.SSLWantReadError, ssl.SSL_ERROR_WANT_READ, "more bytes are needed") from None
        except SSL.ZeroReturnError:
            raise _fault(ssl.SSLZeroReturnError, ssl.SSL_ERROR_ZERO_RETURN, "the client ended the connection") from None
        except SSL.SysCallError as error:
            raise _fault(ssl.SSLEOFError, ssl.SSL_ERROR_EOF, "the client broke the connection off") from error
        except SSL.Error as error:
            raise _fault(ssl.SSLError, ssl.SSL_ERROR_SSL, _text(error)) from error
        finally:
            self._hand_on()

    def _feed(self) -> bool:
        """Pass one received TLS record, or the part that has arrived, to OpenSSL.

        Return False if nothing new has arrived. Later records stay in the incoming buffer, since event loops look at
        its size to know if there is more to read.
        """
        if not self._rest:
            data = self._incoming.read(_HEADER_BYTES - len(self._header))
            self._header += data
            if len(self._header) == _HEADER_BYTES:
                self._rest = int.from_bytes(self._header[-2:], "big")
                self._header = b""
        else:
            data = self._incoming.read(self._rest)
            self._rest -= len(data)
        if data:
            self._tls.bio_write(data)
            return True
        if self._incoming.eof and not self._ended:
            self._tls.bio_shutdown()
            self._ended = True
            return True
        return False

    def _hand_on(self) -> None:
        while True:
            try:
                self._outgoing.write(self._tls.bio_read(_CHUNK))
            except SSL.Error:  # nothing is left
                return


def _fault(kind: type[ssl.SSLError], number: int, text: str) -> ssl.SSLError:
    """Return an exception with the attributes that the ssl module sets and event loops read."""
    fault = kind(number, text)
    fault.library = "SSL"
    fault.reason = text.upper().replace(" ", "_")  # "protocol is shutdown" is PROTOCOL_IS_SHUTDOWN
    return fault


def _text(error: SSL.Error) -> str:
    reasons = error.args[0] if error.args else ()
    return "; ".join(str(entry[-1]) for entry in reasons if entry) if isinstance(reasons, list) else str(error)
