"""Tests of builds: missing programs, image archives, cached builds and failed builds."""

import os
import subprocess
from pathlib import Path

import pytest

from testbed.images import debian, images, product
from testbed.images.archives import Image
from testbed.kits import kit
from testbed.kits import nodes as build
from testbed.nodes import namespaces


def test_a_folder_without_a_program_is_incomplete(tmp_path: Path) -> None:
    for name in build.programs():
        (tmp_path / name).touch()
    assert build.missing(tmp_path) == []
    (tmp_path / "containerd").unlink()
    assert build.missing(tmp_path) == ["containerd"]


def test_the_version_of_a_module_is_read_from_go_mod_and_a_missing_module_is_named(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("require a.example/b v1.2.3\n", encoding="utf-8")
    assert kit.required(tmp_path / "go.mod", "a.example/b") == "v1.2.3"
    with pytest.raises(LookupError, match=r"does not require a\.example/c"):
        kit.required(tmp_path / "go.mod", "a.example/c")


def test_an_archive_has_the_programs_and_the_command_to_run(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"12345")
    path = images.archive(tmp_path / "out.tar", "localhost/x:1", {"/bin/x": program}, ["/bin/x"])
    image = Image.read(path)
    assert image.files() == {"bin/x": 5}
    assert image.config["config"]["Entrypoint"] == ["/bin/x"]


def test_only_the_newest_builds_are_kept(tmp_path: Path) -> None:
    for age, name in enumerate(("0" * 16, "a" * 16, "b" * 40)):  # a commit's name is longer
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "buildah").mkdir()
    kit.keep_newest(tmp_path, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"0" * 16, "buildah"}


@pytest.mark.parametrize("target", [["demo"], ["cluster", "NODES=4"]], ids=" ".join)
def test_make_checks_the_machine_before_it_builds_what_nodes_need(target: list[str]) -> None:
    options = ["--assume-old=.venv/.run", "--assume-old=.venv/.dev"]
    # Without --no-print-directory, a make that `make test` runs prints its folder, too.
    result = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *options, *target],
        cwd=product.REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    check, *builds, _ = result.stdout.replace("\\\n", "").splitlines()
    assert "namespaces.why_unusable()" in check
    assert [line.partition(" -m ")[2] for line in builds] == [
        "testbed.kits.build cluster-tools",
        "testbed.kits.nodes",
        "testbed.images.product",
    ]


def test_real_nodes_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert namespaces.why_unusable() == "namespaces, mounts and control groups need root"


def test_a_program_that_nodes_need_and_the_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(namespaces, "PROGRAMS", ("sh", "no-such-program"))
    assert namespaces.why_unusable().startswith("no-such-program")


def test_a_build_that_fails_leaves_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(product, "CACHE", tmp_path)
    monkeypatch.setattr(product, "unbuildable", lambda: "")
    with pytest.raises(FileExistsError), product.building() as out:
        out.mkdir()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


APT = """#!/bin/sh
case $1 in
update) touch "$0.lists" ;;
indextargets) [ ! -e "$0.lists" ] || echo http://deb.example.invalid/debian ;;
esac
"""


def test_a_machine_without_package_lists_gets_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text(APT, encoding="utf-8")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert debian.mirror() == "http://deb.example.invalid/debian"
