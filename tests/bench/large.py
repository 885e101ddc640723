"""Measures the time until all Pods of a large job are bound: ``python -m tests.bench.large``.

Each turn starts a new control plane, with as many nodes as the job has workers. A turn places the job in one
of three ways: by a node selector only, without this project's policies; by an installation without whole-job
admission; or by the default installation. A shared machine may be a third faster in one minute than in the
next. So a turn with the node selector runs before and after each turn of the other ways, and the turn in the
middle is compared with the mean of these two.
"""

import argparse
import contextlib
import json
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

from testbed.experiment.stage import Stage, staged
from testbed.kits.progress import say
from testbed.mpijob import mpijob
from testbed.plane.controlplane import ControlPlane
from testbed.plane.nodes import INSTANCE_TYPE, NODES_PER_ULTRASERVER, TRN2U
from testbed.plane.placement import ACCOUNT, POLICY, install
from testbed.plane.webhook import INJECT
from testbed.waiting import until

WAYS = {"selector": "webhook", "webhook": "webhook", "whole job": "base"}
"""The ways to place the job, and the stage's policy for each of them."""
PODS = re.compile(
    r'^apiserver_request_total\{code="2.*resource="pods",.*subresource="(\w*)",verb="(P\w+)".* (\S+)$'
)
REVIEWS = re.compile(r'^apiserver_admission_webhook_request_total\{.*name="pods\..* (\S+)$')


def pod_counts(plane: ControlPlane) -> Counter[str]:
    """Returns the numbers of creations, patches, bindings and reviews of Pods."""
    counts: Counter[str] = Counter()
    for line in plane.kubectl.api.text("/metrics").splitlines():
        if match := PODS.match(line):
            counts[f"{match[2]} {match[1] or 'pods'}"] += int(float(match[3]))
        elif match := REVIEWS.match(line):
            counts["reviews"] += int(float(match[1]))
    return counts


def cpu(plane: ControlPlane) -> Counter[str]:
    """Returns the CPU time of every program with its child processes, in hundredths of a second."""
    groups: Counter[str] = Counter()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = stat.read_text().rpartition(")")[2].split()
            groups[words[2]] += int(words[11]) + int(words[12])
    return Counter({program.name: groups[str(program.pid)] for program in plane.programs.running})


def run(stage: Stage, way: str, workers: int) -> tuple[float, float]:
    """Creates the job, and waits for all bindings; returns the seconds, and all programs' CPU seconds."""
    plane, selector = stage.plane, {"nodeSelector": {INSTANCE_TYPE: TRN2U}}
    if way != "whole job":
        plane.kubectl.run("delete", f"{POLICY},{POLICY}Binding", "--all")
    if way == "webhook":
        install(plane, {"placement": False})
    job_options = {"annotations": {INJECT: "false"}, "worker_spec": selector} if way == "selector" else {}
    if way == "whole job":
        stage.start_program()
        plane.kubectl.wait_for(lambda obj: ACCOUNT in json.dumps(obj), "leases", "-A")
    counts, spent, began = pod_counts(plane), cpu(plane), time.monotonic()
    key, _ = stage.create(mpijob(workers, **job_options))

    def bound() -> bool:
        now = pod_counts(plane) - counts
        say(f"{way}: {time.monotonic() - began:5.1f} s: {dict(now)}")
        return now["POST binding"] > workers  # the launcher adds one binding

    until(bound, f"{workers} bound workers", 600, 0.5)
    seconds = time.monotonic() - began
    worker = next(pod for pod in stage.pods(key) if "worker" in pod["metadata"]["name"])
    affinity = worker["spec"].get("affinity", {})
    terms = sum(len(kind_terms) for kind in affinity.values() for kind_terms in kind.values())
    say(f"{way}: a worker has {len(json.dumps(worker)):,} bytes and {terms} terms")
    used = cpu(plane) - spent
    say(f"{way}: hundredths of a second of CPU: {dict(used.most_common())}")
    return seconds, used.total() / 100


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.large", description=__doc__)
    parser.add_argument("--workers", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    bare, *other_ways = WAYS
    turns = [bare, *(way for other in other_ways * options.rounds for way in (other, bare))]
    samples: list[tuple[float, float]] = []
    for number, way in enumerate(turns):
        say(f"turn {number + 1} of {len(turns)}: {way}")
        with (
            tempfile.TemporaryDirectory(prefix="ultraserver-bench-") as folder,
            staged(Path(folder), WAYS[way], options.workers // NODES_PER_ULTRASERVER) as stage,
        ):
            samples.append(run(stage, way, options.workers))
    say("\n| placed by | all bound, s | ratio to the selector | CPU, s | ratio to the selector |")
    say("| --- | --- | --- | --- | --- |")
    for way in WAYS:
        numbers = [number for number, turn in enumerate(turns) if turn == way]
        row = f"| {way} "
        for figures in zip(*samples, strict=True):
            row += f"| {median(figures[number] for number in numbers):.1f} "
            ratios = sorted(
                2 * figures[number] / (figures[number - 1] + figures[number + 1])
                for number in numbers
                if way != bare
            )
            row += f"| {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) " if ratios else "| 1 "
        say(f"{row}|")


if __name__ == "__main__":
    main()
