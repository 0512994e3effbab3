"""The image's base: a few packages of Debian, each by its digest, without a shell and without a package manager.

    python -m deploy.release.debian     # chooses the newest versions and writes image.lock: `make image-lock`

Debian's mirrors keep the versions of the current point release. Later ones come by `make image-lock`; older ones from a
mirror that keeps everything, which DEBIAN_MIRROR (and DEBIAN_SECURITY_MIRROR) may name.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from deploy.release.file_tree import File, FileTree, Link
from deploy.release.oci import digest_of
from deploy.release.source import REPOSITORY, BuildError

LOCK = Path(__file__).with_name("image.lock")
KEPT = REPOSITORY / "build/image/packages"  # what was downloaded
SUITE = "trixie"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}  # Linux's names of machines, and Debian's
# What the files in the image are under, by Debian's copyright files; each package brings its own.
LICENCES = {
    "ca-certificates": "MPL-2.0",
    "gcc-14-base": "GPL-3.0-or-later WITH GCC-exception-3.1",  # the licence of libgcc and libstdc++
    "libbz2-1.0": "bzip2-1.0.6",
    "libc6": "LGPL-2.1-or-later",
    "libexpat1": "MIT",
    "libffi8": "MIT",
    "libgcc-s1": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "liblzma5": "0BSD",
    "libpython3.13-minimal": "PSF-2.0",
    "libpython3.13-stdlib": "PSF-2.0",
    "libssl3t64": "Apache-2.0",
    "libstdc++6": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libuuid1": "BSD-3-Clause",
    "libzstd1": "BSD-3-Clause OR GPL-2.0-only",
    "python3.13-minimal": "PSF-2.0",
    "zlib1g": "Zlib",
}
PACKAGES = ("base-files", *LICENCES)  # of the first only os-release, by which scanners know whose packages these are
WANTED = (
    "etc/ld.so.conf.d/*",
    "etc/ssl/openssl.cnf",
    "usr/bin/python3.13",
    "usr/lib/*",
    "usr/lib64/*",
    "usr/share/ca-certificates/*",
    "usr/share/doc/*",  # licences, and links to those of another package
)
UNWANTED = (
    "usr/lib/*/audit/*",  # for ld.so's audit interface
    "usr/lib/*/gconv/*",  # character sets of iconv, which Python does not use
    "usr/lib/*/perl*",
    "usr/lib/binfmt.d/*",
    "usr/lib/tmpfiles.d/*",
    "usr/lib/valgrind/*",
    "usr/lib/locale/*",
    # Of Python's library: tools for developers, and modules whose libraries are not here.
    "usr/lib/python3*/lib2to3/*",
    "usr/lib/python3*/pydoc_data/*",
    "usr/lib/python3*/sqlite3/*",
    "usr/lib/python3*/curses/*",
    "usr/lib/python3*/dbm/*",
    "usr/lib/python3*/lib-dynload/_sqlite3.*",
    "usr/lib/python3*/lib-dynload/_curses*",
    "usr/lib/python3*/lib-dynload/_dbm.*",
    "usr/lib/python3*/lib-dynload/readline.*",
    "usr/lib/python3*/lib-dynload/_test*",
    "usr/lib/python3*/lib-dynload/_ctypes_test*",
    "usr/lib/python3*/lib-dynload/xx*",
    # Debian's own: where pip would install, and that it should not.
    "usr/lib/python3*/EXTERNALLY-MANAGED",
    "usr/lib/python3*/sitecustomize.py",
)
USER = 65532
ACCOUNTS = {
    "etc/passwd": f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/nonexistent:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nnonroot:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


class NotOnMirror(BuildError):
    """A pinned version that the mirror does not have, or not any more."""


class Pin(NamedTuple):
    """A package for one kind of machine."""

    machine: str
    path: str  # such as debian/pool/main/g/glibc/libc6_2.41-12_amd64.deb
    digest: str  # sha256:…
    version: str  # with its epoch, which the file's name lacks

    @property
    def name(self) -> str:
        return posixpath.basename(self.path).partition("_")[0]

    @property
    def architecture(self) -> str:
        """Debian's name of what the package is for: amd64, arm64 or all."""
        return posixpath.basename(self.path).removesuffix(".deb").split("_")[2]


