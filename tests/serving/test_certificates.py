"""The serving certificate: made here, kept in a directory, or given in files that may be wrong."""

from __future__ import annotations

import datetime
import ssl
import stat
import tempfile
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kscheduler.errors import ConfigError
from kscheduler.serving.certificate_expiry import DAY_S
from kscheduler.serving.certificates import LIFETIME, KeyPair, self_signed, server_context


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    pair = self_signed()
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return str(certificate), str(key)


def test_a_certificate_made_here_names_localhost_and_the_loopback_addresses() -> None:
    certificate = x509.load_pem_x509_certificate(self_signed().certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


def test_nothing_stays_on_disk_without_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    context = server_context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert list(tmp_path.iterdir()) == []


def test_a_directory_keeps_the_pair_for_the_next_start(tmp_path: Path) -> None:
    directory = tmp_path / "certs"
    server_context(cert_dir=str(directory))
    first = (directory / "kube-scheduler.crt").read_bytes()
    assert stat.S_IMODE((directory / "kube-scheduler.key").stat().st_mode) == 0o600
    server_context(cert_dir=str(directory))
    assert (directory / "kube-scheduler.crt").read_bytes() == first


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        server_context(cert_dir=str(tmp_path / "file" / "certs"))


def test_given_files_are_used(files: tuple[str, str]) -> None:
    server_context(*files)


def test_one_file_without_the_other_is_refused(files: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match="expected both or none, got a certificate without a private key"):
        server_context(files[0], "")
    with pytest.raises(ConfigError, match="expected both or none, got a private key without a certificate"):
        server_context("", files[1])


def test_a_missing_file_is_named(files: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^/absent\.crt: expected a readable PEM file$"):
        server_context("/absent.crt", files[1])


def test_a_key_of_another_certificate_is_refused(files: tuple[str, str]) -> None:
    Path(files[1]).write_bytes(self_signed().key)
    with pytest.raises(ConfigError, match=r"tls\.crt and .*tls\.key: expected a PEM certificate and its private key"):
        server_context(*files)


def test_replaced_files_are_read_again_once(files: tuple[str, str]) -> None:
    context = server_context(*files)
    assert not context.reload_if_changed()
    pair = self_signed()
    Path(files[0]).write_bytes(pair.certificate)
    Path(files[1]).write_bytes(pair.key)
    assert context.reload_if_changed()
    assert not context.reload_if_changed()


def test_a_half_replaced_pair_is_refused_until_it_is_whole(files: tuple[str, str]) -> None:
    context = server_context(*files)
    pair = self_signed()
    Path(files[0]).write_bytes(pair.certificate)
    with pytest.raises(ConfigError, match="expected a PEM certificate and its private key"):
        context.reload_if_changed()
    Path(files[1]).write_bytes(pair.key)
    assert context.reload_if_changed()


def test_files_that_vanish_are_a_fault_and_not_a_crash(files: tuple[str, str]) -> None:
    context = server_context(*files)
    Path(files[1]).unlink()
    with pytest.raises(ConfigError, match="expected a readable PEM file"):
        context.reload_if_changed()


def test_a_certificate_from_memory_is_never_read_again() -> None:
    assert not server_context().reload_if_changed()


def test_text_that_is_no_certificate_is_refused(files: tuple[str, str]) -> None:
    Path(files[0]).write_text("hello")
    with pytest.raises(ConfigError, match="expected a PEM certificate"):
        server_context(*files)


def test_it_is_known_when_the_certificate_expires(files: tuple[str, str]) -> None:
    [expires] = server_context().expiries().values()
    assert abs(expires - time.time() - LIFETIME.total_seconds()) < DAY_S
    context = server_context(*files)
    before = context.expiries()
    assert list(before) == [files[0]]
    pair = self_signed()
    soon = datetime.datetime.fromtimestamp(before[files[0]], datetime.UTC) - datetime.timedelta(days=300)
    Path(files[0]).write_bytes(reissued(pair, soon))
    Path(files[1]).write_bytes(pair.key)
    assert context.reload_if_changed()
    assert context.expiries() == {files[0]: soon.timestamp()}


def reissued(pair: KeyPair, expires: datetime.datetime) -> bytes:
    """The certificate of a pair as it is, but for its end."""
    made, key = x509.load_pem_x509_certificate(pair.certificate), serialization.load_pem_private_key(pair.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    builder = (
        x509.CertificateBuilder()
        .subject_name(made.subject)
        .issuer_name(made.issuer)
        .public_key(made.public_key())
        .serial_number(made.serial_number)
        .not_valid_before(made.not_valid_before_utc)
        .not_valid_after(expires)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
