"""How a release says what it was made of, and how one sees who says so; on a release of one file."""

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
    """The archive of an image with one layer, of what buildah would have written."""
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
    made = {"config": config, "layers": [blob(gzip.compress(layer.getvalue()))]}
    (folder / "manifest.json").write_text(json.dumps(made), encoding="utf-8")
    layout.pack(folder, tmp_path / "image.tar", "a", "1")
    return tmp_path / "image.tar"


@pytest.mark.parametrize("dirty", [False, True])
def test_a_provenance_has_what_its_specifications_require(image: Path, *, dirty: bool) -> None:
    state = source.Source("c" * 40, "7" * 40)
    made = provenance.statement([image], {"a:1": image}, state, dirty=dirty)
    # What in-toto's Statement 1 (spec/v1/statement.md) and SLSA's Provenance 1 require besides digests.
    types = ("https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1")
    assert (made["_type"], made["predicateType"]) == types
    assert made["predicate"].keys() == {"buildDefinition", "runDetails"}
    assert [each["name"] for each in made["subject"]] == ["a:1", "image.tar"]
    definition, builder = made["predicate"]["buildDefinition"], made["predicate"]["runDetails"]["builder"]
    assert all(re.match("[a-z]+:.", uri) for uri in (definition["buildType"], builder["id"]))
    for each in (*made["subject"], *definition["resolvedDependencies"]):
        assert each["digest"]
        assert all(re.fullmatch("[0-9a-f]{40,64}", digest) for digest in each["digest"].values())
    # A checkout with changes is not its commit.
    commit = {} if dirty else {"gitCommit": "c" * 40}
    assert definition["externalParameters"]["source"] == {**commit, "gitTree": "7" * 40}
    assert [each["name"] for each in definition["resolvedDependencies"]] == [
        "source",
        "a-1-py3-none-any.whl",
        "lowest layer: Debian, by debootstrap",
    ]
    assert definition["resolvedDependencies"][1]["digest"] == {"sha256": WHEEL}


def test_the_digest_of_an_archive_is_that_of_the_manifest_in_it(image: Path) -> None:
    with tarfile.open(image) as tar:
        files = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    algorithm, _, digest = layout.digest(image).partition(":")
    manifest = files[f"blobs/{algorithm}/{digest}"]
    assert hashlib.sha256(manifest).hexdigest() == digest
    config, (layer,) = json.loads(manifest)["config"], json.loads(manifest)["layers"]
    for each in (config, layer):
        data = files["blobs/" + each["digest"].replace(":", "/")]
        assert (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)) == (each["digest"], each["size"])
    assert "of Docker" not in manifest.decode()


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """A release of one file, signed, with the keys that are believed."""
    key, folder = keys(tmp_path), tmp_path / "release"
    folder.mkdir()
    (folder / "file").write_text("as released\n", encoding="utf-8")
    (folder / release.SUMS).write_text(f"{provenance.sha256(folder / 'file')}  file\n", encoding="utf-8")
    signature.sign(folder / release.SUMS, key)
    public = key.with_suffix(".pub").read_text(encoding="utf-8")
    limits = f'namespaces="{signature.NAMESPACE}"'
    (folder / signature.SIGNERS.name).write_text(f"{signature.IDENTITY} {limits} {public}", encoding="utf-8")
    return folder


def keys(folder: Path, name: str = "key") -> Path:
    """Returns an SSH key that is not an allowed signer."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return folder / name


def checked(folder: Path) -> list[int]:
    """Returns how the two commands end that the document shows."""
    shown = [
        *steps("docs/install.md", "From a release, without a clone"),
        *steps("docs/install.md", "Who made it"),
    ]
    return [session.run(step.command, folder)[1] for step in shown]


@pytest.mark.program("ssh-keygen")
@pytest.mark.limit(5, "starts a dozen processes")
def test_what_the_document_shows_refuses_a_file_sums_and_a_key_that_are_others(
    signed: Path, tmp_path: Path
) -> None:
    sums, file = signed / release.SUMS, signed / "file"
    assert checked(signed) == [0, 0]
    file.write_text("changed\n", encoding="utf-8")
    assert checked(signed) == [1, 0]
    sums.write_text(f"{provenance.sha256(file)}  file\n", encoding="utf-8")
    assert checked(signed) == [0, 255]
    signature.sign(sums, keys(tmp_path, "another"))
    assert checked(signed) == [0, 255]
    (signed / f"{release.SUMS}.sig").unlink()
    assert checked(signed) == [0, 255]


@pytest.mark.program("ssh-keygen")
@pytest.mark.limit(5, "starts a dozen processes")
def test_a_key_that_is_not_an_allowed_signer_makes_no_release(signed: Path, tmp_path: Path) -> None:
    sums = signed / release.SUMS
    assert signature.why_refused(sums, signed / signature.SIGNERS.name) == ""
    assert "allowed_signers" in signature.why_refused(sums), "this checkout has no such key"
    with pytest.raises(source.ReleaseError, match="does not sign"):
        signature.sign(sums, tmp_path / "none")
