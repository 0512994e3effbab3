"""The image's base is made of pinned packages, without a shell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from deploy.release import debian
from deploy.release.debian import MACHINES, PACKAGES, NotOnMirror, Pin
from deploy.release.file_tree import File, Link
from deploy.release.oci import digest_of
from deploy.release.source import BuildError
from tests.support.skips import program

CERTIFICATE = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


def package(folder: Path, name: str, files: dict[str, str]) -> Pin:
    """A Debian package of these files, kept as if it had been downloaded."""
    program("dpkg-deb", "install dpkg")
    root = folder / name
    (root / "DEBIAN").mkdir(parents=True)
    about = (
        f"Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody <nobody@example.com>\nDescription: x\n"
    )
    (root / "DEBIAN/control").write_text(about)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    made = folder / f"{name}_1_amd64.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", str(root), str(made)], check=True, capture_output=True)
    digest = digest_of(made.read_bytes())
    made.rename(folder / f"{digest[7:23]}-{made.name}")
    return Pin("x86_64", f"debian/pool/{made.name}", digest, "1")


def test_every_package_is_pinned_for_every_kind_of_machine() -> None:
    pins = debian.read_lock()
    assert {(pin.machine, pin.name) for pin in pins} == {(machine, name) for machine in MACHINES for name in PACKAGES}
    # The name of a file has the version without its epoch.
    assert all(f"_{re.sub(r'^[0-9]+:', '', pin.version)}_{pin.architecture}.deb" in pin.path for pin in pins)
    assert {pin.version.partition(":")[0] for pin in pins if pin.name == "zlib1g"} == {"1"}
    assert all(pin.path.startswith(("debian/pool/", "debian-security/pool/")) for pin in pins)


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    pins = debian.read_lock()
    debian.write_lock(pins, tmp_path / "image.lock")
    assert (tmp_path / "image.lock").read_text() == debian.LOCK.read_text()


def test_a_lock_without_a_package_is_not_written(tmp_path: Path) -> None:
    pins = [pin for pin in debian.read_lock() if (pin.machine, pin.name) != ("aarch64", "zlib1g")]
    with pytest.raises(BuildError, match="has no zlib1g for aarch64"):
        debian.write_lock(pins, tmp_path / "image.lock")


def test_a_line_without_a_digest_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "image.lock").write_text("x86_64 debian/pool/a.deb md5:1 1\n")
    with pytest.raises(BuildError, match=r"image.lock: expected machine, path, sha256:… and version, got 'x86_64"):
        debian.read_lock(tmp_path / "image.lock")


def test_the_base_has_libraries_licences_accounts_and_certificates_but_no_programs(tmp_path: Path) -> None:
    pins = [
        package(
            tmp_path,
            "libc6",
            {
                "usr/lib/x86_64-linux-gnu/libc.so.6": "c",
                "usr/lib/x86_64-linux-gnu/gconv/A.so": "left out",
                "usr/bin/ldd": "left out",
                "usr/share/doc/libc6/copyright": "licence",
                "usr/share/doc/libc6/changelog.gz": "left out",
            },
        ),
        package(
            tmp_path,
            "ca-certificates",
            {f"usr/share/ca-certificates/mozilla/{name}.crt": CERTIFICATE.format(name) for name in ("B", "A")},
        ),
        package(tmp_path, "base-files", {"usr/lib/os-release": "ID=debian", "usr/share/doc/base-files/copyright": "x"}),
    ]
    tree = debian.base("x86_64", pins, tmp_path)
    assert {path for path, _ in tree.files()} == {
        "etc/group",
        "etc/nsswitch.conf",
        "etc/passwd",
        "etc/ssl/certs/ca-certificates.crt",
        "usr/lib/os-release",
        "usr/lib/x86_64-linux-gnu/libc.so.6",
        "usr/share/doc/libc6/copyright",
        "var/lib/dpkg/status.d/base-files",
        "var/lib/dpkg/status.d/ca-certificates",
        "var/lib/dpkg/status.d/libc6",
    }
    assert tree.entries["etc/ssl/certs/ca-certificates.crt"] == File(
        (CERTIFICATE.format("A") + CERTIFICATE.format("B")).encode()
    )
    assert tree.entries["lib64"] == Link("usr/lib64")
    accounts = tree.entries["etc/passwd"]
    assert isinstance(accounts, File)
    assert b":65532:65532:" in accounts.content


def test_a_version_that_is_not_the_packages_own_is_an_error(tmp_path: Path) -> None:
    pin = package(tmp_path, "zlib1g", {"usr/lib/libz.so.1": "z"})
    with pytest.raises(BuildError, match=r"image.lock: expected zlib1g 1, as the package says, got 1:1"):
        debian.base("x86_64", [pin._replace(version="1:1")], tmp_path)


def test_the_version_that_apt_chooses_has_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = "http://mirror/debian"
    printed = f"'{mirror}/pool/z/zlib1g_1.3%2bx_amd64.deb' zlib1g_1%3a1.3+x_amd64.deb 9 SHA256:{'0' * 64}\n"
    monkeypatch.setattr(debian, "mirrors", lambda: {"debian": mirror, "debian-security": f"{mirror}-security"})
    monkeypatch.setattr(debian, "run_tool", lambda command: printed.encode() if "--print-uris" in command else b"")
    pin = next(debian.choose())
    assert pin == Pin("x86_64", "debian/pool/z/zlib1g_1.3+x_amd64.deb", f"sha256:{'0' * 64}", "1:1.3+x")


def test_a_package_that_was_changed_is_downloaded_again_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = package(tmp_path, "zlib1g", {"usr/lib/libz.so.1": "z"})
    assert debian.fetch(pin, tmp_path).is_file()
    debian.fetch(pin, tmp_path).write_bytes(b"changed")
    asked: list[list[str]] = []

    def refuse(command: list[str]) -> bytes:
        asked.append(command)
        raise BuildError("E: Failed to fetch: 404  Not Found")

    monkeypatch.setattr(debian, "run_tool", refuse)
    monkeypatch.setattr(debian, "_apt_helper", lambda: "apt-helper")
    monkeypatch.setattr(debian, "mirrors", lambda: {"debian": "http://mirror/debian"})
    with pytest.raises(NotOnMirror, match=r"pool/zlib1g_1_amd64.deb is not on Debian's mirror; `make image-lock`"):
        debian.fetch(pin, tmp_path)
    (command,) = asked
    assert command[2] == "http://mirror/debian/pool/zlib1g_1_amd64.deb"
    assert command[4] == pin.digest.replace("sha256", "SHA256")
