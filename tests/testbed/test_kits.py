"""Tests of kits: complete builds, the Go toolchain, and the reports of progress."""

import json
import os
from pathlib import Path

import pytest

from testbed.kits import build, golang, progress
from testbed.kits.kit import MARKER, Kit

KIT = build.CONTROLLERS
"""A kit with all sorts of contents."""


@pytest.fixture
def complete_folder(tmp_path: Path) -> Path:
    """The folder of a complete build of the kit."""
    for name in KIT.contents():
        (tmp_path / name).touch()
    (tmp_path / MARKER).write_text(json.dumps({"recipe": KIT.recipe()}), encoding="utf-8")
    return tmp_path


def test_a_folder_with_all_programs_and_the_marker_of_this_recipe_is_complete(complete_folder: Path) -> None:
    assert KIT.missing(complete_folder) == []
    deleted = KIT.contents()[0]
    (complete_folder / deleted).unlink()
    assert KIT.missing(complete_folder) == [deleted]
    (complete_folder / MARKER).write_text(json.dumps({"recipe": "older"}), encoding="utf-8")
    assert KIT.missing(complete_folder) == KIT.contents()
    (complete_folder / MARKER).unlink()
    assert KIT.missing(complete_folder) == KIT.contents()


def test_a_variable_of_the_environment_sets_the_folder(tmp_path: Path) -> None:
    assert KIT.directory({KIT.variable: str(tmp_path)}) == tmp_path
    assert KIT.directory({}).name == KIT.recipe()


def test_a_go_that_is_too_old_or_broken_is_not_used(tmp_path: Path) -> None:
    go = tmp_path / "go"
    assert golang.usable(go) is None
    for answer, accepted in (("go1.25.9", False), ("go1.26.0", True), ("go2.0", True), ("nonsense", False)):
        go.write_text(f"#!/bin/sh\necho go version {answer} linux/amd64\n", encoding="utf-8")
        go.chmod(0o755)
        assert (golang.usable(go) is not None) is accepted


@pytest.mark.parametrize(
    ("arguments", "names"),
    [([], ["cluster-tools", "kueue", "controllers", "helm"]), (["kueue"], ["kueue"])],
    ids=["all", "a kit"],
)
def test_the_named_kits_are_built_and_without_names_all_kits(
    arguments: list[str], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    monkeypatch.setattr(Kit, "build", lambda kit: built.append(kit.name))
    assert build.main(arguments) == 0
    assert built == names


def test_an_unknown_kit_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        build.main(["kubelet"])
    assert "'kubelet' is none of cluster-tools, kueue, controllers, helm" in capsys.readouterr().err


# ---- Reports for the user who waits for a build ------------------------------------------------------------


def phase(folder: Path, script: str, counted: str = "") -> None:
    progress.Progress(1).phase("x", ["sh", "-c", script], cwd=folder, env=os.environ, counted=counted)


def test_a_number_is_shown_for_counted_items_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    phase(tmp_path, "echo not news; echo a >&2; echo b >&2", progress.PACKAGES)
    assert capsys.readouterr().out.endswith(" s, 2 packages fetched or compiled\n")
    phase(tmp_path, "echo a >&2; echo b")
    assert capsys.readouterr().out.endswith(" s\n")


def test_an_error_on_standard_output_is_reported(tmp_path: Path) -> None:
    with pytest.raises(progress.PhaseError, match=r"\nE: no such mirror$"):
        phase(tmp_path, "echo 'E: no such mirror'; exit 1")


def test_a_command_shows_its_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.0)
    go_on = tmp_path / "go-on"
    monkeypatch.setattr(progress, "say", lambda text: "now I: Retrieving" in text and go_on.touch())
    phase(tmp_path, "echo 'I: Retrieving'; until [ -e go-on ]; do sleep 0.1; done")
    assert go_on.exists()
    assert capsys.readouterr().out == ""
