"""What the webhook adds to a real create, next to one in Go: ``python -m tests.bench.admission``.

An API server with etcd and no controllers, and namespaces that differ by who is asked: no one, our webhook,
and a minimal one in Go (`main.go`, with the clients too) that answers one patch: what ours gives, or what it
gave at a commit before. Blocks of creates go round the namespaces, in another order each time.
"""

import argparse
import contextlib
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from testbed.kits import golang
from testbed.kits.progress import say
from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane, answers_ok
from testbed.plane.process import free_ports
from testbed.release.source import Source
from testbed.waiting import PATIENCE
from tests.bench.engine.plain import plain
from tests.bench.large import cpu

NONE, OURS = "none", "ours"
CREATES = {1: 60, 16: 12}
"""Clients, and how many creates each of them makes in a block."""
ASK = """
import json, sys
from webhook.engine import Request, evaluate
from webhook.rules.load import load_default
outcome = evaluate(load_default(), Request(json.load(sys.stdin)))
json.dump(outcome.operations, sys.stdout, separators=(",", ":"))
"""

Times = dict[str, list[list[int]]]
Found = tuple[Times, Counter[str]]
"""By namespace: for each round microseconds of every create, and hundredths of a second of CPU of all."""


class Storage(ControlPlane):
    """A control plane that stores objects, and does nothing with them."""

    def _start_controllers(self) -> None:
        """None of them."""

    _start_operator = _start_controllers


def patch(checkout: Path, file: Path) -> Path:
    """Writes what the webhook of a checkout answers to the job."""
    command, requests = [sys.executable, "-c", ASK], json.dumps(plain("job-0000000"))
    done = subprocess.run(command, cwd=checkout, input=requests.encode(), check=True, stdout=subprocess.PIPE)
    say(f"{file.name}: a patch of {file.write_bytes(done.stdout):,} bytes")
    return file


@contextlib.contextmanager
def registered(plane: ControlPlane, folder: Path, program: Path, patches: list[Path]) -> Iterator[list[str]]:
    """Starts and registers the webhooks; the namespaces, each of them named as who is asked there."""
    ours, (port,) = webhook.start(plane.programs, folder), free_ports(1)
    command = [program, "serve", port, folder / "tls.crt", folder / "tls.key", *patches]
    started = plane.programs.start("go", list(map(str, command)))
    go = f"https://127.0.0.1:{port}"
    started.wait_ready(lambda: answers_ok(f"{go}/readyz", ours.ca), PATIENCE)
    urls = {OURS: f"{ours.url}/mutate", **{file.name: f"{go}{file}" for file in patches}}
    with contextlib.ExitStack() as stack:
        for name in (NONE, *urls):
            plane.kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            if name in urls:
                document = webhook.configuration(
                    ours, name, {"matchLabels": {"kubernetes.io/metadata.name": name}}
                )
                del document["webhooks"][1:]
                document["webhooks"][0]["clientConfig"]["url"] = urls[name]
                stack.enter_context(webhook.registered(plane.kubectl.in_namespace(name), document))
        yield [NONE, *urls]


def blocks(plane: ControlPlane, program: Path, names: list[str], clients: int, rounds: int) -> Found:
    """Returns a block of creates in every namespace, again and again; the first round is not counted."""
    file, each, job = plane.folder / "job.json", CREATES[clients], plain("NAME")
    del job["metadata"]["namespace"]
    file.write_text(json.dumps(job), encoding="utf-8")
    env = {"TOKEN": json.loads(plane.kubeconfig.read_text())["users"][0]["user"]["token"]}
    times, used = {name: list[list[int]]() for name in names}, Counter[str]()
    for number in range(rounds + 1):
        for name in random.sample(names, len(names)):
            url = f"{plane.server}/apis/kubeflow.org/v2beta1/namespaces/{name}/mpijobs"
            command = [program, "create", plane.folder / "credentials/ca.crt", file, url, clients, each]
            before = cpu(plane).total()
            done = subprocess.run(list(map(str, command)), env=env, check=True, stdout=subprocess.PIPE)
            if number:
                used[name] += cpu(plane).total() - before
                times[name].append([int(line) for line in done.stdout.split()])
            plane.kubectl.in_namespace(name).delete("mpijobs")
        say(f"{clients} at once: {number} of {rounds} rounds")
    return times, used


def added(times: Times, name: str, part: slice = slice(None)) -> float:
    """Milliseconds more of a create, at the median of a block, than in the same round without a webhook."""
    pairs = zip(times[name][part], times[NONE][part], strict=True)
    return statistics.median(statistics.median(one) - statistics.median(bare) for one, bare in pairs) / 1000


def shown(times: Times, used: Counter[str], clients: int) -> Iterator[str]:
    """Yields the table of one number of clients."""
    yield "\n| at once | asked | create, ms | added, ms | ours to it | in fifths | CPU, ms | ours to it |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    parts = [slice(part, None, 5) for part in range(5)]
    creates = clients * (CREATES[clients] + 1) * len(times[NONE])
    spent = {name: (used[name] - used[NONE]) * 10 / creates for name in times}
    for name, time in times.items():
        row = f"| {clients} | {name} | {statistics.median(itertools.chain(*time)) / 1000:.2f} |"
        if name == NONE:
            yield f"{row} | | | | |"
            continue
        ratios = [added(times, OURS, part) / added(times, name, part) for part in (slice(None), *parts)]
        row += f" {added(times, name):.2f} | {ratios[0]:.2f} | {min(ratios):.2f} to {max(ratios):.2f} |"
        yield f"{row} {spent[name]:.2f} | {spent[OURS] / spent[name]:.2f} |"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.admission", description=__doc__)
    parser.add_argument("--before", default="cb0109a", help="the commit whose patch Go answers as well")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ultraserver-bench-") as name:
        folder, program = Path(name), Path(name) / "admission"
        before = Source(options.before, options.before).export(folder / "before")
        patches = [patch(webhook.REPOSITORY, folder / "go-now"), patch(before, folder / "go-before")]
        source = str(Path(__file__).with_name("main.go"))
        golang.find_toolchain(folder / "go", say).output("build", "-o", str(program), source, folder=folder)
        with (
            Storage(folder / "plane", say=say) as plane,
            registered(plane, folder / "certificates", program, patches) as names,
        ):
            for clients in CREATES:
                result = blocks(plane, program, names, clients, options.rounds)
                say("\n".join(shown(*result, clients)))


if __name__ == "__main__":
    main()
