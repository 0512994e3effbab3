"""Certificate authorities that vouch for clients, and the user that a client certificate stands for.

A certificate is verified as Go's crypto/x509 does it for kube-scheduler: a chain to one of the authorities, all of it
valid now and signed with a digest that is no SHA-1 or MD5, and fit for the authentication of clients. OpenSSL finds
the chain and checks its times, signatures and constraints.
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
_USER_UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")  # Kubernetes' own part of a subject
_SMALLEST_RSA_BITS = 1024
_BROKEN_DIGESTS = (hashes.MD5, hashes.SHA1)


class NotAuthenticated(KSchedulerError):
    """What a client showed does not prove who it is."""


class Authorities:
    """One bundle of certificates, as a PEM file holds it."""

    def __init__(self, pem: bytes) -> None:
        """ValueError if there is no certificate in it, or a broken one."""
        self.certificates = tuple(x509.load_pem_x509_certificates(pem))
        self._trusted = [crypto.X509.from_cryptography(one) for one in self.certificates]

    def verify(self, shown: Sequence[x509.Certificate], now_s: float) -> None:
        """Does one of the authorities vouch for the first certificate, by way of the others? Else NotAuthenticated.

        `now_s`: seconds since 1970.
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
        """A new one each time, since the first time that a store is given stays in force."""
        store = crypto.X509Store()
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)  # each of them is trusted, self-signed or not
        store.set_time(datetime.datetime.fromtimestamp(now_s, datetime.timezone.utc))
        for certificate in self._trusted:
            store.add_cert(certificate)
        return store

    def _check_chain(self, chain: list[x509.Certificate]) -> None:
        """What Go demands and OpenSSL, left to itself, does not."""
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
    """The common name is the user, the organisations are the groups; None without a common name.

    NotAuthenticated for a subject with more than one uid, or an empty one.
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
    """The last one of the subject, as in Go; "" without any."""
    return next(reversed(_values(certificate.subject, NameOID.COMMON_NAME)), "")


def _values(name: x509.Name, oid: ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in name.get_attributes_for_oid(oid)]


def _is_authority(certificate: x509.Certificate) -> bool:
    """A certificate of version 1 has no extension that could say so; only a trusted one gets here."""
    if certificate.version is x509.Version.v1:
        return True
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _is_for_clients(certificate: x509.Certificate) -> bool:
    """One that names no purpose is for all of them. An authority's purposes bound those of what it signs."""
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.CLIENT_AUTH in usages or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usages


def _refused(certificate: x509.Certificate, reason: str) -> NotAuthenticated:
    return NotAuthenticated(f"verifying certificate SN={certificate.serial_number} failed: {reason}")
