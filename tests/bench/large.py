"""One large job, until all its Pods are bound: ``python -m tests.bench.large``.

On a control plane of its own each time, with as many nodes as the job has workers: by a node selector only,
without our policies; as an installation without placement has it; and by the default, one after the other and
again. A machine of many tenants is a third faster in one minute than in another, so the selector has a turn
before and after each of the others, which are compared with the mean of these two.
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
"""How the job is placed, and the stage's policy for it."""
PODS = re.compile(
    r'^apiserver_request_total\{code="2.*resource="pods",.*subresource="(\w*)",verb="(P\w+)".* (\S+)$'
)
REVIEWS = re.compile(r'^apiserver_admission_webhook_request_total\{.*name="pods\..* (\S+)$')


def counted(plane: ControlPlane) -> Counter[str]:
    """Returns how often Pods were created, patched and bound, and how often the webhook got one."""
    counts: Counter[str] = Counter()
    for line in plane.kubectl.api.text("/metrics").splitlines():
        if match := PODS.match(line):
            counts[f"{match[2]} {match[1] or 'pods'}"] += int(float(match[3]))
        elif match := REVIEWS.match(line):
            counts["reviews"] += int(float(match[1]))
    return counts


def cpu(plane: ControlPlane) -> Counter[str]:
    """Hundredths of a second of every program, with what it has started."""
    groups: Counter[str] = Counter()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = stat.read_text().rpartition(")")[2].split()
            groups[words[2]] += int(words[11]) + int(words[12])
    return Counter({program.name: groups[str(program.pid)] for program in plane.programs.running})


def run(stage: Stage, way: str, workers: int) -> tuple[float, float]:
    """Creates the job and follows it, by what the API server counts; seconds until all is bound, and CPU."""
    plane, selector = stage.plane, {"nodeSelector": {INSTANCE_TYPE: TRN2U}}
    if way != "whole job":
        plane.kubectl.run("delete", f"{POLICY},{POLICY}Binding", "--all")
    if way == "webhook":
        install(plane, {"placement": False})
    own = {"annotations": {INJECT: "false"}, "worker_spec": selector} if way == "selector" else {}
    if way == "whole job":
        stage.start_program()
        plane.kubectl.wait_for(lambda obj: ACCOUNT in json.dumps(obj), "leases", "-A")
    counts, spent, began = counted(plane), cpu(plane), time.monotonic()
    key, _ = stage.create(mpijob(workers, **own))

    def bound() -> bool:
        now = counted(plane) - counts
        say(f"{way}: {time.monotonic() - began:5.1f} s: {dict(now)}")
        return now["POST binding"] > workers  # the launcher is one more

    until(bound, f"{workers} bound workers", 600, 0.5)
    seconds = time.monotonic() - began
    worker = next(pod for pod in stage.pods(key) if "worker" in pod["metadata"]["name"])
    terms = sum(len(each) for kind in worker["spec"].get("affinity", {}).values() for each in kind.values())
    say(f"{way}: a worker has {len(json.dumps(worker)):,} bytes and {terms} terms")
    used = cpu(plane) - spent
    say(f"{way}: hundredths of a second of CPU: {dict(used.most_common())}")
    return seconds, used.total() / 100


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.large", description=__doc__)
    parser.add_argument("--workers", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    bare, *others = WAYS
    turns = [bare, *(way for other in others * options.rounds for way in (other, bare))]
    samples: list[tuple[float, float]] = []
    for number, way in enumerate(turns):
        say(f"turn {number + 1} of {len(turns)}: {way}")
        with (
            tempfile.TemporaryDirectory(prefix="ultraserver-bench-") as folder,
            staged(Path(folder), WAYS[way], options.workers // NODES_PER_ULTRASERVER) as stage,
        ):
            samples.append(run(stage, way, options.workers))
    say("\n| placed by | all bound, s | of the selector's | CPU, s | of the selector's |")
    say("| --- | --- | --- | --- | --- |")
    for way in WAYS:
        at = [number for number, turn in enumerate(turns) if turn == way]
        row = f"| {way} "
        for figures in zip(*samples, strict=True):
            row += f"| {median(figures[one] for one in at):.1f} "
            ratios = sorted(
                2 * figures[one] / (figures[one - 1] + figures[one + 1]) for one in at if way != bare
            )
            row += f"| {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) " if ratios else "| 1 "
        say(f"{row}|")


if __name__ == "__main__":
    main()
