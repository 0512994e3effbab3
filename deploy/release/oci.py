"""Writes images as the OCI image format specification 1.1 says: a layout of blobs that are named by their digests.

The layout is a folder, or a tar archive of it (`oci:` and `oci-archive:` of skopeo). Its index names one image index,
whose manifests are those of the platforms.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from deploy.release.dockerfile import Settings
from deploy.release.file_tree import File, FileTree

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
REF_NAME = "org.opencontainers.image.ref.name"
# Names of machines: Linux's, and Go's with the variant.
PLATFORMS = {"x86_64": {"architecture": "amd64"}, "aarch64": {"architecture": "arm64", "variant": "v8"}}
_LEVEL = 6  # of compression: 9 takes twice the time for 1 % less

Document = dict[str, Any]


class Layer(NamedTuple):
    files: FileTree
    made_by: str  # for the image's history


@dataclass
class Blobs:
    """Contents by their digests, such as sha256:…"""

    contents: dict[str, bytes] = field(default_factory=dict)

    def add(self, media_type: str, content: bytes) -> Document:
        """Add a content and return its descriptor."""
        digest = digest_of(content)
        self.contents[digest] = content
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def add_json(self, media_type: str, document: Document) -> Document:
        return self.add(media_type, _json(document))


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def add_image(blobs: Blobs, machine: str, layers: Sequence[Layer], settings: Settings, epoch_s: int) -> Document:
    """Add an image for one kind of machine, such as x86_64; return its manifest's descriptor, with the platform."""
    platform = {**PLATFORMS[machine], "os": "linux"}
    created = datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    descriptors, diff_ids, history = [], [], []
    for layer in layers:
        tar = layer.files.tar(epoch_s)
        descriptors.append(blobs.add(LAYER, gzip.compress(tar, _LEVEL, mtime=0)))
        diff_ids.append(digest_of(tar))
        history.append({"created": created, "created_by": layer.made_by})
    config = {
        "created": created,
        **platform,
        "config": _config(settings),
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": history,
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blobs.add_json(CONFIG, config),
        "layers": descriptors,
        "annotations": settings.labels,
    }
    return blobs.add_json(MANIFEST, manifest) | {"platform": platform}


def _config(settings: Settings) -> Document:
    return {
        "User": settings.user,
        "ExposedPorts": {port: {} for port in settings.ports},
        "Env": [f"{name}={value}" for name, value in settings.env.items()],
        "Entrypoint": settings.entrypoint,
        "Cmd": settings.cmd,
        "WorkingDir": "/",
        "Labels": settings.labels,
    }


def layout(blobs: Blobs, manifests: Sequence[Document], name: str, annotations: Mapping[str, str]) -> FileTree:
    """Return the layout's files, with one image index of this name, usually the version."""
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": list(manifests),
        "annotations": dict(annotations),
    }
    descriptor = blobs.add_json(INDEX, index) | {"annotations": {REF_NAME: name}}
    files: dict[str, bytes] = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]}),
    }
    files |= {f"blobs/{digest.replace(':', '/')}": content for digest, content in blobs.contents.items()}
    tree = FileTree()
    for path, content in files.items():
        tree.add(path, File(content))
    return tree


def read_layout(archive: Path) -> dict[str, bytes]:
    """Return the files of a layout that was written as a tar archive."""
    with tarfile.open(archive) as opened:
        return {member.name: _read(opened, member) for member in opened if member.isfile()}


def top(files: Mapping[str, bytes]) -> Document:
    """Return the descriptor of a layout's image index."""
    (descriptor,) = json.loads(files["index.json"])["manifests"]
    return dict(descriptor)


def blob(files: Mapping[str, bytes], descriptor: Mapping[str, Any]) -> bytes:
    """Return the content that a descriptor names. Raises ValueError if it is not there or not what its digest says."""
    path = f"blobs/{descriptor['digest'].replace(':', '/')}"
    content = files.get(path)
    if content is None or digest_of(content) != descriptor["digest"] or len(content) != descriptor["size"]:
        raise ValueError(f"{path}: expected {descriptor['size']} bytes of that digest")
    return content


class Image(NamedTuple):
    """An image of a layout, for one platform."""

    platform: Document
    manifest: Document
    config: Document
    layers: tuple[bytes, ...]  # tar archives, not compressed


def images(files: Mapping[str, bytes]) -> Iterable[Image]:
    """Yield all images of a layout. Raises ValueError for a content that is not what its digest says."""
    for descriptor in json.loads(blob(files, top(files)))["manifests"]:
        manifest = json.loads(blob(files, descriptor))
        config = json.loads(blob(files, manifest["config"]))
        layers = tuple(gzip.decompress(blob(files, one)) for one in manifest["layers"])
        if [digest_of(layer) for layer in layers] != config["rootfs"]["diff_ids"]:
            raise ValueError("the layers are not those of the configuration")
        yield Image(descriptor["platform"], manifest, config, layers)


def unpack(image: Image, folder: Path) -> None:
    """Unpack the layers of an image into a new folder. The current user owns all files there."""
    for layer in image.layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            archive.extractall(folder, filter="tar")


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = archive.extractfile(member)
    return opened.read() if opened is not None else b""


def _json(document: Document) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"
