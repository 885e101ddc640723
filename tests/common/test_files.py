"""Tests that the commands read only regular files in the folder that the user names."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from common import messages
from common.files import content
from testbed.mpijob import mpijob
from tests.rules.tables import EXTENDS, mount_config_map
from webhook.cli import main
from webhook.documents import dump_yaml

SECRET = "root:$6$secret:::"  # noqa: S105 - not a real password
UNUSABLE_FILES: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "pipe": (lambda file, _: os.mkfifo(file), messages.NOT_REGULAR),
    "device": (lambda file, _: file.symlink_to("/dev/zero"), messages.LINK_LEADS_OUT),
    "secret": (lambda file, secret: file.symlink_to(secret), messages.LINK_LEADS_OUT),
}
COMMANDS = [
    "preview FOLDER",
    "preview FILE",
    "preview JOB --old FILE",
    "preview JOB --rules FILE",
    "preview JOB --rules FOLDER",
    "rules lint -f FILE",
    "rules lint -f FOLDER",
    "rules show -f FILE",
    "rules test FOLDER",
]


@pytest.mark.parametrize("name", UNUSABLE_FILES)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_waits_for_a_pipe_or_reads_a_file_of_another_folder(
    command: str, name: str, tmp_path: Path
) -> None:
    """Protects pipelines from folders of other users: a command ends, and reads no file elsewhere."""
    (secret := tmp_path / "shadow").write_text(SECRET)
    (job := tmp_path / "job.yaml").write_text(dump_yaml(mpijob(4)))
    (folder := tmp_path / "theirs").mkdir()
    create, message = UNUSABLE_FILES[name]
    create(folder / "a.yaml", secret)
    paths = {"FOLDER": folder, "FILE": folder / "a.yaml", "JOB": job}
    result = CliRunner().invoke(main, [str(paths.get(word, word)) for word in command.split()])
    assert result.exit_code in {1, 2}, result.output
    assert SECRET not in result.output
    assert command.startswith("rules test") or message in " ".join(result.output.split()), result.output


def test_links_inside_of_the_folder_are_read(tmp_path: Path) -> None:
    """Protects mounted rule tables: each file of a mounted ConfigMap is a link into a linked folder."""
    folder = mount_config_map(tmp_path, "..1", rules="mode: shadow\n")
    for path in (folder, folder / "rules.yaml"):
        result = CliRunner().invoke(main, ["rules", "lint", "-f", str(path)])
        assert result.exit_code == 0, result.output
    assert content(folder / "rules.yaml", folder) == f"{EXTENDS}mode: shadow\n".encode()


def test_a_pipe_of_the_shell_is_read() -> None:
    """Protects ``preview <(helm template ...)`` and ``preview /dev/stdin``."""
    command = (sys.executable, "-m", "webhook", "preview", "-o", "why", "/dev/stdin")
    result = subprocess.run(command, input=dump_yaml(mpijob(4)), capture_output=True, text=True, check=False)
    assert "MPIJob" in result.stdout, result.stderr
