"""Writes image archives that keep their digest when they are copied to a registry or into containerd."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

OCI = "application/vnd.oci.image"
LAYER, CONFIG = f"{OCI}.layer.v1.tar+gzip", f"{OCI}.config.v1+json"
MANIFEST, INDEX = f"{OCI}.manifest.v1+json", f"{OCI}.index.v1+json"
IN_CONTAINERD = "docker.io/library"
"""The prefix that containerd and kubelets add to the name of an image without a registry."""


def pack(folder: Path, out: Path, name: str, tag: str) -> None:
    """Writes an image as an OCI layout that ``docker load`` also reads.

    The layers stay compressed, because a second compression would change the digest. The configuration keeps
    Docker's format, because OCI's format has no health check. containerd finds an image only by full names,
    so the archive has two names of the image: with the tag, and with the digest.

    Args:
        folder: The folder that ``buildah push dir:`` has written.
        out: The archive.
        name: The name of the image.
        tag: The tag of the image.
    """
    image_manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    layers = [{**item, "mediaType": LAYER} for item in image_manifest["layers"]]
    config = {**image_manifest["config"], "mediaType": CONFIG}
    manifest = _json({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers})
    entry = {
        "mediaType": MANIFEST,
        "digest": f"sha256:{hashlib.sha256(manifest).hexdigest()}",
        "size": len(manifest),
    }
    names: list[dict[str, str]] = [
        {
            "io.containerd.image.name": f"{IN_CONTAINERD}/{name}:{tag}",
            "org.opencontainers.image.ref.name": tag,
        },
        {"io.containerd.image.name": f"{IN_CONTAINERD}/{name}@{entry['digest']}"},
    ]
    index = [{**entry, "annotations": item} for item in names]
    docker_manifest = {
        "Config": _blob(config),
        "RepoTags": [f"{name}:{tag}"],
        "Layers": [_blob(item) for item in layers],
    }
    with tarfile.open(out, "w") as tar:
        add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        add(tar, "index.json", _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": index}))
        add(tar, "manifest.json", _json([docker_manifest]))
        add(tar, _blob(entry), manifest)
        for item in [config, *layers]:
            add(tar, _blob(item), (folder / item["digest"].removeprefix("sha256:")).read_bytes())


def digest(archive: Path) -> str:
    """Returns the digest that the image has in a registry, if the archive is copied unchanged."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        return str(json.load(index)["manifests"][0]["digest"])


def _blob(entry: dict[str, Any]) -> str:
    return "blobs/" + str(entry["digest"]).replace(":", "/")


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    """Adds a file to an archive, without a time or an owner, so that the archive is reproducible."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))
