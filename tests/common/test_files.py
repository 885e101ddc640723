"""Which files the commands read: regular ones, of the folder that was named."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from common.files import content
from testbed.mpijob import mpijob
from tests.rules.tables import EXTENDS, mounted
from webhook.cli import main
from webhook.documents import dump_yaml

SECRET = "root:$6$secret:::"  # noqa: S105 - no one's
MAKES: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "pipe": (lambda file, _: os.mkfifo(file), "not a regular file"),
    "device": (lambda file, _: file.symlink_to("/dev/zero"), "a link that leads out of its folder"),
    "secret": (lambda file, secret: file.symlink_to(secret), "a link that leads out of its folder"),
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


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_waits_for_a_pipe_or_reads_what_a_link_leads_to(
    command: str, make: str, tmp_path: Path
) -> None:
    """Protects a pipeline from what the author of a folder puts there: it ends, and prints no other file."""
    (secret := tmp_path / "shadow").write_text(SECRET)
    (job := tmp_path / "job.yaml").write_text(dump_yaml(mpijob(4)))
    (folder := tmp_path / "theirs").mkdir()
    made, messages = MAKES[make]
    made(folder / "a.yaml", secret)
    names = {"FOLDER": folder, "FILE": folder / "a.yaml", "JOB": job}
    done = CliRunner().invoke(main, [str(names.get(word, word)) for word in command.split()])
    assert done.exit_code in {1, 2}, done.output
    assert SECRET not in done.output
    assert command.startswith("rules test") or messages in " ".join(done.output.split()), done.output


def test_links_inside_of_the_folder_are_read_as_those_of_a_mounted_config_map(tmp_path: Path) -> None:
    """Protects the rule table of an installation, of which every file is a link to a link's folder."""
    folder = mounted(tmp_path, "..1", rules="mode: shadow\n")
    for named in (folder, folder / "rules.yaml"):
        done = CliRunner().invoke(main, ["rules", "lint", "-f", str(named)])
        assert done.exit_code == 0, done.output
    assert content(folder / "rules.yaml", folder) == f"{EXTENDS}mode: shadow\n".encode()


def test_a_pipe_that_a_shell_names_is_read() -> None:
    """Protects ``preview <(helm template ...)`` and ``preview /dev/stdin``."""
    command = (sys.executable, "-m", "webhook", "preview", "-o", "why", "/dev/stdin")
    done = subprocess.run(command, input=dump_yaml(mpijob(4)), capture_output=True, text=True, check=False)
    assert "MPIJob" in done.stdout, done.stderr
