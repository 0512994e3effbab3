"""Which client certificates count, and whom they stand for: kube-scheduler's rules, in real chains."""

from __future__ import annotations

import datetime
import hashlib
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from kscheduler.client.reviews import User
from kscheduler.serving.authorities import CREDENTIAL_ID, Authorities, NotAuthenticated, common_name, user_of
from tests.serving.authority import CLIENT, DAY, SERVER, Authority, Issued


def verify(issued: Issued, *trusted: Authority) -> None:
    Authorities(b"".join(one.pem for one in trusted)).verify(issued.shown, time.time())


def refusal(issued: Issued, *trusted: Authority) -> str:
    with pytest.raises(NotAuthenticated) as caught:
        verify(issued, *trusted)
    return str(caught.value)


def test_a_certificate_of_a_trusted_authority_counts() -> None:
    ours = Authority()
    verify(ours.issue("alice"), ours)
    verify(ours.issue("alice"), Authority("another"), ours)


@pytest.mark.parametrize("usages", [(), (CLIENT,), (SERVER, CLIENT), (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)])
def test_a_certificate_for_clients_or_for_every_purpose_counts(usages: tuple[object, ...]) -> None:
    ours = Authority()
    verify(ours.issue("alice", usages=usages), ours)  # type: ignore[arg-type]


def test_a_certificate_for_servers_alone_is_refused() -> None:
    ours = Authority()
    assert "not for the authentication of clients" in refusal(ours.issue("alice", usages=(SERVER,)), ours)


def test_a_certificate_of_another_authority_is_refused_also_under_the_same_name() -> None:
    assert "failed: " in refusal(Authority().issue("alice"), Authority())
    assert "failed: " in refusal(Authority("theirs").issue("alice"), Authority("ours"))


def test_an_expired_certificate_and_one_of_the_future_are_refused() -> None:
    ours = Authority()
    assert "expired" in refusal(ours.issue("alice", starts=-2 * DAY, ends=-DAY), ours)
    assert "not yet valid" in refusal(ours.issue("alice", starts=DAY / 2), ours)


def test_a_certificate_is_verified_at_the_time_of_the_request() -> None:
    ours = Authority()
    authorities = Authorities(ours.pem)
    issued = ours.issue("alice", ends=datetime.timedelta(hours=1))
    authorities.verify(issued.shown, time.time())
    with pytest.raises(NotAuthenticated, match="expired"):
        authorities.verify(issued.shown, time.time() + 7200)
    authorities.verify(issued.shown, time.time())


def test_an_intermediate_authority_that_the_client_shows_closes_the_chain() -> None:
    root = Authority("root")
    issued = Authority("intermediate", parent=root).issue("alice")
    verify(issued, root)
    with pytest.raises(NotAuthenticated):
        Authorities(root.pem).verify(issued.shown[:1], time.time())


def test_an_intermediate_authority_may_be_trusted_by_itself() -> None:
    intermediate = Authority("intermediate", parent=Authority("root"))
    verify(intermediate.issue("alice"), intermediate)


def test_the_purposes_of_an_intermediate_authority_bound_what_it_signs() -> None:
    root = Authority("root")
    issued = Authority("intermediate", parent=root, usages=(SERVER,)).issue("alice")
    assert "not for the authentication of clients" in refusal(issued, root)


def test_what_a_user_signed_with_a_certificate_is_refused() -> None:
    root = Authority("root")
    issued = Authority("mallory", parent=root, is_authority=False).issue("admin", ["system:masters"])
    refusal(issued, root)


def test_a_file_without_a_certificate_is_none() -> None:
    for pem in (b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(ValueError):  # noqa: PT011 (the library's words)
            Authorities(pem)


# --- whom it stands for ---


def test_the_common_name_is_the_user_and_the_organisations_are_the_groups() -> None:
    issued = Authority().issue("alice", ["b", "a"])
    raw = issued.certificate.public_bytes(serialization.Encoding.DER)
    credential = f"X509SHA256={hashlib.sha256(raw).hexdigest()}"
    assert user_of(issued.certificate) == User("alice", "", ("b", "a"), ((CREDENTIAL_ID, (credential,)),))


def test_a_certificate_without_a_common_name_stands_for_nobody() -> None:
    certificate = Authority().issue("", ["group"]).certificate
    assert (user_of(certificate), common_name(certificate)) == (None, "")


def test_the_uid_is_a_part_of_the_subject_and_must_be_one() -> None:
    ours = Authority()
    user = user_of(ours.issue("alice", uids=["u-1"]).certificate)
    assert user is not None
    assert user.uid == "u-1"
    with pytest.raises(NotAuthenticated, match="expected 1 UID, but found multiple"):
        user_of(ours.issue("alice", uids=["u-1", "u-2"]).certificate)
