"""Measures the evaluation of a plain MPIJob: ``python -m tests.bench.engine.plain``.

The table has the CPU time, also as a multiple of the time of ``json.loads`` for the same bytes. Every round
measures all rows of the table one after the other, so that a busy machine slows them equally. The last line
has the number of calls of this project's functions, which does not depend on the machine. Each step of a
generator is a call.
"""

import json
import statistics
import sys
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any

import webhook
from testbed.kits.progress import say
from testbed.mpijob import mpijob
from tests.helpers import load_text
from webhook.admission.review import encode
from webhook.engine import Request, evaluate
from webhook.rows.table import Table
from webhook.rules.load import load_default

ROUNDS, TIMES, ROWS, POLICIES = 5, 200, 1_000, 200
RUN = "mpirun -n 256 python3 train.py --steps 10000 --data s3://example-bucket/tokens"
MPIRUN = f"{RUN} --checkpoints s3://example-bucket/train/1234"


def plain_job(name: str = "train") -> dict[str, Any]:
    """Returns a job of four workers with the labels, command and settings of a typical user."""
    job = mpijob(4, name=name)
    labels = {"team": "research", "app.kubernetes.io/name": "train"}
    job["metadata"] |= {"namespace": "research", "labels": labels}
    job["spec"] |= {"slotsPerWorker": 64, "sshAuthMountPath": "/root/.ssh"}
    job["spec"]["runPolicy"] = {"cleanPodPolicy": "Running"}
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    launcher["containers"][0]["command"] = MPIRUN.split()
    return job


def table_with_rules(rows: int) -> Table:
    """Returns the packaged table with this number of additional rules, which do not match MPIJobs."""
    rules = [
        {
            "name": f"other-{number}",
            "reason": "Is for another kind.",
            "match": {"workload": ("pytorchjob", "leaderworkerset")[number % 2], "role": "worker"},
            "add": {"metadata": {"annotations": {f"example.com/row-{number}": "added"}}},
        }
        for number in range(rows)
    ]
    head = {"apiVersion": "ultraserver-webhook.io/v1alpha2", "kind": "RuleTable", "extends": "default"}
    return load_text(json.dumps({**head, "rules": rules}), "more rows")


def table_with_policies(count: int) -> Table:
    """Returns the packaged table with this number of policies. Only the last matches the job."""
    rows: list[dict[str, Any]] = [
        {"namespaces": [f"team-{number}", f"lab-{number}-*"], "mode": "shadow", "reason": "Tries it."}
        if number % 2
        else {"labels": {"team": f"team-{number}"}, "mode": "off", "reason": "Places its jobs itself."}
        for number in range(count - 1)
    ]
    rows.append({"namespaces": ["res*"], "rules": {"job-label": "enforce"}, "reason": "As it was."})
    head = {"apiVersion": "ultraserver-webhook.io/v1alpha2", "kind": "RuleTable", "extends": "default"}
    return load_text(json.dumps({**head, "policies": rows}), "policies")


def calls_of(table: Table, job: Any) -> Counter[str]:
    """Returns the number of calls of each function of this project in one evaluation."""
    root, calls = str(Path(webhook.__file__).parent.parent), Counter[str]()

    def count(frame: Any, event: str, _argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(root) and "site-packages" not in file:
            calls[f"{Path(file).stem}.{frame.f_code.co_name}"] += 1

    evaluate(table, Request(job))
    sys.setprofile(count)
    try:
        evaluate(table, Request(job))
    finally:
        sys.setprofile(None)
    return calls


def main() -> None:
    """Measures, and prints the table."""
    job = plain_job()
    text, table, large_table = json.dumps(job), load_default(), table_with_rules(ROWS)
    policy_table = table_with_policies(POLICIES)
    outcome = evaluate(table, Request(job))
    jobs = cycle(
        [plain_job(f"train-{number}") for number in range(TIMES)]
    )  # different jobs, as the caches get in a cluster
    calls = {
        "json.loads": lambda: json.loads(text),
        "evaluate": lambda: evaluate(table, Request(next(jobs))),
        "evaluate, policies": lambda: evaluate(policy_table, Request(job, "research")),
        "evaluate, more rows": lambda: evaluate(large_table, Request(job)),
        "encode the answer": lambda: encode("uid", outcome),
    }
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(ROUNDS):
        for name, call in calls.items():
            begun = time.process_time()
            for _ in range(TIMES):
                call()
            spent[name].append((time.process_time() - begun) / TIMES * 1e6)
        say(f"round {number + 1} of {ROUNDS}: {spent['evaluate'][-1] / spent['json.loads'][-1]:.1f}")
    more = f"{ROWS:,} more rows, {POLICIES} policies"
    say(f"\n{len(text)} bytes, an answer of {len(encode('uid', outcome)):,}; {more}\n")
    say("| | us of CPU: median | least | of `json.loads`: median | least |\n| --- | --- | --- | --- | --- |")
    for name, times in spent.items():
        ratio = statistics.median(map(float.__truediv__, times, spent["json.loads"]))
        least = f"{min(times):.1f} | {ratio:.1f} | {min(times) / min(spent['json.loads']):.1f}"
        say(f"| {name} | {statistics.median(times):.1f} | {least} |")
    project = calls_of(table, job)
    say(
        f"\n{project.total()} calls of project functions, {project['pointers.get']} of them to look up a path"
    )


if __name__ == "__main__":
    main()
