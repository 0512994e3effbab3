"""The list of what an installation consists of."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from packageurl import PackageURL

from deploy.release.debian import read_lock
from deploy.release.sbom import LOCK, VENDORED, write_sbom
from deploy.release.source import REPOSITORY, BuildError

EPOCH_S = 1_700_000_000


def test_every_locked_package_is_named_with_its_digests_and_so_is_what_is_vendored(tmp_path: Path) -> None:
    document = json.loads(write_sbom(tmp_path, REPOSITORY, "0.1.0", EPOCH_S).read_text())
    locked = re.findall(r"^([\w.-]+)==", (REPOSITORY / LOCK).read_text(), re.MULTILINE)
    components = {each["name"]: each for each in document["components"] if ":deb/" not in each["bom-ref"]}
    image = components.pop("kscheduler-image")
    assert image["type"] == "container"
    assert set(components) == {*locked, "uplot"}
    assert all(each["hashes"] for each in components.values())
    assert components["aiohttp"]["purl"] == f"pkg:pypi/aiohttp@{components['aiohttp']['version']}"
    assert components["uplot"]["licenses"] == [{"expression": "MIT"}]
    assert components["cython"]["scope"] == "excluded"
    assert document["metadata"]["component"]["version"] == "0.1.0"
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")


def test_the_images_packages_are_those_of_its_lock(tmp_path: Path) -> None:
    document = json.loads(write_sbom(tmp_path, REPOSITORY, "0.1.0", EPOCH_S).read_text())
    found = [each for each in document["components"] if each.get("purl", "").startswith("pkg:deb/debian/")]
    named = {
        (
            each["name"],
            each["version"],
            PackageURL.from_string(each["purl"]).qualifiers["arch"],
            *(one["content"] for one in each["hashes"]),
        )
        for each in found
    }
    pins = read_lock()
    assert named == {(pin.name, pin.version, pin.architecture, pin.digest.removeprefix("sha256:")) for pin in pins}
    assert len(named) == len(found)  # certificates are the same package for all machines
    purls = {each["purl"] for each in found if each["name"] == "zlib1g"}
    assert all(
        re.fullmatch(r"pkg:deb/debian/zlib1g@1:1\.3[^?]*\?arch=(amd64|arm64)&distro=trixie", one) for one in purls
    )
    unknown = {each["name"] for each in found if "licenses" not in each}
    assert unknown == {"base-files"}  # of which only the file with the name of the release is there
    needs = {each["ref"]: set(each.get("dependsOn", ())) for each in document["dependencies"]}
    assert needs["image@0.1.0"] == {"kscheduler@0.1.0", *(each["bom-ref"] for each in found)}


def test_the_same_sources_make_the_same_document(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    one = write_sbom(tmp_path, REPOSITORY, "0.1.0", EPOCH_S)
    assert one.read_bytes() == write_sbom(tmp_path / "again", REPOSITORY, "0.1.0", EPOCH_S).read_bytes()


def test_a_package_without_digests_is_an_error(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("aiohttp==3.14.5\n    # via kscheduler\n")
    (tmp_path / VENDORED).parent.mkdir(parents=True)
    (tmp_path / VENDORED).write_text((REPOSITORY / VENDORED).read_text())
    with pytest.raises(BuildError, match=r"expected digests of aiohttp==3.14.5, got none: run `make lock`"):
        write_sbom(tmp_path, tmp_path, "1", EPOCH_S)


def test_the_notice_names_everything_that_is_vendored() -> None:
    facts = json.loads((REPOSITORY / VENDORED).read_text())
    notice = (REPOSITORY / "NOTICE").read_text()
    assert f"uPlot {facts['version']}" in notice
    assert facts["licence"] in notice
    licence = (REPOSITORY / VENDORED).parent / "uPlot.LICENSE"
    assert licence.read_text().splitlines()[2].startswith("Copyright")
    assert licence.read_text().splitlines()[2] in notice
