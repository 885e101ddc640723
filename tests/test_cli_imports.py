"""Tests that the command line starts fast: a command does not import slow modules that it does not need.

The test checks which modules are imported, not the time.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.waiting import PATIENCE

EXAMPLE = Path(__file__).parents[1] / "examples" / "four-node.yaml"

SERVING = {"flask", "werkzeug", "gunicorn", "kubernetes", "prometheus_client", "cryptography", "requests"}
NETWORK = {"ssl", "http.client", "asyncio"}
FOR_TESTS = {"jsonschema", "hypothesis"}

COMMANDS = ("--help", "rules lint", "rules show", f"preview {EXAMPLE}", "serve --help")

PROGRAM = f"""
import contextlib, io, json, sys
from webhook.cli import main
imported = {{}}
for command in {COMMANDS!r}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(command.split())
    imported[command] = [*sys.modules]
json.dump(imported, sys.stdout)
"""


@pytest.mark.limit(5, "starts a process")
def test_a_command_imports_only_what_it_needs() -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, timeout=PATIENCE, check=True
    )
    # The modules of a command include the modules of the commands before it. None of them may be slow.
    imported = json.loads(result.stdout)
    assert tuple(imported) == COMMANDS
    for command, modules in imported.items():
        assert "webhook.rules.load" in modules
        assert set(modules) & (SERVING | NETWORK | FOR_TESTS) == set(), command
