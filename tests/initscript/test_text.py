"""Tests that the init script is small, and that Kubernetes and the rule table pass it on unchanged."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import webhook.initscript
from testbed.mpijob import LAUNCHER, mpijob
from tests.helpers import request_for
from tests.initscript.stages import VARIABLE, Stage, command
from webhook.engine import evaluate
from webhook.initscript import VERSION, text
from webhook.objects.tree import get
from webhook.rules.load import load_default

SOURCES = Path(webhook.initscript.__file__).parent


def test_the_version_is_in_a_comment_line() -> None:
    assert text().splitlines()[0] == f"# ultraserver-webhook init script, version {VERSION}"


@pytest.mark.parametrize("stage", ["wait", "init"])
def test_a_container_without_the_script_fails_with_the_remedy(stage: Stage) -> None:
    commands = {container["name"]: container["command"] for container in init_containers()}
    name = {"wait": "wait-hostfilename", "init": "ultraserver-init-container"}[stage]
    assert commands[name] == command(stage)
    result = subprocess.run(commands[name], check=False, capture_output=True, text=True, env={VARIABLE: ""})
    assert result.returncode
    assert "the webhook did not see this Pod: delete it when the webhook is up" in result.stderr


def init_containers() -> list[Any]:
    """Returns the init containers that the packaged table adds to a launcher."""
    outcome = evaluate(load_default(), request_for(mpijob(4))).after
    return list(get(outcome, (*LAUNCHER, "spec", "initContainers")))


def test_the_text_has_no_other_comments_and_no_blank_lines() -> None:
    assert not [line for line in text().splitlines()[1:] if not line or line[0] in "# \t"]


def test_kubernetes_expands_nothing_in_the_text() -> None:
    # Kubernetes replaces $$ by $, and $(NAME) by the value of a variable of the container.
    assert "$$" not in text()
    assert re.findall(r"\$\([A-Za-z0-9_.-]+\)", text()) == []


def test_the_text_has_no_here_documents_for_which_bash_writes_temporary_files() -> None:
    assert "<<" not in text()


def test_the_text_uses_only_bash_coreutils_and_ssh() -> None:
    words = set(re.findall(r"(?:^|[|;&(`]|\bthen|\bdo)\s*([a-z][a-z0-9_-]*)", text(), re.MULTILINE))
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
    assert "mpirun" not in text()


def test_the_text_is_small() -> None:
    assert len(text().encode()) < 17_400


def test_bash_accepts_the_syntax() -> None:
    subprocess.run(["bash", "-n", "-c", text()], check=True)


@pytest.mark.limit(5, "shellcheck itself takes that long")
@pytest.mark.program("shellcheck")
def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    common, wait, setup = ((SOURCES / f"{name}.sh").read_text() for name in ("common", "wait", "init"))
    script.write_text(f"{common}\nif [[ ${{1-}} == wait ]]; then\n{wait}\nfi\n{setup}")
    result = subprocess.run(
        ["shellcheck", "--shell=bash", script], check=False, capture_output=True, text=True
    )
    assert result.stdout == ""
