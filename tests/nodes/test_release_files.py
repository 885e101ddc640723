"""Tests of the files of a release. They need no nodes."""

import hashlib
import json
import re
import shutil
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from testbed import chart
from testbed.images import layout, product
from testbed.kits.progress import Progress
from testbed.release import provenance, release, source
from tests.docs import session
from tests.docs.blocks import REPOSITORY
from tests.nodes.commands import steps


def images_of(manifest: Path) -> set[str]:
    """Returns the images of the Deployments in a manifest."""
    objects = yaml.safe_load_all(manifest.read_text(encoding="utf-8"))
    pods = [obj["spec"]["template"]["spec"] for obj in objects if obj and obj["kind"] == "Deployment"]
    return {container["image"] for pod in pods for container in pod["containers"]}


def read_member(archive: Path, name: str) -> bytes:
    """Returns the content of a file in an archive."""
    with tarfile.open(archive) as tar:
        result = tar.extractfile(name)
        assert result is not None
        return result.read()


def test_a_release_has_a_manifest_for_the_default_and_for_every_recommended_set_of_values(
    release_folder: Path,
) -> None:
    names = {path.name for path in release_folder.glob("install*.yaml")}
    assert names == {"install.yaml", *(f"install-{name}.yaml" for name in chart.RECOMMENDED)}


def test_the_chart_of_a_release_renders_its_manifests(release_folder: Path) -> None:
    (archive,) = release_folder.glob("*.tgz")
    for name, values in {"install.yaml": {}, "install-kinds.yaml": chart.RECOMMENDED["kinds"]}.items():
        assert chart.render(values, archive) == (release_folder / name).read_text(encoding="utf-8")


def test_the_manifests_of_a_release_run_the_images_of_the_release(release_folder: Path) -> None:
    images = set()
    for name in product.TARGETS.values():
        archive = release_folder / f"{name}-{product.version()}.tar"
        (loaded,) = json.loads(read_member(archive, "manifest.json"))
        assert loaded["RepoTags"] == [f"{name}:{product.version()}"]
        images.add(f"{name}:{product.version()}@{layout.digest(archive)}")
    for manifest in release_folder.glob("install*.yaml"):
        assert images_of(manifest) == images, manifest.name


def test_the_documented_command_replaces_the_digests_of_a_manifest_with_tags(
    release_folder: Path, tmp_path: Path
) -> None:
    shutil.copy(release_folder / "install.yaml", tmp_path)
    (step,) = steps("docs/install.md", "Images by digest")
    assert session.run(step.command, tmp_path) == ("", 0)
    assert images_of(tmp_path / "install.yaml") == {
        f"{name}:{product.version()}" for name in product.TARGETS.values()
    }


def test_a_release_has_the_examples_of_the_documents(release_folder: Path, tmp_path: Path) -> None:
    (archive,) = release_folder.glob("ultraserver_webhook-*.tar.gz")
    shutil.copy(archive, tmp_path)
    (step,) = steps("docs/install.md", "The examples")
    assert session.run(step.command, tmp_path) == ("", 0)
    names = {path.name for path in (REPOSITORY / "examples").iterdir()}
    assert {path.name for path in (tmp_path / "examples").iterdir()} == names


def test_every_file_of_a_release_has_a_correct_checksum(release_folder: Path) -> None:
    lines = (release_folder / release.SUMS).read_text(encoding="utf-8").splitlines()
    without_checksum = {release.SUMS, f"{release.SUMS}.sig"}
    assert {line.partition("  ")[2] for line in lines} == {
        path.name for path in release_folder.iterdir()
    } - without_checksum
    (step,) = steps("docs/install.md", "From a release, without a clone")
    assert session.run(step.command, release_folder) == ("", 0)


def test_the_documented_command_changes_the_registry_of_all_images(
    release_folder: Path, tmp_path: Path
) -> None:
    for path in release_folder.glob("install*.yaml"):
        shutil.copy(path, tmp_path)
    (step,) = steps("docs/install.md", "A registry of your own")
    assert session.run(step.command, tmp_path) == ("", 0)
    for path in release_folder.glob("install*.yaml"):
        before = path.read_text(encoding="utf-8").splitlines()
        after = (tmp_path / path.name).read_text(encoding="utf-8").splitlines()
        changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert images_of(tmp_path / path.name) == {f"registry.example.com/{name}" for name in images_of(path)}
        assert all("        image: ultraserver-webhook" in old for old, _ in changed), path.name


def test_krew_would_install_the_plugin_of_the_release(release_folder: Path) -> None:
    (platform,) = yaml.safe_load((release_folder / "krew.yaml").read_text(encoding="utf-8"))["spec"][
        "platforms"
    ]
    archive = release_folder / platform["uri"].rpartition("/")[2]
    assert provenance.sha256(archive) == platform["sha256"]
    assert read_member(archive, platform["bin"]) == (release_folder / platform["bin"]).read_bytes()


def test_the_bill_of_materials_names_every_pinned_package(release_folder: Path) -> None:
    bill = json.loads((release_folder / release.BILL.name).read_text(encoding="utf-8"))
    components = {(item["name"].lower().replace("_", "-"), item["version"]) for item in bill["components"]}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = [*project["dependencies"], *project["optional-dependencies"]["controllers"]]
    assert {tuple(re.sub(r"\[.*\]", "", pin).split("==")) for pin in pins} <= components
    assert bill["metadata"]["component"]["version"] == product.version()


def test_the_provenance_names_every_file_every_image_and_every_package(release_folder: Path) -> None:
    data = json.loads((release_folder / provenance.NAME).read_text(encoding="utf-8"))
    lines = (release_folder / release.SUMS).read_text(encoding="utf-8").splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    subjects = {item["name"]: item["digest"]["sha256"] for item in data["subject"]}
    images = {f"{image}@sha256:{digest}" for image, digest in subjects.items() if image not in sums}
    assert images == images_of(release_folder / "install.yaml")
    assert {name: subjects.get(name) for name in sums if name != provenance.NAME}.items() <= sums.items()
    # pip installed one wheel for each package of the lock.
    wheels = {
        dependency["digest"]["sha256"]
        for dependency in data["predicate"]["buildDefinition"]["resolvedDependencies"]
        if dependency["name"].endswith(".whl")
    }
    text = (REPOSITORY / "locks" / "controllers.txt").read_text(encoding="utf-8")
    packages = [part for part in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE) if "==" in part]
    used = [part for part in packages if wheels & set(re.findall(r"sha256:([0-9a-f]+)", part))]
    assert (len(used), len(wheels)) == (len(packages), len(packages))


def test_the_same_source_gives_the_same_packages_and_manifests(release_folder: Path, tmp_path: Path) -> None:
    about = json.loads((release_folder / release.ABOUT).read_text(encoding="utf-8"))
    state = source.source_of(about["commit"])
    if state.tree != about["tree"]:
        pytest.skip("the checkout of the release had changes that git does not have")
    out = tmp_path / "out"
    out.mkdir()
    files = state.export(tmp_path / "elsewhere")
    writer = release.Writer(state, files, out, Progress(11))
    for archive in writer.archives().values():
        shutil.copy(release_folder / archive.name, out)
    writer.packages()
    writer.manifests()
    writer.plugin()
    new_sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}
    lines = (release_folder / release.SUMS).read_text(encoding="utf-8").splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert len(new_sums) == 18
    assert new_sums.items() <= sums.items()
