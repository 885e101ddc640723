"""When the programs of the control plane count as built."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.tools import build, golang

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    for name in (*build.PROGRAMS, build.CRD):
        (tmp_path / name).touch()
    (tmp_path / build.MARKER).write_text(json.dumps({"recipe": build.recipe()}), encoding="utf-8")
    return tmp_path


def test_a_directory_with_all_programs_and_the_marker_is_whole(whole: Path) -> None:
    assert build.missing(whole) == []


def test_a_directory_without_the_marker_is_not_taken_for_whole(whole: Path) -> None:
    (whole / build.MARKER).unlink()
    assert build.missing(whole) == [*build.PROGRAMS, build.CRD]


def test_programs_of_another_recipe_are_built_again(whole: Path) -> None:
    (whole / build.MARKER).write_text(json.dumps({"recipe": "older"}), encoding="utf-8")
    assert build.missing(whole) == [*build.PROGRAMS, build.CRD]


def test_a_program_that_was_deleted_is_missed(whole: Path) -> None:
    (whole / "etcd").unlink()
    assert build.missing(whole) == ["etcd"]


def test_the_environment_chooses_the_directory(tmp_path: Path) -> None:
    assert build.directory({"KUBEBUILDER_ASSETS": str(tmp_path)}) == tmp_path
    assert build.directory({}).name == build.recipe()


def test_a_go_that_is_too_old_or_broken_is_not_used(tmp_path: Path) -> None:
    go = tmp_path / "go"
    assert golang.usable(go) is None
    for answer, accepted in (("go1.25.9", False), ("go1.26.0", True), ("go2.0", True), ("nonsense", False)):
        go.write_text(f"#!/bin/sh\necho go version {answer} linux/amd64\n", encoding="utf-8")
        go.chmod(0o755)
        assert (golang.usable(go) is not None) is accepted
