"""The command line starts fast: what costs time to import is imported by the commands that need it.

Held by the modules that are imported, not by a clock.
"""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "four-node.yaml"

SERVING = {"flask", "gunicorn", "kubernetes", "prometheus_client", "cryptography", "requests"}
NETWORK = {"ssl", "http.client", "asyncio"}
FORMATS = {"rfc3987_syntax", "rfc3987", "lark", "isoduration", "arrow", "fqdn", "idna", "uri_template"}

PROGRAM = """
import sys
from webhook.cli import main
try:
    main()
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "command",
    [["--help"], ["rules", "lint"], ["rules", "show"], ["preview", str(EXAMPLE)], ["serve", "--help"]],
)
def test_a_command_imports_only_what_it_needs(command: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, timeout=120, check=True
    )
    imported = set(ran.stderr.splitlines()[-1].split())
    assert "webhook.rules.load" in imported
    assert imported & (SERVING | NETWORK | FORMATS) == set()


def test_what_is_hidden_from_jsonschema_can_be_imported_afterwards() -> None:
    program = (
        "import sys, webhook.rules.schema as schema\n"
        "assert not [name for name in schema.FORMAT_LIBRARIES if name in sys.modules]\n"
        "import isoduration"
    )
    subprocess.run([sys.executable, "-c", program], timeout=120, check=True)
