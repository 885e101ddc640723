"""What the objects that are made to cost do cost: ``python -m tests.bench.engine.cost``.

CPU time for each kilobyte of the object, of the best of three evaluations, and how long the answer is. A test
holds the same by counting work (`tests/engine/test_cost.py`).
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.attack import forged
from tests.engine.hostile import GENERATORS
from tests.helpers import requested
from webhook.admission.review import encode
from webhook.engine import Outcome, evaluate
from webhook.rules.load import load_default

SIZES = (80_000, 160_000)
KINDS: dict[str, Callable[[int], Any]] = {**GENERATORS, **forged.KINDS}


def cpu(call: Callable[[], Outcome]) -> tuple[float, Outcome]:
    """Milliseconds of CPU time of one call, the least of three, and what it gave."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        outcome = call()
        times.append((time.process_time() - begun) * 1000)
    return min(times), outcome


def main() -> None:
    """Measures and prints, the most expensive first."""
    table, rows = load_default(), []
    for name, make in KINDS.items():
        for size in SIZES:
            obj = make(size)
            kilobytes = len(json.dumps(obj)) / 1000
            spent, outcome = cpu(lambda obj=obj: evaluate(table, requested(obj)))
            answer = len(encode("uid", outcome)) / 1000
            rows.append((spent / kilobytes, answer / kilobytes, kilobytes, name))
    sys.stdout.write("| object | KB | ms a KB | answer, of the object |\n| --- | --- | --- | --- |\n")
    for each, answer, kilobytes, name in sorted(rows, reverse=True):
        sys.stdout.write(f"| {name} | {kilobytes:.0f} | {each:.3f} | {answer:.1f} |\n")


if __name__ == "__main__":
    main()
