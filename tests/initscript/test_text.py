"""The text itself: small, and safe to pass through Kubernetes and the rule table."""

import re
import subprocess
from pathlib import Path

import pytest

import webhook.initscript
from webhook.initscript import VERSION, Stage, command, text

SOURCES = Path(webhook.initscript.__file__).parent
STAGES: tuple[Stage, ...] = ("wait", "init")
stages = pytest.mark.parametrize("stage", STAGES)


@stages
def test_the_version_is_in_a_comment_line(stage: Stage) -> None:
    assert text(stage).splitlines()[0] == f"# ultraserver-webhook {stage} script, version {VERSION}"


@stages
def test_no_other_comment_and_no_blank_line_travels(stage: Stage) -> None:
    assert not [line for line in text(stage).splitlines()[1:] if not line or line[0] in "# \t"]


@stages
def test_the_command_runs_the_text_with_bash(stage: Stage) -> None:
    assert command(stage) == ["bash", "-c", text(stage), "ultraserver-init", stage]


@stages
def test_kubernetes_expands_nothing_in_it(stage: Stage) -> None:
    # Kubernetes turns a doubled dollar into one, and $(NAME) into a variable where the container has it.
    assert "$$" not in text(stage)
    assert re.findall(r"\$\([A-Za-z0-9_.-]+\)", text(stage)) == []


@stages
def test_it_needs_no_temporary_file_of_bash(stage: Stage) -> None:
    assert "<<" not in text(stage)


@stages
def test_it_leans_on_bash_coreutils_and_ssh_only(stage: Stage) -> None:
    words = set(re.findall(r"(?:^|[|;&(`]|\bthen|\bdo)\s*([a-z][a-z0-9_-]*)", text(stage), re.MULTILINE))
    assert not words & {
        "grep",
        "sed",
        "awk",
        "python",
        "python3",
        "perl",
        "hostname",
        "ping",
        "find",
        "xargs",
        "cmp",
    }
    assert "mpirun" not in text(stage)


@stages
def test_what_it_adds_to_a_job_stays_small(stage: Stage) -> None:
    assert len(text(stage).encode()) < {"wait": 5800, "init": 14000}[stage]


@stages
def test_bash_accepts_it(stage: Stage) -> None:
    subprocess.run(["bash", "-n", "-c", text(stage)], check=True)


@stages
@pytest.mark.limit(5, "shellcheck itself takes that long")
@pytest.mark.program("shellcheck")
def test_shellcheck_finds_nothing(stage: Stage, tmp_path: Path) -> None:
    whole = tmp_path / f"{stage}.sh"
    whole.write_text("".join((SOURCES / name).read_text() for name in ("common.sh", f"{stage}.sh")))
    done = subprocess.run(["shellcheck", "--shell=bash", whole], check=False, capture_output=True, text=True)
    assert done.stdout == ""
