"""Provides the certificate of the HTTPS endpoint: from files, or else a self-signed one made at start.

Files are checked for changes while serving, since certificates are renewed by replacing them in place.
A generated private key is written only to a directory that no other user may enter, and is removed at once; with
`cert_dir` it stays there for the next start, under kube-scheduler's file names.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import socket
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kscheduler.errors import ConfigError
from kscheduler.input.input_files import FilesState, check_regular, files_state
from kscheduler.serving.certificate_expiry import expires_at

LIFETIME = datetime.timedelta(days=365)
PAIR_NAME = "kube-scheduler"  # <cert_dir>/kube-scheduler.crt and .key


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


class ServerContext(ssl.SSLContext):
    """An SSL context that can reload its certificate when the files it was read from change."""

    _files: tuple[str, str] | None = None  # paths of certificate and key
    _state: FilesState = ()  # of the files when they were read
    _expires: float | None = None  # Unix seconds; None: not known

    def expiries(self) -> dict[str, float]:
        """Return file -> when its certificate expires, in Unix seconds; "" for a certificate made at start."""
        file = "" if self._files is None else self._files[0]
        return {} if self._expires is None else {file: self._expires}

    def use_files(self, cert_file: str, key_file: str) -> None:
        """Use this certificate and key from the next handshake on.

        Raises ConfigError, changing nothing, if they are invalid.
        """
        state = files_state(cert_file, key_file)
        # OpenSSL would keep the certificate of a pair whose key does not fit, so a spare context tries it first.
        load_files(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), cert_file, key_file)
        load_files(self, cert_file, key_file)
        self._files, self._state, self._expires = (cert_file, key_file), state, expires_in(cert_file)

    def reload_if_changed(self) -> bool:
        """Read the files again if they changed; return True if so.

        Raises ConfigError if they are not a valid pair (yet).
        """
        if self._files is None or files_state(*self._files) == self._state:
            return False
        self.use_files(*self._files)
        return True


def server_context(
    cert_file: str = "", key_file: str = "", cert_dir: str = "", *, context: ServerContext | None = None
) -> ServerContext:
    """Return a context for TLS 1.2 or later with the given certificate, or the one in `cert_dir`, or a generated one.

    If `context` is given, it is configured and returned. Raises ConfigError, naming the file, if a file is missing or
    unreadable, or certificate and key do not belong together.
    """
    if bool(cert_file) != bool(key_file):
        given, other = ("certificate", "private key") if cert_file else ("private key", "certificate")
        raise ConfigError(
            f"--tls-cert-file and --tls-private-key-file: expected both or none, got a {given} without a {other}"
        )
    if context is None:
        context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert_file:
        context.use_files(cert_file, key_file)
    elif cert_dir:
        context.use_files(*_pair_in(Path(cert_dir)))
    else:
        _load_in_memory(context, self_signed())
    return context


def load_files(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    """Load a certificate and its key into a context. Raises ConfigError that names the unusable file."""
    for path in (cert_file, key_file):
        if not os.access(path, os.R_OK):
            raise ConfigError(f"{path}: expected a readable PEM file")
        try:
            check_regular(path)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror or error}") from error
    try:
        context.load_cert_chain(cert_file, key_file, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConfigError(
            f"{cert_file} and {key_file}: expected a PEM certificate and its private key: {reason}"
        ) from error


def expires_in(cert_file: str) -> float | None:
    """Return when the certificate in a file expires, in Unix seconds; None if that is not known."""
    try:
        return expires_at(Path(cert_file).read_bytes())
    except OSError:  # it was replaced a moment ago
        return None


def _no_password() -> str:
    raise ValueError("the private key is encrypted, and there is nobody to ask for the password")


def self_signed() -> KeyPair:
    """Return a new P-256 key and a certificate for this host, localhost and loopback addresses, valid for a year."""
    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname() or "localhost"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clients' clocks may be behind
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    certificate = builder.sign(key, hashes.SHA256())
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _names(host: str) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    if host != "localhost" and host.isascii():
        names.append(x509.DNSName(host))
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    return names


def _load_in_memory(context: ServerContext, pair: KeyPair) -> None:
    """Load a certificate and key by way of files in a private temporary directory: the ssl module only reads files."""
    with tempfile.TemporaryDirectory(prefix="kscheduler-") as directory:
        load_files(context, *_write_pair(Path(directory), pair))
    context._expires = expires_at(pair.certificate)


def _pair_in(directory: Path) -> tuple[str, str]:
    """Return the paths of certificate and key in `directory`, generating them if missing.

    Raises ConfigError if they cannot be written.
    """
    certificate, key = directory / f"{PAIR_NAME}.crt", directory / f"{PAIR_NAME}.key"
    if certificate.exists() and key.exists():
        return str(certificate), str(key)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return _write_pair(directory, self_signed())
    except OSError as error:
        raise ConfigError(f"--cert-dir {directory}: cannot be written: {error.strerror or error}") from error


def _write_pair(directory: Path, pair: KeyPair) -> tuple[str, str]:
    certificate, key = directory / f"{PAIR_NAME}.crt", directory / f"{PAIR_NAME}.key"
    certificate.write_bytes(pair.certificate)
    with contextlib.suppress(FileNotFoundError):
        key.unlink()  # so that the file is created with the mode below
    with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pair.key)
    return str(certificate), str(key)
