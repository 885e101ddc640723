"""What a review costs in process: ``python -m tests.bench.engine``.

Every figure is a ratio to reading the review with the standard library, in the same run: these machines are
small and noisy, and milliseconds from one of them mean nothing on another.
"""

import copy
import json
import sys
import timeit
from collections.abc import Callable

import jsonpatch
import orjson

from testbed.mpijob import mpijob
from tests.helpers import requested
from webhook.admission.app import create_app
from webhook.admission.review import decode, encode
from webhook.client import admission_review
from webhook.engine import evaluate
from webhook.rules.load import load_default
from webhook.rules.source import TableSource
from webhook.state import CurrentState

ROUNDS, CALLS = 7, 200


def best(call: Callable[[], object]) -> float:
    """Seconds of one call: the best round, for noise only ever adds."""
    return min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS


def main() -> None:
    """Measures and prints."""
    table = load_default()
    job = mpijob(4)
    body = json.dumps(admission_review(job, "default")).encode()
    outcome = evaluate(table, requested(job))
    again = requested(outcome.after)
    client = create_app(CurrentState(TableSource(table=table))).test_client()
    steps: dict[str, Callable[[], object]] = {
        "json.loads of the review": lambda: json.loads(body),
        "decode (orjson, checks)": lambda: decode(body),
        "evaluate a plain job": lambda: evaluate(table, requested(job)),
        "evaluate it again, mutated": lambda: evaluate(table, again),
        "encode the response": lambda: encode("uid", outcome),
        "orjson.dumps of the patch alone": lambda: orjson.dumps(outcome.operations),
        "the whole review through Flask": lambda: client.post(
            "/mutate", data=body, content_type="application/json"
        ),
        "deepcopy and jsonpatch.make_patch, for comparison": lambda: jsonpatch.make_patch(
            copy.deepcopy(job), outcome.after
        ),
    }
    found = {name: best(step) for name, step in steps.items()}
    unit = found["json.loads of the review"]
    sys.stdout.write(f"{'':50}  times json.loads of the same {len(body)} bytes\n")
    for name, seconds in found.items():
        sys.stdout.write(f"{name:50}  {seconds / unit:6.1f}\n")


if __name__ == "__main__":
    main()
