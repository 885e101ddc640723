"""When the programs of a kit count as built."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.tools import build, definitions, golang
from tests.cluster.tools.kit import MARKER, Kit

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[build.CONTROL_PLANE, build.KUEUE], ids=lambda kit: kit.name)
def kit(request: pytest.FixtureRequest) -> Kit:
    found: Kit = request.param
    return found


@pytest.fixture
def whole(kit: Kit, tmp_path: Path) -> Path:
    for name in kit.contents():
        (tmp_path / name).touch()
    (tmp_path / MARKER).write_text(json.dumps({"recipe": kit.recipe()}), encoding="utf-8")
    return tmp_path


def test_a_directory_with_all_programs_and_the_marker_is_whole(kit: Kit, whole: Path) -> None:
    assert kit.missing(whole) == []


def test_a_directory_without_the_marker_is_not_taken_for_whole(kit: Kit, whole: Path) -> None:
    (whole / MARKER).unlink()
    assert kit.missing(whole) == kit.contents()


def test_programs_of_another_recipe_are_built_again(kit: Kit, whole: Path) -> None:
    (whole / MARKER).write_text(json.dumps({"recipe": "older"}), encoding="utf-8")
    assert kit.missing(whole) == kit.contents()


def test_a_program_that_was_deleted_is_missed(kit: Kit, whole: Path) -> None:
    deleted = kit.contents()[0]
    (whole / deleted).unlink()
    assert kit.missing(whole) == [deleted]


def test_the_environment_chooses_the_directory(kit: Kit, tmp_path: Path) -> None:
    assert kit.directory({kit.variable: str(tmp_path)}) == tmp_path
    assert kit.directory({}).name == kit.recipe()


def test_a_go_that_is_too_old_or_broken_is_not_used(tmp_path: Path) -> None:
    go = tmp_path / "go"
    assert golang.usable(go) is None
    for answer, accepted in (("go1.25.9", False), ("go1.26.0", True), ("go2.0", True), ("nonsense", False)):
        go.write_text(f"#!/bin/sh\necho go version {answer} linux/amd64\n", encoding="utf-8")
        go.chmod(0o755)
        assert (golang.usable(go) is not None) is accepted


@pytest.mark.parametrize(
    ("arguments", "names"),
    [([], ["cluster-tools", "kueue", "kinds"]), (["kueue"], ["kueue"]), (["kinds"], ["kinds"])],
    ids=["all", "a kit", "the definitions"],
)
def test_the_kits_that_are_named_are_built_and_all_where_none_is(
    arguments: list[str], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    monkeypatch.setattr(Kit, "build", lambda kit: built.append(kit.name))
    monkeypatch.setattr(definitions, "fetch", lambda: built.append(definitions.NAME))
    assert build.main(arguments) == 0
    assert built == names


def test_a_kit_that_there_is_not_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        build.main(["kubelet"])
    assert "'kubelet' is none of cluster-tools, kueue, kinds" in capsys.readouterr().err
