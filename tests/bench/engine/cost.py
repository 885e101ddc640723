"""Measures the evaluation of objects that are made to be expensive: ``python -m tests.bench.engine.cost``.

The table has the CPU time per kilobyte of the object, which is the minimum of three evaluations, and the size
of the answer in relation to the object. A test counts the work of these objects: `tests/engine/test_cost.py`.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.attack import forged
from tests.engine.hostile import GENERATORS
from tests.helpers import request_for
from webhook.admission.review import encode
from webhook.engine import Outcome, evaluate
from webhook.rules.load import load_default

SIZES = (80_000, 160_000)
KINDS: dict[str, Callable[[int], Any]] = {**GENERATORS, **forged.KINDS}


def cpu(call: Callable[[], Outcome]) -> tuple[float, Outcome]:
    """Returns the minimum of the milliseconds of CPU time of three calls, and the result of the last call."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        outcome = call()
        times.append((time.process_time() - begun) * 1000)
    return min(times), outcome


def main() -> None:
    """Measures, and prints the table, with the most expensive object first."""
    table, rows = load_default(), []
    for name, make in KINDS.items():
        for size in SIZES:
            obj = make(size)
            kilobytes = len(json.dumps(obj)) / 1000
            spent, outcome = cpu(lambda obj=obj: evaluate(table, request_for(obj)))
            answer = len(encode("uid", outcome)) / 1000
            rows.append((spent / kilobytes, answer / kilobytes, kilobytes, name))
    sys.stdout.write("| object | KB | ms a KB | answer, of the object |\n| --- | --- | --- | --- |\n")
    for milliseconds, answer, kilobytes, name in sorted(rows, reverse=True):
        sys.stdout.write(f"| {name} | {kilobytes:.0f} | {milliseconds:.3f} | {answer:.1f} |\n")


if __name__ == "__main__":
    main()
