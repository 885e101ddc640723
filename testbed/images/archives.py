"""What an image archive holds, without a container runtime."""

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
    """One layer.

    Attributes:
        digest: by which layers of several images are the same.
        files: the size in bytes of every regular file, by its path without a leading slash.
        gone: the paths that it takes away from the layers below.
        modes: the mode of every regular file.
    """

    digest: str
    files: dict[str, int]
    gone: frozenset[str]
    modes: dict[str, int]


@dataclass(frozen=True)
class Image:
    """An image: its configuration and its layers, the lowest first."""

    config: Object
    layers: tuple[Layer, ...]

    @classmethod
    def read(cls, archive: Path) -> Self:
        """Reads an archive as ``docker save``, ``buildah push`` and ``layout.pack`` write it."""
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
        """Returns the layers on top of those of another image."""
        count = len(base.layers)
        assert [layer.digest for layer in self.layers[:count]] == [layer.digest for layer in base.layers]
        return self.layers[count:]

    def files(self) -> dict[str, int]:
        """Returns what a container sees: the size of every regular file, by its path."""
        sizes: dict[str, int] = {}
        for layer in self.layers:
            for path in list(sizes):
                if any(path == gone or path.startswith(f"{gone}/") for gone in layer.gone):
                    del sizes[path]
            sizes |= layer.files
        return sizes

    def with_rights_of_their_owner(self) -> set[str]:
        """Returns the files that a container sees and that run as their owner or group, for every user."""
        modes: dict[str, int] = {}
        for layer in self.layers:
            modes |= layer.modes
        return {path for path in self.files() if modes[path] & (stat.S_ISUID | stat.S_ISGID)}


def diff_ids(archive: Path) -> list[str]:
    """Returns the digests of an image's layers, as they are unpacked; the lowest first."""
    with tarfile.open(archive) as tar:
        (manifest,) = json.load(_member(tar, "manifest.json"))
        digests: list[str] = json.load(_member(tar, manifest["Config"]))["rootfs"]["diff_ids"]
    return digests


def text_of(archive: Path, path: str) -> str:
    """Returns a file of an image, as the topmost layer that has it says.

    Raises:
        FileNotFoundError: no layer has it.
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
    files, gone, modes = {}, set(), {}
    with tarfile.open(fileobj=content) as tar:
        for member in tar:
            path = member.name.removeprefix("./").strip("/")
            folder, _, name = path.rpartition("/")
            if name.startswith(".wh."):
                gone.add(f"{folder}/{name.removeprefix('.wh.')}".strip("/"))
            elif member.isfile():
                files[path], modes[path] = member.size, member.mode
    return Layer(digest, files, frozenset(gone), modes)
