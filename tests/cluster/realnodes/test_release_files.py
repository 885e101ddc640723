"""What a release holds, and what it is made of; no nodes are needed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tomllib
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cluster.install.installation import steps
from tests.cluster.realnodes import product, release, source
from tests.cluster.tools.progress import Progress
from tests.docs import session
from tests.docs.blocks import REPOSITORY, documents, text_of

if TYPE_CHECKING:
    from pathlib import Path

OURS = re.compile(r"\bultraserver-webhook(?:-controllers)?:[0-9][\w.]*")


def images_of(manifest: Path) -> set[str]:
    """The images that a manifest's Pods run."""
    parts = yaml.safe_load_all(manifest.read_text(encoding="utf-8"))
    deployments = [part for part in parts if part["kind"] == "Deployment"]
    return {each["image"] for one in deployments for each in one["spec"]["template"]["spec"]["containers"]}


def test_the_version_is_the_tag_of_every_image_and_nothing_else_has_one() -> None:
    version = product.version()
    base = yaml.safe_load((REPOSITORY / "manifests" / "base" / "kustomization.yaml").read_text("utf-8"))
    assert {(row["newName"], row["newTag"]) for row in base["images"]} == {
        (name, version) for name in product.TARGETS.values()
    }
    elsewhere = [*(REPOSITORY / "manifests").rglob("*.yaml"), REPOSITORY / "Dockerfile"]
    texts = [path.read_text(encoding="utf-8") for path in elsewhere] + [*map(text_of, documents())]
    assert [found for text in texts for found in OURS.findall(text)] == []
    assert sum("newTag" in text for text in texts) == 1


def test_the_changelog_speaks_of_this_version() -> None:
    unreleased, _, rest = text_of("CHANGELOG.md").partition("## [Unreleased]\n")[2].partition("\n## [")
    assert f"Will be {product.version()}." in unreleased or rest.startswith(f"{product.version()}]")


def test_a_release_has_a_file_for_every_overlay_that_needs_none_of_ones_own(release_folder: Path) -> None:
    overlays = {path.name for path in (REPOSITORY / "manifests" / "overlays").iterdir()}
    there = {path.name for path in release_folder.glob("install-*.yaml")}
    assert there == {f"install-{name}.yaml" for name in overlays - {"bring-your-own-certificate"}}


def test_its_manifests_run_the_images_that_it_has(release_folder: Path) -> None:
    version = product.version()
    have = set()
    for path in release_folder.glob("*.tar"):
        listed = subprocess.run(
            ["tar", "--extract", "--to-stdout", f"--file={path}", "manifest.json"],
            check=True,
            capture_output=True,
        )
        (entry,) = json.loads(listed.stdout)
        have |= {tag.rpartition("/")[2] for tag in entry["RepoTags"]}
    assert have == {f"{name}:{version}" for name in product.TARGETS.values()}
    for manifest in release_folder.glob("install-*.yaml"):
        assert images_of(manifest) == have, manifest.name


def test_every_file_has_a_checksum_and_one_that_changed_is_found(
    release_folder: Path, tmp_path: Path
) -> None:
    lines = (release_folder / release.SUMS).read_text(encoding="utf-8").splitlines()
    assert {line.partition("  ")[2] for line in lines} == {path.name for path in release_folder.iterdir()} - {
        release.SUMS
    }
    (tmp_path / "release").mkdir()
    for path in release_folder.iterdir():
        (tmp_path / "release" / path.name).symlink_to(path)
    (step,) = steps("docs/install.md", "From a release, without a clone")
    assert session.run(step.command, tmp_path / "release") == ("", 0)
    changed = tmp_path / "release" / "install-eks.yaml"
    changed.unlink()
    changed.write_text("{}", encoding="utf-8")
    printed, status = session.run(step.command, tmp_path / "release")
    assert status == 1
    assert "install-eks.yaml: FAILED" in printed


def test_a_registry_of_ones_own_is_named_by_what_the_document_shows(
    release_folder: Path, tmp_path: Path
) -> None:
    for path in release_folder.glob("install-*.yaml"):
        shutil.copy(path, tmp_path)
    (step,) = steps("docs/install.md", "A registry of your own")
    assert session.run(step.command, tmp_path) == ("", 0)
    for path in release_folder.glob("install-*.yaml"):
        before = path.read_text(encoding="utf-8").splitlines()
        after = (tmp_path / path.name).read_text(encoding="utf-8").splitlines()
        changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert images_of(tmp_path / path.name) == {f"registry.example.com/{name}" for name in images_of(path)}
        assert all("        image: ultraserver-webhook" in old for old, _ in changed), path.name


