"""A certificate authority for tests of who is let in: every kind of client certificate, good and bad."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
USER_UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
DAY = datetime.timedelta(days=1)


class Issued:
    """A certificate, its key, and the intermediate ones that its holder shows with it."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, *others: x509.Certificate):
        self.certificate = certificate
        self.key = key
        self.shown = (certificate, *others)

    def write(self, path: Path) -> Path:
        """One PEM file with the key and all certificates."""
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(key + b"".join(one.public_bytes(serialization.Encoding.PEM) for one in self.shown))
        return path

    def client_context(self, directory: Path) -> ssl.SSLContext:
        """A client that shows this certificate and trusts any server."""
        context = trusting()
        context.load_cert_chain(self.write(directory / f"{self.certificate.serial_number}.pem"))
        return context


def trusting() -> ssl.SSLContext:
    """A client without a certificate that trusts any server."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Authority:
    """`pem` is what those who trust it are given."""

    def __init__(
        self,
        name: str = "ca",
        *,
        parent: Authority | None = None,
        is_authority: bool = True,
        usages: Sequence[x509.ObjectIdentifier] = (),
    ) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._parent = parent
        signer = parent or self
        self._name = subject(name)
        self.certificate = signer._sign(self._name, self._key, usages, is_authority=is_authority)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        user: str,
        groups: Sequence[str] = (),
        *,
        uids: Sequence[str] = (),
        usages: Sequence[x509.ObjectIdentifier] = (CLIENT,),
        starts: datetime.timedelta = -DAY,
        ends: datetime.timedelta = DAY,
    ) -> Issued:
        """A client certificate that holds from `starts` to `ends`, as seen from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(subject(user, groups, uids), key, usages, starts=starts, ends=ends)
        return Issued(certificate, key, *([self.certificate] if self._parent else []))

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        usages: Sequence[x509.ObjectIdentifier],
        *,
        is_authority: bool = False,
        starts: datetime.timedelta = -DAY,
        ends: datetime.timedelta = DAY,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + starts)
            .not_valid_after(now + ends)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def subject(common_name: str, groups: Sequence[str] = (), uids: Sequence[str] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    parts += [x509.NameAttribute(USER_UID, uid) for uid in uids]
    if common_name:
        parts.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    return x509.Name(parts)
