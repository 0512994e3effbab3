"""Layouts follow the OCI image format specification, and contain what their digests say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from deploy.release import oci
from deploy.release.dockerfile import Settings
from deploy.release.file_tree import File, FileTree
from deploy.release.oci import Blobs, Layer

EPOCH_S = 1_700_000_000
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def layout(content: bytes = b"1") -> FileTree:
    settings = Settings("7:8", {"A": "1"}, {"org.opencontainers.image.version": "1"}, ["80/tcp"], ["/program"], ["run"])
    files = FileTree()
    files.add("program", File(content))
    blobs = Blobs()
    manifests = [
        oci.add_image(blobs, machine, [Layer(files, "a test")], settings, EPOCH_S) for machine in ("x86_64", "aarch64")
    ]
    return oci.layout(blobs, manifests, "1.0", settings.labels)


def written(folder: Path, tree: FileTree) -> dict[str, bytes]:
    (folder / "x.oci.tar").write_bytes(tree.tar(EPOCH_S))
    return oci.read_layout(folder / "x.oci.tar")


def test_a_layout_names_one_index_with_an_image_for_each_platform(tmp_path: Path) -> None:
    files = written(tmp_path, layout())
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    top = oci.top(files)
    assert (top["mediaType"], top["annotations"]) == (
        "application/vnd.oci.image.index.v1+json",
        {"org.opencontainers.image.ref.name": "1.0"},
    )
    assert [image.platform for image in oci.images(files)] == [
        {"architecture": "amd64", "os": "linux"},
        {"architecture": "arm64", "os": "linux", "variant": "v8"},
    ]


def test_documents_have_the_fields_that_the_specification_requires(tmp_path: Path) -> None:
    for image in oci.images(written(tmp_path, layout())):
        assert image.manifest["schemaVersion"] == 2
        assert image.manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
        for descriptor in (image.manifest["config"], *image.manifest["layers"]):
            assert set(descriptor) == {"mediaType", "digest", "size"}
            assert DIGEST.fullmatch(descriptor["digest"])
        assert image.config["architecture"] == image.platform["architecture"]
        assert image.config["os"] == "linux"
        assert image.config["rootfs"]["type"] == "layers"
        assert len(image.config["history"]) == len(image.layers) == 1
        assert image.config["created"] == "2023-11-14T22:13:20Z"
        assert image.config["config"] == {
            "User": "7:8",
            "ExposedPorts": {"80/tcp": {}},
            "Env": ["A=1"],
            "Entrypoint": ["/program"],
            "Cmd": ["run"],
            "WorkingDir": "/",
            "Labels": {"org.opencontainers.image.version": "1"},
        }


def test_the_same_files_make_the_same_digest_and_others_another() -> None:
    assert layout().tar(EPOCH_S) == layout().tar(EPOCH_S)
    assert layout().entries["index.json"] != layout(b"2").entries["index.json"]


def test_an_image_is_unpacked_as_it_was_made(tmp_path: Path) -> None:
    image, _ = oci.images(written(tmp_path, layout()))
    oci.unpack(image, tmp_path / "root")
    assert (tmp_path / "root/program").read_bytes() == b"1"


def test_a_blob_that_is_not_what_its_digest_says_is_found(tmp_path: Path) -> None:
    files = written(tmp_path, layout())
    (path,) = (path for path in files if path.endswith(oci.top(files)["digest"][7:]))
    with pytest.raises(ValueError, match="bytes of that digest"):
        list(oci.images(files | {path: files[path] + b" "}))
