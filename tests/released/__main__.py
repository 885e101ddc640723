"""Adds a version: ``python -m tests.released VERSION``."""

import argparse

from tests.helpers import requested
from tests.released import cases, write
from webhook import initscript
from webhook.engine import evaluate
from webhook.rules.load import load_default


def main() -> None:
    """Writes the file of one version; refuses one that is there."""
    parser = argparse.ArgumentParser(prog="python -m tests.released")
    parser.add_argument("version")
    table = load_default()
    asked = requested({})
    write(
        parser.parse_args().version,
        table.revision,
        {"namespace": asked.namespace, "uid": asked.uid, "username": asked.username},
        {name: evaluate(table, requested(job)).operations for name, job in cases().items()},
        initscript.text(),
    )


if __name__ == "__main__":
    main()
