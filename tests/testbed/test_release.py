"""Tests of the sources and the version of a release."""

import re
from pathlib import Path

import pytest
import yaml

from testbed import chart
from testbed.images import product
from testbed.kits.progress import Progress
from testbed.release import release, source
from tests.docs.blocks import REPOSITORY, documents, text_of

PRODUCT_IMAGE = re.compile(r"(?<![.\w])ultraserver-webhook(?:-controllers)?:[0-9][\w.]*")


def test_the_version_is_the_tag_of_every_image_and_other_files_name_no_tag() -> None:
    version = product.version()
    metadata = yaml.safe_load((chart.CHART / "Chart.yaml").read_text("utf-8"))
    assert (metadata["version"], metadata["appVersion"]) == (version, version)
    rendered = set(PRODUCT_IMAGE.findall(chart.INSTALL.read_text(encoding="utf-8")))
    assert rendered == {f"{name}:{version}" for name in product.TARGETS.values()}
    assert rendered == set(PRODUCT_IMAGE.findall(metadata["annotations"]["artifacthub.io/images"]))
    elsewhere = [*chart.CHART.rglob("[!C]*.yaml"), REPOSITORY / "Dockerfile"]
    texts = [path.read_text(encoding="utf-8") for path in elsewhere] + [*map(text_of, documents())]
    assert [image for text in texts for image in PRODUCT_IMAGE.findall(text)] == []


def test_the_changelog_has_this_version() -> None:
    unreleased, _, rest = text_of("CHANGELOG.md").partition("## [Unreleased]\n")[2].partition("\n## [")
    assert f"This will be {product.version()}." in unreleased or rest.startswith(f"{product.version()}]")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, which ``source`` uses in place of this repository."""
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


def test_a_checkout_with_changes_is_refused(clone: Path) -> None:
    with source.checkout() as state:
        assert source.clean() == source.source_of() == state
    (clone / "file").write_text("changed", encoding="utf-8")
    (clone / "more").write_text("", encoding="utf-8")
    with pytest.raises(source.ReleaseError, match="2 files of this checkout differ") as error:
        source.clean()
    assert " M file\n" in str(error.value)
    assert "?? more\n" in str(error.value)
    assert "make release DIRTY=1" in str(error.value)


def test_the_release_of_a_checkout_contains_files_that_are_not_committed(clone: Path, tmp_path: Path) -> None:
    (clone / "more").write_text("not committed", encoding="utf-8")
    objects = sorted((clone / ".git").rglob("*"))
    with source.checkout() as state:
        assert state.commit == source.source_of().commit
        assert (state.export(tmp_path / "out") / "more").read_text(encoding="utf-8") == "not committed"
    assert not (source.source_of().export(tmp_path / "first") / "more").exists()
    assert source.git("status", "--porcelain") == "?? more", "the index is unchanged"
    assert sorted((clone / ".git").rglob("*")) == objects, "the repository has no new objects"


def test_a_release_is_stale_if_the_checkout_would_install_other_files(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_about() -> None:
        with source.checkout() as state:
            release.Writer(state, REPOSITORY, release_folder, Progress(1)).about()

    monkeypatch.setattr(release, "DIST", tmp_path)
    monkeypatch.setattr(product, "context", lambda: ["file"])
    release_folder = release.folder(product.version())
    assert release.why_stale() == "there is no release of this checkout: make release"
    release_folder.mkdir()
    write_about()
    (clone / "more").write_text("not installed", encoding="utf-8")
    assert release.why_stale() == ""
    (clone / "file").write_text("changed", encoding="utf-8")
    assert (
        release.why_stale() == f"{release_folder} is of another state of this checkout: make release DIRTY=1"
    )
    write_about()
    assert release.why_stale() == "", "the sources of the release need not be in the repository"
    source.git("add", "file", "more")
    source.git("commit", "--quiet", "--message=second")
    assert release.why_stale() == ""
    source.git("rm", "--quiet", "file")
    source.git("commit", "--quiet", "--message=third")
    assert release.why_stale() == f"{release_folder} is of another state of this checkout: make release"


def test_a_shallow_clone_without_the_previous_release_is_an_error(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = source.source_of().commit
    source.git("commit", "--quiet", "--allow-empty", "--message=second")
    monkeypatch.setattr(release, "BEFORE", first)
    assert release.why_previous_unbuildable() == ""
    source.git("clone", "--quiet", "--depth=1", clone.as_uri(), str(tmp_path / "shallow"))
    monkeypatch.setattr(source, "REPOSITORY", tmp_path / "shallow")
    assert first in release.why_previous_unbuildable()


def test_a_history_without_the_previous_release_is_an_error(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clone.is_dir()
    monkeypatch.setattr(release, "BEFORE", "0" * 40)
    with pytest.raises(source.ReleaseError, match=r"no commit 0{40}(.|\n)*BEFORE in release\.py"):
        release.write_previous()


def test_a_folder_that_is_not_a_repository_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "REPOSITORY", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(source.ReleaseError, match="not a git repository"):
        source.clean()
