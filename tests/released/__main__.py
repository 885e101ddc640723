"""Adds a version: ``python -m tests.released VERSION [--other-scripts]``."""

import argparse
from unittest.mock import patch

from tests.helpers import requested
from tests.released import cases, write
from webhook import initscript
from webhook.engine import evaluate
from webhook.rules.load import load_default

PACKAGED = initscript.text


def _other(stage: initscript.Stage) -> str:
    return f"# another release's {stage} script\n{PACKAGED(stage)}exit 0\n"


def main() -> None:
    """Writes the file of one version; refuses one that is there."""
    parser = argparse.ArgumentParser(prog="python -m tests.released")
    parser.add_argument("version")
    parser.add_argument(
        "--other-scripts",
        action="store_true",
        help="with init scripts of another text than the packaged ones",
    )
    arguments = parser.parse_args()
    with patch.object(initscript, "text", _other if arguments.other_scripts else PACKAGED):
        table = load_default()
    asked = requested({})
    write(
        arguments.version,
        table.revision,
        {"namespace": asked.namespace, "uid": asked.uid, "username": asked.username},
        {name: evaluate(table, requested(job)).operations for name, job in cases().items()},
        {stage: PACKAGED(stage) for stage in initscript.STAGES},
    )


if __name__ == "__main__":
    main()
