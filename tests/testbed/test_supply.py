"""Tests of the provenance and the signature of a release."""

import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from testbed.images import layout
from testbed.release import provenance, release, signature, source
from tests.docs import session
from tests.nodes.commands import steps

WHEEL = "0" * 64


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The archive of an image with one layer, packed from files in the format of buildah."""
    folder = tmp_path / "buildah"
    folder.mkdir()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        message = f"{WHEEL}  a-1-py3-none-any.whl\n".encode()
        member = tarfile.TarInfo(provenance.WHEELS)
        member.size = len(message)
        tar.addfile(member, io.BytesIO(message))
    lowest = f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"

    def blob(data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        (folder / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data), "mediaType": "of Docker"}

    config = blob(json.dumps({"rootfs": {"diff_ids": [lowest]}, "config": {"Healthcheck": {}}}).encode())
    manifest = {"config": config, "layers": [blob(gzip.compress(layer.getvalue()))]}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    layout.pack(folder, tmp_path / "image.tar", "a", "1")
    return tmp_path / "image.tar"


@pytest.mark.parametrize("dirty", [False, True])
def test_a_provenance_has_the_fields_that_its_specifications_require(image: Path, *, dirty: bool) -> None:
    state = source.Source("c" * 40, "7" * 40)
    statement = provenance.statement([image], {"a:1": image}, state, dirty=dirty)
    # The fields that in-toto's Statement 1 (spec/v1/statement.md) and SLSA's Provenance 1 require.
    types = ("https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1")
    assert (statement["_type"], statement["predicateType"]) == types
    assert statement["predicate"].keys() == {"buildDefinition", "runDetails"}
    assert [entry["name"] for entry in statement["subject"]] == ["a:1", "image.tar"]
    definition, builder = (
        statement["predicate"]["buildDefinition"],
        statement["predicate"]["runDetails"]["builder"],
    )
    assert all(re.match("[a-z]+:.", uri) for uri in (definition["buildType"], builder["id"]))
    for entry in (*statement["subject"], *definition["resolvedDependencies"]):
        assert entry["digest"]
        assert all(re.fullmatch("[0-9a-f]{40,64}", digest) for digest in entry["digest"].values())
    # The provenance of a checkout with changes names no commit.
    commit = {} if dirty else {"gitCommit": "c" * 40}
    assert definition["externalParameters"]["source"] == {**commit, "gitTree": "7" * 40}
    assert [entry["name"] for entry in definition["resolvedDependencies"]] == [
        "source",
        "a-1-py3-none-any.whl",
        "lowest layer: Debian, by debootstrap",
    ]
    assert definition["resolvedDependencies"][1]["digest"] == {"sha256": WHEEL}


def test_the_digest_of_an_archive_is_the_digest_of_its_manifest(image: Path) -> None:
    with tarfile.open(image) as tar:
        files = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    algorithm, _, digest = layout.digest(image).partition(":")
    manifest = files[f"blobs/{algorithm}/{digest}"]
    assert hashlib.sha256(manifest).hexdigest() == digest
    config, (layer,) = json.loads(manifest)["config"], json.loads(manifest)["layers"]
    for entry in (config, layer):
        data = files["blobs/" + entry["digest"].replace(":", "/")]
        assert (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)) == (entry["digest"], entry["size"])
    assert "of Docker" not in manifest.decode()


@pytest.fixture
def signed_release(tmp_path: Path) -> Path:
    """A signed release of one file, with the list of allowed signers."""
    key, folder = create_key(tmp_path), tmp_path / "release"
    folder.mkdir()
    (folder / "file").write_text("as released\n", encoding="utf-8")
    (folder / release.SUMS).write_text(f"{provenance.sha256(folder / 'file')}  file\n", encoding="utf-8")
    signature.sign(folder / release.SUMS, key)
    public = key.with_suffix(".pub").read_text(encoding="utf-8")
    limits = f'namespaces="{signature.NAMESPACE}"'
    (folder / signature.SIGNERS.name).write_text(f"{signature.IDENTITY} {limits} {public}", encoding="utf-8")
    return folder


def create_key(folder: Path, name: str = "key") -> Path:
    """Creates an SSH key; returns its file."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return folder / name


def run_checks(folder: Path) -> list[int]:
    """Runs the commands in the document that check a release; returns their exit statuses."""
    commands = [
        *steps("docs/install.md", "From a release, without a clone"),
        *steps("docs/install.md", "Who made it"),
    ]
    return [session.run(step.command, folder)[1] for step in commands]


@pytest.mark.program("ssh-keygen")
@pytest.mark.limit(5, "starts a dozen processes")
def test_the_commands_in_the_document_refuse_changed_files_changed_sums_and_other_keys(
    signed_release: Path, tmp_path: Path
) -> None:
    sums, file = signed_release / release.SUMS, signed_release / "file"
    assert run_checks(signed_release) == [0, 0]
    file.write_text("changed\n", encoding="utf-8")
    assert run_checks(signed_release) == [1, 0]
    sums.write_text(f"{provenance.sha256(file)}  file\n", encoding="utf-8")
    assert run_checks(signed_release) == [0, 255]
    signature.sign(sums, create_key(tmp_path, "another"))
    assert run_checks(signed_release) == [0, 255]
    (signed_release / f"{release.SUMS}.sig").unlink()
    assert run_checks(signed_release) == [0, 255]


@pytest.mark.program("ssh-keygen")
@pytest.mark.limit(5, "starts a dozen processes")
def test_a_key_that_is_not_an_allowed_signer_is_refused(signed_release: Path, tmp_path: Path) -> None:
    sums = signed_release / release.SUMS
    assert signature.why_refused(sums, signed_release / signature.SIGNERS.name) == ""
    assert "allowed_signers" in signature.why_refused(sums), "the key is not in the list of this checkout"
    with pytest.raises(source.ReleaseError, match="cannot sign with"):
        signature.sign(sums, tmp_path / "none")
