"""Archives of images that keep their digest on their way into a registry, or into containerd without one."""

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
"""What containerd and kubelets put before the name of an image that has no registry."""


def pack(folder: Path, out: Path, name: str, tag: str) -> None:
    """Writes an OCI layout that ``docker load`` reads, too.

    The layers stay as they are, because compressing them again would change the digest. The configuration
    stays, too, because OCI's own has no health check. containerd finds an image only by its full names,
    so it gets the one by digest as well.

    Args:
        folder: what ``buildah push dir:`` has written.
        out: the archive.
        name: of the image.
        tag: of the image.
    """
    made = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    layers = [{**each, "mediaType": LAYER} for each in made["layers"]]
    config = {**made["config"], "mediaType": CONFIG}
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
    index = [{**entry, "annotations": each} for each in names]
    load = {
        "Config": _blob(config),
        "RepoTags": [f"{name}:{tag}"],
        "Layers": [_blob(each) for each in layers],
    }
    with tarfile.open(out, "w") as tar:
        add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        add(tar, "index.json", _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": index}))
        add(tar, "manifest.json", _json([load]))
        add(tar, _blob(entry), manifest)
        for each in [config, *layers]:
            add(tar, _blob(each), (folder / each["digest"].removeprefix("sha256:")).read_bytes())


def digest(archive: Path) -> str:
    """Returns the digest by which a registry serves the image, if it was copied there as it is."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        return str(json.load(index)["manifests"][0]["digest"])


def _blob(entry: dict[str, Any]) -> str:
    return "blobs/" + str(entry["digest"]).replace(":", "/")


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    """Puts a file into an archive; nothing of the machine or the time goes along."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))
