"""Tests of the plugin as one file: it needs only Python, and contains no engine.

tests/plane/fleets/test_check.py runs the plugin with the real kubectl.
"""

import hashlib
import io
import re
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.images import product
from testbed.release.pyz import write
from tests.docs.blocks import REPOSITORY

BARE_PYTHON = [sys.executable, "-I", "-S"]
"""Python without site-packages, and without the variables of the environment."""
SLOW = pytest.mark.limit(10, "Python compiles the whole plugin")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release with the files of the plugin."""
    folder = tmp_path_factory.mktemp("release")
    write.write(REPOSITORY, folder, product.version(), 0)
    return folder


@SLOW
def test_the_plugin_runs_without_site_packages_and_has_no_compiled_files(
    release: Path, tmp_path: Path
) -> None:
    plugin = release / write.NAME
    with zipfile.ZipFile(plugin) as archive:
        names = archive.namelist()
    assert {Path(name).suffix for name in names} & {".so", ".pyc", ".pyd"} == set()
    assert any(name.startswith("click-") and "licenses" in name for name in names)
    result = subprocess.run([*BARE_PYTHON, plugin, "--help"], check=True, capture_output=True, text=True)
    assert set(re.findall(r"^  ([a-z]+)  ", result.stdout, re.MULTILINE)) >= {
        "check",
        "topology",
        "verify",
        "why",
    }
    command = [*BARE_PYTHON, plugin, "verify", "train"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, env={"PATH": str(tmp_path)})
    assert (result.returncode, result.stdout) == (2, "")
    assert (
        result.stderr
        == "error: kubectl is not on the PATH, and calls to the API server go through it: install it\n"
    )


@SLOW
def test_a_link_to_the_plugin_provides_completion_for_kubectl(release: Path, tmp_path: Path) -> None:
    link = tmp_path / "kubectl_complete-ultraserver"
    link.symlink_to(release / write.NAME)
    result = subprocess.run(
        [*BARE_PYTHON, link, "topology", "--fr"], check=True, capture_output=True, text=True
    )
    assert [line.partition("\t")[0] for line in result.stdout.splitlines()] == ["--free", ":4"]


@SLOW
def test_the_plugin_runs_no_code_of_the_working_directory(release: Path, tmp_path: Path) -> None:
    """Protects users in a shared folder from modules and programs that another user stored there."""
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o777)
    names = {*sys.stdlib_module_names, "click", "kubectl_ultraserver", "orjson", "sitecustomize", "yaml"}
    for name in names:
        (folder / f"{name}.py").write_text("print('of the folder')\n", encoding="utf-8")
    (folder / "kubectl").write_text("#!/bin/sh\necho of the folder\n", encoding="utf-8")
    (folder / "kubectl").chmod(0o755)
    command = [sys.executable, release / write.NAME, "verify", "train"]  # as a shell starts it, not isolated
    result = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=folder, env={"PATH": str(tmp_path)}
    )
    assert "of the folder" not in result.stdout + result.stderr
    assert "kubectl is not on the PATH" in result.stderr


def test_the_archive_has_plain_files_with_different_names(release: Path) -> None:
    """Protects users who unpack the archive from links, duplicate names and paths out of the folder."""
    with zipfile.ZipFile(release / write.NAME) as archive:
        entries = archive.infolist()
    assert {entry.external_attr >> 16 for entry in entries} == {stat.S_IFREG | 0o644}
    names = [entry.filename for entry in entries]
    assert len(names) == len(set(names))
    assert not [name for name in names if name.startswith("/") or ".." in Path(name).parts or "\\" in name]


def test_the_plugin_has_no_engine_and_none_of_its_libraries(release: Path) -> None:
    """An engine in the plugin could be of another release than the installation, with other answers."""
    with zipfile.ZipFile(release / write.NAME) as archive:
        names = archive.namelist()
    packages = {Path(name).parts[0] for name in names}
    assert packages.isdisjoint({"certs", "pydantic", "pydantic_core", "orjson.py", "flask"})
    code = {name for name in names if name.startswith("webhook/") and not name.endswith(".yaml")}
    assert code == set(write.ROWS)


def test_the_same_files_give_the_same_bytes(release: Path) -> None:
    assert write.pyz(REPOSITORY, product.version()) == (release / write.NAME).read_bytes()


def test_the_manifest_for_krew_is_valid(release: Path) -> None:
    """The assertions follow krew's checks of a manifest: ``internal/index/validation`` in its repository."""
    manifest: dict[str, Any] = yaml.safe_load((release / "krew.yaml").read_text(encoding="utf-8"))
    spec = manifest.pop("spec")
    assert manifest == {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "ultraserver"},
    }
    assert set(spec) == {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert "\n" not in spec["shortDescription"]
    (platform,) = spec["platforms"]
    assert set(platform) == {"selector", "uri", "sha256", "files", "bin"}
    (chosen,) = platform["selector"]["matchExpressions"]
    assert (chosen["key"], chosen["operator"]) == ("os", "In")
    packed = (release / platform["uri"].rpartition("/")[2]).read_bytes()
    assert platform["sha256"] == hashlib.sha256(packed).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert [row["from"] for row in platform["files"]] == archive.getnames()
        assert archive.getmember(platform["bin"]).mode & 0o111
        result = archive.extractfile(platform["bin"])
        assert result is not None
        assert result.read() == (release / write.NAME).read_bytes()
