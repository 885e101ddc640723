"""Writes the kubectl plugin as one file, for Python 3.11 and later, and its manifest for krew."""

import gzip
import hashlib
import io
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import yaml

PACKAGES = ("contract", "common", "kube", "placement", "kubectl_ultraserver")
"""The packages of this project that the plugin imports, directly or indirectly."""
ROWS = ("webhook/__init__.py", "webhook/rules/__init__.py")
"""The packages that contain the packaged table. The plugin contains no other modules of ``webhook``."""
LIBRARIES = ("click", "pyyaml", "jsonpatch", "jsonpointer")
"""The libraries that the plugin contains. PyYAML is without its compiled part."""
MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("kubectl-ultraserver needs Python 3.11 or later, and this is " + sys.version.split()[0])

from kubectl_ultraserver.__main__ import complete, main

if "kubectl_complete" in sys.argv[0]:  # kubectl runs a link with this name for completions
    complete()
else:
    main(prog_name="kubectl ultraserver")
"""
NAME = "kubectl-ultraserver.pyz"
RELEASES_URL = "https://ultraserver-webhook.io/releases"
"""The URL from which krew downloads releases. The version of a release is appended."""


def write(files: Path, out: Path, version: str, date: int) -> None:
    """Writes the plugin, an archive with it and its licence, and the manifest for krew.

    Args:
        files: The folder of this project's files.
        out: The folder of the release.
        version: The version of the release.
        date: The date of all files in the archive, in seconds since 1970: equal files give equal archives.
    """
    plugin = pyz(files, version)
    (out / NAME).write_bytes(plugin)
    (out / NAME).chmod(0o755)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in ((NAME, plugin), ("LICENSE", (files / "LICENSE").read_bytes())):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), date, 0o755 if name == NAME else 0o644
            archive.addfile(entry, io.BytesIO(content))
    path = out / "kubectl-ultraserver.tar.gz"
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    (out / "krew.yaml").write_text(_manifest(path, version), encoding="utf-8")


def pyz(files: Path, version: str) -> bytes:
    """Returns the plugin as a zip file that Python can run, without compiled files."""
    packed = io.BytesIO(b"#!/usr/bin/env python3\n")
    packed.seek(0, io.SEEK_END)
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(
            {**dict(_project_files(files, version)), **dict(_library_files())}.items()
        ):
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, content)
    return packed.getvalue()


def _project_files(files: Path, version: str) -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        for path in (files / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(files)), path.read_bytes()
    for path in (*(files / "webhook" / "rules" / "packaged").glob("*.yaml"), *map(files.joinpath, ROWS)):
        yield str(path.relative_to(files)), path.read_bytes()
    yield "__main__.py", MAIN.encode()
    about = f"Metadata-Version: 2.1\nName: ultraserver-webhook\nVersion: {version}\n"
    yield f"ultraserver_webhook-{version}.dist-info/METADATA", about.encode()


def _library_files() -> Iterator[tuple[str, bytes]]:
    """Yields the files of the locked libraries, with their licences."""
    for library in LIBRARIES:
        for file in distribution(library).files or ():
            licence = ".dist-info" in file.parts[0] and "licen" in str(file).lower()
            if licence or (file.suffix == ".py" and ".." not in file.parts and file.parts[0] != "_yaml"):
                yield str(file), Path(str(file.locate())).read_bytes()


def _manifest(archive: Path, version: str) -> str:
    """Returns the manifest with which krew installs the plugin."""
    system = {"matchExpressions": [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]}
    platform = {
        "selector": system,
        "uri": f"{RELEASES_URL}/v{version}/{archive.name}",
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "files": [{"from": NAME, "to": "."}, {"from": "LICENSE", "to": "."}],
        "bin": NAME,
    }
    spec = {
        "version": f"v{version}",
        "homepage": RELEASES_URL.rpartition("/")[0],
        "shortDescription": "See and check jobs on AWS Neuron UltraServers",
        "description": (
            "Shows whether a job is placed whole on UltraServers, what a job waits for, and who is on\n"
            "which UltraServer; and checks an installation of ultraserver-webhook.\n"
        ),
        "caveats": "It needs Python 3.11 or later as python3.\n",
        "platforms": [platform],
    }
    head = {"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin"}
    text: str = yaml.safe_dump(head | {"metadata": {"name": "ultraserver"}, "spec": spec}, sort_keys=False)
    return text