def read_lock(path: Path = LOCK) -> list[Pin]:
    """Return the pinned packages. Raises BuildError for a line that is not machine, path, digest and version."""
    pins = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            words = line.split()
            if len(words) != 4 or not re.fullmatch(r"sha256:[0-9a-f]{64}", words[2]):
                raise BuildError(f"{path.name}: expected machine, path, sha256:… and version, got {line!r}")
            pins.append(Pin(*words))
    return pins


def base(machine: str, pins: Sequence[Pin], kept: Path = KEPT) -> FileTree:
    """Return the files of the base for a kind of machine. Raises BuildError if a package is not to be had."""
    tree = FileTree()
    for pin in pins:
        if pin.machine == machine:
            package = fetch(pin, kept)
            there = run_tool(["dpkg-deb", "--field", str(package), "Version"]).decode().strip()
            if there != pin.version:
                raise BuildError(f"{LOCK.name}: expected {pin.name} {there}, as the package says, got {pin.version}")
            tree.add_tar(run_tool(["dpkg-deb", "--fsys-tarfile", str(package)]), _wanted(pin.name))
            tree.add(f"var/lib/dpkg/status.d/{pin.name}", File(run_tool(["dpkg-deb", "--field", str(package)])))
    for path, text in ACCOUNTS.items():
        tree.add(path, File(text.encode()))
    _add_certificates(tree)
    for name in ("bin", "lib", "lib64", "sbin"):
        tree.add(name, Link(f"usr/{name}"))
    return tree


def _wanted(package: str) -> Callable[[str], bool]:
    if package == "base-files":
        return lambda path: path in ("usr/lib/os-release", "etc/os-release")
    return lambda path: (
        any(fnmatch(path, one) for one in WANTED)
        and not any(fnmatch(path, one) for one in UNWANTED)
        and (not path.startswith("usr/share/doc/") or path.endswith("/copyright") or path.count("/") == 3)
    )


def _add_certificates(tree: FileTree) -> None:
    """Add the certificates of authorities as one file, where OpenSSL looks for them."""
    texts = [file.content for path, file in tree.files() if path.startswith("usr/share/ca-certificates/")]
    for path in [path for path, _ in tree.files() if path.startswith("usr/share/ca-certificates/")]:
        del tree.entries[path]
    tree.add(CERTIFICATES, File(b"".join(text.rstrip(b"\n") + b"\n" for text in texts)))
    tree.add("usr/lib/ssl/certs", Link("/etc/ssl/certs"))
    tree.add("usr/lib/ssl/cert.pem", Link(f"/{CERTIFICATES}"))


def fetch(pin: Pin, kept: Path = KEPT) -> Path:
    """Return the package's file, downloaded by apt if it is not kept here yet, which checks the digest."""
    path = kept / f"{pin.digest.partition(':')[2][:16]}-{posixpath.basename(pin.path)}"
    if path.is_file() and digest_of(path.read_bytes()) == pin.digest:
        return path
    kept.mkdir(parents=True, exist_ok=True)
    archive, _, below = pin.path.partition("/")
    try:
        # In a folder of its own, since another process may download the same.
        with tempfile.TemporaryDirectory(dir=kept) as folder:
            into, expected = Path(folder) / path.name, pin.digest.replace("sha256", "SHA256")
            run_tool([_apt_helper(), "download-file", f"{mirrors()[archive]}/{below}", str(into), expected])
            into.replace(path)
    except BuildError as error:
        if "404" not in str(error):
            raise
        raise NotOnMirror(f"{below} is not on Debian's mirror; `make image-lock` chooses what is there") from None
    return path


