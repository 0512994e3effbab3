"""A temporary certificate authority: serving and client certificates, and the key that signs ServiceAccount tokens.

Keys are elliptic curve keys, which take a millisecond to make. A client certificate's common name is the user, and its
organisations are the groups.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=7)
SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Paths of two PEM files: a certificate and its key for TLS, or a public and a private key for tokens."""

    public: Path
    key: Path


class CertificateAuthority:
    """Signs certificates and writes them into one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("kscheduler test authority", ())
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = builder.add_extension(_key_usage(is_authority=True), critical=True).sign(
            self._key, hashes.SHA256()
        )
        self.path = directory / "ca.crt"  # what clients and the apiserver trust
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str) -> KeyPair:
        """Make a serving certificate for 127.0.0.1 and the names under which pods call the apiserver."""
        alternatives = x509.SubjectAlternativeName(
            [
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                x509.DNSName("localhost"),
                x509.DNSName("kubernetes.default.svc"),
            ]
        )
        return self._issue(name, _name(name, ()), [ExtendedKeyUsageOID.SERVER_AUTH], alternatives)

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """Make a client certificate that authenticates as this user in these groups."""
        file_name = user.replace(":", "-").replace("/", "-")
        return self._issue(file_name, _name(user, groups), [ExtendedKeyUsageOID.CLIENT_AUTH], None)

    def token_keys(self) -> KeyPair:
        """Make the key pair that signs and verifies ServiceAccount tokens."""
        key = ec.generate_private_key(ec.SECP256R1())
        pair = KeyPair(self._directory / "service-account.pub", self._directory / "service-account.key")
        pair.public.write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        _write_key(pair.key, key)
        return pair

    def _issue(
        self,
        file_name: str,
        subject: x509.Name,
        purposes: list[x509.ObjectIdentifier],
        alternatives: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(is_authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pair = KeyPair(self._directory / f"{file_name}.crt", self._directory / f"{file_name}.key")
        pair.public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        key_encipherment=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, organisations: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation) for organisation in organisations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