def test_the_bill_of_materials_names_what_is_installed(release_folder: Path) -> None:
    bill = json.loads((release_folder / release.BILL.name).read_text(encoding="utf-8"))
    named = {(one["name"].lower().replace("_", "-"), one["version"]) for one in bill["components"]}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = [*project["dependencies"], *project["optional-dependencies"]["controllers"]]
    assert {tuple(re.sub(r"\[.*\]", "", pin).split("==")) for pin in pins} <= named
    assert bill["metadata"]["component"]["version"] == product.version()


def test_the_same_source_gives_the_same_packages_and_manifests(release_folder: Path, tmp_path: Path) -> None:
    about = json.loads((release_folder / release.ABOUT).read_text(encoding="utf-8"))
    state = source.committed(about["commit"])
    if state.tree != about["tree"]:
        pytest.skip("the release is of a checkout with changes, which git does not keep")
    out = tmp_path / "out"
    out.mkdir()
    files = state.export(tmp_path / "elsewhere")
    writer = release.Writer(state, files, out, Progress(11))
    writer.packages()
    writer.manifests(release.overlays(files))
    again = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}
    lines = (release_folder / release.SUMS).read_text(encoding="utf-8").splitlines()
    first = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert len(again) == 12
    assert again.items() <= first.items()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit, in place of this one."""
    folder = tmp_path / "clone"
    folder.mkdir()
    monkeypatch.setattr(source, "REPOSITORY", folder)
    for name, value in {"NAME": "a", "EMAIL": "a@example.invalid"}.items():
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    (folder / "file").write_text("committed", encoding="utf-8")
    source.git("init", "--quiet")
    source.git("add", "file")
    source.git("commit", "--quiet", "--message=first")
    return folder


def test_a_release_is_made_of_a_commit_and_a_checkout_that_differs_is_refused(clone: Path) -> None:
    with source.checkout() as state:
        assert source.clean() == source.committed() == state
    (clone / "file").write_text("changed", encoding="utf-8")
    (clone / "more").write_text("", encoding="utf-8")
    with pytest.raises(source.ReleaseError, match="2 files of this checkout differ") as error:
        source.clean()
    assert " M file\n" in str(error.value)
    assert "?? more\n" in str(error.value)
    assert "make release DIRTY=1" in str(error.value)


def test_what_is_not_committed_is_in_a_release_that_is_asked_for(clone: Path, tmp_path: Path) -> None:
    (clone / "more").write_text("not committed", encoding="utf-8")
    objects = sorted((clone / ".git").rglob("*"))
    with source.checkout() as state:
        assert state.commit == source.committed().commit
        assert (state.export(tmp_path / "out") / "more").read_text(encoding="utf-8") == "not committed"
    assert not (source.committed().export(tmp_path / "first") / "more").exists()
    assert source.git("status", "--porcelain") == "?? more", "the index is as it was"
    assert sorted((clone / ".git").rglob("*")) == objects, "nor is anything new in the repository"


def test_a_release_is_tested_as_long_as_it_installs_what_the_checkout_would(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> None:
        with source.checkout() as state:
            release.Writer(state, REPOSITORY, about, Progress(1)).sums()

    monkeypatch.setattr(release, "DIST", tmp_path)
    monkeypatch.setattr(product, "context", lambda: ["file"])
    about = release.folder(product.version())
    assert release.stale() == "there is no release of this checkout: make release"
    about.mkdir()
    made()
    (clone / "more").write_text("not installed", encoding="utf-8")
    assert release.stale() == ""
    (clone / "file").write_text("changed", encoding="utf-8")
    assert release.stale() == f"{about} is of another state of this checkout: make release DIRTY=1"
    made()
    assert release.stale() == "", "what it was made of is nowhere in the repository, and need not be"
    source.git("add", "file", "more")
    source.git("commit", "--quiet", "--message=second")
    assert release.stale() == ""
    source.git("rm", "--quiet", "file")
    source.git("commit", "--quiet", "--message=third")
    assert release.stale() == f"{about} is of another state of this checkout: make release"


def test_a_shallow_clone_says_that_it_lacks_the_release_before(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = source.committed().commit
    source.git("commit", "--quiet", "--allow-empty", "--message=second")
    monkeypatch.setattr(release, "BEFORE", first)
    assert release.not_held() == ""
    source.git("clone", "--quiet", "--depth=1", clone.as_uri(), str(tmp_path / "shallow"))
    monkeypatch.setattr(source, "REPOSITORY", tmp_path / "shallow")
    assert first in release.not_held()


def test_a_rewritten_history_says_that_it_lacks_the_release_before(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clone.is_dir()
    monkeypatch.setattr(release, "BEFORE", "0" * 40)
    with pytest.raises(source.ReleaseError, match=r"no commit 0{40}(.|\n)*BEFORE in release\.py"):
        release.write_before()


def test_what_is_no_repository_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "REPOSITORY", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(source.ReleaseError, match="not a git repository"):
        source.clean()