def _apt_helper() -> str:
    helper = "/usr/lib/apt/apt-helper"
    if not Path(helper).exists() or shutil.which("dpkg-deb") is None:
        raise BuildError("the image is made of Debian's packages, by apt and dpkg: build it on Debian or Ubuntu")
    return helper


def mirrors() -> dict[str, str]:
    """Return the addresses of Debian's archives: what the environment names, or what apt uses here."""
    given = os.environ.get("DEBIAN_MIRROR", "")
    sites = run_tool(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"]).decode().split()
    main = given or next((site.rstrip("/") for site in sites if site.rstrip("/").endswith("/debian")), "")
    if not main:
        raise BuildError("apt has no source of Debian here: name a mirror in DEBIAN_MIRROR")
    return {"debian": main, "debian-security": os.environ.get("DEBIAN_SECURITY_MIRROR", f"{main}-security")}


# --- choosing versions -------------------------------------------------------------------------------------------


def choose() -> Iterator[Pin]:
    """Yield the newest version of each package for each kind of machine, from lists that Debian's key has signed."""
    sites = mirrors()
    for machine, of_debian in MACHINES.items():
        with tempfile.TemporaryDirectory() as work:
            apt = ["apt-get", "--quiet=2", *_options(Path(work), sites, of_debian)]
            run_tool([*apt, "update"])
            printed = run_tool([*apt, "--print-uris", "download", *PACKAGES]).decode()
        # apt names the file that it would write after package, version with its epoch, and architecture.
        found = re.findall(r"^'([^']+)' [^_\s]+_([^_\s]+)_\S+ \d+ SHA256:([0-9a-f]{64})$", printed, re.MULTILINE)
        for address, version, digest in found:
            archive = next(name for name, mirror in sites.items() if address.startswith(f"{mirror}/"))
            path = unquote(address.removeprefix(sites[archive]))
            yield Pin(machine, f"{archive}{path}", f"sha256:{digest}", unquote(version))


def _options(work: Path, sites: dict[str, str], of_debian: str) -> list[str]:
    about = f"[signed-by={KEYS} arch={of_debian}]"
    sources = [
        f"deb {about} {sites['debian']} {SUITE} main",
        f"deb {about} {sites['debian']} {SUITE}-updates main",
        f"deb {about} {sites['debian-security']} {SUITE}-security main",
    ]
    return apt_options(work, sources, of_debian)


def apt_options(work: Path, sources: Sequence[str], of_debian: str) -> list[str]:
    """Return options by which apt looks at these sources alone, and keeps what it knows in the folder `work`."""
    (work / "lists/partial").mkdir(parents=True)
    (work / "archives/partial").mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text("\n".join([*sources, ""]), encoding="utf-8")
    settings = {
        "APT::Architecture": of_debian,
        "APT::Sandbox::User": "root",
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work,
        "Dir::Cache::archives": work / "archives",
    }
    return [word for name, value in settings.items() for word in ("--option", f"{name}={value}")]


def write_lock(pins: Sequence[Pin], path: Path = LOCK) -> None:
    """Write the lock. Raises BuildError if a package is missing for a kind of machine."""
    there = {(pin.machine, pin.name) for pin in pins}
    missing = [f"{name} for {machine}" for machine in MACHINES for name in PACKAGES if (machine, name) not in there]
    if missing:
        raise BuildError(f"Debian {SUITE} has no {', '.join(missing)}")
    lines = [
        "# The base of the image: Debian's packages. Written by `make image-lock`.",
        *map(" ".join, sorted(set(pins))),
    ]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def run_tool(command: Sequence[str]) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is not on PATH: the image is made of Debian's packages") from None
    if done.returncode != 0:
        raise BuildError(f"{command[0]}: exit code {done.returncode}\n{done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    try:
        write_lock(list(choose()))
    except BuildError as error:
        sys.exit(f"image-lock: {error}")
