"""Writes image archives without a registry, and fills the image store of nodes from archives."""

import fcntl
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.images.layout import add
from testbed.kits.kit import CACHE, keep_newest
from testbed.kits.progress import say
from testbed.nodes import configs
from testbed.nodes.namespaces import PATH, Namespaces
from testbed.plane.process import ClusterError, Programs

READY_SECONDS = 60.0
PATH_VARIABLE = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BUSYBOX = "localhost/busybox:1"


def archive(out: Path, name: str, files: Mapping[str, Path], entrypoint: Sequence[str] = ()) -> Path:
    """Writes an archive, as ``docker save`` does, of an image with a few programs.

    Args:
        out: The archive.
        name: The name of the image, with its tag.
        files: The files of the image, by their paths in it.
        entrypoint: The entrypoint of the image.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for path, source in files.items():
            add(tar, path.lstrip("/"), source.read_bytes(), 0o755)
    content = layer.getvalue()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": [PATH_VARIABLE], "Entrypoint": list(entrypoint)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
    }
    config_data = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(config_data).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(out, "w") as tar:
        for member, data in (
            (config_name, config_data),
            ("layer.tar", content),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            add(tar, member, data)
    return out


def small(folder: Path, tools: Path) -> list[Path]:
    """Writes the archives of two small images, pause and busybox, and returns their paths."""
    busybox = shutil.which("busybox", path=PATH)
    if busybox is None:
        raise ClusterError("busybox is missing: apt-get install busybox-static")
    return [
        archive(folder / "pause.tar", configs.PAUSE, {"/pause": tools / "pause"}, ["/pause"]),
        archive(folder / "busybox.tar", BUSYBOX, {"/bin/busybox": Path(busybox)}, ["/bin/busybox"]),
    ]


def store(archives: Sequence[Path], tools: Path) -> Path:
    """Returns a cached folder with the files of a containerd that has imported all archives."""
    digest = hashlib.sha256()
    for image in archives:
        with image.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    # The name of the tools' folder is their hash. Another containerd may store images in another way.
    digest.update(tools.name.encode())
    target = CACHE / "image-stores" / digest.hexdigest()[:16]
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / ".lock").open("w") as lock:
        # A second process waits here until the first process has filled the folder.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            say(f"importing {len(archives)} images for the nodes, once")
            _import(archives, tools, target)
            keep_newest(target.parent)
    return target


def _import(archives: Sequence[Path], tools: Path, target: Path) -> None:
    with Namespaces() as namespaces, Programs(target.parent / "logs") as programs:
        root = namespaces.folder / "root"
        root.mkdir()
        for path in ("/run", "/var/lib"):
            namespaces.run(["mount", "-t", "tmpfs", "tmpfs", path])
        namespaces.run(["mkdir", "/var/lib/containerd"])
        namespaces.run(["mount", "--bind", str(root), "/var/lib/containerd"])
        config = namespaces.folder / "containerd.toml"
        config.write_text(configs.containerd(namespaces.folder), encoding="utf-8")
        ctr = [*namespaces.enter(), str(tools / "ctr"), "--namespace=k8s.io"]

        def is_ready() -> bool:
            return not subprocess.run([*ctr, "version"], check=False, capture_output=True).returncode

        command = [*namespaces.enter(), str(tools / "containerd"), f"--config={config}"]
        program = programs.start("containerd", command, env={"PATH": f"{tools}:{PATH}"})
        program.wait_ready(is_ready, READY_SECONDS)
        for image in archives:
            result = subprocess.run(
                [*ctr, "images", "import", str(image)], check=False, capture_output=True, text=True
            )
            if result.returncode:
                raise ClusterError(f"containerd does not import {image}:\n{result.stdout}{result.stderr}")
        programs.stop(program)
        root.rename(target)


def fill(folder: Path, source: Path) -> None:
    """Copies the store to a node's folder. Files are hard links, except databases, which the node changes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--link", str(source), str(folder)], check=True)
    for database in source.glob("io.containerd.*/*.db"):
        copy = folder / database.relative_to(source)
        copy.unlink()
        shutil.copy2(database, copy)
