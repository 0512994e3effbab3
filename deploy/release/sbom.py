"""Writes a CycloneDX document: the locked packages with their digests, what is vendored, and the image's base.

The program needs Python's packages; the image needs the program and Debian's packages.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from deploy.release import debian
from deploy.release.source import BuildError

LOCK = "requirements-runtime.lock"
IMAGE_LOCK = "deploy/release/image.lock"
VENDORED = "kscheduler/ui/page/vendor/vendored.json"
BUILD_ONLY = ("cython", "setuptools")  # in the lock, since the image is built of it; not installed with a wheel
NAMESPACE = uuid.UUID("5c1a9d4e-6f0b-5d0a-9a53-2b7c3f1f6f6e")  # of the documents' serial numbers; made up
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)((?:.*\\\n\s+--hash=sha256:[0-9a-f]{64})*)", re.MULTILINE)
_DIGEST = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def write_sbom(into: Path, sources: Path, version: str, epoch_s: int) -> Path:
    """Write the document into a folder and return its path. Raises BuildError for a lock without digests."""
    components = [*_packages(sources / LOCK), _vendored(sources / VENDORED)]
    of_debian = list(_debian(sources / IMAGE_LOCK))
    own = Component(
        name="kscheduler",
        type=ComponentType.APPLICATION,
        version=version,
        bom_ref=f"kscheduler@{version}",
        licenses=[LicenseExpression("Apache-2.0")],
        purl=PackageURL("pypi", None, "kscheduler", version),
    )
    image = Component(
        name="kscheduler-image",
        type=ComponentType.CONTAINER,
        version=version,
        bom_ref=f"image@{version}",
        licenses=[LicenseExpression("Apache-2.0")],
    )
    bom = Bom(
        components=[*components, image, *of_debian],
        metadata=BomMetaData(component=own, timestamp=datetime.fromtimestamp(epoch_s, UTC)),
        serial_number=uuid.uuid5(NAMESPACE, f"{version} {epoch_s}"),
    )
    bom.register_dependency(own, components)
    bom.register_dependency(image, [own, *of_debian])
    path = into / f"kscheduler-{version}.cdx.json"
    path.write_text(JsonV1Dot6(bom).output_as_string(indent=2) + "\n", encoding="utf-8")
    return path


def _packages(lock: Path) -> Iterator[Component]:
    for name, version, digests in _PIN.findall(lock.read_text(encoding="utf-8")):
        found = _DIGEST.findall(digests)
        if not found:
            raise BuildError(f"{lock.name}: expected digests of {name}=={version}, got none: run `make lock`")
        yield Component(
            name=name,
            version=version,
            bom_ref=f"{name}@{version}",
            scope=ComponentScope.EXCLUDED if name in BUILD_ONLY else ComponentScope.REQUIRED,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in found],
            purl=PackageURL("pypi", None, name, version),
        )


def _vendored(file: Path) -> Component:
    facts = json.loads(file.read_text(encoding="utf-8"))
    return Component(
        name=facts["package"],
        version=facts["version"],
        bom_ref=f"{facts['package']}@{facts['version']}",
        licenses=[LicenseExpression(facts["licence"])],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=facts["sha256"])],
        purl=PackageURL("npm", None, facts["package"], facts["version"]),
    )


def _debian(lock: Path) -> Iterator[Component]:
    """Yield the packages of the image's base; one for every kind of machine is in it once."""
    for pin in {pin.digest: pin for pin in debian.read_lock(lock)}.values():
        purl = PackageURL("deb", "debian", pin.name, pin.version, {"arch": pin.architecture, "distro": debian.SUITE})
        licence = debian.LICENCES.get(pin.name)
        yield Component(
            name=pin.name,
            version=pin.version,
            bom_ref=purl.to_string(),
            scope=ComponentScope.REQUIRED,
            licenses=[LicenseExpression(licence)] if licence else [],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=pin.digest.removeprefix("sha256:"))],
            purl=purl,
        )
