"""A certificate authority for one test."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs a server certificate for 127.0.0.1 and client certificates. Like many a cluster's CA it has no key ids."""

    def __init__(self, name: str = "test-ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = self._sign(self._name, self._key.public_key(), is_authority=True)
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, directory: Path, common_name: str) -> tuple[Path, Path]:
        """Paths of a certificate and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name(common_name), key.public_key(), is_authority=False)
        paths = directory / f"{common_name}.crt", directory / f"{common_name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return paths

    def server_context(self, directory: Path) -> ssl.SSLContext:
        """Demands a client certificate of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(directory, "server"))
        context.load_verify_locations(cadata=self.pem)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
        )
        return builder.sign(self._key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def write_kubeconfig(directory: Path, server: str, authority: Authority, user: dict[str, Any]) -> str:
    ca = base64.b64encode(authority.pem.encode()).decode()
    path = directory / "config"
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": server, "certificate-authority-data": ca}}],
        "users": [{"name": "x", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)
