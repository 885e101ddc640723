"""What whoever waits for a build is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cluster.tools import progress

if TYPE_CHECKING:
    from pathlib import Path


def phase(folder: Path, script: str, counted: str = "") -> None:
    progress.Progress(1).phase("x", ["sh", "-c", script], cwd=folder, env=os.environ, counted=counted)


def test_a_number_is_said_of_what_is_counted_and_of_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    phase(tmp_path, "echo not news; echo a >&2; echo b >&2", progress.PACKAGES)
    assert capsys.readouterr().out.endswith(" s, 2 packages fetched or compiled\n")
    phase(tmp_path, "echo a >&2; echo b")
    assert capsys.readouterr().out.endswith(" s\n")


def test_an_error_on_standard_output_is_told(tmp_path: Path) -> None:
    with pytest.raises(progress.PhaseError, match=r"\nE: no such mirror$"):
        phase(tmp_path, "echo 'E: no such mirror'; exit 1")


def test_what_a_command_is_at_is_told_while_it_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.0)
    go_on = tmp_path / "go-on"
    monkeypatch.setattr(progress, "say", lambda text: "now I: Retrieving" in text and go_on.touch())
    phase(tmp_path, "echo 'I: Retrieving'; until [ -e go-on ]; do sleep 0.1; done")
    assert go_on.exists()
    assert capsys.readouterr().out == ""
