"""The text itself: small, and safe to pass through Kubernetes and the rule table."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import webhook.initscript
from testbed.mpijob import LAUNCHER, mpijob
from tests.helpers import requested
from tests.initscript.stages import VARIABLE, Stage, command
from webhook.engine import evaluate
from webhook.initscript import VERSION, text
from webhook.objects.tree import get
from webhook.rules.load import load_default

SOURCES = Path(webhook.initscript.__file__).parent


def test_the_version_is_in_a_comment_line() -> None:
    assert text().splitlines()[0] == f"# ultraserver-webhook init script, version {VERSION}"


@pytest.mark.parametrize("stage", ["wait", "init"])
def test_without_its_script_a_container_fails_with_the_remedy(stage: Stage) -> None:
    rows = {container["name"]: container["command"] for container in init_containers()}
    name = {"wait": "wait-hostfilename", "init": "ultraserver-init-container"}[stage]
    assert rows[name] == command(stage)
    done = subprocess.run(rows[name], check=False, capture_output=True, text=True, env={VARIABLE: ""})
    assert done.returncode
    assert "the webhook did not see this Pod: delete it when the webhook is up" in done.stderr


def init_containers() -> list[Any]:
    """Returns those of a launcher that the packaged table changed."""
    outcome = evaluate(load_default(), requested(mpijob(4))).after
    return list(get(outcome, (*LAUNCHER, "spec", "initContainers")))


def test_no_other_comment_and_no_blank_line_travels() -> None:
    assert not [line for line in text().splitlines()[1:] if not line or line[0] in "# \t"]


def test_kubernetes_expands_nothing_in_it() -> None:
    # Kubernetes turns a doubled dollar into one, and $(NAME) into a variable where the container has it.
    assert "$$" not in text()
    assert re.findall(r"\$\([A-Za-z0-9_.-]+\)", text()) == []


def test_it_needs_no_temporary_file_of_bash() -> None:
    assert "<<" not in text()


def test_it_leans_on_bash_coreutils_and_ssh_only() -> None:
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


def test_what_it_adds_to_a_launcher_stays_small() -> None:
    assert len(text().encode()) < 17_400


def test_bash_accepts_it() -> None:
    subprocess.run(["bash", "-n", "-c", text()], check=True)


@pytest.mark.limit(5, "shellcheck itself takes that long")
@pytest.mark.program("shellcheck")
def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    whole = tmp_path / "script.sh"
    common, wait, setup = ((SOURCES / f"{name}.sh").read_text() for name in ("common", "wait", "init"))
    whole.write_text(f"{common}\nif [[ ${{1-}} == wait ]]; then\n{wait}\nfi\n{setup}")
    done = subprocess.run(["shellcheck", "--shell=bash", whole], check=False, capture_output=True, text=True)
    assert done.stdout == ""
