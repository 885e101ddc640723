"""Reads image archives, without a container runtime."""

from __future__ import annotations

import json
import stat
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

Object = dict[str, Any]


@dataclass(frozen=True)
class Layer:
    """A layer of an image.

    Attributes:
        digest: The digest. Equal layers of several images have the same digest.
        files: The size in bytes of each regular file, by its path without a leading slash.
        removed_paths: The paths of lower layers that this layer removes.
        modes: The mode of each regular file.
    """

    digest: str
    files: dict[str, int]
    removed_paths: frozenset[str]
    modes: dict[str, int]


@dataclass(frozen=True)
class Image:
    """The configuration and the layers of an image. The lowest layer is the first."""

    config: Object
    layers: tuple[Layer, ...]

    @classmethod
    def read(cls, archive: Path) -> Self:
        """Reads an archive that ``docker save``, ``buildah push`` or ``layout.pack`` has written."""
        with tarfile.open(archive) as tar:
            (manifest,) = json.load(_member(tar, "manifest.json"))
            config = json.load(_member(tar, manifest["Config"]))
            digests = config["rootfs"]["diff_ids"]
            layers = tuple(
                _layer(digest, _member(tar, name))
                for digest, name in zip(digests, manifest["Layers"], strict=True)
            )
        return cls(config, layers)

    def above(self, base: Image) -> tuple[Layer, ...]:
        """Returns the layers on top of the layers of another image."""
        count = len(base.layers)
        assert [layer.digest for layer in self.layers[:count]] == [layer.digest for layer in base.layers]
        return self.layers[count:]

    def files(self) -> dict[str, int]:
        """Returns the size of each regular file that a container sees, by its path."""
        sizes: dict[str, int] = {}
        for layer in self.layers:
            for path in list(sizes):
                if any(path == removed or path.startswith(f"{removed}/") for removed in layer.removed_paths):
                    del sizes[path]
            sizes |= layer.files
        return sizes

    def setuid_files(self) -> set[str]:
        """Returns the files of a container that run as their owner or group (setuid, setgid)."""
        modes: dict[str, int] = {}
        for layer in self.layers:
            modes |= layer.modes
        return {path for path in self.files() if modes[path] & (stat.S_ISUID | stat.S_ISGID)}


def diff_ids(archive: Path) -> list[str]:
    """Returns the digests of an image's unpacked layers. The lowest layer is the first."""
    with tarfile.open(archive) as tar:
        (manifest,) = json.load(_member(tar, "manifest.json"))
        digests: list[str] = json.load(_member(tar, manifest["Config"]))["rootfs"]["diff_ids"]
    return digests


def text_of(archive: Path, path: str) -> str:
    """Returns the text of a file of an image, from the highest layer that has the file.

    Raises:
        FileNotFoundError: No layer has the file.
    """
    with tarfile.open(archive) as tar:
        (manifest,) = json.load(_member(tar, "manifest.json"))
        for name in reversed(manifest["Layers"]):
            with tarfile.open(fileobj=_member(tar, name)) as layer:
                if path in layer.getnames():
                    return str(_member(layer, path).read(), "utf-8")
    raise FileNotFoundError(f"{archive} has no {path}")


def _member(tar: tarfile.TarFile, name: str) -> Any:
    file = tar.extractfile(name)
    assert file is not None, name
    return file


def _layer(digest: str, content: Any) -> Layer:
    files, removed_paths, modes = {}, set(), {}
    with tarfile.open(fileobj=content) as tar:
        for member in tar:
            path = member.name.removeprefix("./").strip("/")
            folder, _, name = path.rpartition("/")
            if name.startswith(".wh."):
                removed_paths.add(f"{folder}/{name.removeprefix('.wh.')}".strip("/"))
            elif member.isfile():
                files[path], modes[path] = member.size, member.mode
    return Layer(digest, files, frozenset(removed_paths), modes)
