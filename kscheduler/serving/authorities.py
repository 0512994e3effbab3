"""Verifies client certificates with certificate authorities, and reads the user that a certificate names.

A certificate is verified as Go's crypto/x509 does it for kube-scheduler: it needs a chain to one of the authorities,
valid now, without SHA-1 or MD5 signatures, and usable for client authentication. OpenSSL finds the chain and checks
its times, signatures and constraints.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from itertools import pairwise

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier
from OpenSSL import crypto

from kscheduler.client.reviews import User
from kscheduler.errors import KSchedulerError

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_USER_UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")  # Kubernetes' subject attribute for the user's uid
_SMALLEST_RSA_BITS = 1024
_BROKEN_DIGESTS = (hashes.MD5, hashes.SHA1)


class NotAuthenticated(KSchedulerError):
    """Raised when a client's certificate or headers do not prove who the client is."""


class Authorities:
    """The certificate authorities in one bundle of PEM certificates."""

    def __init__(self, pem: bytes) -> None:
        """Read a bundle. Raises ValueError if it has no certificate, or a broken one."""
        self.certificates = tuple(x509.load_pem_x509_certificates(pem))
        self._trusted = [crypto.X509.from_cryptography(one) for one in self.certificates]

    def verify(self, shown: Sequence[x509.Certificate], now_s: float) -> None:
        """Verify the first certificate, with the others as intermediates. Raises NotAuthenticated if it is not valid.

        `now_s`: Unix time in seconds.
        """
        leaf, *others = (crypto.X509.from_cryptography(one) for one in shown)
        context = crypto.X509StoreContext(self._store_at(now_s), leaf, others)
        try:
            chain = [one.to_cryptography() for one in context.get_verified_chain()]
            self._check_chain(chain)
        except crypto.X509StoreContextError as error:
            raise _refused(shown[0], str(error)) from error
        except ValueError as error:  # an extension that cannot be read
            raise _refused(shown[0], str(error)) from error

    def _store_at(self, now_s: float) -> crypto.X509Store:
        """Return a new OpenSSL store that verifies as of `now_s`; a store's time can be set only once."""
        store = crypto.X509Store()
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)  # each authority is trusted, self-signed or not
        store.set_time(datetime.datetime.fromtimestamp(now_s, datetime.UTC))
        for certificate in self._trusted:
            store.add_cert(certificate)
        return store

    def _check_chain(self, chain: list[x509.Certificate]) -> None:
        """Check what Go, but not OpenSSL, requires of a certificate chain. Raises NotAuthenticated."""
        for certificate, issuer in pairwise(chain):
            if isinstance(certificate.signature_hash_algorithm, _BROKEN_DIGESTS):
                raise _refused(chain[0], "it is signed with an insecure digest")
            key = issuer.public_key()
            if isinstance(key, rsa.RSAPublicKey) and key.key_size < _SMALLEST_RSA_BITS:
                raise _refused(chain[0], f"an RSA key of {key.key_size} bits signed it")
            if not _is_authority(issuer):
                raise _refused(chain[0], "it is signed by a certificate that is no authority's")
        if not all(_is_for_clients(certificate) for certificate in chain):
            raise _refused(chain[0], "it is not for the authentication of clients")


def user_of(certificate: x509.Certificate) -> User | None:
    """Return the user of a certificate: common name as user name, organisations as groups; None without a common name.

    Raises NotAuthenticated for a subject with more than one uid, or an empty one.
    """
    subject = certificate.subject
    names = _values(subject, NameOID.COMMON_NAME)
    if not names or not names[-1]:
        return None
    uids = _values(subject, _USER_UID)
    if len(uids) > 1:
        raise _refused(certificate, f"expected 1 UID, but found multiple: {uids}")
    if uids == [""]:
        raise _refused(certificate, "UID cannot be an empty string")
    fingerprint = hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
    extra = ((CREDENTIAL_ID, (f"X509SHA256={fingerprint}",)),)
    return User(names[-1], "".join(uids), tuple(_values(subject, NameOID.ORGANIZATION_NAME)), extra)


def common_name(certificate: x509.Certificate) -> str:
    """Return the last common name of the certificate's subject, as Go does; "" without any."""
    return next(reversed(_values(certificate.subject, NameOID.COMMON_NAME)), "")


def _values(name: x509.Name, oid: ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in name.get_attributes_for_oid(oid)]


def _is_authority(certificate: x509.Certificate) -> bool:
    """Return True if a certificate may sign others. X.509 version 1 certificates may: only trusted ones get here."""
    if certificate.version is x509.Version.v1:
        return True
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _is_for_clients(certificate: x509.Certificate) -> bool:
    """Return True unless the certificate's extended key usage excludes client authentication."""
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.CLIENT_AUTH in usages or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usages


def _refused(certificate: x509.Certificate, reason: str) -> NotAuthenticated:
    return NotAuthenticated(f"verifying certificate SN={certificate.serial_number} failed: {reason}")
