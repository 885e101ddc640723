"""What decides which programs are built, and what an archive made by hand holds."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cluster.realnodes import build, images, namespaces
from tests.cluster.realnodes.archives import Image
from tests.cluster.tools import build as plane
from tests.cluster.tools import kit

if TYPE_CHECKING:
    from pathlib import Path


def versions(file: Path) -> dict[str, str]:
    """What a go.mod requires, by module; replacements left out."""
    required, _, _ = file.read_text(encoding="utf-8").partition("\nreplace (")
    return dict(re.findall(r"^\t(\S+) (v\S+)", required, re.MULTILINE))


def test_nodes_and_control_plane_are_of_one_version_and_share_what_is_compiled() -> None:
    of_nodes = versions(build.MODULES / "kubernetes" / "go.mod")
    of_plane = versions(plane.HERE / "go.mod")
    assert of_nodes["k8s.io/kubernetes"] == plane.CONTROL_PLANE.version()
    assert of_plane.items() <= of_nodes.items()


def test_a_folder_that_lacks_a_program_is_not_taken_for_built(tmp_path: Path) -> None:
    for name in build.programs():
        (tmp_path / name).touch()
    assert build.missing(tmp_path) == []
    (tmp_path / "containerd").unlink()
    assert build.missing(tmp_path) == ["containerd"]


def test_a_module_that_is_not_required_is_named(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("require a.example/b v1.2.3\n", encoding="utf-8")
    assert kit.required(tmp_path / "go.mod", "a.example/b") == "v1.2.3"
    with pytest.raises(LookupError, match=r"does not require a\.example/c"):
        kit.required(tmp_path / "go.mod", "a.example/c")


def test_an_archive_holds_the_programs_and_says_what_to_run(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"12345")
    made = images.archive(tmp_path / "out.tar", "localhost/x:1", {"/bin/x": program}, ["/bin/x"])
    image = Image.read(made)
    assert image.files() == {"bin/x": 5}
    assert image.config["config"]["Entrypoint"] == ["/bin/x"]


def test_of_what_is_kept_by_recipe_the_newest_stay(tmp_path: Path) -> None:
    for age, name in enumerate(("0" * 16, "a" * 16, "b" * 40)):  # a commit's name is longer
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "buildah").mkdir()
    kit.keep_newest(tmp_path, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"0" * 16, "buildah"}


@pytest.mark.parametrize("target", [["demo"], ["cluster", "NODES=4"]], ids=" ".join)
def test_make_asks_what_nodes_need_before_it_builds_all_of_that_and_no_more(target: list[str]) -> None:
    made = ["--assume-old=.venv/.run", "--assume-old=.venv/.dev"]
    # Below another make, as in `make test`, it would name its folder as well.
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *made, *target],
        cwd=plane.HERE.parents[2],
        check=True,
        capture_output=True,
        text=True,
    )
    asks, *builds, _ = done.stdout.replace("\\\n", "").splitlines()
    assert "namespaces.unusable()" in asks
    assert [line.partition(" -m ")[2] for line in builds] == [
        "tests.cluster.tools.build cluster-tools",
        "tests.cluster.realnodes.build",
        "tests.cluster.realnodes.product",
    ]


def test_whoever_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert namespaces.unusable() == "namespaces, mounts and control groups need root"


def test_a_machine_without_a_program_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(namespaces, "PROGRAMS", ("sh", "no-such-program"))
    assert namespaces.unusable().startswith("no-such-program")
