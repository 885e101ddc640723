"""A Pod's volumes as folders, kept as the kubelet keeps them: files behind a link that is swapped at once."""

from __future__ import annotations

import base64
import itertools
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Object = dict[str, Any]
Files = dict[str, bytes]
_numbers = itertools.count()


class NotThereYetError(LookupError):
    """A Secret or ConfigMap that a volume is made from does not exist: the kubelet waits, and so do we."""


class Sources:
    """The ConfigMaps and Secrets of a namespace, and tokens of its accounts.

    Args:
        secrets: by name.
        configs: by name.
        token: of the Pod's account.
        namespace: the Pod's.
    """

    def __init__(
        self, secrets: Mapping[str, Object], configs: Mapping[str, Object], token: str, namespace: str
    ) -> None:
        self._secrets, self._configs, self._token, self._namespace = secrets, configs, token, namespace

    def files(self, volume: Object) -> Files | None:
        """What is in a volume; None for an empty directory, which is the Pod's own.

        Raises:
            NotThereYetError: what it is made from does not exist.
        """
        if "emptyDir" in volume:
            return None
        if "projected" in volume:
            parts = [self.files(source) or {} for source in volume["projected"]["sources"]]
            return {name: content for part in parts for name, content in part.items()}
        if "serviceAccountToken" in volume:
            return {volume["serviceAccountToken"]["path"]: self._token.encode()}
        if "downwardAPI" in volume:
            return {item["path"]: self._namespace.encode() for item in volume["downwardAPI"]["items"]}
        if "secret" in volume:
            found = volume["secret"]
            data = self._data(self._secrets, found.get("secretName") or found["name"])
            return _picked(found, {name: base64.b64decode(value) for name, value in data.items()})
        found = volume["configMap"]
        data = self._data(self._configs, found["name"])
        return _picked(found, {name: value.encode() for name, value in data.items()})

    @staticmethod
    def _data(objects: Mapping[str, Object], name: str) -> dict[str, str]:
        if name not in objects:
            raise NotThereYetError(name)
        data: dict[str, str] = objects[name].get("data") or {}
        return data


def _picked(source: Object, files: Files) -> Files:
    if "items" not in source:
        return files
    missing = [item["key"] for item in source["items"] if item["key"] not in files]
    if missing:
        raise NotThereYetError(", ".join(missing))
    return {item["path"]: files[item["key"]] for item in source["items"]}


def write(folder: Path, volume: Object, files: Files | None, group: int) -> None:
    """Makes or refreshes a volume.

    Args:
        folder: of the volume.
        volume: from the Pod's spec.
        files: what is to be in it, see ``Sources.files``.
        group: the Pod's fsGroup.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if files is None:
        folder.chmod(0o777)
        return
    data = folder / "..data"
    if data.exists() and {path.name: path.read_bytes() for path in data.iterdir()} == files:
        return
    old = data.resolve() if data.exists() else None
    new = folder / f"..{next(_numbers)}"
    new.mkdir()
    kind = next(key for key in ("secret", "configMap", "projected") if key in volume)
    for name, content in files.items():
        path = new / name
        path.write_bytes(content)
        path.chmod(volume[kind]["defaultMode"])
        os.chown(path, 0, group)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    swap = folder / "..data_tmp"
    swap.symlink_to(new.name)
    swap.rename(data)
    if old:
        for path in old.iterdir():
            path.unlink()
        old.rmdir()
